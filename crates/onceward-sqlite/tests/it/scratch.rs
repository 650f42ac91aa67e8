//! A folder with a ledger, and other processes that use it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use onceward_core::journal;
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::store::{Applied, Command as Order, Priority, Store, StoreError};
use onceward_sqlite::rusqlite::Connection;
use onceward_sqlite::{OpenError, Options, SqliteStore};

/// A folder that goes with the test.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(self.path(), options())
    }

    /// Another connection to the file, as some other program would have it.
    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection
    }
}

pub(crate) fn options() -> Options {
    Options::new(Arc::new(SystemClock))
}

pub(crate) fn submit(store: &SqliteStore, order: Order, priority: Priority) -> Result<Applied, StoreError> {
    store.submit(order, priority).wait()
}

pub(crate) fn opened(store: &SqliteStore, order: Order) -> Operation {
    match submit(store, order, Priority::Claim) {
        Ok(Applied::Opened(operation)) => operation,
        other => panic!("not opened: {other:?}"),
    }
}

pub(crate) fn stepped(store: &SqliteStore, order: Order) -> Operation {
    match submit(store, order, Priority::Settle) {
        Ok(Applied::Stepped(operation)) => operation,
        other => panic!("not stepped: {other:?}"),
    }
}

pub(crate) fn stored(store: &SqliteStore, key: &OperationKey) -> Option<Operation> {
    let operation = store.read(key).unwrap();
    if let Some(operation) = &operation {
        let entries = at_once(store.journal(key, 0, 1000)).unwrap();
        assert_eq!(journal::verify(&entries, operation.journal), Ok(()));
    }
    operation
}

/// The value of a future that is ready at once, as every read of this store is.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a read is ready at once"),
    }
}

/// Waits until it is so, at most half a minute.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = SystemClock.uptime() + Duration::from_secs(30);
    while !is_so() {
        assert!(SystemClock.uptime() < deadline, "{what} took too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// This test binary again, running one test that plays another process; `ONCEWARD_PLAY` tells it what.
pub(crate) fn play(test: &str, part: &str, ledger: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ONCEWARD_PLAY", part)
        .env("ONCEWARD_LEDGER", ledger)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What this process is to play, if it is another's.
pub(crate) fn part() -> Option<(String, PathBuf)> {
    let part = std::env::var("ONCEWARD_PLAY").ok()?;
    Some((part, std::env::var_os("ONCEWARD_LEDGER")?.into()))
}
