//! The ledger on SQLite: one writer with group commit, readers beside it, local effects on its transaction.
//!
//! It decides nothing: it loads what [`onceward_ledger::transact`] wants to see, and writes what it says. Start reading at
//! `writer.rs` (what is answered when) and `schema/0001.sql` (what a row may be).

mod apply;
mod caller;
mod chance;
mod checkpoint;
mod connect;
mod error;
mod find;
mod health;
mod job;
pub mod limits;
mod local;
mod lock;
mod marks;
mod migrate;
mod outbox;
mod position;
mod queue;
mod reader;
mod rows;
mod secret;
mod space;
mod store;
mod writer;

pub use rusqlite;

pub use crate::caller::{Begin, BeginError, Begun, Uncommitted, begin_on};
pub use crate::error::OpenError;
pub use crate::local::{Effect, LocalError, LocalFailure, LocalTx};
pub use crate::lock::{InstanceLock, Locked};
pub use crate::outbox::{ApproveError, approve_in};
pub use crate::secret::secret_path;
pub use crate::store::{Options, SqliteStore};
pub use onceward_ledger::local::{LocalOutcome, NotCommitted};
