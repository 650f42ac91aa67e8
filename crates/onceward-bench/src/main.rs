//! Measures Onceward beside raw floors in one run, as ratios.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks and makes ids")]
#![allow(dead_code, reason = "the rows are added as their servers come")]

mod client;
mod load;
mod raw;
mod servers;

fn main() {}
