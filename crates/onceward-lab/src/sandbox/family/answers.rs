//! Answers in the vendor's shape, as far as the contract's conditions and places look at them.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use onceward_core::contract::{Contract, Locator, Meaning, Predicate};
use onceward_core::pointer::Pointer;
use serde_json::{Value, json};

use super::draft::{Draft, put, put_at};
use super::stripe;
use super::things::{Vendor, envelope};
use crate::sandbox::problem::Answer;
use crate::sandbox::store::Effect;

/// Numbers answers, for vendors that name each one.
static ANSWERS: AtomicU64 = AtomicU64::new(1);

/// The code of a refusal that says that the thing exists already. Its member `existing` is the thing's name.
pub(crate) const DUPLICATE: &str = "duplicate";

/// A success: the thing in the envelope that the contract's place for the effect's id implies.
pub(super) fn success(family: &Contract, status: StatusCode, effect: &Effect) -> Answer {
    let id = effect.id();
    let mut draft = Draft { status: status.as_u16(), headers: Vec::new(), body: Value::Null };
    match &family.effect.id {
        Some(Locator::Body(at)) if !at.is_root() => {
            put_at(&mut draft.body, envelope(family), effect.thing().clone());
            put(&mut draft.body, at, id.clone().into());
        }
        Some(Locator::Header(name)) => {
            draft.body = effect.thing().clone();
            draft.header(name, &id);
        }
        Some(Locator::Body(_)) | None => draft.body = effect.thing().clone(),
    }
    for correlate in &family.effect.correlate {
        if let (None, Some(said)) = (correlate.effect.get(&draft.body), correlate.argument.get(effect.thing())) {
            put(&mut draft.body, &correlate.effect, said.clone());
        }
    }
    if let Some(handle) = &family.effect.handle {
        draft.put(handle, &format!("{}/{id}", effect.resource.name()));
    }
    // A mark that belongs to every answer says that the key was understood, and not that the answer is an old one.
    if let Some(marker) = &family.replay_marker
        && let Locator::Header(name) = &marker.at
        && family.effect.keep_headers.iter().any(|kept| kept.eq_ignore_ascii_case(name))
    {
        draft.header(name, marker.values.first().map_or("true", String::as_str));
    }
    // Some interfaces say inside a 200 whether it is a success.
    if let Some(confirmed) = meaning(family, Meaning::Confirmed) {
        let mut confirming = draft.clone();
        confirming.satisfy(confirmed, &message_at(family));
        if (200..300).contains(&confirming.status) {
            draft = confirming;
        }
    }
    answer(draft)
}

/// An answer with the mark that it was given before.
pub(super) fn marked(family: &Contract, answer: Answer) -> Answer {
    let Some(marker) = &family.replay_marker else { return answer };
    let text = marker.values.first().map_or("true", String::as_str);
    match &marker.at {
        Locator::Header(name) => with_header(answer, name, text),
        Locator::Body(at) => {
            let mut answer = answer;
            put(&mut answer.body, at, text.into());
            answer
        }
    }
}

/// A part of it was done, as the contract recognises that.
pub(crate) fn partial(family: &Contract) -> Answer {
    let body =
        json!({ "status": "failed", "error": { "code": "partial_failure", "detail": "Some of the work was done." } });
    let mut draft = Draft { status: 200, headers: Vec::new(), body };
    if let Some(condition) = meaning(family, Meaning::Partial).or_else(|| meaning(family, Meaning::Uncertain)) {
        draft.satisfy(condition, &message_at(family));
    }
    answer(draft)
}

/// It will be done later, and the handle says where to ask.
pub(crate) fn accepted(family: &Contract, created: &Answer) -> Answer {
    let id = match &family.effect.id {
        Some(Locator::Body(at)) => at.get(&created.body).cloned(),
        Some(Locator::Header(_)) | None => created.body.get("id").cloned(),
    }
    .unwrap_or_default();
    let body = json!({ "id": id, "status": "accepted" });
    let mut draft = Draft { status: StatusCode::ACCEPTED.as_u16(), headers: Vec::new(), body };
    if let Some(condition) = meaning(family, Meaning::Accepted) {
        draft.satisfy(condition, &message_at(family));
    }
    let handle = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    match &family.effect.handle {
        Some(place) => draft.put(place, &handle),
        None => draft.header("Location", &handle),
    }
    answer(draft)
}

