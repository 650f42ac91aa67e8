//! The ledger on PostgreSQL.
//!
//! The file names are those of the store on SQLite: `rows` has an operation as columns and back, `migrate` the schema, `reader` what
//! is read, `writer` when a command is answered and what becomes of a commit that is unknown. `batch` is the one place where a
//! batch is looked up, decided by the rules of the ledger, and written. It decides nothing itself.

mod batch;
mod caller;
mod chance;
mod connect;
mod error;
mod health;
pub mod limits;
mod local;
mod migrate;
mod others;
mod outbox;
mod position;
mod queue;
mod reader;
mod rows;
mod store;
mod writer;

pub use caller::{Begin, BeginError, Begun, Uncommitted, begin_on};
pub use error::OpenError;
pub use local::{Effect, LocalError, LocalFailure};
pub use onceward_ledger::local::{LocalOutcome, NotCommitted};
pub use outbox::{ApproveError, approve_in};
pub use store::{Options, PostgresStore};
/// The driver, in the version that a local effect is given a transaction of.
pub use tokio_postgres;
