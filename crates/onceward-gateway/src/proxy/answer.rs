//! What a vendor's client is told: the stored answer as it was, or ours in the vendor's own shape (R21).
//!
//! The client decides by statuses and headers whether it tries again, and with which key. So nothing that is unsettled has a
//! status that reads as done, and whatever a repetition cannot change carries the vendor's own signal to stop.

use std::fmt::Write as _;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use onceward_core::code::{Code, Repeat};
use onceward_core::contract::{Contract, IndeterminateAnswer, Predicate};
use onceward_core::outcome::{Envelope, Outcome};
use onceward_core::pointer::Pointer;
use onceward_core::receipt::Answer;
use serde_json::Value;

use crate::http::{OPERATION_ID, OUTCOME, REPLAYED};
use crate::limits;
use crate::problem::{
    Problem, outcome_members, problem_response, retry_after, seconds, status_of_code, status_of_outcome,
};

/// How one vendor's answers look, as its contract says.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    contract: &'a Contract,
}

/// What the client's own retry loop should do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The same request with the same key: it finds the attempt that runs, or nothing was sent.
    Again,
    /// Nothing: a repetition is answered the same.
    Stop,
}

/// An answer of ours before it is written.
struct Own<'a> {
    status: StatusCode,
    code: &'a str,
    message: &'a str,
    operation: &'a str,
    advice: Advice,
    /// What the vendor's own answers of this kind have in their bodies.
    like: Option<&'a Predicate>,
}

impl<'a> Shape<'a> {
    /// The shape of a contract's vendor.
    #[must_use]
    pub const fn of(contract: &'a Contract) -> Self {
        Self { contract }
    }

    /// The answer to a write.
    pub(super) fn told(&self, envelope: &Envelope) -> Response {
        let mut response = match &envelope.answer {
            Some(answer) if shows_the_answer(envelope.outcome) => {
                let mut response = stored(answer);
                if envelope.outcome == Outcome::Rejected {
                    self.advise(response.headers_mut(), Advice::Stop);
                }
                response
            }
            Some(_) | None => self.own_outcome(envelope),
        };
        tell(response.headers_mut(), envelope);
        response
    }

