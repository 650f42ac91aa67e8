//! Load: a number of callers, each one call after the other, for a fixed time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency that is told apart: a minute.
pub(crate) const LONGEST_US: u64 = 60_000_000;

/// What a run measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    /// Calls a second.
    pub(crate) per_second: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
}

/// Runs `callers` callers for `time`; `call` gets the caller's number and the call's number and is expected to succeed.
///
/// # Errors
/// The first error of any call: a measurement with failures is none.
pub(crate) async fn run<F, C>(callers: usize, time: Duration, call: C) -> Result<Measured>
where
    C: Fn(usize, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let call = Arc::new(call);
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let call = Arc::clone(&call);
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut latencies = Histogram::<u64>::new_with_max(LONGEST_US, 3)?;
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    call(caller, number).await?;
                    latencies.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
                    number += 1;
                    // A call that never waits must not keep the runtime from its timers.
                    tokio::task::yield_now().await;
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Histogram::<u64>::new_with_max(LONGEST_US, 3)?;
    for task in tasks {
        all.add(task.await??)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Measured {
        per_second: all.len() as f64 / seconds,
        p50_ms: all.value_at_quantile(0.50) as f64 / 1000.0,
        p99_ms: all.value_at_quantile(0.99) as f64 / 1000.0,
    })
}

/// The median of several rounds, by throughput.
#[must_use]
pub(crate) fn median(mut rounds: Vec<Measured>) -> Measured {
    rounds.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    rounds[rounds.len() / 2]
}
