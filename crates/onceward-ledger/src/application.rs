//! Claims of applications that run their own functions: claim → dispatching → run → settle, with the same rules.
//!
//! An application's claim has an owner of its own and a time by which it must be settled. Its secret is derived and not
//! stored: whoever holds it may settle this attempt, and nobody else (R19).

use std::time::Duration;

use onceward_core::classify::FunctionEnd;
use onceward_core::contract::{
    AbsenceIsProof, Confidence, Consistency, Contract, Lookup, LookupKind, LookupRequest, Span,
};
use onceward_core::decide::{Decision, Request, decide};
use onceward_core::event::{About, Basis, Cause, Claim, DispatchMark, Event, NotSent, Observation, Source, Verdict};
use onceward_core::hex;
use onceward_core::key::{AttemptNumber, OperationId, OperationKey, OutboundKey, OwnerId};
use onceward_core::operation::{Dispatcher, Operation, Pin};
use onceward_core::outcome::{Envelope, Role, possible_duplicate, report};
use onceward_core::receipt::{Receipt, Rejection};
use onceward_core::state::{Finding, State};
use onceward_core::step::Refusal;
use onceward_core::time::Timestamp;
use subtle::ConstantTimeEq;

use crate::approvals::still_alone;
use crate::authorize::{Authorized, Execute};
use crate::beside::is_by_resemblance;
use crate::call::Call;
use crate::error::LedgerError;
use crate::execute::{Claimed, is_the_dispatchers, told, visibility};
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::settle::Recorded;
use crate::store::{Applied, Command, Expects, Opening, Priority, Step};

/// What an application that asks for a claim gets.
#[derive(Debug)]
pub enum ClaimAnswer {
    /// It holds the attempt. It must see [`Ledger::begin_claim`] answered before it runs anything.
    Granted(Box<Granted>),
    /// There is nothing to run: the envelope says why, with the receipt where there is one.
    Answered(Box<Envelope>),
}

/// On what terms an application asks for a claim.
#[derive(Clone, Debug)]
pub struct ClaimTerms {
    /// How long it may stay unsettled without a heartbeat.
    pub settle_within: Duration,
    /// How the application will look for the effect, should its settlement be lost; without it a person settles that.
    pub lookup: Option<OwnLookup>,
    /// Whether its dispatch begins with the claim, in the same commit, or with [`Ledger::begin_claim`].
    pub dispatch: DispatchMark,
    /// By what the same claim may be asked for again.
    pub token: Option<ClaimToken>,
}

impl From<Duration> for ClaimTerms {
    fn from(settle_within: Duration) -> Self {
        Self { settle_within, lookup: None, dispatch: DispatchMark::Announced, token: None }
    }
}

/// A random text that an application makes up for one run of its function. Whoever asks for a claim and brings the token of the
/// attempt that is pending gets that claim again, so that a lost answer to a claim costs nothing. It lives in the memory of that run
/// and nowhere else: kept for another run, it would let the function run twice.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimToken(String);

impl ClaimToken {
    /// Fewer characters could be guessed, or made twice.
    pub const CHARS_MIN: usize = 16;
    /// More say nothing more.
    pub const CHARS_MAX: usize = 64;

    /// `None` unless it is [`Self::CHARS_MIN`] to [`Self::CHARS_MAX`] visible ASCII characters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (Self::CHARS_MIN..=Self::CHARS_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClaimToken(…)")
    }
}

/// What an application says about looking for the effect of its own function. It is a contract like a destination's, pinned
/// with the operation: what it says later changes nothing about what is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLookup {
    /// How long after the effect an answer may still miss it.
    pub visible_after: Duration,
    /// How long after its claim the function may still have its effect; `None` where nobody knows: then finding nothing never
    /// proves anything.
    pub works_for: Option<Duration>,
    /// How many answers in a row without the effect prove that there is none; `None` where none do.
    pub absences_required: Option<u32>,
}

impl OwnLookup {
    fn contract(&self) -> Contract {
        // A part of a second counts as a whole one: it only makes an answer say something later.
        let span = |time: Duration| Span::seconds(time.as_secs() + u64::from(time.subsec_nanos() > 0));
        let mut contract = Contract::promising_nothing("application");
        contract.in_flight.bound = self.works_for.map(span);
        contract.provenance.confidence = Confidence::Operated;
        contract.lookup = Some(Lookup {
            kind: LookupKind::ByClientReference,
            request: LookupRequest::Application,
            items: None,
            absent_statuses: Vec::new(),
            recognise: Vec::new(),
            compare: Vec::new(),
            effect_id: None,
            consistency: Consistency::Eventual,
            absence_is_proof: match self.absences_required {
                Some(_) => AbsenceIsProof::AfterBound,
                None => AbsenceIsProof::Never,
            },
            visibility_delay: Some(span(self.visible_after)),
            absences_required: self.absences_required.unwrap_or(1).max(1),
            list_may_be_cut: false,
            whole_if: None,
        });
        contract
    }
}

