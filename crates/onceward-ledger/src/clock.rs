//! The one place that reads clocks.

use std::time::Duration;

use onceward_core::time::Timestamp;

/// Reads time for the engine and the stores.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, for records and horizons.
    fn now(&self) -> Timestamp;

    /// A clock that runs on while the machine is suspended, for `send_before` and the silence of owners (R5, R12).
    fn uptime(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Timestamp::from_micros(time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000))
    }

    fn uptime(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}
