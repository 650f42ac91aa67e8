//! The outbox in the transactions of a business whose tables lie beside the ledger's.

use std::path::PathBuf;
use std::sync::Arc;

use onceward_core::outbound::LedgerSecret;
use onceward_ledger::outbox::Entry;
use onceward_ledger::store::{BoxFuture, Opening, Store};
use onceward_ledger::testkit::now;
use onceward_ledger::testkit::outbox::{self, End, Stage};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_is_never_sent() {
    outbox::what_is_rolled_back_is_never_sent(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_is_sent_once_by_two_dispatchers() {
    outbox::what_is_committed_is_sent_once_by_two_dispatchers(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_before_a_restart_is_sent_after_it() {
    outbox::what_was_committed_before_a_restart_is_sent_after_it(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_is_sent_in_the_order_of_commits() {
    outbox::a_lane_is_sent_in_the_order_of_commits(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_keeps_its_order_through_retries() {
    outbox::a_lane_keeps_its_order_through_retries(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_head_blocks_its_lane_until_somebody_decides() {
    outbox::an_unknown_head_blocks_its_lane_until_somebody_decides(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_head_blocks_its_lane_until_it_is_approved() {
    outbox::a_proposed_head_blocks_its_lane_until_it_is_approved(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_does_not_cover_another_definition_of_its_tool() {
    outbox::an_approval_does_not_cover_another_definition_of_its_tool(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r108_an_entry_that_nobody_took_is_not_marked_as_sent() {
    outbox::r108_an_entry_that_nobody_took_is_not_marked_as_sent(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_no_longer_call_is_no_longer_sent_for() {
    outbox::whoever_may_no_longer_call_is_no_longer_sent_for(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_by_its_caller_does_not_jump_the_lane() {
    outbox::a_repetition_by_its_caller_does_not_jump_the_lane(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_one_intention_in_the_outbox_too() {
    outbox::an_id_is_one_intention_in_the_outbox_too(shop().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_whose_deadline_passed_is_closed_and_frees_its_lane() {
    outbox::an_entry_whose_deadline_passed_is_closed_and_frees_its_lane(shop().await).await;
}
