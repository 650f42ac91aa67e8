//! One request from its arrival to its last byte: logged, met by its fault, answered, and cut where the fault says so.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use futures_util::StreamExt;
use onceward_core::contract::Contract;

use super::contract::{Accounts, KeyHeader, SandboxContract};
use super::create::{application_answer, fails_before_commit, in_flight_problem};
use super::family::{DUPLICATE, dressed};
use super::fault::{Fault, FaultError};
use super::limits::KEY_CHARS_MAX;
use super::log::{Arrival, Delivery};
use super::problem::Answer;
use super::queue::Seen;
use super::resource::Resource;
use super::state::Shared;
use super::store::{Epoch, StoreError};
use super::wire::{Cut, Scissors};

const DEFAULT_ACCOUNT: &str = "default";
const TOKEN_PREFIX: &str = "sandbox-";

/// Whether the action applies the faults of the time before a commit by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeforeCommit {
    /// The action knows its own commit point.
    OwnPoint,
    /// The whole action is done at one instant; faults before it come first.
    AtOnce,
}

/// What a request said about itself, and what is in store for it.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) epoch: Epoch,
    pub(crate) account: String,
    pub(crate) received_key: Option<String>,
    pub(crate) header_marker: Option<String>,
    pub(crate) contract: SandboxContract,
    pub(crate) fault: Option<Fault>,
}

/// Takes a request through: logs it, meets its fault, lets `act` answer it, and delivers what is left of the answer.
pub(crate) async fn attend(
    shared: &Shared,
    scissors: &Scissors,
    parts: &Parts,
    resource: Option<Resource>,
    before: BeforeCommit,
    act: impl AsyncFnOnce(&Visit) -> Result<Answer, StoreError>,
) -> Response<Body> {
    let said = Said::read(shared, parts);
    attend_to(shared, scissors, parts, resource.map(Resource::name), said, before, act).await
}