/// A granted claim.
#[derive(Debug)]
pub struct Granted {
    /// The operation.
    pub operation: Operation,
    /// Which attempt.
    pub attempt: AttemptNumber,
    /// The one-time secret that marks, extends and settles it. Shown once, derived and not stored.
    pub secret: ClaimSecret,
    /// The idempotency key for whatever the function calls.
    pub outbound_key: Option<OutboundKey>,
    /// Nothing may begin after this.
    pub send_before: Timestamp,
    /// When it must be settled, or extended.
    pub settle_by: Timestamp,
}

/// The secret of one claim: its owner's name and a keyed hash.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimSecret(String);

impl ClaimSecret {
    /// From the text that a caller sends back.
    #[must_use]
    pub const fn from_text(text: String) -> Self {
        Self(text)
    }

    /// The text, to be given to the claim's holder and to nobody else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ClaimSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClaimSecret(…)")
    }
}

/// Which claim, as its holder names it.
#[derive(Clone, Debug)]
pub struct ClaimRef {
    /// The operation.
    pub id: OperationId,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// Its secret.
    pub secret: ClaimSecret,
}

impl Ledger {
    /// Claims the next attempt of a call that the application will run itself.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was granted and nothing may be run.
    pub async fn claim(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        terms: impl Into<ClaimTerms>,
    ) -> Result<ClaimAnswer, LedgerError> {
        let answered = self.claim_here(allowed, call, terms.into()).await;
        self.inner.metrics.claimed(allowed.tool(), &answered);
        answered
    }

    async fn claim_here(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        terms: ClaimTerms,
    ) -> Result<ClaimAnswer, LedgerError> {
        if self.inner.is_stopping() {
            return Err(LedgerError::ShuttingDown);
        }
        let mut key = call.key(allowed);
        let settle_within = terms.settle_within.min(limits::SETTLE_WITHIN_MAX);
        for _ in 0..limits::RACES_MAX {
            let (operation, fresh) = match self.inner.look(&key).await? {
                Some(operation) => {
                    let request = Request { tool: allowed.tool(), arguments: &call.arguments };
                    let decision = decide(&operation, request, &self.inner.keys)?;
                    match self.inner.gone_on_with(&operation, &decision, limits::BESIDE_MAX).await? {
                        Some(beside) if is_by_resemblance(&beside) => {
                            let envelope = possible_duplicate(&beside, visibility(allowed, &beside));
                            return Ok(ClaimAnswer::Answered(Box::new(envelope)));
                        }
                        Some(beside) => {
                            key = beside.key;
                            continue;
                        }
                        None => {}
                    }
                    match decision {
                        decision if is_the_dispatchers(&operation, &decision) => {
                            return Ok(ClaimAnswer::Answered(Box::new(told(&operation, Role::Repeater))));
                        }
                        Decision::InProgress if self.inner.is_its_claim(&operation, allowed, &terms) => {
                            return Ok(self.inner.granted(operation));
                        }
                        // Its key, its request and its approval are for the destination it was made for.
                        Decision::Ready if operation.terms.pin.as_ref().is_some_and(|pin| !pin.is_own_function()) => {
                            return Err(LedgerError::OtherRunner { made_for: "the gateway" });
                        }
                        // A copy of a request that its sender has had answered and given back: it has no one who would run it.
                        Decision::Ready if self.inner.was_its_claim(&operation, allowed, &terms) => {
                            return Err(LedgerError::ClaimLost);
                        }
                        Decision::Ready => {
                            let another_version = operation.history.approved_by.is_some()
                                && operation.binding.tool_version != call.tool_version;
                            if another_version || call.is_let_through_by_observing(&operation) {
                                return Err(LedgerError::ApprovalVoid);
                            }
                            if let Some(earlier) = self.inner.unresolved_beside(&operation).await? {
                                let envelope = self.inner.suspected(allowed, &earlier).await?;
                                return Ok(ClaimAnswer::Answered(Box::new(envelope)));
                            }
                            (operation, None)
                        }
                        decision => {
                            if let Decision::Conflict(_) = &decision
                                && let Some(own) = self.inner.sent_for(&operation, request).await?
                            {
                                key = own.key;
                                continue;
                            }
                            return Ok(ClaimAnswer::Answered(Box::new(report(&operation, &decision, Role::Repeater))));
                        }
                    }
                }
                None => {
                    let probe = call.probe(allowed, &self.inner.secret);
                    let pin = self.inner.own_pin(&terms).await?;
                    let now = self.inner.clock.now();
                    let operation =
                        call.operation(allowed, &self.inner.keys, Dispatcher::Caller, probe.as_ref(), pin, now)?;
                    (operation, Some(probe))
                }
            };
            let claim = self.inner.application_claim(&operation, allowed, settle_within, &terms);
            let actor = format!("principal:{}", allowed.principal());
            let command = match fresh {
                Some(probe) => {
                    let events = match operation.state {
                        State::Approved(_) => vec![Event::Claim(claim.clone())],
                        State::Proposed(_)
                        | State::Pending(_)
                        | State::Unknown(_)
                        | State::Succeeded(_)
                        | State::Rejected(_)
                        | State::Closed(_) => Vec::new(),
                    };
                    let probe = probe.filter(|_| !call.is_beside_another());
                    Command::Open(Box::new(Opening { operation, events, actor, probe }))
                }
                None => {
                    let (events, expects) = (vec![Event::Claim(claim.clone())], still_alone(&operation));
                    Command::Step(Box::new(Step { key: key.clone(), events, actor, expects }))
                }
            };
            match self.inner.store.submit(command, Priority::Claim).await? {
                Applied::Opened(operation) | Applied::Stepped(operation) => {
                    return Ok(self.inner.granted(operation));
                }
                Applied::Suspected(earlier) if self.inner.closed_leftover(&earlier).await? => {}
                Applied::Suspected(earlier) if self.inner.goes_on_with(allowed, &call, &earlier)? => key = earlier.key,
                Applied::Suspected(earlier) => {
                    let envelope = self.inner.suspected(allowed, &earlier).await?;
                    return Ok(ClaimAnswer::Answered(Box::new(envelope)));
                }
                Applied::Refused { refusal, operation } => match self.inner.refused_claim(refusal, operation).await? {
                    Claimed::Stays(operation) => {
                        return Ok(ClaimAnswer::Answered(Box::new(told(&operation, Role::Repeater))));
                    }
                    Claimed::Held(..) | Claimed::Moved => {}
                },
                Applied::Existing(_) | Applied::NoSuchOperation | Applied::Done => {}
            }
        }
        Err(LedgerError::Contended)
    }

