//! The whole machine: one match over (state, event), without a wildcard.
//!
//! Used by the writer of every store, by recovery and by the model checker alike. It decides; it never asks a clock.

use crate::event::{
    About, Basis, Cause, Claim, CloseReason, DispatchMark, Event, NoEffect, NotSent, Observation, PurgeScope, Source,
    Verdict,
};
use crate::key::{AttemptNumber, OwnerId};
use crate::limits::ATTEMPTS_MAX;
use crate::operation::{DisagreementKind, History, Operation};
use crate::receipt::{Kept, Receipt, Rejection};
use crate::state::{
    Attempt, Closure, ClosureReason, Disproved, Finding, Hold, Pending, Ready, Refused, State, Success, Uncertain,
    Unknown,
};
use crate::time::Timestamp;

/// Why a move is refused. The operation is unchanged, and no dispatch is permitted by a refused claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The attempt is not in these hands (any more). No dispatch may follow; an answer in hand is to be recorded as
    /// late evidence (R1).
    #[error("the claim is lost: the attempt is no longer held by this owner")]
    ClaimLost,
    /// The claim was made with a stale view: the operation has more attempts by now.
    #[error("the operation has {attempts} attempts by now")]
    Stale {
        /// How many.
        attempts: u32,
    },
    /// No such attempt was ever claimed.
    #[error("the operation has no such attempt")]
    NoSuchAttempt,
    /// A dispatch may be under way.
    #[error("an attempt is in flight")]
    AttemptInFlight,
    /// It may have had its effect, and nothing permits another dispatch.
    #[error("an attempt may have had its effect, and nothing permits another dispatch")]
    Uncertain,
    /// It needs approval first.
    #[error("the operation needs approval first")]
    ApprovalRequired,
    /// It is settled.
    #[error("the operation is settled")]
    Settled,
    /// It is not settled.
    #[error("the operation is not settled")]
    NotSettled,
    /// Evidence contradicts what stands; a person decides first.
    #[error("evidence contradicts what is recorded; a person must decide first")]
    InDisagreement,
    /// The deadline has passed; nothing more is sent.
    #[error("the deadline has passed")]
    DeadlinePassed,
    /// The permit does not fit this attempt, this key or this moment.
    #[error("the permit for a redrive does not fit")]
    PermitMismatch,
    /// It has had its share of attempts.
    #[error("the operation has had {ATTEMPTS_MAX} attempts, which is the most")]
    TooManyAttempts,
    /// The dispatch was already begun: it can no longer be read as never sent.
    #[error("the dispatch had begun")]
    Begun,
    /// The time to begin, or to settle, has passed.
    #[error("the time for it has passed")]
    TooLate,
    /// This reason does not close an operation that stands here.
    #[error("the operation cannot be closed for this reason where it stands")]
    CannotClose,
    /// There is nothing to approve.
    #[error("the operation does not wait for approval")]
    NothingToApprove,
}

impl Operation {
    /// The operation after `event`.
    ///
    /// # Errors
    /// [`Refusal`]: nothing changed. Only a successful [`Event::Claim`] ever permits a dispatch.
    pub fn step(mut self, event: &Event, at: Timestamp) -> Result<Self, Refusal> {
        self.state = place(self.state, event, &mut self.history, self.terms.deadline, at)?;
        self.updated_at = at;
        if self.state.is_final() && self.settled_at.is_none() {
            self.settled_at = Some(at);
        }
        if self.state.is_final()
            && let Some(scope) = self.history.erasure.take()
        {
            self.erase(scope, at);
        }
        Ok(self)
    }

    fn erase(&mut self, scope: PurgeScope, at: Timestamp) {
        self.binding.arguments = Kept::Erased { at };
        match (scope, &mut self.state) {
            (PurgeScope::Everything, State::Succeeded(success)) => success.answer = Kept::Erased { at },
            (PurgeScope::Everything, State::Rejected(refused)) => refused.answer = Kept::Erased { at },
            (
                PurgeScope::Arguments | PurgeScope::Everything,
                State::Succeeded(_)
                | State::Rejected(_)
                | State::Closed(_)
                | State::Proposed(_)
                | State::Approved(_)
                | State::Pending(_)
                | State::Unknown(_),
            ) => {}
        }
    }
}

