//! The bookkeeping of attempts: each claimed one is running, uncertain or disproved, and moves between these only here.

use crate::event::{Cause, Source};
use crate::key::AttemptNumber;
use crate::operation::{DisagreementKind, History};
use crate::state::{Attempt, Disproved, Finding, Uncertain};
use crate::time::Timestamp;

/// The running attempt, uncertain from now on.
pub(super) fn uncertain(attempt: &Attempt, cause: &Cause, source: &Source, at: Timestamp) -> Uncertain {
    let mut one = Uncertain {
        attempt: attempt.number,
        generation: attempt.generation,
        outbound_key: attempt.outbound_key.clone(),
        claimed_at: attempt.claimed_at,
        send_before: attempt.send_before,
        ended_at: ended(source, at),
        cause: cause.clone(),
        absences: 0,
        absent_at: None,
    };
    lose(&mut one, cause, at);
    one
}

/// When the connection of an attempt ended, where whoever speaks has seen it end.
const fn ended(source: &Source, at: Timestamp) -> Option<Timestamp> {
    match source {
        // Nobody saw the connection of a lost owner end, but it had not ended for certain before its owner was found to be gone.
        Source::Owner(_) | Source::LateAnswer | Source::Recovery { .. } => Some(at),
        Source::Lookup | Source::Webhook | Source::Operator { .. } | Source::Restore => None,
    }
}

/// The running attempt, disproved from now on.
pub(super) fn disproved(attempt: &Attempt, finding: Finding) -> Disproved {
    Disproved {
        attempt: attempt.number,
        generation: attempt.generation,
        outbound_key: attempt.outbound_key.clone(),
        claimed_at: attempt.claimed_at,
        send_before: attempt.send_before,
        owner: Some(attempt.owner.clone()),
        finding,
        cause: None,
    }
}

/// An attempt that a restored ledger does not remember. Without a key, no contract lets it be repeated (R22).
pub(super) fn forgotten(history: &mut History, at: Timestamp) -> Uncertain {
    history.attempts += 1;
    Uncertain {
        attempt: AttemptNumber(history.attempts),
        generation: history.generation,
        outbound_key: None,
        claimed_at: at,
        send_before: at,
        ended_at: None,
        cause: Cause::Restored,
        absences: 0,
        absent_at: None,
    }
}

/// Takes one uncertain attempt, or all, out of the set and remembers them as disproved.
pub(super) fn disprove(
    set: &mut Vec<Uncertain>,
    about: Option<AttemptNumber>,
    finding: Finding,
    history: &mut History,
) {
    let (gone, left): (Vec<_>, Vec<_>) =
        set.drain(..).partition(|one| about.is_none_or(|attempt| one.attempt == attempt));
    *set = left;
    for one in gone {
        history.remember(Disproved {
            attempt: one.attempt,
            generation: one.generation,
            outbound_key: one.outbound_key,
            claimed_at: one.claimed_at,
            send_before: one.send_before,
            owner: None,
            finding,
            cause: Some(one.cause),
        });
    }
}

/// Records anew that attempts may have had their effect: one, or all. One that had been read as never sent was sent after
/// all, and joins the set.
pub(super) fn note_loss(
    set: &mut Vec<Uncertain>,
    about: Option<AttemptNumber>,
    cause: &Cause,
    history: &mut History,
    at: Timestamp,
) {
    let mut found = false;
    for one in set.iter_mut().filter(|one| about.is_none_or(|attempt| one.attempt == attempt)) {
        lose(one, cause, at);
        found = true;
    }
    if !found && let Some(attempt) = about {
        set_apart(set, sent_after_all(attempt, cause, history, at));
    }
}

fn lose(one: &mut Uncertain, cause: &Cause, at: Timestamp) {
    match cause {
        Cause::AbsentOnce => {
            one.absences = one.absences.saturating_add(1);
            one.absent_at = Some(at);
        }
        // What the ledger has forgotten may have been sent at any time until the restore, under the same number.
        Cause::Restored => {
            one.cause = Cause::Restored;
            one.absences = 0;
            one.absent_at = None;
            one.ended_at = None;
            one.send_before = one.send_before.max(at);
        }
        // Any other sign of it ends a row of answers that did not have it.
        Cause::ReplyLost
        | Cause::ReplyUnreadable
        | Cause::ServerError
        | Cause::Accepted { .. }
        | Cause::InFlightElsewhere
        | Cause::AlreadyExists { .. }
        | Cause::OwnerLost
        | Cause::SettleOverdue
        | Cause::KeyMismatch
        | Cause::FunctionFailed => {
            one.cause = cause.clone();
            one.absences = 0;
            one.absent_at = None;
        }
    }
}

/// An attempt that was read as never sent was sent after all: it is uncertain from now on.
pub(super) fn sent_after_all(
    attempt: AttemptNumber,
    cause: &Cause,
    history: &mut History,
    at: Timestamp,
) -> Option<Uncertain> {
    // That a lookup did not find it contradicts nothing.
    if *cause == Cause::AbsentOnce {
        return None;
    }
    match (history.disproved(attempt)?.finding, cause) {
        (Finding::NotSent(_), _) => {}
        // The destination's own word that something is there, however it was proved that nothing would be.
        (
            Finding::NoEffect(_) | Finding::Refused,
            Cause::Accepted { .. } | Cause::InFlightElsewhere | Cause::AlreadyExists { .. } | Cause::KeyMismatch,
        ) => {}
        (
            Finding::NoEffect(_) | Finding::Refused,
            Cause::ReplyLost
            | Cause::ReplyUnreadable
            | Cause::ServerError
            | Cause::OwnerLost
            | Cause::SettleOverdue
            | Cause::FunctionFailed
            | Cause::AbsentOnce
            | Cause::Restored,
        ) => return None,
    }
    history.disagree(DisagreementKind::SentAfterAll, at);
    reopen(attempt, history).map(|one| Uncertain { cause: cause.clone(), ..one })
}

/// Moves an attempt from the disproved back to the uncertain; `None` when it was not disproved.
pub(super) fn reopen(attempt: AttemptNumber, history: &mut History) -> Option<Uncertain> {
    let at = history.disproved.iter().position(|one| one.attempt == attempt)?;
    let one = history.disproved.remove(at);
    if let Finding::NotSent(_) = one.finding {
        history.never_left = history.never_left.saturating_sub(1);
    }
    Some(Uncertain {
        attempt: one.attempt,
        generation: one.generation,
        outbound_key: one.outbound_key,
        claimed_at: one.claimed_at,
        send_before: one.send_before,
        ended_at: None,
        cause: Cause::KeyMismatch,
        absences: 0,
        absent_at: None,
    })
}

/// Puts a reopened attempt back into the set, in the order they were made.
pub(super) fn set_apart(set: &mut Vec<Uncertain>, reopened: Option<Uncertain>) {
    if let Some(one) = reopened {
        let at = set.partition_point(|known| known.attempt < one.attempt);
        set.insert(at, one);
    }
}
