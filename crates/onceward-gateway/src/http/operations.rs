//! `/v1/operations`: what became of calls. Nothing here writes.

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use onceward_core::decide::standing;
use onceward_core::key::ToolName;
use onceward_core::outcome::{Role, report};
use onceward_ledger::authorize::{Grant, Scope};
use onceward_ledger::inbox::{More, Waiting};
use onceward_ledger::store::{DisagreementOnly, Filter};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{AnswerView, json as answer_json, told};
use super::request::{Caller, Parameters, wait};
use super::views;
use crate::app::App;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::Problem;

const STATES: [&str; 7] = ["proposed", "approved", "pending", "unknown", "succeeded", "rejected", "closed"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParameters {
    state: Option<String>,
    tool: Option<String>,
    disagreement: Option<bool>,
    unresolved: Option<bool>,
    limit: Option<u32>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Parameters(asked): Parameters<ListParameters>,
) -> Result<Response, Problem> {
    let grant = caller.with(Scope::Read)?;
    if asked.unresolved == Some(true) {
        return inbox(&app, &grant, asked).await;
    }
    let filter = Filter {
        tenant: grant.tenant().clone(),
        states: states(asked.state.as_deref())?,
        tool: asked.tool.as_deref().map(ToolName::parse).transpose()?,
        disagreement_only: match asked.disagreement {
            Some(true) => DisagreementOnly::Yes,
            Some(false) | None => DisagreementOnly::No,
        },
        after: asked.cursor.as_deref().map(cursor).transpose()?,
        limit: limit(asked.limit)?,
    };
    let page = app.ledger().list(&grant, filter).await?;
    let operations: Vec<Value> = page.operations.iter().map(views::summary).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(answer_json(StatusCode::OK, &json!({ "operations": operations, "next_cursor": next })))
}

/// What is not settled or is contradicted, in the order in which people should look at it.
async fn inbox(app: &App, grant: &Grant, asked: ListParameters) -> Result<Response, Problem> {
    if asked.state.is_some() || asked.disagreement.is_some() || asked.cursor.is_some() {
        return Err(Problem::invalid_request(
            "unresolved=true has an order of its own; it goes with tool and limit, not with state, disagreement or cursor",
        ));
    }
    let tool = asked.tool.as_deref().map(ToolName::parse).transpose()?;
    let inbox = app.ledger().inbox(grant, tool, limit(asked.limit)?).await?;
    let row = |row: &Waiting| {
        let mut view = views::summary(&row.operation);
        view["waits_for"] = row.waits_for.name().into();
        view["irreversible_at"] = json!(row.irreversible_at.map(views::text));
        view
    };
    let rows: Vec<Value> = inbox.rows.iter().map(row).collect();
    let more = match inbox.more {
        More::No => "no",
        More::NotAskedFor => "not_asked_for",
        More::NotLookedAt => "not_looked_at",
    };
    let body = json!({
        "operations": rows,
        "next_cursor": null,
        "need_a_person": inbox.need_a_person,
        "by_themselves": inbox.by_themselves,
        "more": more,
    });
    Ok(answer_json(StatusCode::OK, &body))
}

fn states(asked: Option<&str>) -> Result<Vec<String>, Problem> {
    let Some(asked) = asked else { return Ok(Vec::new()) };
    let wanted: Vec<String> = asked.split(',').map(|state| state.trim().to_owned()).collect();
    match wanted.iter().find(|state| !STATES.contains(&state.as_str())) {
        Some(_) => Err(Problem::invalid_request(format!("state is one or more, by commas, of: {}", STATES.join(", ")))),
        None => Ok(wanted),
    }
}

fn cursor(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::invalid_request("cursor is the next_cursor of an earlier page"))
}

fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    match asked.unwrap_or(PAGE_DEFAULT) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(Problem::invalid_request(format!("limit is a number from 1 to {PAGE_MAX}"))),
    }
}

/// How an operation stands. Its status is told with 200 whatever it is: the question was answered.
pub(super) async fn show(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(wait) = wait(&headers)? {
        app.status(&grant, &id, wait).await?;
    }
    let (operation, allowed) = app.find(&grant, &id).await?;
    let envelope = app.ledger().status(&allowed, &operation);
    Ok(answer_json(StatusCode::OK, &Shown::of(&operation, &envelope)))
}

/// An operation, and what a repetition of its call is told.
#[derive(serde::Serialize)]
pub(super) struct Shown<'a> {
    status: &'a onceward_core::outcome::Envelope,
    operation: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<AnswerView>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(
        operation: &onceward_core::operation::Operation,
        status: &'a onceward_core::outcome::Envelope,
    ) -> Self {
        Self { status, operation: views::detail(operation), receipt: status.answer.as_ref().map(AnswerView::of) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalParameters {
    after: Option<u32>,
    limit: Option<u32>,
}

pub(super) async fn journal(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Parameters(asked): Parameters<JournalParameters>,
) -> Result<Response, Problem> {
    let limit = limit(asked.limit)?;
    let (operation, allowed) = app.find(&grant, &id).await?;
    let entries = app.ledger().journal(&allowed, &operation, asked.after.unwrap_or(0), limit).await?;
    let last = entries.last().map(|entry| entry.seq);
    let next = last.filter(|_| entries.len() == usize::try_from(limit).unwrap_or(usize::MAX));
    let entries: Vec<Value> = entries.iter().map(views::entry).collect();
    Ok(answer_json(StatusCode::OK, &json!({ "entries": entries, "next_after": next })))
}

/// The receipt as a repetition of the call would get it; where there is none, the same answer as the repetition's.
pub(super) async fn receipt(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (operation, _) = app.find(&grant, &id).await?;
    Ok(told(&report(&operation, &standing(&operation), Role::Repeater)))
}
