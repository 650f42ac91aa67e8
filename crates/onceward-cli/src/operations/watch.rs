//! `onceward operations watch`: one operation, told again whenever something happens to it.

use std::time::Duration;

use clap::Args;
use onceward_ledger::clock::{Clock as _, SystemClock};
use serde_json::Value;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::limits::WATCH_EVERY;
use crate::output;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The operation id
    id: String,
    /// How many seconds at most
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}", segment(&arguments.id));
    let gateway = arguments.connection.open()?;
    let began = SystemClock.uptime();
    let mut last = Value::Null;
    loop {
        let shown = gateway.get(&path).await?.succeeded()?;
        let operation = &shown["operation"];
        if operation["version"] != last {
            last = operation["version"].clone();
            match arguments.json {
                true => say!("{shown}"),
                false => say!("{}", line(&shown)),
            }
        }
        let settled = operation["settled_at"].is_string();
        let over = arguments.within.is_some_and(|within| SystemClock.uptime() >= began + Duration::from_secs(within));
        if settled || over {
            if !arguments.json {
                say!("\n{}", output::told(&shown["status"], &shown["receipt"]));
            }
            return Ok(super::exit_of_shown(&shown));
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// How it stands, in a line.
fn line(shown: &Value) -> String {
    let operation = &shown["operation"];
    let next = match (operation["next_check"].as_str(), shown["status"]["settles_by"].as_str()) {
        (Some(at), _) => format!(", next check at {at}"),
        (None, Some("person")) => ", waits for a person".to_owned(),
        (None, _) => String::new(),
    };
    let mark = if super::is_contradicted(operation) { ", contradicted" } else { "" };
    format!(
        "{}  {}, attempts {}{mark}{next}",
        operation["updated_at"].as_str().unwrap_or_default(),
        operation["state"].as_str().unwrap_or_default(),
        operation["attempts"]
    )
}
