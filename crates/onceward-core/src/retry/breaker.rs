//! A circuit breaker: after enough faults in a row, one dispatch at a time finds out whether the destination is back.

use serde::{Deserialize, Serialize};

use crate::contract::Span;
use crate::time::Timestamp;

/// When it opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerPolicy {
    /// Faults in a row that open it.
    pub faults: u32,
    /// How long it stays open before a probe.
    pub open_for: Span,
}

impl Default for BreakerPolicy {
    /// Ten faults in a row, ten seconds: short enough that a restart of the destination is not felt twice.
    fn default() -> Self {
        Self { faults: 10, open_for: Span::seconds(10) }
    }
}

/// Whether a dispatch may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Pass,
    /// Yes, and it is the one that finds out: its end must be recorded.
    Probe,
    /// No; nothing was sent. Not before then.
    Shut {
        /// When a probe will be let through.
        until: Timestamp,
    },
}

/// One destination's breaker. It lives in memory.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed { faults: u32 },
    Open { until: Timestamp },
    Probing { until: Timestamp },
}

impl Breaker {
    /// Closed.
    #[must_use]
    pub const fn new(policy: BreakerPolicy) -> Self {
        Self { policy, phase: Phase::Closed { faults: 0 } }
    }

    /// Asks for a dispatch. A probe whose end is never recorded is taken for a fault after the same time.
    pub fn ask(&mut self, now: Timestamp) -> Gate {
        match self.phase {
            Phase::Closed { .. } => Gate::Pass,
            Phase::Open { until } | Phase::Probing { until } if now < until => Gate::Shut { until },
            Phase::Open { .. } | Phase::Probing { .. } => {
                self.phase = Phase::Probing { until: now.plus(self.policy.open_for.duration()) };
                Gate::Probe
            }
        }
    }

    /// The destination answered, whatever it said: it is there.
    pub const fn answered(&mut self) {
        self.phase = Phase::Closed { faults: 0 };
    }

    /// The destination was not reached, or broke down.
    pub fn failed(&mut self, now: Timestamp) {
        let until = now.plus(self.policy.open_for.duration());
        self.phase = match self.phase {
            Phase::Closed { faults } if faults + 1 < self.policy.faults => Phase::Closed { faults: faults + 1 },
            // The answers of dispatches that were under way when it opened do not keep it open longer.
            Phase::Open { until } => Phase::Open { until },
            Phase::Closed { .. } | Phase::Probing { .. } => Phase::Open { until },
        };
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn second(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    fn broken() -> Breaker {
        let mut breaker = Breaker::new(BreakerPolicy::default());
        (0..10).for_each(|_| breaker.failed(second(0)));
        breaker
    }

    #[test]
    fn ten_faults_in_a_row_open_it_and_nine_do_not() {
        let mut breaker = Breaker::new(BreakerPolicy::default());
        (0..9).for_each(|_| breaker.failed(second(0)));
        assert_eq!(breaker.ask(second(0)), Gate::Pass);
        breaker.answered();
        (0..9).for_each(|_| breaker.failed(second(0)));
        assert_eq!(breaker.ask(second(0)), Gate::Pass);
        breaker.failed(second(0));
        assert_eq!(breaker.ask(second(0)), Gate::Shut { until: second(10) });
    }

    #[test]
    fn one_probe_at_a_time_finds_out_whether_it_is_back() {
        let mut breaker = broken();
        assert_eq!(breaker.ask(second(10)), Gate::Probe);
        assert_eq!(breaker.ask(second(10)), Gate::Shut { until: second(20) });
        breaker.failed(second(12));
        assert_eq!(breaker.ask(second(13)), Gate::Shut { until: second(22) });
        assert_eq!(breaker.ask(second(22)), Gate::Probe);
        breaker.answered();
        assert_eq!(breaker.ask(second(22)), Gate::Pass);
    }

    #[test]
    fn a_probe_that_never_reports_does_not_keep_it_shut_for_ever() {
        let mut breaker = broken();
        assert_eq!(breaker.ask(second(10)), Gate::Probe);
        assert_eq!(breaker.ask(second(20)), Gate::Probe);
    }
}
