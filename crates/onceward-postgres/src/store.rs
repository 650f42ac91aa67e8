//! The store as the engine sees it.

use std::fmt;
use std::sync::Arc;

use onceward_core::journal::Entry;
use onceward_core::key::{Lane, OperationKey, OutboundKey, OwnerId, TenantId};
use onceward_core::operation::Operation;
use onceward_core::outbound::LedgerSecret;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::Clock;
use onceward_ledger::credential::{Credential, CredentialHash};
use onceward_ledger::mark::Mark;
use onceward_ledger::restore::Position;
use onceward_ledger::store::{
    BoxFuture, Command, Filter, LedgerId, Load, OwnerRow, Page, Priority, ReadyPage, Reply, Store, StoreError,
    Unresolved,
};
use tokio::runtime::Runtime;

use crate::connect::Address;
use crate::error::OpenError;
use crate::health::Health;
use crate::local::Locals;
use crate::queue::{Job, NotLetIn, Queue};
use crate::reader::Readers;
use crate::writer::{CLOSE_LOOK, Setting, Writer};
use crate::{limits, migrate};

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// What time it is. Its `uptime` must move on by itself: waits are measured with it.
    pub clock: Arc<dyn Clock>,
    /// The ledger's secret, the same for every process that opens it. It is never in the database: outbound keys are made with
    /// it, so it belongs into backups apart from the database's.
    pub secret: LedgerSecret,
    /// How certificates of the server are checked. Where it is given, every connection is encrypted or refused; where it is not, an
    /// address that asks for TLS is refused.
    pub tls: Option<rustls::ClientConfig>,
}

/// A ledger in a PostgreSQL database, for any number of processes. Dropping it writes what waits.
pub struct PostgresStore {
    id: LedgerId,
    secret: LedgerSecret,
    pub(crate) clock: Arc<dyn Clock>,
    queue: Arc<Queue>,
    health: Arc<Health>,
    readers: Arc<Readers>,
    pub(crate) locals: Locals,
    writers: Vec<tokio::task::JoinHandle<()>>,
    /// Sockets and writers live here, so that the store needs nothing of its caller's runtime.
    runtime: Option<Runtime>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the ledger in the database at `address`, a URL or a list of `key=value`; a database without one gets its tables, in
    /// the schema `onceward`. Any number of processes may do so at once.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what helps; nothing may be dispatched without a ledger.
    pub async fn open(address: &str, options: Options) -> Result<Self, OpenError> {
        let Options { clock, secret, tls } = options;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("onceward-postgres")
            .enable_all()
            .build()
            .map_err(|error| OpenError::Threads(error.to_string()))?;
        let opened = Self::opened(address, tls, &runtime, &secret, &*clock).await;
        let (address, id) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let queue = Arc::new(Queue::new());
        let health = Arc::new(Health::new());
        let setting = Setting {
            address: address.clone(),
            queue: Arc::clone(&queue),
            health: Arc::clone(&health),
            clock: Arc::clone(&clock),
        };
        let writers = (0..limits::WRITERS).map(|_| runtime.spawn(Writer::new(setting.clone()).run())).collect();
        let locals = Locals::new(address.clone(), runtime.handle().clone());
        let readers = Arc::new(Readers::new(address));
        Ok(Self { id, secret, clock, queue, health, readers, locals, writers, runtime: Some(runtime) })
    }

    async fn opened(
        address: &str,
        tls: Option<rustls::ClientConfig>,
        runtime: &Runtime,
        secret: &LedgerSecret,
        clock: &dyn Clock,
    ) -> Result<(Address, LedgerId), OpenError> {
        let address = Address::parse(address, tls, runtime.handle().clone())?;
        let link = address.link().await.map_err(|fault| OpenError::Unreachable(fault.words()))?;
        migrate::is_durable(&link).await?;
        let id = migrate::run(&link, secret, clock.now()).await?;
        Ok((address, id))
    }

    /// The secret from which outbound keys are made.
    #[must_use]
    pub const fn secret(&self) -> &LedgerSecret {
        &self.secret
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.queue.close();
        let until = self.clock.uptime() + limits::CLOSE_WAIT;
        while self.writers.iter().any(|writer| !writer.is_finished()) && self.clock.uptime() < until {
            std::thread::sleep(CLOSE_LOOK);
        }
        if let Some(runtime) = self.runtime.take() {
            // A runtime that is dropped inside another one would block it.
            runtime.shutdown_background();
        }
    }
}

