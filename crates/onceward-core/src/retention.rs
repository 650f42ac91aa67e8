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
    if operation.history.in_disagreement() {
        return None;
    }
    due(policy, held(&operation.state, operation.settled_at?, &operation.binding.arguments)?, now)
}

/// Which payloads a settled operation still has.
#[derive(Clone, Copy)]
struct Held {
    settled_at: Timestamp,
    arguments: bool,
    answer: bool,
}

fn held<T>(state: &State, settled_at: Timestamp, arguments: &Kept<T>) -> Option<Held> {
    let answer = match state {
        State::Succeeded(success) => success.answer.present().is_some(),
        State::Rejected(refused) => refused.answer.present().is_some(),
        State::Closed(_) => false,
        State::Proposed(_) | State::Approved(_) | State::Pending(_) | State::Unknown(_) => return None,
    };
    Some(Held { settled_at, arguments: arguments.present().is_some(), answer })
}

fn due(policy: &RetentionPolicy, held: Held, now: Timestamp) -> Option<PurgeScope> {
    let passed = |period: Option<Span>| period.is_some_and(|period| held.settled_at.plus(period.duration()) <= now);
    if passed(policy.everything) && (held.answer || held.arguments) {
        return Some(PurgeScope::Everything);
    }
    (passed(policy.arguments) && held.arguments).then_some(PurgeScope::Arguments)
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
    use crate::key::AttemptNumber;
    use crate::operation::DisagreementKind;
    use crate::receipt::Answer;
    use crate::state::{Proposal, ProposalReason, Ready, Success};

    fn clocks(wall: u64, monotonic: u64) -> Clocks {
        Clocks { wall: Timestamp::EPOCH.plus(Duration::from_secs(wall)), monotonic: Duration::from_secs(monotonic) }
    }

    const POLICY: RetentionPolicy =
        RetentionPolicy { arguments: Some(Span::seconds(100)), everything: Some(Span::seconds(1_000)) };

    fn second(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    fn succeeded(answer: Kept<Answer>) -> State {
        State::Succeeded(Success {
            attempt: AttemptNumber(1),
            effect_id: None,
            received_at: second(0),
            recovered: false,
            answer,
        })
    }

    #[test]
    fn a_sweep_takes_arguments_first_and_each_payload_once() {
        let (here, gone) = (Kept::Present(()), Kept::<()>::Erased { at: second(0) });
        let answer = || Kept::Present(Answer::json(&serde_json::json!({})));
        let at = |state: &State, arguments: &Kept<()>, now| {
            due(&POLICY, held(state, second(0), arguments).unwrap(), second(now))
        };
        let full = succeeded(answer());
        assert_eq!(at(&full, &here, 99), None);
        assert_eq!(at(&full, &here, 100), Some(PurgeScope::Arguments));
        assert_eq!(at(&full, &gone, 999), None);
        assert_eq!(at(&full, &gone, 1_000), Some(PurgeScope::Everything));
        assert_eq!(at(&succeeded(Kept::Erased { at: second(0) }), &gone, 9_999), None);
        let for_ever = RetentionPolicy::default();
        assert_eq!(due(&for_ever, held(&full, second(0), &here).unwrap(), second(u64::from(u32::MAX))), None);
    }

    #[test]
    fn a_sweep_takes_nothing_from_an_operation_that_is_not_settled() {
        let open =
            [State::Proposed(Proposal { reason: ProposalReason::ToolPolicy }), State::Approved(Ready::default())];
        for state in open {
            assert!(held(&state, second(0), &Kept::Present(())).is_none());
        }
    }

    fn settled_operation() -> Operation {
        serde_json::from_value(serde_json::json!({
            "key": { "tenant": "acme", "id": "order-17" },
            "binding": {
                "tool": "create_ticket",
                "tool_version": "1",
                "comparison": serde_json::to_value(crate::fingerprint::Comparison::default()).unwrap(),
                "fingerprint": serde_json::to_value(crate::fingerprint::Fingerprint::from_bytes([7; 32])).unwrap(),
                "fingerprint_key": 0,
                "arguments": { "erased": { "at": 0 } },
            },
            "terms": { "principal": "agent", "dispatch": "caller" },
            "history": serde_json::to_value(crate::operation::History::default()).unwrap(),
            "state": succeeded(Kept::Present(Answer::json(&serde_json::json!({})))),
            "journal": crate::journal::Head::START,
            "created_at": 0,
            "updated_at": 0,
            "settled_at": 0,
        }))
        .unwrap()
    }

    #[test]
    fn evidence_of_a_disagreement_is_kept_until_a_person_has_decided() {
        let mut operation = settled_operation();
        assert_eq!(purge_due(&POLICY, &operation, second(1_000)), Some(PurgeScope::Everything));
        operation.history.disagree(DisagreementKind::ReceiptsDiffer, second(5));
        assert_eq!(purge_due(&POLICY, &operation, second(1_000)), None);
        operation.history.disagreement.as_mut().unwrap().acknowledged_at = Some(second(6));
        assert_eq!(purge_due(&POLICY, &operation, second(1_000)), Some(PurgeScope::Everything));
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
