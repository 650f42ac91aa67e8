//! What every HTTP request of the MCP front passes before the protocol library sees it: the credential, the size, the strict
//! reading of the body.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Reach;
use super::limits::MESSAGE_BYTES_MAX;
use super::service::{Caller, Front, LetIn};
use super::strict::{self, Message, Refused, Size};
use crate::app::App;
use crate::problem::Problem;

/// The front behind its gate.
#[derive(Clone)]
pub(crate) struct Gate {
    app: App,
    service: StreamableHttpService<Front, NeverSessionManager>,
}

impl Gate {
    pub(crate) fn new(app: App, reach: Reach) -> Self {
        // No session is kept in either era: what a call is, it carries itself, so any gateway of a ledger can answer it, before
        // and after a restart, and two requests of one id never meet.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
            .with_allowed_hosts(reach.hosts)
            .with_allowed_origins(reach.origins)
            .enforce_origin_validation();
        let front = Front::new(app.clone(), Caller::OfEachRequest);
        let service = StreamableHttpService::new(move || Ok(front.clone()), Arc::default(), config);
        Self { app, service }
    }
}

/// Lets a request in, or answers it here.
pub(crate) async fn handle(State(gate): State<Gate>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match let_in(&gate.app, &parts).await {
        Ok(grant) => parts.extensions.insert(grant),
        Err(problem) => return problem.into_response(),
    };
    let body = match (&parts.method, to_bytes(body, MESSAGE_BYTES_MAX).await) {
        (&Method::POST, Ok(body)) => match strict::read(&body) {
            Ok(Message::ToolCall(arguments)) => {
                parts.extensions.insert(arguments);
                body
            }
            Ok(Message::Other) => body,
            Err(refused) => return refusal(&refused),
        },
        (_, Ok(_)) => Bytes::new(),
        // Broken off, or too large; whoever broke it off does not read this.
        (_, Err(_)) => return refusal(&Refused::too_large()),
    };
    gate.service.handle(Request::from_parts(parts, Body::from(body))).await.map(Body::new)
}

async fn let_in(app: &App, parts: &Parts) -> Result<LetIn, Problem> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let authorization = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        // Two credentials are none: nobody guesses which one was meant.
        (None | Some(_), _) => None,
    };
    Ok(LetIn(Arc::new(app.authenticate(authorization).await?)))
}

fn refusal(refused: &Refused) -> Response {
    let status = match refused.size {
        Size::Fits => StatusCode::BAD_REQUEST,
        Size::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
    };
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], refused.to_json().to_string())
        .into_response()
}
