//! Applications that run their own functions: they claim, run, and may vanish or answer late.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::{Stage, until};
use crate::world::{Caller, ClaimReply, Decision, GatewayProcess, Promise, SandboxProcess};

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

/// A function answers after its time, three times: with nothing in between; after a person had decided that it was not done
/// and attempt 2 began and found the same ticket; and after an attempt 2 that made another one.
pub(super) async fn late_answer(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let alone = late(&gateway, &sandbox, "alone", Meanwhile::Nothing).await?;
    let same = late(&gateway, &sandbox, "same-ticket", Meanwhile::AnotherAttemptFindsIt).await?;
    let other = late(&gateway, &sandbox, "other-ticket", Meanwhile::AnotherAttemptMakesOne).await?;
    Ok(Findings::new()
        .with("state_alone", alone.state)
        .with("disagreement_alone", alone.disagreement)
        .with("state_same_ticket", same.state)
        .with("disagreement_same_ticket", same.disagreement)
        .with("state_other_ticket", other.state)
        .with("disagreement_other_ticket", other.disagreement)
        .with("recorded_late_answers", alone.recorded + same.recorded + other.recorded)
        .with("tickets", sandbox.tickets().await?))
}

/// What happens between the end of an attempt's time and its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// A person decides that it was not done; the next attempt looks first and finds the ticket.
    AnotherAttemptFindsIt,
    /// The same, and the next attempt makes another ticket.
    AnotherAttemptMakesOne,
}

/// How an operation stands after a late answer.
struct Told {
    state: String,
    disagreement: String,
    /// Entries of the journal that the late answer made.
    recorded: usize,
}

async fn late(gateway: &GatewayProcess, sandbox: &SandboxProcess, id: &str, meanwhile: Meanwhile) -> Result<Told> {
    let application = gateway.agent("acme", &format!("worker-{id}")).await?;
    let first = application.claim("create_ticket", id, &ticket(), SETTLE_WITHIN).await?;
    application.begin(&first).await?;
    let first_ticket = make_ticket(sandbox, id).await?;
    let state = left_pending(&application, id).await?;
    ensure!(state == "unknown", "a claim past its time is {state}");
    let second = match meanwhile {
        Meanwhile::Nothing => None,
        Meanwhile::AnotherAttemptFindsIt => Some((claim_again(gateway, &application, id).await?, first_ticket.clone())),
        Meanwhile::AnotherAttemptMakesOne => {
            let claim = claim_again(gateway, &application, id).await?;
            Some((claim, make_ticket(sandbox, id).await?))
        }
    };
    let before = application.journal(id).await?;
    application.settle_done(&first, &first_ticket).await?;
    let after = application.journal(id).await?;
    if let Some((claim, ticket)) = second {
        application.settle_done(&claim, &ticket).await?;
    }
    let status = application.status(id).await?;
    Ok(Told {
        state: status.text("/state").to_owned(),
        disagreement: status.body["disagreement"].as_str().unwrap_or("none").to_owned(),
        recorded: after - before,
    })
}

/// Attempt 2, after a person decided that attempt 1 was not done.
async fn claim_again(gateway: &GatewayProcess, application: &Caller, id: &str) -> Result<ClaimReply> {
    let operator = gateway.operator("acme", &format!("ines-{id}")).await?;
    let decision = Decision::dispatch_again("nothing was found in the helpdesk");
    operator.decide(id, &decision).await?.succeeded("the decision")?;
    let claim = application.claim("create_ticket", id, &ticket(), Duration::from_secs(60)).await?;
    ensure!(claim.is_granted(), "attempt 2 was not granted: {}", claim.outcome());
    application.begin(&claim).await?;
    Ok(claim)
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
