//! `onceward approve`: allow, or decline, an operation that waits for a person.

use clap::Args;
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::operations;

/// Allow exactly the request that is stored; the caller's next repetition is then sent. Needs an operator's token
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The operation id
    id: String,
    /// Decline it instead: it will not be done
    #[arg(long)]
    decline: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let decision = if arguments.decline { "decline" } else { "approve" };
    let path = format!("/v1/operations/{}/approval", segment(&arguments.id));
    let shown = arguments.connection.open()?.post(&path, &json!({ "decision": decision })).await?.succeeded()?;
    operations::print_shown(&shown, arguments.json);
    Ok(Exit::Done)
}
