//! The store as its callers see it.

mod contention;
mod files;
#[cfg(feature = "failpoints")]
mod kill;
mod local;
mod migration;
mod outbox;
mod scratch;
mod suite;
