//! A server behind Streamable HTTP: every request is a POST, answered with JSON or with a stream of events.
//!
//! What HTTP says of a request that changes something is believed only where the server itself answered it: a status without a
//! reply, a session that is gone, a stream that was cut, say nothing about whether the tool ran.

use std::sync::Mutex;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Response, Url};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID};
use super::link::{Exchanged, Lost, MayBeSent, Outgoing, Watcher};
use super::message::{self, Incoming, Reply};
use super::sse::Events;
use crate::auth::Auth;
use crate::http::sending;
use crate::limits::{MCP_MESSAGE_BYTES_MAX, RESUME_PAUSE, RESUMES_MAX};

/// Where a server is, and as whom it is asked.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) url: Url,
    pub(crate) auth: Option<Auth>,
    pub(crate) headers: HeaderMap,
    pub(crate) client: reqwest::Client,
    pub(crate) connect_timeout: Duration,
    pub(crate) in_flight: Semaphore,
}

/// One conversation with the server: what it told to be sent along.
#[derive(Debug)]
pub(crate) struct HttpLink<'a> {
    pub(crate) address: &'a Address,
    pub(crate) version: Option<&'a str>,
    pub(crate) session: Option<&'a HeaderValue>,
}

/// What a POST that begins a session gave.
pub(crate) struct Begun {
    pub(crate) exchanged: Exchanged,
    pub(crate) session: Option<HeaderValue>,
}

