//! What people and callers do with an operation: withdraw, approve, purge.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::code::Code;
use onceward_core::event::PurgeScope;
use onceward_core::key::OperationId;
use onceward_core::operation::Operation;
use onceward_core::outcome::{Role, report};
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::Grant;
use onceward_ledger::store::Expects;
use serde::Deserialize;
use serde_json::json;

use super::answer::json as answer_json;
use super::operations::Shown;
use super::request::{Body, Caller};
use crate::app::App;
use crate::problem::Problem;

pub(super) fn id_of(text: &str) -> Result<OperationId, Problem> {
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
pub(super) async fn run<F>(
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
