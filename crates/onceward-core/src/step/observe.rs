//! What becomes of an operation when something is learned about its attempts, state by state.

use super::Refusal;
use super::attempts;
use crate::event::{About, Cause, NoEffect, NotSent, Observation, Source, Verdict};
use crate::key::AttemptNumber;
use crate::operation::{DisagreementKind, History};
use crate::receipt::{Kept, Receipt, Rejection};
use crate::state::{Finding, Hold, Pending, Proposal, Ready, Refused, State, Success, Uncertain, Unknown};
use crate::time::Timestamp;

/// Not approved as far as the ledger knows. A restored ledger may have forgotten the approval, and a dispatch after it.
pub(super) fn proposed(
    proposal: Proposal,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    let after = idle(State::Proposed(proposal.clone()), seen, history, at)?;
    match &after {
        State::Unknown(_) => history.unapproved = Some(proposal),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => {}
    }
    Ok(after)
}

/// Free to be dispatched, because nothing is uncertain.
pub(super) fn approved(
    ready: Ready,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    idle(State::Approved(ready), seen, history, at)
}

/// No attempt is running and none is uncertain; only a contradiction moves `state`.
fn idle(state: State, seen: &Observation, history: &mut History, at: Timestamp) -> Result<State, Refusal> {
    if let (Source::Restore, Verdict::Lost(_)) = (&seen.source, &seen.verdict) {
        let forgotten = attempts::forgotten(history, at);
        return Ok(unknown_or_free(vec![forgotten], seen.next_check, history));
    }
    let answered = from_outside(&seen.source, history, at)?;
    let attempt = match seen.about {
        About::Attempt(_) => one_of(seen.about, history)?,
        // Nothing is uncertain, so it speaks of nothing, unless it is an effect or a person's answer to a contradiction.
        About::EveryUncertain if answered || shows_an_effect(&seen.verdict) => {
            one_of(About::Attempt(AttemptNumber(history.attempts)), history)?
        }
        About::EveryUncertain => return Err(Refusal::NoSuchAttempt),
    };
    let reopened = match &seen.verdict {
        Verdict::Effect(receipt) => {
            history.disagree(DisagreementKind::EffectAfterDisproof, at);
            return Ok(succeed(attempt, receipt, true));
        }
        Verdict::Lost(cause) => attempts::sent_after_all(attempt, cause, history, at),
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            attempts::reopen(attempt, history)
        }
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => None,
    };
    Ok(match reopened {
        Some(one) => unknown_or_free(vec![one], seen.next_check, history),
        None => state,
    })
}

/// An attempt is in its owner's hands. What is about another one leaves it there, unless that had the effect.
pub(super) fn pending(
    mut pending: Pending,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    let running = pending.attempt.number;
    let about = match seen.about {
        About::Attempt(attempt) if attempt == running => return current(pending, seen, history, at),
        About::Attempt(attempt) if attempt > running => return Err(Refusal::NoSuchAttempt),
        About::Attempt(attempt) => Some(attempt),
        About::EveryUncertain => None,
    };
    match &seen.source {
        Source::Owner(_) | Source::Recovery { .. } => return Err(Refusal::ClaimLost),
        // A person decides on what they see, and what is running changes under their eyes.
        Source::Operator { .. } => return Err(Refusal::AttemptInFlight),
        Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Restore => {}
    }
    must_name(seen)?;
    match &seen.verdict {
        // The running attempt's own answer is compared with this receipt when it comes.
        Verdict::Effect(receipt) => {
            let attempt = about.or(pending.earlier.last().map(|latest| latest.attempt)).unwrap_or(running);
            if history.disproved(attempt).is_some() {
                history.disagree(DisagreementKind::EffectAfterDisproof, at);
            }
            return Ok(succeed(attempt, receipt, true));
        }
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            attempts::disprove(&mut pending.earlier, about, finding_of(&seen.verdict), history);
        }
        Verdict::Lost(cause) => attempts::note_loss(&mut pending.earlier, about, cause, history, at),
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            let reopened = about.and_then(|attempt| attempts::reopen(attempt, history));
            attempts::set_apart(&mut pending.earlier, reopened);
        }
    }
    Ok(State::Pending(pending))
}

