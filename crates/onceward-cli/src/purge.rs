//! `onceward purge`: erase what an operation said, and keep its identity.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::operations;

/// Erase what an operation said. Its identity stays taken, so that a repetition is never sent. Needs an operator's token
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The operation id
    id: String,
    /// What goes. Of an operation that is not settled yet it goes as soon as it is
    #[arg(long, value_enum, default_value_t = Scope::Everything)]
    scope: Scope,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What a purge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// The arguments; the receipt can still be replayed
    Arguments,
    /// Arguments and receipt; a repetition is told `expired`
    Everything,
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Everything => "everything",
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let path = format!("/v1/operations/{}/purge", segment(&arguments.id));
    let body = json!({ "scope": arguments.scope.name() });
    let shown = arguments.connection.open()?.post(&path, &body).await?.succeeded()?;
    operations::print_shown(&shown, arguments.json);
    Ok(Exit::Done)
}
