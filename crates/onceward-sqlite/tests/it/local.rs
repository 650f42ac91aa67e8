//! Local effects: the application's rows and the receipt are committed together, or neither is.

use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_ledger::store::{Opening, Store};
use onceward_ledger::testkit::{Sample, claim, now, receipt};
use onceward_sqlite::rusqlite::{Connection, TransactionBehavior};
use onceward_sqlite::{
    Begin, BeginError, Effect, LocalError, LocalFailure, LocalOutcome, LocalTx, NotCommitted, SqliteStore, begin_on,
};

use crate::scratch::{Scratch, stored};

fn shop() -> (Scratch, SqliteStore) {
    let scratch = Scratch::new();
    let store = scratch.open();
    scratch.connection().execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)").unwrap();
    (scratch, store)
}

fn orders(scratch: &Scratch) -> i64 {
    scratch.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

fn opening(id: &str) -> Opening {
    Sample::new("acme", id).opening(vec![claim(1, "owner-1")])
}

fn order(tx: &LocalTx<'_>) -> Result<Receipt, LocalError> {
    tx.execute("INSERT INTO orders VALUES ('o-1', 'printer')", [])?;
    Ok(receipt("o-1"))
}

#[tokio::test]
async fn the_effect_and_its_receipt_are_committed_together_and_the_repetition_runs_nothing() {
    let (scratch, store) = shop();
    let LocalOutcome::Done(done) = store.run_local(opening("order-17"), Box::new(order)).await.unwrap() else {
        panic!("not done")
    };
    assert!(matches!(done.state, State::Succeeded(_)));
    assert_eq!(stored(&store, &done.key), Some(done.clone()));
    assert_eq!(orders(&scratch), 1);
    let again = store.run_local(opening("order-17"), Box::new(|_| panic!("it ran twice"))).await.unwrap();
    assert!(matches!(again, LocalOutcome::Existing(existing) if existing == done));
    assert_eq!(orders(&scratch), 1);
}

#[tokio::test]
async fn an_effect_that_fails_panics_or_takes_too_long_leaves_nothing() {
    let (scratch, store) = shop();
    let failing: [(&str, Effect); 3] = [
        ("fails", Box::new(|tx| order(tx).and_then(|_| Err(LocalError::because("out of stock"))))),
        ("panics", Box::new(|tx| order(tx).map(|_| panic!("out of stock")))),
        (
            "takes too long",
            Box::new(|tx| {
                order(tx)?;
                tx.query_row(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
                    [],
                    |row| row.get::<_, i64>(0),
                )?;
                Ok(receipt("o-1"))
            }),
        ),
    ];
    for (how, effect) in failing {
        let failure = store.run_local(opening("order-17"), effect).await.unwrap_err();
        match (how, &failure) {
            ("fails", LocalFailure::Effect(error)) => assert_eq!(error.to_string(), "out of stock"),
            ("panics", LocalFailure::Panicked(words)) => assert_eq!(words, "out of stock"),
            ("takes too long", LocalFailure::TookTooLong(_)) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(orders(&scratch), 0, "{how}");
        assert_eq!(store.read(&Sample::new("acme", "order-17").key).unwrap(), None, "{how}");
    }
    assert!(store.is_healthy());
    assert!(matches!(store.run_local(opening("order-17"), Box::new(order)).await, Ok(LocalOutcome::Done(_))));
    assert_eq!(orders(&scratch), 1);
}

#[tokio::test]
async fn an_effect_cannot_end_the_transaction_nor_touch_the_ledger() {
    let (scratch, store) = shop();
    for sql in [
        "COMMIT",
        "END",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT mine",
        "RELEASE onceward_effect",
        "ROLLBACK TO onceward_effect",
        "ATTACH ':memory:' AS other",
        "PRAGMA synchronous = OFF",
        "DELETE FROM onceward_operation",
        "UPDATE onceward_operation SET tool = 'x'",
        "INSERT INTO onceward_begun VALUES (1, 1)",
        "DROP TABLE onceward_journal",
        "CREATE TRIGGER t AFTER INSERT ON onceward_operation BEGIN SELECT 1; END",
    ] {
        let effect = move |tx: &LocalTx<'_>| {
            order(tx)?;
            tx.execute_batch(sql)?;
            Ok(receipt("o-1"))
        };
        let failure = store.run_local(opening("order-17"), Box::new(effect)).await.unwrap_err();
        assert!(
            matches!(&failure, LocalFailure::Effect(LocalError::Sql(error)) if error.to_string().contains("not authorized")),
            "{sql}: {failure:?}"
        );
        assert_eq!(orders(&scratch), 0, "{sql}");
    }
    let synchronous: LocalOutcome = store.run_local(opening("order-17"), Box::new(order)).await.unwrap();
    assert!(matches!(synchronous, LocalOutcome::Done(_)), "the ledger's own statements are not refused");
}

#[tokio::test]
async fn one_failing_effect_does_not_undo_the_others_of_its_group() {
    let (scratch, store) = shop();
    let other = scratch.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = |id: &'static str| {
        Box::new(move |tx: &LocalTx<'_>| {
            tx.execute("INSERT INTO orders VALUES (?1, 'x')", [id])?;
            Ok(receipt(id))
        })
    };
    let fails = Box::new(|tx: &LocalTx<'_>| order(tx).and_then(|_| Err(LocalError::because("no"))));
    let (one, two, three, ()) = tokio::join!(
        store.run_local(opening("one"), insert("o-one")),
        store.run_local(opening("two"), fails),
        store.run_local(opening("three"), insert("o-three")),
        async { other.execute_batch("COMMIT").unwrap() }
    );
    assert!(matches!(one, Ok(LocalOutcome::Done(_))) && matches!(three, Ok(LocalOutcome::Done(_))));
    assert!(matches!(two, Err(LocalFailure::Effect(_))));
    assert_eq!(orders(&scratch), 2);
}

