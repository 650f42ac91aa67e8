//! What a destination says of an attempt after its time: the attempt was settled as a lost reply, and the reply comes after all.
//! It is evidence like any other, and settles what is unknown (R1).

use std::sync::{Arc, Weak};

use onceward_core::classify::{Observed, classify};
use onceward_core::event::Source;
use onceward_core::key::{AttemptNumber, OperationKey};
use onceward_core::operation::Operation;
use onceward_core::state::State;

use crate::claim::{Held, Standing};
use crate::destination::{Destination, LateAnswer};
use crate::drive::{Run, observation};
use crate::error::LedgerError;
use crate::ledger::Inner;
use crate::limits;
use crate::settle::Recorded;

/// An attempt whose answer may still come. What waits for that keeps neither the ledger nor the destination alive.
#[derive(Clone)]
struct Awaited {
    inner: Weak<Inner>,
    destination: Weak<dyn Destination>,
    key: OperationKey,
    attempt: AttemptNumber,
    standing: Standing,
}

impl Run {
    /// Who records what comes of this attempt after its time.
    pub(crate) fn late_answer(&self, held: &Held) -> LateAnswer {
        let awaited = Awaited {
            inner: Arc::downgrade(&self.inner),
            destination: Arc::downgrade(&self.tool.destination),
            key: held.key().clone(),
            attempt: held.attempt(),
            standing: held.standing(),
        };
        LateAnswer::to(move |observed| awaited.clone().came(observed))
    }
}

impl Awaited {
    fn came(self, observed: Observed) {
        let (Some(inner), Some(destination)) = (self.inner.upgrade(), self.destination.upgrade()) else { return };
        Arc::clone(&inner.runtime).spawn(Box::pin(async move {
            if let Err(error) = self.record(&inner, &*destination, &observed).await {
                tracing::error!(key = %self.key, attempt = %self.attempt, %error, "a late answer could not be recorded");
            }
        }));
    }

    async fn record(
        &self,
        inner: &Arc<Inner>,
        destination: &dyn Destination,
        observed: &Observed,
    ) -> Result<(), LedgerError> {
        let operation = self.settled(inner).await?;
        let facts = self.standing.facts(&operation, inner.clock.now());
        let classified = classify(destination.contract(), &facts, observed);
        let mut seen = observation(self.attempt, classified, Source::LateAnswer);
        seen.next_check = inner.check_after(&operation, &seen, None).await.unwrap_or_default();
        match inner.record(&self.key, &format!("owner:{}", inner.owner), seen).await? {
            Recorded::Done(_) => {}
            Recorded::Refused(refusal, _) => {
                tracing::error!(key = %self.key, attempt = %self.attempt, %refusal, "a late answer was refused");
            }
        }
        Ok(())
    }

    /// The operation, once what was seen in time is recorded: a proof that nothing happened says nothing about an attempt that is
    /// still in its owner's hands.
    async fn settled(&self, inner: &Inner) -> Result<Operation, LedgerError> {
        loop {
            let operation = inner.look(&self.key).await?.ok_or(LedgerError::NotFound)?;
            match &operation.state {
                State::Pending(pending) if pending.attempt.number == self.attempt => {
                    inner.runtime.sleep(limits::POLL_MAX).await;
                }
                State::Pending(_)
                | State::Proposed(_)
                | State::Approved(_)
                | State::Unknown(_)
                | State::Succeeded(_)
                | State::Rejected(_)
                | State::Closed(_) => return Ok(operation),
            }
        }
    }
}