impl Store for PostgresStore {
    fn submit(&self, command: Command, priority: Priority) -> Reply {
        let (reply, answer) = Reply::channel();
        let job = Job { command, priority, since: self.clock.uptime(), reply };
        match self.queue.push(job) {
            Ok(()) => {}
            Err((job, NotLetIn::Full)) => job.answer(Err(StoreError::Busy)),
            Err((job, NotLetIn::Closed)) => {
                job.answer(Err(StoreError::Unavailable("the ledger is closed".to_owned())));
            }
        }
        answer
    }

    fn get(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        let key = key.clone();
        Box::pin(async move { self.readers.get(&key).await })
    }

    fn confirmed(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        let key = key.clone();
        let readers = Arc::clone(&self.readers);
        let Some(runtime) = &self.runtime else {
            return Box::pin(std::future::ready(Err(StoreError::Unavailable("the ledger is closed".to_owned()))));
        };
        // On the store's own runtime: the limit on its time is the store's.
        let asked = runtime.spawn(async move {
            match tokio::time::timeout(limits::BATCH_WITHIN, readers.confirmed(&key)).await {
                Ok(answered) => answered,
                Err(_) => Err(StoreError::Unavailable("the standby took too long".to_owned())),
            }
        });
        Box::pin(async move {
            asked.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the ledger is closing".to_owned())))
        })
    }

    fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let key = key.clone();
        Box::pin(async move { self.readers.journal(&key, after, limit).await })
    }

    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move { self.readers.list(&filter).await })
    }

    fn held_by(&self, owner: &OwnerId, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        let owner = owner.clone();
        Box::pin(async move { self.readers.held_by(&owner, limit).await })
    }

    fn overdue(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        Box::pin(self.readers.overdue(now, limit))
    }

    fn due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        Box::pin(self.readers.due(now, limit))
    }

    fn ready(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<ReadyPage, StoreError>> {
        Box::pin(self.readers.ready(after, limit))
    }

    fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> BoxFuture<'_, Result<Option<OperationKey>, StoreError>> {
        let (tenant, lane) = (tenant.clone(), lane.clone());
        Box::pin(async move { self.readers.lane_head(&tenant, &lane).await })
    }

    fn suspects(&self, key: &OperationKey, probe: &Probe) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        let (key, probe, at) = (key.clone(), probe.clone(), self.clock.now());
        Box::pin(async move { self.readers.suspects(&key, &probe, at).await })
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<OwnerRow>, StoreError>> {
        Box::pin(self.readers.owners())
    }

    fn pinned(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let hash = hash.to_owned();
        Box::pin(async move { self.readers.pinned(&hash).await })
    }

    fn credential(&self, hash: &CredentialHash) -> BoxFuture<'_, Result<Option<Credential>, StoreError>> {
        let hash = *hash;
        Box::pin(async move { self.readers.credential(&hash).await })
    }

    fn credentials(&self) -> BoxFuture<'_, Result<Vec<Credential>, StoreError>> {
        Box::pin(self.readers.credentials())
    }

    fn marked(&self, mark: &Mark, limit: u32) -> BoxFuture<'_, Result<Vec<OperationKey>, StoreError>> {
        let mark = mark.clone();
        Box::pin(async move { self.readers.marked(&mark, limit).await })
    }

    fn keys_held(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboundKey>, StoreError>> {
        Box::pin(self.readers.keys_held(limit))
    }

    fn unresolved(&self) -> BoxFuture<'_, Result<Unresolved, StoreError>> {
        Box::pin(self.readers.unresolved())
    }

    fn unsettled(&self, after: Option<&OperationKey>, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        let after = after.cloned();
        Box::pin(async move { self.readers.unsettled(after.as_ref(), limit).await })
    }

    fn position(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        Box::pin(self.readers.position())
    }

    fn load(&self) -> Load {
        Load { queued: self.queue.len() as u64, commits: self.health.commits.read(), groups: self.health.groups.read() }
    }

    fn id(&self) -> LedgerId {
        self.id.clone()
    }

    fn is_healthy(&self) -> bool {
        self.health.is_well()
    }
}
