//! Errors of SQLite as ours: what the caller can do differently decides the variant.

use std::path::PathBuf;

use onceward_ledger::record::Broken;
use onceward_ledger::store::StoreError;
use rusqlite::ErrorCode;

/// Why a ledger cannot be opened. Nothing was changed but, at most, an empty file and its schema.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, or its folder, cannot be used.
    #[error("{path}: {what}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file is no SQLite database, or it is damaged.
    #[error("{path} is not a usable SQLite database: {what}; restore it from a backup, nothing was changed")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// The file or its folder cannot be written.
    #[error("{path} cannot be written; a ledger that cannot record may not dispatch, so it is not opened")]
    ReadOnly {
        /// Which file.
        path: PathBuf,
    },
    /// Another process held it for longer than the wait.
    #[error("{path} was held by another process for longer than the wait")]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// The file system gives no write-ahead log.
    #[error(
        "{path}: the journal mode is {mode:?} where `wal` was asked for; a network file system cannot hold a ledger"
    )]
    NoWal {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        mode: String,
    },
    /// A commit would not be on disk when it is answered.
    #[error("{path}: `synchronous` reads back as {found} and not as 2 (FULL); a power cut would lose answered records")]
    NotDurable {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        found: i64,
    },
    /// A newer Onceward has changed the schema.
    #[error("{path} has schema {found}, and this version knows {known} at most; use the newer version")]
    NewerSchema {
        /// Which file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// A migration in the file is not the one that is known here.
    #[error(
        "{path}: schema {version} was made by other statements than this version has; the file was changed, or is a fork's"
    )]
    ForeignSchema {
        /// Which file.
        path: PathBuf,
        /// The version whose checksum differs.
        version: u32,
    },
    /// The secret beside the file is gone.
    #[error(
        "{path} is missing, and the ledger has operations: the keys that destinations know cannot be made without it; restore it \
         from its backup"
    )]
    SecretMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The secret beside the file belongs to another ledger.
    #[error("{path} is not the secret of this ledger; restore the one that was backed up with it")]
    SecretMismatch {
        /// Where it is.
        path: PathBuf,
    },
    /// Others may read the secret.
    #[error("{path} has mode {mode:o}; others must not read it: chmod 600")]
    SecretExposed {
        /// Where it is.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The secret's file holds something else.
    #[error("{path} does not hold 64 hex digits")]
    SecretUnreadable {
        /// Where it is.
        path: PathBuf,
    },
}

/// What kind of trouble SQLite is in, as far as the store acts differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Another connection holds a lock; it passes.
    Busy,
    /// No space; claims stop, settles try again.
    Full,
    /// A constraint of the schema: a row that the types cannot express. Only its command fails.
    Constraint,
    /// The file is damaged or is no database.
    Damaged,
    /// It cannot be written.
    ReadOnly,
    /// Anything else: the disk, memory, a lost file.
    Other,
}

pub(crate) fn trouble(error: &rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
        Some(ErrorCode::DiskFull) => Trouble::Full,
        Some(ErrorCode::ConstraintViolation) => Trouble::Constraint,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Damaged,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Trouble::ReadOnly,
        Some(_) | None => Trouble::Other,
    }
}

/// The words for an error after which certainly nothing was written.
pub(crate) fn not_written(error: &rusqlite::Error) -> StoreError {
    match trouble(error) {
        Trouble::Busy => StoreError::Busy,
        Trouble::Constraint => StoreError::Corrupt(format!("the record was refused by the schema: {error}")),
        Trouble::Full => StoreError::Unavailable(format!("no space is left for the ledger ({error})")),
        Trouble::Damaged => StoreError::Unavailable(format!("the ledger's file is damaged ({error})")),
        Trouble::ReadOnly => StoreError::Unavailable(format!("the ledger's file has become read-only ({error})")),
        Trouble::Other => StoreError::Unavailable(format!("SQLite: {error}")),
    }
}

/// Why one command could not be applied.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A row breaks an invariant. Only its command fails.
    Row(String),
    /// SQLite failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Broken> for Fault {
    fn from(Broken(what): Broken) -> Self {
        Self::Row(what)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Row(what) => Self::Corrupt(what),
            Fault::Sql(error) => not_written(&error),
        }
    }
}
