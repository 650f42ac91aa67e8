//! What every store must do.

use std::sync::{Arc, Mutex};

use onceward_ledger::clock::SystemClock;
use onceward_ledger::store::Store;
use onceward_ledger::testkit;
use onceward_sqlite::{Options, SqliteStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_suite_that_every_store_passes() {
    let folders = Mutex::new(Vec::new());
    testkit::exercise(|| async {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("ledger.db"), Options::new(Arc::new(SystemClock))).unwrap();
        folders.lock().unwrap().push(folder);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}
