//! How an operation is told on a terminal, and which exit code its outcome is.

use std::fmt;
use std::io::Write as _;

use serde_json::Value;

use crate::exit::Exit;

/// Prints a line of results.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::print_line(format_args!($($words)*)) };
}

/// Prints a line. Nobody may be reading any more (`onceward serve | head -1`), and that ends no gateway.
pub(crate) fn print_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// The exit code of an outcome.
pub(crate) fn exit_of(outcome: &str) -> Exit {
    match outcome {
        "executed" | "replayed" | "recovered" => Exit::Done,
        "in_progress" | "unknown" | "approval_required" | "possible_duplicate" => Exit::Unresolved,
        "rejected" | "closed" | "conflict" | "expired" => Exit::Refused,
        "not_dispatched" => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// An envelope with its receipt, in lines.
pub(crate) fn told(envelope: &Value, receipt: &Value) -> String {
    let text = |field: &str| envelope[field].as_str().unwrap_or_default();
    let mut lines = vec![format!("outcome    {}", text("outcome"))];
    if let Some(id) = envelope["operation_id"].as_str() {
        lines.push(format!("operation  {id}"));
    }
    lines.push(format!(
        "state      {}, attempts {}, dispatched {}",
        text("state"),
        envelope["attempts"],
        text("dispatched")
    ));
    if let Some(would) = envelope["observed"]["would"].as_str() {
        let met = envelope["observed"]["met"].as_str().map(|met| format!(", because of {met}")).unwrap_or_default();
        lines.push(format!("observed   the gateway only observes: enforced, it would have been {would}{met}"));
    }
    if let Some(disagreement) = envelope["disagreement"].as_str() {
        lines.push(format!("evidence   contradicts what is recorded: {disagreement}"));
    }
    for difference in envelope["differences"].as_array().into_iter().flatten() {
        let at = difference["at"].as_str().or_else(|| difference["inside"].as_str()).unwrap_or_default();
        lines.push(format!("differs    {at} ({})", difference["kind"].as_str().unwrap_or_default()));
    }
    if !matches!(text("next_action"), "" | "none") {
        let by = envelope["settles_by"].as_str().map(|by| format!(", settles by {by}")).unwrap_or_default();
        let after = envelope["check_after"].as_str().map(|at| format!(", next check at {at}")).unwrap_or_default();
        lines.push(format!("next       {}{by}{after}", text("next_action")));
    }
    if !receipt.is_null() {
        let body =
            ["body", "body_text", "body_base64"].iter().map(|field| &receipt[*field]).find(|body| !body.is_null());
        lines.push(format!("receipt    {} {}", receipt["status"], body.unwrap_or(&Value::Null)));
    }
    lines.push(format!("\n{}", text("message")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use onceward_core::outcome::Outcome;

    use super::*;

    #[test]
    fn every_outcome_has_an_exit_code_and_only_a_success_is_zero() {
        for outcome in Outcome::ALL {
            let exit = exit_of(outcome.name());
            assert_ne!(exit, Exit::Failed, "{}", outcome.name());
            assert_eq!(exit == Exit::Done, outcome.is_success(), "{}", outcome.name());
        }
    }

    #[test]
    fn a_conflict_names_its_fields() {
        let envelope = serde_json::json!({
            "outcome": "conflict", "state": "succeeded", "attempts": 1, "dispatched": "no", "next_action": "correct_input",
            "message": "m", "differences": [{ "at": "/title", "kind": "changed" }],
        });
        assert!(told(&envelope, &Value::Null).contains("differs    /title (changed)"));
    }
}
