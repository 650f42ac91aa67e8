//! One caller that repeats, and callers that only look as if they did.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::lab::findings::Findings;
use crate::lab::stage::Stage;
use crate::world::{Promise, ticket_of};

/// The ticket that most scenarios ask for.
pub(super) fn ticket() -> Value {
    json!({ "title": "Printer on fire", "body": "It burns. Please come." })
}

/// Without Onceward: the reply is lost after the commit, and the agent does what every framework does.
pub(super) async fn naive_retry(stage: &Stage) -> Result<Findings> {
    let sandbox = stage.sandbox().await?;
    let mut attempts = 0;
    let mut fault: &[(&str, &str)] = &[("Sandbox-Fault", "lose_reply_after_commit")];
    loop {
        attempts += 1;
        let reply = sandbox.create("/tickets", &ticket(), fault).await;
        if reply.is_ok_and(|reply| reply.status == 201) {
            break;
        }
        ensure!(attempts < 10, "the agent never gets an answer");
        fault = &[];
    }
    Ok(Findings::new().with("attempts", attempts).with("tickets", sandbox.tickets().await?))
}

/// With an operation id: the reply is lost after the commit, and the caller calls twice more.
pub(super) async fn stable_key_retry(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::RecognisesKeys).await?;
    let agent = gateway.agent("acme", "agent").await?;
    sandbox.break_next("/tickets", "lose_reply_after_commit").await?;
    let mut told = Vec::new();
    let mut last_outcome = String::new();
    for _ in 0..3 {
        let reply = agent.call("create_ticket", "printer-1", &ticket()).await?;
        last_outcome = reply.text("/outcome").to_owned();
        told.push(ticket_of(&reply).with_context(|| format!("no receipt in {}", reply.body))?);
    }
    ensure!(told.iter().all(|id| *id == told[0]), "the calls were told different tickets: {told:?}");
    let audit = sandbox.audit("tickets").await?;
    Ok(Findings::new()
        .with("attempts", told.len())
        .with("tickets", audit["count"].clone())
        .with("replay_ticket_id", told[0].clone())
        .with("destination_ticket_id", audit["effects"][0]["id"].clone())
        .with("requests_at_destination", audit["requests"].clone())
        .with("last_outcome", last_outcome))
}

/// The same operation id with another title.
pub(super) async fn changed_payload(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    ensure!(ticket_of(&first).is_some(), "the first call got no ticket: {}", first.body);
    let other = json!({ "title": "Printer on ice", "body": "It burns. Please come." });
    let changed = agent.call("create_ticket", "printer-1", &other).await?;
    Ok(Findings::new()
        .with("rejected", changed.text("/outcome") == "conflict" && ticket_of(&changed).is_none())
        .with("status", changed.status)
        .with("differs", changed.text("/differences/0/at"))
        .with("tickets", sandbox.tickets().await?))
}

/// Equal arguments, two operation ids.
pub(super) async fn new_key_same_payload(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let first = agent.call("create_ticket", "printer-1", &ticket()).await?;
    let second = agent.call("create_ticket", "printer-2", &ticket()).await?;
    let (first, second) = (ticket_of(&first), ticket_of(&second));
    Ok(Findings::new()
        .with("tickets", sandbox.tickets().await?)
        .with("different_tickets", first.is_some() && second.is_some() && first != second))
}

/// Three customers with the same wish; each call is repeated, and the repetitions are shuffled among each other.
pub(super) async fn separate_intents(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let ids = ["customer-a", "customer-b", "customer-c"];
    let mut first = Vec::new();
    for id in ids {
        first.push(ticket_of(&agent.call("create_ticket", id, &ticket()).await?));
    }
    let mut each_got_its_own = first.iter().all(Option::is_some);
    for at in [2, 0, 1] {
        let again = ticket_of(&agent.call("create_ticket", ids[at], &ticket()).await?);
        each_got_its_own &= again == first[at];
    }
    Ok(Findings::new()
        .with("intents", ids.len())
        .with("calls_each", 2)
        .with("tickets", sandbox.tickets().await?)
        .with("each_repetition_got_its_own", each_got_its_own))
}
