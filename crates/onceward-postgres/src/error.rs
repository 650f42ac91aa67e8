//! Errors of PostgreSQL as ours: what the caller can do differently decides the variant.

use onceward_ledger::record::Broken;
use onceward_ledger::store::StoreError;
use tokio_postgres::error::SqlState;

/// Why a ledger cannot be opened. Nothing was changed but, at most, its schema.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is none. It is not repeated: people put passwords into addresses.
    #[error("the address of the database cannot be read: {0}")]
    Address(String),
    /// No connection, or none that may write.
    #[error("the database cannot be reached, or takes no writes: {0}")]
    Unreachable(String),
    /// The database refused a statement of the migration.
    #[error("the ledger's tables cannot be made or read: {0}")]
    Schema(String),
    /// A newer Onceward has changed the schema.
    #[error("the ledger has schema {found}, and this version knows {known} at most; use the newer version")]
    NewerSchema {
        /// The version in the database.
        found: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// A migration in the database is not the one that is known here.
    #[error("schema {version} of the ledger was made by other statements than this version has")]
    ForeignSchema {
        /// The version whose checksum differs.
        version: i64,
    },
    /// The secret belongs to another ledger.
    #[error("the ledger secret is not the one that this ledger was made with; give the one that was backed up with it")]
    SecretMismatch,
    /// A commit would not be on disk when it is answered.
    #[error(
        "synchronous_commit is {found:?}: a crash would lose answered records. Set it to \"on\" for the database or the role, or \
         higher with a standby"
    )]
    NotDurable {
        /// What it is.
        found: String,
    },
    /// No thread or runtime could be made.
    #[error("the store's threads cannot be started: {0}")]
    Threads(String),
}

/// What went wrong with a statement or a row.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The database, or the way to it.
    Sql(tokio_postgres::Error),
    /// A row breaks an invariant.
    Row(String),
    /// It took longer than it may.
    Late(&'static str),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Broken> for Fault {
    fn from(Broken(what): Broken) -> Self {
        Self::Row(what)
    }
}

/// What a fault means for the commands of a batch that was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Somebody else was in the way; the same again may work at once.
    Contended,
    /// This connection, or this server, takes no writes (any more).
    Gone,
    /// A command of the batch, or a row, is what is wrong.
    Command,
}

impl Fault {
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Self::Late(_) => Trouble::Gone,
            Self::Row(_) => Trouble::Command,
            Self::Sql(error) => match error.code() {
                None => Trouble::Gone,
                Some(code) if *code == SqlState::T_R_SERIALIZATION_FAILURE => Trouble::Contended,
                Some(code) if *code == SqlState::T_R_DEADLOCK_DETECTED => Trouble::Contended,
                Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Trouble::Contended,
                Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::Gone,
                Some(code) => match code.code().get(..2) {
                    // Connection, resources, intervention, system error.
                    Some("08" | "53" | "57" | "58") => Trouble::Gone,
                    _ => Trouble::Command,
                },
            },
        }
    }

    /// The words of it, for people. The database's own, with its details.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Sql(error) => match error.as_db_error() {
                Some(error) => format!("{} ({})", error.message(), error.code().code()),
                // Its own words say where it failed, and only those beneath say why.
                None => std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(": "),
            },
            Self::Row(what) => what.clone(),
            Self::Late(what) => format!("{what} took too long"),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault.trouble() {
            Trouble::Contended => Self::Busy,
            Trouble::Gone => Self::Unavailable(fault.words()),
            Trouble::Command => Self::Corrupt(fault.words()),
        }
    }
}