    /// Marks that the claim's holder is about to run it. Durable when this answers; only then may it run.
    ///
    /// # Errors
    /// [`LedgerError::ClaimLost`], or [`LedgerError::Illegal`] when it had been marked before or the time has passed:
    /// nothing may be run.
    pub async fn begin_claim(&self, allowed: &Authorized<Execute>, claim: &ClaimRef) -> Result<Operation, LedgerError> {
        let (Operation { key, .. }, owner) = self.inner.holder(allowed, claim).await?;
        let event = Event::Begin { attempt: claim.attempt, owner };
        self.inner.step_claim(&key, event, allowed).await
    }

    /// Asks for more time to settle.
    ///
    /// # Errors
    /// [`LedgerError::ClaimLost`] when the attempt was recovered meanwhile: its settlement will be evidence.
    pub async fn extend_claim(
        &self,
        allowed: &Authorized<Execute>,
        claim: &ClaimRef,
        settle_within: Duration,
    ) -> Result<Operation, LedgerError> {
        let (Operation { key, .. }, owner) = self.inner.holder(allowed, claim).await?;
        let settle_by = self.inner.clock.now().plus(settle_within.min(limits::SETTLE_WITHIN_MAX));
        let event = Event::Extend { attempt: claim.attempt, owner, settle_by };
        self.inner.step_claim(&key, event, allowed).await
    }

