//! Connections: how each kind is set up, and what is read back before it is trusted.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use onceward_ledger::clock::Clock;
use rusqlite::{Connection, OpenFlags};

use crate::error::{OpenError, Trouble, trouble};
use crate::limits;

/// Tries until it works, another connection's lock has lasted too long, or it fails otherwise.
pub(crate) fn patiently<T>(
    clock: &dyn Clock,
    until: Duration,
    mut step: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let (mut pause, longest) = limits::LOCK_PAUSE;
    loop {
        match step() {
            Err(error) if trouble(&error) == Trouble::Busy && clock.uptime() < until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(longest);
            }
            done => return done,
        }
    }
}

/// A connection that writes, to a file that is made when it does not exist.
pub(crate) fn open_new(path: &Path, clock: &dyn Clock, until: Duration) -> Result<Connection, OpenError> {
    // Arguments and receipts are nobody else's business; SQLite gives its side files the same mode.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(OpenError::File { path: path.to_owned(), what: error.to_string() }),
    }
    open_known(path, clock, until)
}

/// A connection that writes, to a file that exists.
pub(crate) fn open_known(path: &Path, clock: &dyn Clock, until: Duration) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| opening(path, &error);
    let connection = bare(path).map_err(failed)?;
    if connection.is_readonly("main").map_err(failed)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    let mode = patiently(clock, until, || switch_to_wal(&connection)).map_err(failed)?;
    if mode != "wal" {
        return Err(OpenError::NoWal { path: path.to_owned(), mode });
    }
    patiently(clock, until, || set_up(&connection)).map_err(failed)?;
    let found: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(failed)?;
    if found != 2 {
        return Err(OpenError::NotDurable { path: path.to_owned(), found });
    }
    Ok(connection)
}

/// Another connection for writing or copying the log, to a file that exists.
pub(crate) fn bare(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Waiting is ours: a claim and a settle wait differently.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// A connection that cannot write.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(limits::READ_WAIT)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "cache_size", -limits::READER_PAGES_KIB)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// The switch needs the file for itself for a moment, and is refused at once, without waiting, while another has it.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<String> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(mode);
    }
    connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -limits::WRITER_PAGES_KIB)?;
    // Erased payloads leave no copy in the file where that costs no other write.
    connection.query_row("PRAGMA secure_delete = FAST", [], |_| Ok(()))?;
    connection.query_row(&format!("PRAGMA journal_size_limit = {}", limits::WAL_KEPT_BYTES), [], |_| Ok(()))?;
    // The log is copied beside the writer; see checkpoint.rs.
    connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))
}

pub(crate) fn opening(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match trouble(error) {
        Trouble::Busy => OpenError::Busy { path },
        Trouble::Damaged => OpenError::Damaged { path, what: error.to_string() },
        Trouble::ReadOnly => OpenError::ReadOnly { path },
        Trouble::Full | Trouble::Constraint | Trouble::Other => OpenError::File { path, what: error.to_string() },
    }
}
