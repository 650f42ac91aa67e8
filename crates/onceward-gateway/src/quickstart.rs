//! `onceward serve` without a configuration: a ledger in the current folder, loopback, tools of the sandbox, two tokens.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use onceward_core::key::TenantId;
use onceward_destinations::catalog::{Catalog, Environment, Surroundings};
use onceward_destinations::error::ConfigError;
use onceward_destinations::secrets::MachineSecrets;
use onceward_ledger::Intervals;

use crate::limits::Limits;
use crate::mcp::{Elicitation, Reach};
use crate::metrics::Access;
use crate::serve::{FirstTokens, Gateway, Running};

/// The tools, as a configuration would have them; `SANDBOX` stands for the sandbox's address.
pub const TOOLS: &str = include_str!("quickstart.toml");

/// The ledger, in the folder that the gateway is started in.
pub const LEDGER: &str = "onceward.db";

/// For whom the quickstart's tokens are.
const TENANT: &str = "quickstart";

/// The quickstart's tools at a sandbox.
///
/// # Errors
/// The mistakes of the built-in text at that address; there are none for an address that can be one.
pub fn catalog(sandbox: &str) -> Result<Catalog, Vec<ConfigError>> {
    let text = TOOLS.replace("SANDBOX", sandbox);
    let surroundings = Surroundings {
        file: "the quickstart's tools",
        base_dir: Path::new("."),
        environment: Environment::Dev,
        secrets: &MachineSecrets,
    };
    Catalog::from_toml(&text, &surroundings)
}

/// The quickstart's gateway: its ledger in `folder`, in front of the sandbox at that address.
///
/// # Errors
/// As for [`catalog`].
pub fn gateway(folder: &Path, listen: SocketAddr, sandbox: &str) -> Result<Gateway, Vec<ConfigError>> {
    Ok(Gateway {
        ledger: ledger(folder).into(),
        listen,
        tenant: TenantId::parse(TENANT).ok(),
        catalog: catalog(sandbox)?,
        limits: Limits::default(),
        reach: Reach::default(),
        intervals: Intervals::default(),
        metrics: Access::default(),
        notify: None,
        elicitation: Elicitation::Off,
    })
}

fn ledger(folder: &Path) -> PathBuf {
    folder.join(LEDGER)
}

/// What a newcomer is told at the start: tokens once, a first call to copy, and how it becomes real.
#[must_use]
pub fn welcome(running: &Running, sandbox: &str) -> String {
    let mut text = String::new();
    for line in running.lines() {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "sandbox   {sandbox} (tickets, orders, payments, mail, reports; `curl {sandbox}/admin/effects`)\n"
    );
    let token = match &running.first_tokens {
        Some(FirstTokens { agent, operator }) => {
            let _ =
                writeln!(text, "Two tokens were made. They are shown this once; the ledger keeps their hashes only.");
            let _ = writeln!(text, "  agent     {}", agent.reveal());
            let _ = writeln!(text, "  operator  {}\n", operator.reveal());
            agent.reveal()
        }
        None => {
            let _ = writeln!(
                text,
                "The tokens of the first start are still good. Lost them? Stop this, and make one in the ledger:\n  \
                                onceward token create --ledger {LEDGER} --principal me --role agent\n"
            );
            "ow_agent_…"
        }
    };
    let address = running.address;
    let _ = writeln!(
        text,
        "Open a ticket, twice with one identity, and see one ticket:\n  \
         curl http://{address}/v1/tools/create_ticket/calls -H 'Authorization: Bearer {token}' \\\n    \
         -H 'Idempotency-Key: ticket-1' -d '{{\"arguments\":{{\"title\":\"Printer\",\"body\":\"It burns.\"}}}}'\n\n\
         An MCP host points at http://{address}/mcp with the same Authorization header.\n\n\
         To make it real: `onceward init` writes an onceward.toml from your host's MCP configuration, an OpenAPI file or a few questions;\n\
         `onceward check` says what a lost reply becomes for each tool, and `onceward serve` in its folder starts it."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickstart_has_its_five_writes_and_two_reads() {
        let catalog = catalog("http://127.0.0.1:7080").unwrap_or_else(|errors| panic!("{errors:#?}"));
        let names: Vec<_> = catalog.tools().iter().map(|tool| tool.name().to_string()).collect();
        let expected = [
            "charge_payment",
            "create_order",
            "create_ticket",
            "get_ticket",
            "list_tickets",
            "send_mail",
            "start_report",
        ];
        assert_eq!(names, expected);
    }
}
