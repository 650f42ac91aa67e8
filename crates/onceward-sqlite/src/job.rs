//! What waits for the writer, and how it is answered.

use std::time::Duration;

use onceward_core::key::TenantId;
use onceward_ledger::store::{Applied, Command, Priority, ReplySender, StoreError};
use onceward_ledger::waiting::Queued;

use crate::apply::{Landmark, Order};
use crate::local::LocalJob;

/// One thing to write.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) priority: Priority,
    pub(crate) since: Duration,
}

pub(crate) enum Work {
    /// A command of the engine.
    Command {
        order: Order,
        reply: ReplySender,
        /// Set when it was written and it is not known whether that was committed.
        uncertain: Option<Box<(Landmark, Applied)>>,
    },
    /// A local effect with its receipt.
    Local(Box<LocalJob>),
}

impl Job {
    /// Whether it is tried again until it is written: what is already known to have happened.
    pub(crate) fn is_kept(&self) -> bool {
        match (&self.work, self.priority) {
            (Work::Command { .. }, Priority::Settle) => true,
            (Work::Command { .. }, Priority::Beat | Priority::Claim) | (Work::Local(_), _) => false,
        }
    }

    /// Answers that nothing became of it.
    pub(crate) fn fail(self, error: StoreError) {
        match self.work {
            Work::Command { reply, .. } => {
                // Nobody waits any more for an answer that is not taken.
                let _ = reply.send(Err(error));
            }
            Work::Local(job) => job.fail(error),
        }
    }
}

impl Queued for Job {
    fn priority(&self) -> Priority {
        self.priority
    }

    fn tenant(&self) -> Option<&TenantId> {
        match &self.work {
            Work::Command { order, .. } => match &order.command {
                Command::Open(opening) => Some(&opening.operation.key.tenant),
                Command::Step(step) => Some(&step.key.tenant),
                Command::Beat { .. }
                | Command::ForgetOwner(_)
                | Command::Pin { .. }
                | Command::PutCredential(_)
                | Command::RevokeCredential { .. }
                | Command::Restore(_)
                | Command::CloseRestores { .. } => None,
            },
            Work::Local(job) => Some(job.tenant()),
        }
    }

    fn since(&self) -> Duration {
        self.since
    }
}
