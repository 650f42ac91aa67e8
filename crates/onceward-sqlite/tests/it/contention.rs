//! Many threads and many processes on one file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use onceward_core::state::State;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::store::{Applied, Priority, Store, StoreError};
use onceward_ledger::testkit::{Sample, effect, key, step};
use onceward_sqlite::{InstanceLock, Locked, Options, SqliteStore};

use crate::scratch::{Scratch, opened, options, part, play, stepped, stored, submit, until};

#[test]
fn sixteen_threads_with_one_key_open_it_once() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let fresh = AtomicUsize::new(0);
    thread::scope(|scope| {
        for n in 0..16 {
            let (store, fresh) = (&store, &fresh);
            scope.spawn(move || {
                let order = Sample::new("acme", "order-17").claimed(&format!("owner-{n}"));
                match submit(store, order, Priority::Claim).unwrap() {
                    Applied::Opened(_) => fresh.fetch_add(1, Ordering::Relaxed),
                    Applied::Existing(_) => 0,
                    other => panic!("neither opened nor existing: {other:?}"),
                };
            });
        }
    });
    assert_eq!(fresh.load(Ordering::Relaxed), 1);
}

#[test]
fn sixty_four_threads_with_many_keys_each_get_their_own_receipt() {
    let scratch = Scratch::new();
    let store = scratch.open();
    thread::scope(|scope| {
        for n in 0..64 {
            let store = &store;
            scope.spawn(move || {
                for m in 0..10 {
                    let sample = Sample::new(&format!("tenant-{}", n % 7), &format!("order-{n}-{m}"));
                    opened(store, sample.claimed("owner-1"));
                    let id = format!("T-{n}-{m}");
                    let settled = stepped(store, step(&sample.key, vec![effect(1, "owner-1", &id)]));
                    assert_eq!(stored(store, &sample.key), Some(settled.clone()));
                    let State::Succeeded(success) = settled.state else { panic!("not succeeded") };
                    assert_eq!(success.effect_id.unwrap().as_str(), id);
                }
            });
        }
    });
}

/// Not a test of its own unless it is started as another process: see [`play`].
#[test]
fn another_process() {
    let Some((part, path)) = part() else { return };
    match part.as_str() {
        "open" => {
            let store = SqliteStore::open(&path, options()).unwrap();
            let order = Sample::new("acme", "shared").claimed(&format!("owner-{}", std::process::id()));
            match submit(&store, order, Priority::Claim).unwrap() {
                Applied::Opened(_) => println!("OPENED {}", store.id().0),
                Applied::Existing(_) => println!("EXISTING {}", store.id().0),
                other => panic!("neither opened nor existing: {other:?}"),
            }
        }
        "lock" => {
            let _lock = InstanceLock::acquire(&path).unwrap();
            println!("LOCKED");
            loop {
                thread::park();
            }
        }
        other => panic!("no such part: {other}"),
    }
}

#[test]
fn eight_processes_open_a_new_file_at_once_and_one_of_them_opens_the_operation() {
    let scratch = Scratch::new();
    let children: Vec<_> = (0..8).map(|_| play("contention::another_process", "open", &scratch.path())).collect();
    let mut lines = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let line = text.lines().find(|line| line.contains("OPENED") || line.contains("EXISTING")).unwrap().to_owned();
        lines.push(line);
    }
    let ids: std::collections::HashSet<_> = lines.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ids.len(), 1, "one ledger: {lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("OPENED")).count(), 1, "{lines:?}");
}

