//! Answers, and the ones that say what is wrong.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

/// What the type of a problem begins with; its code follows.
const PROBLEM: &str = "urn:onceward-sandbox:problem:";

/// What the application answers, before any fault has touched it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::new(StatusCode::OK, body)
    }

    /// A problem body: a stable code for programs, a sentence for people.
    pub(crate) fn problem(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self::new(
            status,
            json!({
                "type": format!("{PROBLEM}{code}"),
                "title": status.canonical_reason().unwrap_or("Problem"),
                "status": status.as_u16(),
                "code": code,
                "detail": detail.into(),
            }),
        )
    }

    /// The code of a problem; nothing for any other answer.
    pub(crate) fn problem_code(&self) -> Option<&str> {
        self.body.get("type")?.as_str()?.strip_prefix(PROBLEM)
    }

    /// A problem with one more member.
    pub(crate) fn saying(mut self, member: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(members) = &mut self.body {
            members.insert(member.to_owned(), value.into());
        }
        self
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::problem(StatusCode::NOT_FOUND, "not_found", format!("There is no {what}."))
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}
