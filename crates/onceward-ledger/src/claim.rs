//! Ownership of an attempt as a value: made only after its claim is durable, spent by dispatching, and settled once.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::AttemptFacts;
use onceward_core::contract::Contract;
use onceward_core::event::{Basis, Claim, DispatchMark, Event};
use onceward_core::evidence::{RedrivePermit, next_generation};
use onceward_core::key::{AttemptNumber, Generation, OperationKey, OutboundKey, OwnerId};
use onceward_core::operation::Operation;
use onceward_core::state::{Attempt, Finding, State};
use onceward_core::time::Timestamp;

use crate::clock::Clock;
use crate::destination::{Dispatch, LateAnswer};
use crate::ledger::Inner;

/// An attempt in this process's hands, its claim durable. There is one per attempt, and it cannot be copied.
#[derive(Debug)]
#[must_use = "a claim that is not settled is recovered as unknown"]
pub(crate) struct Held {
    key: OperationKey,
    attempt: AttemptNumber,
    owner: OwnerId,
    standing: Standing,
}

/// How an attempt stands to those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    earlier_uncertain: EarlierUncertain,
    redrive: Redrive,
}

/// Whether earlier attempts of the operation may have had their effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlierUncertain {
    No,
    Yes,
}

/// Whether an attempt repeats the key of an earlier one that may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redrive {
    No,
    Yes,
}

/// The moment until which a first byte may leave, read from the clock that runs through suspend *before* the claim was
/// submitted, so that a slow commit shortens it (R5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow {
    pub(crate) until: Duration,
    pub(crate) send_before: Timestamp,
}

impl SendWindow {
    pub(crate) fn open(clock: &dyn Clock, within: Duration) -> Self {
        Self { until: clock.uptime() + within, send_before: clock.now().plus(within) }
    }

    /// The same window, over at `end` at the latest, on both clocks: the sender looks at the one that runs through suspend.
    fn over_at(self, end: Timestamp) -> Self {
        let cut = self.send_before.since(end);
        Self { until: self.until.saturating_sub(cut), send_before: self.send_before.min(end) }
    }
}

impl Standing {
    /// What the rules of classification ask about the attempt.
    pub(crate) fn facts(self, operation: &Operation, now: Timestamp) -> AttemptFacts<'_> {
        AttemptFacts {
            redrive: self.redrive == Redrive::Yes,
            earlier_uncertain: self.earlier_uncertain == EarlierUncertain::Yes,
            arguments: operation.binding.arguments.present().map(|arguments| arguments.value()),
            now,
        }
    }
}

impl Inner {
    /// The event that claims the next attempt of `operation` for this process, under the key in use.
    pub(crate) fn next_claim(&self, operation: &Operation, basis: Basis, window: SendWindow) -> Event {
        self.claim_under(operation, operation.history.generation, basis, window)
    }

    /// The event that claims the next attempt after every earlier one is proved to have had no effect: under the key in use,
    /// or under a new one where the destination holds something else under that (R4).
    pub(crate) fn claim_after_proof(&self, operation: &Operation, contract: &Contract, window: SendWindow) -> Event {
        let generation = next_generation(&operation.history, contract);
        self.claim_under(operation, generation, Basis::NoEffectSoFar, window)
    }

    fn claim_under(&self, operation: &Operation, generation: Generation, basis: Basis, window: SendWindow) -> Event {
        Event::Claim(Claim {
            attempt: AttemptNumber(operation.history.attempts + 1),
            owner: self.owner.clone(),
            basis,
            generation,
            outbound_key: Some(self.key_of(operation, generation)),
            send_before: window.send_before,
            settle_by: None,
            dispatch: DispatchMark::WithClaim,
        })
    }

    /// The key that an attempt of that generation sends: the operation's own, or, where it was sent beside another one in observe
    /// mode, that one's.
    pub(crate) fn key_of(&self, operation: &Operation, generation: Generation) -> OutboundKey {
        match operation.terms.sighting.as_ref().and_then(|sighting| sighting.key.clone()) {
            Some(key) => key,
            None => self.secret.outbound_key(&operation.key, generation),
        }
    }

    /// The event that repeats the key of the uncertain attempts, as the permit allows, and until when it may be sent:
    /// sending ends with the permit.
    pub(crate) fn next_redrive(
        &self,
        operation: &Operation,
        permit: RedrivePermit,
        window: SendWindow,
    ) -> (Event, SendWindow) {
        let window = window.over_at(permit.valid_until());
        (self.next_claim(operation, Basis::Redrive(permit), window), window)
    }
}

impl Held {
    /// Ownership of the attempt that `operation` is pending on, if it is in the hands of `owner`. Called with what the
    /// store answered to a claim, and with nothing else.
    pub(crate) fn of(operation: &Operation, owner: &OwnerId) -> Option<Self> {
        let State::Pending(pending) = &operation.state else { return None };
        if pending.attempt.owner != *owner {
            return None;
        }
        Some(Self {
            key: operation.key.clone(),
            attempt: pending.attempt.number,
            owner: owner.clone(),
            standing: Standing {
                earlier_uncertain: if pending.earlier.is_empty() {
                    EarlierUncertain::No
                } else {
                    EarlierUncertain::Yes
                },
                redrive: if pending.attempt.redrive { Redrive::Yes } else { Redrive::No },
            },
        })
    }

    pub(crate) const fn key(&self) -> &OperationKey {
        &self.key
    }

    pub(crate) const fn attempt(&self) -> AttemptNumber {
        self.attempt
    }

    pub(crate) const fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(crate) const fn standing(&self) -> Standing {
        self.standing
    }

    /// The one way to a [`Dispatch`]: from a durable claim, with the arguments that its fingerprint was made of.
    pub(crate) fn dispatch(
        &self,
        operation: &Operation,
        attempt: &Attempt,
        arguments: Arc<Canonical>,
        window: SendWindow,
        answer_within: Duration,
        clock: Arc<dyn Clock>,
    ) -> Dispatch {
        // The destination may have seen this key from every earlier attempt of it that left.
        let uncertain = operation.state.uncertain().iter().map(|one| one.claimed_at);
        let seen = operation.history.disproved.iter().filter_map(|one| match one.finding {
            Finding::NoEffect(_) | Finding::Refused if one.generation == attempt.generation => Some(one.claimed_at),
            Finding::NoEffect(_) | Finding::Refused | Finding::NotSent(_) => None,
        });
        let first_claimed_at = uncertain.chain(seen).min().unwrap_or(attempt.claimed_at);
        Dispatch {
            key: self.key.clone(),
            tool: operation.binding.tool.clone(),
            arguments,
            attempt: self.attempt,
            outbound_key: attempt.outbound_key.clone(),
            claimed_at: attempt.claimed_at,
            first_claimed_at,
            send_before: window.until,
            answer_within,
            clock,
            late: LateAnswer::to_nobody(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_that_ends_sooner_shortens_the_window_on_the_clock_that_the_sender_looks_at() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let window = SendWindow { until: Duration::from_secs(110), send_before: at(1_010) };
        let cut = window.over_at(at(1_003));
        assert_eq!((cut.until, cut.send_before), (Duration::from_secs(103), at(1_003)));
        let whole = window.over_at(Timestamp::from_micros(i64::MAX));
        assert_eq!((whole.until, whole.send_before), (window.until, window.send_before));
        assert_eq!(window.over_at(at(0)).until, Duration::ZERO);
    }
}
