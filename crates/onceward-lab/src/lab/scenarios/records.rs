//! How long protection lasts: as long as the record.

use anyhow::{Context, Result, ensure};

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::Stage;
use crate::world::{Promise, ticket_of};

/// Somebody deletes the operation, and its journal with it, from the stopped gateway's ledger. The destination takes no keys,
/// so nothing anywhere remembers the first execution.
pub(super) async fn deleted_replay_record(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    ensure!(ticket_of(&first).is_some(), "the first call got no ticket: {}", first.body);
    let ledger = gateway.ledger().to_owned();
    let stopped = gateway.kill().await?;
    let deleted =
        ledger.delete_by_hand("acme", "printer-1").await.context("the ledger could not be changed by hand")?;
    let gateway = stopped.start().await?;
    let agent = gateway.again(&agent);
    let second = agent.call("create_ticket", "printer-1", &ticket()).await?;
    Ok(Findings::new()
        .with("deleted_rows", deleted)
        .with("outcome", second.text("/outcome"))
        .with("tickets", sandbox.tickets().await?))
}

/// The way to delete text and keep the protection.
pub(super) async fn purged_record(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let operator = gateway.operator("acme", "ines").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    ensure!(ticket_of(&first).is_some(), "the first call got no ticket: {}", first.body);
    operator.purge("printer-1").await?.succeeded("the purge")?;
    let second = agent.call("create_ticket", "printer-1", &ticket()).await?;
    Ok(Findings::new()
        .with("tickets", sandbox.tickets().await?)
        .with("outcome", second.text("/outcome"))
        .with("receipt_is_gone", ticket_of(&second).is_none()))
}
