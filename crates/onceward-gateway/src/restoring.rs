//! `onceward restore`: what is done to a ledger whose state was put back, before a gateway may start on it (R22).

use std::sync::Arc;
use std::time::Duration;

use onceward_core::time::Timestamp;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::limits::BEAT_EVERY;
use onceward_ledger::restore::{self, RestoreError, Restored, Restoring};
use onceward_ledger::store::{Store, StoreError};
use onceward_sqlite::SqliteStore;

use crate::home::{Bare, Home};
use crate::mark::WentBack;
use crate::serve::StartError;

/// How long a database is watched for gateways that are at work: two beats and a little. A file has a lock instead.
const WATCH: Duration = Duration::from_secs(2 * BEAT_EVERY.as_secs() + 1);

/// Why nothing was restored, or closed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreFailure {
    /// The ledger cannot be opened: most often because its gateway runs.
    #[error(transparent)]
    Open(#[from] StartError),
    /// The ledger does not take it.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// It is restored, and the mark could not be written: gateways start, but the next restore may go unnoticed.
    #[error("the ledger is restored, and {0}")]
    Mark(WentBack),
}

impl From<StoreError> for RestoreFailure {
    fn from(error: StoreError) -> Self {
        Self::Restore(error.into())
    }
}

impl Home {
    /// Says of which time the ledger is: everything that may have been sent since is `unknown` from now on. No gateway may run.
    ///
    /// # Errors
    /// [`RestoreFailure`]; it may be done again.
    pub async fn restore(&self, as_of: Timestamp) -> Result<Restored, RestoreFailure> {
        let Bare { store, clock, .. } = &self.open_bare().await?;
        match self {
            // Its lock is held.
            Self::File(_) => {}
            Self::Database(_) => {
                if restore::is_in_use(&**store, async |pause| tokio::time::sleep(pause).await, &**clock, WATCH).await? {
                    return Err(RestoreError::InUse.into());
                }
            }
        }
        // One that cannot be read says nothing; the restore counts as one more all the same.
        let reached = match self.mark().as_ref().map(crate::mark::MarkFile::read) {
            Some(Ok(Some(mark))) => Some(mark.high_water),
            Some(Ok(None) | Err(_)) | None => None,
        };
        let restored = restore::restore(&**store, &**clock, Restoring { as_of, reached }).await?;
        if let Some(mark) = self.mark() {
            mark.keep(&store.id(), &store.position().await?).map_err(RestoreFailure::Mark)?;
        }
        Ok(restored)
    }

    /// Ends the open restore. Gateways may run meanwhile, and take it in at once.
    ///
    /// # Errors
    /// [`RestoreFailure`]; nothing was closed.
    pub async fn close_restore(&self, reason: &str) -> Result<(), RestoreFailure> {
        match self {
            Self::File(path) => {
                let clock: Arc<dyn Clock> = Arc::new(SystemClock);
                let store = SqliteStore::open(path, onceward_sqlite::Options::new(clock)).map_err(StartError::from)?;
                close(&store, reason).await
            }
            Self::Database(_) => close(&*self.open_bare().await?.store, reason).await,
        }
    }
}

async fn close(store: &dyn Store, reason: &str) -> Result<(), RestoreFailure> {
    Ok(restore::close(store, reason).await?)
}