/// Every (state, event). A new state or event does not compile until it is placed.
fn place(
    state: State,
    event: &Event,
    history: &mut History,
    deadline: Option<Timestamp>,
    at: Timestamp,
) -> Result<State, Refusal> {
    use State as S;
    match (state, event) {
        (S::Proposed(_), Event::Approve { .. }) => Ok(S::Approved(Ready::default())),
        (
            S::Approved(_) | S::Pending(_) | S::Unknown(_) | S::Succeeded(_) | S::Rejected(_) | S::Closed(_),
            Event::Approve { .. },
        ) => Err(Refusal::NothingToApprove),

        (S::Approved(_), Event::Claim(claim)) => {
            admit(claim, history, deadline, at)?;
            claim_after_proof(claim, history, at)
        }
        (S::Unknown(unknown), Event::Claim(claim)) => {
            admit(claim, history, deadline, at)?;
            claim_redrive(unknown, claim, history, at)
        }
        (S::Proposed(_), Event::Claim(_)) => Err(Refusal::ApprovalRequired),
        (S::Pending(_), Event::Claim(_)) => Err(Refusal::AttemptInFlight),
        (S::Succeeded(_) | S::Rejected(_) | S::Closed(_), Event::Claim(_)) => Err(Refusal::Settled),

        (S::Pending(pending), Event::Begin { attempt, owner }) => begin(pending, *attempt, owner, at),
        (S::Pending(pending), Event::Extend { attempt, owner, settle_by }) => {
            extend(pending, *attempt, owner, *settle_by, at)
        }
        (
            S::Proposed(_)
            | S::Approved(_)
            | S::Unknown(_)
            | S::Succeeded(_)
            | S::Rejected(_)
            | S::Closed(_),
            Event::Begin { .. } | Event::Extend { .. },
        ) => Err(Refusal::ClaimLost),

        (S::Proposed(_), Event::Observe(seen)) => match (&seen.source, &seen.verdict) {
            // Its approval may have come after the backup, and a dispatch after that.
            (Source::Restore, Verdict::Lost(_)) => restored(seen, history, at),
            (
                Source::Owner(_)
                | Source::Recovery { .. }
                | Source::LateAnswer
                | Source::Lookup
                | Source::Webhook
                | Source::Operator { .. }
                | Source::Restore,
                _,
            ) => Err(Refusal::NoSuchAttempt),
        },
        (S::Approved(ready), Event::Observe(seen)) => observe_approved(ready, seen, history, at),
        (S::Pending(pending), Event::Observe(seen)) => observe_pending(pending, seen, history, at),
        (S::Unknown(unknown), Event::Observe(seen)) => observe_unknown(unknown, seen, history, at),
        (S::Succeeded(success), Event::Observe(seen)) => observe_succeeded(success, seen, history, at),
        (S::Rejected(refused), Event::Observe(seen)) => {
            observe_undone(seen, history, at)?;
            Ok(S::Rejected(refused))
        }
        (S::Closed(closure), Event::Observe(seen)) => {
            observe_undone(seen, history, at)?;
            Ok(S::Closed(closure))
        }

        (S::Proposed(_), Event::Close(reason)) => close_unsent(*reason),
        (S::Approved(_), Event::Close(reason)) => close_unsent(*reason),
        (S::Unknown(unknown), Event::Close(reason)) => close_unknown(unknown, *reason, history, at),
        (S::Pending(_), Event::Close(_) | Event::Supersede { .. }) => Err(Refusal::AttemptInFlight),
        (
            S::Succeeded(_) | S::Rejected(_) | S::Closed(_),
            Event::Close(_) | Event::Supersede { .. },
        ) => Err(Refusal::Settled),

        (S::Proposed(_) | S::Approved(_), Event::Supersede { by, .. }) => {
            Ok(S::Closed(Closure { reason: ClosureReason::SupersededBy(by.clone()), abandoned: Vec::new() }))
        }
        (S::Unknown(unknown), Event::Supersede { by, .. }) => Ok(S::Closed(Closure {
            reason: ClosureReason::SupersededBy(by.clone()),
            abandoned: unknown.attempts().to_vec(),
        })),

        // An erasure of an unsettled operation is queued: its arguments are still needed to settle it (R24). `step`
        // carries it out as soon as the state is final, which for a settled operation is at once.
        (
            state @ (S::Proposed(_)
            | S::Approved(_)
            | S::Pending(_)
            | S::Unknown(_)
            | S::Succeeded(_)
            | S::Rejected(_)
            | S::Closed(_)),
            Event::Purge(scope),
        ) => {
            history.erasure = history.erasure.max(Some(*scope));
            Ok(state)
        }
    }
}

