//! `onceward call`: one call of a tool, as an agent would make it.

use clap::Args;
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::{json_input, output};

/// Call a tool through the gateway. Repeat the same command and you get the receipt of the first call
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The tool
    tool: String,
    /// The name of this intention: keep it for every repetition, choose another for another intention
    #[arg(long, value_name = "ID")]
    operation_id: String,
    /// The tool's arguments: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { tool, operation_id, arguments, json, connection } = arguments;
    let arguments = json_input::read(&arguments)?;
    let path = format!("/v1/tools/{}/calls", segment(&tool));
    let body = json!({ "arguments": arguments.value() });
    let reply = connection.open()?.post_as(&path, &body, &operation_id).await?;
    let Some(outcome) = reply.body["outcome"].as_str() else {
        // A read has no operation, and a refusal none either.
        let read = reply.succeeded()?;
        say!("{read:#}");
        return Ok(Exit::Done);
    };
    if json {
        say!("{:#}", reply.body);
    } else {
        say!("{}", output::told(&reply.body, &reply.body["receipt"]));
    }
    Ok(output::exit_of(outcome))
}
