//! The writers: each has one connection, takes what waits, and answers it once it is committed.
//!
//! What is known after a failure decides what is answered. The server's own refusal means that nothing was written. A
//! connection that ended before its COMMIT was sent means the same. Everything else is unknown, and is asked about on another
//! connection, by making the row once more, before anybody is answered (R14).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use onceward_core::key::OperationKey;
use onceward_ledger::clock::Clock;
use onceward_ledger::store::{Command, StoreError};

use crate::batch::{self, Batch, Broken, Decided};
use crate::chance::Salts;
use crate::connect::{Address, Link};
use crate::error::{Fault, Trouble};
use crate::health::Health;
use crate::limits;
use crate::queue::{Job, Queue};

/// What a writer is started with.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) address: Address,
    pub(crate) queue: Arc<Queue>,
    pub(crate) health: Arc<Health>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// One writer, on the store's own runtime.
pub(crate) struct Writer {
    setting: Setting,
    link: Option<Link>,
    salts: Salts,
}

impl Writer {
    pub(crate) fn new(setting: Setting) -> Self {
        Self { setting, link: None, salts: Salts::new() }
    }

    /// Until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        loop {
            let jobs = self.setting.queue.take(limits::BATCH_MAX).await;
            if jobs.is_empty() {
                return;
            }
            let (now, later) = apart(jobs);
            self.setting.queue.put_back(later);
            self.write(now).await;
            self.expire();
        }
    }

    /// Claims that have waited for as long as anybody waits are told so; nothing of them was written.
    fn expire(&self) {
        let Some(before) = self.setting.clock.uptime().checked_sub(limits::WAIT) else { return };
        for job in self.setting.queue.expired(before) {
            job.answer(Err(StoreError::Busy));
        }
    }

    async fn write(&mut self, jobs: Vec<Job>) {
        let Some(link) = self.linked().await else {
            let trouble = self.setting.health.trouble();
            self.again(jobs, &Fault::Late("connecting"), || StoreError::Unavailable(trouble.clone()));
            tokio::time::sleep(limits::PAUSE.0).await;
            return;
        };
        let began = self.setting.clock.uptime();
        let at = self.setting.clock.now();
        let count = jobs.len() as u64;
        let within = began + limits::BATCH_WITHIN;
        let deciding = batch::decide(&link, jobs, at, &mut self.salts);
        let decided = match deciding.await {
            Ok(decided) => decided,
            Err((jobs, fault)) => {
                self.nothing_written(link, jobs, fault).await;
                return;
            }
        };
        let left = within.saturating_sub(self.setting.clock.uptime());
        let committed = match tokio::time::timeout(left, decided.commit(&link)).await {
            Ok(committed) => committed,
            Err(_) => Err(Broken::Unknown(Fault::Late("the commit"))),
        };
        match committed {
            Ok(written) => {
                self.setting.health.recovered();
                let took = self.setting.clock.uptime().saturating_sub(began);
                self.setting.health.commits.count(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                self.setting.health.groups.count(count);
                self.answer(&link, decided, &written).await;
                self.link = Some(link);
            }
            Err(Broken::Nothing(fault)) => {
                let jobs = decided.decided.into_iter().map(|one| one.job).collect();
                self.nothing_written(link, jobs, fault).await;
            }
            Err(Broken::Unknown(fault)) => {
                tracing::warn!(why = fault.words(), "it is not known whether a batch was committed; asking");
                // The connection is worth nothing any more; its transaction ends with it.
                drop(link);
                self.setting.health.fell_ill(fault.words());
                self.resolve(decided).await;
            }
        }
    }

    /// Answers a batch that is committed. What did not find its row as it was decided on has written nothing.
    async fn answer(&mut self, link: &Link, decided: Batch, written: &HashSet<OperationKey>) {
        let missed: Vec<OperationKey> = decided.writes().difference(written).cloned().collect();
        let known = match missed.is_empty() {
            true => Ok(std::collections::HashMap::new()),
            false => batch::read(link, &missed).await,
        };
        let at = self.setting.clock.now();
        let mut again = Vec::new();
        for Decided { job, answer, landmark } in decided.decided {
            match landmark {
                Some(landmark) if !written.contains(&landmark.key) => match (&job.command, &known) {
                    // The key was taken by somebody faster.
                    (Command::Open(opening), Ok(known)) if known.contains_key(&landmark.key) => {
                        let existing = known[&landmark.key].clone();
                        let answer = batch::existing(opening, existing, at, &mut self.salts);
                        job.answer(Ok(answer));
                    }
                    _ => again.push(job),
                },
                Some(_) | None => job.answer(Ok(answer)),
            }
        }
        self.setting.queue.put_back(again);
    }

    /// Nothing of the batch is in the ledger, and that is known.
    async fn nothing_written(&mut self, link: Link, jobs: Vec<Job>, fault: Fault) {
        match fault.trouble() {
            Trouble::Contended => {
                if link.client.batch_execute("ROLLBACK").await.is_ok() {
                    self.link = Some(link);
                }
                self.again(jobs, &fault, || StoreError::Busy);
            }
            Trouble::Gone => {
                drop(link);
                self.setting.health.fell_ill(fault.words());
                let trouble = fault.words();
                self.again(jobs, &fault, || StoreError::Unavailable(trouble.clone()));
                tokio::time::sleep(limits::PAUSE.0).await;
            }
            Trouble::Command => {
                if link.client.batch_execute("ROLLBACK").await.is_ok() {
                    self.link = Some(link);
                }
                self.one_by_one(jobs, fault).await;
            }
        }
    }

    /// Something in the batch is what is wrong: each is written by itself, so that it fails alone.
    async fn one_by_one(&mut self, jobs: Vec<Job>, fault: Fault) {
        if jobs.len() == 1 {
            for job in jobs {
                job.answer(Err(StoreError::Corrupt(fault.words())));
            }
            return;
        }
        for job in jobs {
            Box::pin(self.write(vec![job])).await;
        }
    }

    /// Settles are tried until they are written; claims until they have waited for as long as anybody waits.
    fn again(&self, jobs: Vec<Job>, fault: &Fault, told: impl Fn() -> StoreError) {
        let now = self.setting.clock.uptime();
        let (again, over): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.is_kept() || now.saturating_sub(job.since) < limits::WAIT);
        tracing::debug!(again = again.len(), over = over.len(), why = fault.words(), "a batch is tried again");
        for job in over {
            job.answer(Err(told()));
        }
        self.setting.queue.put_back(again);
    }

    /// Asks what became of a batch whose commit is unknown, until that is known. Claims are told after a while that it is not;
    /// nobody dispatches on them then. Whatever has to be known of settles is asked for as long as it takes.
    async fn resolve(&mut self, decided: Batch) {
        let until = self.setting.clock.uptime() + limits::RESOLVE_WITHIN;
        let mut open = decided.decided;
        let mut pause = limits::PAUSE.0;
        loop {
            match self.landed(&open).await {
                Ok(landed) => {
                    self.setting.health.recovered();
                    let mut again = Vec::new();
                    for Decided { job, answer, landmark } in open {
                        match landmark {
                            Some(landmark) if landed.contains(&landmark.key) => job.answer(Ok(answer)),
                            // It was not written, and is decided anew. What is about no operation may be written twice.
                            Some(_) => again.push(job),
                            None if job.key().is_some() => job.answer(Ok(answer)),
                            None => again.push(job),
                        }
                    }
                    self.again(again, &Fault::Late("the commit"), || StoreError::Busy);
                    return;
                }
                Err(fault) => {
                    tracing::warn!(why = fault.words(), "it is still not known whether a batch was committed");
                    if self.setting.clock.uptime() >= until {
                        let (kept, over): (Vec<_>, Vec<_>) = open.into_iter().partition(|one| one.job.is_kept());
                        for one in over {
                            one.job.answer(Err(StoreError::CommitUnknown(fault.words())));
                        }
                        open = kept;
                    }
                    if open.is_empty() {
                        return;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(limits::PAUSE.1);
                }
            }
        }
    }

    async fn landed(&mut self, open: &[Decided]) -> Result<HashSet<OperationKey>, Fault> {
        let link = self.linked().await.ok_or(Fault::Late("connecting"))?;
        let landmarks: Vec<_> = open.iter().filter_map(|one| one.landmark.clone()).collect();
        let asked = async {
            // A commit of our own that reaches as far as it must: everything before it in the log has reached as far by then.
            reach(&link).await?;
            batch::landed(&link, &landmarks).await
        };
        match tokio::time::timeout(limits::BATCH_WITHIN, asked).await {
            Ok(Ok(landed)) => {
                self.link = Some(link);
                Ok(landed)
            }
            Ok(Err(fault)) => Err(fault),
            Err(_) => Err(Fault::Late("the standby")),
        }
    }

    /// The connection of this writer, made anew where it has ended.
    async fn linked(&mut self) -> Option<Link> {
        if let Some(link) = self.link.take()
            && !link.client.is_closed()
        {
            return Some(link);
        }
        match self.setting.address.link().await {
            Ok(link) => Some(link),
            Err(fault) => {
                self.setting.health.fell_ill(fault.words());
                None
            }
        }
    }
}

/// Commits something, and makes sure that the server waited for its standby as it must.
pub(crate) async fn reach(link: &Link) -> Result<(), Fault> {
    link.is_in_doubt();
    link.client.batch_execute("UPDATE onceward.ledger SET probes = probes + 1").await?;
    if link.is_in_doubt() { Err(Fault::Late("the standby")) } else { Ok(()) }
}

/// The first job of each key, and the others: two events of one row cannot be decided at one time, and neither can two calls that
/// may be one intention, or two receipts of one effect.
fn apart(jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let mut keys: HashSet<OperationKey> = HashSet::new();
    let mut shared: HashSet<i64> = HashSet::new();
    jobs.into_iter().partition(|job| {
        let own = batch::shared(job);
        let free = job.key().is_none_or(|key| !keys.contains(key)) && own.iter().all(|number| !shared.contains(number));
        if free {
            keys.extend(job.key().cloned());
            shared.extend(own);
        }
        free
    })
}

/// How long a closing store waits between two looks.
pub(crate) const CLOSE_LOOK: Duration = Duration::from_millis(5);
