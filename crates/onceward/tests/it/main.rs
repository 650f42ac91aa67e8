//! The engine over a real SQLite ledger.
#![allow(clippy::disallowed_methods, reason = "tests poll with a deadline")]

mod cases;
mod claims;
mod external;
mod hold;
#[cfg(feature = "failpoints")]
mod kill;
mod local;
#[cfg(feature = "postgres")]
mod local_postgres;
mod outbox;
mod purge;
mod reconcile;
mod recovery;
mod second;
mod stage;
