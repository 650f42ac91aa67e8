//! The store as the engine sees it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use onceward_core::journal::Entry;
use onceward_core::key::{Lane, OperationKey, OutboundKey, OwnerId, TenantId};
use onceward_core::operation::Operation;
use onceward_core::outbound::LedgerSecret;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::Clock;
use onceward_ledger::credential::{Credential, CredentialHash};
use onceward_ledger::local::LocalOutcome;
use onceward_ledger::mark::Mark;
use onceward_ledger::restore::Position;
use onceward_ledger::store::{
    BoxFuture, Command, Filter, LedgerId, Load, Opening, OwnerRow, Page, Priority, ReadyPage, Reply, Store, StoreError,
    Unresolved,
};
use tokio::sync::oneshot;

use crate::apply::{Landmark, Order};
use crate::checkpoint::{Copier, Log};
use crate::connect;
use crate::error::OpenError;
use crate::health::{Gauges, Health};
use crate::job::{Job, Work};
use crate::limits;
use crate::local::{Effect, LocalFailure, LocalJob};
use crate::migrate::{self, Identity};
use crate::queue::{NotLetIn, Queue};
use crate::reader::Readers;
use crate::writer::{Setting, Writer};

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// What time it is. Its `uptime` must move on by itself: waits are measured with it.
    pub clock: Arc<dyn Clock>,
    /// How long a claim waits for another process's write lock before it is told `Busy`.
    pub wait: Duration,
    /// How far the file may grow, in bytes; `None` for as far as the disk goes.
    pub bytes_max: Option<u64>,
    /// What of that, and of the disk, is kept for settles: claims stop that much earlier.
    pub settle_reserve_bytes: u64,
}

impl Options {
    /// The usual: five seconds of waiting, growth to the end of the disk, 16 MiB of it kept for settles.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, wait: limits::WAIT, bytes_max: None, settle_reserve_bytes: limits::SETTLE_RESERVE_BYTES }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("wait", &self.wait)
            .field("bytes_max", &self.bytes_max)
            .field("settle_reserve_bytes", &self.settle_reserve_bytes)
            .finish_non_exhaustive()
    }
}

/// A ledger in a SQLite file. Dropping it writes what waits, and closes the file.
pub struct SqliteStore {
    path: PathBuf,
    id: LedgerId,
    secret: LedgerSecret,
    clock: Arc<dyn Clock>,
    queue: Arc<Queue<Job>>,
    health: Arc<Health>,
    gauges: Arc<Gauges>,
    readers: Readers,
    writer: Option<JoinHandle<()>>,
    _copier: Copier,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).field("id", &self.id).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the ledger at `path`; a new file becomes one, with its secret beside it. Any number of processes may do so at
    /// once.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what helps; nothing may be dispatched without a ledger.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let Options { clock, wait, bytes_max, settle_reserve_bytes } = options;
        let until = clock.uptime() + limits::OPEN_WAIT;
        let connection = connect::open_new(&path, clock.as_ref(), until)?;
        let Identity { id, secret } = migrate::run(&connection, &path, clock.as_ref(), until)?;
        let queue = Arc::new(Queue::new());
        let health = Arc::new(Health::new());
        let gauges = Arc::new(Gauges::new());
        let log = Log::new();
        let setting = Setting {
            path: path.clone(),
            id: id.clone(),
            clock: Arc::clone(&clock),
            wait,
            bytes_max,
            reserve_bytes: settle_reserve_bytes,
            queue: Arc::clone(&queue),
            health: Arc::clone(&health),
            gauges: Arc::clone(&gauges),
            log: Arc::clone(&log),
        };
        let no_thread = |error: std::io::Error| OpenError::File { path: path.clone(), what: error.to_string() };
        let writer = Writer::new(setting, connection).map_err(|error| connect::opening(&path, &error))?;
        let copier = Copier::start(&path, log).map_err(no_thread)?;
        let end = EndOfWriter { queue: Arc::clone(&queue), health: Arc::clone(&health) };
        let thread = std::thread::Builder::new()
            .name("onceward-writer".to_owned())
            .spawn(move || {
                let _end = end;
                writer.run();
            })
            .map_err(no_thread)?;
        let readers = Readers::new(&path);
        Ok(Self { path, id, secret, clock, queue, health, gauges, readers, writer: Some(thread), _copier: copier })
    }

    /// The secret beside the file, from which outbound keys are made.
    #[must_use]
    pub const fn secret(&self) -> &LedgerSecret {
        &self.secret
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads an operation on the current thread. Never writes and never takes the write lock.
    ///
    /// # Errors
    /// [`StoreError`]; no dispatch is permitted.
    pub fn read(&self, key: &OperationKey) -> Result<Option<Operation>, StoreError> {
        self.readers.get(key)
    }

    /// Whether what `landmark` names is durable; a fresh read.
    pub(crate) fn has_landed(&self, landmark: &Landmark) -> Result<bool, StoreError> {
        self.readers.has_landed(landmark)
    }

    /// Runs a local effect: `effect` changes the application's own tables in the transaction that records the operation and
    /// its receipt. Either all of it is durable when this answers, or none of it is there. A key that exists runs nothing.
    ///
    /// `opening` carries the claim of the first attempt and no further event; one that waits for approval is opened, and
    /// nothing is run.
    ///
    /// # Errors
    /// [`LocalFailure`]; nothing is left of the effect, except where a commit's fate is unknown.
    pub async fn run_local(&self, opening: Opening, effect: Effect) -> Result<LocalOutcome, LocalFailure> {
        let (reply, answer) = oneshot::channel();
        let work = Work::Local(Box::new(LocalJob::new(opening, effect, reply)));
        self.enqueue(work, Priority::Claim);
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::CommitUnknown("the writer stopped before it answered".to_owned()).into())
        })
    }

    fn enqueue(&self, work: Work, priority: Priority) {
        let job = Job { work, priority, since: self.clock.uptime() };
        if !self.health.is_well() && priority != Priority::Settle {
            return job.fail(StoreError::Unavailable(self.health.trouble()));
        }
        match self.queue.push(job) {
            Ok(()) => {}
            Err((job, NotLetIn::Full)) => job.fail(StoreError::Busy),
            Err((job, NotLetIn::Closed)) => job.fail(StoreError::Unavailable("the ledger is closed".to_owned())),
        }
    }
}

