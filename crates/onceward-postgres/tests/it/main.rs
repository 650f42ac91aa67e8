//! The store on a real PostgreSQL, started from the machine's own binaries.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(clippy::disallowed_methods, reason = "tests wait for real servers until a deadline")]

mod contention;
mod contract;
mod cut;
mod failover;
mod local;
mod outbox;
mod plans;
mod process;
mod proxy;
mod suite;