    /// Settles a claim. One that was recovered meanwhile is settled as late evidence: the report is recorded either way.
    ///
    /// # Errors
    /// [`LedgerError::WrongSecret`]: nothing changed.
    pub async fn settle_claim(
        &self,
        allowed: &Authorized<Execute>,
        claim: &ClaimRef,
        end: FunctionEnd,
    ) -> Result<Envelope, LedgerError> {
        let (operation, owner) = self.inner.holder(allowed, claim).await?;
        let key = operation.key.clone();
        let seen = Observation {
            about: About::Attempt(claim.attempt),
            verdict: verdict(end, &operation, claim.attempt, self.inner.clock.now()),
            source: Source::Owner(owner),
            next_check: None,
            note: None,
        };
        let next_check = self.inner.check_after(&operation, &seen, None).await.unwrap_or_default();
        let seen = Observation { next_check, ..seen };
        let actor = format!("principal:{}", allowed.principal());
        let recorded = match self.inner.record(&key, &actor, seen.clone()).await? {
            Recorded::Refused(Refusal::ClaimLost, _) => {
                let late = Observation { source: Source::LateAnswer, ..seen };
                self.inner.record(&key, &actor, late).await?
            }
            recorded => recorded,
        };
        match recorded {
            Recorded::Done(operation) => Ok(told(&operation, Role::Executor)),
            Recorded::Refused(refusal, _) => Err(LedgerError::Illegal(refusal)),
        }
    }
}

