//! The store on a real PostgreSQL, started from the machine's own binaries.

#![allow(missing_docs, reason = "tests document themselves by their names")]

mod suite;
