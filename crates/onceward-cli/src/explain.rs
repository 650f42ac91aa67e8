//! `onceward explain`: what makes two calls the same, shown for one call. Sends nothing to any destination.

use clap::Args;
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys, fingerprint_bytes};
use onceward_core::pointer::Pointer;
use serde_json::{Value, json};

use crate::client::{Connection, Reply, segment};
use crate::exit::{Exit, Failure};
use crate::json_input;

/// Show the canonical form and the fingerprint of a call, and with --operation-id what it would meet at a gateway. Sends nothing
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The tool
    #[arg(long)]
    tool: String,
    /// The tool's version, as the configuration gives it
    #[arg(long, default_value = "1")]
    version: String,
    /// The arguments: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    arguments: String,
    /// A field that is not compared, as a JSON Pointer; may be given more than once
    #[arg(long, value_name = "POINTER")]
    free_text: Vec<String>,
    /// Ask the gateway what a call with this operation id would meet
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let canonical = json_input::read(&arguments.arguments)?;
    let free_text = arguments
        .free_text
        .iter()
        .map(|text| Pointer::parse(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(Exit::Usage, format!("--free-text: {error}")))?;
    let comparison = Comparison::new(free_text, Vec::new())
        .map_err(|error| Failure::new(Exit::Usage, format!("--free-text: {error}")))?;
    let fingerprint = FingerprintKeys::unkeyed()
        .fingerprint(FingerprintKeyId::UNKEYED, &arguments.tool, &arguments.version, &canonical, &comparison)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?
        .to_string();
    let meets = match &arguments.operation_id {
        Some(id) => {
            let path = format!("/v1/operations/{}", segment(id));
            Some(meets(&arguments.connection.open()?.get(&path).await?, &arguments.tool, &fingerprint)?)
        }
        None => None,
    };
    if arguments.json {
        say!(
            "{:#}",
            json!({
                "canonical": canonical.text(),
                "compared": comparison.compared_text(&canonical),
                "fingerprint": fingerprint,
                "hashed_bytes": fingerprint_bytes(&arguments.tool, &arguments.version, &canonical, &comparison).len(),
                "meets": meets,
            })
        );
        return Ok(Exit::Done);
    }
    say!("canonical    {}", canonical.text());
    if !arguments.free_text.is_empty() {
        say!("compared     {}", comparison.compared_text(&canonical));
    }
    say!("fingerprint  {fingerprint}");
    if let Some(meets) = meets {
        say!("meets        {meets}");
    }
    Ok(Exit::Done)
}

/// What a call with this fingerprint would meet, by what the gateway shows of the operation.
fn meets(reply: &Reply, tool: &str, fingerprint: &str) -> Result<String, Failure> {
    if reply.status == 404 {
        return Ok("no operation that this token may see: the call would be a new one".to_owned());
    }
    if reply.status != 200 {
        return Err(reply.failure());
    }
    let operation = &reply.body["operation"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = text(&operation["state"]);
    if text(&operation["tool"]) != tool {
        return Ok(format!("a conflict: the id belongs to a call of {}", text(&operation["tool"])));
    }
    if text(&operation["fingerprint"]) != fingerprint {
        return Ok(format!("a conflict: the id belongs to other arguments, or to another version (it is {state})"));
    }
    Ok(format!(
        "a repetition of an operation that is {state}: it would be told {}",
        text(&reply.body["status"]["outcome"])
    ))
}