/// The answer as this vendor writes it. What is no problem of the sandbox's stays as it is.
pub(crate) fn dressed(family: &Contract, plain: Answer) -> Answer {
    let Some(code) = plain.problem_code().map(str::to_owned) else { return with_kind(family, plain) };
    let text = |member: &str| plain.body.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = plain.status.as_u16();
    let mut draft = Draft { status, headers: Vec::new(), body: error_body(family, &code, &text("detail"), status) };
    if Vendor::of(family) == Vendor::StripeForms {
        let (kind, name) = stripe::error_names(&code, status);
        draft.body["error"]["type"] = kind.into();
        draft.body["error"]["code"] = name.map_or(Value::Null, Value::from);
        if let Some(param) = plain.body.get("param") {
            draft.body["error"]["param"] = param.clone();
        }
    }
    let hint = match code.as_str() {
        "key_in_flight" => {
            draft.status = first_or(&family.in_flight.statuses, status);
            refuse_as(&mut draft, family, family.in_flight.when.as_ref(), Meaning::InFlight);
            draft.header(family.in_flight.retry_after_header.as_deref().unwrap_or("Retry-After"), "1");
            Some(Advice::Again)
        }
        "key_mismatch" => {
            let rules = &family.other_input;
            let own = rules.when.as_ref();
            // Who says nothing of its own about other input refuses it as it refuses what exists.
            let as_existing =
                family.same_input.duplicate.as_ref().filter(|_| own.is_none() && rules.statuses.is_empty());
            draft.status = if as_existing.is_some() { 400 } else { first_or(&rules.statuses, status) };
            refuse_as(&mut draft, family, own.or(as_existing), Meaning::KeyMismatch);
            Some(Advice::Stop)
        }
        DUPLICATE => {
            refuse_as(&mut draft, family, family.same_input.duplicate.as_ref(), Meaning::AlreadyExists);
            let existing = text("existing");
            if let (Some(place), false) = (&family.same_input.existing, existing.is_empty()) {
                draft.put(place, &existing);
            }
            Some(Advice::Stop)
        }
        "unauthorized" => {
            refuse_as(&mut draft, family, None, Meaning::CredentialRefused);
            None
        }
        "unacceptable" => {
            refuse_as(&mut draft, family, family.refused_if.as_ref(), Meaning::Refused);
            Some(Advice::Stop)
        }
        "card_declined" => Some(Advice::Stop),
        "throttled" => Some(Advice::Again),
        _ => None,
    };
    if let (Some(hint), Some(rules)) = (hint, &family.retry_hint) {
        let value = match hint {
            Advice::Again => &rules.again,
            Advice::Stop => &rules.stop,
        };
        draft.header(&rules.header, value);
    }
    let mut dressed = answer(draft);
    // What the plain answer carried, such as a retry time or the mark of a replay, is the vendor's too.
    dressed.headers.extend(
        plain
            .headers
            .into_iter()
            .filter(|(name, _)| *name != CONTENT_TYPE && *name != RETRY_AFTER || code == "throttled"),
    );
    with_kind(family, dressed)
}

/// What an answer advises about trying again.
#[derive(Debug, Clone, Copy)]
enum Advice {
    Again,
    Stop,
}

fn refuse_as(draft: &mut Draft, family: &Contract, own: Option<&Predicate>, means: Meaning) {
    if let Some(condition) = own.or_else(|| meaning(family, means)) {
        draft.satisfy(condition, &message_at(family));
    }
}

