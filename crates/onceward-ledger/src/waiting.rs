//! What waits for a store's writer: settles, then signs of life, then claims round-robin by tenant (R14). Pure; each store puts its
//! own lock and its own way to wake a writer around it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use onceward_core::key::TenantId;

use crate::store::Priority;

/// Something to write, as far as the order looks at it.
pub trait Queued {
    /// In which order.
    fn priority(&self) -> Priority;
    /// Whose turn it is, for claims.
    fn tenant(&self) -> Option<&TenantId>;
    /// When it was submitted, on the clock that runs on.
    fn since(&self) -> Duration;
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// For claims.
    pub claims: usize,
    /// For settles, and for signs of life: kept apart, so that new work never displaces what is already known.
    pub settles: usize,
}

/// What waits, in order.
#[derive(Debug)]
pub struct Waiting<J> {
    room: Room,
    settles: VecDeque<J>,
    beats: VecDeque<J>,
    claims: Claims<J>,
}

#[derive(Debug)]
struct Claims<J> {
    by_tenant: HashMap<Option<TenantId>, VecDeque<J>>,
    /// Tenants with something waiting, the next one first.
    turns: VecDeque<Option<TenantId>>,
    count: usize,
}

impl<J: Queued> Waiting<J> {
    /// Nothing waits.
    #[must_use]
    pub fn new(room: Room) -> Self {
        let claims = Claims { by_tenant: HashMap::new(), turns: VecDeque::new(), count: 0 };
        Self { room, settles: VecDeque::new(), beats: VecDeque::new(), claims }
    }

    /// Lets it in.
    ///
    /// # Errors
    /// The job itself, where as much waits as may.
    pub fn push(&mut self, job: J) -> Result<(), J> {
        match job.priority() {
            Priority::Settle if self.settles.len() < self.room.settles => self.settles.push_back(job),
            Priority::Beat if self.beats.len() < self.room.settles => self.beats.push_back(job),
            Priority::Claim if self.claims.count < self.room.claims => self.claims.push(job),
            Priority::Settle | Priority::Beat | Priority::Claim => return Err(job),
        }
        Ok(())
    }

    /// Puts back what is to be tried again, before everything else.
    pub fn put_back(&mut self, jobs: impl DoubleEndedIterator<Item = J>) {
        for job in jobs.rev() {
            self.settles.push_front(job);
        }
    }

    /// The next one.
    pub fn take(&mut self) -> Option<J> {
        self.settles.pop_front().or_else(|| self.beats.pop_front()).or_else(|| self.claims.take())
    }

    /// Takes out everything but settles that was submitted before `before`.
    pub fn expire(&mut self, before: Duration, into: &mut Vec<J>) {
        while self.beats.front().is_some_and(|job| job.since() < before) {
            into.extend(self.beats.pop_front());
        }
        self.claims.expire(before, into);
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.settles.len() + self.beats.len() + self.claims.count
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    fn take(&mut self) -> Option<J> {
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
