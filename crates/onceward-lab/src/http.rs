//! A caller as the world has them: it sends what it is told, sees whatever comes back, and may see nothing.
//!
//! It shares no code with the gateway: what is measured must not be written with the ruler.

use anyhow::{Context, Result, anyhow};
use reqwest::Method;
use serde_json::Value;

use crate::limits::CALL_WITHIN;

/// Sends requests of scenarios. It repeats nothing and follows nothing: repeating is what the scenarios are about.
#[derive(Clone, Debug)]
pub(crate) struct Http(reqwest::Client);

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// What came back, whole.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// The body as JSON; null where it is none.
    pub(crate) body: Value,
}

/// No whole answer came back. Whether anything was done is not to be seen from here, which is the whole problem.
#[derive(Clone, Debug)]
pub(crate) struct NoReply(pub(crate) String);

impl Http {
    /// A caller.
    ///
    /// # Errors
    /// When the TLS settings of this machine do not load.
    #[allow(clippy::disallowed_methods, reason = "the lab plays the agent, which is no part of the product")]
    pub(crate) fn new() -> Result<Self> {
        // An error means that the program has chosen its cryptography already, which stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            // A kept connection could hide which request lost its reply.
            .pool_max_idle_per_host(0)
            .build()
            .context("no HTTP client could be made")?;
        Ok(Self(client))
    }

    /// Sends the request once.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn send(&self, ask: Ask) -> Result<Reply, NoReply> {
        let mut request = self.0.request(ask.method, ask.url).timeout(CALL_WITHIN);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        if let Some(body) = ask.body {
            request = request.body(body);
        }
        let lost = |error: reqwest::Error| NoReply(reason(&error));
        let response = request.send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(lost)?;
        Ok(Reply { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

impl Ask {
    /// A GET.
    #[must_use]
    pub(crate) fn get(url: impl Into<String>) -> Self {
        Self { method: Method::GET, url: url.into(), headers: Vec::new(), body: None }
    }

    /// A DELETE.
    #[must_use]
    pub(crate) fn delete(url: impl Into<String>) -> Self {
        Self::get(url).method(Method::DELETE)
    }

    /// A POST of this JSON.
    #[must_use]
    pub(crate) fn post(url: impl Into<String>, body: &Value) -> Self {
        Self::get(url).method(Method::POST).raw(body.to_string().into_bytes())
    }

    /// A PUT of this JSON.
    #[must_use]
    pub(crate) fn put(url: impl Into<String>, body: &Value) -> Self {
        Self::get(url).method(Method::PUT).raw(body.to_string().into_bytes())
    }

    /// With exactly these bytes as its body, declared as JSON whether they are or not.
    #[must_use]
    pub(crate) fn raw(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self.header("Content-Type", "application/json")
    }

    /// With a header.
    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }
}

impl Reply {
    /// A text of the body, by JSON Pointer; empty where there is none.
    #[must_use]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The reply, if its status is a success.
    ///
    /// # Errors
    /// The status and body of any other.
    pub(crate) fn succeeded(self, what: &str) -> Result<Self> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(anyhow!("{what} was answered {status}: {}", self.body)),
        }
    }
}

impl std::error::Error for NoReply {}

impl std::fmt::Display for NoReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The innermost reason: the outer ones only say that sending failed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
