//! The outbox in the transactions of a business whose tables lie beside the ledger's.

use std::path::PathBuf;
use std::sync::Arc;

use onceward_core::outbound::LedgerSecret;
use onceward_ledger::outbox::Entry;
use onceward_ledger::outbox_suite;
use onceward_ledger::store::{BoxFuture, Opening, Store};
use onceward_ledger::testkit::now;
use onceward_ledger::testkit::outbox::{End, Stage};
use onceward_sqlite::rusqlite::{Connection, TransactionBehavior};
use onceward_sqlite::{SqliteStore, approve_in};

use crate::scratch::options;

/// A file with the ledger, and a table of the business.
struct Shop {
    folder: tempfile::TempDir,
    secret: LedgerSecret,
}

impl Shop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("ledger.db"), options()).unwrap();
        let secret = store.secret().clone();
        let shop = Self { folder, secret };
        shop.connection().execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)").unwrap();
        shop
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    fn connection(&self) -> Connection {
        let connection = Connection::open(self.file()).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        connection
    }

    fn add(&self, openings: Vec<Opening>, end: End) -> Vec<Entry> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let mut entries = Vec::new();
        for opening in openings {
            let id = opening.operation.key.id.to_string();
            let entry = approve_in(&transaction, opening, now()).unwrap();
            if let Entry::Added(_) = entry {
                transaction.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
            }
            entries.push(entry);
        }
        match end {
            End::Committed => transaction.commit().unwrap(),
            End::RolledBack => transaction.rollback().unwrap(),
        }
        entries
    }
}

impl Stage for Shop {
    fn secret(&self) -> LedgerSecret {
        self.secret.clone()
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(self.file(), options()).unwrap());
        Box::pin(std::future::ready(store))
    }

    fn business(&self, openings: Vec<Opening>, end: End) -> BoxFuture<'_, Vec<Entry>> {
        Box::pin(std::future::ready(self.add(openings, end)))
    }
}

async fn shop() -> Box<dyn Stage> {
    Box::new(Shop::new())
}

outbox_suite!(shop);