impl HttpLink<'_> {
    /// Sends a request once and waits for its reply.
    pub(crate) async fn exchange(&self, outgoing: Outgoing<'_>) -> Exchanged {
        self.begin(outgoing).await.exchanged
    }

    /// The same, with the session that the answer begins.
    pub(crate) async fn begin(&self, outgoing: Outgoing<'_>) -> Begun {
        let without_session = |exchanged| Begun { exchanged, session: None };
        let Ok(Ok(_place)) = tokio::time::timeout(outgoing.within, self.address.in_flight.acquire()).await else {
            return without_session(Exchanged::NoConnection);
        };
        let Outgoing { id, message, headers, may_be_sent, within, watcher, .. } = outgoing;
        if !may_be_sent() {
            return without_session(Exchanged::TooLate);
        }
        let request = self.post(message, headers, may_be_sent, within);
        let answered = async {
            match self.address.client.execute(request).await {
                Ok(response) => {
                    let session = response.headers().get(SESSION_ID).cloned();
                    Begun { exchanged: self.read(response, id, watcher.as_ref()).await, session }
                }
                Err(error) => without_session(unanswered(&error)),
            }
        };
        // The client's own limit on connecting ends first, so that running out of this one means that it was sent.
        let patience = self.address.connect_timeout.saturating_add(within);
        tokio::time::timeout(patience, answered).await.unwrap_or(without_session(Exchanged::Lost(Lost::TimedOut)))
    }

    /// Tells the server something; whether it listens changes nothing.
    pub(crate) async fn tell(&self, message: &Value, within: Duration) {
        let request = self.post(message, HeaderMap::new(), Box::new(|| true), within);
        if let Err(error) = tokio::time::timeout(within, self.address.client.execute(request)).await {
            tracing::debug!(%error, "the server was told nothing");
        }
    }

    /// A stream of what the server tells by itself; `None` where it has none, or none any more.
    pub(crate) async fn listen(&self, within: Duration) -> Option<Response> {
        let mut request = reqwest::Request::new(Method::GET, self.address.url.clone());
        *request.headers_mut() = self.headers(HeaderMap::new(), HeaderValue::from_static("text/event-stream"));
        let response = tokio::time::timeout(within, self.address.client.execute(request)).await.ok()?.ok()?;
        (response.status() == StatusCode::OK && kind(&response) == Kind::Events).then_some(response)
    }

    /// Reads a stream to its end, telling what it has.
    pub(crate) async fn follow(&self, mut response: Response, notices: &(dyn Fn(&str, &Value) + Send + Sync)) {
        let mut events = Events::new(MCP_MESSAGE_BYTES_MAX);
        while let Ok(Some(chunk)) = response.chunk().await {
            let Ok(complete) = events.take(&chunk) else { return };
            for incoming in complete.iter().flat_map(|event| message::read(&event.data)) {
                match incoming {
                    Incoming::Notice { method, params } => notices(&method, &params),
                    Incoming::Request { id, method } => {
                        self.tell(&message::answer_to(&id, &method), self.address.connect_timeout).await;
                    }
                    Incoming::Reply { .. } | Incoming::Nothing => {}
                }
            }
        }
    }

    fn post(&self, message: &Value, headers: HeaderMap, may_be_sent: MayBeSent, within: Duration) -> reqwest::Request {
        let mut request = reqwest::Request::new(Method::POST, self.address.url.clone());
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        *request.headers_mut() = self.headers(headers, accept);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(message.to_string().into());
        *request.timeout_mut() = Some(self.address.connect_timeout.saturating_add(within));
        sending::ask_again(&mut request, may_be_sent);
        request
    }

    fn headers(&self, mut headers: HeaderMap, accept: HeaderValue) -> HeaderMap {
        for (name, value) in &self.address.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(ACCEPT, accept);
        if let Some(version) = self.version.and_then(|version| HeaderValue::from_str(version).ok()) {
            headers.insert(PROTOCOL_VERSION, version);
        }
        if let Some(session) = self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(auth) = &self.address.auth {
            headers.insert(auth.name().clone(), auth.value());
        }
        headers
    }

    async fn read(&self, response: Response, id: u64, watcher: Option<&Watcher>) -> Exchanged {
        let status = response.status();
        // A server of the session era answers so when it was started anew, or lost the session, after it ran the request as
        // well as before. What else its body says, an error with our id among it, is about the session.
        if self.session.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Exchanged::Lost(Lost::SessionGone);
        }
        match (status.is_success(), kind(&response)) {
            (true, Kind::Events) => self.read_events(response, id, watcher).await,
            (true, Kind::Json) => read_json(response, id).await,
            (true, Kind::Other) => Exchanged::Lost(Lost::Unreadable),
            // Within a session an error's status is about the session or the way there. Without one the stateless revision
            // answers what it does not take with a status of 4xx and its error as the body.
            (false, Kind::Json) if status.is_client_error() && self.session.is_none() => read_json(response, id).await,
            (false, Kind::Json | Kind::Events | Kind::Other) => {
                let exchanged = status_of(response).await;
                match self.session {
                    Some(_) if is_about_the_session(&exchanged, id) => Exchanged::Lost(Lost::SessionGone),
                    Some(_) | None => exchanged,
                }
            }
        }
    }

    /// Reads a stream until the reply, and takes it up again where the server lets that be done: to read on is no second call.
    async fn read_events(&self, response: Response, id: u64, watcher: Option<&Watcher>) -> Exchanged {
        let resume = Mutex::new(None);
        let mut stream = Some(response);
        for resumed in 0..=RESUMES_MAX {
            if let Some(response) = stream.take()
                && let Some(exchanged) = self.read_stream(response, id, watcher, &resume).await
            {
                return exchanged;
            }
            let last = resume.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            let (Some(last), Some(_), true) = (last, self.session, resumed < RESUMES_MAX) else { break };
            tokio::time::sleep(RESUME_PAUSE * (resumed + 1)).await;
            stream = self.resume(&last).await;
        }
        Exchanged::Lost(Lost::Ended)
    }

    /// `None` when the stream ended without the reply.
    async fn read_stream(
        &self,
        mut response: Response,
        id: u64,
        watcher: Option<&Watcher>,
        resume: &Mutex<Option<HeaderValue>>,
    ) -> Option<Exchanged> {
        let mut events = Events::new(MCP_MESSAGE_BYTES_MAX);
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) | Err(_) => return None,
            };
            let Ok(complete) = events.take(&chunk) else { return Some(Exchanged::Lost(Lost::Unreadable)) };
            for event in complete {
                if let Some(last) = event.id.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
                    *resume.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(last);
                }
                for incoming in message::read(&event.data) {
                    match incoming {
                        Incoming::Reply { id: replied, reply } if replied == id => {
                            return Some(Exchanged::Replied(reply));
                        }
                        Incoming::Notice { method, params } => {
                            if let Some(watcher) = watcher {
                                watcher(&method, &params);
                            }
                        }
                        Incoming::Request { id, method } => {
                            self.tell(&message::answer_to(&id, &method), self.address.connect_timeout).await;
                        }
                        Incoming::Reply { .. } | Incoming::Nothing => {}
                    }
                }
            }
        }
    }

    async fn resume(&self, last: &HeaderValue) -> Option<Response> {
        let mut request = reqwest::Request::new(Method::GET, self.address.url.clone());
        *request.headers_mut() = self.headers(HeaderMap::new(), HeaderValue::from_static("text/event-stream"));
        request.headers_mut().insert(LAST_EVENT_ID, last.clone());
        let response = self.address.client.execute(request).await.ok()?;
        (response.status() == StatusCode::OK && kind(&response) == Kind::Events).then_some(response)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Events,
    Other,
}

