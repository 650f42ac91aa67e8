//! Observe mode: calls are recorded and forwarded, and none is held back, replayed or refused by a rule.
//!
//! The first call of an intention becomes an operation as it always does. A call that would have been blocked is made all the same, as an
//! operation of its own under a spare id, which says what it would have come to and which operation it met. So the next call is
//! judged against the same ledger as it would be without observing, and nothing that is known of an operation is ever touched by a
//! call that was only forwarded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::{AttemptFacts, Body, Observed as Seen, classify, kept_headers};
use onceward_core::code::Code;
use onceward_core::contract::Contract;
use onceward_core::decide::{Conflict, Decision, Request, decide};
use onceward_core::event::Verdict;
use onceward_core::evidence::ChildProcess;
use onceward_core::key::{AttemptNumber, Generation, OperationId, OperationKey, OutboundKey};
use onceward_core::operation::Operation;
use onceward_core::outcome::{AnswerSource, Dispatched, Envelope, NextAction, Observed, Outcome, Role, report};
use onceward_core::receipt::Answer;
use onceward_core::retry::RetryPolicy;
use onceward_core::sighting::{Sighting, WouldBe};
use onceward_core::state::State;
use onceward_core::time::Timestamp;

use crate::application::{ClaimAnswer, ClaimTerms};
use crate::authorize::{Authorized, Execute};
use crate::call::{Approval, Call, Identity};
use crate::destination::{Asked, Destination, Dispatch, Question};
use crate::error::LedgerError;
use crate::execute::{Opened, is_the_dispatchers, told};
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::store::BoxFuture;

/// How a call is observed.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The id that it gets where its own is taken or it would be held back; random, chosen by the edge.
    pub spare: OperationId,
    /// Which key goes out where its id belongs to another intention.
    pub in_conflict: KeyInConflict,
    /// Why its surface would have refused it before any operation was looked for.
    pub refused: Option<Code>,
}

/// Which key goes out with a call whose id belongs to another intention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyInConflict {
    /// A new one: the keys are ours, and without us the destination would have seen none.
    New,
    /// The one of that id: the caller chose the key for the destination, which judges it as it would without us.
    Same,
}

impl Ledger {
    /// Makes a call in observe mode: it is sent whatever [`Ledger::execute`] would have said, and recorded with what that would
    /// have been. It is sent once, whatever its retry policy says, and never again by us. The destination's answer is in the envelope
    /// whatever it means, so that a surface can pass it on as it came.
    ///
    /// Where the ledger cannot be read or written the call is forwarded without a record, and the envelope's message says so.
    ///
    /// # Errors
    /// [`LedgerError`]: this call dispatched nothing. Too much is under way, or the engine is stopping.
    pub async fn observe(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        watch: Watch,
        destination: Arc<dyn Destination>,
        wait: Duration,
    ) -> Result<Envelope, LedgerError> {
        let overheard = Arc::new(Overheard { destination, answer: Mutex::default() });
        let destination: Arc<dyn Destination> = Arc::<Overheard>::clone(&overheard);
        let answered = match self.inner.observe(allowed, &call, &watch, &destination, wait).await {
            Err(LedgerError::Store(error)) => {
                tracing::error!(%error, tool = %allowed.tool(), "an observed call is forwarded without a record");
                self.inner.forward_unrecorded(allowed, &call, &watch, &destination).await
            }
            answered => answered,
        };
        let answered = answered.map(|envelope| overheard.completed(envelope));
        self.inner.metrics.called(allowed.tool(), &answered);
        answered
    }

    /// Claims a call in observe mode for an application that runs it itself: granted whatever [`Ledger::claim`] would have said. The
    /// claim may be one of another operation id than the call's, and goes on under that.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was granted and nothing may be run. A claim needs the ledger, also where it is only observed.
    pub async fn observe_claim(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        terms: ClaimTerms,
        watch: Watch,
    ) -> Result<ClaimAnswer, LedgerError> {
        // A claim that is asked for again must find the one that it got under a spare id.
        let spare = match &terms.token {
            Some(token) => self.inner.spare_of(&call.key(allowed), token)?,
            None => watch.spare.clone(),
        };
        let watch = Watch { spare, ..watch };
        let seen = match self.inner.look(&call.key(allowed)).await? {
            Some(operation) if self.inner.is_its_claim(&operation, &terms) => None,
            Some(operation) => Some(self.inner.sight(allowed, &call, &watch, &operation, None).await?),
            None => None,
        };
        if let Some(sighting) = seen {
            return self.claim(allowed, beside(&call, &watch, sighting), terms).await;
        }
        let first = first(&call, &watch);
        match self.claim(allowed, first, terms.clone()).await? {
            ClaimAnswer::Answered(envelope) => {
                let met = envelope.operation_id.clone();
                let sighting = Sighting { would: WouldBe::Told(envelope.outcome), met, key: None };
                self.claim(allowed, beside(&call, &watch, sighting), terms).await
            }
            granted @ ClaimAnswer::Granted(_) => Ok(granted),
        }
    }
}