/// About the attempt that is in its owner's hands.
fn current(pending: Pending, seen: &Observation, history: &mut History, at: Timestamp) -> Result<State, Refusal> {
    match &seen.source {
        Source::Owner(owner) | Source::Recovery { owner } if *owner != pending.attempt.owner => {
            return Err(Refusal::ClaimLost);
        }
        // The owner is gone, and its mark is durable: the dispatch may have happened, whatever the recoverer thinks.
        Source::Recovery { .. } if pending.attempt.begun_at.is_some() && is_disproof(&seen.verdict) => {
            return Err(Refusal::Begun);
        }
        // Whoever looks from outside can see an effect, but never that there will be none: the dispatch may be under way,
        // and what a destination says of a key may be about an earlier attempt that sent the same one.
        Source::Lookup | Source::Webhook | Source::Restore if is_disproof(&seen.verdict) => {
            return Err(Refusal::AttemptInFlight);
        }
        // Nobody offers it again, so it is kept in the journal; but only its holder says that an attempt is over.
        Source::LateAnswer if is_disproof(&seen.verdict) => return Ok(State::Pending(pending)),
        Source::Operator { .. } => return Err(Refusal::AttemptInFlight),
        Source::Owner(_)
        | Source::Recovery { .. }
        | Source::LateAnswer
        | Source::Lookup
        | Source::Webhook
        | Source::Restore => {}
    }
    let Pending { attempt, earlier: mut uncertain } = pending;
    let number = attempt.number;
    match &seen.verdict {
        Verdict::Effect(receipt) => Ok(succeed(number, receipt, !uncertain.is_empty())),
        Verdict::Refusal(rejection) => {
            history.remember(attempts::disproved(&attempt, Finding::Refused));
            Ok(match Unknown::new(uncertain, seen.next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => reject(number, rejection),
            })
        }
        Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            let finding = finding_of(&seen.verdict);
            history.remember(attempts::disproved(&attempt, finding));
            Ok(match Unknown::new(uncertain, seen.next_check) {
                Some(unknown) => State::Unknown(unknown),
                None => free(history, hold_of(finding)),
            })
        }
        Verdict::Lost(cause) => {
            uncertain.push(attempts::uncertain(&attempt, cause, &seen.source, at));
            Ok(unknown_or_free(uncertain, seen.next_check, history))
        }
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            uncertain.push(attempts::uncertain(&attempt, &Cause::KeyMismatch, &seen.source, at));
            Ok(unknown_or_free(uncertain, seen.next_check, history))
        }
    }
}

/// One attempt or more may have had its effect. Each leaves the set only by evidence about it, or by a person's decision.
pub(super) fn unknown(
    unknown: &Unknown,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    from_outside(&seen.source, history, at)?;
    must_name(seen)?;
    let about = match seen.about {
        About::EveryUncertain => None,
        About::Attempt(_) => Some(one_of(seen.about, history)?),
    };
    let mut uncertain = unknown.attempts().to_vec();
    match &seen.verdict {
        Verdict::Effect(receipt) => {
            let attempt = about.unwrap_or(unknown.latest().attempt);
            if history.disproved(attempt).is_some() {
                history.disagree(DisagreementKind::EffectAfterDisproof, at);
            }
            return Ok(succeed(attempt, receipt, true));
        }
        Verdict::Refusal(rejection) => {
            attempts::disprove(&mut uncertain, about, Finding::Refused, history);
            if uncertain.is_empty() {
                return Ok(reject(about.unwrap_or(unknown.latest().attempt), rejection));
            }
        }
        Verdict::NotSent(_) | Verdict::NoEffect(_) => {
            attempts::disprove(&mut uncertain, about, finding_of(&seen.verdict), history);
        }
        Verdict::Lost(cause) if taught_nothing(&seen.source, cause, about, &uncertain) => {}
        Verdict::Lost(cause) => attempts::note_loss(&mut uncertain, about, cause, history, at),
        Verdict::OtherEffect(kind) => {
            history.disagree(DisagreementKind::OtherEffect(*kind), at);
            let reopened = about.and_then(|attempt| attempts::reopen(attempt, history));
            attempts::set_apart(&mut uncertain, reopened);
        }
    }
    Ok(unknown_or_free(uncertain, seen.next_check, history))
}

