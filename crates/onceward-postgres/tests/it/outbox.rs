//! The outbox in the transactions of a business in the same database.

use std::sync::Arc;
use std::time::Duration;

use onceward_cluster::Database;
use onceward_core::journal;
use onceward_core::key::{Lane, TenantId};
use onceward_core::operation::Dispatcher;
use onceward_core::outbound::LedgerSecret;
use onceward_core::state::State;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::outbox::Entry;
use onceward_ledger::store::{BoxFuture, Opening, Store};
use onceward_ledger::testkit::outbox::{self, End, Stage};
use onceward_ledger::testkit::{key, now};
use onceward_postgres::tokio_postgres::{Client, NoTls};
use onceward_postgres::{PostgresStore, approve_in};

use crate::suite::options;

/// A database with the ledger, and a table of the business.
struct Shop {
    database: Database,
}

impl Shop {
    async fn new() -> Self {
        let database = Database::make().unwrap();
        drop(PostgresStore::open(database.url(), options()).await.unwrap());
        database.sql("CREATE TABLE orders (id text PRIMARY KEY)").unwrap();
        Self { database }
    }

    async fn client(&self) -> Client {
        let (client, connection) =
            onceward_postgres::tokio_postgres::connect(self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Stage for Shop {
    fn secret(&self) -> LedgerSecret {
        options().secret
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            Arc::new(PostgresStore::open(self.database.url(), options()).await.unwrap()) as Arc<dyn Store>
        })
    }

    fn business(&self, openings: Vec<Opening>, end: End) -> BoxFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let mut client = self.client().await;
            let transaction = client.transaction().await.unwrap();
            let mut entries = Vec::new();
            for opening in openings {
                let id = opening.operation.key.id.to_string();
                let entry = approve_in(&transaction, opening, now()).await.unwrap();
                if let Entry::Added(_) = entry {
                    transaction.execute("INSERT INTO orders VALUES ($1)", &[&id]).await.unwrap();
                }
                entries.push(entry);
            }
            match end {
                End::Committed => transaction.commit().await.unwrap(),
                End::RolledBack => transaction.rollback().await.unwrap(),
            }
            entries
        })
    }
}

async fn shop() -> Box<dyn Stage> {
    Box::new(Shop::new().await)
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

const APPROVE: &str =
    "SELECT verdict, state FROM onceward.approve_operation('acme', $1, 'agent', 'create_order', '1', $2, $3)";

async fn approve(client: &Client, id: &str, arguments: &str, lane: Option<&str>) -> (String, Option<String>) {
    let row = client.query_one(APPROVE, &[&id, &arguments, &lane]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_made_in_sql_is_what_the_ledger_would_have_made_and_keeps_its_place() {
    let shop = Shop::new().await;
    let store = shop.open().await;
    let (one, two) = (shop.client().await, shop.client().await);
    let item = r#"{ "item": "printer" }"#;
    // The first one holds the lane, so that the second one's transaction waits, and comes after it.
    one.batch_execute("BEGIN").await.unwrap();
    assert_eq!(approve(&one, "first", item, Some("lane")).await, ("added".to_owned(), Some("approved".to_owned())));
    let waiting = tokio::spawn(async move { (approve(&two, "second", item, Some("lane")).await, two) });
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let deadline = SystemClock.uptime() + Duration::from_secs(30);
    while shop.database.sql(held).unwrap().trim() == "0" {
        assert!(SystemClock.uptime() < deadline, "nobody waits for the lane");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!waiting.is_finished());
    one.batch_execute("COMMIT").await.unwrap();
    let (second, two) = waiting.await.unwrap();
    assert_eq!(second.0, "added");

    assert_eq!(approve(&two, "first", item, Some("lane")).await.0, "existing");
    assert_eq!(approve(&two, "first", r#"{"item":"desk"}"#, None).await.0, "conflict");
    let lane = Lane::parse("lane").unwrap();
    let tenant = TenantId::parse("acme").unwrap();
    assert_eq!(store.lane_head(&tenant, &lane).await.unwrap(), Some(key("acme", "first")));
    let ready = store.ready(0, 10).await.unwrap();
    assert_eq!(ready.rows.iter().map(|row| row.key.id.as_str()).collect::<Vec<_>>(), ["first"]);
    for id in ["first", "second"] {
        let operation = store.get(&key("acme", id)).await.unwrap().unwrap();
        let entries = store.journal(&operation.key, 0, 10).await.unwrap();
        assert_eq!(journal::verify(&entries, operation.journal), Ok(()));
        assert!(matches!(operation.state, State::Approved(_)));
        assert_eq!(operation.terms.dispatch, Dispatcher::Auto);
    }

    two.batch_execute(
        "BEGIN; SELECT onceward.approve_operation('acme', 'gone', 'agent', 'create_order', '1', '{}'); ROLLBACK",
    )
    .await
    .unwrap();
    assert_eq!(store.get(&key("acme", "gone")).await.unwrap(), None);
    two.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let refused = two.query_one(APPROVE, &[&"third", &item, &Some("lane")]).await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("READ COMMITTED"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_has_the_same_lock_in_sql_as_in_a_batch() {
    let shop = Shop::new().await;
    // `outbox.rs` makes this number of the same names, in a test of its own.
    assert_eq!(
        shop.database.sql("SELECT onceward.lane_lock('acme', 'lane-7')").unwrap().trim(),
        "-6551699934608582277"
    );
}
