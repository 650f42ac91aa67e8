//! `onceward sandbox`: a real destination that misbehaves on request.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use onceward_lab::sandbox::{Faults, SandboxConfig, SandboxContract, serve};

use crate::exit::{Exit, Failure};

/// A destination that loses replies, answers late, forgets keys: on request, and counts truthfully what it did
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where it listens: a loopback address; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:7080")]
    listen: SocketAddr,
    /// Its file, made if there is none
    #[arg(long, default_value = "sandbox.db", value_name = "PATH")]
    db: PathBuf,
    /// What a repeated key is worth, as `field=value` pairs with `;` between them; docs/sandbox.md lists them
    #[arg(long, default_value = "", value_name = "FIELDS", value_parser = contract)]
    contract: SandboxContract,
}

fn contract(text: &str) -> Result<SandboxContract, String> {
    SandboxContract::default().with_header(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let config = SandboxConfig {
        listen: arguments.listen,
        database: arguments.db,
        contract: arguments.contract,
        faults: Faults::none(),
    };
    serve(config, |address| say!("The sandbox listens on http://{address}"))
        .await
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    Ok(Exit::Done)
}
