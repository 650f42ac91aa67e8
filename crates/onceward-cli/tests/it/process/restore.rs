//! A backup is put back over a ledger that has gone on since.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use onceward_cluster::{Database, program};
use onceward_ledger::clock::{Clock as _, SystemClock};
use serde_json::Value;

use super::{DEADLINE, Said, Server, call, configuration, onceward, run, tickets};

/// Where a ledger lies, and how it is copied and put back.
enum Home {
    File(PathBuf),
    Database(Database),
}

impl Home {
    /// What the configuration says of it.
    fn lines(&self) -> String {
        match self {
            Self::File(_) => "ledger = \"sqlite:ledger.db\"".to_owned(),
            Self::Database(database) => {
                format!("ledger = \"{}\"\nledger_secret = \"file:ledger.secret\"", database.url())
            }
        }
    }

    /// Where the mark of it is.
    fn mark(&self, folder: &Path) -> PathBuf {
        match self {
            Self::File(_) => folder.join("ledger.db.mark"),
            Self::Database(_) => folder.join("onceward.mark"),
        }
    }

    /// As the documents say, while gateways work on it.
    fn back_up(&self, to: &Path) {
        match self {
            Self::File(path) => {
                let connection = rusqlite::Connection::open(path).expect("opened");
                connection.execute("VACUUM INTO ?1", [to.to_str().expect("a path")]).expect("copied");
            }
            Self::Database(database) => {
                let dump = Command::new(program("pg_dump").expect("pg_dump"))
                    .args(["--schema=onceward", "--file"])
                    .arg(to)
                    .arg(database.url())
                    .status()
                    .expect("it runs");
                assert!(dump.success());
            }
        }
    }

    fn put_back(&self, from: &Path) {
        match self {
            Self::File(path) => {
                for end in ["-wal", "-shm"] {
                    let mut beside = path.as_os_str().to_owned();
                    beside.push(end);
                    // It may be gone already.
                    let _ = std::fs::remove_file(PathBuf::from(beside));
                }
                std::fs::copy(from, path).expect("copied");
            }
            Self::Database(database) => {
                database.sql("DROP SCHEMA onceward CASCADE").expect("dropped");
                let restored = Command::new(program("psql").expect("psql"))
                    .args(["--quiet", "--set=ON_ERROR_STOP=1", "--file"])
                    .arg(from)
                    .arg(database.url())
                    .output()
                    .expect("it runs");
                assert!(restored.status.success(), "{restored:?}");
            }
        }
    }
}

/// The beats that the mark has seen.
fn beats(mark: &Path) -> u64 {
    let text = std::fs::read_to_string(mark).expect("the mark");
    let mark: Value = serde_json::from_str(&text).expect("JSON");
    mark["high_water"]["beats"].as_u64().expect("a count")
}

#[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never comes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An id of version 7, minted now.
fn minted() -> String {
    let milliseconds = SystemClock.now().as_micros() / 1_000;
    format!("{:08x}-{:04x}-7cc3-98c4-dc0c0c07398f", milliseconds >> 16, milliseconds & 0xffff)
}

fn outcome(said: &Said) -> String {
    said.json()["outcome"].as_str().expect("an outcome").to_owned()
}

fn token(folder: &Path) -> String {
    let made = run(
        folder,
        &["token", "create", "--config", "onceward.toml", "--principal", "agent", "--role", "agent", "--json"],
    );
    assert_eq!(made.code, 0, "{made:?}");
    made.json()["token"].as_str().expect("a token").to_owned()
}