/// A destination whose answer is kept as it came, also where the rules take it for none.
struct Overheard {
    destination: Arc<dyn Destination>,
    answer: Mutex<Option<Answer>>,
}

impl Overheard {
    /// The envelope with the answer that came, where it has none.
    fn completed(&self, envelope: Envelope) -> Envelope {
        let heard = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (&envelope.answer, heard) {
            (None, Some(answer)) => Envelope { answer: Some(answer), source: AnswerSource::Destination, ..envelope },
            (Some(_), _) | (None, None) => envelope,
        }
    }

    fn hear(&self, seen: &Seen) {
        let answer = match seen {
            Seen::Http { status, headers, body: Body::Whole(body) } => {
                let contract = self.destination.contract();
                let mut kept = kept_headers(contract, headers);
                kept.extend(headers.iter().filter(|(name, _)| tells_when(contract, name)).cloned());
                Answer { status: *status, headers: kept, body: body.clone() }
            }
            Seen::McpResult { answer, .. } => answer.clone(),
            Seen::Http { body: Body::Cut(_), .. }
            | Seen::HeldBack
            | Seen::NotSent(_)
            | Seen::RefusedStream
            | Seen::WriteFailed
            | Seen::NoAnswer(_)
            | Seen::OwnerLost
            | Seen::McpError { .. }
            | Seen::McpStreamLost
            | Seen::Function(_) => return,
        };
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

/// Whether a header says if and when the caller's own client should try again.
fn tells_when(contract: &Contract, name: &str) -> bool {
    let hint = contract.retry_hint.as_ref().is_some_and(|hint| hint.header.eq_ignore_ascii_case(name));
    hint || name.eq_ignore_ascii_case("retry-after")
}

impl Destination for Overheard {
    fn contract(&self) -> &Contract {
        self.destination.contract()
    }

    fn contract_hash(&self) -> String {
        self.destination.contract_hash()
    }

    fn scope(&self) -> &str {
        self.destination.scope()
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let seen = self.destination.send(dispatch).await;
            self.hear(&seen);
            seen
        })
    }

    fn request_digest(&self, arguments: &Canonical) -> Option<String> {
        self.destination.request_digest(arguments)
    }

    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        self.destination.ask(question)
    }

    fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        self.destination.child(claimed_at)
    }
}

/// A call as it is made where nothing stands in its way.
fn first(call: &Call, watch: &Watch) -> Call {
    let would = match (watch.refused, call.approval) {
        (Some(code), _) => WouldBe::Refused(code),
        (None, Approval::Required) => WouldBe::Told(Outcome::ApprovalRequired),
        (None, Approval::NotNeeded) => WouldBe::Sent,
    };
    once(Call { sighting: Some(Sighting { would, ..Sighting::SENT }), ..call.clone() })
}

/// The same call as an operation beside the one that it met.
fn beside(call: &Call, watch: &Watch, sighting: Sighting) -> Call {
    let sighting = match watch.refused {
        Some(code) => Sighting { would: WouldBe::Refused(code), ..sighting },
        None => sighting,
    };
    once(Call { identity: Identity::Given(watch.spare.clone()), sighting: Some(sighting), ..call.clone() })
}

/// Sent by this call, once, without asking anybody.
fn once(call: Call) -> Call {
    Call { approval: Approval::NotNeeded, retry: RetryPolicy { attempts_max: 1, ..call.retry }, ..call }
}

impl Inner {
    async fn observe(
        self: &Arc<Self>,
        allowed: &Authorized<Execute>,
        call: &Call,
        watch: &Watch,
        destination: &Arc<dyn Destination>,
        wait: Duration,
    ) -> Result<Envelope, LedgerError> {
        let until = self.clock.uptime() + wait;
        let mut next = first(call, watch);
        for _ in 0..limits::RACES_MAX {
            let key = next.key(allowed);
            if let Some(operation) = self.look(&key).await? {
                let sighting = self.sight(allowed, call, watch, &operation, Some(destination)).await?;
                next = beside(call, watch, sighting);
                continue;
            }
            let met = |would, met, key| Sighting { would: WouldBe::Told(would), met: Some(met), key };
            next = match self.opened(allowed, &Arc::new(next.clone()), destination).await? {
                Opened::Running(result) => return self.outcome(&key, result, until).await,
                Opened::Waiting(operation) => return Ok(told(&operation, Role::Executor)),
                Opened::Joined(_) => {
                    let sent = self.secret.outbound_key(&key, Generation(1));
                    beside(call, watch, met(Outcome::InProgress, key.id, Some(sent)))
                }
                Opened::Exists => continue,
                Opened::Suspected(earlier) => {
                    beside(call, watch, met(Outcome::PossibleDuplicate, earlier.key.id, None))
                }
            };
        }
        Err(LedgerError::Contended)
    }

