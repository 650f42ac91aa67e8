//! The sandbox's clock: the wall clock, and how far a test has moved it.

use std::sync::atomic::{AtomicI64, Ordering};

/// The wall clock plus an offset. A horizon of a day is tested by moving the clock, not by waiting.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    offset_us: AtomicI64,
}

impl Clock {
    /// Unix time in microseconds, as the sandbox sees it.
    #[allow(
        clippy::disallowed_methods,
        reason = "the sandbox stands for somebody else's system, and such a system reads its own clock"
    )]
    pub(crate) fn now_us(&self) -> i64 {
        jiff::Timestamp::now().as_microsecond() + self.offset_us.load(Ordering::Relaxed)
    }

    /// Moves the clock forward, and returns the time it now shows.
    pub(crate) fn advance(&self, by_ms: u64) -> i64 {
        self.offset_us.fetch_add(span_us(by_ms), Ordering::Relaxed);
        self.now_us()
    }

    /// Back to the wall clock.
    pub(crate) fn reset(&self) {
        self.offset_us.store(0, Ordering::Relaxed);
    }
}

/// Milliseconds as the microseconds that times are kept in.
pub(crate) fn span_us(ms: u64) -> i64 {
    i64::try_from(ms).map_or(i64::MAX, |ms| ms.saturating_mul(1000))
}

/// A time as people and JSON read it: RFC 3339, UTC.
pub(crate) fn rfc3339(at_us: i64) -> String {
    jiff::Timestamp::from_microsecond(at_us).map_or_else(|_| at_us.to_string(), |at| at.to_string())
}
