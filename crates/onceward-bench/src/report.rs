//! Series, medians, ratios and sizes, and the file they are written to.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::load::{self, Measured};

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
    /// Processor microseconds of the server, or of this process, for each operation.
    pub(crate) processor_us: Option<f64>,
    /// Processor microseconds of the database for each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database_us: Option<f64>,
    /// Resident memory of the server in MiB.
    pub(crate) resident_mib: Option<f64>,
}

/// What operations take up, once they are settled.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stored {
    /// Which part of which store.
    pub(crate) what: &'static str,
    /// Operations that were made.
    pub(crate) operations: u64,
    /// Bytes for each of them.
    pub(crate) bytes_each: f64,
}

/// Everything of one run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Measurements.
    pub(crate) rows: Vec<Row>,
    /// Sizes.
    pub(crate) stored: Vec<Stored>,
}

/// A series of measurements of one thing, one a round.
pub(crate) struct Series {
    pub(crate) what: &'static str,
    /// What it is compared with, each in a row of its own.
    pub(crate) against: &'static [&'static str],
    pub(crate) rounds: Vec<Measured>,
    pub(crate) processor_us: Option<f64>,
    pub(crate) database_us: Option<f64>,
    pub(crate) resident_mib: Option<f64>,
}

impl Series {
    pub(crate) const fn new(what: &'static str, against: &'static [&'static str]) -> Self {
        Self { what, against, rounds: Vec::new(), processor_us: None, database_us: None, resident_mib: None }
    }
}

impl Report {
    /// Adds the medians of series that were measured together.
    pub(crate) fn add(&mut self, series: Vec<Series>, filled: u64, callers: usize) {
        let series: Vec<_> = series.into_iter().filter(|one| !one.rounds.is_empty()).collect();
        let medians: Vec<_> = series.iter().map(|one| (one.what, load::median(one.rounds.clone()))).collect();
        for one in series {
            let measured = load::median(one.rounds);
            let others: Vec<_> = medians.iter().filter(|(what, _)| one.against.contains(what)).collect();
            let row = Row {
                what: one.what,
                filled,
                callers,
                measured,
                against: None,
                ratio: None,
                processor_us: one.processor_us,
                database_us: one.database_us,
                resident_mib: one.resident_mib,
            };
            println!(
                "{:<34} {:>9} in it, {:>3} callers: {:>8.0}/s, p50 {:.3} ms, p99 {:.2} ms",
                row.what, row.filled, row.callers, measured.per_second, measured.p50_ms, measured.p99_ms,
            );
            if others.is_empty() {
                self.rows.push(row);
                continue;
            }
            for (what, other) in others {
                let ratio = measured.per_second / other.per_second;
                println!("{:<34} {ratio:.2} of {what}", "");
                self.rows.push(Row { against: Some(what), ratio: Some(ratio), ..row.clone() });
            }
        }
    }

    /// Adds a size.
    pub(crate) fn size(&mut self, what: &'static str, operations: u64, bytes: f64) {
        if operations > 0 {
            let stored = Stored { what, operations, bytes_each: bytes / operations as f64 };
            println!("{:<34} {:>9} operations: {:.0} bytes each", what, operations, stored.bytes_each);
            self.stored.push(stored);
        }
    }
}

/// Prints the rows as a table and writes them as JSON.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn finish(report: &Report, output: Option<&Path>) -> Result<()> {
    println!(
        "\n| what | in it | callers | per second | p50 ms | p99 ms | against | ratio | processor µs | database µs | MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let rounded = |number: Option<f64>| number.map(|number| format!("{number:.0}")).unwrap_or_default();
    for row in &report.rows {
        println!(
            "| {} | {} | {} | {:.0} | {:.3} | {:.2} | {} | {} | {} | {} | {} |",
            row.what,
            row.filled,
            row.callers,
            row.measured.per_second,
            row.measured.p50_ms,
            row.measured.p99_ms,
            row.against.unwrap_or(""),
            row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            rounded(row.processor_us),
            rounded(row.database_us),
            rounded(row.resident_mib),
        );
    }
    if !report.stored.is_empty() {
        println!("\n| what | operations | bytes each |\n|---|---|---|");
    }
    for stored in &report.stored {
        println!("| {} | {} | {:.0} |", stored.what, stored.operations, stored.bytes_each);
    }
    if let Some(output) = output {
        if let Some(folder) = output.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let whole = serde_json::json!({ "rows": report.rows, "stored": report.stored });
        std::fs::write(output, serde_json::to_string_pretty(&whole)? + "\n")
            .with_context(|| format!("writing {}", output.display()))?;
    }
    Ok(())
}
