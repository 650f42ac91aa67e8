//! What the ledger keeps, and what it does when it cannot.

use std::sync::Arc;
use std::time::Duration;

use onceward::clock::SystemClock;
use onceward::core::contract::Span;
use onceward::core::event::PurgeScope;
use onceward::core::outcome::Outcome;
use onceward::core::retention::{RetentionPolicy, purge_due};
use onceward::sqlite::{Options, SqliteStore};
use onceward::store::{Store as _, StoreError};
use onceward::{Intervals, Ledger, LedgerError};
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, allowed, call, id, operator, until};

const CALM: Intervals = Intervals {
    beat: Duration::from_secs(3_600),
    silence: Duration::from_secs(3_600),
    sweep: Duration::from_secs(3_600),
};

async fn ledger_with(stage: &Stage, change: impl FnOnce(&mut Options)) -> (Ledger, Arc<SqliteStore>) {
    let mut options = Options::new(Arc::new(SystemClock));
    change(&mut options);
    let store = Arc::new(SqliteStore::open(stage.file(), options).unwrap());
    (Ledger::open(Stage::settings(store.clone(), CALM)).await.unwrap(), store)
}

/// The store is down, and the request runs without protection.
#[tokio::test(flavor = "multi_thread")]
async fn r078_a_ledger_that_cannot_be_written_sends_nothing() {
    let stage = Stage::new();
    drop(stage.ledger().await);
    let helpdesk = Scripted::new("none", []);
    // As large as it may become.
    let size = std::fs::metadata(stage.file()).unwrap().len();
    let (full, _) = ledger_with(&stage, |options| options.bytes_max = Some(size)).await;
    let told = full.execute(&allowed(), call("full", "printer"), helpdesk.clone(), PATIENCE).await.unwrap_err();
    assert!(matches!(told, LedgerError::Store(StoreError::Unavailable(_))), "{told:?}");
    assert_eq!(helpdesk.requests(), 0);
    // Gone, with everything in it: the writer cannot begin, and says so until it can.
    let (lost, store) = ledger_with(&stage, |_| {}).await;
    let connection = rusqlite::Connection::open(stage.file()).unwrap();
    connection.execute_batch("DROP TABLE onceward_journal").unwrap();
    for _ in 0..2 {
        let told = lost.execute(&allowed(), call("lost", "printer"), helpdesk.clone(), PATIENCE).await;
        assert!(matches!(told, Err(LedgerError::Store(_))), "{told:?}");
    }
    assert_eq!(helpdesk.requests(), 0);
    mended(&store).await;
}

/// After a failed write nothing is let in until a probe was written, which it tries by itself.
async fn mended(store: &SqliteStore) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !store.is_healthy() {
        assert!(tokio::time::Instant::now() < deadline, "the ledger does not take writes again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A sweep that looks at age alone deletes what is still claimed.
#[tokio::test(flavor = "multi_thread")]
async fn r083_nothing_is_erased_before_it_is_settled_and_no_identity_is_freed() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let script = [Act::DoneReplyLost, Act::DoneWhenReleased("T-2", released.clone())];
    let helpdesk = Scripted::new("none", script);
    let run = |operation: &'static str, wait: Duration| {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        async move { ledger.execute(&allowed(), call(operation, "printer"), helpdesk, wait).await.unwrap() }
    };
    assert_eq!(run("unknown", PATIENCE).await.outcome, Outcome::Unknown);
    assert_eq!(run("pending", Duration::ZERO).await.outcome, Outcome::InProgress);
    until(&ledger, "pending", |operation| operation.state.name() == "pending").await;
    assert_eq!(run("succeeded", PATIENCE).await.outcome, Outcome::Executed);
    let at_once = RetentionPolicy { arguments: Some(Span::milliseconds(0)), everything: Some(Span::milliseconds(0)) };
    for operation in ["unknown", "pending", "succeeded"] {
        let found = until(&ledger, operation, |_| true).await;
        let due = purge_due(&at_once, &found, ledger.clock().now());
        assert_eq!(due.is_some(), operation == "succeeded", "{operation}: what a sweep may take");
        // A person who asks for it is obeyed as soon as it is settled, and not before.
        let purged = ledger.purge(&operator(), &id(operation), PurgeScope::Everything).await.unwrap();
        assert_eq!(purged.binding.arguments.present().is_none(), operation == "succeeded", "{operation}");
        assert_eq!(purged.state.name(), operation);
    }
    assert_eq!(run("unknown", PATIENCE).await.outcome, Outcome::Unknown);
    assert_eq!(run("succeeded", PATIENCE).await.outcome, Outcome::Expired);
    released.notify_one();
    let settled = until(&ledger, "pending", |operation| operation.is_settled()).await;
    assert!(settled.binding.arguments.present().is_none(), "the erasure that waited");
    assert_eq!(run("pending", PATIENCE).await.outcome, Outcome::Expired);
    assert_eq!(helpdesk.requests(), 3, "no identity was freed");
}

/// Somebody else holds the file.
#[tokio::test(flavor = "multi_thread")]
async fn r104_a_file_that_is_held_too_long_is_busy_and_nothing_was_started() {
    let stage = Stage::new();
    let (ledger, store) = ledger_with(&stage, |options| options.wait = Duration::from_millis(200)).await;
    let helpdesk = Scripted::new("none", []);
    let holder = rusqlite::Connection::open(stage.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap_err();
    assert_eq!(told, LedgerError::Store(StoreError::Busy));
    let key = call("op-1", "printer").key(&allowed());
    assert_eq!((helpdesk.requests(), store.get(&key).await.unwrap()), (0, None));
    holder.execute_batch("COMMIT").unwrap();
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Executed, 1));
}

/// The disk takes a write, or not, and the commit says nothing that can be relied on.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn r105_a_commit_that_fails_at_any_write_leaves_each_operation_whole_or_absent() {
    let scenario = fail::FailScenario::setup();
    for point in ["sqlite::commit_fails", "sqlite::commit_seems_to_fail"] {
        for nth in 0..8 {
            let stage = Stage::new();
            let (ledger, store) = ledger_with(&stage, |_| {}).await;
            let helpdesk = Scripted::new("none", []);
            fail::cfg(point, &format!("{nth}*off->1*return->off")).unwrap();
            let mut refused = Vec::new();
            for n in 0..4 {
                let operation = format!("op-{n}");
                let told = ledger.execute(&allowed(), call(&operation, "printer"), helpdesk.clone(), PATIENCE).await;
                match told {
                    Ok(told) => assert_eq!(told.outcome, Outcome::Executed, "{point} {nth}: {operation}"),
                    Err(LedgerError::Store(_)) => refused.push(operation),
                    Err(other) => panic!("{point} {nth}: {other:?}"),
                }
            }
            fail::remove(point);
            mended(&store).await;
            drop((ledger, store));
            let (reopened, _) = ledger_with(&stage, |_| {}).await;
            let sent = helpdesk.requests();
            assert_eq!(usize::try_from(sent).unwrap(), 4 - refused.len(), "{point} {nth}: nothing is sent unrecorded");
            for n in 0..4 {
                let operation = format!("op-{n}");
                let found = reopened.store().get(&call(&operation, "").key(&allowed())).await.unwrap();
                match found {
                    None => assert!(refused.contains(&operation), "{point} {nth}: {operation} is gone"),
                    Some(found) => {
                        let journal = reopened.store().journal(&found.key, 0, 100).await.unwrap();
                        onceward::core::journal::verify(&journal, found.journal).unwrap();
                    }
                }
            }
        }
    }
    scenario.teardown();
}
