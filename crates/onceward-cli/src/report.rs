//! `onceward report`: what observe mode saw, and what enforcing would have changed.

use clap::Args;
use onceward_core::contract::Span;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::{Clock as _, SystemClock};
use serde_json::Value;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};

/// What observe mode saw: calls that would have been held, replayed or refused
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// How far back: a time span such as 24h or 7d, or a time such as 2026-11-29T00:00:00Z
    #[arg(long, value_name = "SPAN|TIME", default_value = "7d")]
    since: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let since = since(&arguments.since, SystemClock.now()).ok_or_else(|| {
        Failure::new(Exit::Usage, "--since is a time span such as 24h or 7d, or a time such as 2026-11-29T00:00:00Z")
    })?;
    let path = format!("/v1/report?since={}", segment(&since.to_string()));
    let report = arguments.connection.open()?.get(&path).await?.succeeded()?;
    if arguments.json {
        say!("{report:#}");
    } else {
        print(&report);
    }
    Ok(Exit::Done)
}

fn since(text: &str, now: Timestamp) -> Option<Timestamp> {
    match text.parse::<Span>() {
        Ok(span) => Some(now.minus(span.duration())),
        Err(_) => Timestamp::parse(text),
    }
}

fn print(report: &Value) {
    let (calls, clean) = (number(&report["calls"]), number(&report["clean"]));
    say!("Since {}: {calls} calls observed, all of them sent.", text(&report["since"]));
    say!("{clean} would have been sent as they were; {} would not:", calls - clean);
    for group in list(&report["blocked"]) {
        let tools: Vec<String> = members(&group["tools"]).map(|(tool, calls)| format!("{tool} {calls}")).collect();
        say!("\n  {} {} ({}): {}", group["calls"], text(&group["blocked_as"]), text(&group["would"]), tools.join(", "));
        for (currency, sum) in members(&group["amounts"]) {
            say!("    about {} {currency} in all", text(sum));
        }
        for example in list(&group["examples"]) {
            let of = |name: &str, before: &str| match example[name].as_str() {
                Some(value) => format!("{before}{value}"),
                None => String::new(),
            };
            say!(
                "    {}: {} {} by {}{}{}{}",
                text(&example["operation_id"]),
                text(&example["at"]),
                text(&example["tool"]),
                text(&example["principal"]),
                of("title", ": "),
                of("amount", ", "),
                of("met", "; like ")
            );
        }
    }
    if report["complete"] == false {
        say!("\nThere were more operations than one report reads; ask for a shorter time with --since.");
    }
    let observed: Vec<&str> = list(&report["observed_tools"]).iter().filter_map(Value::as_str).collect();
    match observed.as_slice() {
        [] => say!("\nNo tool is observed now: the rules bind all calls."),
        tools => say!(
            "\nObserved now: {}. To enforce, take out the line `observe = true` and start again.",
            tools.join(", ")
        ),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_begins_at_a_span_before_now_or_at_a_time() {
        let now = Timestamp::from_micros(1_000_000_000_000_000);
        assert_eq!(since("24h", now), Some(now.minus(std::time::Duration::from_secs(86_400))));
        assert_eq!(since("2026-11-29T00:00:00Z", now), Timestamp::parse("2026-11-29T00:00:00Z"));
        assert_eq!(since("yesterday", now), None);
    }
}
