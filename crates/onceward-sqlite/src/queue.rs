//! What waits for the writer: settles, then signs of life, then claims round-robin by tenant (R14).

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onceward_core::key::TenantId;
use onceward_ledger::store::Priority;

use crate::limits;

/// Something to write, as far as the queue looks at it.
pub(crate) trait Queued {
    /// In which order.
    fn priority(&self) -> Priority;
    /// Whose turn it is, for claims.
    fn tenant(&self) -> Option<&TenantId>;
    /// When it was submitted, on the clock that runs on.
    fn since(&self) -> Duration;
}

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
    waiting: Mutex<Waiting<J>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Waiting<J> {
    settles: VecDeque<J>,
    beats: VecDeque<J>,
    claims: Claims<J>,
    closed: bool,
    /// Whether the writer sleeps: only then a submission has to wake it.
    sleeping: bool,
}

#[derive(Debug)]
struct Claims<J> {
    by_tenant: HashMap<Option<TenantId>, VecDeque<J>>,
    /// Tenants with something waiting, the next one first.
    turns: VecDeque<Option<TenantId>>,
    count: usize,
}

impl<J: Queued> Queue<J> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                settles: VecDeque::new(),
                beats: VecDeque::new(),
                claims: Claims { by_tenant: HashMap::new(), turns: VecDeque::new(), count: 0 },
                closed: false,
                sleeping: false,
            }),
            wake: Condvar::new(),
        }
    }

    /// Lets it in, or gives it back.
    pub(crate) fn push(&self, job: J) -> Result<(), (J, NotLetIn)> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err((job, NotLetIn::Closed));
        }
        match job.priority() {
            Priority::Settle if waiting.settles.len() < limits::QUEUED_SETTLES_MAX => waiting.settles.push_back(job),
            Priority::Beat if waiting.beats.len() < limits::QUEUED_SETTLES_MAX => waiting.beats.push_back(job),
            Priority::Claim if waiting.claims.count < limits::QUEUED_CLAIMS_MAX => waiting.claims.push(job),
            Priority::Settle | Priority::Beat | Priority::Claim => return Err((job, NotLetIn::Full)),
        }
        if std::mem::take(&mut waiting.sleeping) {
            drop(waiting);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Puts back what is to be tried again, before everything else.
    pub(crate) fn put_back(&self, jobs: impl DoubleEndedIterator<Item = J>) {
        let mut waiting = self.lock();
        for job in jobs.rev() {
            waiting.settles.push_front(job);
        }
    }

    /// Moves up to `most` of what waits into `into`, waiting for the first; `false` once it is closed and empty.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<J>) -> bool {
        let mut waiting = self.lock();
        loop {
            while into.len() < most
                && let Some(job) = waiting.next()
            {
                into.push(job);
            }
            if !into.is_empty() {
                return true;
            }
            if waiting.closed {
                return false;
            }
            waiting.sleeping = true;
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes out everything but settles that was submitted before `before`.
    pub(crate) fn expire(&self, before: Duration, into: &mut Vec<J>) {
        let mut waiting = self.lock();
        while waiting.beats.front().is_some_and(|job| job.since() < before) {
            into.extend(waiting.beats.pop_front());
        }
        waiting.claims.expire(before, into);
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        let waiting = self.lock();
        waiting.settles.len() + waiting.beats.len() + waiting.claims.count
    }

    /// Nothing more is let in; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        // No code runs under this lock that can leave it half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Queued> Waiting<J> {
    fn next(&mut self) -> Option<J> {
        self.settles.pop_front().or_else(|| self.beats.pop_front()).or_else(|| self.claims.next())
    }
}

impl<J: Queued> Claims<J> {
    fn push(&mut self, job: J) {
        let tenant = job.tenant().cloned();
        let line = self.by_tenant.entry(tenant.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(tenant);
        }
        line.push_back(job);
        self.count += 1;
    }

    fn next(&mut self) -> Option<J> {
        let tenant = self.turns.pop_front()?;
        let line = self.by_tenant.get_mut(&tenant)?;
        let job = line.pop_front()?;
        self.count -= 1;
        if line.is_empty() {
            // Memory goes by the tenants that wait, not by those that ever were.
            self.by_tenant.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        Some(job)
    }

    fn expire(&mut self, before: Duration, into: &mut Vec<J>) {
        for line in self.by_tenant.values_mut() {
            while line.front().is_some_and(|job| job.since() < before) {
                into.extend(line.pop_front());
                self.count -= 1;
            }
        }
        self.by_tenant.retain(|_, line| !line.is_empty());
        self.turns.retain(|tenant| self.by_tenant.contains_key(tenant));
    }
}

#[cfg(test)]
mod tests {
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
