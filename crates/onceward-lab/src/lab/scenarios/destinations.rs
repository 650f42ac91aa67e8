//! What the destination does to itself: two callers that meet inside it, and a thing that somebody changes afterwards.

use anyhow::{Context, Result};
use futures_util::future::join;
use serde_json::json;

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::Stage;
use crate::world::{Configuration, Promise, SandboxProcess, ticket_of};

/// "Look whether the key is there, then insert" is a race. Two callers meet between the look and the insert.
pub(super) async fn controlled_interleaving(stage: &Stage) -> Result<Findings> {
    let sandbox = stage.sandbox().await?;
    let without = meet(&sandbox, "none").await?;
    sandbox.reset().await?;
    let with = meet(&sandbox, "unique").await?;
    sandbox.reset().await?;
    // The same destination without its constraint, and the gateway before it.
    promise(&sandbox, "none").await?;
    let gateway = stage.gateway(&Configuration::new(sandbox.url(), Promise::Nothing)).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let wanted = ticket();
    let call = || agent.call("create_ticket", "printer-1", &wanted);
    let (first, second) = join(call(), call()).await;
    let _ = (first?, second?);
    Ok(Findings::new()
        .with("callers", 2)
        .with("tickets_without_constraint", without)
        .with("tickets_with_constraint", with)
        .with("tickets_through_gateway", sandbox.tickets().await?))
}

async fn promise(sandbox: &SandboxProcess, constraint: &str) -> Result<()> {
    let interleaving = json!({ "callers": 2, "wait_ms_max": 2_000 });
    let changes = json!({ "in_flight": "unguarded", "key_constraint": constraint, "interleaving": interleaving });
    sandbox.promise(changes).await
}

async fn meet(sandbox: &SandboxProcess, constraint: &str) -> Result<i64> {
    promise(sandbox, constraint).await?;
    let wanted = ticket();
    let create = || sandbox.create("/tickets", &wanted, &[("Idempotency-Key", "printer-1")]);
    let (first, second) = join(create(), create()).await;
    let _ = (first?, second?);
    sandbox.tickets().await
}

/// The ticket is closed by somebody else before the repetition: the receipt is what was done, not what is.
pub(super) async fn receipt_after_change(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let id = ticket_of(&first).with_context(|| format!("no receipt in {}", first.body))?;
    sandbox.close_ticket(&id).await?;
    let again = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let current = sandbox.ticket(&id).await?;
    Ok(Findings::new()
        .with("tickets", sandbox.tickets().await?)
        .with("first_ticket_id", id)
        .with("replay_ticket_id", ticket_of(&again))
        .with("receipt_status", again.text("/receipt/body/status"))
        .with("current_status", current["status"].clone()))
}
