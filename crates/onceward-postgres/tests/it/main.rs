//! The store on a real PostgreSQL, started from the machine's own binaries.

#![allow(missing_docs, reason = "tests document themselves by their names")]

mod contention;
mod cut;
mod failover;
mod plans;
mod proxy;
mod suite;
