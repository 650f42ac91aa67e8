//! `onceward operations`: what became of calls. Nothing here writes.

mod list;
mod timeline;
mod watch;

use clap::{Args, Subcommand};
use onceward_lab::table::Table;
use serde_json::Value;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::output;

/// See what became of calls: list them, show one, read its journal or its receipt
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Operations, newest first; with --unresolved what waits for somebody, the most urgent first
    List(list::Arguments),
    /// One operation: how it stands, what is known of it and from whom, and what a repetition of its call is told
    Show(One),
    /// One operation, told again whenever something happens to it, until it is settled
    Watch(watch::Arguments),
    /// What happened to one operation, in order
    Journal(One),
    /// The receipt of one operation
    Receipt(One),
}

#[derive(Args, Debug)]
struct One {
    /// The operation id
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::List(arguments) => list::run(arguments).await,
        Command::Show(arguments) => show(arguments).await,
        Command::Watch(arguments) => watch::run(arguments).await,
        Command::Journal(arguments) => journal(arguments).await,
        Command::Receipt(arguments) => receipt(arguments).await,
    }
}

async fn show(arguments: One) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}", segment(&arguments.id));
    let gateway = arguments.connection.open()?;
    let mut shown = gateway.get(&path).await?.succeeded()?;
    let known = gateway.get(&format!("{path}/timeline")).await?.succeeded()?;
    if arguments.json {
        shown["timeline"] = known;
        say!("{shown:#}");
        return Ok(exit_of_shown(&shown));
    }
    print_shown(&shown, false);
    say!("\n{}", timeline::lines(&known));
    Ok(exit_of_shown(&shown))
}

/// An operation as it is shown after a look or a move.
pub(crate) fn print_shown(shown: &Value, json: bool) {
    if json {
        say!("{shown:#}");
        return;
    }
    if shown["status"].is_null() {
        // Whoever may move an operation but not see it is told only its state.
        say!("{} is {}", shown["operation_id"].as_str().unwrap_or("it"), shown["state"].as_str().unwrap_or("moved"));
        return;
    }
    let operation = &shown["operation"];
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    say!(
        "tool       {} {}, called by {} at {}",
        text("tool"),
        text("tool_version"),
        text("principal"),
        text("created_at")
    );
    say!("title      {}", text("title"));
    if !operation["arguments"].is_null() {
        say!("arguments  {}", operation["arguments"]);
    }
    for attempt in operation["uncertain_attempts"].as_array().into_iter().flatten() {
        say!(
            "attempt {}  sent at {}, result not known ({})",
            attempt["attempt"],
            attempt["claimed_at"].as_str().unwrap_or_default(),
            attempt["cause"].as_str().unwrap_or_default()
        );
    }
    say!("{}", output::told(&shown["status"], &shown["receipt"]));
    if shown["status"]["outcome"] == "unknown" || is_contradicted(operation) {
        let id = operation["operation_id"].as_str().unwrap_or_default();
        say!("\nWhoever has an operator's token sees what can be decided, and what follows: onceward decide {id}");
    }
}

/// Whether evidence contradicts what is recorded, and nobody has seen it yet.
fn is_contradicted(operation: &Value) -> bool {
    let disagreement = &operation["disagreement"];
    disagreement.is_object() && disagreement["acknowledged_at"].is_null()
}

/// A question that was answered is done, also by "rejected"; what is not settled yet has a code of its own.
pub(crate) fn exit_of_shown(shown: &Value) -> Exit {
    match output::exit_of(shown["status"]["outcome"].as_str().unwrap_or_default()) {
        Exit::Unresolved => Exit::Unresolved,
        Exit::Done | Exit::Failed | Exit::Usage | Exit::Refused | Exit::Unreachable => Exit::Done,
    }
}

async fn journal(arguments: One) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}/journal?limit=200", segment(&arguments.id));
    let page = arguments.connection.open()?.get(&path).await?.succeeded()?;
    if arguments.json {
        say!("{page:#}");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["seq", "at", "event", "actor", "what"]);
    for entry in page["entries"].as_array().into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        table.row(&[&entry["seq"].to_string(), text("at"), text("event"), text("actor"), &what(&entry["detail"])]);
    }
    say!("{table}");
    Ok(Exit::Done)
}

/// The part of a journal entry's detail that a person looks for: which attempt, what was learned, and the words with it.
fn what(detail: &Value) -> String {
    if detail.is_null() {
        return "(erased)".to_owned();
    }
    let attempt = [&detail["claim"]["attempt"], &detail["about"]["attempt"]].into_iter().find(|value| value.is_u64());
    let words = [
        detail["state"].as_str().map(ToOwned::to_owned),
        attempt.map(|number| format!("attempt {number}")),
        word(&detail["verdict"]),
        detail["note"].as_str().map(ToOwned::to_owned),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// A variant as the journal writes it: a word, or a word with what belongs to it.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Object(members) => members.iter().next().map(|(name, inner)| match inner {
            Value::String(inner) => format!("{name} ({inner})"),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => name.clone(),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

async fn receipt(arguments: One) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}/receipt", segment(&arguments.id));
    let reply = arguments.connection.open()?.get(&path).await?;
    let Some(outcome) = reply.body["outcome"].as_str() else { return Err(reply.failure()) };
    if arguments.json {
        say!("{:#}", reply.body);
    } else if reply.body["receipt"].is_null() {
        say!("{}", output::told(&reply.body, &Value::Null));
    } else {
        say!("{:#}", reply.body["receipt"]);
    }
    Ok(output::exit_of(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_entry_is_told_by_attempt_verdict_and_words() {
        let lost =
            serde_json::json!({ "about": { "attempt": 1 }, "verdict": { "lost": "reply_lost" }, "note": "row 5" });
        assert_eq!(what(&lost), "attempt 1: lost (reply_lost): row 5");
        let decided =
            serde_json::json!({ "about": "every_uncertain", "verdict": { "effect": {} }, "note": "it is there" });
        assert_eq!(what(&decided), "effect: it is there");
        assert_eq!(what(&Value::Null), "(erased)");
    }
}