    /// The answer to a request that was refused before an operation could answer it.
    pub(super) fn refused(&self, problem: &Problem) -> Response {
        let advice = match problem.code.repeat() {
            // Nothing was sent, or the same key finds what was.
            Repeat::SameIdentity | Repeat::SameIdentityOnly => Advice::Again,
            Repeat::AfterCorrection => Advice::Stop,
        };
        let own = Own {
            status: status_of_code(problem.code),
            code: problem.code.name(),
            message: &problem.detail,
            operation: "",
            advice,
            like: None,
        };
        let mut response = match self.template(Outcome::Expired) {
            Some(template) => self.written(template, &own),
            None => problem.clone().into_response(),
        };
        self.advise(response.headers_mut(), advice);
        if problem.code.repeat() == Repeat::SameIdentity {
            response.headers_mut().insert(RETRY_AFTER, seconds(limits::RETRY_AFTER));
        }
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("false"));
        response
    }

    fn own_outcome(&self, envelope: &Envelope) -> Response {
        let outcome = envelope.outcome;
        let (status, advice) = (self.status(outcome), advice(outcome));
        let own = Own {
            status,
            code: outcome.name(),
            message: &envelope.message,
            operation: envelope.operation_id.as_ref().map_or("", |id| id.as_str()),
            advice,
            like: self.like(outcome),
        };
        let mut response = match self.template(outcome) {
            Some(template) => self.written(template, &own),
            None => {
                let mut members = outcome_members(outcome, &envelope.message);
                members.insert("status".to_owned(), status.as_u16().into());
                members.insert("operation_id".to_owned(), own.operation.into());
                problem_response(status, &members)
            }
        };
        self.advise(response.headers_mut(), advice);
        if let Some(after) = retry_after(outcome) {
            response.headers_mut().insert(RETRY_AFTER, seconds(after));
        }
        response
    }

    /// The status of an answer of ours: the vendor's own where it has one for the case.
    #[must_use]
    pub fn status(&self, outcome: Outcome) -> StatusCode {
        let named = match outcome {
            Outcome::Unknown => self.contract.indeterminate.as_ref().map(|answer| answer.status),
            Outcome::Conflict => self.contract.other_input.statuses.first().copied(),
            Outcome::InProgress => self.contract.in_flight.statuses.first().copied(),
            // Done, with nothing left to show for it: never a status that reads as refused and free to try anew.
            Outcome::Executed | Outcome::Replayed | Outcome::Recovered => return StatusCode::CONFLICT,
            Outcome::Rejected
            | Outcome::Closed
            | Outcome::ApprovalRequired
            | Outcome::PossibleDuplicate
            | Outcome::NotDispatched
            | Outcome::Expired => None,
        };
        let named = named.and_then(|status| StatusCode::from_u16(status).ok());
        named
            .filter(|status| status.is_client_error() || status.is_server_error())
            .unwrap_or(status_of_outcome(outcome))
    }

    /// How the vendor's own answers of the same kind are recognised: ours should be, too.
    const fn like(&self, outcome: Outcome) -> Option<&'a Predicate> {
        match outcome {
            Outcome::Conflict => self.contract.other_input.when.as_ref(),
            Outcome::InProgress => self.contract.in_flight.when.as_ref(),
            Outcome::Executed
            | Outcome::Replayed
            | Outcome::Recovered
            | Outcome::Unknown
            | Outcome::Rejected
            | Outcome::Closed
            | Outcome::ApprovalRequired
            | Outcome::PossibleDuplicate
            | Outcome::NotDispatched
            | Outcome::Expired => None,
        }
    }

    /// The vendor's error shape. One that has no place for another code is made for an unknown alone.
    fn template(&self, outcome: Outcome) -> Option<&'a IndeterminateAnswer> {
        let template = self.contract.indeterminate.as_ref()?;
        (outcome == Outcome::Unknown || template.body.contains("{code}")).then_some(template)
    }

    fn written(&self, template: &IndeterminateAnswer, own: &Own<'_>) -> Response {
        let mut body = filled(&template.body, own);
        if let (Some(like), Ok(mut document)) = (own.like, serde_json::from_str::<Value>(&body)) {
            resemble(&mut document, like);
            body = document.to_string();
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = own.status;
        for (name, value) in &template.headers {
            // The stop signal is put in where it belongs, and nowhere else.
            let hint = self.contract.retry_hint.as_ref().is_some_and(|hint| hint.header.eq_ignore_ascii_case(name));
            if hint && own.advice == Advice::Again {
                continue;
            }
            insert(response.headers_mut(), name, value);
        }
        response
    }

    /// The vendor's own word for "try again" or "do not".
    fn advise(&self, headers: &mut HeaderMap, advice: Advice) {
        if let Some(hint) = &self.contract.retry_hint {
            let word = match advice {
                Advice::Again => &hint.again,
                Advice::Stop => &hint.stop,
            };
            insert(headers, &hint.header, word);
        }
    }
}

/// What a client's retry loop should do about an outcome.
#[must_use]
pub const fn advice(outcome: Outcome) -> Advice {
    match outcome {
        Outcome::InProgress | Outcome::NotDispatched => Advice::Again,
        Outcome::Executed
        | Outcome::Replayed
        | Outcome::Recovered
        | Outcome::Unknown
        | Outcome::Rejected
        | Outcome::Closed
        | Outcome::Conflict
        | Outcome::ApprovalRequired
        | Outcome::PossibleDuplicate
        | Outcome::Expired => Advice::Stop,
    }
}

/// Whether the destination's answer itself is what the client gets. A held repetition is not: it must not read as done.
const fn shows_the_answer(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Executed | Outcome::Replayed | Outcome::Recovered | Outcome::Rejected => true,
        Outcome::InProgress
        | Outcome::Unknown
        | Outcome::Closed
        | Outcome::Conflict
        | Outcome::ApprovalRequired
        | Outcome::PossibleDuplicate
        | Outcome::NotDispatched
        | Outcome::Expired => false,
    }
}

