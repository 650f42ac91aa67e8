//! What waits for the writer, behind a lock, and how a sleeping writer is woken; the order is that of [`onceward_ledger::waiting`].

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onceward_ledger::waiting::{Queued, Room, Waiting};

use crate::limits;

/// Why something was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// As much waits as may.
    Full,
    /// The store is closed.
    Closed,
}

/// The queue of one writer.
#[derive(Debug)]
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    wake: Condvar,
}

#[derive(Debug)]
struct State<J> {
    waiting: Waiting<J>,
    closed: bool,
    /// Whether the writer sleeps: only then a submission has to wake it.
    sleeping: bool,
}

impl<J: Queued> Queue<J> {
    pub(crate) fn new() -> Self {
        let room = Room { claims: limits::QUEUED_CLAIMS_MAX, settles: limits::QUEUED_SETTLES_MAX };
        let state = State { waiting: Waiting::new(room), closed: false, sleeping: false };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Lets it in, or gives it back.
    pub(crate) fn push(&self, job: J) -> Result<(), (J, NotLetIn)> {
        let mut state = self.lock();
        if state.closed {
            return Err((job, NotLetIn::Closed));
        }
        state.waiting.push(job).map_err(|job| (job, NotLetIn::Full))?;
        if std::mem::take(&mut state.sleeping) {
            drop(state);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Puts back what is to be tried again, before everything else.
    pub(crate) fn put_back(&self, jobs: impl DoubleEndedIterator<Item = J>) {
        self.lock().waiting.put_back(jobs);
    }

    /// Moves up to `most` of what waits into `into`, waiting for the first; `false` once it is closed and empty.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<J>) -> bool {
        let mut state = self.lock();
        loop {
            while into.len() < most
                && let Some(job) = state.waiting.take()
            {
                into.push(job);
            }
            if !into.is_empty() {
                return true;
            }
            if state.closed {
                return false;
            }
            state.sleeping = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes out everything but settles that was submitted before `before`.
    pub(crate) fn expire(&self, before: Duration, into: &mut Vec<J>) {
        self.lock().waiting.expire(before, into);
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Nothing more is let in; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // No code runs under this lock that can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use onceward_core::key::TenantId;
    use onceward_ledger::store::Priority;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(Priority, Option<TenantId>, u64);

    impl Queued for Item {
        fn priority(&self) -> Priority {
            self.0
        }
        fn tenant(&self) -> Option<&TenantId> {
            self.1.as_ref()
        }
        fn since(&self) -> Duration {
            Duration::from_millis(self.2)
        }
    }

    fn item(priority: Priority, tenant: &str, n: u64) -> Item {
        Item(priority, Some(TenantId::parse(tenant).unwrap()), n)
    }

    fn numbers(queue: &Queue<Item>) -> Vec<u64> {
        queue.close();
        let mut numbers = Vec::new();
        let mut taken = Vec::new();
        while queue.take(2, &mut taken) {
            numbers.extend(taken.drain(..).map(|item| item.2));
        }
        numbers
    }

    #[test]
    fn settles_come_first_and_a_busy_tenant_does_not_hold_up_another() {
        let queue = Queue::new();
        for n in 0..4 {
            queue.push(item(Priority::Claim, "loud", n)).unwrap();
        }
        queue.push(item(Priority::Claim, "quiet", 10)).unwrap();
        queue.push(item(Priority::Settle, "loud", 20)).unwrap();
        assert_eq!(numbers(&queue), [20, 0, 10, 1, 2, 3]);
    }

    #[test]
    fn a_full_line_of_claims_leaves_room_for_settles() {
        let queue = Queue::new();
        for n in 0..limits::QUEUED_CLAIMS_MAX as u64 {
            queue.push(item(Priority::Claim, "a", n)).unwrap();
        }
        assert_eq!(queue.push(item(Priority::Claim, "b", 0)).unwrap_err().1, NotLetIn::Full);
        assert!(queue.push(item(Priority::Settle, "a", 0)).is_ok());
        queue.close();
        assert_eq!(queue.push(item(Priority::Settle, "a", 0)).unwrap_err().1, NotLetIn::Closed);
    }

    #[test]
    fn claims_expire_in_their_turn_and_settles_never() {
        let queue = Queue::new();
        queue.push(item(Priority::Claim, "a", 1)).unwrap();
        queue.push(item(Priority::Claim, "b", 9)).unwrap();
        queue.push(item(Priority::Settle, "a", 1)).unwrap();
        let mut expired = Vec::new();
        queue.expire(Duration::from_millis(5), &mut expired);
        assert_eq!(expired.iter().map(|item| item.2).collect::<Vec<_>>(), [1]);
        let mut left = Vec::new();
        assert!(queue.take(8, &mut left));
        assert_eq!(left.iter().map(|item| item.2).collect::<Vec<_>>(), [1, 9]);
    }
}
