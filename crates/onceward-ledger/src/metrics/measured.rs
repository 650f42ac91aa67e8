//! All metrics as they stand: counters of this process, and what the store says about unresolved operations.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use onceward_core::time::Timestamp;

use super::histogram::Distribution;
use super::table::Id;
use super::{Metrics, Value};
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::limits::{DISPATCHES_MAX, UNRESOLVED_COUNTED_EVERY};
use crate::store::{UnknownCount, Unresolved};

/// One series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Of which metric.
    pub id: Id,
    /// The values of its labels, in the order of the table.
    pub labels: Vec<String>,
    /// What it stands at.
    pub reading: Reading,
}

/// What a series stands at.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A counter or a count.
    Count(u64),
    /// An age in seconds.
    Seconds(f64),
    /// A distribution, of microseconds where the metric is one of times.
    Spread(Distribution),
}

impl Ledger {
    /// The counters of this process, for whoever counts what the engine does not see.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// All metrics, in the order of the table. What is unresolved is counted at most once a second, however many ask.
    ///
    /// # Errors
    /// [`LedgerError::Store`] when the ledger cannot be read.
    pub async fn measured(&self) -> Result<Vec<Sample>, LedgerError> {
        let metrics = &self.inner.metrics;
        let mut samples = Vec::new();
        for ((id, values), count) in metrics.counted() {
            samples.push(sample(id, &values, Reading::Count(count)));
        }
        for (tool, spread) in metrics.dispatch_times() {
            samples.push(sample(Id::Dispatch, &[tool, Value::Nothing], Reading::Spread(spread)));
        }
        let unresolved = self.unresolved().await?;
        gauges(&unresolved, metrics, self.inner.clock.now(), &mut samples);
        let store = &self.inner.store;
        let load = store.load();
        let in_flight = DISPATCHES_MAX - self.inner.dispatches.available_permits();
        for (id, reading) in [
            (Id::InFlight, Reading::Count(u64::try_from(in_flight).unwrap_or(u64::MAX))),
            (Id::Queue, Reading::Count(load.queued)),
            (Id::Writable, Reading::Count(u64::from(store.is_healthy()))),
            (Id::Commit, Reading::Spread(load.commits)),
            (Id::Group, Reading::Spread(load.groups)),
        ] {
            samples.push(sample(id, &[], reading));
        }
        // Counters without labels are there from the start, so that their first step is seen as one.
        if !samples.iter().any(|sample| sample.id == Id::OwnersRecovered) {
            samples.push(sample(Id::OwnersRecovered, &[], Reading::Count(0)));
        }
        samples.sort_by(|one, other| (one.id, &one.labels).cmp(&(other.id, &other.labels)));
        Ok(samples)
    }

    async fn unresolved(&self) -> Result<Unresolved, LedgerError> {
        let latest = &self.inner.metrics.unresolved;
        let now = self.inner.clock.uptime();
        if let Some((at, unresolved)) = latest.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && now.saturating_sub(*at) < UNRESOLVED_COUNTED_EVERY
        {
            return Ok(unresolved.clone());
        }
        let counted = self.inner.store.unresolved().await?;
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, counted.clone()));
        Ok(counted)
    }
}

fn sample(id: Id, values: &[Value], reading: Reading) -> Sample {
    let labels = values.iter().take(id.metric().labels.len()).map(|value| value.as_str().to_owned()).collect();
    Sample { id, labels, reading }
}

/// Tools that are not known by name are one, so their counts are added and the oldest of them counts.
fn gauges(unresolved: &Unresolved, metrics: &Metrics, now: Timestamp, samples: &mut Vec<Sample>) {
    let mut by_series: BTreeMap<(String, String), (u64, Timestamp)> = BTreeMap::new();
    for UnknownCount { tool, cause, count, oldest, .. } in &unresolved.unknown {
        let series = (metrics.tool(tool).as_str().to_owned(), cause.clone());
        let (sum, since) = by_series.entry(series).or_insert((0, *oldest));
        *sum += count;
        *since = (*since).min(*oldest);
    }
    let age = |since: Timestamp| Reading::Seconds(now.since(since).as_secs_f64());
    for ((tool, cause), (count, since)) in &by_series {
        let labels = vec![tool.clone(), cause.clone()];
        samples.push(Sample { id: Id::Unknown, labels: labels.clone(), reading: Reading::Count(*count) });
        samples.push(Sample { id: Id::UnknownAge, labels, reading: age(*since) });
    }
    let oldest = by_series.values().map(|(_, since)| *since).min();
    samples.push(sample(Id::OldestUnknown, &[], oldest.map_or(Reading::Seconds(0.0), age)));
    let unknown = unresolved.unknown.iter().map(|row| row.for_a_person).sum();
    for (reason, count) in
        [("unknown", unknown), ("proposed", unresolved.proposed), ("disagreement", unresolved.in_disagreement)]
    {
        samples.push(sample(Id::NeedsPerson, &[Value::Word(reason)], Reading::Count(count)));
    }
}
