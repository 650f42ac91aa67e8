//! Whether the ledger takes writes. After a failed commit nothing is let in until a probe has been written (fail closed).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use onceward_ledger::metrics::histogram::{COUNTS, Histogram, TIMES_US};

/// Shared by the writer, who knows, and those who submit.
#[derive(Debug)]
pub(crate) struct Health {
    well: AtomicBool,
    trouble: Mutex<String>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self { well: AtomicBool::new(true), trouble: Mutex::new(String::new()) }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Acquire)
    }

    /// What the trouble is, or was.
    pub(crate) fn trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn fell_ill(&self, trouble: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        self.well.store(false, Ordering::Release);
    }

    pub(crate) fn recovered(&self) {
        self.well.store(true, Ordering::Release);
    }
}

/// What the writer measures of itself.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// How long commits took.
    pub(crate) commits: Histogram,
    /// How many commands they had.
    pub(crate) groups: Histogram,
}

impl Gauges {
    pub(crate) fn new() -> Self {
        Self { commits: Histogram::new(TIMES_US), groups: Histogram::new(COUNTS) }
    }
}