/// The first condition of the contract whose answers have this meaning.
fn meaning(family: &Contract, means: Meaning) -> Option<&Predicate> {
    family.responses.iter().find(|rule| rule.is == means).map(|rule| &rule.when)
}

fn first_or(statuses: &[u16], otherwise: u16) -> u16 {
    match statuses.contains(&otherwise) {
        true => otherwise,
        false => statuses.first().copied().unwrap_or(otherwise),
    }
}

/// The vendor's error body. Its shape is known from the answer that stands for an unknown, which is written in it.
fn error_body(family: &Contract, code: &str, detail: &str, status: u16) -> Value {
    let shape = family.indeterminate.as_ref().and_then(|answer| {
        let shape: Value = serde_json::from_str(&answer.body).ok()?;
        Some(filled(&shape, answer.status, code, detail, status))
    });
    match shape {
        Some(Some(body @ Value::Object(_))) => body,
        Some(_) | None => json!({ "error": { "code": code, "message": detail } }),
    }
}

fn filled(shape: &Value, shape_status: u16, code: &str, detail: &str, status: u16) -> Option<Value> {
    let fill = |value: &Value| filled(value, shape_status, code, detail, status);
    match shape {
        Value::String(text) if text.contains("{operation_id}") => None,
        Value::String(text) if text.contains("{message}") => Some(text.replace("{message}", detail).into()),
        Value::String(text) if text.to_ascii_lowercase().contains("onceward") => Some(code.into()),
        Value::Number(number) if number.as_u64() == Some(shape_status.into()) => Some(status.into()),
        Value::Object(members) => {
            Some(members.iter().filter_map(|(name, value)| Some((name.clone(), fill(value)?))).collect())
        }
        Value::Array(elements) => Some(elements.iter().filter_map(fill).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(shape.clone()),
    }
}

/// Where a text for people stands in the vendor's errors.
fn message_at(family: &Contract) -> Pointer {
    let body = error_body(family, "code", MESSAGE, 400);
    let found = place_of(&body, MESSAGE).unwrap_or_else(|| "/message".to_owned());
    Pointer::parse(&found).unwrap_or_default()
}

/// A text that stands nowhere else.
const MESSAGE: &str = "\u{1f}message";

fn place_of(value: &Value, wanted: &str) -> Option<String> {
    match value {
        Value::String(text) => (text == wanted).then(String::new),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            Some(format!("/{}{}", name.replace('~', "~0").replace('/', "~1"), place_of(value, wanted)?))
        }),
        Value::Array(elements) => {
            elements.iter().enumerate().find_map(|(at, value)| Some(format!("/{at}{}", place_of(value, wanted)?)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The content type of the vendor's answers.
fn with_kind(family: &Contract, mut plain: Answer) -> Answer {
    let problem = family.indeterminate.as_ref().is_some_and(|answer| {
        answer.headers.iter().any(|(name, kind)| name.eq_ignore_ascii_case("content-type") && kind.contains("problem"))
    });
    for name in &family.effect.keep_headers {
        if name.to_ascii_lowercase().ends_with("request-id") {
            plain = with_header(plain, name, &format!("req_{}", ANSWERS.fetch_add(1, Ordering::Relaxed)));
        }
    }
    let kind = if problem && !plain.status.is_success() { "application/problem+json" } else { "application/json" };
    plain.headers.retain(|(name, _)| *name != CONTENT_TYPE);
    plain.with_header(CONTENT_TYPE, HeaderValue::from_static(kind))
}

pub(super) fn with_header(answer: Answer, name: &str, text: &str) -> Answer {
    match (HeaderName::try_from(name), HeaderValue::from_str(text)) {
        (Ok(name), Ok(value)) => answer.with_header(name, value),
        (Err(_), _) | (_, Err(_)) => answer,
    }
}

pub(super) fn answer(draft: Draft) -> Answer {
    let status = StatusCode::from_u16(draft.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let plain = Answer::new(status, draft.body);
    draft.headers.iter().fold(plain, |answer, (name, value)| with_header(answer, name, value))
}