async fn nothing_that_was_sent_after_the_backup_is_sent_again(folder: &Path, home: &Home) {
    let sandbox = Server::sandbox(folder);
    let text = configuration(&sandbox.url).replace("ledger = \"sqlite:ledger.db\"", &home.lines());
    std::fs::write(folder.join("onceward.toml"), text).expect("written");
    if let Home::Database(_) = home {
        std::fs::write(folder.join("ledger.secret"), "5e".repeat(32)).expect("written");
    }
    let agent = token(folder);
    let gateway = Server::gateway(folder);
    assert_eq!(outcome(&call(folder, &gateway, &agent, "before")), "executed");

    let backup = folder.join("backup");
    home.back_up(&backup);
    let as_of = SystemClock.now().to_string();
    let at_backup = beats(&home.mark(folder));
    let young = minted();
    let since = ["after-1", "after-2", "after-3", &young];
    for id in since {
        assert_eq!(outcome(&call(folder, &gateway, &agent, id)), "executed");
    }
    assert_eq!(tickets(&sandbox.url).await, (5, 5));
    until("the mark of a later beat", || beats(&home.mark(folder)) > at_backup + 1).await;
    gateway.kill();
    home.put_back(&backup);

    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "onceward.toml"];
    for _ in 0..2 {
        let refused = Said::of(&onceward(folder).args(serve).output().expect("it runs"));
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(
            refused.err.contains("the ledger has gone back") && refused.err.contains("restore --as-of"),
            "{refused:?}"
        );
    }
    let restored = run(folder, &["restore", "--as-of", &as_of, "--json"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let gateway = Server::gateway(folder);
    for id in since {
        let again = call(folder, &gateway, &agent, id);
        assert_eq!((again.code, outcome(&again)), (3, "unknown".to_owned()), "{id}: {again:?}");
    }
    assert_eq!(outcome(&call(folder, &gateway, &agent, "before")), "replayed");
    assert_eq!(outcome(&call(folder, &gateway, &agent, "never-seen")), "unknown", "nobody can know that");
    assert_eq!(tickets(&sandbox.url).await, (5, 5), "something was sent again");

    let closed = run(folder, &["restore", "--close", "--reason", "the queues are drained"]);
    assert_eq!(closed.code, 0, "{closed:?}");
    assert_eq!(outcome(&call(folder, &gateway, &agent, "new-1")), "executed");
    assert_eq!(outcome(&call(folder, &gateway, &agent, "after-1")), "unknown", "it stays in doubt");
    assert_eq!(tickets(&sandbox.url).await, (6, 6));
    assert_eq!(run(folder, &["restore", "--close", "--reason", "again"]).code, 4, "there is none to close");
    assert_eq!(gateway.terminate(), 0);
    // The restored ledger is the ledger now: it starts like any other.
    drop(Server::gateway(folder));
}

#[tokio::test]
async fn a_backup_over_a_busy_file_sends_nothing_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::File(folder.path().join("ledger.db"));
    nothing_that_was_sent_after_the_backup_is_sent_again(folder.path(), &home).await;
}

#[tokio::test]
async fn a_backup_over_a_busy_database_sends_nothing_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::Database(Database::make().expect("a database"));
    nothing_that_was_sent_after_the_backup_is_sent_again(folder.path(), &home).await;
}

#[tokio::test]
async fn a_restore_is_refused_while_a_gateway_runs_and_for_a_time_that_has_not_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("onceward.toml"), configuration("http://127.0.0.1:9")).expect("written");
    let now = SystemClock.now();
    assert_eq!(run(folder, &["restore", "--as-of", &now.to_string()]).code, 2, "there is no ledger yet");
    let gateway = Server::gateway(folder);
    let refused = run(folder, &["restore", "--as-of", &now.to_string()]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert_eq!(gateway.terminate(), 0);
    let later = now.plus(Duration::from_secs(3_600)).to_string();
    assert_eq!(run(folder, &["restore", "--as-of", &later]).code, 2);
    assert_eq!(run(folder, &["restore", "--as-of", "yesterday"]).code, 2);
    assert_eq!(run(folder, &["restore", "--as-of", &now.to_string()]).code, 0);
}

#[tokio::test]
async fn a_gateway_under_which_the_ledger_goes_back_ends_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let database = Database::make().expect("a database");
    let home = Home::Database(database);
    let text = configuration("http://127.0.0.1:9").replace("ledger = \"sqlite:ledger.db\"", &home.lines());
    std::fs::write(folder.join("onceward.toml"), text).expect("written");
    std::fs::write(folder.join("ledger.secret"), "5e".repeat(32)).expect("written");
    let mut gateway = Server::gateway(folder);
    until("a beat", || beats(&home.mark(folder)) > 2).await;
    let Home::Database(database) = &home else { unreachable!("it is one") };
    database.sql("UPDATE onceward.ledger SET beats = 1, high_water_at = 1").expect("as a backup would have it");
    let code = std::cell::Cell::new(None);
    let gateway = std::cell::RefCell::new(&mut gateway);
    until("its end", || {
        code.set(gateway.borrow_mut().child.try_wait().expect("asked").and_then(|status| status.code()));
        code.get().is_some()
    })
    .await;
    assert_eq!(code.get(), Some(4));
}
