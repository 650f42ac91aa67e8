//! The store on a real PostgreSQL, started from the machine's own binaries.

#![allow(missing_docs, reason = "tests document themselves by their names")]

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