/// What every claim must meet, wherever it starts from.
fn admit(claim: &Claim, history: &History, deadline: Option<Timestamp>, at: Timestamp) -> Result<(), Refusal> {
    if history.attempts >= ATTEMPTS_MAX {
        return Err(Refusal::TooManyAttempts);
    }
    if claim.attempt.0 != history.attempts + 1 {
        return Err(Refusal::Stale { attempts: history.attempts });
    }
    if history.in_disagreement() {
        return Err(Refusal::InDisagreement);
    }
    if deadline.is_some_and(|deadline| at >= deadline) {
        return Err(Refusal::DeadlinePassed);
    }
    if at >= claim.send_before {
        return Err(Refusal::TooLate);
    }
    Ok(())
}

/// The first attempt, or one after every earlier attempt was proved to have had no effect.
fn claim_after_proof(claim: &Claim, history: &mut History, at: Timestamp) -> Result<State, Refusal> {
    match &claim.basis {
        Basis::NoEffectSoFar => {}
        Basis::Redrive(_) => return Err(Refusal::PermitMismatch),
    }
    let next = history.generation.0 + 1;
    let known = claim.generation == history.generation || (history.attempts > 0 && claim.generation.0 == next);
    if !known {
        return Err(Refusal::PermitMismatch);
    }
    Ok(State::Pending(Pending { attempt: take(claim, history, at), earlier: Vec::new() }))
}

/// Another dispatch while an earlier one may have had its effect: only by the destination's own promise (R6).
fn claim_redrive(
    unknown: Unknown,
    claim: &Claim,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    let permit = match &claim.basis {
        Basis::NoEffectSoFar => return Err(Refusal::Uncertain),
        Basis::Redrive(permit) => permit,
    };
    let same_key = unknown.attempts().iter().all(|earlier| {
        earlier.generation == claim.generation
            && earlier.outbound_key.is_some()
            && earlier.outbound_key == claim.outbound_key
    });
    if !same_key || !permit.covers(AttemptNumber(history.attempts), claim.generation, at) {
        return Err(Refusal::PermitMismatch);
    }
    if claim.send_before > permit.valid_until() {
        return Err(Refusal::TooLate);
    }
    Ok(State::Pending(Pending { attempt: take(claim, history, at), earlier: unknown.attempts().to_vec() }))
}

fn take(claim: &Claim, history: &mut History, at: Timestamp) -> Attempt {
    history.attempts = claim.attempt.0;
    history.generation = claim.generation;
    Attempt {
        number: claim.attempt,
        owner: claim.owner.clone(),
        generation: claim.generation,
        outbound_key: claim.outbound_key.clone(),
        claimed_at: at,
        send_before: claim.send_before,
        settle_by: claim.settle_by,
        begun_at: match claim.dispatch {
            DispatchMark::WithClaim => Some(at),
            DispatchMark::Announced => None,
        },
        redrive: matches!(claim.basis, Basis::Redrive(_)),
    }
}

fn begin(
    mut pending: Pending,
    attempt: AttemptNumber,
    owner: &OwnerId,
    at: Timestamp,
) -> Result<State, Refusal> {
    if pending.attempt.number != attempt || pending.attempt.owner != *owner {
        return Err(Refusal::ClaimLost);
    }
    // A second mark would permit a second run by whoever lost the answer to the first.
    if pending.attempt.begun_at.is_some() {
        return Err(Refusal::Begun);
    }
    if at >= pending.attempt.send_before || pending.attempt.settle_by.is_some_and(|settle_by| at >= settle_by) {
        return Err(Refusal::TooLate);
    }
    pending.attempt.begun_at = Some(at);
    Ok(State::Pending(pending))
}