/// Whether a lookup had no answer, or one that says nothing: it gives the attempt's own cause back, and nothing moves but the
/// next check. A row of answers that did not have it goes on.
fn taught_nothing(source: &Source, cause: &Cause, about: Option<AttemptNumber>, uncertain: &[Uncertain]) -> bool {
    match source {
        Source::Lookup => uncertain.iter().any(|one| Some(one.attempt) == about && one.cause == *cause),
        Source::Owner(_)
        | Source::Recovery { .. }
        | Source::LateAnswer
        | Source::Webhook
        | Source::Operator { .. }
        | Source::Restore => false,
    }
}

/// A receipt is stored. Evidence against it is marked and leaves it; evidence for it changes nothing (R2).
pub(super) fn succeeded(
    success: Success,
    seen: &Observation,
    history: &mut History,
    at: Timestamp,
) -> Result<State, Refusal> {
    from_outside(&seen.source, history, at)?;
    let about = match seen.about {
        About::EveryUncertain => after_all(seen).map(|()| success.attempt)?,
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
pub(super) fn undone(seen: &Observation, history: &mut History, at: Timestamp) -> Result<(), Refusal> {
    from_outside(&seen.source, history, at)?;
    match seen.about {
        About::EveryUncertain => after_all(seen)?,
        About::Attempt(_) => one_of(seen.about, history).map(drop)?,
    }
    match &seen.verdict {
        Verdict::Effect(_) => history.disagree(DisagreementKind::EffectAfterClose, at),
        Verdict::OtherEffect(kind) => history.disagree(DisagreementKind::OtherEffect(*kind), at),
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::Lost(_) => {}
    }
    Ok(())
}

/// An owner or a recoverer speaks of an attempt that is pending in known hands; anywhere else its claim is lost (R1). A
/// person who speaks has every contradiction in view; says whether there was an open one.
fn from_outside(source: &Source, history: &mut History, at: Timestamp) -> Result<bool, Refusal> {
    match source {
        Source::Owner(_) | Source::Recovery { .. } => Err(Refusal::ClaimLost),
        Source::Operator { .. } => Ok(history.acknowledge(at)),
        Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Restore => Ok(false),
    }
}

/// What says that nothing happened, or was not found, must name the attempts it speaks of: another one may have been made
/// since the question was asked. A person speaks of what they see.
fn must_name(seen: &Observation) -> Result<(), Refusal> {
    let says_nothing_happened = match &seen.verdict {
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::Lost(Cause::AbsentOnce) => true,
        Verdict::Effect(_) | Verdict::Lost(_) | Verdict::OtherEffect(_) => false,
    };
    match (seen.about, &seen.source) {
        (
            About::EveryUncertain,
            Source::Owner(_)
            | Source::Recovery { .. }
            | Source::LateAnswer
            | Source::Lookup
            | Source::Webhook
            | Source::Restore,
        ) if says_nothing_happened => Err(Refusal::NoSuchAttempt),
        (About::EveryUncertain | About::Attempt(_), _) => Ok(()),
    }
}

/// An effect that is found once it is settled is evidence, whichever attempt it is of; a person's decision comes too late.
fn after_all(seen: &Observation) -> Result<(), Refusal> {
    match &seen.source {
        Source::Operator { .. } => Err(Refusal::Settled),
        Source::Owner(_)
        | Source::Recovery { .. }
        | Source::LateAnswer
        | Source::Lookup
        | Source::Webhook
        | Source::Restore => {
            if shows_an_effect(&seen.verdict) {
                Ok(())
            } else {
                Err(Refusal::Settled)
            }
        }
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

const fn shows_an_effect(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Effect(_) | Verdict::OtherEffect(_) => true,
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::Lost(_) => false,
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
        Finding::NotSent(NotSent::NoConnection) | Finding::NoEffect(NoEffect::TurnedAway) => Some(Hold::Unreachable),
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

/// Unknown while an attempt is uncertain, free otherwise.
fn unknown_or_free(uncertain: Vec<Uncertain>, next_check: Option<Timestamp>, history: &mut History) -> State {
    match Unknown::new(uncertain, next_check) {
        Some(unknown) => State::Unknown(unknown),
        None => free(history, None),
    }
}

/// Nothing is uncertain: it may be dispatched, or it may be approved if that is not known to have happened.
fn free(history: &mut History, hold: Option<Hold>) -> State {
    match history.unapproved.take() {
        Some(proposal) => State::Proposed(proposal),
        None => State::Approved(Ready { hold }),
    }
}
