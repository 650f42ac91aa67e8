//! The auditor's view: what really happened, at once and whole, and the levers that make a scenario.
//!
//! These routes meet no fault, need no token and stand in no log. They are the reason why the sandbox listens on loopback
//! only.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::clock::rfc3339;
use super::limits::{ADMIN_ROWS_MAX, SPAN_MS_MAX};
use super::log;
use super::problem::Answer;
use super::queue::FaultRule;
use super::resource::Kind;
use super::state::Shared;
use super::store::{Effect, StoreError, all_effects};

type Answered = Result<Answer, AdminError>;

/// The auditor's routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/admin/effects", get(effects))
        .route("/admin/requests", get(requests))
        .route("/admin/faults", get(waiting_faults).post(program_faults).delete(clear_faults))
        .route("/admin/contract", get(contract).put(change_contract))
        .route("/admin/clock", get(clock).post(advance_clock))
        .route("/admin/reset", post(reset))
}

/// Why the auditor is not answered.
#[derive(Debug)]
pub(crate) enum AdminError {
    /// The request makes no sense.
    Malformed(String),
    /// The file could not be used.
    Store(StoreError),
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        match self {
            Self::Malformed(detail) => Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail),
            Self::Store(error) => {
                Answer::problem(StatusCode::INTERNAL_SERVER_ERROR, "sandbox_storage", error.to_string())
            }
        }
        .into_response()
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let kind = if self.status.is_success() { "application/json" } else { "application/problem+json" };
        (self.status, [(CONTENT_TYPE, kind)], self.body.to_string()).into_response()
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, AdminError> {
    serde_json::from_slice(body).map_err(|error| AdminError::Malformed(error.to_string()))
}

/// Which effects the auditor asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectsQuery {
    resource: Option<String>,
    account: Option<String>,
}

async fn effects(State(shared): State<Arc<Shared>>, query: Result<Query<EffectsQuery>, QueryRejection>) -> Answered {
    let Query(query) = query.map_err(|rejection| AdminError::Malformed(rejection.body_text()))?;
    let resource = query
        .resource
        .map(|name| Kind::from_name(&name).ok_or_else(|| AdminError::Malformed(format!("There are no {name:?}."))))
        .transpose()?;
    let now_us = shared.clock.now_us();
    // One look at the file for all of it, so that counts and rows are of the same moment.
    let report = shared.store.read(|connection| {
        let count: i64 = connection.query_row(
            "SELECT count(*) FROM effect WHERE (?1 IS NULL OR resource = ?1) AND (?2 IS NULL OR account = ?2)",
            rusqlite::params![resource.as_ref().map(Kind::name), query.account],
            |row| row.get(0),
        )?;
        let rows = all_effects(connection, resource.as_ref(), query.account.as_deref(), ADMIN_ROWS_MAX)?;
        let per_key = log::per_key(connection, resource.as_ref(), query.account.as_deref(), ADMIN_ROWS_MAX)?;
        Ok(json!({
            "resource": resource.as_ref().map(Kind::name),
            "count": count,
            "requests": log::writes(connection, resource.as_ref(), query.account.as_deref())?,
            "per_key": per_key,
            "effects": rows.iter().map(|effect: &Effect| effect.audit(now_us)).collect::<Vec<Value>>(),
            "complete": rows.len() < ADMIN_ROWS_MAX && per_key.len() < ADMIN_ROWS_MAX,
        }))
    })?;
    Ok(Answer::ok(report))
}

async fn requests(State(shared): State<Arc<Shared>>) -> Answered {
    let report = shared.store.read(|connection| {
        let (count, first): (i64, Option<i64>) =
            connection
                .query_row("SELECT count(*), min(sequence) FROM request", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows = log::requests(connection, ADMIN_ROWS_MAX)?;
        let complete = first.is_none_or(|first| first == 1) && rows.len() < ADMIN_ROWS_MAX;
        Ok(json!({ "count": count, "requests": rows, "complete": complete }))
    })?;
    Ok(Answer::ok(report))
}

async fn waiting_faults(State(shared): State<Arc<Shared>>) -> Answered {
    Ok(Answer::ok(json!({ "waiting": shared.faults.waiting() })))
}

async fn program_faults(State(shared): State<Arc<Shared>>, body: Bytes) -> Answered {
    let rules: Vec<FaultRule> = parse(&body)?;
    shared.faults.program(rules).map_err(|error| AdminError::Malformed(error.to_string()))?;
    waiting_faults(State(shared)).await
}

async fn clear_faults(State(shared): State<Arc<Shared>>) -> Answered {
    shared.faults.clear();
    waiting_faults(State(shared)).await
}

async fn contract(State(shared): State<Arc<Shared>>) -> Answered {
    let contract = serde_json::to_value(shared.contract()).map_err(|error| AdminError::Malformed(error.to_string()))?;
    Ok(Answer::ok(contract))
}

async fn change_contract(State(shared): State<Arc<Shared>>, body: Bytes) -> Answered {
    let changes: serde_json::Map<String, Value> = parse(&body)?;
    let changed = shared.contract().with(&changes).map_err(|error| AdminError::Malformed(error.to_string()))?;
    shared.set_contract(changed);
    contract(State(shared)).await
}

async fn clock(State(shared): State<Arc<Shared>>) -> Answered {
    Ok(Answer::ok(json!({ "now": rfc3339(shared.clock.now_us()) })))
}

/// How far the clock is moved.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance_ms: u64,
}

async fn advance_clock(State(shared): State<Arc<Shared>>, body: Bytes) -> Answered {
    let Advance { advance_ms } = parse(&body)?;
    if advance_ms > SPAN_MS_MAX {
        return Err(AdminError::Malformed(format!("The clock is moved {SPAN_MS_MAX} ms at most.")));
    }
    let now_us = shared.clock.advance(advance_ms);
    Ok(Answer::ok(json!({ "now": rfc3339(now_us) })))
}

async fn reset(State(shared): State<Arc<Shared>>) -> Answered {
    shared.reset()?;
    Ok(Answer::ok(json!({ "reset": true })))
}
