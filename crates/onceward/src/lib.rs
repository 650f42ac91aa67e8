//! The durable operation ledger as a library.
//!
//! An **operation** is one approved intention with one durable identity. Whoever repeats it (a retry, a restarted worker, a
//! second agent) finds its receipt, or an honest *unknown* that nobody may run again before evidence settles it. Never
//! promised: exactly-once across systems that offer neither a key nor a lookup.
//!
//! Two ways to have an effect:
//!
//! - [`Ledger::execute`]: at a destination. The claim is durable before the first byte leaves.
//! - [`local::execute_local`]: in the ledger's own SQLite file, or in its PostgreSQL database with the feature `postgres`. Your rows
//!   and the receipt are one commit.
//!
//! Permission is a value ([`authorize::Authorized`]): neither a call nor its repetition compiles without it.
//!
//! ```compile_fail
//! # use onceward::{Ledger, call::Call, destination::Destination};
//! # async fn f(ledger: Ledger, call: Call, destination: std::sync::Arc<dyn Destination>) {
//! // There is no way to make the permission but a grant's own check.
//! let allowed = onceward::authorize::Authorized::<onceward::authorize::Execute>::default();
//! ledger.execute(&allowed, call, destination, std::time::Duration::ZERO).await;
//! # }
//! ```
//!
//! ```compile_fail
//! # use onceward::{Ledger, core::key::OperationId};
//! # async fn f(ledger: Ledger, id: OperationId) {
//! // A status is a replay of what is known: it needs a grant too.
//! let operation = ledger.find(&id).await;
//! # }
//! ```

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod local;

pub use onceward_core as core;
pub use onceward_ledger::{
    Intervals, Ledger, LedgerError, Settings, application, approvals, authorize, call, clock, credential, decisions,
    destination, directory, ledger, lookup, operations, outbox, recover, runtime, store,
};
#[cfg(feature = "postgres")]
pub use onceward_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use onceward_sqlite as sqlite;