/// A stored answer, byte for byte. Its headers were chosen when it was stored.
fn stored(answer: &Answer) -> Response {
    passed(answer.clone())
}

/// An answer that passes through.
pub(super) fn passed(answer: Answer) -> Response {
    let Answer { status, headers, body } = answer;
    let mut response = Response::new(Body::from(body));
    // A status that is none would be a fault of the destination's.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            // Whoever decided once about a stored answer may have been wrong about this one.
            if name != http::header::SET_COOKIE {
                response.headers_mut().append(name, value);
            }
        }
    }
    response
}

/// The answer to a write that is only observed: the vendor's own as it came, or the nearest to none that HTTP has, so that the client
/// goes on as it would without us.
pub(super) fn forwarded(envelope: &Envelope) -> Response {
    let mut response = match &envelope.answer {
        Some(answer) => passed(answer.clone()),
        None => {
            let message = "The gateway only observes, and no answer came from the destination.";
            let mut members = outcome_members(envelope.outcome, message);
            members.insert("status".to_owned(), StatusCode::BAD_GATEWAY.as_u16().into());
            problem_response(StatusCode::BAD_GATEWAY, &members)
        }
    };
    tell(response.headers_mut(), envelope);
    response
}

fn tell(headers: &mut HeaderMap, envelope: &Envelope) {
    headers.insert(REPLAYED, HeaderValue::from_static(if envelope.replayed { "true" } else { "false" }));
    headers.insert(OUTCOME, HeaderValue::from_static(envelope.outcome.name()));
    if let Some(Ok(id)) = envelope.operation_id.as_ref().map(|id| HeaderValue::from_str(id.as_str())) {
        headers.insert(OPERATION_ID, id);
    }
}

