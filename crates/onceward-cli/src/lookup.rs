//! `onceward lookup`: ask the destination now what became of an operation.

use clap::Args;
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::operations;

/// Ask the destination now what became of an unknown operation. Writes nothing there. Needs an operator's token
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
    let path = format!("/v1/operations/{}/lookups", segment(&arguments.id));
    let looked = arguments.connection.open()?.post(&path, &json!({})).await?.succeeded()?;
    if !arguments.json {
        let said = looked["lookup"]["said"].as_str().unwrap_or_default();
        say!("lookup     {said}: {}", meaning(said));
    }
    operations::print_shown(&looked, arguments.json);
    Ok(operations::exit_of_shown(&looked))
}

/// What a lookup came to, in a sentence.
fn meaning(said: &str) -> &'static str {
    match said {
        "found" => "its effect is there, and settles it",
        "refused" => "the accepted work was refused in the end: nothing happened",
        "other_effect" => "an effect is there that should not be; a person must look",
        "candidates" => "there are things that may be it; a person decides",
        "proved_absent" => "it is proved that nothing happened; it may be sent again",
        "absent_so_far" => "it is not there, which counts; more such answers are needed",
        "says_nothing" => "it was not found, and nothing follows from that",
        "no_answer" => "no answer came that can be read",
        "no_way" => "there is nothing to ask; a person settles it",
        _ => "see the journal",
    }
}
