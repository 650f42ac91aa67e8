//! The machine under a checker, and the mutants that it must catch.

mod honest;
mod mutants;
