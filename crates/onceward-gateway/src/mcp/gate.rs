//! What every HTTP request of the MCP front passes before the protocol library sees it: the credential, the size, the strict
//! reading of the body.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Reach;
use super::exchange::Exchange;
use super::limits::MESSAGE_BYTES_MAX;
use super::questions::{Delivered, can_be_asked, id_of, of_id};
use super::service::{Caller, Front, LetIn};
use super::stream::{completed, respond, told};
use super::strict::{self, Message, Refused, Request as Asked, Size};
use crate::app::App;
use crate::problem::Problem;

/// What a client of the session era sends with every request after its handshake.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The front behind its gate.
#[derive(Clone)]
pub(crate) struct Gate {
    app: App,
    front: Front,
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
        let own = front.clone();
        let service = StreamableHttpService::new(move || Ok(own.clone()), Arc::default(), config);
        Self { app, front, service }
    }
}

/// Lets a request in, or answers it here.
pub(crate) async fn handle(State(gate): State<Gate>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let grant = match let_in(&gate.app, &parts).await {
        Ok(LetIn(grant)) => grant,
        Err(problem) => return problem.into_response(),
    };
    parts.extensions.insert(LetIn(Arc::clone(&grant)));
    // Broken off, or too large; whoever broke it off does not read this.
    let Ok(body) = to_bytes(body, MESSAGE_BYTES_MAX).await else { return refusal(&Refused::too_large()) };
    if parts.method != Method::POST {
        let own = parts.method == Method::GET && takes_a_stream(&parts);
        let refused = gate.clone().pass(parts, Bytes::new()).await;
        // The library has looked at host and origin, and has no stream of its own to give.
        return match (own, refused.status()) {
            (true, StatusCode::METHOD_NOT_ALLOWED) if !gate.front.servers().is_empty() => {
                told(gate.front.notices_for(&grant))
            }
            (_, _) => refused,
        };
    }
    match strict::read(&body) {
        Ok(Message::Request(request)) => gate.answer(parts, body, request).await,
        Ok(Message::Reply(reply)) => match gate.front.questions.answer(&grant, reply) {
            Delivered::Taken => StatusCode::ACCEPTED.into_response(),
            Delivered::NoSuchQuestion => gate.pass(parts, body).await,
        },
        Ok(Message::Notification(_)) => gate.pass(parts, body).await,
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
        let greeted =
            (request.method == "initialize").then(|| id_of(&can_be_asked(&request.params["capabilities"]))).flatten();
        let id = parts.headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let (exchange, messages) = Exchange::streamed(request, of_id(id));
        parts.extensions.insert(exchange.clone());
        let mut response = respond(Box::pin(self.pass(parts, body)), exchange, messages).await;
        if let (Some(id), StatusCode::OK) = (greeted.and_then(|id| HeaderValue::from_str(&id).ok()), response.status())
        {
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
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
