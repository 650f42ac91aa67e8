//! What every HTTP request of the MCP front passes before the protocol library sees it: the credential, the size, the strict
//! reading of the body.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Reach;
use super::exchange::Exchange;
use super::limits::MESSAGE_BYTES_MAX;
use super::service::{Caller, Front, LetIn};
use super::stream::{completed, respond};
use super::strict::{self, Message, Refused, Request as Asked, Size};
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
    // Broken off, or too large; whoever broke it off does not read this.
    let Ok(body) = to_bytes(body, MESSAGE_BYTES_MAX).await else { return refusal(&Refused::too_large()) };
    if parts.method != Method::POST {
        return gate.pass(parts, Bytes::new()).await;
    }
    match strict::read(&body) {
        Ok(Message::Request(request)) => gate.answer(parts, body, request).await,
        Ok(Message::Reply(_) | Message::Notification) => gate.pass(parts, body).await,
        Err(refused) => refusal(&refused),
    }
}

impl Gate {
    /// Answers a request, with a stream where its caller takes one and there is something to tell before the result.
    async fn answer(self, mut parts: Parts, body: Bytes, request: Asked) -> Response {
        if !takes_a_stream(&parts) {
            let exchange = Exchange::plain(request);
            parts.extensions.insert(exchange.clone());
            return completed(self.pass(parts, body).await, &exchange).await;
        }
        let (exchange, messages) = Exchange::streamed(request);
        parts.extensions.insert(exchange.clone());
        respond(Box::pin(self.pass(parts, body)), exchange, messages).await
    }

    async fn pass(self, parts: Parts, body: Bytes) -> Response {
        self.service.handle(Request::from_parts(parts, Body::from(body))).await.map(Body::new)
    }
}

fn takes_a_stream(parts: &Parts) -> bool {
    let accepted = parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| matches!(kind.split(';').next().map(str::trim), Some("text/event-stream" | "text/*" | "*/*")))
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
