//! The matrix: every contract of the catalog, and some as whoever runs the destination would complete them, in every situation
//! that leaves doubt. A real gateway process stands before one sandbox for each contract; the sandbox and the gateway read
//! the same file. Effects are counted at the sandbox and answers at the caller.
//!
//! What must come out is written by hand in [`expected`], from the table of classification. Nothing of the gateway's own rules
//! is asked what it should be.

mod borders;
mod expected;
mod family;
mod matrix;
mod situation;

pub use borders::{Equals, Horizons, Scopes, equal_arguments, horizons, scopes};
pub(crate) use borders::{equal_arguments_on, scopes_on};
pub(crate) use matrix::play_on;
pub use matrix::{Matrix, MatrixOptions, Subset, play};
