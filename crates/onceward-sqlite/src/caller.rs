//! A local effect in a transaction that the caller already has open (R15).
//!
//! The operation is begun first, then the caller writes its own rows, then the operation is finished with its receipt, and
//! the caller commits. A begun operation that is not finished makes the commit fail: it leaves a reference to a row that never
//! exists, which SQLite checks at `COMMIT`. Nothing of the connection is changed; what must be right is checked.

use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use onceward_ledger::local::{NotCommitted, finishing};
use onceward_ledger::store::{Applied, Command, Opening, StoreError};
use rusqlite::{Connection, Transaction};

use crate::apply::{self, Desk, Landmark, Outcome, Recent};
use crate::chance::Salts;
use crate::error::{Fault, OpenError};
use crate::migrate;
use crate::store::SqliteStore;

/// What an operation in the caller's transaction on SQLite came to.
pub type Begin<'t> = onceward_ledger::local::Begin<Begun<'t>>;

/// Why nothing was begun. The transaction is the caller's to roll back.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// A commit of this connection would not be on disk when it is answered.
    #[error("`PRAGMA synchronous` of this connection is {found}; a receipt needs 2 (FULL) or 3 (EXTRA)")]
    NotDurable {
        /// What it is.
        found: i64,
    },
    /// An unfinished operation could be committed.
    #[error("`PRAGMA foreign_keys` is off for this connection; it keeps an unfinished operation from being committed")]
    ForeignKeysOff,
    /// The connection's database has no ledger of this version.
    #[error("this database has no ledger of this version; open it with SqliteStore::open first")]
    NoLedger,
    /// Its schema cannot be used.
    #[error(transparent)]
    Schema(#[from] OpenError),
    /// The ledger could not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An operation that is begun and not finished. Dropped, it keeps the transaction from being committed.
#[must_use = "a begun operation that is not finished makes the commit fail"]
pub struct Begun<'t> {
    connection: &'t Connection,
    number: i64,
    operation: Operation,
    desk: Desk,
}

impl std::fmt::Debug for Begun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("key", &self.operation.key).finish_non_exhaustive()
    }
}

/// Something that is true only once the caller's transaction is committed.
#[derive(Debug)]
#[must_use = "it is not true before the transaction is committed"]
pub struct Uncommitted<T> {
    value: T,
    landmark: Landmark,
}

/// Begins an operation in the caller's transaction, before the caller writes anything else in it.
///
/// `opening` carries the claim of the first attempt. The transaction should be `IMMEDIATE`: a deferred one that has read before
/// can be refused the write lock.
///
/// # Errors
/// [`BeginError`]: nothing was begun, and nothing may be written for the operation.
pub fn begin_on<'t>(
    transaction: &'t Transaction<'_>,
    opening: Opening,
    at: Timestamp,
) -> Result<Begin<'t>, BeginError> {
    let connection: &'t Connection = transaction;
    check(connection)?;
    let mut desk = Desk { salts: Salts::new(), recent: Recent::default() };
    let outcome = apply::open(connection, &opening, None, at, &mut desk).map_err(StoreError::from)?;
    let Outcome { answer, written } = outcome;
    let operation = match answer {
        Applied::Opened(operation) => operation,
        Applied::Existing(operation) => return Ok(Begin::Existing(operation)),
        Applied::Suspected(operation) => return Ok(Begin::Suspected(operation)),
        Applied::Refused { refusal, operation } => return Ok(Begin::Refused { refusal, operation }),
        Applied::Stepped(_) | Applied::NoSuchOperation | Applied::Done => return Err(not_opened().into()),
    };
    let Some(written) = written else { return Err(not_opened().into()) };
    let State::Pending(_) = &operation.state else { return Ok(Begin::Opened(operation)) };
    let guarded = connection
        .execute("INSERT INTO onceward_begun (operation, unfinished) VALUES (?1, 1)", [written.number])
        .map_err(|error| StoreError::from(Fault::Sql(error)))?;
    debug_assert_eq!(guarded, 1);
    Ok(Begin::Begun(Begun { connection, number: written.number, operation, desk }))
}

fn not_opened() -> StoreError {
    StoreError::Corrupt("an opening was answered as if it were none".to_owned())
}

/// What must be right with a connection that is not ours. Checked and never set: it is the caller's.
fn check(connection: &Connection) -> Result<(), BeginError> {
    let pragma = |sql: &str| {
        let value = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        value.map_err(|error| StoreError::from(Fault::Sql(error)))
    };
    let found = pragma("PRAGMA synchronous")?;
    if found < 2 {
        return Err(BeginError::NotDurable { found });
    }
    if pragma("PRAGMA foreign_keys")? == 0 {
        return Err(BeginError::ForeignKeysOff);
    }
    let path = connection.path().unwrap_or_default();
    if migrate::is_current(connection, path.as_ref())? { Ok(()) } else { Err(BeginError::NoLedger) }
}

impl Begun<'_> {
    /// The operation as it stands in this transaction.
    #[must_use]
    pub const fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Stores the receipt. From now on the transaction can be committed, and the operation is done if it is.
    ///
    /// # Errors
    /// [`StoreError`]: it is not finished, and the transaction cannot be committed.
    pub fn finish(mut self, receipt: Receipt, at: Timestamp) -> Result<Uncommitted<Receipt>, StoreError> {
        let step = finishing(&self.operation, receipt.clone()).ok_or_else(not_opened)?;
        let command = Command::Step(Box::new(step));
        let outcome = apply::apply(self.connection, &command, None, at, &mut self.desk)?;
        match (outcome.answer, outcome.written) {
            (Applied::Stepped(_), Some(written)) => {
                self.connection
                    .execute("DELETE FROM onceward_begun WHERE operation = ?1", [self.number])
                    .map_err(|error| StoreError::from(Fault::Sql(error)))?;
                Ok(Uncommitted { value: receipt, landmark: written.landmark() })
            }
            (answer, _) => Err(StoreError::Corrupt(format!("the operation could not be finished: {answer:?}"))),
        }
    }
}

impl<T> Uncommitted<T> {
    /// The value, after a fresh read has shown that the transaction was committed.
    ///
    /// # Errors
    /// [`NotCommitted`]: the value is not true.
    pub fn confirm(self, store: &SqliteStore) -> Result<T, NotCommitted> {
        if store.has_landed(&self.landmark)? { Ok(self.value) } else { Err(NotCommitted::NotThere) }
    }
}
