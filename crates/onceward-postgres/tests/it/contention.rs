//! Many processes' worth of stores on one database.

use std::sync::Arc;

use onceward_cluster::Database;
use onceward_ledger::store::{Applied, Priority, Store};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_postgres::PostgresStore;

use crate::suite::options;

#[tokio::test(flavor = "multi_thread")]
async fn four_stores_with_sixty_four_callers_each_on_a_hundred_keys_open_each_key_one_time() {
    let database = Database::make().unwrap();
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(PostgresStore::open(database.url(), options()).await.unwrap()));
    }
    let mut callers = tokio::task::JoinSet::new();
    for (number, store) in stores.iter().enumerate() {
        for caller in 0..64_usize {
            let store = Arc::clone(store);
            callers.spawn(async move {
                let mut opened = 0_u32;
                for turn in 0..100_usize {
                    // Each caller goes through the keys in another order, so that batches meet in every way.
                    let key = (turn * 37 + caller * 11 + number * 53) % 100;
                    let sample = Sample::new("acme", &format!("key-{key}"));
                    let owner = format!("owner-{number}");
                    match store.submit(sample.claimed(&owner), Priority::Claim).await {
                        Ok(Applied::Opened(_)) => {
                            opened += 1;
                            let settle = step(&sample.key, vec![effect(1, &owner, &format!("T-{key}"))]);
                            let settled = store.submit(settle, Priority::Settle).await;
                            assert!(matches!(settled, Ok(Applied::Stepped(_))), "{settled:?}");
                        }
                        Ok(Applied::Existing(_)) => {}
                        other => panic!("nothing but a decision reaches a caller: {other:?}"),
                    }
                }
                opened
            });
        }
    }
    let opened: u32 = callers.join_all().await.into_iter().sum();
    assert_eq!(opened, 100);
    let rows =
        database.sql("SELECT count(*) FROM onceward.operation WHERE state = 'succeeded' AND attempt = 1").unwrap();
    assert_eq!(rows, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_effects_with_one_id_that_are_settled_at_once_on_two_stores_are_seen() {
    let database = Database::make().unwrap();
    let one: Arc<dyn Store> = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
    let other: Arc<dyn Store> = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
    for round in 0..20 {
        let (a, b) = (Sample::new("acme", &format!("a-{round}")), Sample::new("acme", &format!("b-{round}")));
        for (store, sample) in [(&one, &a), (&other, &b)] {
            assert!(matches!(store.submit(sample.claimed("o"), Priority::Claim).await, Ok(Applied::Opened(_))));
        }
        let id = format!("T-{round}");
        let (first, second) = tokio::join!(
            one.submit(step(&a.key, vec![effect(1, "o", &id)]), Priority::Settle),
            other.submit(step(&b.key, vec![effect(1, "o", &id)]), Priority::Settle),
        );
        let disputed = [first, second]
            .into_iter()
            .filter(|settled| match settled {
                Ok(Applied::Stepped(operation)) => operation.history.in_disagreement(),
                other => panic!("{other:?}"),
            })
            .count();
        assert_eq!(disputed, 1, "whoever came second has seen the first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_equal_calls_without_identity_on_two_stores_at_once_are_one_operation() {
    let database = Database::make().unwrap();
    let one: Arc<dyn Store> = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
    let other: Arc<dyn Store> = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
    for round in 0..20 {
        let mark = format!("mark-{round}");
        let held = |id: &str| Sample::new("acme", &format!("{id}-{round}")).without_identity(&mark, &mark).claimed("o");
        let (first, second) =
            tokio::join!(one.submit(held("a"), Priority::Claim), other.submit(held("b"), Priority::Claim));
        let opened = [&first, &second].into_iter().filter(|one| matches!(one, Ok(Applied::Opened(_)))).count();
        let held = [&first, &second].into_iter().filter(|one| matches!(one, Ok(Applied::Suspected(_)))).count();
        assert_eq!((opened, held), (1, 1), "{first:?} {second:?}");
    }
}