/// More time for an application that is still running its function. Past its time it is too late: recovery may have read it.
fn extend(
    mut pending: Pending,
    attempt: AttemptNumber,
    owner: &OwnerId,
    settle_by: Timestamp,
    at: Timestamp,
) -> Result<State, Refusal> {
    if pending.attempt.number != attempt || pending.attempt.owner != *owner {
        return Err(Refusal::ClaimLost);
    }
    match pending.attempt.settle_by {
        Some(until) if at < until => {
            pending.attempt.settle_by = Some(until.max(settle_by));
            Ok(State::Pending(pending))
        }
        Some(_) | None => Err(Refusal::TooLate),
    }
}

/// Nothing is uncertain here; only a contradiction moves it.
fn observe_approved(
    ready: Ready,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    if let (Source::Restore, Verdict::Lost(_)) = (&seen.source, &seen.verdict) {
        return restored(seen, history, at);
    }
    refuse_holders(&seen.source)?;
    let attempt = one_of(seen.about, history)?;
    match &seen.verdict {
        Verdict::Effect(receipt) => {
            history.disagree(DisagreementKind::EffectAfterDisproof, at);
            Ok(succeed(attempt, receipt, true))
        }
        Verdict::Lost(cause) => match sent_after_all(attempt, cause, history, at) {
            Some(uncertain) => Ok(unknown_with(vec![uncertain], seen.next_check)),
            None => Ok(State::Approved(ready)),
        },
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            let uncertain = reopen(attempt, history);
            Ok(uncertain.map_or(State::Approved(ready), |one| unknown_with(vec![one], seen.next_check)))
        }
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => Ok(State::Approved(ready)),
    }
}

fn observe_pending(
    mut pending: Pending,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    let current = pending.attempt.number;
    let about = match seen.about {
        About::Attempt(attempt) if attempt == current => {
            return observe_current(pending, seen, history, at);
        }
        About::Attempt(attempt) if attempt > current => return Err(Refusal::NoSuchAttempt),
        About::Attempt(attempt) => Some(attempt),
        About::EveryUncertain => None,
    };
    refuse_holders(&seen.source)?;
    if let Source::Operator { .. } = seen.source {
        return Err(Refusal::AttemptInFlight);
    }
    match &seen.verdict {
        // The running attempt's own answer is compared with this receipt when it comes.
        Verdict::Effect(receipt) => {
            let attempt = match about {
                Some(attempt) => attempt,
                None => pending.earlier.last().map(|latest| latest.attempt).ok_or(Refusal::NoSuchAttempt)?,
            };
            if history.disproved(attempt).is_some() {
                history.disagree(DisagreementKind::EffectAfterDisproof, at);
            }
            Ok(succeed(attempt, receipt, true))
        }
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            let finding = finding_of(&seen.verdict);
            disprove(&mut pending.earlier, about, finding, history);
            Ok(State::Pending(pending))
        }
        Verdict::Lost(cause) => {
            if !note_loss(&mut pending.earlier, about, cause)
                && let Some(attempt) = about
                && let Some(uncertain) = sent_after_all(attempt, cause, history, at)
            {
                insert(&mut pending.earlier, uncertain);
            }
            Ok(State::Pending(pending))
        }
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            Ok(State::Pending(pending))
        }
    }
}

