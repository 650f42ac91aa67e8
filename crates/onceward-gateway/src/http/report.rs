//! `/v1/report`: what observe mode saw.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use onceward_core::time::Timestamp;
use onceward_ledger::authorize::Scope;
use serde::Deserialize;

use super::answer::json as answer_json;
use super::request::{Caller, Parameters};
use crate::app::App;
use crate::problem::Problem;

/// How far back a report looks unless it is asked otherwise.
const SINCE_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportParameters {
    since: Option<String>,
}

pub(super) async fn report(
    State(app): State<App>,
    caller: Caller,
    Parameters(asked): Parameters<ReportParameters>,
) -> Result<Response, Problem> {
    let grant = caller.with(Scope::Read)?;
    let since = match asked.since.as_deref() {
        None => app.ledger().clock().now().minus(SINCE_DEFAULT),
        Some(text) => Timestamp::parse(text)
            .ok_or_else(|| Problem::invalid_request("since is a time such as 2026-11-29T00:00:00Z"))?,
    };
    Ok(answer_json(StatusCode::OK, &app.report(&grant, since).await?))
}
