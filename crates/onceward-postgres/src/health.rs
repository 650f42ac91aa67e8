//! Whether the ledger takes writes, and how its writers are doing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use onceward_ledger::metrics::histogram::{COUNTS, Histogram, TIMES_US};

/// Shared by the writers, who know, and those who submit.
pub(crate) struct Health {
    well: AtomicBool,
    trouble: Mutex<String>,
    /// How long commits took.
    pub(crate) commits: Histogram,
    /// How many commands they had.
    pub(crate) groups: Histogram,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            well: AtomicBool::new(true),
            trouble: Mutex::new(String::new()),
            commits: Histogram::new(TIMES_US),
            groups: Histogram::new(COUNTS),
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Acquire)
    }

    pub(crate) fn trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn fell_ill(&self, trouble: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        if self.well.swap(false, Ordering::AcqRel) {
            tracing::warn!(trouble = self.trouble(), "the ledger's database takes no writes");
        }
    }

    pub(crate) fn recovered(&self) {
        if !self.well.swap(true, Ordering::AcqRel) {
            tracing::info!("the ledger's database takes writes again");
        }
    }
}
