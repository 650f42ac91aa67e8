//! From an envelope to an HTTP answer: the same facts in the body and, for machines between, in headers.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use onceward_core::outcome::Envelope;
use onceward_core::receipt::Answer;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::problem::{outcome_members, problem_response, retry_after, seconds, status_of_outcome};

/// Says on every answer whether an earlier call had made it.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The operation that an answer is about.
pub(crate) const OPERATION_ID: HeaderName = HeaderName::from_static("onceward-operation-id");
/// How the call ended.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("onceward-outcome");

/// A destination's answer as JSON carries it.
#[derive(Debug, Serialize)]
pub(crate) struct AnswerView {
    status: u16,
    headers: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl AnswerView {
    /// JSON is passed on as it was written, digit for digit; other text as text; what is no text as base64.
    pub(crate) fn of(answer: &Answer) -> Self {
        let mut headers = serde_json::Map::new();
        for (name, value) in &answer.headers {
            let name = name.to_ascii_lowercase();
            let joined = match headers.get(&name).and_then(serde_json::Value::as_str) {
                Some(earlier) => format!("{earlier}, {value}"),
                None => value.clone(),
            };
            headers.insert(name, joined.into());
        }
        let mut view = Self { status: answer.status, headers, body: None, body_text: None, body_base64: None };
        match std::str::from_utf8(&answer.body) {
            Ok("") => {}
            Ok(text) => match RawValue::from_string(text.to_owned()) {
                Ok(raw) => view.body = Some(raw),
                Err(_) => view.body_text = Some(text.to_owned()),
            },
            Err(_) => view.body_base64 = Some(base64::engine::general_purpose::STANDARD.encode(&answer.body)),
        }
        view
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    problem: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    envelope: &'a Envelope,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<AnswerView>,
}

/// The answer to a call: the envelope, and the receipt in it where there is one.
pub(super) fn told(envelope: &Envelope) -> Response {
    let outcome = envelope.outcome;
    let receipt = envelope.answer.as_ref().map(AnswerView::of);
    let status = status_of_outcome(outcome);
    let response = if outcome.is_success() {
        json(status, &Told { problem: serde_json::Map::new(), envelope, receipt })
    } else {
        let problem = outcome_members(outcome, &envelope.message);
        problem_response(status, &Told { problem, envelope, receipt })
    };
    with_headers(response, envelope)
}

/// The answer to a call that is kept, and sent later.
pub(super) fn accepted(envelope: &Envelope) -> Response {
    let told = Told { problem: serde_json::Map::new(), envelope, receipt: None };
    with_headers(json(StatusCode::ACCEPTED, &told), envelope)
}

fn with_headers(mut response: Response, envelope: &Envelope) -> Response {
    let outcome = envelope.outcome;
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static(if envelope.replayed { "true" } else { "false" }));
    headers.insert(OUTCOME, HeaderValue::from_static(outcome.name()));
    if let Some(id) = &envelope.operation_id
        && let Ok(id) = HeaderValue::from_str(id.as_str())
    {
        headers.insert(OPERATION_ID, id);
    }
    if let Some(after) = retry_after(outcome) {
        headers.insert(RETRY_AFTER, seconds(after));
    }
    response
}

/// An answer with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            crate::problem::Problem::plain(onceward_core::code::Code::Internal).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(body: &[u8]) -> String {
        let headers = vec![("Link".to_owned(), "<a>".to_owned()), ("link".to_owned(), "<b>".to_owned())];
        serde_json::to_string(&AnswerView::of(&Answer { status: 201, headers, body: body.to_vec() })).unwrap()
    }

    #[test]
    fn a_body_is_passed_on_as_it_was_written() {
        let json = view(br#"{"n":1.10,"big":12345678901234567890}"#);
        assert!(json.contains(r#""body":{"n":1.10,"big":12345678901234567890}"#), "{json}");
        assert!(view(b"plain words").contains(r#""body_text":"plain words""#));
        assert!(view(b"\xff\x00").contains(r#""body_base64":"/wA=""#));
        assert!(!view(b"").contains("body"));
    }

    #[test]
    fn headers_of_one_name_are_joined() {
        assert!(view(b"").contains(r#""link":"<a>, <b>""#));
    }
}
