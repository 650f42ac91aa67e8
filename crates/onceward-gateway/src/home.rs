//! Where a gateway's ledger lies, and how it is opened: a file that one gateway has to itself, or a database that any number share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use onceward_core::fingerprint::FingerprintKeys;
use onceward_core::outbound::LedgerSecret;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::recover::InstanceLocked;
use onceward_ledger::runtime::TokioRuntime;
use onceward_ledger::store::{OwnerKind, Store};
use onceward_ledger::{Intervals, Ledger, Settings};
use onceward_postgres::PostgresStore;
use onceward_sqlite::{InstanceLock, SqliteStore};

use crate::mark::{LossyFailover, MarkFile};
use crate::serve::StartError;

/// Where a ledger lies.
#[derive(Clone, Debug)]
pub enum Home {
    /// A SQLite file, with its secret beside it.
    File(PathBuf),
    /// A PostgreSQL database.
    Database(Box<DatabaseHome>),
}

/// A database that holds a ledger, and what it takes to open it.
#[derive(Clone)]
pub struct DatabaseHome {
    /// Its address; it may hold a password.
    pub address: String,
    /// The ledger's secret, the same for every gateway.
    pub secret: LedgerSecret,
    /// How its certificate is checked, where the address asks for TLS.
    pub tls: Option<rustls::ClientConfig>,
    /// Where this gateway keeps how far the ledger has come; without one, nothing tells that it went back.
    pub mark: Option<MarkFile>,
    /// Whether a fail-over may have lost something.
    pub failover: LossyFailover,
}

impl fmt::Debug for DatabaseHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseHome(…)")
    }
}

/// Without what only its owner may know.
impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Database(_) => f.write_str("a PostgreSQL database"),
        }
    }
}

impl From<PathBuf> for Home {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// A ledger's store, opened without the engine that works on it: for whoever makes credentials beside the gateways.
pub struct Bare {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The time, as the store knows it.
    pub clock: Arc<dyn Clock>,
    secret: LedgerSecret,
    /// Held as long as this lives: nobody else opens the file meanwhile.
    lock: Option<InstanceLock>,
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bare(…)")
    }
}

/// A ledger that this process has opened.
pub(crate) struct Opened {
    pub(crate) ledger: Ledger,
    /// Held as long as the gateway runs: nobody else opens the file meanwhile.
    pub(crate) lock: Option<InstanceLock>,
    /// Where it is kept how far the ledger has come.
    pub(crate) mark: Option<MarkFile>,
}

impl Opened {
    /// That every earlier gateway of this ledger is gone, where that is known.
    pub(crate) fn alone(&self) -> Option<InstanceLocked> {
        self.lock.as_ref().map(|_| InstanceLocked::held())
    }
}

impl Home {
    /// Opens the store alone. A file is locked as a gateway locks it; a database may have gateways at work meanwhile.
    ///
    /// # Errors
    /// [`StartError`]: another process has the file, or the ledger cannot be opened.
    pub async fn open_bare(&self) -> Result<Bare, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        match self {
            Self::File(path) => {
                let lock = InstanceLock::acquire(path)?;
                let store = SqliteStore::open(path, onceward_sqlite::Options::new(Arc::clone(&clock)))?;
                let secret = store.secret().clone();
                Ok(Bare { store: Arc::new(store), clock, secret, lock: Some(lock) })
            }
            Self::Database(home) => {
                onceward_destinations::client::install_tls_provider();
                let options = onceward_postgres::Options {
                    clock: Arc::clone(&clock),
                    secret: home.secret.clone(),
                    tls: home.tls.clone(),
                };
                let store = PostgresStore::open(&home.address, options).await?;
                Ok(Bare { store: Arc::new(store), clock, secret: home.secret.clone(), lock: None })
            }
        }
    }

    /// Where it is kept, outside the ledger, how far the ledger has come.
    #[must_use]
    pub fn mark(&self) -> Option<MarkFile> {
        match self {
            Self::File(path) => Some(MarkFile::beside(path)),
            Self::Database(home) => home.mark.clone(),
        }
    }

    pub(crate) const fn failover(&self) -> LossyFailover {
        match self {
            Self::File(_) => LossyFailover::Refused,
            Self::Database(home) => home.failover,
        }
    }

    /// Opens the engine over it, unless the ledger has gone back.
    pub(crate) async fn open(&self, intervals: Intervals) -> Result<Opened, StartError> {
        let Bare { store, clock, secret, lock } = self.open_bare().await?;
        let mark = self.mark();
        if let Some(mark) = &mark {
            // Before the first beat, which would raise the ledger to the present.
            let kept = mark.read()?;
            let position = store.position().await?;
            mark.compare(kept.as_ref(), &store.id(), &position, self.failover())?;
            mark.keep(&store.id(), &position)?;
            if let Some(epoch) = position.epoch {
                tracing::warn!(as_of = %epoch.as_of, restored_at = %epoch.restored_at,
                    "a restore is open: identities that may be older than it are unknown; `onceward restore --close` ends it");
            }
        }
        let keys = FingerprintKeys::unkeyed();
        let runtime = Arc::new(TokioRuntime::current());
        let kind = OwnerKind::Gateway;
        let ledger = Ledger::open(Settings { store, secret, keys, clock, runtime, kind, intervals }).await?;
        Ok(Opened { ledger, lock, mark })
    }
}
