//! What comes next about an unknown operation, asked of the rules with what this process knows: the pinned contract, the
//! destination as it is configured now, and whether anybody here carries checks out at all.

use std::sync::Arc;

use onceward_core::classify::Next;
use onceward_core::contract::{Contract, Kind};
use onceward_core::event::{Cause, Event, Observation};
use onceward_core::evidence::{
    NextCheck, RedriveCase, RedrivePermit, ScopeEquality, may_redrive, next_check, next_check_after, next_lookup,
};
use onceward_core::key::AttemptNumber;
use onceward_core::operation::{Operation, Pin};
use onceward_core::retry;
use onceward_core::state::State;
use onceward_core::time::Timestamp;

use crate::destination::Destination;
use crate::directory::Known;
use crate::error::LedgerError;
use crate::ledger::Inner;
use crate::limits;

/// What an unknown operation was made with, and where a repetition of it would go.
pub(crate) struct Prospect {
    pinned: Arc<Contract>,
    destination: Goes,
}

/// Where a repetition would go.
enum Goes {
    /// To this destination, as it is configured now.
    To(Arc<dyn Destination>, ScopeEquality),
    /// To the application's own function: nobody here sends to it or asks it, and its contract is what it said with its claim.
    Nowhere,
}

impl Prospect {
    fn current(&self) -> &Contract {
        match &self.destination {
            Goes::To(destination, _) => destination.contract(),
            Goes::Nowhere => &self.pinned,
        }
    }

    /// The contract that the operation was made with, the one that holds now, and whether a repetition would reach the same
    /// place.
    pub(crate) fn parts(&self) -> (&Contract, &Contract, ScopeEquality) {
        let scope = match &self.destination {
            Goes::To(_, scope) => *scope,
            Goes::Nowhere => ScopeEquality::Unprovable,
        };
        (&self.pinned, self.current(), scope)
    }

    /// The case that the rules judge.
    fn case<'a>(&'a self, operation: &'a Operation, now: Timestamp) -> RedriveCase<'a> {
        RedriveCase {
            pinned: &self.pinned,
            current: self.current(),
            scope: match &self.destination {
                Goes::To(_, scope) => *scope,
                Goes::Nowhere => ScopeEquality::Unprovable,
            },
            uncertain: operation.state.uncertain(),
            disproved: &operation.history.disproved,
            last_attempt: AttemptNumber(operation.history.attempts),
            now,
        }
    }

    /// What both contracts promise.
    pub(crate) fn contract(&self) -> Contract {
        self.pinned.narrower(self.current())
    }
}

/// Whether a redrive is among the things that may still be done about an operation without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redrives {
    Left,
    /// Its attempts or its time are used up, redrives there are stopped, or the destination would only give its stored error
    /// again.
    None,
}

impl Inner {
    /// `None` where the operation names no destination that it was made with, or one that nobody has configured here.
    pub(crate) async fn prospect(
        &self,
        operation: &Operation,
        destination: Option<&Arc<dyn Destination>>,
    ) -> Result<Option<Prospect>, LedgerError> {
        let Some(pin) = &operation.terms.pin else { return Ok(None) };
        let destination = match (pin.is_own_function(), destination) {
            (true, _) => Goes::Nowhere,
            (false, Some(there)) => Goes::To(Arc::clone(there), scope_equality(pin, operation, &**there)),
            (false, None) => return Ok(None),
        };
        let Some(pinned) = self.pins.pinned(&*self.store, &pin.contract).await? else { return Ok(None) };
        Ok(Some(Prospect { pinned, destination }))
    }

    /// Permission to send the same key again, if the destination's contract gives it here and now (R6).
    pub(crate) async fn redrive_permit(
        &self,
        operation: &Operation,
        destination: &Arc<dyn Destination>,
    ) -> Result<Option<RedrivePermit>, LedgerError> {
        if operation.history.in_disagreement() || !self.governor.redrives(destination.scope()) {
            return Ok(None);
        }
        // The destination may still be at work on what went out under the same key in observe mode.
        if !self.carried_on_by(operation).await?.is_nothing() {
            return Ok(None);
        }
        let Some(prospect) = self.prospect(operation, Some(destination)).await? else { return Ok(None) };
        match may_redrive(&prospect.case(operation, self.clock.now())) {
            Ok(permit) => Ok(Some(permit)),
            Err(why) => {
                tracing::debug!(key = %operation.key, ?why, "the same key may not be sent again");
                Ok(None)
            }
        }
    }