/// What the end of a function says about the attempt. A failure before the mark is surely not sent; after it, it may have
/// been.
fn verdict(end: FunctionEnd, operation: &Operation, attempt: AttemptNumber, now: Timestamp) -> Verdict {
    match end {
        FunctionEnd::Done { effect_id, answer } => Verdict::Effect(Receipt { effect_id, answer, received_at: now }),
        FunctionEnd::Refused(answer) => Verdict::Refusal(Rejection { answer, received_at: now }),
        FunctionEnd::NothingSent => Verdict::NotSent(NotSent::NeverBegun),
        // Recovery has read it as never begun, and nobody may run before the mark was answered: it says the same.
        FunctionEnd::Failed if never_begun(operation, attempt) => Verdict::NotSent(NotSent::NeverBegun),
        FunctionEnd::Failed => match &operation.state {
            State::Pending(pending) if pending.attempt.number == attempt && pending.attempt.begun_at.is_none() => {
                Verdict::NotSent(NotSent::NeverBegun)
            }
            State::Pending(_)
            | State::Proposed(_)
            | State::Approved(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Verdict::Lost(Cause::FunctionFailed),
        },
    }
}

fn never_begun(operation: &Operation, attempt: AttemptNumber) -> bool {
    operation.history.disproved(attempt).is_some_and(|one| one.finding == Finding::NotSent(NotSent::NeverBegun))
}

impl Inner {
    /// What an application says of its lookups, durable before anything is claimed on it.
    async fn own_pin(&self, terms: &ClaimTerms) -> Result<Option<Pin>, LedgerError> {
        let Some(lookup) = &terms.lookup else { return Ok(None) };
        let contract = lookup.contract();
        let hash = hex::encode(&contract.content_hash());
        self.pins.pin(&*self.store, &hash, &contract).await?;
        Ok(Some(Pin { contract: hash, scope: Pin::OWN_FUNCTION.to_owned(), request: None }))
    }

    fn application_claim(
        &self,
        operation: &Operation,
        allowed: &Authorized<Execute>,
        settle_within: Duration,
        terms: &ClaimTerms,
    ) -> Claim {
        let now = self.clock.now();
        let generation = operation.history.generation;
        Claim {
            attempt: AttemptNumber(operation.history.attempts + 1),
            owner: match &terms.token {
                Some(token) => self.token_owner(operation, allowed, token),
                None => claim_owner(&uuid::Uuid::new_v4().to_string()),
            },
            basis: Basis::NoEffectSoFar,
            generation,
            outbound_key: Some(self.key_of(operation, generation)),
            send_before: now.plus(settle_within),
            settle_by: Some(now.plus(settle_within)),
            dispatch: terms.dispatch,
        }
    }

    /// Whether the attempt that is pending was claimed by this principal with this token, and its holder may still begin.
    pub(crate) fn is_its_claim(
        &self,
        operation: &Operation,
        allowed: &Authorized<Execute>,
        terms: &ClaimTerms,
    ) -> bool {
        match (&operation.state, &terms.token) {
            (State::Pending(pending), Some(token)) => {
                let begun = match terms.dispatch {
                    DispatchMark::WithClaim => pending.attempt.begun_at.is_some(),
                    DispatchMark::Announced => pending.attempt.begun_at.is_none(),
                };
                pending.attempt.owner == self.token_owner(operation, allowed, token)
                    && begun
                    && self.clock.now() < pending.attempt.send_before
            }
            _ => false,
        }
    }

    /// Whether a claim with this token was granted and given back. One that had not begun is granted anew: nobody ran on it.
    fn was_its_claim(&self, operation: &Operation, allowed: &Authorized<Execute>, terms: &ClaimTerms) -> bool {
        let Some(token) = terms.token.as_ref().filter(|_| terms.dispatch == DispatchMark::WithClaim) else {
            return false;
        };
        let owner = self.token_owner(operation, allowed, token);
        operation.history.disproved.iter().any(|one| one.owner.as_ref() == Some(&owner))
    }

    fn granted(&self, operation: Operation) -> ClaimAnswer {
        let State::Pending(pending) = &operation.state else {
            return ClaimAnswer::Answered(Box::new(told(&operation, Role::Repeater)));
        };
        let attempt = &pending.attempt;
        ClaimAnswer::Granted(Box::new(Granted {
            attempt: attempt.number,
            secret: self.claim_secret(&operation.key, attempt.number, &attempt.owner),
            outbound_key: attempt.outbound_key.clone(),
            send_before: attempt.send_before,
            settle_by: attempt.settle_by.unwrap_or(attempt.send_before),
            operation,
        }))
    }

    /// The id under which a claim with this token goes on beside an operation that it met in observe mode.
    pub(crate) fn spare_of(&self, key: &OperationKey, token: &ClaimToken) -> Result<OperationId, LedgerError> {
        let parts = [key.tenant.as_str().as_bytes(), key.id.as_str().as_bytes(), token.0.as_bytes()];
        let hash = self.secret.keyed_hash(b"onceward observed claim v1\0", &parts);
        OperationId::parse(&format!("observed-{}", hex::encode(&hash[..16]))).map_err(|_| LedgerError::Contended)
    }

    /// The owner that a token stands for in the hands of who claims: nobody who reads its name in the journal can make the token
    /// of it.
    fn token_owner(&self, operation: &Operation, allowed: &Authorized<Execute>, token: &ClaimToken) -> OwnerId {
        let key = &operation.key;
        let names = [key.tenant.as_str(), key.id.as_str(), allowed.principal().as_str(), &token.0];
        let parts = names.map(str::as_bytes);
        let hash = self.secret.keyed_hash(b"onceward claim token v1\0", &parts);
        claim_owner(&hex::encode(&hash[..16]))
    }

    fn claim_secret(&self, key: &OperationKey, attempt: AttemptNumber, owner: &OwnerId) -> ClaimSecret {
        let hash = self.secret.keyed_hash(
            b"onceward claim secret v1\0",
            &[
                key.tenant.as_str().as_bytes(),
                key.id.as_str().as_bytes(),
                &attempt.0.to_be_bytes(),
                owner.as_str().as_bytes(),
            ],
        );
        ClaimSecret(format!("{owner}.{}", hex::encode(&hash)))
    }

    /// The operation, and the owner that a claim's secret speaks for, once the secret
    /// is proved to be this claim's and the operation to be of
    /// the tool that the caller may call.
    async fn holder(
        &self,
        allowed: &Authorized<Execute>,
        claim: &ClaimRef,
    ) -> Result<(Operation, OwnerId), LedgerError> {
        let key = OperationKey { tenant: allowed.tenant().clone(), id: claim.id.clone() };
        let operation = self.look(&key).await?.ok_or(LedgerError::NotFound)?;
        if operation.binding.tool != *allowed.tool() {
            return Err(LedgerError::NotFound);
        }
        let owner = claim.secret.0.split_once('.').map(|(owner, _)| owner).unwrap_or_default();
        let owner = OwnerId::parse(owner).map_err(|_| LedgerError::WrongSecret)?;
        let expected = self.claim_secret(&key, claim.attempt, &owner);
        if bool::from(expected.0.as_bytes().ct_eq(claim.secret.0.as_bytes())) {
            Ok((operation, owner))
        } else {
            Err(LedgerError::WrongSecret)
        }
    }

    async fn step_claim(
        &self,
        key: &OperationKey,
        event: Event,
        allowed: &Authorized<Execute>,
    ) -> Result<Operation, LedgerError> {
        let actor = format!("principal:{}", allowed.principal());
        let step = Step { key: key.clone(), events: vec![event], actor, expects: Expects::Anything };
        match self.step(step).await? {
            Applied::Stepped(operation) => Ok(operation),
            Applied::Refused { refusal: Refusal::ClaimLost, .. } => Err(LedgerError::ClaimLost),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
            Applied::NoSuchOperation => Err(LedgerError::NotFound),
            Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_) | Applied::Done => {
                Err(LedgerError::Contended)
            }
        }
    }
}

/// Every claim has an owner of its own, so that the end of a gateway says nothing about an application.
fn claim_owner(name: &str) -> OwnerId {
    OwnerId::parse(&format!("claim-{name}")).unwrap_or_else(|_| unreachable!("hex digits and dashes are a name"))
}
