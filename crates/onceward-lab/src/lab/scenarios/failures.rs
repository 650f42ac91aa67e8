//! Processes that end, destinations that turn away, and agents that take over from others.

use anyhow::{Context, Result, ensure};

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::{Stage, until};
use crate::world::{Caller, Configuration, Decision, GatewayProcess, Home, Promise, ToolSetting, ticket_of};

/// The destination sheds load with 503, and its contract says that this comes before any work. So the call is free to be sent
/// again, which an ordinary 503 is not.
pub(super) async fn failure_before_commit(stage: &Stage) -> Result<Findings> {
    let sandbox = stage.sandbox().await?;
    let configuration = Configuration::new(sandbox.url(), Promise::ShedsBeforeWork).with(ToolSetting::AttemptsMax(1));
    let gateway = stage.gateway(&configuration).await?;
    let agent = gateway.agent("acme", "agent").await?;
    sandbox.break_next("/tickets", "fail_before_commit;status=503").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let before = sandbox.tickets().await?;
    let second = agent.call("create_ticket", "printer-1", &ticket()).await?;
    Ok(Findings::new()
        .with("tickets_before_retry", before)
        .with("first_outcome", first.text("/outcome"))
        .with("tickets_after_retry", sandbox.tickets().await?)
        .with("second_outcome", second.text("/outcome")))
}

/// SIGKILL while the destination has committed and has not answered yet.
pub(super) async fn restart_recovery(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let operator = gateway.operator("acme", "ines").await?;
    sandbox.break_next("/tickets", "delay_after_commit;ms=600000").await?;
    let caller = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("create_ticket", "printer-1", &ticket()).await }
    });
    let committed = until("the commit at the destination", || async {
        let audit = sandbox.audit("tickets").await?;
        Ok(audit["effects"][0]["id"].as_str().map(ToOwned::to_owned))
    })
    .await?;
    let stopped = gateway.kill().await?;
    // The caller sees its connection end, and nothing else.
    ensure!(caller.await?.is_err(), "a caller of a killed gateway was answered");
    let gateway = stopped.start().await?;
    let (agent, operator) = (gateway.again(&agent), gateway.again(&operator));
    let state = recovered(&gateway, &agent, "printer-1").await?;
    let repetition = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let decision = Decision::confirmed_done(&committed, "looked it up in the helpdesk by its title: it is there, once");
    operator.decide("printer-1", &decision).await?.succeeded("the decision")?;
    let after = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let audit = sandbox.audit("tickets").await?;
    Ok(Findings::new()
        .with("tickets", audit["count"].clone())
        .with("requests_at_destination", audit["requests"].clone())
        .with("state_after_restart", state)
        .with("repetition_outcome", repetition.text("/outcome"))
        .with("outcome_after_decision", after.text("/outcome"))
        .with("receipt_ticket_id", ticket_of(&after))
        .with("destination_ticket_id", committed))
}

/// The state of an operation whose gateway was killed, once there is another. Whoever has a ledger's file to itself knows at its
/// start that the earlier one is gone; on a database that is found out by its silence.
async fn recovered(gateway: &GatewayProcess, agent: &Caller, id: &str) -> Result<String> {
    let state = || async { Ok::<_, anyhow::Error>(agent.status(id).await?.text("/state").to_owned()) };
    match gateway.ledger() {
        Home::File(_) => state().await,
        Home::Database(_) => {
            until("the recovery", || async {
                let state = state().await?;
                Ok((state != "pending").then_some(state))
            })
            .await
        }
    }
}

/// The agent that sent is gone. Its successor holds a note that says "sent" and an operation id; it asks, and never sends.
pub(super) async fn handoff(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let first_agent = gateway.agent("acme", "first-shift").await?;
    let successor = gateway.agent("acme", "second-shift").await?;
    let first = first_agent.call("create_ticket", "printer-1", &ticket()).await?;
    let first_ticket = ticket_of(&first).with_context(|| format!("no receipt in {}", first.body))?;
    sandbox.break_next("/tickets", "lose_reply_after_commit").await?;
    let lost = first_agent.call("create_ticket", "printer-2", &ticket()).await?;
    ensure!(lost.text("/outcome") == "unknown", "a lost reply was told as {}", lost.body);
    drop(first_agent);
    // It may also repeat the call: the answer is the same, and nothing is sent.
    let settled = successor.call("create_ticket", "printer-1", &ticket()).await?;
    let receipt = successor.receipt("printer-1").await?.succeeded("the receipt")?;
    let open = successor.status("printer-2").await?;
    let repeated = successor.call("create_ticket", "printer-2", &ticket()).await?;
    ensure!(repeated.text("/outcome") == "unknown", "a repetition was told {}", repeated.body);
    let audit = sandbox.audit("tickets").await?;
    Ok(Findings::new()
        .with("tickets", audit["count"].clone())
        .with("requests_at_destination", audit["requests"].clone())
        .with("first_ticket_id", first_ticket)
        .with("outcome_settled", settled.text("/outcome"))
        .with("successor_ticket_id", ticket_of(&receipt))
        .with("outcome_open", open.text("/outcome")))
}
