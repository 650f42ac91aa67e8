//! Contracts that operations were made with, durable under their content hash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_core::contract::Contract;

use crate::error::LedgerError;
use crate::store::{Command, Priority, Store, StoreError};

/// The pins that this process has written or read. Contracts are few; the map is bounded by them.
#[derive(Default)]
pub(crate) struct Pins {
    known: Mutex<HashMap<String, Arc<Contract>>>,
}

impl Pins {
    /// Makes the text of `contract`, whose content hash is `hash`, durable in the ledger.
    pub(crate) async fn pin(&self, store: &dyn Store, hash: &str, contract: &Contract) -> Result<(), LedgerError> {
        if self.get(hash).is_some() {
            return Ok(());
        }
        let body = serde_json::to_string(contract)
            .map_err(|error| StoreError::Corrupt(format!("a contract cannot be written: {error}")))?;
        store.submit(Command::Pin { hash: hash.to_owned(), body }, Priority::Claim).await?;
        self.put(hash, Arc::new(contract.clone()));
        Ok(())
    }

    /// The contract that was pinned under `hash`.
    pub(crate) async fn pinned(&self, store: &dyn Store, hash: &str) -> Result<Option<Arc<Contract>>, LedgerError> {
        if let Some(contract) = self.get(hash) {
            return Ok(Some(contract));
        }
        let Some(body) = store.pinned(hash).await? else { return Ok(None) };
        let contract: Contract = serde_json::from_str(&body)
            .map_err(|error| StoreError::Corrupt(format!("the pinned contract {hash} is broken: {error}")))?;
        let contract = Arc::new(contract);
        self.put(hash, Arc::clone(&contract));
        Ok(Some(contract))
    }

    fn get(&self, hash: &str) -> Option<Arc<Contract>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn put(&self, hash: &str, contract: Arc<Contract>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.to_owned(), contract);
    }
}
