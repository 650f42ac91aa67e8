//! Files that are not as they should be, and files that are full.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use onceward_core::journal;
use onceward_core::state::State;
use onceward_ledger::store::{Applied, Priority, Store, StoreError};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_sqlite::rusqlite::Connection;
use onceward_sqlite::{OpenError, Options, SqliteStore, secret_path};

use crate::scratch::{Scratch, at_once, opened, options, part, stepped, stored, submit};

#[test]
fn a_new_ledger_has_a_secret_that_only_its_owner_reads_and_keeps_its_identity() {
    let scratch = Scratch::new();
    let id = scratch.open().id();
    for path in [scratch.path(), secret_path(&scratch.path())] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    let secret = fs::read(secret_path(&scratch.path())).unwrap();
    assert_eq!(scratch.open().id(), id);
    assert_eq!(fs::read(secret_path(&scratch.path())).unwrap(), secret);
    let ledgers: i64 =
        scratch.connection().query_row("SELECT count(*) FROM onceward_ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(ledgers, 1);
}

#[test]
fn a_lost_an_exposed_or_an_exchanged_secret_is_refused() {
    let scratch = Scratch::new();
    let path = secret_path(&scratch.path());
    drop(scratch.open());
    fs::remove_file(&path).unwrap();
    opened(&scratch.open(), Sample::new("acme", "order-17").claimed("owner-1"));
    let right = fs::read(&path).unwrap();

    fs::remove_file(&path).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::SecretMissing { .. })));
    assert!(!path.exists(), "a refused ledger is left as it is");

    fs::write(&path, "0".repeat(64)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::SecretMismatch { .. })));
    fs::write(&path, "short").unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::SecretUnreadable { .. })));

    fs::write(&path, right).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::SecretExposed { mode: 0o640, .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(scratch.try_open().is_ok());
}

#[test]
fn a_file_that_is_no_database_or_a_damaged_one_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let text = b"this is certainly not a database".repeat(300);
    fs::write(scratch.path(), &text).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::Damaged { .. })));
    assert_eq!(fs::read(scratch.path()).unwrap(), text);
    let nowhere = SqliteStore::open("/nonexistent/folder/ledger.db", options());
    assert!(matches!(nowhere, Err(OpenError::File { .. })));
}

#[test]
fn a_later_or_a_changed_schema_is_refused() {
    let scratch = Scratch::new();
    drop(scratch.open());
    scratch.connection().execute("INSERT INTO onceward_schema VALUES (99, zeroblob(32), 0)", []).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::NewerSchema { found: 99, .. })));
    scratch
        .connection()
        .execute_batch(
            "DELETE FROM onceward_schema WHERE version = 99; UPDATE onceward_schema SET checksum = zeroblob(32)",
        )
        .unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::ForeignSchema { version: 1, .. })));
}

/// Not a test of its own unless it is started as another user: see the next test.
#[test]
fn another_user() {
    let Some((_, path)) = part() else { return };
    match SqliteStore::open(path, options()) {
        Err(OpenError::ReadOnly { .. }) => println!("READ-ONLY"),
        other => panic!("{other:?}"),
    }
}

