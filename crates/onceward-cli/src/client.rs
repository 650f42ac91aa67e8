//! Talks to a running gateway.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use onceward_destinations::client::{ClientSettings, client};
use onceward_ledger::clock::SystemClock;
use reqwest::Method;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::limits::{ANSWER_WITHIN, CONNECT_WITHIN};

/// Which gateway, and as whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connection {
    /// Where the gateway listens
    #[arg(long, env = "ONCEWARD_URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// The token. On a shared machine use --token-file or ONCEWARD_TOKEN: a command line can be read by others
    #[arg(long, env = "ONCEWARD_TOKEN", hide_env_values = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// A file that holds the token
    #[arg(long, env = "ONCEWARD_TOKEN_FILE", value_name = "PATH")]
    token_file: Option<PathBuf>,
}

/// An answer of the gateway.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// A gateway and a token for it.
#[derive(Debug)]
pub(crate) struct Gateway {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Connection {
    /// A client of this gateway. Nothing is sent yet.
    pub(crate) fn open(&self) -> Result<Gateway, Failure> {
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(path)) => std::fs::read_to_string(path).map_err(|error| {
                Failure::new(Exit::Usage, format!("the token file {} cannot be read: {error}", path.display()))
            })?,
            (None, None) => {
                return Err(Failure::new(Exit::Usage, "this needs a token")
                    .next("Set ONCEWARD_TOKEN, or give --token-file PATH. `onceward serve` prints its tokens at the first start."));
            }
        };
        let settings =
            ClientSettings { connect_timeout: CONNECT_WITHIN, idle_connections: 1, clock: Arc::new(SystemClock) };
        let http = client(settings).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let url = self.url.trim_end_matches('/').to_owned();
        Ok(Gateway { http, url, token: token.trim().to_owned() })
    }
}

impl Gateway {
    pub(crate) async fn get(&self, path: &str) -> Result<Reply, Failure> {
        self.send(Method::GET, path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.send(Method::POST, path, Some(body), None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Reply, Failure> {
        self.send(Method::DELETE, path, None, None).await
    }

    /// A request about an operation that is named by the header.
    pub(crate) async fn post_as(&self, path: &str, body: &Value, operation_id: &str) -> Result<Reply, Failure> {
        self.send(Method::POST, path, Some(body), Some(operation_id)).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        operation_id: Option<&str>,
    ) -> Result<Reply, Failure> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.url)).timeout(ANSWER_WITHIN).bearer_auth(&self.token);
        if let Some(id) = operation_id {
            request = request.header("Idempotency-Key", quoted(id));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.no_answer(&error))?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|error| self.no_answer(&error))?;
        let body = serde_json::from_slice(&bytes).map_err(|_| {
            Failure::new(
                Exit::Failed,
                format!("{} answered {status} and no JSON; is it a gateway of Onceward?", self.url),
            )
        })?;
        Ok(Reply { status, body })
    }

    fn no_answer(&self, error: &reqwest::Error) -> Failure {
        if error.is_connect() {
            return Failure::new(Exit::Unreachable, format!("no gateway answers at {}", self.url))
                .not("Nothing was sent.")
                .next("Start one with `onceward serve`, or name another with --url.");
        }
        if error.is_builder() {
            return Failure::new(
                Exit::Usage,
                format!("{:?} is no address of a gateway, or the token no token", self.url),
            );
        }
        Failure::new(Exit::Unresolved, format!("the gateway at {} did not answer to the end", self.url))
            .not("It may have done what was asked.")
            .next("Repeat the same command: with the same operation id it finds what became of it.")
    }
}

/// An operation id as a structured string, so that every character that it may have is safe in a header.
fn quoted(id: &str) -> String {
    format!("\"{}\"", id.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Reply {
    /// The reply, if its status is a success; otherwise what the gateway says about it.
    pub(crate) fn succeeded(self) -> Result<Value, Failure> {
        match self.status {
            200..=299 => Ok(self.body),
            _ => Err(self.failure()),
        }
    }

    /// The gateway's refusal, in its own words.
    pub(crate) fn failure(&self) -> Failure {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default().to_owned();
        let code = text("code");
        let (exit, next) = match (self.status, code.as_str()) {
            (401, _) => (Exit::Refused, "The token is unknown or was revoked; make one with `onceward token create`."),
            (403, _) => (Exit::Refused, "This needs another token: agents call, operators decide and approve."),
            (404, _) => (Exit::Refused, "Check the name. What a token may not see is answered in the same way."),
            (409, "moved") => (Exit::Refused, "Look again with `onceward decide ID`, and decide on what is there now."),
            (409, "illegal_move") => (Exit::Refused, "See where it stands with `onceward operations show`."),
            (429 | 503, _) => (Exit::Unreachable, "The same may be tried again."),
            (500..=599, _) => (Exit::Failed, "The gateway's log has more."),
            (_, _) => (Exit::Refused, ""),
        };
        let what = match (text("detail"), code.as_str()) {
            (detail, "") if detail.is_empty() => format!("the gateway answered {}", self.status),
            (detail, "") => detail,
            (detail, code) => format!("{detail} ({code})"),
        };
        let failure = Failure::new(exit, what);
        if next.is_empty() { failure } else { failure.next(next) }
    }
}

/// A path segment, with everything encoded that could end it.
pub(crate) fn segment(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_id_stays_one_path_segment_and_one_header_string() {
        assert_eq!(segment("a/../b?c"), "a%2F..%2Fb%3Fc");
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
    }

    #[test]
    fn a_refusal_tells_denied_from_busy() {
        let reply = |status, code: &str| Reply { status, body: serde_json::json!({ "code": code, "detail": "d" }) };
        assert_eq!(reply(403, "denied").failure().exit, Exit::Refused);
        assert_eq!(reply(503, "ledger_busy").failure().exit, Exit::Unreachable);
        assert_eq!(reply(500, "internal").failure().exit, Exit::Failed);
    }
}
