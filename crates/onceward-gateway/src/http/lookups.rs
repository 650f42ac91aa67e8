//! `/v1/operations/{id}/lookups`: asking the destination now what became of an operation, which writes nothing there; or, with a
//! body, saying what an application found that runs its own function.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::code::Code;
use onceward_core::decide::standing;
use onceward_core::outcome::{Role, report};
use onceward_ledger::LedgerError;
use serde_json::{Value, json};

use super::answer::json as answer_json;
use super::due::ReportBody;
use super::operations::Shown;
use super::request::{Caller, read};
use crate::app::App;
use crate::problem::Problem;

/// Asks, records what follows, and says how the operation stands.
pub(super) async fn look_up(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (operation, _) = app.find(&grant, &id).await?;
    let allowed = grant.to_lookup(&operation).map_err(LedgerError::from)?;
    let ledger = app.ledger().clone();
    let body = read(request, app.limits().body_bytes_max).await?;
    // What was asked is recorded, also when nobody waits for it any more.
    let asked = if says_nothing(&body) {
        app.detached(async move { ledger.look_up(&allowed, &operation).await }).await?
    } else {
        let report: ReportBody = serde_json::from_slice(&body).map_err(|error| {
            Problem::invalid_request(format!("the body: {error}; nothing was recorded, send it again"))
        })?;
        let report = report.read(ledger.clock().now())?;
        let allowed = grant.to_report(&operation).map_err(LedgerError::from)?;
        app.detached(async move { ledger.report_lookup(&allowed, &operation, report).await }).await?
    };
    let looked = match asked {
        Ok(looked) => looked,
        Err(LedgerError::NotFound) => return Err(nobody_asks()),
        Err(error) => return Err(error.into()),
    };
    let envelope = report(&looked.operation, &standing(&looked.operation), Role::Repeater);
    let note = serde_json::from_str(&looked.note).unwrap_or(Value::String(looked.note));
    let lookup = json!({ "said": looked.said.name(), "about": note });
    Ok(answer_json(StatusCode::OK, &Looked { lookup, shown: Shown::of(&looked.operation, &envelope) }))
}

/// Whether a body reports nothing: none at all, or `{}`, which some clients send with every POST.
fn says_nothing(body: &[u8]) -> bool {
    body.is_empty() || matches!(serde_json::from_slice(body), Ok(Value::Object(members)) if members.is_empty())
}

/// What the lookup said, and how the operation stands after it.
#[derive(serde::Serialize)]
struct Looked<'a> {
    lookup: Value,
    #[serde(flatten)]
    shown: Shown<'a>,
}

fn nobody_asks() -> Problem {
    Problem::new(
        Code::IllegalMove,
        "the tool of this operation is not configured here, so there is nobody to ask; an application that runs its own function \
         reports what it finds",
    )
}
