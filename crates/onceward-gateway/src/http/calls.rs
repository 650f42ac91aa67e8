//! `/v1/tools`: which there are, and calling one.

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use onceward_core::canonical::Canonical;
use onceward_core::key::Lane;
use onceward_core::outcome::Outcome;
use onceward_destinations::tool::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{AnswerView, accepted, json as answer_json, told};
use super::request::{Body, Caller, wait};
use crate::app::{App, Called, ToolCall};
use crate::enqueue::LaterCall;
use crate::identity;
use crate::problem::Problem;

pub(super) async fn list_tools(State(app): State<App>, Caller(grant): Caller) -> Response {
    let tools: Vec<Value> = app.tools_of(&grant).iter().map(|tool| view(tool)).collect();
    answer_json(StatusCode::OK, &json!({ "tools": tools }))
}

fn view(tool: &Tool) -> Value {
    json!({
        "name": tool.name().as_str(),
        "version": tool.version().as_str(),
        "description": tool.description(),
        "effect": tool.effect(),
        "arguments_schema": tool.schema(),
        "without_identity": tool.without_identity(),
        "approval": tool.approval(),
        "mode": tool.mode(),
        "destination": tool.destination_name(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallBody {
    arguments: Option<Value>,
    operation_id: Option<String>,
}

impl CallBody {
    /// The operation id that the body names, and the arguments.
    pub(super) fn into_parts(self) -> (Option<String>, Option<Value>) {
        (self.operation_id, self.arguments)
    }
}

pub(super) async fn call(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(tool): Path<String>,
    headers: HeaderMap,
    Body(body): Body<CallBody>,
) -> Result<Response, Problem> {
    let identity = identity::of_http(&headers, body.operation_id.as_deref()).into();
    let arguments = arguments(body.arguments)?;
    let wait = wait(&headers)?;
    match app.call(&grant, ToolCall { tool, identity, arguments, wait }).await? {
        Called::Operation(envelope) => Ok(told(&envelope)),
        Called::Read(answer) => Ok(answer_json(StatusCode::OK, &json_of_read(&answer))),
    }
}

/// A read has no operation: only what the destination answered, whatever its status.
fn json_of_read(answer: &onceward_core::receipt::Answer) -> impl serde::Serialize {
    #[derive(serde::Serialize)]
    struct Read {
        effect: onceward_destinations::tool::Effect,
        answer: AnswerView,
    }
    Read { effect: onceward_destinations::tool::Effect::Read, answer: AnswerView::of(answer) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaterBody {
    tool: String,
    arguments: Option<Value>,
    operation_id: Option<String>,
    lane: Option<String>,
}

/// Keeps a call, and sends it later.
pub(super) async fn later(
    State(app): State<App>,
    Caller(grant): Caller,
    headers: HeaderMap,
    Body(body): Body<LaterBody>,
) -> Result<Response, Problem> {
    let identity = identity::of_http(&headers, body.operation_id.as_deref())?;
    let arguments = arguments(body.arguments)?;
    let lane = body.lane.as_deref().map(Lane::parse).transpose()?;
    let envelope = app.enqueue(&grant, LaterCall { tool: body.tool, identity, arguments, lane }).await?;
    Ok(match envelope.outcome {
        // Kept: the dispatcher sends it.
        Outcome::NotDispatched => accepted(&envelope),
        _ => told(&envelope),
    })
}

/// The arguments of a body; none are `{}`.
pub(super) fn arguments(given: Option<Value>) -> Result<Canonical, Problem> {
    Ok(match given {
        Some(value) => Canonical::from_value(value)?.require_object()?,
        None => Canonical::empty_object(),
    })
}
