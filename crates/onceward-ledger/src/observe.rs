//! Observe mode: calls are recorded and forwarded, and none is held back, replayed or refused by a rule.
//!
//! The first call of an intention becomes an operation as it always does. A call that would have been blocked is made all the same, as an
//! operation of its own under a spare id, which says what it would have come to and which operation it met. So the next call is
//! judged against the same ledger as it would be without observing. A call that was sent beside an operation of the same intention
//! and done is evidence about that one, and once the rules bind, nothing is sent that one beside it may have done.

mod overheard;

use std::sync::Arc;
use std::time::Duration;

use onceward_core::classify::{AttemptFacts, Observed as Seen, classify};
use onceward_core::code::Code;
use onceward_core::decide::{Conflict, Decision, Request, decide};
use onceward_core::event::Verdict;
use onceward_core::key::{AttemptNumber, Generation, OperationId, OperationKey, OutboundKey};
use onceward_core::operation::Operation;
use onceward_core::outcome::{AnswerSource, Dispatched, Envelope, NextAction, Observed, Outcome, Role, report};
use onceward_core::receipt::Answer;
use onceward_core::retry::RetryPolicy;
use onceward_core::sighting::{Sighting, WouldBe};
use onceward_core::state::State;

use self::overheard::Overheard;
use crate::application::{ClaimAnswer, ClaimTerms};
use crate::authorize::{Authorized, Execute};
use crate::beside::is_by_resemblance;
use crate::call::{Approval, Call, Identity};
use crate::destination::{Destination, Dispatch, LateAnswer};
use crate::error::LedgerError;
use crate::execute::{Opened, Resumed, is_the_dispatchers, told};
use crate::ledger::{Inner, Ledger};
use crate::limits;

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
        let overheard = Overheard::at(destination);
        let destination: Arc<dyn Destination> = Arc::<Overheard>::clone(&overheard);
        let answered = match self.inner.observe(allowed, &call, &watch, &destination, wait).await {
            Err(LedgerError::Store(_)) if overheard.has_sent() => Err(LedgerError::OutOfSight),
            Err(LedgerError::Store(error)) => {
                tracing::error!(%error, tool = %allowed.tool(), "an observed call is forwarded without a record");
                self.inner.forward_unrecorded(allowed, &call, &watch, &destination).await
            }
            answered => answered,
        };
        let sent = || Observed { would: WouldBe::Sent.name().to_owned(), met: None };
        let answered = answered.map(|envelope| {
            let envelope = overheard.completed(envelope);
            Envelope { observed: envelope.observed.or_else(|| Some(sent())), ..envelope }
        });
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
        let key = call.key(allowed);
        let met = self.inner.look(&key).await?;
        if let Some(operation) = met
            && !self.inner.is_its_claim(&operation, allowed, &terms)
            && !self.inner.is_free(allowed, &call, &operation)?
        {
            let sighting = self.inner.sight(allowed, &call, &watch, &operation, None).await?;
            return self.claim(allowed, beside(&call, &watch, sighting), terms).await;
        }
        let would = match self.claim(allowed, first(&call, &watch), terms.clone()).await {
            Ok(ClaimAnswer::Answered(envelope)) => (WouldBe::Told(envelope.outcome), envelope.operation_id),
            Err(LedgerError::OtherRunner { .. } | LedgerError::ApprovalVoid) => {
                (WouldBe::Refused(Code::IllegalMove), Some(key.id.clone()))
            }
            granted => return granted,
        };
        // Its own, which somebody else was faster to claim, or one that it looks like.
        let sighting = match self.inner.look(&key).await? {
            Some(operation) => {
                let seen = self.inner.sight(allowed, &call, &watch, &operation, None).await?;
                Sighting { would: if seen.would.is_blocked() { seen.would } else { would.0 }, ..seen }
            }
            None => Sighting { would: would.0, met: would.1, key: None },
        };
        self.claim(allowed, beside(&call, &watch, sighting), terms).await
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

