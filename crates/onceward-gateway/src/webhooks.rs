//! `POST /v1/webhooks/{destination}`: events that a destination delivers, as evidence about what is uncertain.
//!
//! The sender has no credential of ours; its signature is what it has. It is told what became of its event in one word, and never
//! of which operation. What is not proved to be the destination's is not even read.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use onceward_core::code::Code;
use onceward_destinations::webhook::NotHeard;
use onceward_ledger::metrics::Delivered;
use serde_json::json;

use crate::app::App;
use crate::http::read_body;
use crate::limits::{WEBHOOK_AGAIN, WEBHOOK_BODY_BYTES_MAX};
use crate::problem::{Problem, seconds};
use crate::telemetry;

/// Takes an event. It is recorded, durably, before it is answered with success.
pub(crate) async fn deliver(
    State(app): State<App>,
    Path(destination): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let webhook = app.catalog().webhook(&destination).cloned().ok_or_else(|| Problem::plain(Code::NotFound))?;
    let headers = request.headers().clone();
    let body = read_body(request, WEBHOOK_BODY_BYTES_MAX.min(app.limits().body_bytes_max)).await?;
    let now = app.ledger().clock().now();
    let count = |delivered| app.ledger().metrics().delivered(webhook.destination(), delivered);
    let signed = webhook.authenticate(&headers, &body, now).map_err(|why| {
        tracing::warn!(destination, %why, "an event is not believed");
        count(Delivered::Unauthentic);
        Problem::new(Code::Unauthenticated, "this is not signed as this destination's events are")
    })?;
    let delivered = match webhook.read(&signed, &body, now) {
        Ok(heard) => {
            let (ledger, of) = (app.ledger().clone(), app.clone());
            let recording = async move {
                ledger.evidence(&signed.proof, &heard, |tool| of.catalog().speaks_for(&destination, tool)).await
            };
            app.detached(recording).await??
        }
        Err(NotHeard::Unreadable) => Delivered::Unreadable,
        Err(NotHeard::Ignored) => Delivered::Ignored,
        Err(NotHeard::NamesNothing) => Delivered::Unmatched,
        Err(NotHeard::NamesTooMuch) => Delivered::Ambiguous,
    };
    count(delivered);
    Ok(answered(delivered))
}

/// A sender repeats whatever is not answered with success, so only what can still become something is.
fn answered(delivered: Delivered) -> Response {
    let told = |status: StatusCode| (status, axum::Json(json!({ "result": delivered.name() }))).into_response();
    match delivered {
        Delivered::Settled | Delivered::Disputed | Delivered::Candidate | Delivered::Known => told(StatusCode::OK),
        Delivered::Ignored | Delivered::Unmatched | Delivered::Ambiguous | Delivered::Unreadable => {
            told(StatusCode::ACCEPTED)
        }
        Delivered::Running => {
            let problem = Problem::new(
                Code::IllegalMove,
                "an attempt of the operation is running; deliver the event again, it is evidence once the attempt has ended",
            );
            let mut response = telemetry::with_status(problem, StatusCode::SERVICE_UNAVAILABLE);
            response.headers_mut().insert(RETRY_AFTER, seconds(WEBHOOK_AGAIN));
            response
        }
        Delivered::Unauthentic => Problem::plain(Code::Unauthenticated).into_response(),
    }
}
