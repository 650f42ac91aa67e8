//! Local effects: the application's rows and the receipt are committed together, or neither is.

use std::sync::Arc;

use onceward_cluster::{Cluster, Database};
use onceward_core::journal;
use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_ledger::store::{BoxFuture, Opening, Store};
use onceward_ledger::testkit::{Sample, claim, key, now, receipt};
use onceward_postgres::tokio_postgres::{Client, NoTls, Transaction};
use onceward_postgres::{
    Begin, BeginError, Effect, LocalError, LocalFailure, LocalOutcome, NotCommitted, PostgresStore, begin_on,
};

use crate::proxy::{Cut, Proxy};
use crate::suite::options;

struct Shop {
    database: Database,
    store: Arc<PostgresStore>,
}

impl Shop {
    async fn open() -> Self {
        let database = Database::make().unwrap();
        let store = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
        database.sql(ORDERS).unwrap();
        Self { database, store }
    }

    async fn client(&self) -> Client {
        connect(self.database.url()).await
    }

    fn orders(&self) -> String {
        self.database.sql("SELECT count(*) FROM orders").unwrap()
    }

    async fn stored(&self, id: &str) -> Option<Operation> {
        self.store.get(&key("acme", id)).await.unwrap()
    }

    /// The operation and its journal, which must verify.
    async fn verified(&self, id: &str) -> Operation {
        let operation = self.stored(id).await.unwrap();
        let entries = self.store.journal(&operation.key, 0, 100).await.unwrap();
        assert_eq!(journal::verify(&entries, operation.journal), Ok(()));
        operation
    }
}

const ORDERS: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)";

