//! Primary and standby: what was acknowledged survives, and what was not waited for is acknowledged to nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward_cluster::Cluster;
use onceward_ledger::store::{Applied, Command, Priority, Store, StoreError};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_postgres::PostgresStore;

use crate::suite::options;

const SYNCHRONOUS: &str = "synchronous_standby_names = 'one'\nwal_keep_size = '256MB'\nwal_sender_timeout = '5s'";

/// Looks again and again until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Submits until the store has an answer that is none of its own troubles.
async fn answered(store: &Arc<dyn Store>, command: Command, priority: Priority) -> Applied {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    loop {
        match store.submit(command.clone(), priority).await {
            Ok(applied) => return applied,
            Err(StoreError::Corrupt(what)) => panic!("{what}"),
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn pair() -> (Cluster, Cluster) {
    let primary = Cluster::start("wal_keep_size = '256MB'").unwrap();
    let standby = primary.standby("one", "").unwrap();
    primary.configure(SYNCHRONOUS).unwrap();
    let streams = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    until("the standby streams", || primary.sql(streams).unwrap() == "1").await;
    (primary, standby)
}

/// What callers were told, by key: whose claim it was, and whether it was settled.
type Told = Arc<Mutex<HashMap<String, (String, bool)>>>;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_killed_under_load_leaves_every_acknowledged_receipt_and_no_key_with_two_claims() {
    for round in 0..3 {
        let (mut primary, standby) = pair().await;
        let both = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname=postgres",
            primary.port(),
            standby.port()
        );
        let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&both, options()).await.unwrap());
        let told: Told = Arc::default();
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..16 {
            let (store, told) = (Arc::clone(&store), Arc::clone(&told));
            callers.spawn(async move {
                for turn in 0..40 {
                    let id = format!("{caller}-{turn}");
                    let sample = Sample::new("acme", &id);
                    let owner = format!("owner-{caller}");
                    // A claim that was not acknowledged may be made again: by its key it is known whether it is there.
                    let claimed = match answered(&store, sample.claimed(&owner), Priority::Claim).await {
                        Applied::Opened(operation) | Applied::Existing(operation) => operation,
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(claimed.history.attempts, 1);
                    told.lock().unwrap().insert(id.clone(), (owner.clone(), false));
                    let settle = step(&sample.key, vec![effect(1, &owner, &format!("T-{id}"))]);
                    match answered(&store, settle, Priority::Settle).await {
                        Applied::Stepped(_) => {}
                        // It is settled: an earlier answer of this very settle was lost.
                        Applied::Refused { operation, .. } if operation.is_settled() => {}
                        other => panic!("{other:?}"),
                    }
                    told.lock().unwrap().insert(id, (owner, true));
                }
            });
        }
        until("the load is under way", || told.lock().unwrap().len() >= 60 + round * 40).await;
        primary.kill().unwrap();
        standby.promote().unwrap();
        callers.join_all().await;
        drop(store);
        let after: Arc<dyn Store> = Arc::new(PostgresStore::open(&standby.url(), options()).await.unwrap());
        let told = told.lock().unwrap().clone();
        assert_eq!(told.len(), 16 * 40);
        for (id, (owner, settled)) in told {
            let operation = after.get(&Sample::new("acme", &id).key).await.unwrap().expect("it was acknowledged");
            assert!(settled && operation.state.name() == "succeeded", "{id} of {owner}: {}", operation.state.name());
            let entries = after.journal(&operation.key, 0, 100).await.unwrap();
            let claims = entries.iter().filter(|entry| entry.event == "claim").count();
            assert_eq!(claims, 1, "{id} was claimed once over both servers");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r124_with_the_standby_cut_a_claim_is_unknown_and_a_cancelled_wait_acknowledges_nothing() {
    let (primary, standby) = pair().await;
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&primary.url(), options()).await.unwrap());
    let before = Sample::new("acme", "before");
    assert!(matches!(store.submit(before.claimed("o"), Priority::Claim).await, Ok(Applied::Opened(_))));
    standby.pause("STOP").unwrap();
    let lost = Sample::new("acme", "lost");
    let claim = tokio::spawn({
        let (store, command) = (Arc::clone(&store), lost.claimed("o"));
        async move { store.submit(command, Priority::Claim).await }
    });
    // Somebody cancels the wait, as a statement's time limit or an administrator would: the server then answers as if all
    // were well, with a warning beside it.
    let cancelled = tokio::task::spawn_blocking(move || {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let sql = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let mut cancelled = 0;
        while tokio::time::Instant::now() < deadline && cancelled < 3 {
            if primary.sql(sql).is_ok_and(|count| count != "0") {
                cancelled += 1;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        (primary, cancelled)
    });
    let claimed = claim.await.unwrap();
    assert!(
        matches!(claimed, Err(StoreError::CommitUnknown(_) | StoreError::Unavailable(_) | StoreError::Busy)),
        "nothing is dispatched on what may be lost: {claimed:?}"
    );
    assert!(!store.is_healthy());
    let confirmed = store.confirmed(&lost.key).await;
    assert!(confirmed.is_err(), "a row that only this machine has is not read as durable: {confirmed:?}");
    let (primary, cancelled) = cancelled.await.unwrap();
    assert!(cancelled >= 1, "the wait was cancelled");
    standby.pause("CONT").unwrap();
    // With the standby back the same claim finds out what became of it.
    let again = answered(&store, lost.claimed("o"), Priority::Claim).await;
    assert!(matches!(again, Applied::Opened(_) | Applied::Existing(_)), "{again:?}");
    assert_eq!(primary.sql("SELECT count(*) FROM onceward.operation WHERE attempt = 1").unwrap(), "2");
}
