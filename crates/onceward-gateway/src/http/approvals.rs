//! `/v1/approvals`: asking that a person allow a deliberate second one. Allowing it is a move of the operation.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use onceward_core::decide::standing;
use onceward_core::key::OperationId;
use onceward_core::outcome::{Role, report};
use onceward_ledger::approvals::Proposed;
use serde::Deserialize;
use serde_json::json;

use super::answer::json as answer_json;
use super::operations::Shown;
use super::request::{Body, Caller};
use crate::app::App;
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody {
    /// The settled operation that a held call looks like.
    operation_id: OperationId,
}

/// 201 with the operation that waits, or 200 where an equal one waits already.
pub(super) async fn ask(
    State(app): State<App>,
    Caller(grant): Caller,
    Body(body): Body<AskBody>,
) -> Result<Response, Problem> {
    let proposed = app.ask_second(&grant, &body.operation_id).await?;
    let status = match &proposed {
        Proposed::New(_) => StatusCode::CREATED,
        Proposed::Already(_) => StatusCode::OK,
    };
    let operation = proposed.operation();
    Ok(match grant.to_read(operation) {
        Ok(_) => {
            let envelope = report(operation, &standing(operation), Role::Repeater);
            answer_json(status, &Shown::of(operation, &envelope))
        }
        Err(_) => answer_json(status, &json!({ "operation_id": operation.key.id, "state": operation.state.name() })),
    })
}