#[test]
fn a_settle_outlasts_a_lock_that_is_held_for_eight_seconds() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    let other = scratch.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let settle = store.submit(step(&sample.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle);
    let claim = store.submit(Sample::new("acme", "order-18").claimed("owner-1"), Priority::Claim);
    assert_eq!(claim.wait().unwrap_err(), StoreError::Busy);
    assert_eq!(store.read(&key("acme", "order-18")).unwrap(), None, "nothing was written");
    // sleeps: the claim's wait was five seconds; the other process holds its lock for as long as the promise says, eight.
    thread::sleep(Duration::from_secs(3));
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(settle.wait().unwrap(), Applied::Stepped(_)));
    assert!(matches!(stored(&store, &sample.key).unwrap().state, State::Succeeded(_)));
    assert_eq!(store.read(&key("acme", "order-18")).unwrap(), None, "and is not written later");
    opened(&store, Sample::new("acme", "order-18").claimed("owner-1"));
}

#[test]
fn a_claim_over_the_wait_is_busy_in_time_and_a_read_is_not_held_up() {
    let scratch = Scratch::new();
    let store = SqliteStore::open(
        scratch.path(),
        Options { wait: Duration::from_millis(200), ..Options::new(Arc::new(SystemClock)) },
    )
    .unwrap();
    opened(&store, Sample::new("acme", "order-17").claimed("owner-1"));
    let other = scratch.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let from = SystemClock.uptime();
    assert!(store.read(&key("acme", "order-17")).unwrap().is_some());
    assert!(SystemClock.uptime() - from < Duration::from_millis(150), "a read waits for no writer");
    let claims: Vec<_> = (0..10)
        .map(|n| store.submit(Sample::new("acme", &format!("n-{n}")).claimed("owner-1"), Priority::Claim))
        .collect();
    for claim in claims {
        assert_eq!(claim.wait().unwrap_err(), StoreError::Busy);
    }
    assert!(SystemClock.uptime() - from < Duration::from_secs(3));
    other.execute_batch("COMMIT").unwrap();
    assert!(store.is_healthy(), "a busy ledger is not an ill one");
}

#[test]
fn two_stores_on_one_file_see_each_others_moves() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.open(), scratch.open());
    let sample = Sample::new("acme", "order-17");
    opened(&one, sample.claimed("owner-1"));
    // The first store remembers the operation as pending; the second settles it.
    let settled = stepped(&two, step(&sample.key, vec![effect(1, "owner-1", "T-1")]));
    match submit(&one, step(&sample.key, vec![effect(1, "owner-1", "T-2")]), Priority::Settle).unwrap() {
        Applied::Refused { operation, .. } => assert_eq!(operation, settled),
        Applied::Stepped(operation) => assert!(operation.history.in_disagreement(), "two effects, and nobody noticed"),
        other => panic!("{other:?}"),
    }
    let stored = stored(&two, &sample.key).unwrap();
    let State::Succeeded(success) = stored.state else { panic!("not succeeded") };
    assert_eq!(success.effect_id.unwrap().as_str(), "T-1", "the first receipt stands");
}

#[test]
fn what_was_submitted_before_closing_is_written() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let replies: Vec<_> = (0..100)
        .map(|n| store.submit(Sample::new("acme", &format!("n-{n}")).claimed("owner-1"), Priority::Claim))
        .collect();
    drop(store);
    for reply in replies {
        assert!(matches!(reply.wait().unwrap(), Applied::Opened(_)));
    }
    let store = scratch.open();
    assert!((0..100).all(|n| stored(&store, &key("acme", &format!("n-{n}"))).is_some()));
}

#[test]
fn the_instance_lock_names_its_holder_and_ends_with_it() {
    let scratch = Scratch::new();
    let mut child = play("contention::another_process", "lock", &scratch.path());
    // Looked at and not tried for: whoever tries holds it for a moment, and the other process tries once.
    let mut lock = scratch.path().into_os_string();
    lock.push(".lock");
    until("the other process's lock", || {
        std::fs::read_to_string(&lock).is_ok_and(|text| text.trim() == child.id().to_string())
    });
    match InstanceLock::acquire(&scratch.path()) {
        Err(Locked::Held { pid, .. }) => assert_eq!(pid, Some(child.id())),
        other => panic!("{other:?}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let _lock = InstanceLock::acquire(&scratch.path()).unwrap();
}
