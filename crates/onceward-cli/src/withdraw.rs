//! `onceward withdraw`: take back an operation of which nothing was sent.

use clap::Args;
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::operations;

/// Take back an operation of which nothing was sent. Its id stays taken
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The operation id
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}/withdrawal", segment(&arguments.id));
    let shown = arguments.connection.open()?.post(&path, &json!({})).await?.succeeded()?;
    operations::print_shown(&shown, arguments.json);
    Ok(Exit::Done)
}
