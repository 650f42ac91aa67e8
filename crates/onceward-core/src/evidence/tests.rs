//! Tests of the evidence rules.
