//! Decisions of people: what can be decided about an operation, with the consequence of each choice computed first, and the
//! decision itself, on exactly the version of the row that was looked at.

use onceward_core::decision::{
    ChoiceKind, DecisionCase, Offer, Offered, Runs, irreversible_at, offers, without_a_decision,
};
use onceward_core::evidence::ScopeEquality;
use onceward_core::journal::Entry;
use onceward_core::key::{Generation, OperationId};
use onceward_core::operation::{Dispatcher, Operation};
use onceward_core::time::Timestamp;

pub use onceward_core::decision::{Choice, Decision, Evidence, FileHash, Reason};

use crate::authorize::{Authorized, Decide, Grant};
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::prospect::Prospect;
use crate::store::Expects;

/// What can be decided about an operation as it stands.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The version that all this is about. A decision names it, and is refused once the operation has moved on.
    pub version: u32,
    /// Every choice: legal with its consequence, or not, and why not.
    pub offers: Vec<Offer>,
    /// What happens if nobody decides.
    pub otherwise: String,
    /// The moment after which a way out is closed for good, where there is one.
    pub irreversible_at: Option<Timestamp>,
}

/// What happened to an operation between the look and the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The version that was looked at.
    pub seen: u32,
    /// The version it has.
    pub version: u32,
    /// Where it stands.
    pub state: &'static str,
    /// The events since, in order, the first few of them: what happened, by whom, when.
    pub events: Vec<(String, String, Timestamp)>,
}

impl std::fmt::Display for Since {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "version {} was looked at, and it is at version {} ({}) now", self.seen, self.version, self.state)?;
        for (event, actor, at) in &self.events {
            write!(f, "; {event} by {actor} at {at}")?;
        }
        Ok(())
    }
}

impl Ledger {
    /// What can be decided about an operation, and what follows from each choice. Never writes.
    ///
    /// # Errors
    /// [`LedgerError::Store`].
    pub async fn choices(&self, _allowed: &Authorized<Decide>, operation: &Operation) -> Result<Choices, LedgerError> {
        let prospect = self.inner.prospect_here(operation).await?;
        let mut choices = self.inner.with_case(operation, prospect.as_ref(), |case| Choices {
            version: operation.journal.seq,
            offers: offers(case),
            otherwise: without_a_decision(case),
            irreversible_at: irreversible_at(case),
        });
        match self.inner.may_be_sent_beside(operation).await {
            Ok(()) => {}
            Err(why @ (LedgerError::Unresolved { .. } | LedgerError::ApprovalVoid)) => {
                let again = choices.offers.iter_mut().filter(|offer| offer.choice == ChoiceKind::DispatchAgain);
                again.for_each(|offer| offer.offered = Offered::NotLegal { because: why.to_string() });
            }
            Err(error) => return Err(error),
        }
        Ok(choices)
    }

    /// Records a person's decision, with what it rests on, if the operation still is what `expects` says.
    ///
    /// # Errors
    /// [`LedgerError::Denied`] for the principal whose call it was; [`LedgerError::Moved`] where something has happened to it
    /// since it was looked at; [`LedgerError::Illegal`] where the choice is not legal: a running attempt must end first, and a
    /// settled operation is only contradicted, never moved. In all of them nothing was decided.
    pub async fn decide(
        &self,
        grant: &Grant,
        id: &OperationId,
        decision: Decision,
        expects: Expects,
    ) -> Result<Operation, LedgerError> {
        let (operation, _) = self.find(grant, id).await?;
        let allowed = grant.to_decide(&operation)?;
        if decision.choice().kind() == ChoiceKind::DispatchAgain {
            self.inner.may_be_sent_beside(&operation).await?;
        }
        let version = operation.journal.seq;
        let expects = match expects {
            // Its events are made for the row that was read just now.
            Expects::Anything => Expects::Version(version),
            Expects::Version(seen) if seen != version => return Err(self.inner.moved(&operation, seen).await?),
            Expects::Version(_) | Expects::Alone(_) => expects,
        };
        let events = decision.events(&operation, allowed.principal(), self.inner.clock.now());
        self.move_if(&allowed, &operation, events, expects).await
    }
}

impl Inner {
    /// What an operation was made with and where a repetition would go, as far as this process knows.
    pub(crate) async fn prospect_here(&self, operation: &Operation) -> Result<Option<Prospect>, LedgerError> {
        let known = self.directory.get().and_then(|directory| directory.known(&operation.binding.tool));
        self.prospect(operation, known.as_ref().map(|known| &known.destination)).await
    }

    /// Asks the rules about what a person may do with an operation.
    pub(crate) fn with_case<T>(
        &self,
        operation: &Operation,
        prospect: Option<&Prospect>,
        ask: impl FnOnce(&DecisionCase<'_>) -> T,
    ) -> T {
        let keys = |generation: Generation| self.secret.outbound_key(&operation.key, generation);
        let parts = prospect.map(Prospect::parts);
        let own = match &operation.terms.pin {
            Some(pin) => pin.is_own_function(),
            // What was added to the outbox in SQL names no destination, and is sent to one all the same.
            None => operation.terms.dispatch == Dispatcher::Caller,
        };
        ask(&DecisionCase {
            operation,
            runs: if own { Runs::Application } else { Runs::Destination },
            pinned: parts.map(|(pinned, _, _)| pinned),
            current: parts.map(|(_, current, _)| current),
            scope: parts.map_or(ScopeEquality::Unprovable, |(_, _, scope)| scope),
            keys: &keys,
            now: self.clock.now(),
        })
    }

    /// The refusal of a decision on an operation that has moved since version `seen`, with what happened.
    pub(crate) async fn moved(&self, operation: &Operation, seen: u32) -> Result<LedgerError, LedgerError> {
        let entries = self.store.journal(&operation.key, seen, limits::MOVED_SHOWN).await?;
        Ok(LedgerError::Moved(Box::new(Since {
            seen,
            version: operation.journal.seq,
            state: operation.state.name(),
            events: entries.into_iter().map(|Entry { event, actor, at, .. }| (event, actor, at)).collect(),
        })))
    }
}
