//! When to try again, and when to stop: one retry owner per operation, every number an argument.
//!
//! Running out of attempts, time or budget is never a verdict on the effect. Nothing sent: not dispatched. Something sent:
//! unknown.

mod breaker;
mod budget;

use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use breaker::{Breaker, BreakerPolicy, Gate};
pub use budget::{Budget, BudgetPolicy, Spend};

use crate::contract::Span;
use crate::key::AttemptNumber;
use crate::limits::{ATTEMPTS_MAX, CHECK_PAUSE_FIRST, CHECK_PAUSE_MAX};
use crate::time::Timestamp;

/// How often and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The most dispatches.
    pub attempts_max: u32,
    /// The first pause after a transport fault, at most.
    pub transport_base: Span,
    /// The first pause after throttling, at most.
    pub throttle_base: Span,
    /// The longest pause.
    pub cap: Span,
}

impl Default for RetryPolicy {
    /// Ten dispatches: 50 ms after a transport fault, 1 s after throttling, doubling up to 30 s.
    fn default() -> Self {
        Self {
            attempts_max: 10,
            transport_base: Span::milliseconds(50),
            throttle_base: Span::seconds(1),
            cap: Span::seconds(30),
        }
    }
}

impl RetryPolicy {
    /// The longest time from the first attempt to the end of the last one, each of which may take `answer_within`: every pause
    /// as long as it can be drawn. A destination's own wish for patience may lengthen it.
    #[must_use]
    pub fn longest(&self, answer_within: Duration) -> Duration {
        let base = self.transport_base.duration().max(self.throttle_base.duration());
        let cap = self.cap.duration();
        let attempts = self.attempts_max.min(ATTEMPTS_MAX);
        let pauses = (0..attempts.saturating_sub(1))
            .map(|pause| base.saturating_mul(1 << pause.min(31)).min(cap))
            .fold(Duration::ZERO, Duration::saturating_add);
        pauses.saturating_add(answer_within.saturating_mul(attempts))
    }
}

/// Why it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The transport failed, or the destination did.
    Fault,
    /// The destination asked for patience.
    Throttled,
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not before then.
    At(Timestamp),
    /// Never by itself.
    Exhausted(Exhausted),
}

/// What ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// The attempts.
    Attempts,
    /// The time.
    Deadline,
}

/// A number in [0, 1) that the caller drew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance(f64);

impl Chance {
    /// Sixty-four random bits as a chance; the upper 53 are used.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        Self((bits >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// That part of a length of time.
    #[must_use]
    pub fn of(self, whole: Duration) -> Duration {
        whole.mul_f64(self.0)
    }
}

/// How long background work waits before it sends the key of an operation again that has had that many attempts: nobody waits
/// for it any more, and a destination that has been away for a minute is likely to be away for another.
#[must_use]
pub fn pause_between_checks(attempts: u32) -> Duration {
    CHECK_PAUSE_FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(20)).min(CHECK_PAUSE_MAX)
}

/// When the attempt after `last` may be made.
///
/// The pause is drawn from zero to `base · 2ⁿ`, at most `cap` (full jitter). `not_before` is the destination's own wish
/// and lengthens it; past `deadline` there is no next attempt.
#[must_use]
pub fn next(
    policy: &RetryPolicy,
    last: AttemptNumber,
    because: Because,
    not_before: Option<Duration>,
    chance: Chance,
    now: Timestamp,
    deadline: Option<Timestamp>,
) -> Retry {
    if last.0 >= policy.attempts_max.min(ATTEMPTS_MAX) {
        return Retry::Exhausted(Exhausted::Attempts);
    }
    let base = match because {
        Because::Fault => policy.transport_base,
        Because::Throttled => policy.throttle_base,
    };
    let doublings = last.0.saturating_sub(1).min(20);
    let ceiling = base.duration().saturating_mul(1 << doublings).min(policy.cap.duration());
    let pause = chance.of(ceiling).max(not_before.unwrap_or_default());
    let at = now.plus(pause);
    match deadline {
        Some(deadline) if at >= deadline => Retry::Exhausted(Exhausted::Deadline),
        Some(_) | None => Retry::At(at),
    }
}

