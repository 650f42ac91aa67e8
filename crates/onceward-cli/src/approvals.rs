//! `onceward approvals`: what waits for a person before it is sent, and asking for a deliberate second one.

use clap::{Args, Subcommand};
use onceward_lab::table::Table;
use serde_json::{Value, json};

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::limits::{ROWS, TITLE_CHARS};
use crate::operations;

/// What waits for a person before it is sent: list it, look at it, approve it, decline it, or ask for a second one
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Ask that what was done be done once more: an equal call without identity was held, and was meant
    Request(One),
    /// What waits for approval, newest first
    List(List),
    /// One of them: what would be sent, for whom, and why it waits
    Show(One),
    /// Allow exactly the request that is stored. Needs an operator's token
    Approve(Move),
    /// Decline it: it will not be done. Needs an operator's token
    Decline(Move),
}

#[derive(Args, Debug)]
struct List {
    /// How many at most
    #[arg(long, default_value_t = ROWS, value_name = "ROWS")]
    limit: u32,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
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

#[derive(Args, Debug)]
struct Move {
    /// The operation id
    id: String,
    /// Only if it is still at this version, which `approvals show` names
    #[arg(long, value_name = "VERSION")]
    expected: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Request(arguments) => request(arguments).await,
        Command::List(arguments) => list(arguments).await,
        Command::Show(arguments) => show(arguments).await,
        Command::Approve(arguments) => decide(arguments, "approve").await,
        Command::Decline(arguments) => decide(arguments, "decline").await,
    }
}

async fn request(arguments: One) -> Result<Exit, Failure> {
    let asked = json!({ "operation_id": arguments.id });
    let shown = arguments.connection.open()?.post("/v1/approvals", &asked).await?.succeeded()?;
    print(&shown, arguments.json);
    Ok(Exit::Done)
}

async fn list(arguments: List) -> Result<Exit, Failure> {
    let mut path = format!("/v1/operations?state=proposed&limit={}", arguments.limit);
    if let Some(cursor) = &arguments.cursor {
        path.push_str(&format!("&cursor={}", segment(cursor)));
    }
    let page = arguments.connection.open()?.get(&path).await?.succeeded()?;
    if arguments.json {
        say!("{page:#}");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["operation", "version", "tool", "for", "since", "why", "title"]);
    for row in page["operations"].as_array().into_iter().flatten() {
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        let title: String = text("title").chars().take(TITLE_CHARS).collect();
        table.row(&[
            text("operation_id"),
            &row["version"].to_string(),
            text("tool"),
            text("principal"),
            text("created_at"),
            &why(row),
            &title,
        ]);
    }
    match table.is_empty() {
        true => say!("Nothing waits for approval."),
        false => say!("{table}"),
    }
    if let Some(cursor) = page["next_cursor"].as_str() {
        say!("\nThere are more: --cursor {cursor}");
    }
    Ok(Exit::Done)
}

async fn show(arguments: One) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}", segment(&arguments.id));
    let shown = arguments.connection.open()?.get(&path).await?.succeeded()?;
    print(&shown, arguments.json);
    Ok(Exit::Done)
}

async fn decide(arguments: Move, decision: &str) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}/approval", segment(&arguments.id));
    let mut body = json!({ "decision": decision });
    if let Some(expected) = arguments.expected {
        body["expected"] = expected.into();
    }
    let shown = arguments.connection.open()?.post(&path, &body).await?.succeeded()?;
    print(&shown, arguments.json);
    Ok(Exit::Done)
}

fn print(shown: &Value, json: bool) {
    let operation = &shown["operation"];
    if !json && !operation["version"].is_null() {
        say!("waits      {}", why(operation));
        say!("version    {}", operation["version"]);
    }
    operations::print_shown(shown, json);
}

/// Why it waits, or that it does not any more.
fn why(operation: &Value) -> String {
    match (operation["proposal"]["reason"].as_str(), operation["second_of"].as_str()) {
        (Some("possible_duplicate"), Some(first)) => format!("a second one of {first}"),
        (Some("tool_policy"), _) => "its tool asks for approval".to_owned(),
        (Some(reason), _) => reason.to_owned(),
        (None, _) => "not any more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_in_words() {
        let of = |reason: &str, second: Value| why(&json!({ "proposal": { "reason": reason }, "second_of": second }));
        assert_eq!(of("possible_duplicate", "op-1".into()), "a second one of op-1");
        assert_eq!(of("tool_policy", Value::Null), "its tool asks for approval");
        assert_eq!(why(&json!({ "proposal": null })), "not any more");
    }
}
