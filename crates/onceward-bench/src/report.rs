//! Rows, ratios and the file they are written to.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::load::Measured;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: &'static str,
    /// Operations in the file before.
    pub(crate) filled: u64,
    /// Callers at once.
    pub(crate) callers: usize,
    /// The median round.
    pub(crate) measured: Measured,
    /// What it is compared with.
    pub(crate) against: Option<&'static str>,
    /// Its throughput divided by the other's.
    pub(crate) ratio: Option<f64>,
    /// Processor microseconds of the server for each operation.
    pub(crate) processor_us: Option<f64>,
    /// Resident memory of the server in MiB.
    pub(crate) resident_mib: Option<f64>,
}

/// Prints the rows as a table and writes them as JSON.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn finish(rows: &[Row], output: Option<&Path>) -> Result<()> {
    println!(
        "\n| what | in the file | callers | per second | p50 ms | p99 ms | against | ratio | processor µs | MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {:.0} | {:.3} | {:.2} | {} | {} | {} | {} |",
            row.what,
            row.filled,
            row.callers,
            row.measured.per_second,
            row.measured.p50_ms,
            row.measured.p99_ms,
            row.against.unwrap_or(""),
            row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            row.processor_us.map(|us| format!("{us:.0}")).unwrap_or_default(),
            row.resident_mib.map(|mib| format!("{mib:.0}")).unwrap_or_default(),
        );
    }
    if let Some(output) = output {
        if let Some(folder) = output.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(output, serde_json::to_string_pretty(rows)? + "\n")
            .with_context(|| format!("writing {}", output.display()))?;
    }
    Ok(())
}