    /// Permission to send the same key again where that is worth an attempt: the contract's, within the operation's own bounds, and
    /// not where the destination would only give its stored error once more.
    pub(crate) async fn worthwhile_permit(
        &self,
        operation: &Operation,
        known: &Known,
    ) -> Result<Option<RedrivePermit>, LedgerError> {
        let Some(prospect) = self.prospect(operation, Some(&known.destination)).await? else { return Ok(None) };
        match self.redrives_left(operation, Some(known), &prospect, self.clock.now()) {
            Redrives::Left => self.redrive_permit(operation, &known.destination).await,
            Redrives::None => Ok(None),
        }
    }

    /// When an operation, unknown once `seen` is recorded, is looked at again by this process; `None` where a person settles
    /// it, where it will not be unknown, or where nothing here carries checks out.
    pub(crate) async fn check_after(
        &self,
        operation: &Operation,
        seen: &Observation,
        advice: Option<Next>,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let now = self.clock.now();
        match operation.clone().step(&Event::Observe(seen.clone()), now) {
            Ok(after) => self.next_check(&after, advice).await,
            Err(_) => Ok(None),
        }
    }

    /// The same for an operation as it stands.
    pub(crate) async fn next_check(
        &self,
        operation: &Operation,
        advice: Option<Next>,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let State::Unknown(_) = &operation.state else { return Ok(None) };
        let Some(directory) = self.directory.get() else { return Ok(None) };
        // Evidence contradicts itself: whatever is asked now, a person must look.
        if operation.history.in_disagreement() {
            return Ok(None);
        }
        let known = directory.known(&operation.binding.tool);
        let destination = known.as_ref().map(|known| &known.destination);
        let Some(prospect) = self.prospect(operation, destination).await? else { return Ok(None) };
        let now = self.clock.now();
        let case = prospect.case(operation, now);
        let check = match advice {
            Some(advice) => next_check_after(advice, &case),
            None => next_check(&case),
        };
        let check = match (check, self.redrives_left(operation, known.as_ref(), &prospect, now)) {
            (NextCheck::Redrive { .. }, Redrives::None) => next_lookup(&case),
            (check, Redrives::Left | Redrives::None) => check,
        };
        let at = match check {
            NextCheck::Person => return Ok(None),
            NextCheck::Lookup { at } => at,
            NextCheck::Redrive { at } => {
                let paced = at.max(now.plus(retry::pause_between_checks(operation.history.attempts)));
                // The last moment of the promise is used rather than slept through.
                match may_redrive(&case) {
                    Ok(permit) if permit.valid_until() <= paced => at,
                    Ok(_) | Err(_) => paced,
                }
            }
        };
        // Operations that an outage left together are not looked at together.
        Ok(Some(at.plus(self.chance().of(limits::CHECK_JITTER.min(at.since(now) / 4)))))
    }

    fn redrives_left(
        &self,
        operation: &Operation,
        known: Option<&Known>,
        prospect: &Prospect,
        now: Timestamp,
    ) -> Redrives {
        let (Some(known), Goes::To(..)) = (known, &prospect.destination) else { return Redrives::None };
        let stored_error = prospect.contract().kind() == Kind::K1
            && operation.state.uncertain().last().is_some_and(|latest| latest.cause == Cause::ServerError);
        // In observe mode nothing is sent that no caller sent.
        let observed = operation.terms.sighting.is_some();
        let over = operation.history.attempts >= known.retry.attempts_max
            || operation.terms.deadline.is_some_and(|deadline| now >= deadline)
            || !self.governor.redrives(known.destination.scope());
        if stored_error || over || observed { Redrives::None } else { Redrives::Left }
    }
}

/// Whether a repetition reaches the place where the first attempt went, with the same request: under a key that it knows, the
/// destination would take another one for a mistake.
fn scope_equality(pin: &Pin, operation: &Operation, destination: &dyn Destination) -> ScopeEquality {
    if pin.scope != destination.scope() {
        return ScopeEquality::Different;
    }
    match (&pin.request, operation.binding.arguments.present()) {
        (None, _) => ScopeEquality::Same,
        (Some(_), None) => ScopeEquality::Unprovable,
        (Some(first), Some(arguments)) => match destination.request_digest(arguments) {
            Some(now) if now == *first => ScopeEquality::Same,
            Some(_) => ScopeEquality::Different,
            None => ScopeEquality::Unprovable,
        },
    }
}
