//! A response that becomes a stream as soon as there is something to tell before the result.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use axum::body::{Body, to_bytes};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exchange::Exchange;
use super::limits::{KEEP_ALIVE_EVERY, RESPONSE_BYTES_MAX};
use super::listen::OwnNotices;

type Handled = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Waits for the response of the protocol library. One JSON answer where nothing was told before it, else a stream that ends
/// with it. Whoever drops the response ends the wait and nothing else.
pub(crate) async fn respond(mut handled: Handled, exchange: Exchange, mut messages: mpsc::Receiver<Value>) -> Response {
    tokio::select! {
        biased;
        Some(first) = messages.recv() => {
            let telling = Telling { handled: Some(handled), exchange, messages, ahead: VecDeque::from([first.to_string()]) };
            let events = stream::unfold(telling, Telling::next);
            Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY)).into_response()
        }
        response = &mut handled => completed(response, &exchange).await,
    }
}

/// A stream of what a caller of the session era hears by itself, for as long as it listens.
pub(crate) fn told(notices: OwnNotices) -> Response {
    let events = stream::unfold(notices, |mut notices| async move {
        let message = notices.next().await;
        Some((Ok::<_, Infallible>(Event::default().event("message").data(message.to_string())), notices))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY)).into_response()
}

/// The library's response, with the result that the handler set.
pub(crate) async fn completed(response: Response, exchange: &Exchange) -> Response {
    if !exchange.is_answered() || !is_json(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = message(body, exchange).await;
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body))
}

struct Telling {
    /// Until it has answered.
    handled: Option<Handled>,
    exchange: Exchange,
    messages: mpsc::Receiver<Value>,
    ahead: VecDeque<String>,
}

impl Telling {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.ahead.is_empty() {
            self.wait().await?;
        }
        let message = self.ahead.pop_front()?;
        Some((Ok(Event::default().event("message").data(message)), self))
    }

    /// Waits for what is to be told next; `None` after the result.
    async fn wait(&mut self) -> Option<()> {
        let handled = self.handled.as_mut()?;
        tokio::select! {
            biased;
            Some(message) = self.messages.recv() => self.ahead.push_back(message.to_string()),
            response = handled => {
                self.handled = None;
                // What was told while the result was on its way belongs before it.
                while let Ok(message) = self.messages.try_recv() {
                    self.ahead.push_back(message.to_string());
                }
                let last = message(response.into_body(), &self.exchange).await;
                self.ahead.push_back(last);
            }
        }
        Some(())
    }
}

async fn message(body: Body, exchange: &Exchange) -> String {
    let read = to_bytes(body, RESPONSE_BYTES_MAX).await.ok();
    let response: Option<Value> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let none =
        || json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "no response was made" } });
    exchange.complete(&response.unwrap_or_else(none))
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}
