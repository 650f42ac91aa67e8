//! What waits for the writers, and how it is answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onceward_core::key::{OperationKey, TenantId};
use onceward_ledger::store::{Applied, Command, Priority, ReplySender, StoreError};
use onceward_ledger::waiting::{Queued, Room, Waiting};
use tokio::sync::Notify;

use crate::limits;

/// One command, and who waits for it.
pub(crate) struct Job {
    pub(crate) command: Command,
    pub(crate) priority: Priority,
    pub(crate) since: Duration,
    pub(crate) reply: ReplySender,
}

impl Job {
    /// Whether it is tried again until it is written: what is already known to have happened.
    pub(crate) fn is_kept(&self) -> bool {
        self.priority == Priority::Settle
    }

    pub(crate) fn answer(self, result: Result<Applied, StoreError>) {
        // Nobody waits any more for an answer that is not taken.
        let _ = self.reply.send(result);
    }

    /// Whose row it writes.
    pub(crate) fn key(&self) -> Option<&OperationKey> {
        match &self.command {
            Command::Open(opening) => Some(&opening.operation.key),
            Command::Step(step) => Some(&step.key),
            Command::Beat { .. }
            | Command::ForgetOwner(_)
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. }
            | Command::Restore(_)
            | Command::CloseRestores { .. } => None,
        }
    }
}

impl Queued for Job {
    fn priority(&self) -> Priority {
        self.priority
    }

    fn tenant(&self) -> Option<&TenantId> {
        self.key().map(|key| &key.tenant)
    }

    fn since(&self) -> Duration {
        self.since
    }
}

/// The queue of all writers of one store.
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    waiting: Waiting<Job>,
    closed: bool,
}

/// Why something was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    Full,
    Closed,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let room = Room { claims: limits::QUEUED_CLAIMS_MAX, settles: limits::QUEUED_SETTLES_MAX };
        Self { state: Mutex::new(State { waiting: Waiting::new(room), closed: false }), wake: Notify::new() }
    }

    pub(crate) fn push(&self, job: Job) -> Result<(), (Job, NotLetIn)> {
        let mut state = self.lock();
        if state.closed {
            return Err((job, NotLetIn::Closed));
        }
        state.waiting.push(job).map_err(|job| (job, NotLetIn::Full))?;
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    pub(crate) fn put_back(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        self.lock().waiting.put_back(jobs.into_iter());
        self.wake.notify_one();
    }

    /// Up to `most` of what waits, waiting for the first; nothing once it is closed and empty.
    pub(crate) async fn take(&self, most: usize) -> Vec<Job> {
        loop {
            let woken = self.wake.notified();
            {
                let mut state = self.lock();
                let mut jobs = Vec::new();
                while jobs.len() < most
                    && let Some(job) = state.waiting.take()
                {
                    jobs.push(job);
                }
                let more = !state.waiting.is_empty();
                if !jobs.is_empty() || state.closed {
                    drop(state);
                    if more {
                        self.wake.notify_one();
                    }
                    return jobs;
                }
            }
            woken.await;
        }
    }

    /// Takes out everything but settles that was submitted before `before`.
    pub(crate) fn expired(&self, before: Duration) -> Vec<Job> {
        let mut jobs = Vec::new();
        self.lock().waiting.expire(before, &mut jobs);
        jobs
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Nothing more is let in; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
        // One that is just about to wait.
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
