//! `onceward operations list`: a page of operations, or everything that waits for somebody.

use clap::Args;
use onceward_lab::table::Table;
use serde_json::Value;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::limits::{ROWS, TITLE_CHARS};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only in these states, by commas: proposed, approved, pending, unknown, succeeded, rejected, closed
    #[arg(long, value_name = "STATES")]
    state: Option<String>,
    /// Only of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only where evidence contradicts what is recorded
    #[arg(long)]
    disagreement: bool,
    /// What is not settled or is contradicted: what needs a person first, then what cannot wait longest, then the oldest
    #[arg(long, conflicts_with_all = ["state", "disagreement", "cursor"])]
    unresolved: bool,
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

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut path = format!("/v1/operations?limit={}", arguments.limit);
    for (name, value) in [("state", &arguments.state), ("tool", &arguments.tool), ("cursor", &arguments.cursor)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", segment(value)));
        }
    }
    for (name, wanted) in [("disagreement", arguments.disagreement), ("unresolved", arguments.unresolved)] {
        if wanted {
            path.push_str(&format!("&{name}=true"));
        }
    }
    let page = arguments.connection.open()?.get(&path).await?.succeeded()?;
    match (arguments.json, arguments.unresolved) {
        (true, _) => say!("{page:#}"),
        (false, true) => print_inbox(&page),
        (false, false) => print_page(&page),
    }
    Ok(Exit::Done)
}

fn print_page(page: &Value) {
    let mut table = Table::new(&["operation", "tool", "state", "attempts", "created", "title"]);
    for row in rows(page) {
        table.row(&[
            text(row, "operation_id"),
            text(row, "tool"),
            &state(row),
            &row["attempts"].to_string(),
            text(row, "created_at"),
            &title(row),
        ]);
    }
    print_table(&table);
    if let Some(cursor) = page["next_cursor"].as_str() {
        say!("\nThere are more: --cursor {cursor}");
    }
}

fn print_inbox(page: &Value) {
    let mut table = Table::new(&["operation", "tool", "state", "waits for", "cannot wait past", "created", "title"]);
    for row in rows(page) {
        let waits_for = match row["next_check"].as_str() {
            Some(at) if row["waits_for"] == "check" => format!("check at {at}"),
            Some(_) | None => text(row, "waits_for").to_owned(),
        };
        table.row(&[
            text(row, "operation_id"),
            text(row, "tool"),
            &state(row),
            &waits_for,
            text(row, "irreversible_at"),
            text(row, "created_at"),
            &title(row),
        ]);
    }
    print_table(&table);
    say!("\n{} need a person, {} are to settle by themselves.", page["need_a_person"], page["by_themselves"]);
    match page["more"].as_str() {
        Some("not_asked_for") => say!("There are more than are shown: --limit"),
        Some("not_looked_at") => {
            say!("There are more unresolved operations than one look takes; these are the newest. --tool shows fewer.");
        }
        Some(_) | None => {}
    }
}

fn print_table(table: &Table) {
    match table.is_empty() {
        true => say!("There are none."),
        false => say!("{table}"),
    }
}

fn rows(page: &Value) -> impl Iterator<Item = &Value> {
    page["operations"].as_array().into_iter().flatten()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn title(row: &Value) -> String {
    text(row, "title").chars().take(TITLE_CHARS).collect()
}

/// The state, marked where evidence contradicts it and nobody has seen that yet.
fn state(row: &Value) -> String {
    match super::is_contradicted(row) {
        false => text(row, "state").to_owned(),
        true => format!("{} (!)", text(row, "state")),
    }
}
