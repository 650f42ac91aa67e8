//! `onceward sandbox`: a real destination that misbehaves on request.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use onceward_core::contract::{Contract, built_in};
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
    /// Whose interface it speaks: the id of a contract (`stripe.v1`) or a contract's file; or what a repeated key is worth at
    /// the sandbox's own, as `field=value` pairs with `;` between them. Both: the contract, `;`, pairs. See docs/sandbox.md
    #[arg(long, default_value = "", value_name = "CONTRACT", value_parser = contract)]
    contract: SandboxContract,
}

fn contract(text: &str) -> Result<SandboxContract, String> {
    let (family, fields) = match text.split_once(';') {
        Some((first, rest)) if !first.contains('=') => (first.trim(), rest),
        None if !text.contains('=') => (text.trim(), ""),
        Some(_) | None => ("", text),
    };
    let contract = SandboxContract::default().with_header(fields).map_err(|error| error.to_string())?;
    match family {
        "" => Ok(contract),
        named => Ok(SandboxContract { family: Some(Arc::new(spoken(named)?)), ..contract }),
    }
}

/// A contract by its id, or from its file.
fn spoken(named: &str) -> Result<Contract, String> {
    let known = built_in().map_err(|error| error.to_string())?;
    if let Some(contract) = known.into_iter().find(|contract| contract.id == named) {
        return Ok(contract);
    }
    let text = std::fs::read_to_string(named).map_err(|error| {
        format!("there is no built-in contract {named:?} (see `onceward contracts list`) and no such file: {error}")
    })?;
    Contract::parse(&text).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_named_by_its_id_by_its_file_or_by_fields() {
        assert_eq!(contract("").expect("the default"), SandboxContract::default());
        assert_eq!(contract("accounts=bearer_required").expect("fields").family, None);
        let both = contract("stripe.v1; accounts=bearer_required").expect("both");
        assert_eq!(both.family.expect("a family").id, "stripe.v1");
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/oasis.repeatable.toml");
        assert_eq!(contract(file).expect("a file").family.expect("a family").id, "oasis.repeatable");
        assert!(contract("stripe.v9").expect_err("no such contract").contains("contracts list"));
    }
}
