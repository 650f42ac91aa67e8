//! Keeps the mark while a gateway serves, and ends the gateway when the ledger goes back under it: a database that was replaced, or
//! a standby that took over and lacks what was answered last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onceward_ledger::Ledger;
use tokio_util::sync::CancellationToken;

use crate::mark::{LossyFailover, MarkFile, WentBack};
use crate::serve::StartError;

/// What a keeper works with.
pub(crate) struct Keeper {
    pub(crate) mark: MarkFile,
    pub(crate) failover: LossyFailover,
    pub(crate) ledger: Ledger,
    /// As often as gateways beat.
    pub(crate) every: Duration,
    /// Ends the gateway.
    pub(crate) stop: CancellationToken,
    /// Why it ended.
    pub(crate) gone_back: Arc<Mutex<Option<WentBack>>>,
}

impl Keeper {
    /// Until the gateway stops, or the ledger has gone back.
    pub(crate) async fn run(self) {
        loop {
            let stopped = tokio::time::timeout(self.every, self.stop.cancelled()).await.is_ok();
            match self.once().await {
                Ok(()) => {}
                Err(StartError::WentBack(
                    why @ (WentBack::Behind { .. } | WentBack::OtherLedger { .. } | WentBack::LossyFailover { .. }),
                )) => {
                    tracing::error!(%why, "the ledger has gone back; this gateway takes nothing any more and ends");
                    *self.gone_back.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    self.ledger.shut_down(Duration::ZERO).await;
                    self.stop.cancel();
                    return;
                }
                Err(error) => tracing::warn!(%error, "how far the ledger has come could not be kept"),
            }
            if stopped {
                return;
            }
        }
    }

    async fn once(&self) -> Result<(), StartError> {
        let kept = self.mark.read()?;
        let store = self.ledger.store();
        // After the mark: another gateway that keeps the same one may be further by now, and never behind what it wrote.
        let position = store.position().await?;
        let id = store.id();
        self.mark.compare(kept.as_ref(), &id, &position, self.failover)?;
        let mark = self.mark.clone();
        let kept = tokio::task::spawn_blocking(move || mark.keep(&id, &position)).await;
        match kept {
            Ok(kept) => Ok(kept?),
            // The process is ending.
            Err(_) => Ok(()),
        }
    }
}