async fn connect(url: &str) -> Client {
    let (client, connection) = onceward_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn opening(id: &str) -> Opening {
    Sample::new("acme", id).opening(vec![claim(1, "owner-1")])
}

fn order<'t>(transaction: &'t Transaction<'t>) -> BoxFuture<'t, Result<Receipt, LocalError>> {
    Box::pin(async move {
        transaction.execute("INSERT INTO orders (item) VALUES ('printer')", &[]).await?;
        Ok(receipt("o-1"))
    })
}

fn never<'t>(_: &'t Transaction<'t>) -> BoxFuture<'t, Result<Receipt, LocalError>> {
    panic!("it ran twice")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_effect_and_its_receipt_are_committed_together_and_the_repetition_runs_nothing() {
    let shop = Shop::open().await;
    let LocalOutcome::Done(done) = shop.store.run_local(opening("order-17"), Box::new(order)).await.unwrap() else {
        panic!("not done")
    };
    assert!(matches!(done.state, State::Succeeded(_)));
    assert_eq!(shop.verified("order-17").await, done);
    let again = shop.store.run_local(opening("order-17"), Box::new(never)).await.unwrap();
    assert!(matches!(again, LocalOutcome::Existing(existing) if existing == done));
    assert_eq!(shop.orders(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_fails_panics_takes_too_long_or_ends_the_transaction_leaves_nothing() {
    let shop = Shop::open().await;
    let failing: [(&str, Effect); 6] = [
        ("fails", Box::new(|tx| Box::pin(async move { order(tx).await.and_then(|_| Err(LocalError::because("no"))) }))),
        ("fails", Box::new(|tx| Box::pin(async move { order(tx).await.map(|_| panic!("out of stock")) }))),
        ("fails", Box::new(|_| panic!("before there was anything to wait for"))),
        (
            "is late",
            Box::new(|tx| {
                Box::pin(async move {
                    order(tx).await?;
                    tx.execute("SELECT pg_sleep(60)", &[]).await?;
                    Ok(receipt("o-1"))
                })
            }),
        ),
        (
            "commits",
            Box::new(|tx| {
                Box::pin(async move {
                    order(tx).await?;
                    tx.batch_execute("COMMIT").await?;
                    Ok(receipt("o-1"))
                })
            }),
        ),
        (
            "rolls back",
            Box::new(|tx| {
                Box::pin(async move {
                    order(tx).await?;
                    tx.batch_execute("ROLLBACK").await?;
                    Ok(receipt("o-1"))
                })
            }),
        ),
    ];
    for (how, effect) in failing {
        let failure = shop.store.run_local(opening("order-17"), effect).await.unwrap_err();
        match (how, &failure) {
            ("fails", LocalFailure::Effect(_) | LocalFailure::Panicked(_))
            | ("is late", LocalFailure::TookTooLong(_))
            | ("commits", LocalFailure::Effect(LocalError::Sql(_)))
            | ("rolls back", LocalFailure::Store(_)) => {}
            (how, failure) => panic!("{how}: {failure:?}"),
        }
        assert_eq!(shop.orders(), "0", "{how}");
        assert_eq!(shop.stored("order-17").await, None, "{how}");
    }
    assert!(matches!(shop.store.run_local(opening("order-17"), Box::new(order)).await.unwrap(), LocalOutcome::Done(_)));
    assert_eq!(shop.orders(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_of_the_applications_that_is_looked_at_last_is_the_effects_own_failure() {
    let shop = Shop::open().await;
    shop.database.sql("CREATE TABLE line (id bigint REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)").unwrap();
    let effect: Effect = Box::new(|tx| {
        Box::pin(async move {
            tx.execute("INSERT INTO line VALUES (77)", &[]).await?;
            Ok(receipt("o-1"))
        })
    });
    let failure = shop.store.run_local(opening("order-17"), effect).await.unwrap_err();
    assert!(matches!(failure, LocalFailure::Effect(LocalError::Sql(_))), "{failure:?}");
    assert_eq!(shop.stored("order-17").await, None);
    let done = shop.store.run_local(opening("order-17"), Box::new(order)).await.unwrap();
    assert!(matches!(done, LocalOutcome::Done(_)), "and its connection goes on: {done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixteen_callers_at_once_one_runs_and_all_are_told_the_same() {
    let shop = Shop::open().await;
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let store = Arc::clone(&shop.store);
            tokio::spawn(async move { store.run_local(opening("order-17"), Box::new(order)).await.unwrap() })
        })
        .collect();
    let (mut ran, mut told) = (0, Vec::new());
    for call in calls {
        match call.await.unwrap() {
            LocalOutcome::Done(operation) => {
                ran += 1;
                told.push(operation);
            }
            LocalOutcome::Existing(operation) => told.push(operation),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((ran, told.len()), (1, 16));
    assert!(told.iter().all(|one| *one == told[0]));
    assert_eq!(shop.orders(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_is_asked_about_before_anything_is_said() {
    let cluster = Cluster::start("").unwrap();
    let proxy = Proxy::before(cluster.port()).await;
    let store = PostgresStore::open(&proxy.url(), options()).await.unwrap();
    cluster.sql(ORDERS).unwrap();
    for (number, cut) in [Cut::Before, Cut::After].into_iter().enumerate() {
        let id = format!("order-{number}");
        let cuts = proxy.cuts();
        proxy.arm(cut);
        let told = store.run_local(opening(&id), Box::new(order)).await;
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?}: its COMMIT was cut");
        let orders = || cluster.sql("SELECT count(*) FROM orders").unwrap();
        let before = number.to_string();
        let after = (number + 1).to_string();
        match (cut, told) {
            (Cut::Before, Err(LocalFailure::Store(_))) => {
                assert_eq!(orders(), before);
                assert_eq!(store.get(&key("acme", &id)).await.unwrap(), None);
                let again = store.run_local(opening(&id), Box::new(order)).await.unwrap();
                assert!(matches!(again, LocalOutcome::Done(_)), "{again:?}");
            }
            (Cut::After, Ok(LocalOutcome::Done(done))) => {
                assert_eq!(store.get(&done.key).await.unwrap(), Some(done));
            }
            (cut, told) => panic!("{cut:?}: {told:?}"),
        }
        let again = store.run_local(opening(&id), Box::new(never)).await.unwrap();
        assert!(matches!(again, LocalOutcome::Existing(_)), "{again:?}");
        assert_eq!(orders(), after);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_callers_transaction_the_receipt_is_true_once_that_is_committed() {
    let shop = Shop::open().await;
    let mut client = shop.client().await;
    let transaction = client.transaction().await.unwrap();
    let Begin::Begun(begun) = begin_on(&transaction, opening("order-17"), now()).await.unwrap() else {
        panic!("not begun")
    };
    let given = order(&transaction).await.unwrap();
    let finished = begun.finish(given.clone(), now()).await.unwrap();
    assert_eq!(shop.stored("order-17").await, None, "nobody sees it yet");
    transaction.commit().await.unwrap();
    assert_eq!(finished.confirm(&shop.store).await.unwrap(), given);
    assert!(matches!(shop.verified("order-17").await.state, State::Succeeded(_)));
    let transaction = client.transaction().await.unwrap();
    let again = begin_on(&transaction, opening("order-17"), now()).await.unwrap();
    assert!(matches!(again, Begin::Existing(existing) if existing.state.is_final()));
    transaction.commit().await.unwrap();
    assert_eq!(shop.orders(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_after_our_answer_leaves_nothing_and_the_answer_is_not_confirmed() {
    let shop = Shop::open().await;
    let mut client = shop.client().await;
    let transaction = client.transaction().await.unwrap();
    let Begin::Begun(begun) = begin_on(&transaction, opening("order-17"), now()).await.unwrap() else {
        panic!("not begun")
    };
    let given = order(&transaction).await.unwrap();
    let finished = begun.finish(given, now()).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(matches!(finished.confirm(&shop.store).await, Err(NotCommitted::NotThere)));
    assert_eq!((shop.stored("order-17").await, shop.orders()), (None, "0".to_owned()));
    let done = shop.store.run_local(opening("order-17"), Box::new(order)).await.unwrap();
    assert!(matches!(done, LocalOutcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_is_begun_and_not_finished_keeps_the_transaction_from_being_committed() {
    let shop = Shop::open().await;
    let mut client = shop.client().await;
    let transaction = client.transaction().await.unwrap();
    let Begin::Begun(begun) = begin_on(&transaction, opening("order-17"), now()).await.unwrap() else {
        panic!("not begun")
    };
    order(&transaction).await.unwrap();
    drop(begun);
    let error = transaction.commit().await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "operation acme/order-17 is begun and not finished");
    assert_eq!((shop.stored("order-17").await, shop.orders()), (None, "0".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_commit_would_not_be_on_disk_is_refused_at_its_beginning_and_at_its_end() {
    let shop = Shop::open().await;
    let mut client = shop.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SET LOCAL synchronous_commit = off").await.unwrap();
    let refused = begin_on(&transaction, opening("order-17"), now()).await;
    assert!(matches!(refused, Err(BeginError::NotDurable)), "{refused:?}");
    transaction.batch_execute("SET LOCAL synchronous_commit = on").await.unwrap();
    let Begin::Begun(begun) = begin_on(&transaction, opening("order-17"), now()).await.unwrap() else {
        panic!("not begun")
    };
    let given = order(&transaction).await.unwrap();
    let finished = begun.finish(given, now()).await.unwrap();
    transaction.batch_execute("SET LOCAL synchronous_commit = off").await.unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("synchronous_commit is off"), "{error:?}");
    assert!(matches!(finished.confirm(&shop.store).await, Err(NotCommitted::NotThere)));
}
