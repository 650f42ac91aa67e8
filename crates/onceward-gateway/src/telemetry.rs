//! One line of log per request: method, route, status, time. Never a body, a header's value or a token.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use onceward_core::code::Code;
use tracing::Instrument as _;

use crate::app::App;
use crate::http::REPLAYED;
use crate::limits::{HEADER_BYTES_MAX, REQUEST_WITHIN};
use crate::problem::{Problem, problem_response};

/// Names one HTTP exchange in our log. It is no identity of anything: a repetition has another one.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("onceward-trace");

/// Which gateway answers: what a client tells in its own errors and logs.
const VERSION: HeaderName = HeaderName::from_static("onceward-version");

/// Logs the request and marks its answer.
pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let trace = trace_id();
    let method = request.method().clone();
    // The route as it is written in the table: an address may hold an operation id that is somebody's order number.
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    // Over MCP the result itself says whether it is a replay; a header would have to guess.
    let says_replayed = request.uri().path().starts_with("/v1/");
    let span = tracing::info_span!("request", trace, %method, route);
    async move {
        let clock = app.ledger().clock();
        let began = clock.uptime();
        let mut response = next.run(request).await;
        let headers = response.headers_mut();
        headers.insert(VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
        if says_replayed && !headers.contains_key(&REPLAYED) {
            headers.insert(REPLAYED, HeaderValue::from_static("false"));
        }
        if let Ok(trace) = HeaderValue::from_str(&trace) {
            headers.insert(TRACE, trace);
        }
        let took_ms = clock.uptime().saturating_sub(began).as_millis();
        tracing::info!(status = response.status().as_u16(), took_ms, "answered");
        response
    }
    .instrument(span)
    .await
}

/// Refuses what is too large at its head, and what is one request too many; gives up waiting for what takes too long.
pub(crate) async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    let head: usize = request.uri().to_string().len()
        + request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    if head > HEADER_BYTES_MAX {
        let problem = Problem::new(
            Code::TooLarge,
            format!("the address and headers have {head} bytes; the most is {HEADER_BYTES_MAX}"),
        );
        return with_status(problem, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    // Whoever asks whether the process lives must not be told that it is busy: it would be restarted for that.
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let Ok(_place) = app.places().clone().try_acquire_owned() else {
        let most = app.limits().requests_max;
        return Problem::new(
            Code::Overloaded,
            format!("{most} requests are under way, which is the most; nothing was sent"),
        )
        .into_response();
    };
    match tokio::time::timeout(REQUEST_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::plain(Code::Timeout).into_response(),
    }
}

/// A problem under a status that is more exact than its code's.
pub(crate) fn with_status(problem: Problem, status: StatusCode) -> Response {
    let mut body = problem.body();
    if let Some(members) = body.as_object_mut() {
        members.insert("status".to_owned(), status.as_u16().into());
    }
    problem_response(status, &body)
}

fn trace_id() -> String {
    let mut random = [0; 8];
    // A trace without a name is better than a request without an answer.
    match getrandom::fill(&mut random) {
        Ok(()) => onceward_core::hex::encode(&random),
        Err(_) => "-".to_owned(),
    }
}