/// The same call as an operation beside the one that it met. Without an identity it keeps the mark by which a later call is held.
fn beside(call: &Call, watch: &Watch, sighting: Sighting) -> Call {
    let sighting = match watch.refused {
        Some(code) => Sighting { would: WouldBe::Refused(code), ..sighting },
        None => sighting,
    };
    let identity = match &call.identity {
        Identity::Given(_) => Identity::Given(watch.spare.clone()),
        Identity::Held { business_key, .. } | Identity::Second { business_key, .. } => {
            Identity::Held { minted: watch.spare.clone(), business_key: business_key.clone() }
        }
    };
    once(Call { identity, sighting: Some(sighting), ..call.clone() })
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
        let met = |would, met, key| Sighting { would, met: Some(met), key };
        let duplicate = |earlier: Operation| Sighting {
            would: WouldBe::Told(Outcome::PossibleDuplicate),
            met: Some(earlier.key.id),
            key: None,
        };
        let mut next = first(call, watch);
        let mut key = next.key(allowed);
        for _ in 0..limits::RACES_MAX {
            let this = Arc::new(next.clone());
            let sighting = match self.look(&key).await? {
                None => match self.opened(allowed, &this, destination).await? {
                    Opened::Running(result) => return self.outcome(&key, result, until).await,
                    Opened::Waiting(operation) => return Ok(told(&operation, Role::Executor)),
                    // Somebody else was faster, and is looked at.
                    Opened::Exists => continue,
                    Opened::Joined(_) => {
                        self.inserted(&key).await?;
                        continue;
                    }
                    Opened::Suspected(earlier) if self.goes_on_with(allowed, call, &earlier)? => {
                        key = earlier.key;
                        continue;
                    }
                    Opened::Suspected(earlier) => duplicate(earlier),
                },
                // Surely nothing of it has happened: its next attempt is this call, as it would be anyway.
                Some(operation) if self.is_free(allowed, call, &operation)? => {
                    match self.resumed(&operation, &Decision::Ready, &this, destination).await {
                        Ok(Resumed::Running(result)) => return self.outcome(&key, result, until).await,
                        Ok(Resumed::Moved) => continue,
                        Ok(Resumed::Joined(_)) => {
                            let running = WouldBe::Told(Outcome::InProgress);
                            met(running, key.id.clone(), Some(self.key_in_use(&operation)))
                        }
                        Ok(Resumed::Suspected(earlier)) => duplicate(*earlier),
                        Ok(Resumed::CarriedOn) => {
                            self.sight(allowed, call, watch, &operation, Some(destination)).await?
                        }
                        Ok(Resumed::Stays(_)) | Err(LedgerError::OtherRunner { .. } | LedgerError::ApprovalVoid) => {
                            met(WouldBe::Refused(Code::IllegalMove), key.id.clone(), Some(self.key_in_use(&operation)))
                        }
                        Err(error) => return Err(error),
                    }
                }
                Some(operation) => self.sight(allowed, call, watch, &operation, Some(destination)).await?,
            };
            next = beside(call, watch, sighting);
            key = next.key(allowed);
        }
        Err(LedgerError::Contended)
    }

    /// Whether the operation is this call's own and may be sent by it, enforced as well: surely nothing of it has happened.
    fn is_free(&self, allowed: &Authorized<Execute>, call: &Call, operation: &Operation) -> Result<bool, LedgerError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        let decision = decide(operation, request, &self.keys)?;
        Ok(decision == Decision::Ready && !is_the_dispatchers(operation, &decision))
    }

    /// Waits until the operation is there that another call of this process is about to insert, or is not going to be.
    async fn inserted(&self, key: &OperationKey) -> Result<(), LedgerError> {
        let mut pause = limits::POLL_FIRST;
        while self.running.contains(key) && self.look(key).await?.is_none() {
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(limits::POLL_MAX);
        }
        Ok(())
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
        let id = operation.key.id.clone();
        let decision = decide(operation, request, &self.keys)?;
        // The call is sent in any case and must not wait for a long history: where that is not read to its end, the operation's own
        // state is told.
        let beside = match self.gone_on_with(operation, &decision, limits::BESIDE_SIGHTED_MAX).await {
            Err(LedgerError::Unresolved { .. }) => None,
            beside => beside?,
        };
        if beside.as_ref().is_some_and(is_by_resemblance) {
            return Ok(Sighting { would: WouldBe::Told(Outcome::PossibleDuplicate), met: Some(id), key: None });
        }
        let operation = beside.as_ref().unwrap_or(operation);
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
        Ok(Sighting { would, met: Some(id), key })
    }

    /// The key that a repetition of the operation would carry.
    pub(crate) fn key_in_use(&self, operation: &Operation) -> OutboundKey {
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
            late: LateAnswer::to_nobody(),
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
