//! A retry budget: a share of the requests, and a little on top, so that retries cannot multiply an outage.

use serde::{Deserialize, Serialize};

use crate::contract::Span;
use crate::limits::{RETRY_BUDGET_PER_SECOND, RETRY_BUDGET_PERCENT, RETRY_BUDGET_WINDOW};
use crate::time::Timestamp;

/// How much may be tried again, per tenant and destination (R26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetPolicy {
    /// The share of first dispatches, in per cent.
    pub percent: u32,
    /// Retries that are free, each second: a destination with little traffic must still be retried.
    pub per_second: u32,
    /// How long a dispatch that was not retried leaves its share behind.
    pub window: Span,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self {
            percent: RETRY_BUDGET_PERCENT,
            per_second: RETRY_BUDGET_PER_SECOND,
            window: Span::seconds(RETRY_BUDGET_WINDOW.as_secs()),
        }
    }
}

/// What a retry costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// It was turned away quickly: one retry.
    AfterRefusal,
    /// It held a connection until it timed out, and probably the destination's thread too: two.
    AfterTimeout,
}

/// What is left. It lives in memory: after a restart it is full again, which the breaker bounds.
#[derive(Clone, Debug)]
pub struct Budget {
    policy: BudgetPolicy,
    /// In hundredths of a retry, so that a share is a whole number.
    balance: u64,
    at: Timestamp,
}

impl Budget {
    /// A full reserve, as of `now`.
    #[must_use]
    pub fn new(policy: BudgetPolicy, now: Timestamp) -> Self {
        Self { policy, balance: u64::from(policy.per_second) * 100, at: now }
    }

    /// Notes a first dispatch, which earns its share.
    pub fn earn(&mut self, now: Timestamp) {
        self.refill(now);
        self.balance = (self.balance + u64::from(self.policy.percent)).min(self.most());
    }

    /// Takes a retry out of the budget if there is enough. Otherwise nothing is taken, and it must not be made.
    #[must_use]
    pub fn spend(&mut self, spend: Spend, now: Timestamp) -> bool {
        self.refill(now);
        let cost = match spend {
            Spend::AfterRefusal => 100,
            Spend::AfterTimeout => 200,
        };
        match self.balance.checked_sub(cost) {
            Some(left) => {
                self.balance = left;
                true
            }
            None => false,
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let milliseconds = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        let earned = u64::from(self.policy.per_second).saturating_mul(milliseconds) / 10;
        // Less than a hundredth stays with the old time, so that many short steps earn as much as one long one. A clock
        // that went back earns nothing.
        if earned > 0 || now < self.at {
            self.balance = self.balance.saturating_add(earned).min(self.most());
            self.at = now;
        }
    }

    /// What a window can leave behind: the reserve grows no further, or a quiet night would pay for a storm.
    fn most(&self) -> u64 {
        let seconds = self.policy.window.duration().as_secs().max(1);
        u64::from(self.policy.per_second).saturating_mul(seconds).saturating_mul(100)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn second(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    fn spent(budget: &mut Budget, spend: Spend, now: Timestamp) -> usize {
        (0..10_000).take_while(|_| budget.spend(spend, now)).count()
    }

    #[test]
    fn a_fifth_of_the_requests_may_be_tried_again_and_ten_each_second() {
        let mut budget = Budget::new(BudgetPolicy::default(), second(0));
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(0)), 10);
        (0..100).for_each(|_| budget.earn(second(0)));
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(0)), 20);
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(1)), 10);
    }

    #[test]
    fn a_timeout_costs_more_than_a_refusal() {
        let mut budget = Budget::new(BudgetPolicy::default(), second(0));
        assert_eq!(spent(&mut budget, Spend::AfterTimeout, second(0)), 5);
    }

    #[test]
    fn a_quiet_night_does_not_pay_for_a_storm() {
        let mut budget = Budget::new(BudgetPolicy::default(), second(0));
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(86_400)), 100);
    }

    #[test]
    fn a_clock_that_went_back_earns_nothing_and_does_not_stop_the_budget() {
        let mut budget = Budget::new(BudgetPolicy::default(), second(100));
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(100)), 10);
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(50)), 0);
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(51)), 10);
    }

    #[test]
    fn many_short_steps_earn_as_much_as_one_long_one() {
        let mut budget = Budget::new(BudgetPolicy { per_second: 1, ..BudgetPolicy::default() }, second(0));
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(0)), 1);
        for millisecond in 0..1_000 {
            budget.refill(Timestamp::from_micros(millisecond * 1_000));
        }
        assert_eq!(spent(&mut budget, Spend::AfterRefusal, second(1)), 1);
    }
}
