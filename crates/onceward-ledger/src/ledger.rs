//! The engine: one value that a process opens over a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use onceward_core::fingerprint::FingerprintKeys;
use onceward_core::key::{OperationKey, OwnerId};
use onceward_core::operation::Operation;
use onceward_core::outbound::LedgerSecret;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::directory::Directory;
use crate::error::LedgerError;
use crate::governor::Governor;
use crate::limits;
use crate::metrics::{Counting, Metrics};
use crate::pins::Pins;
use crate::places::Places;
use crate::running::Running;
use crate::runtime::Runtime;
use crate::store::{Command, OwnerKind, Priority, Store};

/// What an engine is opened with.
pub struct Settings {
    /// The ledger.
    pub store: Arc<dyn Store>,
    /// The secret of the ledger, kept beside it.
    pub secret: LedgerSecret,
    /// The fingerprint keys; a key stays while any operation names it.
    pub keys: FingerprintKeys,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Tasks.
    pub runtime: Arc<dyn Runtime>,
    /// What this process is.
    pub kind: OwnerKind,
    /// Its intervals.
    pub intervals: Intervals,
}

/// How often background work runs. The default is right for production; tests shorten it.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Between two beats.
    pub beat: Duration,
    /// How long another owner's counter must stand still before its attempts are recovered.
    pub silence: Duration,
    /// Between two sweeps.
    pub sweep: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { beat: limits::BEAT_EVERY, silence: limits::SILENCE, sweep: limits::SWEEP_EVERY }
    }
}

/// The durable operation ledger. Cheap to clone; all clones are one owner.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) secret: LedgerSecret,
    pub(crate) keys: FingerprintKeys,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) owner: OwnerId,
    pub(crate) kind: OwnerKind,
    pub(crate) intervals: Intervals,
    pub(crate) running: Running,
    pub(crate) pins: Pins,
    pub(crate) governor: Governor,
    pub(crate) dispatches: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: AtomicBool,
    /// Where background work finds destinations; set when the reconciler starts.
    pub(crate) directory: OnceLock<Arc<dyn Directory>>,
    /// Checks under way.
    pub(crate) checks: Arc<Places>,
    /// Questions have a budget of their own, beside the one of retries (R26).
    pub(crate) questions: Governor,
    /// Where the dispatcher finds destinations; set when it starts.
    pub(crate) outbox: OnceLock<Arc<dyn Directory>>,
    /// Entries of the outbox that are being sent.
    pub(crate) deliveries: Arc<Places>,
}

impl Ledger {
    /// Opens the engine: makes this process a new owner, durably, before it can claim anything, and starts its heartbeat
    /// and its recovery.
    ///
    /// # Errors
    /// [`LedgerError::Store`] when the ledger cannot be written; then nothing may be dispatched.
    pub async fn open(settings: Settings) -> Result<Self, LedgerError> {
        let Settings { store, secret, keys, clock, runtime, kind, intervals } = settings;
        let metrics = Arc::new(Metrics::default());
        let store: Arc<dyn Store> = Arc::new(Counting::over(store, Arc::clone(&metrics)));
        let owner = fresh_owner();
        store.submit(Command::Beat { owner: owner.clone(), kind, beat: 1 }, Priority::Beat).await?;
        let inner = Arc::new(Inner {
            store,
            secret,
            keys,
            clock,
            runtime,
            owner,
            kind,
            intervals,
            running: Running::default(),
            pins: Pins::default(),
            governor: Governor::default(),
            dispatches: Arc::new(Semaphore::new(limits::DISPATCHES_MAX)),
            metrics,
            stopping: AtomicBool::new(false),
            directory: OnceLock::new(),
            checks: Places::new(limits::CHECKS_MAX, limits::CHECKS_PER_ROUTE_MAX),
            questions: Governor::default(),
            outbox: OnceLock::new(),
            deliveries: Places::new(limits::DELIVERIES_MAX, limits::DELIVERIES_PER_ROUTE_MAX),
        });
        let ledger = Self { inner };
        ledger.start_background();
        Ok(ledger)
    }

    /// The id of this process among the owners.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.inner.owner
    }

    /// The store, for reads that surfaces make.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Takes no new work from now on, and waits at most `drain` for dispatches to be settled. What is left is recovered by
    /// the next owner as `unknown`.
    pub async fn shut_down(&self, drain: Duration) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let all = u32::try_from(limits::DISPATCHES_MAX).unwrap_or(u32::MAX);
        let drained = self.inner.dispatches.acquire_many(all);
        futures_util::future::select(Box::pin(drained), self.inner.runtime.sleep(drain)).await;
    }

    /// How many dispatches of this process are not settled yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        limits::DISPATCHES_MAX - self.inner.dispatches.available_permits()
    }
}

impl Inner {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) async fn look(&self, key: &OperationKey) -> Result<Option<Operation>, LedgerError> {
        Ok(self.store.get(key).await?)
    }
}

/// Random at every start: a restarted process never takes its own old claims for its own (R12).
fn fresh_owner() -> OwnerId {
    let id = uuid::Uuid::new_v4().to_string();
    OwnerId::parse(&id).unwrap_or_else(|_| unreachable!("a UUID is a name"))
}
