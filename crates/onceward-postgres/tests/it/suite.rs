//! What every store must do.

use std::sync::{Arc, Mutex};

use onceward_cluster::Database;
use onceward_core::outbound::LedgerSecret;
use onceward_ledger::clock::SystemClock;
use onceward_ledger::store::Store;
use onceward_ledger::testkit;
use onceward_postgres::{Options, PostgresStore};

pub(crate) fn options() -> Options {
    Options { clock: Arc::new(SystemClock), secret: LedgerSecret::new([7; 32]), tls: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_postgres_does_what_every_store_must() {
    let databases = Mutex::new(Vec::new());
    testkit::exercise(|| async {
        let database = Database::make().unwrap();
        let store = PostgresStore::open(database.url(), options()).await.unwrap();
        // Kept until the suite is over: a server may go with its database.
        databases.lock().unwrap().push(database);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}
