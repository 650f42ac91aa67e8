//! `/v1/claims`: for an application that runs its own functions. Claim, mark, run, settle.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use base64::Engine as _;
use http::{HeaderMap, StatusCode};
use onceward_core::classify::FunctionEnd;
use onceward_core::code::Code;
use onceward_core::event::DispatchMark;
use onceward_core::key::{AttemptNumber, EffectId, OperationId};
use onceward_core::operation::Operation;
use onceward_core::receipt::Answer;
use onceward_core::state;
use onceward_ledger::application::{ClaimAnswer, ClaimRef, ClaimSecret, ClaimTerms, ClaimToken, Granted, OwnLookup};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{json as answer_json, told};
use super::calls::arguments;
use super::request::{AsWritten, Body, Caller};
use super::views::text;
use crate::app::{App, NewClaim};
use crate::identity;
use crate::limits::{OWN_LOOKUP_MAX, SETTLE_WITHIN_DEFAULT};
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimBody {
    tool: String,
    arguments: Option<Value>,
    operation_id: Option<String>,
    settle_within_ms: Option<u64>,
    title: Option<String>,
    lookup: Option<OwnLookupBody>,
    /// Marks the dispatch with the claim: it may run when the claim is answered.
    #[serde(default)]
    begin: bool,
    token: Option<String>,
}

/// How the application will look for the effect of its function, should its settlement be lost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnLookupBody {
    visible_after_ms: u64,
    works_for_ms: Option<u64>,
    absences_required: Option<u32>,
}

impl OwnLookupBody {
    fn read(self) -> Result<OwnLookup, Problem> {
        let time = |name: &str, ms: u64| match Duration::from_millis(ms) {
            time if time <= OWN_LOOKUP_MAX => Ok(time),
            _ => Err(Problem::invalid_request(format!(
                "lookup.{name} is at most {} ms: what shows itself later is looked for by nobody",
                OWN_LOOKUP_MAX.as_millis()
            ))),
        };
        Ok(OwnLookup {
            visible_after: time("visible_after_ms", self.visible_after_ms)?,
            works_for: self.works_for_ms.map(|ms| time("works_for_ms", ms)).transpose()?,
            absences_required: self.absences_required,
        })
    }
}

pub(super) async fn claim(
    State(app): State<App>,
    Caller(grant): Caller,
    headers: HeaderMap,
    Body(body): Body<ClaimBody>,
) -> Result<Response, Problem> {
    let identity = identity::of_http(&headers, body.operation_id.as_deref()).into();
    let arguments = arguments(body.arguments)?;
    let within = settle_within(body.settle_within_ms)?;
    let lookup = body.lookup.map(OwnLookupBody::read).transpose()?;
    let dispatch = if body.begin { DispatchMark::WithClaim } else { DispatchMark::Announced };
    let token = body.token.as_deref().map(claim_token).transpose()?;
    let terms = ClaimTerms { settle_within: within, lookup, dispatch, token };
    let claim = NewClaim { tool: body.tool, identity, arguments, title: body.title, terms };
    match app.claim(&grant, claim).await? {
        ClaimAnswer::Granted(granted) => Ok(answer_json(StatusCode::CREATED, &granted_view(&granted, dispatch))),
        ClaimAnswer::Answered(envelope) => Ok(told(&envelope)),
    }
}

fn claim_token(text: &str) -> Result<ClaimToken, Problem> {
    ClaimToken::parse(text).ok_or_else(|| {
        let (min, max) = (ClaimToken::CHARS_MIN, ClaimToken::CHARS_MAX);
        Problem::invalid_request(format!("token is {min} to {max} visible ASCII characters, made up anew for each run"))
    })
}

fn granted_view(granted: &Granted, dispatch: DispatchMark) -> Value {
    json!({
        "operation_id": granted.operation.key.id,
        "attempt": granted.attempt.0,
        "secret": granted.secret.reveal(),
        "outbound_key": granted.outbound_key,
        "send_before": text(granted.send_before),
        "settle_by": text(granted.settle_by),
        "next": match dispatch {
            DispatchMark::WithClaim => "run the function, then POST settlement",
            DispatchMark::Announced => "POST dispatching and see it answered, run the function, then POST settlement",
        },
    })
}

/// Which attempt, and the secret that proves whose it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HolderBody {
    attempt: u32,
    secret: String,
}

