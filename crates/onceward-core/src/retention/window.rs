//! The tracked window: where ids carry their time, an identity may be forgotten, because an older id is refused.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::contract::Span;
use crate::key::OperationId;
use crate::limits::ID_CLOCK_SKEW_MAX;
use crate::time::Timestamp;

/// How the caller's ids carry their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdTime {
    /// UUID version 7 (RFC 9562).
    UuidV7,
    /// ULID.
    Ulid,
}

impl IdTime {
    /// The time in an id, to the millisecond; `None` when the id is not of that kind.
    #[must_use]
    pub fn read(self, id: &OperationId) -> Option<Timestamp> {
        let milliseconds = match self {
            Self::UuidV7 => uuid_v7(id.as_str())?,
            Self::Ulid => ulid(id.as_str())?,
        };
        i64::try_from(milliseconds).ok()?.checked_mul(1_000).map(Timestamp::from_micros)
    }
}

/// How far back identities are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// How ids carry their time.
    pub ids: IdTime,
    /// How long an identity is tracked at least.
    pub length: Span,
}

/// The oldest time that is still tracked. It is durable, and it only rises: were it computed from the clock each time, a clock
/// that goes back would let ids in again whose identities have been forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WindowFloor(Timestamp);

impl WindowFloor {
    /// Nothing has been forgotten.
    pub const NOTHING_FORGOTTEN: Self = Self(Timestamp::from_micros(i64::MIN));

    /// The oldest time that is still tracked.
    #[must_use]
    pub const fn oldest(self) -> Timestamp {
        self.0
    }

    /// Whether an identity whose id carries that time may be forgotten. Only settled operations are, and only after this
    /// floor is durable.
    #[must_use]
    pub fn may_forget(self, id_time: Timestamp) -> bool {
        id_time < self.0
    }
}

/// Whether an id may name a new operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may: were it known, it would be found.
    Tracked,
    /// Its identity may have been forgotten. It is refused and not run.
    TooOld {
        /// The oldest time that is tracked.
        oldest: Timestamp,
    },
    /// It is from further in the future than clocks differ; it would be tracked for too long.
    FromTheFuture,
    /// It carries no time, so it could never be told from a forgotten one.
    Timeless,
}

impl Window {
    /// The floor at `now`; never below the one before.
    #[must_use]
    pub fn floor(&self, before: WindowFloor, now: Timestamp) -> WindowFloor {
        before.max(WindowFloor(now.minus(self.length.duration())))
    }

    /// Whether an id that the ledger does not know may name a new operation.
    #[must_use]
    pub fn admit(&self, id: &OperationId, floor: WindowFloor, now: Timestamp) -> Admission {
        match self.ids.read(id) {
            None => Admission::Timeless,
            Some(time) if floor.may_forget(time) => Admission::TooOld { oldest: floor.0 },
            Some(time) if time.since(now) > ID_CLOCK_SKEW_MAX => Admission::FromTheFuture,
            Some(_) => Admission::Tracked,
        }
    }
}

fn uuid_v7(text: &str) -> Option<u64> {
    let hyphens = [8, 13, 18, 23];
    let shaped = text.len() == 36
        && text.bytes().enumerate().all(
            |(at, byte)| {
                if hyphens.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            },
        );
    if !shaped || text.as_bytes()[14] != b'7' || !b"89abAB".contains(&text.as_bytes()[19]) {
        return None;
    }
    u64::from_str_radix(&format!("{}{}", &text[0..8], &text[9..13]), 16).ok()
}

fn ulid(text: &str) -> Option<u64> {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if text.len() != 26 {
        return None;
    }
    let values: Option<Vec<u64>> = text
        .bytes()
        .map(|byte| DIGITS.iter().position(|digit| *digit == byte.to_ascii_uppercase()).map(|value| value as u64))
        .collect();
    let values = values?;
    // 26 digits are 130 bits; a ULID has 128, so the first digit is at most 7.
    (values[0] <= 7).then(|| values[..10].iter().fold(0, |time, digit| time << 5 | digit))
}

const _: () = assert!(ID_CLOCK_SKEW_MAX.as_secs() >= Duration::from_secs(60).as_secs());

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { ids: IdTime::UuidV7, length: Span::seconds(3_600) };
    /// 2022-02-22T19:22:22Z, the example of RFC 9562.
    const EXAMPLE: &str = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F";

    fn id(text: &str) -> OperationId {
        OperationId::parse(text).unwrap()
    }

    fn example_time() -> Timestamp {
        IdTime::UuidV7.read(&id(EXAMPLE)).unwrap()
    }

    #[test]
    fn ids_carry_their_time() {
        assert_eq!(example_time().as_micros(), 1_645_557_742_000_000);
        let ulid = IdTime::Ulid.read(&id("01ARZ3NDEKTSV4RRFFQ69G5FAV")).unwrap();
        assert_eq!(ulid.as_micros(), 1_469_922_850_259_000);
        for other in ["order-17", "017f22e2-79b0-4cc3-98c4-dc0c0c07398f", "81ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            assert_eq!(IdTime::UuidV7.read(&id(other)), None, "{other}");
            assert_eq!(IdTime::Ulid.read(&id(other)), None, "{other}");
        }
    }

    #[test]
    fn an_identity_that_may_be_forgotten_is_refused_and_not_run() {
        let now = example_time().plus(Duration::from_secs(3_601));
        let floor = WINDOW.floor(WindowFloor::NOTHING_FORGOTTEN, now);
        assert!(floor.may_forget(example_time()));
        assert!(matches!(WINDOW.admit(&id(EXAMPLE), floor, now), Admission::TooOld { .. }));
    }

    #[test]
    fn a_clock_that_goes_back_reopens_nothing() {
        let late = example_time().plus(Duration::from_secs(3_601));
        let floor = WINDOW.floor(WindowFloor::NOTHING_FORGOTTEN, late);
        let back = WINDOW.floor(floor, example_time());
        assert_eq!(back, floor);
        assert!(matches!(WINDOW.admit(&id(EXAMPLE), back, example_time()), Admission::TooOld { .. }));
    }

    #[test]
    fn only_an_id_with_a_believable_time_is_admitted() {
        let floor = WindowFloor::NOTHING_FORGOTTEN;
        assert_eq!(WINDOW.admit(&id(EXAMPLE), floor, example_time()), Admission::Tracked);
        assert_eq!(WINDOW.admit(&id("order-17"), floor, example_time()), Admission::Timeless);
        let early = example_time().minus(Duration::from_secs(3_600));
        assert_eq!(WINDOW.admit(&id(EXAMPLE), floor, early), Admission::FromTheFuture);
    }
}
