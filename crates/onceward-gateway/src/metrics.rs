//! `/metrics`: what the engine counts and measures, in the Prometheus text format. docs/metrics.md says what there is.
//!
//! The numbers are those of all tenants and tools, so a credential must be one that may see every tool: a label must not say that a
//! tool exists to somebody who may not know it.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use onceward_core::code::Code;
use onceward_ledger::authorize::Scope;
use onceward_ledger::metrics::histogram::Distribution;
use onceward_ledger::metrics::table::Kind;
use onceward_ledger::metrics::{Reading, Sample};
use serde::Deserialize;

use crate::app::App;
use crate::problem::Problem;

/// Who may read the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// A credential that may read every tool.
    #[default]
    Credential,
    /// Everybody who reaches the address.
    Open,
    /// Nobody: there is no such address.
    Off,
}

/// The version of the format that is written.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers a scrape.
pub(crate) async fn scrape(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    match app.metrics_access() {
        Access::Open => {}
        Access::Off => return Err(Problem::plain(Code::NotFound)),
        Access::Credential => {
            let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let grant = app.authenticate(header).await?;
            let all = grant.tools().iter().any(|pattern| pattern.as_str() == "*");
            if !(all && grant.has(Scope::Read)) {
                return Err(Problem::new(
                    Code::Denied,
                    "metrics are those of all tools: they ask for the scope read over `*`",
                ));
            }
        }
    }
    app.name_tools();
    let samples = app.ledger().measured().await?;
    Ok(([(CONTENT_TYPE, FORMAT), (CACHE_CONTROL, "no-store")], render(&samples)).into_response())
}

/// The samples as text; they come in the order of the table.
fn render(samples: &[Sample]) -> String {
    let mut text = String::with_capacity(128 * samples.len());
    let mut last = None;
    for Sample { id, labels, reading } in samples {
        let metric = id.metric();
        if last != Some(*id) {
            let _ =
                writeln!(text, "# HELP {} {}\n# TYPE {} {}", metric.name, metric.help, metric.name, metric.kind.name());
            last = Some(*id);
        }
        let named: Vec<String> = metric
            .labels
            .iter()
            .zip(labels)
            .map(|(label, value)| format!("{}=\"{}\"", label.name, escaped(value)))
            .collect();
        match reading {
            Reading::Count(count) => line(&mut text, metric.name, &named, &count.to_string()),
            Reading::Seconds(seconds) => line(&mut text, metric.name, &named, &seconds.to_string()),
            Reading::Spread(spread) => histogram(&mut text, metric.name, metric.kind, &named, spread),
        }
    }
    text
}

fn histogram(text: &mut String, name: &str, kind: Kind, labels: &[String], spread: &Distribution) {
    // Times are counted in whole microseconds, so that no sum drifts, and shown in seconds as the format wants them.
    let shown = |value: u64| match kind {
        Kind::Times => (value as f64 / 1e6).to_string(),
        Kind::Counts | Kind::Counter | Kind::Gauge => value.to_string(),
    };
    let bucket = format!("{name}_bucket");
    let mut so_far = 0;
    for (at, count) in spread.counts.iter().enumerate() {
        so_far += count;
        let end = spread.bounds.get(at).map_or_else(|| "+Inf".to_owned(), |bound| shown(*bound));
        let labels: Vec<String> = labels.iter().cloned().chain([format!("le=\"{end}\"")]).collect();
        line(text, &bucket, &labels, &so_far.to_string());
    }
    line(text, &format!("{name}_sum"), labels, &shown(spread.sum));
    line(text, &format!("{name}_count"), labels, &so_far.to_string());
}

fn line(text: &mut String, name: &str, labels: &[String], value: &str) {
    let _ = if labels.is_empty() {
        writeln!(text, "{name} {value}")
    } else {
        writeln!(text, "{name}{{{}}} {value}", labels.join(","))
    };
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use onceward_ledger::metrics::histogram::Histogram;
    use onceward_ledger::metrics::table::{Id, METRICS};

    use super::*;

    #[test]
    fn a_histogram_is_cumulative_ends_in_infinity_and_shows_seconds() {
        const BOUNDS: &[u64] = &[1_000, 10_000];
        let spread = Histogram::new(BOUNDS);
        for value in [500, 1_000, 2_000, 3_000_000] {
            spread.count(value);
        }
        let sample = Sample { id: Id::Commit, labels: Vec::new(), reading: Reading::Spread(spread.read()) };
        let text = render(&[sample]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "onceward_ledger_commit_seconds_bucket{le=\"0.001\"} 2",
                "onceward_ledger_commit_seconds_bucket{le=\"0.01\"} 3",
                "onceward_ledger_commit_seconds_bucket{le=\"+Inf\"} 4",
                "onceward_ledger_commit_seconds_sum 3.0035",
                "onceward_ledger_commit_seconds_count 4",
            ]
        );
    }

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        assert_eq!(escaped("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
    }

    #[test]
    fn every_metric_has_a_help_that_needs_no_escaping() {
        assert!(METRICS.iter().all(|metric| !metric.help.contains(['\\', '\n'])));
    }
}
