//! Possible repetitions from hosts that send no identity (R16).
//!
//! Equal arguments are a reason to ask, never proof: two equal calls may be meant. So a suspicion holds a call back, and
//! only a person, or trusted configuration, says what it was.

#[cfg(test)]
mod tests;

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::operation::Operation;
use crate::state::{Closure, ClosureReason, State};
use crate::time::Timestamp;

/// How long after an earlier call was settled an equal one without identity is still held. Agents repeat themselves within
/// minutes: a model's retry, a framework's, a person's "did it work?".
pub const HOLD_WINDOW: Duration = Duration::from_secs(10 * 60);

/// The marks by which a later call without identity is compared with this one. Keyed hashes, so that they tell nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// Over tenant, tool and the compared arguments; no version, so that an upgrade does not free a repetition.
    pub mark: Fingerprint,
    /// Over tenant, tool and principal: a rephrased repetition has other arguments.
    pub group: Fingerprint,
    /// Over the tool's declared business-key fields, where it declares any.
    pub business: Option<Fingerprint>,
}

/// A call without identity as it is compared: its marks under every live fingerprint key, the current one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What its own operation would carry.
    pub suspicion: Suspicion,
    /// The same mark under every other live key.
    pub other_marks: Vec<Fingerprint>,
    /// How it comes in.
    pub manner: Manner,
}

/// How a call without identity comes in, and so what holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is sent as soon as it is written down: everything that it may repeat holds it.
    Sent,
    /// A person sees it before anything is sent: a call in other words that waits for a person itself does not hold it.
    Proposed,
    /// Somebody says in so many words that a second one is meant: what is settled does not hold it. What is unresolved does.
    Second,
}

/// The earlier operation that a call without identity may be repeating, or nothing.
///
/// Equal arguments are held while the earlier one is unresolved and for [`HOLD_WINDOW`] after it was settled. Other
/// arguments for the same tool by the same principal are held only while the earlier one is unresolved, unless both name
/// different business keys. Of several, the one that forbids most comes first: what may have had its effect, then what
/// waits, then what is settled.
#[must_use]
pub fn suspect<'a>(probe: &Probe, candidates: &'a [Operation], now: Timestamp) -> Option<&'a Operation> {
    candidates
        .iter()
        .filter_map(|earlier| Some((held_by(probe, earlier, now)?, earlier)))
        .min_by_key(|(hold, _)| *hold)
        .map(|(_, earlier)| earlier)
}

/// Whether an operation without identity may be sent beside these others: only when none that it may be repeating, or that
/// may be repeating it, may have had its effect unknown to us. Approval does not change that (R19).
#[must_use]
pub fn unresolved_beside<'a>(suspicion: &Suspicion, others: &'a [Operation]) -> Option<&'a Operation> {
    others.iter().find(|other| {
        other.terms.suspicion.as_ref().is_some_and(|theirs| {
            may_have_happened(&other.state) && (theirs.mark == suspicion.mark || rephrases(suspicion, theirs))
        })
    })
}

/// Why an earlier operation holds a call, the strongest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Unresolved,
    RephrasesUnresolved,
    Waiting,
    RephrasesWaiting,
    Settled,
}

fn held_by(probe: &Probe, earlier: &Operation, now: Timestamp) -> Option<Hold> {
    let theirs = earlier.terms.suspicion.as_ref()?;
    let equal = theirs.mark == probe.suspicion.mark || probe.other_marks.contains(&theirs.mark);
    let rephrased = !equal && rephrases(&probe.suspicion, theirs);
    match (earlier.settled_at, may_have_happened(&earlier.state), equal, rephrased, probe.manner) {
        (None, true, true, _, _) => Some(Hold::Unresolved),
        (None, true, false, true, _) => Some(Hold::RephrasesUnresolved),
        (None, false, true, _, _) => Some(Hold::Waiting),
        (None, false, false, true, Manner::Sent) => Some(Hold::RephrasesWaiting),
        (None, false, false, true, Manner::Proposed | Manner::Second) => None,
        (Some(settled), _, true, _, Manner::Sent | Manner::Proposed)
            if now.since(settled) < HOLD_WINDOW && !never_wanted(&earlier.state) =>
        {
            Some(Hold::Settled)
        }
        (Some(_), _, _, _, _) | (None, _, false, false, _) => None,
    }
}

fn rephrases(one: &Suspicion, other: &Suspicion) -> bool {
    one.group == other.group
        && match (&one.business, &other.business) {
            (Some(one), Some(other)) => one == other,
            (None | Some(_), None) | (None, Some(_)) => true,
        }
}

/// Whether its effect may be there without anybody knowing.
const fn may_have_happened(state: &State) -> bool {
    match state {
        State::Pending(_) | State::Unknown(_) => true,
        State::Proposed(_) | State::Approved(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => false,
    }
}

/// Whether its own caller let it go before anything was sent: a later call is then the first of its kind, not a repetition.
fn never_wanted(state: &State) -> bool {
    match state {
        State::Closed(Closure { reason: ClosureReason::Close(reason), abandoned }) => match reason {
            crate::event::CloseReason::Withdrawn | crate::event::CloseReason::DeadlinePassed => abandoned.is_empty(),
            crate::event::CloseReason::Declined | crate::event::CloseReason::ConfirmedNotDone => false,
        },
        State::Closed(Closure { reason: ClosureReason::SupersededBy(_), .. })
        | State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_) => false,
    }
}
