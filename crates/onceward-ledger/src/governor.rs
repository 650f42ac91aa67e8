//! What keeps repetitions from multiplying an outage: a retry budget and a breaker per tenant and destination (R26), and the
//! stop of redrives to a destination that broke its word (R8). In memory: the durable bounds are each operation's own.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use onceward_core::classify::{NoAnswer, Observed};
use onceward_core::event::{NotSent, OtherEffect, Verdict};
use onceward_core::key::TenantId;
use onceward_core::retry::{Breaker, BreakerPolicy, Budget, BudgetPolicy, Gate, Spend};
use onceward_core::time::Timestamp;

use crate::limits::GOVERNED_MAX;

/// A tenant at a destination's scope.
type Route = (TenantId, String);

/// Budgets and breakers of the routes that this process uses.
#[derive(Default)]
pub(crate) struct Governor {
    routes: Mutex<HashMap<Route, (Budget, Breaker)>>,
    stopped: Mutex<HashSet<String>>,
}

/// Whether a dispatch may be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// Yes.
    Ahead,
    /// No: nothing is sent, and nothing may have happened.
    HeldBack,
}

impl Governor {
    /// Asks before a dispatch, which earns its share of the retry budget.
    pub(crate) fn ask(&self, tenant: &TenantId, scope: &str, now: Timestamp) -> Go {
        self.with(tenant, scope, now, |budget, breaker| {
            budget.earn(now);
            match breaker.ask(now) {
                Gate::Pass | Gate::Probe => Go::Ahead,
                Gate::Shut { .. } => Go::HeldBack,
            }
        })
        .unwrap_or(Go::Ahead)
    }

    /// Notes what a dispatch came to. An answer is a sign of life, whatever it says.
    pub(crate) fn note(&self, tenant: &TenantId, scope: &str, seen: &Observed, verdict: &Verdict, now: Timestamp) {
        let fault = matches!(seen, Observed::NotSent(NotSent::NoConnection) | Observed::NoAnswer(NoAnswer::TimedOut));
        let held_back = matches!(seen, Observed::HeldBack | Observed::NotSent(_)) && !fault;
        self.with(tenant, scope, now, |_, breaker| {
            if fault {
                breaker.failed(now);
            } else if !held_back {
                breaker.answered();
            }
        });
        if matches!(verdict, Verdict::OtherEffect(OtherEffect::ReplayMarkerMissing)) {
            tracing::error!(scope, "a repetition was answered as if it were new; redrives to this destination stop");
            self.stopped.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.to_owned());
        }
    }

    /// Takes one retry out of the budget, if it has one left. A route that is not governed for want of room has none.
    pub(crate) fn spend(&self, tenant: &TenantId, scope: &str, spend: Spend, now: Timestamp) -> bool {
        self.with(tenant, scope, now, |budget, _| budget.spend(spend, now)).unwrap_or(false)
    }

    /// Whether keys may be sent again in this scope.
    pub(crate) fn redrives(&self, scope: &str) -> bool {
        !self.stopped.lock().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    fn with<T>(
        &self,
        tenant: &TenantId,
        scope: &str,
        now: Timestamp,
        act: impl FnOnce(&mut Budget, &mut Breaker) -> T,
    ) -> Option<T> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let route = (tenant.clone(), scope.to_owned());
        if routes.len() >= GOVERNED_MAX && !routes.contains_key(&route) {
            return None;
        }
        let (budget, breaker) = routes
            .entry(route)
            .or_insert_with(|| (Budget::new(BudgetPolicy::default(), now), Breaker::new(BreakerPolicy::default())));
        Some(act(budget, breaker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn an_exhausted_budget_of_one_tenant_leaves_the_other_its_own() {
        let governor = Governor::default();
        let now = Timestamp::from_micros(1);
        let (one, other) = (tenant("one"), tenant("other"));
        let spent = (0..1_000).take_while(|_| governor.spend(&one, "d", Spend::AfterRefusal, now)).count();
        assert!((1..1_000).contains(&spent));
        assert!(governor.spend(&other, "d", Spend::AfterRefusal, now));
    }

    #[test]
    fn a_destination_that_never_answers_is_given_a_rest() {
        let governor = Governor::default();
        let now = Timestamp::from_micros(1);
        let seen = Observed::NotSent(NotSent::NoConnection);
        let verdict = Verdict::NotSent(NotSent::NoConnection);
        let faults = (0..100)
            .take_while(|_| {
                let go = governor.ask(&tenant("one"), "d", now) == Go::Ahead;
                if go {
                    governor.note(&tenant("one"), "d", &seen, &verdict, now);
                }
                go
            })
            .count();
        assert!((1..100).contains(&faults));
    }

    #[test]
    fn a_missing_replay_marker_stops_redrives_to_that_destination_and_no_other() {
        let governor = Governor::default();
        let verdict = Verdict::OtherEffect(OtherEffect::ReplayMarkerMissing);
        governor.note(&tenant("one"), "d", &Observed::McpStreamLost, &verdict, Timestamp::EPOCH);
        assert!(!governor.redrives("d"));
        assert!(governor.redrives("e"));
    }
}
