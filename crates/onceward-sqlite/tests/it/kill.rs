//! Killed at each durable step, and commits that fail: what a restart finds, and what callers were told.

use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;

use onceward_core::state::State;
use onceward_ledger::store::{Applied, Priority, Store, StoreError};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_sqlite::SqliteStore;

use crate::scratch::{Scratch, opened, options, part, play, stored, submit, until};

/// Failpoints belong to the whole process: tests that set them take turns.
static TURN: Mutex<()> = Mutex::new(());

const PLACES: [&str; 3] =
    ["sqlite::before_begin", "sqlite::after_write_before_commit", "sqlite::after_commit_before_reply"];

/// Not a test of its own unless it is started as another process: claims and settles, and is killed on the way.
#[test]
fn another_process() {
    let Some((part, path)) = part() else { return };
    let (place, hit) = part.split_once('#').unwrap();
    let hit: u32 = hit.parse().unwrap();
    let store = SqliteStore::open(path, options()).unwrap();
    let seen = std::sync::atomic::AtomicU32::new(0);
    fail::cfg_callback(place, move || {
        if seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == hit {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            loop {
                std::thread::park();
            }
        }
    })
    .unwrap();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    println!("CLAIMED");
    submit(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle).unwrap();
    println!("SETTLED");
}

#[test]
fn killed_anywhere_what_was_answered_is_there_and_what_is_there_is_whole() {
    for place in PLACES {
        for hit in [1, 2] {
            let scratch = Scratch::new();
            let output =
                play("kill::another_process", &format!("{place}#{hit}"), &scratch.path()).wait_with_output().unwrap();
            assert_eq!(output.status.signal(), Some(9), "{place} {hit}: {}", String::from_utf8_lossy(&output.stderr));
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let store = scratch.open();
            let found = stored(&store, &Sample::new("acme", "order-17").key);
            let state = found.as_ref().map(|operation| operation.state.name());
            let committed = place == "sqlite::after_commit_before_reply";
            let expected = match (hit, committed) {
                (1, false) => None,
                (1, true) | (2, false) => Some("pending"),
                (_, _) => Some("succeeded"),
            };
            assert_eq!(state, expected, "{place} {hit}");
            assert_eq!(told.contains("CLAIMED"), hit == 2, "{place} {hit}");
            assert!(!told.contains("SETTLED"), "{place} {hit}");
        }
    }
}

#[test]
fn a_commit_that_fails_tells_claims_that_nothing_was_written_and_keeps_settles() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    fail::cfg("sqlite::commit_fails", "return").unwrap();
    let claim = submit(&store, Sample::new("acme", "order-18").claimed("owner-1"), Priority::Claim);
    assert!(matches!(claim, Err(StoreError::Unavailable(_))), "{claim:?}");
    assert!(!store.is_healthy());
    let settle = store.submit(step(&sample.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle);
    let claim = submit(&store, Sample::new("acme", "order-18").claimed("owner-1"), Priority::Claim);
    assert!(matches!(claim, Err(StoreError::Unavailable(_))), "closed to new work: {claim:?}");
    fail::remove("sqlite::commit_fails");
    assert!(matches!(settle.wait().unwrap(), Applied::Stepped(_)), "what was known was written in the end");
    until("healing", || store.is_healthy());
    assert!(matches!(stored(&store, &sample.key).unwrap().state, State::Succeeded(_)));
    assert_eq!(stored(&store, &Sample::new("acme", "order-18").key), None);
    opened(&store, Sample::new("acme", "order-18").claimed("owner-1"));
}

#[test]
fn a_settle_whose_own_commit_fails_is_written_by_the_next() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    fail::cfg("sqlite::commit_fails", "1*return").unwrap();
    let settled = submit(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle);
    fail::remove("sqlite::commit_fails");
    assert!(matches!(settled, Ok(Applied::Stepped(_))), "{settled:?}");
    assert_eq!(stored(&store, &sample.key).unwrap().journal.seq, 3, "written once");
}

#[test]
fn a_commit_that_only_seems_to_fail_is_answered_by_what_is_there() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    fail::cfg("sqlite::commit_seems_to_fail", "1*return").unwrap();
    opened(&store, sample.claimed("owner-1"));
    until("healing", || store.is_healthy());
    fail::cfg("sqlite::commit_seems_to_fail", "1*return").unwrap();
    let settled = submit(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle).unwrap();
    assert!(matches!(settled, Applied::Stepped(_)));
    fail::remove("sqlite::commit_seems_to_fail");
    until("healing", || store.is_healthy());
    let operation = stored(&store, &sample.key).unwrap();
    assert_eq!(operation.journal.seq, 3, "written once, not twice");
}
