//! Tests of the machine: what holds for every (state, event, source, verdict), and the rules by name.

mod always;
mod rules;
