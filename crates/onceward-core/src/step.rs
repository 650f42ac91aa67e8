//! The whole machine: one match over (state, event), without a wildcard.
//!
//! Used by the writer of every store, by recovery and by the model checker alike. It decides; it never asks a clock.

mod attempts;
mod observe;

#[cfg(test)]
mod tests;

use crate::event::{Basis, Claim, CloseReason, DispatchMark, Event, NoEffect, PurgeScope};
use crate::key::{AttemptNumber, OwnerId};
use crate::limits::ATTEMPTS_MAX;
use crate::operation::{History, Operation};
use crate::receipt::Kept;
use crate::state::{Attempt, Closure, ClosureReason, Finding, Pending, Ready, State, Unknown};
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
    /// No such attempt was ever claimed; or what was learned names none, and it must (see [`About`](crate::event::About)).
    #[error("it names no attempt of the operation")]
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
    /// No evidence contradicts what is recorded, or a person has seen it already.
    #[error("no evidence against what is recorded waits for a person")]
    NothingToAcknowledge,
    /// No attempt is uncertain, so there is nothing to wait for.
    #[error("no attempt of the operation is uncertain")]
    NothingUncertain,
    /// It was decided on an older version of the row: something happened to it since.
    #[error("the operation moved since it was looked at: it was at version {seen} then and is at {version} now")]
    Moved {
        /// The version that was looked at.
        seen: u32,
        /// The version it has.
        version: u32,
    },
}

impl Operation {
    /// The operation after `event`.
    ///
    /// # Errors
    /// [`Refusal`]: nothing changed. Only a successful [`Event::Claim`] ever permits a dispatch.
    pub fn step(mut self, event: &Event, at: Timestamp) -> Result<Self, Refusal> {
        self.state = place(self.state, event, &mut self.history, self.terms.deadline, at)?;
        self.updated_at = at;
        if self.state.is_final() {
            self.settled_at = self.settled_at.or(Some(at));
            self.history.unapproved = None;
            if let Some(scope) = self.history.erasure.take() {
                self.erase(scope, at);
            }
        }
        Ok(self)
    }

    fn erase(&mut self, scope: PurgeScope, at: Timestamp) {
        self.binding.arguments = Kept::Erased { at };
        // It quotes arguments.
        self.terms.title = None;
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
        (S::Proposed(_), Event::Approve { by }) => {
            history.approved_by = Some(by.clone());
            Ok(S::Approved(Ready::default()))
        }
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
            S::Proposed(_) | S::Approved(_) | S::Unknown(_) | S::Succeeded(_) | S::Rejected(_) | S::Closed(_),
            Event::Begin { .. } | Event::Extend { .. },
        ) => Err(Refusal::ClaimLost),

        (S::Proposed(proposal), Event::Observe(seen)) => observe::proposed(proposal, seen, history, at),
        (S::Approved(ready), Event::Observe(seen)) => observe::approved(ready, seen, history, at),
        (S::Pending(pending), Event::Observe(seen)) => observe::pending(pending, seen, history, at),
        (S::Unknown(unknown), Event::Observe(seen)) => observe::unknown(&unknown, seen, history, at),
        (S::Succeeded(success), Event::Observe(seen)) => observe::succeeded(success, seen, history, at),
        (S::Rejected(refused), Event::Observe(seen)) => {
            observe::undone(seen, history, at)?;
            Ok(S::Rejected(refused))
        }
        (S::Closed(closure), Event::Observe(seen)) => {
            observe::undone(seen, history, at)?;
            Ok(S::Closed(closure))
        }

        (S::Proposed(_), Event::Close(reason)) => close_unsent(*reason),
        (S::Approved(_), Event::Close(reason)) => close_unsent(*reason),
        (S::Unknown(unknown), Event::Close(reason)) => close_unknown(unknown, *reason, history, at),
        (S::Pending(_), Event::Close(_) | Event::Supersede { .. }) => Err(Refusal::AttemptInFlight),
        (S::Succeeded(_) | S::Rejected(_) | S::Closed(_), Event::Close(_) | Event::Supersede { .. }) => {
            Err(Refusal::Settled)
        }

        (S::Proposed(_) | S::Approved(_), Event::Supersede { by, .. }) => {
            Ok(S::Closed(Closure { reason: ClosureReason::SupersededBy(by.clone()), abandoned: Vec::new() }))
        }
        (S::Unknown(unknown), Event::Supersede { by, .. }) => Ok(S::Closed(Closure {
            reason: ClosureReason::SupersededBy(by.clone()),
            abandoned: unknown.attempts().to_vec(),
        })),

        (S::Unknown(unknown), Event::Wait { next_check, .. }) => {
            Ok(Unknown::new(unknown.attempts().to_vec(), *next_check).map_or(S::Unknown(unknown), S::Unknown))
        }
        (S::Proposed(_) | S::Approved(_), Event::Wait { .. }) => Err(Refusal::NothingUncertain),
        (S::Succeeded(_) | S::Rejected(_) | S::Closed(_), Event::Wait { .. }) => Err(Refusal::Settled),

        // What an open contradiction means for an uncertain attempt is a decision about that attempt.
        (S::Unknown(_), Event::Acknowledge { .. }) => Err(Refusal::Uncertain),
        (S::Pending(_), Event::Wait { .. } | Event::Acknowledge { .. }) => Err(Refusal::AttemptInFlight),
        (
            state @ (S::Proposed(_) | S::Approved(_) | S::Succeeded(_) | S::Rejected(_) | S::Closed(_)),
            Event::Acknowledge { .. },
        ) => {
            if history.acknowledge(at) {
                Ok(state)
            } else {
                Err(Refusal::NothingToAcknowledge)
            }
        }

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
    if history.attempts.saturating_sub(history.never_left) >= ATTEMPTS_MAX {
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
fn claim_redrive(unknown: Unknown, claim: &Claim, history: &mut History, at: Timestamp) -> Result<State, Refusal> {
    let permit = match &claim.basis {
        Basis::NoEffectSoFar => return Err(Refusal::Uncertain),
        Basis::Redrive(permit) => permit,
    };
    if history.unapproved.is_some() {
        return Err(Refusal::ApprovalRequired);
    }
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

fn begin(mut pending: Pending, attempt: AttemptNumber, owner: &OwnerId, at: Timestamp) -> Result<State, Refusal> {
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
            attempts::disprove(&mut attempts, None, Finding::NoEffect(NoEffect::Decided), history);
            history.acknowledge(at);
            Ok(State::Closed(Closure { reason: ClosureReason::Close(reason), abandoned: attempts }))
        }
        CloseReason::Declined | CloseReason::Withdrawn | CloseReason::DeadlinePassed => Err(Refusal::CannotClose),
    }
}
