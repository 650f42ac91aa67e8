//! The store as its callers see it.

mod suite;