/// The template with its placeholders filled in one pass: a message that holds a placeholder is a message.
fn filled(template: &str, own: &Own<'_>) -> String {
    let mut text = String::with_capacity(template.len() + own.message.len());
    let status = own.status.as_str();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let words =
            [("{operation_id}", own.operation), ("{message}", own.message), ("{code}", own.code), ("{status}", status)];
        match words.into_iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
            Some((placeholder, word)) => {
                text.push_str(&escaped(word));
                rest = &rest[placeholder.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// As a text stands inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Puts into a body what the vendor's clients recognise such an answer by, where that is a value at a place.
fn resemble(document: &mut Value, like: &Predicate) {
    match like {
        Predicate::BodyEquals(wanted) => put(document, &wanted.at, wanted.value.clone()),
        Predicate::BodyIn(wanted) => {
            if let Some(first) = wanted.values.first() {
                put(document, &wanted.at, first.clone());
            }
        }
        Predicate::AllOf(all) => all.iter().for_each(|one| resemble(document, one)),
        Predicate::AnyOf(any) => any.iter().take(1).for_each(|one| resemble(document, one)),
        // Statuses are chosen elsewhere; words in a text are the vendor's own to write.
        _ => {}
    }
}

fn put(document: &mut Value, at: &Pointer, value: Value) {
    let Some((last, around)) = at.tokens().split_last() else { return };
    let mut slot = document;
    for token in around {
        match slot.get_mut(token.as_str()) {
            Some(inner) => slot = inner,
            None => return,
        }
    }
    if let Some(members) = slot.as_object_mut() {
        members.insert(last.clone(), value);
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// The table of docs/proxy.md: what a vendor's client is told, for contracts of three kinds.
#[must_use]
pub fn table(contracts: &[&Contract]) -> String {
    let names: Vec<String> = contracts.iter().map(|contract| format!("`{}`", contract.id)).collect();
    let mut text =
        format!("| outcome | {} | its retry loop |\n|---|{}---|\n", names.join(" | "), "---|".repeat(names.len()));
    for outcome in Outcome::ALL {
        let cells: Vec<String> = contracts
            .iter()
            .map(|contract| {
                if shows_the_answer(outcome) {
                    return "the stored answer".to_owned();
                }
                let shape = Shape::of(contract);
                let form = if shape.template(outcome).is_some() { "the vendor's" } else { "problem" };
                format!("{} {form}", shape.status(outcome).as_u16())
            })
            .collect();
        let advised = match advice(outcome) {
            _ if outcome.is_success() => "ends",
            Advice::Again => "repeats the same key",
            Advice::Stop => "is told to stop",
        };
        let _ = writeln!(text, "| `{}` | {} | {advised} |", outcome.name(), cells.join(" | "));
    }
    let refused = [Code::Unauthenticated, Code::UnknownTool, Code::InvalidRequest]
        .map(|code| status_of_code(code).as_u16().to_string())
        .join(", ");
    let cells = vec![refused; contracts.len()].join(" | ");
    let _ = writeln!(text, "| refused: no credential, not permitted, malformed | {cells} | is told to stop |");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(id: &str) -> Contract {
        onceward_core::contract::built_in().unwrap().into_iter().find(|contract| contract.id == id).unwrap()
    }

    fn own<'a>(message: &'a str, like: Option<&'a Predicate>) -> Own<'a> {
        Own {
            status: StatusCode::CONFLICT,
            code: "conflict",
            message,
            operation: "op-\"1\"",
            advice: Advice::Stop,
            like,
        }
    }

    #[test]
    fn no_outcome_but_a_stored_answer_reads_as_done_under_any_contract() {
        for contract in onceward_core::contract::built_in().unwrap() {
            for outcome in Outcome::ALL {
                let status = Shape::of(&contract).status(outcome);
                assert!(status.is_client_error() || status.is_server_error(), "{} {outcome:?}", contract.id);
            }
        }
    }

    #[test]
    fn a_message_is_escaped_and_its_braces_are_words() {
        let text = filled(r#"{"m":"{message}","o":"{operation_id}"}"#, &own("say \"{code}\"\n", None));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, serde_json::json!({ "m": "say \"{code}\"\n", "o": "op-\"1\"" }));
    }

    /// A problem body that names its status names the one that it is sent with, under every contract.
    #[test]
    fn every_vendors_shape_is_whole_for_every_outcome() {
        for contract in onceward_core::contract::built_in().unwrap() {
            let Some(template) = &contract.indeterminate else { continue };
            for status in [StatusCode::CONFLICT, StatusCode::GONE, StatusCode::SERVICE_UNAVAILABLE] {
                let own = Own { status, ..own("m", None) };
                if let Ok(body) = serde_json::from_str::<Value>(&filled(&template.body, &own)) {
                    let named = body.get("status").or(body.get("statusCode")).map(Value::to_string);
                    assert!(
                        named.is_none_or(|named| named.trim_matches('"') == status.as_str()),
                        "{} {body}",
                        contract.id
                    );
                } else {
                    panic!("{}: {}", contract.id, template.body);
                }
            }
        }
    }

    #[test]
    fn a_conflict_looks_like_the_vendors_own() {
        let stripe = built_in("stripe.v1");
        let shape = Shape::of(&stripe);
        let like = shape.like(Outcome::Conflict);
        let response = shape.written(shape.template(Outcome::Conflict).unwrap(), &own("other", like));
        assert_eq!(response.headers()["stripe-should-retry"], "false");
        let mut document = serde_json::json!({ "error": { "type": "api_error" } });
        resemble(&mut document, like.unwrap());
        assert_eq!(document["error"]["type"], "idempotency_error");
    }

    #[test]
    fn the_document_has_the_table_that_the_code_makes() {
        let contracts = [built_in("stripe.v1"), built_in("ietf.idempotency_key"), built_in("none")];
        let table = table(&contracts.each_ref());
        let document = include_str!("../../../../docs/proxy.md");
        assert!(document.contains(&table), "docs/proxy.md is stale; its table should read:\n{table}");
    }
}