/// What an operator lets a destination do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Everything.
    #[default]
    Open,
    /// No second dispatch of anything: set by a person, or by a redrive that its destination did not recognise (R8).
    NoRedrives,
    /// No dispatch at all.
    Closed,
}

/// What is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A dispatch after which, so far, nothing can have happened twice.
    First,
    /// A repetition of an uncertain attempt.
    Redrive,
}

impl Switch {
    /// Whether it may be sent.
    #[must_use]
    pub const fn permits(self, purpose: Purpose) -> bool {
        match (self, purpose) {
            (Self::Open, Purpose::First | Purpose::Redrive) | (Self::NoRedrives, Purpose::First) => true,
            (Self::NoRedrives, Purpose::Redrive) | (Self::Closed, Purpose::First | Purpose::Redrive) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const HALF: Chance = Chance(0.5);

    fn after(last: u32, not_before: Option<u64>, deadline: Option<u64>) -> Retry {
        next(
            &RetryPolicy::default(),
            AttemptNumber(last),
            Because::Throttled,
            not_before.map(Duration::from_secs),
            HALF,
            NOW,
            deadline.map(|seconds| NOW.plus(Duration::from_secs(seconds))),
        )
    }

    fn at(milliseconds: u64) -> Retry {
        Retry::At(NOW.plus(Duration::from_millis(milliseconds)))
    }

    #[test]
    fn pauses_double_and_are_drawn_from_zero_up() {
        assert_eq!(after(1, None, None), at(500));
        assert_eq!(after(2, None, None), at(1000));
        assert_eq!(after(4, None, None), at(4000));
        let none = next(&RetryPolicy::default(), AttemptNumber(1), Because::Fault, None, Chance(0.0), NOW, None);
        assert_eq!(none, at(0));
    }

    #[test]
    fn a_pause_never_exceeds_the_cap_unless_the_destination_asks_for_it() {
        let patient = RetryPolicy { attempts_max: 64, ..RetryPolicy::default() };
        let late = |not_before| next(&patient, AttemptNumber(60), Because::Fault, not_before, Chance(0.999), NOW, None);
        assert_eq!(late(None), Retry::At(NOW.plus(Duration::from_secs(30).mul_f64(0.999))));
        assert_eq!(late(Some(Duration::from_secs(90))), at(90_000));
    }

    #[test]
    fn retry_after_is_a_lower_bound_and_the_deadline_an_upper_one() {
        assert_eq!(after(1, Some(10), None), at(10_000));
        assert_eq!(after(1, Some(10), Some(11)), at(10_000));
        assert_eq!(after(1, Some(10), Some(10)), Retry::Exhausted(Exhausted::Deadline));
    }

    #[test]
    fn attempts_run_out() {
        assert_eq!(after(10, None, None), Retry::Exhausted(Exhausted::Attempts));
        let endless = RetryPolicy { attempts_max: u32::MAX, ..RetryPolicy::default() };
        let next = next(&endless, AttemptNumber(ATTEMPTS_MAX), Because::Fault, None, HALF, NOW, None);
        assert_eq!(next, Retry::Exhausted(Exhausted::Attempts));
    }

    #[test]
    fn the_longest_time_that_retries_take_has_every_pause_and_every_attempt() {
        let policy = |attempts_max| RetryPolicy { attempts_max, ..RetryPolicy::default() };
        assert_eq!(policy(1).longest(Duration::from_secs(7)), Duration::from_secs(7));
        assert_eq!(policy(4).longest(Duration::from_secs(10)), Duration::from_secs(1 + 2 + 4 + 40));
        assert_eq!(policy(10).longest(Duration::ZERO), Duration::from_secs(1 + 2 + 4 + 8 + 16 + 4 * 30));
        assert!(policy(u32::MAX).longest(Duration::MAX) == Duration::MAX);
    }

    #[test]
    fn random_bits_make_a_chance_below_one() {
        assert!(Chance::from_bits(u64::MAX).0 < 1.0);
        assert!(Chance::from_bits(0).0.abs() < f64::EPSILON);
    }

    #[test]
    fn a_switch_that_stops_redrives_lets_first_dispatches_through() {
        assert!(Switch::NoRedrives.permits(Purpose::First));
        assert!(!Switch::NoRedrives.permits(Purpose::Redrive));
        assert!(!Switch::Closed.permits(Purpose::First));
    }
}
