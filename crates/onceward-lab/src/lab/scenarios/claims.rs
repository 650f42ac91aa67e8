//! Applications that run their own functions: they claim, run, and may vanish or answer late.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::{Stage, until};
use crate::world::{Caller, Decision, GatewayProcess, Promise, SandboxProcess};

/// How long a claim of these scenarios may stay unsettled: short, so that its end comes while one watches.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// An application claims, marks that it begins, makes the ticket, and is gone.
pub(super) async fn stale_pending(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let application = gateway.agent("acme", "worker").await?;
    let mut granted = 0;
    let claim = application.claim("create_ticket", "printer-1", &ticket(), SETTLE_WITHIN).await?;
    granted += u32::from(claim.is_granted());
    application.begin(&claim).await?;
    make_ticket(&sandbox, "first").await?;
    let meanwhile = application.claim("create_ticket", "printer-1", &ticket(), SETTLE_WITHIN).await?;
    granted += u32::from(meanwhile.is_granted());
    let state = left_pending(&application, "printer-1").await?;
    let afterwards = application.claim("create_ticket", "printer-1", &ticket(), SETTLE_WITHIN).await?;
    granted += u32::from(afterwards.is_granted());
    Ok(Findings::new()
        .with("outcome_while_running", meanwhile.outcome())
        .with("state_past_its_time", state)
        .with("outcome_past_its_time", afterwards.outcome())
        .with("claims_granted", granted)
        .with("tickets", sandbox.tickets().await?))
}

/// Attempt 1 is given up by a person's decision, attempt 2 begins, and then attempt 1 answers. Once with the ticket that
/// attempt 2 found as well, once with another one.
pub(super) async fn late_answer(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let same = overtake(&gateway, &sandbox, "same-ticket", Second::FindsTheFirst).await?;
    let other = overtake(&gateway, &sandbox, "other-ticket", Second::MakesAnother).await?;
    Ok(Findings::new()
        .with("state_same_ticket", same.state)
        .with("disagreement_same_ticket", same.disagreement.unwrap_or_else(|| "none".to_owned()))
        .with("state_other_ticket", other.state)
        .with("other_ticket_is_a_disagreement", other.disagreement.is_some())
        .with("disagreement_other_ticket", other.disagreement)
        .with("late_answer_in_journal", same.in_journal && other.in_journal))
}

/// What the second attempt does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    /// It looks first and finds the ticket of the first attempt.
    FindsTheFirst,
    /// It makes another ticket.
    MakesAnother,
}

/// How an operation stands after a late answer.
struct Overtaken {
    state: String,
    disagreement: Option<String>,
    in_journal: bool,
}

async fn overtake(gateway: &GatewayProcess, sandbox: &SandboxProcess, id: &str, second: Second) -> Result<Overtaken> {
    let application = gateway.agent("acme", &format!("worker-{id}")).await?;
    let operator = gateway.operator("acme", &format!("ines-{id}")).await?;
    let first = application.claim("create_ticket", id, &ticket(), SETTLE_WITHIN).await?;
    application.begin(&first).await?;
    let first_ticket = make_ticket(sandbox, id).await?;
    let state = left_pending(&application, id).await?;
    ensure!(state == "unknown", "a claim past its time is {state}");
    let decision = Decision::dispatch_again("nothing was found in the helpdesk");
    operator.decide(id, &decision).await?.succeeded("the decision")?;
    let claim = application.claim("create_ticket", id, &ticket(), Duration::from_secs(60)).await?;
    ensure!(claim.is_granted(), "attempt 2 was not granted: {}", claim.outcome());
    application.begin(&claim).await?;
    let second_ticket = match second {
        Second::FindsTheFirst => first_ticket.clone(),
        Second::MakesAnother => make_ticket(sandbox, id).await?,
    };
    let journal_before = application.journal(id).await?;
    application.settle_done(&first, &first_ticket).await?;
    let journal_after = application.journal(id).await?;
    application.settle_done(&claim, &second_ticket).await?;
    let status = application.status(id).await?;
    Ok(Overtaken {
        state: status.text("/state").to_owned(),
        disagreement: status.body["disagreement"].as_str().map(ToOwned::to_owned),
        in_journal: journal_after == journal_before + 1,
    })
}

/// The application's own function.
async fn make_ticket(sandbox: &SandboxProcess, reference: &str) -> Result<String> {
    let body = json!({ "title": "Printer on fire", "body": "It burns. Please come.", "reference": reference });
    let reply = sandbox.create("/tickets", &body, &[]).await?.succeeded("making a ticket")?;
    Ok(reply.text("/id").to_owned())
}

/// The state of an operation once it is no longer pending.
async fn left_pending(application: &Caller, id: &str) -> Result<String> {
    until("the end of a claim's time", || async {
        let status = application.status(id).await?;
        let state = status.text("/state").to_owned();
        Ok((state != "pending").then_some(state))
    })
    .await
}
