//! Whether the process lives, whether it can do its work, and what the API is.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::OPENAPI;
use super::answer::json as answer_json;
use crate::app::App;

/// The process lives. It says nothing about the ledger, so that a full disk is no reason to restart in a loop.
pub(super) async fn live() -> Response {
    answer_json(StatusCode::OK, &json!({ "live": true, "version": env!("CARGO_PKG_VERSION") }))
}

/// The ledger takes writes: a call can be dispatched. Its id tells two gateways on two files apart (R23).
pub(super) async fn ready(State(app): State<App>) -> Response {
    let store = app.ledger().store();
    let healthy = store.is_healthy();
    let status = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer_json(
        status,
        &json!({
            "ready": healthy,
            "ledger": { "id": store.id().0, "writable": healthy },
            "dispatches_in_flight": app.ledger().in_flight(),
            // A server that is down takes its own tools along and nothing else, so it makes nobody restart the gateway.
            "mcp_servers": app.catalog().server_status(),
            "version": env!("CARGO_PKG_VERSION"),
        }),
    )
}

pub(super) async fn openapi() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI).into_response()
}