/// However the writer ends, nothing more is let in.
struct EndOfWriter {
    queue: Arc<Queue<Job>>,
    health: Arc<Health>,
}

impl Drop for EndOfWriter {
    fn drop(&mut self) {
        self.queue.close();
        if std::thread::panicking() {
            self.health.fell_ill("the writer has panicked; the process must be restarted".to_owned());
            // Their senders go with them: whether they were written is not known.
            let mut left = Vec::new();
            self.queue.take(usize::MAX, &mut left);
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.writer.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer has panicked");
        }
    }
}

impl Store for SqliteStore {
    fn submit(&self, command: Command, priority: Priority) -> Reply {
        let (sender, reply) = Reply::channel();
        match Order::new(command) {
            Ok(order) => self.enqueue(Work::Command { order, reply: sender, uncertain: None }, priority),
            Err(fault) => drop(sender.send(Err(fault.into()))),
        }
        reply
    }

    fn get(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        ready(self.readers.get(key))
    }

    fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        ready(self.readers.journal(key, after, limit))
    }

    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Page, StoreError>> {
        ready(self.readers.list(&filter))
    }

    fn held_by(&self, owner: &OwnerId, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        ready(self.readers.held_by(owner, limit))
    }

    fn overdue(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        ready(self.readers.overdue(now, limit))
    }

    fn due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        ready(self.readers.due(now, limit))
    }

    fn ready(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<ReadyPage, StoreError>> {
        ready(self.readers.ready(after, limit))
    }

    fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> BoxFuture<'_, Result<Option<OperationKey>, StoreError>> {
        ready(self.readers.lane_head(tenant, lane))
    }

    fn suspects(&self, key: &OperationKey, probe: &Probe) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        ready(self.readers.suspects(key, probe, self.clock.now()))
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<OwnerRow>, StoreError>> {
        ready(self.readers.owners())
    }

    fn pinned(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        ready(self.readers.pinned(hash))
    }

    fn credential(&self, hash: &CredentialHash) -> BoxFuture<'_, Result<Option<Credential>, StoreError>> {
        ready(self.readers.credential(hash))
    }

    fn credentials(&self) -> BoxFuture<'_, Result<Vec<Credential>, StoreError>> {
        ready(self.readers.credentials())
    }

    fn marked(&self, mark: &Mark, limit: u32) -> BoxFuture<'_, Result<Vec<OperationKey>, StoreError>> {
        ready(self.readers.marked(mark, limit))
    }

    fn keys_held(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboundKey>, StoreError>> {
        ready(self.readers.keys_held(limit))
    }

    fn unresolved(&self) -> BoxFuture<'_, Result<Unresolved, StoreError>> {
        ready(self.readers.unresolved())
    }

    fn unsettled(&self, after: Option<&OperationKey>, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        ready(self.readers.unsettled(after, limit))
    }

    fn position(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        ready(self.readers.position())
    }

    fn load(&self) -> Load {
        Load {
            queued: u64::try_from(self.queue.len()).unwrap_or(u64::MAX),
            commits: self.gauges.commits.read(),
            groups: self.gauges.groups.read(),
        }
    }

    fn id(&self) -> LedgerId {
        self.id.clone()
    }

    fn is_healthy(&self) -> bool {
        self.health.is_well()
    }
}

/// A read takes microseconds: it is done at once, on the thread that asks.
fn ready<T: Send + 'static>(result: T) -> BoxFuture<'static, T> {
    Box::pin(std::future::ready(result))
}
