//! What people and callers do with an operation: withdraw, approve, decide, purge.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::code::Code;
use onceward_core::event::PurgeScope;
use onceward_core::key::{EffectId, OperationId};
use onceward_core::operation::Operation;
use onceward_core::outcome::{Role, report};
use onceward_core::receipt::Answer;
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::Grant;
use onceward_ledger::operations::{Choice, Evidence};
use onceward_ledger::store::Expects;
use serde::Deserialize;
use serde_json::json;

use super::answer::json as answer_json;
use super::claims::AnswerBody;
use super::operations::Shown;
use super::request::{Body, Caller};
use crate::app::App;
use crate::problem::Problem;

fn id_of(text: &str) -> Result<OperationId, Problem> {
    OperationId::parse(text).map_err(|_| Problem::plain(Code::NotFound))
}

/// How the operation stands after the move. Whoever may not see it is only told that it was done.
fn moved(grant: &Grant, operation: &Operation) -> Response {
    let envelope = report(operation, &onceward_core::decide::standing(operation), Role::Repeater);
    match grant.to_read(operation) {
        Ok(_) => answer_json(StatusCode::OK, &Shown::of(operation, &envelope)),
        Err(_) => {
            answer_json(StatusCode::OK, &json!({ "operation_id": operation.key.id, "state": operation.state.name() }))
        }
    }
}

pub(super) async fn withdraw(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    run(&app, grant, |ledger, grant| async move { ledger.withdraw(&grant, &id).await }).await
}

/// What an approver says.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Approve,
    Decline,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalBody {
    decision: Verdict,
    /// The version that the approver looked at.
    expected: Option<u32>,
}

pub(super) async fn approve(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<ApprovalBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let expects = body.expected.map_or(Expects::Anything, Expects::Version);
    run(&app, grant, |ledger, grant| async move {
        match body.decision {
            Verdict::Approve => ledger.approve(&grant, &id, expects).await,
            Verdict::Decline => ledger.decline(&grant, &id, expects).await,
        }
    })
    .await
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChoiceName {
    ConfirmedDone,
    ConfirmedNotDone,
    DispatchAgain,
    SupersededBy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    choice: ChoiceName,
    evidence: String,
    effect_id: Option<EffectId>,
    receipt: Option<AnswerBody>,
    superseded_by: Option<OperationId>,
}

impl DecisionBody {
    fn into_choice(self) -> Result<(Choice, Evidence), Problem> {
        let evidence = Evidence::new(&self.evidence).map_err(|why| Problem::invalid_request(why.to_string()))?;
        let only_with = |field: &str, choice: &str| {
            Problem::invalid_request(format!("{field} belongs to the choice {choice}; leave it out, or choose that"))
        };
        let is_done = matches!(self.choice, ChoiceName::ConfirmedDone);
        if !is_done && (self.effect_id.is_some() || self.receipt.is_some()) {
            return Err(only_with("effect_id or receipt", "confirmed_done"));
        }
        if !matches!(self.choice, ChoiceName::SupersededBy) && self.superseded_by.is_some() {
            return Err(only_with("superseded_by", "superseded_by"));
        }
        let choice = match self.choice {
            ChoiceName::ConfirmedDone => {
                let answer = match self.receipt {
                    Some(receipt) => receipt.into_answer()?,
                    None => Answer::json(&json!({ "confirmed_by": "operator", "effect_id": &self.effect_id })),
                };
                Choice::ConfirmedDone { effect_id: self.effect_id, answer }
            }
            ChoiceName::ConfirmedNotDone => Choice::ConfirmedNotDone,
            ChoiceName::DispatchAgain => Choice::DispatchAgain,
            ChoiceName::SupersededBy => Choice::SupersededBy(self.superseded_by.ok_or_else(|| {
                Problem::invalid_request(
                    "the choice superseded_by names the replacement: superseded_by = \"operation id\"",
                )
            })?),
        };
        Ok((choice, evidence))
    }
}

pub(super) async fn decide(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<DecisionBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    // Who may not decide learns nothing about what would have been accepted.
    app.find(&grant, id.as_str()).await?;
    let (choice, evidence) = body.into_choice()?;
    run(&app, grant, |ledger, grant| async move { ledger.decide(&grant, &id, choice, evidence).await }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeBody {
    scope: PurgeScope,
}

pub(super) async fn purge(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<PurgeBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    run(&app, grant, |ledger, grant| async move { ledger.purge(&grant, &id, body.scope).await }).await
}

/// Makes the move to its end, also when its caller hangs up meanwhile.
async fn run<F>(
    app: &App,
    grant: Grant,
    work: impl FnOnce(onceward_ledger::Ledger, Grant) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<Operation, LedgerError>> + Send + 'static,
{
    let operation = app.detached(work(app.ledger().clone(), grant.clone())).await??;
    Ok(moved(&grant, &operation))
}