/// About the attempt that is in its owner's hands.
fn observe_current(
    pending: Pending,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    let Pending { attempt, earlier } = pending;
    match &seen.source {
        Source::Owner(owner) | Source::Recovery { owner } if *owner != attempt.owner => {
            return Err(Refusal::ClaimLost);
        }
        // The owner is gone, and its mark is durable: the dispatch may have happened, whatever the recoverer thinks.
        Source::Recovery { .. } if attempt.begun_at.is_some() && is_disproof(&seen.verdict) => {
            return Err(Refusal::Begun);
        }
        Source::Owner(_) | Source::Recovery { .. } | Source::LateAnswer | Source::Webhook | Source::Restore => {}
        // Whoever looks from outside can see an effect, but never that there will be none: the dispatch may be under way.
        Source::Lookup if is_disproof(&seen.verdict) => return Err(Refusal::AttemptInFlight),
        Source::Lookup => {}
        Source::Operator { .. } => return Err(Refusal::AttemptInFlight),
    }
    let number = attempt.number;
    match &seen.verdict {
        Verdict::Effect(receipt) => Ok(succeed(number, receipt, !earlier.is_empty())),
        Verdict::Refusal(rejection) => {
            history.disproved.push(disproved(&attempt, Finding::Refused));
            Ok(match Unknown::new(earlier, seen.next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => reject(number, rejection),
            })
        }
        Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            let finding = finding_of(&seen.verdict);
            history.disproved.push(disproved(&attempt, finding));
            Ok(match Unknown::new(earlier, seen.next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => State::Approved(Ready { hold: hold_of(finding) }),
            })
        }
        Verdict::Lost(cause) => {
            let mut attempts = earlier;
            attempts.push(uncertain(&attempt, cause, ended(&seen.source, at)));
            Ok(unknown_with(attempts, seen.next_check))
        }
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            let mut attempts = earlier;
            attempts.push(uncertain(&attempt, &Cause::KeyMismatch, ended(&seen.source, at)));
            Ok(unknown_with(attempts, seen.next_check))
        }
    }
}

fn observe_unknown(
    unknown: Unknown,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    refuse_holders(&seen.source)?;
    let about = match seen.about {
        About::EveryUncertain => None,
        About::Attempt(_) => Some(one_of(seen.about, history)?),
    };
    if let Source::Operator { .. } = seen.source
        && let Some(disagreement) = &mut history.disagreement
    {
        disagreement.acknowledged_at = Some(at);
    }
    let next_check = seen.next_check;
    let mut attempts = unknown.attempts().to_vec();
    match &seen.verdict {
        Verdict::Effect(receipt) => {
            let attempt = about.unwrap_or(unknown.latest().attempt);
            if history.disproved(attempt).is_some() {
                history.disagree(DisagreementKind::EffectAfterDisproof, at);
            }
            Ok(succeed(attempt, receipt, true))
        }
        Verdict::Refusal(rejection) => {
            let attempt = about.unwrap_or(unknown.latest().attempt);
            disprove(&mut attempts, about, Finding::Refused, history);
            Ok(match Unknown::new(attempts, next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => reject(attempt, rejection),
            })
        }
        Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            disprove(&mut attempts, about, finding_of(&seen.verdict), history);
            Ok(match Unknown::new(attempts, next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => State::Approved(Ready::default()),
            })
        }
        Verdict::Lost(cause) => {
            if !note_loss(&mut attempts, about, cause)
                && let Some(attempt) = about
                && let Some(uncertain) = sent_after_all(attempt, cause, history, at)
            {
                insert(&mut attempts, uncertain);
            }
            Ok(unknown_with(attempts, next_check))
        }
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            Ok(unknown_with(attempts, next_check))
        }
    }
}

/// A receipt is stored. Evidence against it is marked and leaves it; evidence for it changes nothing (R2).
fn observe_succeeded(
    success: Success,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    refuse_holders(&seen.source)?;
    let about = match seen.about {
        About::EveryUncertain => return Err(Refusal::Settled),
        About::Attempt(_) => one_of(seen.about, history)?,
    };
    match &seen.verdict {
        Verdict::Effect(receipt) => {
            if !same_effect(&success, receipt) {
                history.disagree(DisagreementKind::ReceiptsDiffer, at);
            }
        }
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            if about == success.attempt {
                history.disagree(DisagreementKind::ReceiptDenied, at);
            }
        }
        Verdict::Lost(_) => {}
        Verdict::OtherEffect(kind) => history.disagree(DisagreementKind::OtherEffect(*kind), at),
    }
    Ok(State::Succeeded(success))
}

/// It was refused or closed. An effect contradicts that; anything else agrees with it or says nothing.
fn observe_undone(seen: &Observation, history: &mut History, at: Timestamp) -> Result<(), Refusal> {
    refuse_holders(&seen.source)?;
    match seen.about {
        About::EveryUncertain => return Err(Refusal::Settled),
        About::Attempt(_) => one_of(seen.about, history)?,
    };
    match &seen.verdict {
        Verdict::Effect(_) => history.disagree(DisagreementKind::EffectAfterClose, at),
        Verdict::OtherEffect(kind) => history.disagree(DisagreementKind::OtherEffect(*kind), at),
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::Lost(_) => {}
    }
    Ok(())
}