pub(super) async fn dispatching(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<HolderBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let allowed = app.claimed_operation(&grant, &id).await?;
    let claim = claim_ref(id, body.attempt, body.secret);
    let ledger = app.ledger().clone();
    let operation = app.detached(async move { ledger.begin_claim(&allowed, &claim).await }).await??;
    Ok(answer_json(StatusCode::OK, &held_view(&operation)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatBody {
    attempt: u32,
    secret: String,
    settle_within_ms: Option<u64>,
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<HeartbeatBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let allowed = app.claimed_operation(&grant, &id).await?;
    let claim = claim_ref(id, body.attempt, body.secret);
    let within = settle_within(body.settle_within_ms)?;
    let ledger = app.ledger().clone();
    let operation = app.detached(async move { ledger.extend_claim(&allowed, &claim, within).await }).await??;
    Ok(answer_json(StatusCode::OK, &held_view(&operation)))
}

fn held_view(operation: &Operation) -> Value {
    let settle_by = match &operation.state {
        state::State::Pending(pending) => pending.attempt.settle_by,
        state::State::Proposed(_)
        | state::State::Approved(_)
        | state::State::Unknown(_)
        | state::State::Succeeded(_)
        | state::State::Rejected(_)
        | state::State::Closed(_) => None,
    };
    json!({
        "operation_id": operation.key.id,
        "state": operation.state.name(),
        "settle_by": settle_by.map(text),
    })
}

/// How the function ended, in its application's words.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Done,
    Refused,
    NothingSent,
    Failed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettlementBody {
    attempt: u32,
    secret: String,
    ended: Ended,
    effect_id: Option<String>,
    receipt: Option<AnswerBody>,
}

pub(super) async fn settle(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    AsWritten(body): AsWritten<SettlementBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let allowed = app.claimed_operation(&grant, &id).await?;
    let SettlementBody { attempt, secret, ended, effect_id, receipt } = body;
    let claim = claim_ref(id, attempt, secret);
    // The effect has happened: a name that cannot be kept is no reason to lose it, only one by which it is not compared.
    let effect_id = effect_id.as_deref().and_then(|name| EffectId::parse(name).ok());
    let end = function_end(ended, effect_id, receipt)?;
    let ledger = app.ledger().clone();
    let envelope = app.detached(async move { ledger.settle_claim(&allowed, &claim, end).await }).await??;
    Ok(told(&envelope))
}

fn function_end(
    ended: Ended,
    effect_id: Option<EffectId>,
    receipt: Option<AnswerBody>,
) -> Result<FunctionEnd, Problem> {
    let answer = |receipt: Option<AnswerBody>| match receipt {
        Some(receipt) => receipt.into_answer(),
        None => Ok(Answer::json(&Value::Null)),
    };
    match ended {
        Ended::Done => Ok(FunctionEnd::Done { effect_id, answer: answer(receipt)? }),
        Ended::Refused if effect_id.is_none() => Ok(FunctionEnd::Refused(answer(receipt)?)),
        Ended::NothingSent if effect_id.is_none() && receipt.is_none() => Ok(FunctionEnd::NothingSent),
        Ended::Failed if effect_id.is_none() && receipt.is_none() => Ok(FunctionEnd::Failed),
        // An application that has an effect's id or an answer in hand must not lose it by naming the end wrongly.
        Ended::Refused | Ended::NothingSent | Ended::Failed => Err(Problem::invalid_request(
            "effect_id belongs to ended = \"done\", receipt to \"done\" or \"refused\"; nothing was recorded",
        )),
    }
}

/// An answer to keep: JSON in `body`, or `body_text`, or `body_base64`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    status: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    /// `null` is a body, too: what a function without a result gave.
    #[serde(default, deserialize_with = "present")]
    body: Option<Box<RawValue>>,
    body_text: Option<String>,
    body_base64: Option<String>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// What is kept of the headers that an application reports: the ones that a replay may carry.
const KEPT_HEADERS: [&str; 4] = ["content-type", "etag", "link", "location"];

impl AnswerBody {
    /// The answer as it is stored.
    ///
    /// # Errors
    /// `invalid_request` when it has more than one body, or one that cannot be read.
    pub(super) fn into_answer(self) -> Result<Answer, Problem> {
        let status = self.status.unwrap_or(200);
        if !(100..=599).contains(&status) {
            return Err(Problem::invalid_request("receipt.status is an HTTP status, 100 to 599"));
        }
        let mut headers = Vec::new();
        for (name, value) in self.headers {
            let name = name.to_ascii_lowercase();
            let Value::String(value) = value else {
                return Err(Problem::invalid_request("receipt.headers are texts by name"));
            };
            if KEPT_HEADERS.contains(&name.as_str()) {
                headers.push((name, value));
            }
        }
        let mut json_type = false;
        let body = match (self.body, self.body_text, self.body_base64) {
            (Some(json), None, None) => {
                json_type = true;
                json.get().as_bytes().to_vec()
            }
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(encoded)) => base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .map_err(|_| Problem::invalid_request("receipt.body_base64 is not base64"))?,
            (None, None, None) => Vec::new(),
            (Some(_), _, _) | (_, Some(_), Some(_)) => {
                return Err(Problem::invalid_request("a receipt has one of body, body_text and body_base64"));
            }
        };
        if json_type && !headers.iter().any(|(name, _)| name == "content-type") {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Ok(Answer { status, headers, body })
    }
}

fn settle_within(asked_ms: Option<u64>) -> Result<Duration, Problem> {
    match asked_ms {
        None => Ok(SETTLE_WITHIN_DEFAULT),
        // It would be over before its holder knows of it.
        Some(0) => Err(Problem::invalid_request("settle_within_ms is a number of milliseconds, 1 at the least")),
        Some(within_ms) => Ok(Duration::from_millis(within_ms)),
    }
}

fn id_of(text: &str) -> Result<OperationId, Problem> {
    OperationId::parse(text).map_err(|_| Problem::plain(Code::NotFound))
}

fn claim_ref(id: OperationId, attempt: u32, secret: String) -> ClaimRef {
    ClaimRef { id, attempt: AttemptNumber(attempt), secret: ClaimSecret::from_text(secret) }
}
