//! Effects that are rows of the ledger's own file.

use onceward::core::outcome::Outcome;
use onceward::core::receipt::{Answer, Receipt};
use onceward::local::{ExecuteLocalError, execute_local};
use onceward::sqlite::{Effect, LocalError};
use onceward::{Ledger, sqlite::SqliteStore};
use serde_json::json;

use crate::stage::{Stage, allowed, call};

fn table(stage: &Stage) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(stage.file()).unwrap();
    connection.execute_batch("CREATE TABLE ticket (id INTEGER PRIMARY KEY, title TEXT NOT NULL)").unwrap();
    connection
}

fn tickets(connection: &rusqlite::Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM ticket", (), |row| row.get(0)).unwrap()
}

fn insert(ledger: &Ledger, title: &'static str) -> Effect {
    let received_at = ledger.clock().now();
    Box::new(move |transaction| {
        transaction.execute("INSERT INTO ticket (title) VALUES (?1)", [title])?;
        let answer = Answer::json(&json!({"id": transaction.last_insert_rowid()}));
        Ok(Receipt { effect_id: None, answer, received_at })
    })
}

async fn run(
    ledger: &Ledger,
    store: &SqliteStore,
    title: &'static str,
    effect: Effect,
) -> Result<Outcome, ExecuteLocalError> {
    execute_local(ledger, store, &allowed(), &call("op-1", title), effect).await.map(|told| told.outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_receipt_are_one_commit_and_a_repetition_runs_nothing() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let (store, connection) = (stage.store(), table(&stage));
    assert_eq!(run(&ledger, &store, "a", insert(&ledger, "a")).await.unwrap(), Outcome::Executed);
    assert_eq!(run(&ledger, &store, "a", insert(&ledger, "a")).await.unwrap(), Outcome::Replayed);
    assert_eq!(run(&ledger, &store, "b", insert(&ledger, "b")).await.unwrap(), Outcome::Conflict);
    assert_eq!(tickets(&connection), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_fails_or_panics_or_commits_leaves_nothing_and_may_be_called_again() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let (store, connection) = (stage.store(), table(&stage));
    let fails: Effect = Box::new(|transaction| {
        transaction.execute("INSERT INTO ticket (title) VALUES ('half')", ())?;
        Err(LocalError::because("the customer is unknown"))
    });
    let panics: Effect = Box::new(|transaction| {
        transaction.execute("INSERT INTO ticket (title) VALUES ('half')", ())?;
        panic!("a bug of the application")
    });
    let commits: Effect = Box::new(|transaction| {
        transaction.execute("INSERT INTO ticket (title) VALUES ('half')", ())?;
        transaction.execute_batch("COMMIT")?;
        unreachable!("it is refused")
    });
    for effect in [fails, panics, commits] {
        assert!(matches!(run(&ledger, &store, "a", effect).await, Err(ExecuteLocalError::Effect(_))));
        assert_eq!(tickets(&connection), 0);
    }
    assert_eq!(run(&ledger, &store, "a", insert(&ledger, "a")).await.unwrap(), Outcome::Executed);
    assert_eq!(tickets(&connection), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_local_calls_at_once_run_one_effect() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let (store, connection) = (stage.store(), table(&stage));
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (ledger, store) = (ledger.clone(), store.clone());
            tokio::spawn(async move { run(&ledger, &store, "a", insert(&ledger, "a")).await.unwrap() })
        })
        .collect();
    let mut executed = 0;
    for outcome in calls {
        match outcome.await.unwrap() {
            Outcome::Executed => executed += 1,
            outcome => assert_eq!(outcome, Outcome::Replayed),
        }
    }
    assert_eq!((executed, tickets(&connection)), (1, 1));
}