/// Permissions bind everyone but the superuser, so the file is opened by another user when the tests run as that one.
#[test]
fn a_file_that_cannot_be_written_is_refused() {
    let scratch = Scratch::new();
    drop(scratch.open());
    let folder = scratch.path().parent().unwrap().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o444)).unwrap();
    // The binary is copied to where every user may run it.
    let binary = folder.join("again");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let mut again = Command::new(&binary);
    again.args(["--exact", "files::another_user", "--nocapture"]);
    again.env("ONCEWARD_PLAY", "open").env("ONCEWARD_LEDGER", scratch.path());
    if rustix::process::geteuid().is_root() {
        again.uid(65_534).gid(65_534);
    }
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("READ-ONLY"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_file_stops_claims_first_and_every_attempt_under_way_is_still_settled() {
    let scratch = Scratch::new();
    let small = Options { bytes_max: Some(1 << 20), settle_reserve_bytes: 256 << 10, ..options() };
    let store = SqliteStore::open(scratch.path(), small).unwrap();
    let mut pending = Vec::new();
    let refused = loop {
        let sample = Sample::new("acme", &format!("n-{}", pending.len()));
        match submit(&store, sample.claimed("owner-1"), Priority::Claim) {
            Ok(Applied::Opened(operation)) => pending.push(operation.key),
            Err(error) => break error,
            Ok(other) => panic!("{other:?}"),
        }
        assert!(pending.len() < 10_000, "the limit does nothing");
    };
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert!(pending.len() > 50, "the reserve takes nearly all: {}", pending.len());
    for (n, key) in pending.iter().enumerate() {
        stepped(&store, step(key, vec![effect(1, "owner-1", &format!("T-{n}"))]));
    }
    assert!(store.is_healthy());
    assert!(pending.iter().all(|key| stored(&store, key).unwrap().is_settled()));
}

#[test]
fn a_row_that_the_types_cannot_express_cannot_be_written_by_hand() {
    let scratch = Scratch::new();
    let store = scratch.open();
    opened(&store, Sample::new("acme", "order-17").claimed("owner-1"));
    let connection = scratch.connection();
    for broken in [
        "state = 'approved'",
        "state = 'unknown', owner = NULL",
        "state = 'succeeded', owner = NULL, settled_at = 1",
        "state = 'closed', owner = NULL",
        "state = 'free', owner = NULL",
        "owner = NULL",
        "attempt = 0",
        "settled_at = 1",
        "answer = x'0100'",
        "effect_id = 'T-1'",
        "cause = 'reply_lost'",
        "superseded_by = 'x'",
        "fingerprint = x'00'",
    ] {
        let changed = connection.execute(&format!("UPDATE onceward_operation SET {broken}"), []);
        assert!(changed.is_err(), "{broken}");
    }
    let twice = connection.execute("INSERT INTO onceward_never (never) VALUES (1)", []);
    assert!(twice.is_err(), "the row that never exists");
}

#[test]
fn a_broken_row_is_named_and_does_not_take_its_group_with_it() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (broken, sound) = (Sample::new("acme", "broken"), Sample::new("acme", "sound"));
    opened(&store, broken.claimed("owner-1"));
    opened(&store, sound.claimed("owner-1"));
    drop(store);
    scratch
        .connection()
        .execute("UPDATE onceward_operation SET progress = x'01007b' WHERE operation_id = 'broken'", [])
        .unwrap();
    let store = scratch.open();
    let other = scratch.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lost = store.submit(step(&broken.key, vec![effect(1, "owner-1", "T-1")]), Priority::Settle);
    let kept = store.submit(step(&sound.key, vec![effect(1, "owner-1", "T-2")]), Priority::Settle);
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(lost.wait().unwrap_err(), StoreError::Corrupt(text) if text.contains("acme/broken")));
    assert!(matches!(kept.wait().unwrap(), Applied::Stepped(_)));
    assert!(matches!(store.read(&broken.key).unwrap_err(), StoreError::Corrupt(_)));
    assert!(matches!(stored(&store, &sound.key).unwrap().state, State::Succeeded(_)));
    assert!(store.is_healthy());
}

#[test]
fn one_delete_by_hand_forgets_an_operation_and_its_journal() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    let by_hand = Connection::open(scratch.path()).unwrap();
    by_hand.pragma_update(None, "foreign_keys", false).unwrap();
    by_hand.execute("DELETE FROM onceward_operation WHERE tenant = 'acme' AND operation_id = 'order-17'", []).unwrap();
    let left: i64 = by_hand.query_row("SELECT count(*) FROM onceward_journal", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    // Protection lasts as long as the record: the key is free, and its journal begins anew.
    let again = opened(&store, sample.claimed("owner-1"));
    let entries = at_once(store.journal(&sample.key, 0, 100)).unwrap();
    assert_eq!(journal::verify(&entries, again.journal), Ok(()));
}

#[test]
fn an_altered_journal_does_not_verify() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    let settled = stepped(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")]));
    scratch.connection().execute("UPDATE onceward_journal SET actor = 'someone' WHERE seq = 2", []).unwrap();
    let entries = at_once(store.journal(&sample.key, 0, 100)).unwrap();
    assert_eq!(journal::verify(&entries, settled.journal), Err(journal::Broken { seq: 2 }));
}

#[test]
fn the_log_is_copied_and_begun_anew_while_writes_go_on() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut longest = 0;
    for round in 0..150 {
        let replies: Vec<_> = (0..40)
            .map(|n| store.submit(Sample::new("acme", &format!("n-{round}-{n}")).claimed("owner-1"), Priority::Claim))
            .collect();
        for reply in replies {
            reply.wait().unwrap();
        }
        let mut log = scratch.path().into_os_string();
        log.push("-wal");
        longest = fs::metadata(log).unwrap().len().max(longest);
    }
    // Six thousand operations are some twenty megabytes of pages; the log began anew before it held them all.
    assert!(longest < 14 << 20, "the log grew to {longest} bytes");
}