    /// What a call that meets this operation would have come to, and the key that goes out with it instead.
    async fn sight(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        watch: &Watch,
        operation: &Operation,
        destination: Option<&Arc<dyn Destination>>,
    ) -> Result<Sighting, LedgerError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        let decision = decide(operation, request, &self.keys)?;
        let would = match (&decision, destination) {
            (Decision::Ready, _) if !is_the_dispatchers(operation, &decision) => WouldBe::Sent,
            (Decision::Unknown, Some(destination)) if operation.history.attempts < call.retry.attempts_max => {
                match self.redrive_permit(operation, destination).await? {
                    Some(_) => WouldBe::Redriven,
                    None => WouldBe::Told(Outcome::Unknown),
                }
            }
            (decision, _) => WouldBe::Told(report(operation, decision, Role::Repeater).outcome),
        };
        let key = match (&decision, watch.in_conflict) {
            (Decision::Conflict(Conflict::OtherTool), _) | (Decision::Conflict(_), KeyInConflict::New) => None,
            (_, _) => Some(self.key_in_use(operation)),
        };
        Ok(Sighting { would, met: Some(operation.key.id.clone()), key })
    }

    /// The key that a repetition of the operation would carry.
    fn key_in_use(&self, operation: &Operation) -> OutboundKey {
        let last = match &operation.state {
            State::Pending(pending) => pending.attempt.outbound_key.clone(),
            State::Unknown(unknown) => unknown.latest().outbound_key.clone(),
            State::Proposed(_) | State::Approved(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
                None
            }
        };
        last.unwrap_or_else(|| self.key_of(operation, operation.history.generation))
    }

    /// Sends a call that no ledger could record.
    async fn forward_unrecorded(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        watch: &Watch,
        destination: &Arc<dyn Destination>,
    ) -> Result<Envelope, LedgerError> {
        let _place = self.admit_dispatch()?;
        let key = OperationKey { tenant: allowed.tenant().clone(), id: call.identity.id().clone() };
        let now = self.clock.now();
        let dispatch = Dispatch {
            outbound_key: Some(self.secret.outbound_key(&key, Generation(1))),
            key,
            tool: allowed.tool().clone(),
            arguments: Arc::clone(&call.arguments),
            attempt: AttemptNumber(1),
            claimed_at: now,
            first_claimed_at: now,
            send_before: self.clock.uptime() + limits::SEND_WITHIN,
            answer_within: call.answer_within,
            clock: Arc::clone(&self.clock),
        };
        let seen: Seen = destination.send(dispatch).await;
        let facts = AttemptFacts {
            redrive: false,
            earlier_uncertain: false,
            arguments: Some(call.arguments.value()),
            now: self.clock.now(),
        };
        let (outcome, dispatched, answer) = match classify(destination.contract(), &facts, &seen).verdict {
            Verdict::Effect(receipt) => (Outcome::Executed, Dispatched::Yes, Some(receipt.answer)),
            Verdict::Refusal(refused) => (Outcome::Rejected, Dispatched::Yes, Some(refused.answer)),
            Verdict::NotSent(_) | Verdict::NoEffect(_) => (Outcome::NotDispatched, Dispatched::No, None),
            Verdict::Lost(_) | Verdict::OtherEffect(_) => (Outcome::Unknown, Dispatched::Maybe, None),
        };
        Ok(unrecorded(watch, outcome, dispatched, answer))
    }
}

/// What the caller of a call without a record is told. There is no operation to ask about.
fn unrecorded(watch: &Watch, outcome: Outcome, dispatched: Dispatched, answer: Option<Answer>) -> Envelope {
    let would = watch.refused.map_or(WouldBe::Sent, WouldBe::Refused);
    Envelope {
        outcome,
        operation_id: None,
        state: String::new(),
        attempts: 1,
        dispatched,
        source: if answer.is_some() { AnswerSource::Destination } else { AnswerSource::Gateway },
        replayed: false,
        first_seen_at: String::new(),
        as_of: None,
        next_action: if answer.is_some() { NextAction::None } else { NextAction::AskOperator },
        check_after: None,
        settles_by: None,
        message: "The gateway only observes, and its ledger could not be used: the call was sent once and left no record, so nothing \
                  here can tell later what became of it."
            .to_owned(),
        differences: Vec::new(),
        disagreement: None,
        observed: Some(Observed { would: would.name().to_owned(), met: None }),
        answer,
    }
}