/// The same, when what the request says about itself has been read.
pub(crate) async fn attend_to(
    shared: &Shared,
    scissors: &Scissors,
    parts: &Parts,
    resource: Option<&str>,
    said: Said,
    before: BeforeCommit,
    act: impl AsyncFnOnce(&Visit) -> Result<Answer, StoreError>,
) -> Response<Body> {
    let epoch = shared.store.epoch();
    let family = said.contract.as_ref().ok().and_then(|contract| contract.family.clone());
    let fault = said.fault.as_ref().ok().copied().flatten();
    let arrival = Arrival {
        at_us: shared.clock.now_us(),
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        resource,
        account: said.account.as_deref().ok(),
        key: said.key.as_ref().ok().and_then(Option::as_deref),
        marker: said.marker.as_deref(),
        fault: fault.map(|fault| fault.to_string()),
    };
    let logged = shared.store.log_arrival(epoch, &arrival);
    let answered = match (logged, said.understood(epoch)) {
        (Err(error), _) => Err(error),
        (Ok(sequence), Err(refusal)) => Ok((sequence, *refusal)),
        (Ok(sequence), Ok(visit)) => answer(parts, &visit, before, act).await.map(|answer| (sequence, answer)),
    };
    match answered {
        Ok((sequence, answer)) => {
            let (answer, delivery) = on_the_way_back(fault, answer, family.as_deref());
            if let Some(Fault::DelayAfterCommit { ms }) = fault {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            let at_us = shared.clock.now_us();
            let noted = shared.store.log_answer(epoch, sequence, at_us, answer.status.as_u16(), delivery);
            if let Err(error) = noted {
                tracing::warn!(%error, "an answer is missing from the sandbox's log");
            }
            deliver(answer, delivery, fault, scissors)
        }
        Err(error) => deliver(storage_problem(&error), Delivery::Whole, None, scissors),
    }
}

async fn answer(
    parts: &Parts,
    visit: &Visit,
    before: BeforeCommit,
    act: impl AsyncFnOnce(&Visit) -> Result<Answer, StoreError>,
) -> Result<Answer, StoreError> {
    if let Some(answer) = turned_away(visit.fault, parts) {
        return Ok(answer);
    }
    if before == BeforeCommit::AtOnce {
        if let Some(failure) = fails_before_commit(visit.fault) {
            return Ok(failure);
        }
        if let Some(Fault::DelayBeforeCommit { ms }) = visit.fault {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
    act(visit).await
}

/// What the headers said: each part as far as it could be read, so that the log has the rest when one could not. An error is
/// the answer to such a request.
pub(crate) struct Said {
    contract: Result<SandboxContract, Box<Answer>>,
    key: Result<Option<String>, Box<Answer>>,
    account: Result<String, Box<Answer>>,
    fault: Result<Option<Fault>, Box<Answer>>,
    marker: Option<String>,
}

impl Said {
    /// Reads the headers, and lets the fault queue count the request.
    fn read(shared: &Shared, parts: &Parts) -> Self {
        let contract = shared.contract();
        let key = received_key(&contract, &parts.headers);
        let account = account(&contract, &parts.headers);
        Self::with(shared, parts, contract, key, account, None)
    }

    /// Takes what was read of the key, the account and the marker, where a spoken interface has them.
    pub(crate) fn of_family(
        shared: &Shared,
        parts: &Parts,
        contract: SandboxContract,
        key: Option<String>,
        account: Result<String, Box<Answer>>,
        marker: Option<String>,
    ) -> Self {
        Self::with(shared, parts, contract, Ok(key), account, marker)
    }

    fn with(
        shared: &Shared,
        parts: &Parts,
        contract: SandboxContract,
        key: Result<Option<String>, Box<Answer>>,
        account: Result<String, Box<Answer>>,
        marker: Option<String>,
    ) -> Self {
        let headers = &parts.headers;
        let bad = |code: &str, detail: String| Box::new(Answer::problem(StatusCode::BAD_REQUEST, code, detail));
        let queued = shared.faults.take(Seen {
            method: &parts.method,
            path: parts.uri.path(),
            key: key.as_ref().ok().and_then(Option::as_deref),
            account: account.as_deref().ok(),
        });
        Self {
            key,
            account,
            fault: match text(headers, "sandbox-fault") {
                None => Ok(queued),
                Some(named) => named.parse().map(Some).map_err(|error: FaultError| bad("fault", error.to_string())),
            },
            contract: match text(headers, "sandbox-contract") {
                None => Ok(contract),
                Some(changes) => contract.with_header(changes).map_err(|error| bad("contract", error.to_string())),
            },
            marker: marker.or_else(|| text(headers, "sandbox-marker").map(str::to_owned)),
        }
    }

    fn understood(self, epoch: Epoch) -> Result<Visit, Box<Answer>> {
        Ok(Visit {
            epoch,
            fault: self.fault?,
            contract: self.contract?,
            account: self.account?,
            received_key: self.key?,
            header_marker: self.marker,
        })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The key that was sent. A destination without keys notes the usual header, so that the log shows what it overlooked.
fn received_key(contract: &SandboxContract, headers: &HeaderMap) -> Result<Option<String>, Box<Answer>> {
    let name = match &contract.key_header {
        KeyHeader::Named(name) => name,
        KeyHeader::None => "idempotency-key",
    };
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let value = value.to_str().unwrap_or_default();
    // A structured string (`"k"`) and the bare word are the same key.
    let key = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    if !key.is_empty() && key.len() <= KEY_CHARS_MAX && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Some(key.to_owned()));
    }
    let detail = format!("A key is 1 to {KEY_CHARS_MAX} visible ASCII characters.");
    Err(Box::new(Answer::problem(StatusCode::BAD_REQUEST, "key_malformed", detail)))
}

/// Which account the caller is.
fn account(contract: &SandboxContract, headers: &HeaderMap) -> Result<String, Box<Answer>> {
    let refused = || Box::new(unauthorized("A token is `Bearer sandbox-<account>`."));
    match headers.get(AUTHORIZATION) {
        None => match contract.accounts {
            Accounts::Open => Ok(DEFAULT_ACCOUNT.to_owned()),
            Accounts::BearerRequired => Err(refused()),
        },
        Some(value) => {
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
            let named = token.and_then(|token| token.trim().strip_prefix(TOKEN_PREFIX));
            named.filter(|account| !account.is_empty()).map(str::to_owned).ok_or_else(refused)
        }
    }
}

fn unauthorized(detail: &str) -> Answer {
    Answer::problem(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// The faults that turn a request away at the door: nothing is looked at, nothing is done.
fn turned_away(fault: Option<Fault>, parts: &Parts) -> Option<Answer> {
    match fault? {
        Fault::Unauthorized401 => Some(unauthorized("The token was refused.")),
        Fault::InFlight409 => Some(in_flight_problem()),
        Fault::KeyMismatch => {
            let detail = "This key was used with other arguments.";
            Some(Answer::problem(StatusCode::UNPROCESSABLE_ENTITY, "key_mismatch", detail))
        }
        Fault::AlreadyExists => {
            let detail = "This exists already.";
            Some(Answer::problem(StatusCode::CONFLICT, DUPLICATE, detail).saying("existing", "somebody_elses"))
        }
        Fault::Throttle429 { ms } => Some(
            Answer::problem(StatusCode::TOO_MANY_REQUESTS, "throttled", "Too many requests.")
                .with_header(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000))),
        ),
        Fault::Redirect307 => {
            let here = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let answer = Answer::problem(StatusCode::TEMPORARY_REDIRECT, "moved", "Ask at the address in Location.");
            Some(match HeaderValue::from_str(here) {
                Ok(here) => answer.with_header(LOCATION, here),
                Err(_) => answer,
            })
        }
        Fault::LoseReplyAfterCommit
        | Fault::CutMidHeaders
        | Fault::CutMidBody
        | Fault::FailBeforeCommit { .. }
        | Fault::CutBeforeCommit
        | Fault::Error500RolledBack
        | Fault::Error500AfterCommit
        | Fault::GatewayErrorAfterCommit(_)
        | Fault::DelayBeforeCommit { .. }
        | Fault::DelayAfterCommit { .. }
        | Fault::SlowLateAnswer { .. }
        | Fault::SilentMismatch
        | Fault::TruncatedJson
        | Fault::Accepted202 { .. }
        | Fault::Partial200 => None,
    }
}

/// What becomes of the answer between the application and the caller.
fn on_the_way_back(fault: Option<Fault>, answer: Answer, family: Option<&Contract>) -> (Answer, Delivery) {
    let answer = application_answer(fault, answer, family);
    let (answer, delivery) = cut(fault, answer);
    match family {
        Some(family) => (dressed(family, answer), delivery),
        None => (answer, delivery),
    }
}

/// What arrives of it, and in which shape.
fn cut(fault: Option<Fault>, answer: Answer) -> (Answer, Delivery) {
    match fault {
        Some(Fault::LoseReplyAfterCommit | Fault::CutBeforeCommit) => (answer, Delivery::Nothing),
        Some(Fault::CutMidHeaders) => (answer, Delivery::CutInHeaders),
        Some(Fault::CutMidBody) => (answer, Delivery::CutInBody),
        Some(Fault::TruncatedJson) => (answer, Delivery::TruncatedJson),
        Some(Fault::SlowLateAnswer { .. }) => (answer, Delivery::Slow),
        Some(Fault::GatewayErrorAfterCommit(error)) => {
            (Answer::problem(error.status(), "gateway", "The application did not answer the gateway."), Delivery::Whole)
        }
        Some(
            Fault::FailBeforeCommit { .. }
            | Fault::Error500RolledBack
            | Fault::Error500AfterCommit
            | Fault::DelayBeforeCommit { .. }
            | Fault::DelayAfterCommit { .. }
            | Fault::InFlight409
            | Fault::SilentMismatch
            | Fault::KeyMismatch
            | Fault::AlreadyExists
            | Fault::Accepted202 { .. }
            | Fault::Throttle429 { .. }
            | Fault::Redirect307
            | Fault::Unauthorized401
            | Fault::Partial200,
        )
        | None => (answer, Delivery::Whole),
    }
}

/// Makes the response, and arms the cut below it.
fn deliver(answer: Answer, delivery: Delivery, fault: Option<Fault>, scissors: &Scissors) -> Response<Body> {
    let mut bytes = Bytes::from(answer.body.to_string());
    let half = bytes.len() / 2;
    let length = match delivery {
        Delivery::TruncatedJson => half,
        Delivery::Whole | Delivery::Nothing | Delivery::CutInHeaders | Delivery::CutInBody | Delivery::Slow => {
            bytes.len()
        }
    };
    match delivery {
        Delivery::Whole | Delivery::Slow => {}
        Delivery::Nothing => scissors.arm(Cut::AfterBytes(0)),
        // Behind the status line (`HTTP/1.1 201 Created` and its end are at least 17 bytes), before any header is whole.
        Delivery::CutInHeaders => scissors.arm(Cut::AfterBytes(24)),
        Delivery::CutInBody => scissors.arm(Cut::AfterBodyBytes(half)),
        Delivery::TruncatedJson => bytes.truncate(half),
    }
    let body = match (delivery, fault) {
        (Delivery::Slow, Some(Fault::SlowLateAnswer { ms })) => in_halves(bytes, Duration::from_millis(ms)),
        _ => Body::from(bytes),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    let kind = if answer.status.is_success() { "application/json" } else { "application/problem+json" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // An interface that has a content type of its own names it among its headers.
    for (name, value) in answer.headers {
        headers.insert(name, value);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// The first half of the body at once, the second after the pause.
fn in_halves(mut bytes: Bytes, pause: Duration) -> Body {
    let first = bytes.split_to(bytes.len() / 2);
    let halves = futures_util::stream::iter([(Duration::ZERO, first), (pause, bytes)]);
    Body::from_stream(halves.then(|(pause, half)| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::convert::Infallible>(half)
    }))
}

/// The sandbox's own failure, told apart from every fault by its code.
fn storage_problem(error: &StoreError) -> Answer {
    match error {
        StoreError::Reset => Answer::problem(StatusCode::SERVICE_UNAVAILABLE, "sandbox_reset", error.to_string()),
        StoreError::KeyTaken | StoreError::Database(_) => {
            tracing::error!(%error, "the sandbox cannot use its file");
            Answer::problem(StatusCode::INTERNAL_SERVER_ERROR, "sandbox_storage", error.to_string())
        }
    }
}