fn kind(response: &Response) -> Kind {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => Kind::Json,
        "text/event-stream" => Kind::Events,
        _ => Kind::Other,
    }
}

async fn read_json(response: Response, id: u64) -> Exchanged {
    let (status, headers) = (response.status(), texts(response.headers()));
    let (body, whole) = bounded(response).await;
    if !whole {
        return Exchanged::Lost(if body.len() > MCP_MESSAGE_BYTES_MAX { Lost::Unreadable } else { Lost::Ended });
    }
    let reply = message::read(&body).into_iter().find_map(|incoming| match incoming {
        Incoming::Reply { id: replied, reply } if replied == id => Some(reply),
        Incoming::Reply { .. } | Incoming::Request { .. } | Incoming::Notice { .. } | Incoming::Nothing => None,
    });
    match (reply, status.is_success()) {
        (Some(Reply::Result(_)), false) => Exchanged::Status { status: status.as_u16(), headers, body },
        (Some(reply), _) => Exchanged::Replied(reply),
        (None, true) => Exchanged::Lost(Lost::Unreadable),
        (None, false) => Exchanged::Status { status: status.as_u16(), headers, body },
    }
}

async fn status_of(response: Response) -> Exchanged {
    let (status, headers) = (response.status().as_u16(), texts(response.headers()));
    let (body, _) = bounded(response).await;
    Exchanged::Status { status, headers, body }
}

/// Whether a 400 within a session is about the session: some servers say so of one that they do not know. What a request itself
/// did wrong is an error of another kind, with the request's id.
fn is_about_the_session(exchanged: &Exchanged, id: u64) -> bool {
    const OF_A_SESSION: [i64; 3] = [-32000, -32001, -32600];
    let Exchanged::Status { status: 400, body, .. } = exchanged else { return false };
    !message::read(body).into_iter().any(|incoming| match incoming {
        Incoming::Reply { id: replied, reply: Reply::Error(error) } => {
            replied == id && !OF_A_SESSION.contains(&error.code)
        }
        Incoming::Reply { .. } | Incoming::Request { .. } | Incoming::Notice { .. } | Incoming::Nothing => false,
    })
}

/// The body, and whether that is all of it.
async fn bounded(mut response: Response) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return (body, true),
            Err(_) => return (body, false),
        }
        if body.len() > MCP_MESSAGE_BYTES_MAX {
            return (body, false);
        }
    }
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
    headers.iter().filter_map(text).collect()
}

fn unanswered(error: &reqwest::Error) -> Exchanged {
    use onceward_core::classify::{NoAnswer, Observed};
    tracing::warn!(error = sending::chain(error), "no answer");
    match sending::unanswered(error) {
        Observed::NotSent(_) => Exchanged::NoConnection,
        Observed::WriteFailed => Exchanged::Lost(Lost::WriteFailed),
        Observed::NoAnswer(NoAnswer::TimedOut) => Exchanged::Lost(Lost::TimedOut),
        // Whatever else it is, a byte may have left.
        _ => Exchanged::Lost(Lost::Ended),
    }
}
