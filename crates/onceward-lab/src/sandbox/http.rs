//! The routes of the destination itself.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::{Map, Value, json};

use super::admin;
use super::clock::span_us;
use super::contract::KeyHeader;
use super::create::{Creation, create};
use super::family;
use super::in_flight::AccountKey;
use super::limits::{BODY_BYTES_MAX, LIST_ROWS_DEFAULT, LIST_ROWS_MAX};
use super::problem::Answer;
use super::resource::Resource;
use super::state::Shared;
use super::store::StoreError;
use super::visit::{BeforeCommit, Visit, attend};
use super::wire::Scissors;

/// All routes: the destination's, and the auditor's beside them.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(describe))
        .route("/healthz", get(healthy))
        .route("/{resource}", post(create_thing).get(list_things))
        .route("/{resource}/{id}", get(show_thing))
        .route("/{resource}/{id}/{verb}", post(change_thing))
        .merge(admin::routes())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        // Whether another interface is spoken is decided for each request: it can be changed while the sandbox runs.
        .fallback(nothing_here)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), family::divert))
        .with_state(shared)
}

async fn nothing_here() -> Answer {
    Answer::not_found("such path")
}

async fn healthy() -> &'static str {
    "ok\n"
}

async fn describe() -> Response<Body> {
    axum::Json(json!({
        "name": "onceward sandbox",
        "resources": Resource::ALL.map(Resource::name),
        "auditor": ["/admin/effects", "/admin/requests", "/admin/faults", "/admin/contract", "/admin/clock", "/admin/reset"],
    }))
    .into_response()
}

async fn create_thing(
    State(shared): State<Arc<Shared>>,
    Extension(scissors): Extension<Scissors>,
    Path(name): Path<String>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Response<Body> {
    let resource = Resource::from_name(&name);
    attend(&shared, &scissors, &parts, resource, BeforeCommit::OwnPoint, async |visit: &Visit| {
        let Some(resource) = resource else {
            return Ok(Answer::not_found("such resource"));
        };
        match read(resource, &parts, body) {
            Ok(fields) => create(&shared, &creation(resource, visit, fields)).await,
            Err(refusal) => Ok(refusal),
        }
    })
    .await
}

fn creation(resource: Resource, visit: &Visit, fields: Map<String, Value>) -> Creation {
    let reference = fields.get("reference").and_then(Value::as_str).map(str::to_owned);
    let key = match &visit.contract.key_header {
        KeyHeader::None => None,
        KeyHeader::Named(_) => visit.received_key.clone(),
    };
    Creation {
        epoch: visit.epoch,
        resource,
        account: visit.account.clone(),
        received_key: visit.received_key.clone(),
        key: key.map(|key| AccountKey { account: visit.account.clone(), key }),
        marker: visit.header_marker.clone().or(reference),
        fingerprint: resource.fingerprint(&fields),
        fields,
        contract: visit.contract.clone(),
        fault: visit.fault,
    }
}

/// The fields of a request for this resource, or its refusal.
fn read(resource: Resource, parts: &Parts, body: Result<Bytes, BytesRejection>) -> Result<Map<String, Value>, Answer> {
    let body = body.map_err(|rejection| {
        let status = rejection.status();
        let code = if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "unreadable" };
        Answer::problem(status, code, rejection.body_text())
    })?;
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        let detail = format!("{kind:?} is not application/json.");
        return Err(Answer::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
    }
    resource.read(&body)
}

async fn list_things(
    State(shared): State<Arc<Shared>>,
    Extension(scissors): Extension<Scissors>,
    Path(name): Path<String>,
    parts: Parts,
) -> Response<Body> {
    let resource = Resource::from_name(&name);
    attend(&shared, &scissors, &parts, resource, BeforeCommit::AtOnce, async |visit: &Visit| match resource {
        Some(resource) => list(&shared, visit, resource, parts.uri.query().unwrap_or_default()),
        None => Ok(Answer::not_found("such resource")),
    })
    .await
}

/// The query of a list.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    marker: Option<String>,
    limit: Option<usize>,
}

fn list(shared: &Shared, visit: &Visit, resource: Resource, query: &str) -> Result<Answer, StoreError> {
    let uri = format!("/?{query}").parse::<axum::http::Uri>().unwrap_or_default();
    let query = match axum::extract::Query::<ListQuery>::try_from_uri(&uri) {
        Ok(query) => query.0,
        Err(rejection) => {
            return Ok(Answer::problem(StatusCode::BAD_REQUEST, "malformed", rejection.body_text()));
        }
    };
    let limit = query.limit.unwrap_or(LIST_ROWS_DEFAULT);
    if !(1..=LIST_ROWS_MAX).contains(&limit) {
        let detail = format!("A limit is 1 to {LIST_ROWS_MAX}.");
        return Ok(Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail));
    }
    let now_us = shared.clock.now_us();
    let visible_until_us = now_us - span_us(visit.contract.list_visibility_ms);
    let mut found = shared.store.list(&visit.account, resource, query.marker.as_deref(), visible_until_us, limit)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let rows: Vec<Value> = found.iter().map(|effect| effect.view(now_us)).collect();
    Ok(Answer::ok(json!({ resource.name(): rows, "has_more": has_more })))
}

async fn show_thing(
    State(shared): State<Arc<Shared>>,
    Extension(scissors): Extension<Scissors>,
    Path((name, id)): Path<(String, String)>,
    parts: Parts,
) -> Response<Body> {
    let resource = Resource::from_name(&name);
    attend(&shared, &scissors, &parts, resource, BeforeCommit::AtOnce, async |visit: &Visit| {
        let found = match resource {
            Some(resource) => match resource.number(&id) {
                Some(number) => shared.store.find(&visit.account, resource, number)?,
                None => None,
            },
            None => None,
        };
        Ok(found.map_or_else(
            || Answer::not_found(&format!("{name}/{id}")),
            |effect| Answer::ok(effect.view(shared.clock.now_us())),
        ))
    })
    .await
}

async fn change_thing(
    State(shared): State<Arc<Shared>>,
    Extension(scissors): Extension<Scissors>,
    Path((name, id, verb)): Path<(String, String, String)>,
    parts: Parts,
) -> Response<Body> {
    let resource = Resource::from_name(&name);
    attend(&shared, &scissors, &parts, resource, BeforeCommit::AtOnce, async |visit: &Visit| {
        change(&shared, visit, resource, &id, &verb)
    })
    .await
}

fn change(
    shared: &Shared,
    visit: &Visit,
    resource: Option<Resource>,
    id: &str,
    verb: &str,
) -> Result<Answer, StoreError> {
    let missing = || Answer::not_found("such thing, or nothing that can be done to it by that name");
    let Some((resource, change)) =
        resource.and_then(|resource| Some((resource, resource.change()?))).filter(|(_, change)| change.verb == verb)
    else {
        return Ok(missing());
    };
    let Some(number) = resource.number(id) else {
        return Ok(missing());
    };
    let Some(effect) = shared.store.find(&visit.account, resource, number)? else {
        return Ok(missing());
    };
    let now_us = shared.clock.now_us();
    let changed = shared.store.change(visit.epoch, &effect, change, now_us)?;
    Ok(changed.map_or_else(missing, |effect| Answer::ok(effect.view(now_us))))
}
