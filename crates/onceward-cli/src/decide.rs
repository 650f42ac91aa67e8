//! `onceward decide`: a person's decision on an operation that nobody else can settle.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::{json_input, operations};

/// Settle an unknown operation by what you found out. Needs an operator's token; the evidence is kept in the journal
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The operation id
    id: String,
    /// What you found out
    #[arg(long, value_enum)]
    choice: Choice,
    /// What it rests on: what was looked at, where, and what was found
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    /// With confirmed_done: the destination's name of the effect, such as T-1001
    #[arg(long, value_name = "ID")]
    effect_id: Option<String>,
    /// With confirmed_done: what repetitions of the call are given, as JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    receipt: Option<String>,
    /// With superseded_by: the operation that replaces it
    #[arg(long, value_name = "ID")]
    superseded_by: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What a person found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Choice {
    /// It was done: repetitions get the receipt given here, nothing is sent again
    ConfirmedDone,
    /// It was not done and stays so: repetitions are told, nothing is sent again
    ConfirmedNotDone,
    /// It was not done, and the next call is sent. If it had been done after all, this makes a second effect
    DispatchAgain,
    /// Another operation replaces it; whether it was done is not established
    SupersededBy,
}

impl Choice {
    const fn name(self) -> &'static str {
        match self {
            Self::ConfirmedDone => "confirmed_done",
            Self::ConfirmedNotDone => "confirmed_not_done",
            Self::DispatchAgain => "dispatch_again",
            Self::SupersededBy => "superseded_by",
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut body = json!({ "choice": arguments.choice.name(), "evidence": arguments.evidence });
    if let Some(effect_id) = &arguments.effect_id {
        body["effect_id"] = effect_id.as_str().into();
    }
    if let Some(receipt) = &arguments.receipt {
        body["receipt"] = json!({ "body": json_input::read(receipt)?.value() });
    }
    if let Some(id) = &arguments.superseded_by {
        body["superseded_by"] = id.as_str().into();
    }
    let path = format!("/v1/operations/{}/decisions", segment(&arguments.id));
    let shown = arguments.connection.open()?.post(&path, &body).await?.succeeded()?;
    operations::print_shown(&shown, arguments.json);
    Ok(Exit::Done)
}
