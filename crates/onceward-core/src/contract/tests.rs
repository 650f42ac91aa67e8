//! Tests of contracts.