fn close_unsent(reason: CloseReason) -> Result<State, Refusal> {
    match reason {
        CloseReason::Declined
        | CloseReason::Withdrawn
        | CloseReason::DeadlinePassed
        | CloseReason::ConfirmedNotDone => {
            Ok(State::Closed(Closure { reason: ClosureReason::Close(reason), abandoned: Vec::new() }))
        }
    }
}

/// Only a person's word that it was not done closes an unknown; a deadline or a withdrawal is no evidence.
fn close_unknown(
    unknown: Unknown,
    reason: CloseReason,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    match reason {
        CloseReason::ConfirmedNotDone => {
            let mut attempts = unknown.attempts().to_vec();
            disprove(&mut attempts, None, Finding::NoEffect(NoEffect::Decided), history);
            if let Some(disagreement) = &mut history.disagreement {
                disagreement.acknowledged_at = Some(at);
            }
            Ok(State::Closed(Closure { reason: ClosureReason::Close(reason), abandoned: attempts }))
        }
        CloseReason::Declined | CloseReason::Withdrawn | CloseReason::DeadlinePassed => Err(Refusal::CannotClose),
    }
}

/// The ledger went back in time: an attempt that it does not remember may have been made (R22).
fn restored(seen: &Observation, history: &mut History, at: Timestamp) -> Result<State, Refusal> {
    history.attempts += 1;
    let attempt = Uncertain {
        attempt: AttemptNumber(history.attempts),
        generation: history.generation,
        outbound_key: None,
        claimed_at: at,
        send_before: at,
        ended_at: None,
        cause: Cause::Restored,
        absences: 0,
    };
    Ok(unknown_with(vec![attempt], seen.next_check))
}

/// An owner or a recoverer speaks of an attempt that is pending in known hands; anywhere else its claim is lost (R1).
fn refuse_holders(source: &Source) -> Result<(), Refusal> {
    match source {
        Source::Owner(_) | Source::Recovery { .. } => Err(Refusal::ClaimLost),
        Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Operator { .. } | Source::Restore => Ok(()),
    }
}

fn one_of(about: About, history: &History) -> Result<AttemptNumber, Refusal> {
    match about {
        About::Attempt(attempt) if (1..=history.attempts).contains(&attempt.0) => Ok(attempt),
        About::Attempt(_) | About::EveryUncertain => Err(Refusal::NoSuchAttempt),
    }
}

const fn is_disproof(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => true,
        Verdict::Effect(_) | Verdict::Lost(_) | Verdict::OtherEffect(_) => false,
    }
}

fn finding_of(verdict: &Verdict) -> Finding {
    match verdict {
        Verdict::NotSent(why) => Finding::NotSent(*why),
        Verdict::NoEffect(how) => Finding::NoEffect(*how),
        Verdict::Refusal(_) | Verdict::Effect(_) | Verdict::Lost(_) | Verdict::OtherEffect(_) => Finding::Refused,
    }
}

const fn hold_of(finding: Finding) -> Option<Hold> {
    match finding {
        Finding::NoEffect(NoEffect::CredentialRefused) => Some(Hold::CredentialRefused),
        Finding::NotSent(NotSent::NoConnection) | Finding::NoEffect(NoEffect::TurnedAway) => {
            Some(Hold::Unreachable)
        }
        Finding::NotSent(_) | Finding::NoEffect(_) | Finding::Refused => None,
    }
}

fn same_effect(success: &Success, receipt: &Receipt) -> bool {
    match (&success.effect_id, &receipt.effect_id, &success.answer) {
        (Some(mine), Some(theirs), _) => mine == theirs,
        (_, _, Kept::Present(answer)) => answer.status == receipt.answer.status && answer.body == receipt.answer.body,
        // Nothing is left to compare with; a person must look.
        (_, _, Kept::Erased { .. }) => false,
    }
}

fn succeed(attempt: AttemptNumber, receipt: &Receipt, recovered: bool) -> State {
    State::Succeeded(Success {
        attempt,
        effect_id: receipt.effect_id.clone(),
        received_at: receipt.received_at,
        recovered,
        answer: Kept::Present(receipt.answer.clone()),
    })
}