fn begun<'t>(transaction: &'t onceward_sqlite::rusqlite::Transaction<'_>, id: &str) -> Begin<'t> {
    begin_on(transaction, opening(id), now()).unwrap()
}

#[test]
fn in_the_callers_own_transaction_receipt_and_rows_are_committed_together() {
    let (scratch, store) = shop();
    let mut connection = scratch.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let Begin::Begun(operation) = begun(&transaction, "order-17") else { panic!("not begun") };
    let key = operation.operation().key.clone();
    transaction.execute("INSERT INTO orders VALUES ('o-1', 'printer')", []).unwrap();
    let uncommitted = operation.finish(receipt("o-1"), now()).unwrap();
    assert_eq!(store.read(&key).unwrap(), None, "nobody sees it before the commit");
    transaction.commit().unwrap();
    assert_eq!(uncommitted.confirm(&store).unwrap().effect_id, receipt("o-1").effect_id);
    assert!(stored(&store, &key).unwrap().is_settled());
    assert_eq!(orders(&scratch), 1);

    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(matches!(begun(&transaction, "order-17"), Begin::Existing(existing) if existing.is_settled()));
}

#[test]
fn an_unfinished_operation_cannot_be_committed_and_a_rolled_back_one_is_not_confirmed() {
    let (scratch, store) = shop();
    let mut connection = scratch.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    drop(begun(&transaction, "order-17"));
    transaction.execute("INSERT INTO orders VALUES ('o-1', 'printer')", []).unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
    drop(connection);

    let mut connection = scratch.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let Begin::Begun(operation) = begun(&transaction, "order-17") else { panic!("not begun") };
    let uncommitted = operation.finish(receipt("o-1"), now()).unwrap();
    transaction.rollback().unwrap();
    assert!(matches!(uncommitted.confirm(&store), Err(NotCommitted::NotThere)));
    assert_eq!((orders(&scratch), store.read(&Sample::new("acme", "order-17").key).unwrap()), (0, None));
}

#[test]
fn a_connection_that_would_not_keep_the_promise_is_refused_and_left_as_it_is() {
    let (scratch, _store) = shop();
    let mut connection = scratch.connection();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let transaction = connection.transaction().unwrap();
    assert!(matches!(begin_on(&transaction, opening("a"), now()), Err(BeginError::NotDurable { found: 1 })));
    drop(transaction);
    let found: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
    assert_eq!(found, 1, "checked, never set");
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    let transaction = connection.transaction().unwrap();
    assert!(matches!(begin_on(&transaction, opening("a"), now()), Err(BeginError::ForeignKeysOff)));
    let mut elsewhere = Connection::open_in_memory().unwrap();
    let transaction = elsewhere.transaction().unwrap();
    assert!(matches!(begin_on(&transaction, opening("a"), now()), Err(BeginError::NoLedger)));
}

#[test]
fn the_store_is_open_to_many_readers_at_once() {
    let (_scratch, store) = shop();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(store.read(&Sample::new("acme", "none").key).unwrap(), None);
                }
            });
        }
    });
    assert!(store.is_healthy());
}
