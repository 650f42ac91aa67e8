//! Effects that are rows of the ledger's own PostgreSQL database.

use std::sync::Arc;
use std::time::Duration;

use onceward::clock::SystemClock;
use onceward::core::fingerprint::FingerprintKeys;
use onceward::core::outbound::LedgerSecret;
use onceward::core::outcome::Outcome;
use onceward::core::receipt::{Answer, Receipt};
use onceward::local::postgres::{ExecuteLocalError, execute_local};
use onceward::postgres::{Begin, Effect, LocalError, Options, PostgresStore, begin_on, tokio_postgres};
use onceward::runtime::TokioRuntime;
use onceward::store::OwnerKind;
use onceward::{Intervals, Ledger, Settings};
use onceward_cluster::Database;
use serde_json::json;

use crate::stage::{allowed, call};

/// A process of its own on the database.
async fn process(database: &Database) -> (Ledger, Arc<PostgresStore>) {
    let secret = LedgerSecret::new([7; 32]);
    let options = Options { clock: Arc::new(SystemClock), secret: secret.clone(), tls: None };
    let store = Arc::new(PostgresStore::open(database.url(), options).await.unwrap());
    let settings = Settings {
        store: Arc::clone(&store) as Arc<dyn onceward::store::Store>,
        secret,
        keys: FingerprintKeys::unkeyed(),
        clock: Arc::new(SystemClock),
        runtime: Arc::new(TokioRuntime::current()),
        kind: OwnerKind::Library,
        intervals: Intervals {
            beat: Duration::from_millis(200),
            silence: Duration::from_secs(600),
            sweep: Duration::from_millis(200),
        },
    };
    (Ledger::open(settings).await.unwrap(), store)
}

async fn shop() -> Database {
    let database = Database::make().unwrap();
    let (ledger, _store) = process(&database).await;
    drop(ledger);
    database
        .sql("CREATE TABLE ticket (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text NOT NULL)")
        .unwrap();
    database
}

fn tickets(database: &Database) -> String {
    database.sql("SELECT count(*) FROM ticket").unwrap()
}

fn insert(ledger: &Ledger, title: &'static str) -> Effect {
    let received_at = ledger.clock().now();
    Box::new(move |transaction| {
        Box::pin(async move {
            let sql = "INSERT INTO ticket (title) VALUES ($1) RETURNING id";
            let id: i64 = transaction.query_one(sql, &[&title]).await?.get(0);
            Ok(Receipt { effect_id: None, answer: Answer::json(&json!({ "id": id })), received_at })
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_receipt_are_one_commit_and_a_repetition_by_another_process_runs_nothing() {
    let database = shop().await;
    let (ledger, store) = process(&database).await;
    let (other, others) = process(&database).await;
    let first = execute_local(&ledger, &store, &allowed(), &call("op-1", "a"), insert(&ledger, "a")).await.unwrap();
    assert_eq!(first.outcome, Outcome::Executed);
    let again = execute_local(&other, &others, &allowed(), &call("op-1", "a"), insert(&other, "a")).await.unwrap();
    assert_eq!((again.outcome, &again.answer), (Outcome::Replayed, &first.answer));
    let changed = execute_local(&other, &others, &allowed(), &call("op-1", "b"), insert(&other, "b")).await.unwrap();
    assert_eq!(changed.outcome, Outcome::Conflict);
    assert_eq!(tickets(&database), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_fails_leaves_nothing_and_may_be_called_again() {
    let database = shop().await;
    let (ledger, store) = process(&database).await;
    let fails: Effect = Box::new(|transaction| {
        Box::pin(async move {
            transaction.execute("INSERT INTO ticket (title) VALUES ('half')", &[]).await?;
            Err(LocalError::because("the customer is unknown"))
        })
    });
    let failed = execute_local(&ledger, &store, &allowed(), &call("op-1", "a"), fails).await;
    assert!(matches!(failed, Err(ExecuteLocalError::Effect(_))), "{failed:?}");
    assert_eq!(tickets(&database), "0");
    let done = execute_local(&ledger, &store, &allowed(), &call("op-1", "a"), insert(&ledger, "a")).await.unwrap();
    assert_eq!((done.outcome, tickets(&database).as_str()), (Outcome::Executed, "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_callers_own_transaction_the_effect_is_begun_finished_and_replayed() {
    let database = shop().await;
    let (ledger, store) = process(&database).await;
    let (mut client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let told = call("op-1", "a");
    let opening = ledger.local_opening(&allowed(), &told).unwrap();
    let transaction = client.transaction().await.unwrap();
    let Begin::Begun(begun) = begin_on(&transaction, opening, ledger.clock().now()).await.unwrap() else {
        panic!("not begun")
    };
    let receipt = insert(&ledger, "a")(&transaction).await.unwrap();
    let finished = begun.finish(receipt.clone(), ledger.clock().now()).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(finished.confirm(&store).await.unwrap(), receipt);
    let again = execute_local(&ledger, &store, &allowed(), &told, insert(&ledger, "a")).await.unwrap();
    assert_eq!((again.outcome, tickets(&database).as_str()), (Outcome::Replayed, "1"));
}
