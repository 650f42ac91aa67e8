//! Effects that are rows of the same database: the rows and the receipt are one commit, or neither is (promise 2).
//!
//! In a transaction of the store's, by [`execute_local`] (or [`postgres::execute_local`]). In one that the caller has open already:
//! [`Ledger::local_opening`](crate::Ledger::local_opening) makes the opening that `begin_on` of the store takes.

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use self::sqlite::{ExecuteLocalError, execute_local};
