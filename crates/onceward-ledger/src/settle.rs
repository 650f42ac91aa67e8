//! Recording what was learned. An answer in hand is never lost: not to a busy ledger, and not to a claim that somebody else
//! has taken over (R1, R14).

use std::time::Duration;

use onceward_core::event::{Event, Observation, Source};
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::step::Refusal;

use crate::claim::Held;
use crate::error::LedgerError;
use crate::ledger::Inner;
use crate::limits;
use crate::store::{Applied, Expects, Step, StoreError};

impl Inner {
    /// Records an observation about the attempt that `held` owns, and gives the operation as it stands then.
    ///
    /// It is tried until it is written, however long the ledger is busy or full: the answer exists in memory only. If the
    /// attempt is no longer held, the same observation is recorded as late evidence at once.
    ///
    /// # Errors
    /// [`LedgerError`] only where trying again cannot help (a broken row).
    pub(crate) async fn settle(&self, held: Held, seen: Observation) -> Result<Operation, LedgerError> {
        let actor = format!("owner:{}", held.owner());
        let owned = Observation { source: Source::Owner(held.owner().clone()), ..seen };
        fail::fail_point!("settle::before");
        let settled = match self.record(held.key(), &actor, owned.clone()).await? {
            Recorded::Done(operation) => operation,
            Recorded::Refused(Refusal::ClaimLost, _) => {
                let late = Observation { source: Source::LateAnswer, ..owned };
                match self.record(held.key(), &actor, late).await? {
                    Recorded::Done(operation) => operation,
                    Recorded::Refused(refusal, operation) => {
                        tracing::error!(key = %held.key(), %refusal, "a late answer could not be recorded");
                        operation
                    }
                }
            }
            Recorded::Refused(refusal, operation) => {
                tracing::error!(key = %held.key(), %refusal, "a settlement was refused");
                operation
            }
        };
        fail::fail_point!("settle::after");
        Ok(settled)
    }

    /// Writes one observation, trying until the ledger takes it.
    pub(crate) async fn record(
        &self,
        key: &OperationKey,
        actor: &str,
        seen: Observation,
    ) -> Result<Recorded, LedgerError> {
        let mut pause = Duration::from_millis(5);
        loop {
            let step = Step {
                key: key.clone(),
                events: vec![Event::Observe(seen.clone())],
                actor: actor.to_owned(),
                expects: Expects::Anything,
            };
            match self.step(step).await {
                Ok(Applied::Stepped(operation)) => return Ok(Recorded::Done(operation)),
                Ok(Applied::Refused { refusal, operation }) => return Ok(Recorded::Refused(refusal, operation)),
                Ok(Applied::NoSuchOperation) => return Err(LedgerError::NotFound),
                Ok(Applied::Opened(operation) | Applied::Existing(operation) | Applied::Suspected(operation)) => {
                    return Ok(Recorded::Done(operation));
                }
                Ok(Applied::Done) => return Err(LedgerError::Contended),
                Err(error @ StoreError::Corrupt(_)) => return Err(error.into()),
                Err(StoreError::CommitUnknown(why)) => {
                    tracing::warn!(%key, why, "a settlement's commit is unknown; reading it back");
                    if let Ok(Some(operation)) = self.store.confirmed(key).await
                        && !is_held(&operation, &seen.source)
                    {
                        return Ok(Recorded::Done(operation));
                    }
                }
                Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => {
                    tracing::warn!(%key, %error, "an answer waits in memory for the ledger");
                }
            }
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(limits::SETTLE_RETRY_MAX);
        }
    }
}

/// What became of a recorded observation.
pub(crate) enum Recorded {
    /// It is durable.
    Done(Operation),
    /// A rule refused it; nothing changed.
    Refused(Refusal, Operation),
}

/// Whether the attempt that the source speaks for is still pending in its hands, so that its settlement was not written.
fn is_held(operation: &Operation, source: &Source) -> bool {
    match (&operation.state, source) {
        (State::Pending(pending), Source::Owner(owner) | Source::Recovery { owner }) => pending.attempt.owner == *owner,
        (
            State::Pending(_),
            Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Operator { .. } | Source::Restore,
        ) => true,
        (
            State::Proposed(_)
            | State::Approved(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_),
            _,
        ) => false,
    }
}
