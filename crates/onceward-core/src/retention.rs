//! What a sweep may take, and which identities may be forgotten (promise 7, R24).
//!
//! Retention is ours and erases payloads; the destination's retention *horizon* is in its contract. Erasing a payload never
//! frees an identity: the tombstone stays, and a repetition is told `expired`.

mod window;

use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use window::{Admission, IdTime, Window, WindowFloor};

use crate::contract::Span;
use crate::event::PurgeScope;
use crate::limits::CLOCK_JUMP_MAX;
use crate::operation::Operation;
use crate::receipt::Kept;
use crate::state::State;
use crate::time::Timestamp;

/// How long payloads are kept after an operation is settled. Without a time they are kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionPolicy {
    /// The arguments.
    pub arguments: Option<Span>,
    /// Everything: arguments and answer.
    pub everything: Option<Span>,
}

/// What a sweep may take from that operation at `now`; `None` while there is nothing to take.
///
/// Only settled operations are swept, and none with a disagreement that nobody has looked at: its payloads are the evidence.
#[must_use]
pub fn purge_due(policy: &RetentionPolicy, operation: &Operation, now: Timestamp) -> Option<PurgeScope> {
    let settled_at = operation.settled_at?;
    let unseen =
        operation.history.disagreement.as_ref().is_some_and(|disagreement| disagreement.acknowledged_at.is_none());
    if unseen {
        return None;
    }
    let has_answer = match &operation.state {
        State::Succeeded(success) => success.answer.present().is_some(),
        State::Rejected(refused) => refused.answer.present().is_some(),
        State::Closed(_) => false,
        State::Proposed(_) | State::Approved(_) | State::Pending(_) | State::Unknown(_) => return None,
    };
    let has_arguments = match &operation.binding.arguments {
        Kept::Present(_) => true,
        Kept::Erased { .. } => false,
    };
    let passed = |period: Option<Span>| period.is_some_and(|period| settled_at.plus(period.duration()) <= now);
    if passed(policy.everything) && (has_answer || has_arguments) {
        return Some(PurgeScope::Everything);
    }
    (passed(policy.arguments) && has_arguments).then_some(PurgeScope::Arguments)
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock.
    pub wall: Timestamp,
    /// A clock that only runs forward, and through suspend.
    pub monotonic: Duration,
}

/// Whether a sweep may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// It may.
    Go,
    /// The wall clock has moved against the other one: ages computed from it are wrong, and erasing cannot be undone.
    /// Nothing is swept until a person says that the time is right.
    ClockJumped {
        /// Where the wall clock should be.
        expected: Timestamp,
        /// Where it is.
        found: Timestamp,
    },
    /// The ledger has entries from later than now.
    ClockBehindLedger {
        /// The newest entry.
        newest: Timestamp,
    },
}

/// Whether a sweep may go on, given the clocks as they were at the last look, as they are, and the ledger's newest entry.
#[must_use]
pub fn sweep(before: Clocks, now: Clocks, newest_entry: Option<Timestamp>) -> Sweep {
    let expected = before.wall.plus(now.monotonic.saturating_sub(before.monotonic));
    let off = now.wall.since(expected).max(expected.since(now.wall));
    if off > CLOCK_JUMP_MAX {
        return Sweep::ClockJumped { expected, found: now.wall };
    }
    match newest_entry {
        Some(newest) if newest.since(now.wall) > CLOCK_JUMP_MAX => Sweep::ClockBehindLedger { newest },
        Some(_) | None => Sweep::Go,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(wall: u64, monotonic: u64) -> Clocks {
        Clocks { wall: Timestamp::EPOCH.plus(Duration::from_secs(wall)), monotonic: Duration::from_secs(monotonic) }
    }

    #[test]
    fn a_sweep_goes_on_while_both_clocks_agree() {
        assert_eq!(sweep(clocks(1_000, 10), clocks(4_600, 3_610), None), Sweep::Go);
        // The wall clock is slewed a little all the time.
        assert_eq!(sweep(clocks(1_000, 10), clocks(4_605, 3_610), None), Sweep::Go);
    }

    #[test]
    fn a_sweep_stops_when_the_clock_jumps_either_way() {
        let year = 365 * 86_400;
        assert!(matches!(sweep(clocks(1_000, 10), clocks(1_000 + year, 20), None), Sweep::ClockJumped { .. }));
        assert!(matches!(sweep(clocks(year, 10), clocks(1_000, 20), None), Sweep::ClockJumped { .. }));
    }

    #[test]
    fn a_sweep_stops_when_the_ledger_is_newer_than_the_clock() {
        let newest = Timestamp::EPOCH.plus(Duration::from_secs(90_000));
        let now = clocks(1_000, 10);
        assert_eq!(sweep(now, now, Some(newest)), Sweep::ClockBehindLedger { newest });
        assert_eq!(sweep(now, now, Some(now.wall)), Sweep::Go);
    }
}
