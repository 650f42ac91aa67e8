//! The rules of Onceward.
//!
//! Everything that decides whether an effect may happen again stands here, and nothing else does: no I/O, no clock, no
//! async, no randomness. Time, ids and chance are arguments; a store or an engine calls in and does what it is told.
//!
//! Where to start reading: [`decide`] says what a repeated call is told, [`step`] is the whole machine in one match,
//! [`classify`](mod@classify) turns a destination's behaviour into a verdict, [`evidence`] says when an uncertain attempt
//! may be followed by another one.

pub mod canonical;
pub mod classify;
pub mod code;
pub mod contract;
pub mod decide;
pub mod decision;
pub mod diff;
pub mod event;
pub mod evidence;
pub mod fingerprint;
pub mod hex;
pub mod journal;
pub mod key;
pub mod limits;
pub mod operation;
pub mod outbound;
pub mod outcome;
pub mod pointer;
pub mod receipt;
pub mod retention;
pub mod retry;
pub mod sighting;
pub mod state;
pub mod step;
pub mod suspicion;
pub mod time;

// The samples of the printed documents are those of the tests, and name this crate from outside.
#[cfg(test)]
extern crate self as onceward_core;
#[cfg(test)]
#[path = "../examples/print_docs/samples.rs"]
mod samples;
