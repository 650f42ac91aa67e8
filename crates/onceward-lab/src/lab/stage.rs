//! What one scenario plays on: a folder of its own, and the processes it starts there.

use std::future::Future;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tempfile::TempDir;

use super::run::LabOptions;
use crate::http::Http;
use crate::limits::{LOOK_EVERY, SETTLE_WITHIN};
use crate::world::{Configuration, GatewayProcess, Home, Promise, SandboxProcess};

/// The stage of one scenario.
#[derive(Debug)]
pub(crate) struct Stage {
    binary: PathBuf,
    folder: TempDir,
    ledger: Home,
    http: Http,
}

impl Stage {
    /// An empty one.
    pub(crate) async fn new(options: &LabOptions) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let ledger = Home::make(&options.store, folder.path()).await?;
        Ok(Self { binary: options.binary.clone(), folder, ledger, http: Http::new()? })
    }

    /// Takes away what does not go with the folder, once the gateways have ended.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.ledger.remove().await
    }

    /// The binary under test.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Where the ledger of its gateways lies.
    pub(crate) const fn ledger(&self) -> &Home {
        &self.ledger
    }

    /// A sandbox.
    pub(crate) async fn sandbox(&self) -> Result<SandboxProcess> {
        SandboxProcess::start(&self.binary, self.folder.path(), &self.http).await
    }

    /// A gateway before it.
    pub(crate) async fn gateway(&self, configuration: &Configuration) -> Result<GatewayProcess> {
        let ledger = self.ledger.clone();
        GatewayProcess::start_on(&self.binary, self.folder.path(), ledger, configuration, &self.http).await
    }

    /// A sandbox and a gateway before it, in which the sandbox is said to promise this.
    pub(crate) async fn both(&self, promise: Promise) -> Result<(SandboxProcess, GatewayProcess)> {
        let sandbox = self.sandbox().await?;
        if promise != Promise::RecognisesKeys {
            // What is promised nowhere is not kept either.
            sandbox.promise(serde_json::json!({ "key_header": "none" })).await?;
        }
        let gateway = self.gateway(&Configuration::new(sandbox.url(), promise)).await?;
        Ok((sandbox, gateway))
    }
}

/// Looks until there is something to see.
pub(crate) async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let looking = async {
        loop {
            if let Some(seen) = look().await? {
                return Ok(seen);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(SETTLE_WITHIN, looking).await {
        Ok(seen) => seen,
        Err(_) => bail!("{what} did not come within {SETTLE_WITHIN:?}"),
    }
}
