//! A distribution of fixed classes, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts in classes. Its size never changes, so it needs no upkeep.
#[derive(Debug)]
pub struct Histogram {
    /// Upper ends, in the unit that is counted, growing.
    bounds: &'static [u64],
    /// One more than there are bounds: what is beyond them all.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// What a histogram has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Upper ends, in the unit that is counted.
    pub bounds: &'static [u64],
    /// How many fell into each class; the last is beyond all bounds.
    pub counts: Vec<u64>,
    /// The sum of all values, in the same unit.
    pub sum: u64,
}

/// Classes of times, in microseconds: from what a flush of a fast disk takes to what no caller waits for.
pub const TIMES_US: &[u64] = &[
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

/// Classes of counts, up to the largest group that is committed together.
pub const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

impl Histogram {
    /// An empty one with these upper ends.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Counts one value.
    pub fn count(&self, value: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts one time, in microseconds.
    pub fn count_time(&self, took: Duration) {
        self.count(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> Distribution {
        Distribution {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl Distribution {
    /// How many values there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_is_within_it_and_one_beyond_all_is_kept() {
        let histogram = Histogram::new(&[1, 10]);
        for value in [0, 1, 2, 10, 11] {
            histogram.count(value);
        }
        let read = histogram.read();
        assert_eq!((read.counts.as_slice(), read.sum, read.total()), (&[2, 2, 1][..], 24, 5));
    }

    #[test]
    fn bounds_grow() {
        for bounds in [TIMES_US, COUNTS] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