fn reject(attempt: AttemptNumber, rejection: &Rejection) -> State {
    State::Rejected(Refused {
        attempt,
        received_at: rejection.received_at,
        answer: Kept::Present(rejection.answer.clone()),
    })
}

/// Callers hold at least one uncertain attempt; were there none, the safe reading is that nothing is uncertain.
fn unknown_with(attempts: Vec<Uncertain>, next_check: Option<Timestamp>) -> State {
    Unknown::new(attempts, next_check).map_or(State::Approved(Ready::default()), State::Unknown)
}

/// When the connection of an attempt ended, where whoever speaks has seen it end.
const fn ended(source: &Source, at: Timestamp) -> Option<Timestamp> {
    match source {
        Source::Owner(_) | Source::LateAnswer => Some(at),
        Source::Recovery { .. } | Source::Lookup | Source::Webhook | Source::Operator { .. } | Source::Restore => None,
    }
}

fn uncertain(attempt: &Attempt, cause: &Cause, ended_at: Option<Timestamp>) -> Uncertain {
    Uncertain {
        attempt: attempt.number,
        generation: attempt.generation,
        outbound_key: attempt.outbound_key.clone(),
        claimed_at: attempt.claimed_at,
        send_before: attempt.send_before,
        ended_at,
        cause: cause.clone(),
        absences: 0,
    }
}

fn disproved(attempt: &Attempt, finding: Finding) -> Disproved {
    Disproved {
        attempt: attempt.number,
        generation: attempt.generation,
        outbound_key: attempt.outbound_key.clone(),
        claimed_at: attempt.claimed_at,
        send_before: attempt.send_before,
        finding,
    }
}

/// Takes one uncertain attempt, or all, out of the set and remembers them as disproved.
fn disprove(set: &mut Vec<Uncertain>, about: Option<AttemptNumber>, finding: Finding, history: &mut History) {
    let (gone, left): (Vec<_>, Vec<_>) =
        set.drain(..).partition(|one| about.is_none_or(|attempt| one.attempt == attempt));
    *set = left;
    history.disproved.extend(gone.into_iter().map(|one| Disproved {
        attempt: one.attempt,
        generation: one.generation,
        outbound_key: one.outbound_key,
        claimed_at: one.claimed_at,
        send_before: one.send_before,
        finding,
    }));
}

/// Updates why the attempts are uncertain; says whether any was in the set.
fn note_loss(set: &mut [Uncertain], about: Option<AttemptNumber>, cause: &Cause) -> bool {
    let mut found = false;
    for one in set.iter_mut().filter(|one| about.is_none_or(|attempt| one.attempt == attempt)) {
        found = true;
        match cause {
            Cause::AbsentOnce => one.absences = one.absences.saturating_add(1),
            other => one.cause = other.clone(),
        }
    }
    found
}

/// An attempt that was read as never sent was sent after all: it is uncertain from now on.
fn sent_after_all(
    attempt: AttemptNumber,
    cause: &Cause,
    history: &mut History,
    at: Timestamp,
) -> Option<Uncertain> {
    match history.disproved(attempt)?.finding {
        Finding::NotSent(_) => {}
        Finding::NoEffect(_) | Finding::Refused => return None,
    }
    history.disagree(DisagreementKind::SentAfterAll, at);
    reopen(attempt, history).map(|uncertain| Uncertain { cause: cause.clone(), ..uncertain })
}

/// Moves an attempt from the disproved back to the uncertain.
fn reopen(attempt: AttemptNumber, history: &mut History) -> Option<Uncertain> {
    let at = history.disproved.iter().position(|one| one.attempt == attempt)?;
    let one = history.disproved.remove(at);
    Some(Uncertain {
        attempt: one.attempt,
        generation: one.generation,
        outbound_key: one.outbound_key,
        claimed_at: one.claimed_at,
        send_before: one.send_before,
        ended_at: None,
        cause: Cause::KeyMismatch,
        absences: 0,
    })
}

fn insert(set: &mut Vec<Uncertain>, uncertain: Uncertain) {
    let at = set.partition_point(|one| one.attempt < uncertain.attempt);
    set.insert(at, uncertain);
}
