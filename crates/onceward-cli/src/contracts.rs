//! `onceward contracts`: what is known about destinations.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use onceward_core::contract::{Contract, Recognised, built_in};

use crate::exit::{Exit, Failure};
use onceward_lab::table::Table;

/// What is known about destinations: how they treat a repeated key, and for how long
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Every contract that is built in
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One contract, whole, as TOML to copy from
    Show {
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let contracts = built_in().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    match &arguments.command {
        Command::List { json: true } => {
            say!("{}", serde_json::to_string_pretty(&contracts).context("the contracts cannot be written")?);
        }
        Command::List { json: false } => say!("{}", list(&contracts)),
        Command::Show { name, json } => {
            let Some(contract) = contracts.iter().find(|contract| contract.id == *name) else {
                let known = contracts.iter().map(|contract| contract.id.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Failure::new(Exit::Refused, format!("there is no contract {name:?}"))
                    .next(format!("There are: {known}. Your own are .toml files that the configuration names.")));
            };
            match json {
                true => say!("{}", serde_json::to_string_pretty(contract).context("it cannot be written")?),
                false => {
                    say!("{}", toml::to_string_pretty(contract).context("it cannot be written as TOML")?.trim_end())
                }
            }
        }
    }
    Ok(Exit::Done)
}

fn list(contracts: &[Contract]) -> String {
    let mut table = Table::new(&["contract", "version", "key", "recognised", "read on"]);
    for contract in contracts {
        let key = contract.key.as_ref().and_then(|key| key.carrier()).map_or("none", |carrier| carrier.name.as_str());
        table.row(&[
            &contract.id,
            &contract.version.to_string(),
            key,
            &recognised(contract),
            contract.provenance.read.as_deref().unwrap_or("–"),
        ]);
    }
    table.to_string()
}

/// For how long a repetition is surely recognised.
fn recognised(contract: &Contract) -> String {
    match contract.horizon.recognised() {
        Recognised::For(duration) => format!("for {} h", duration.as_secs() / 3600),
        Recognised::Always => "always".to_owned(),
        Recognised::Never => "never".to_owned(),
    }
}
