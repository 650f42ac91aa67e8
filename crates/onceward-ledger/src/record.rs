//! An operation as stores keep it: which facts are columns, which are in blobs, and how both are read back. One form for every
//! store, so that a row means the same in each.
//!
//! What is searched or checked is a column and stands there only; the rest is in the blobs. Where a fact is both in a column and
//! in a blob (the state's name), a row in which they differ is broken, and says so.

mod blob;

use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::fingerprint::{Comparison, Fingerprint, FingerprintKeyId};
use onceward_core::journal::Head;
use onceward_core::key::{
    AttemptNumber, EffectId, InvalidName, Lane, OperationId, OperationKey, OwnerId, Principal, TenantId, ToolName,
    ToolVersion,
};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Pin, Terms};
use onceward_core::receipt::{Answer, Kept};
use onceward_core::sighting::Sighting;
use onceward_core::state::{Closure, ClosureReason, Pending, Proposal, Ready, Refused, State, Success, Unknown};
use onceward_core::suspicion::Suspicion;
use onceward_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::blob::{decode, decode_text, encode_text};

/// A row that breaks an invariant: which column, and how. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// A row as it is read: what [`operation`] makes an operation of.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each field is the column of its name")]
pub struct Columns<'a> {
    pub tenant: &'a str,
    pub operation_id: &'a str,
    pub tool: &'a str,
    pub fingerprint: &'a [u8],
    pub fingerprint_key: u32,
    pub state: &'a str,
    pub dispatch: &'a str,
    pub lane: Option<&'a str>,
    pub effect_id: Option<&'a str>,
    pub suspicion_mark: Option<&'a [u8]>,
    pub suspicion_group: Option<&'a [u8]>,
    pub deadline_at: Option<i64>,
    pub corrects: Option<&'a str>,
    pub created_at: i64,
    pub updated_at: i64,
    pub settled_at: Option<i64>,
    pub journal_seq: u32,
    pub journal_hash: &'a [u8],
    pub body: &'a [u8],
    pub progress: &'a [u8],
    pub answer: Option<&'a [u8]>,
}

/// What never changes: made once, by the thread that submits.
#[derive(Serialize)]
struct BodyOut<'a> {
    tool_version: &'a ToolVersion,
    #[serde(skip_serializing_if = "is_default")]
    comparison: &'a Comparison,
    arguments: &'a Kept<Arc<Canonical>>,
    principal: &'a Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pin: Option<&'a Pin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    business: Option<Fingerprint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second_of: Option<&'a OperationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sighting: Option<&'a Sighting>,
}

fn is_default(comparison: &&Comparison) -> bool {
    **comparison == Comparison::default()
}

#[derive(Deserialize)]
struct BodyIn {
    tool_version: ToolVersion,
    #[serde(default)]
    comparison: Comparison,
    arguments: Kept<Arc<Canonical>>,
    principal: Principal,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    pin: Option<Pin>,
    #[serde(default)]
    business: Option<Fingerprint>,
    #[serde(default)]
    second_of: Option<OperationId>,
    #[serde(default)]
    sighting: Option<Sighting>,
}

#[derive(Serialize)]
struct ProgressOut<'a> {
    state: StateOut<'a>,
    history: &'a History,
}

#[derive(Deserialize)]
struct ProgressIn {
    state: StateIn,
    history: History,
}

/// A state without what columns hold: the answer and the effect id.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum StateOut<'a> {
    Proposed(&'a Proposal),
    Approved(&'a Ready),
    Pending(&'a Pending),
    Unknown(&'a Unknown),
    Succeeded(Done),
    Rejected(Done),
    Closed(&'a Closure),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateIn {
    Proposed(Proposal),
    Approved(Ready),
    Pending(Pending),
    Unknown(Unknown),
    Succeeded(Done),
    Rejected(Done),
    Closed(Closure),
}

#[derive(Serialize, Deserialize)]
struct Done {
    attempt: AttemptNumber,
    received_at: Timestamp,
    #[serde(default, skip_serializing_if = "is_not")]
    recovered: bool,
    /// When the answer was erased; otherwise it is in its column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    erased_at: Option<Timestamp>,
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// The blob of what never changes.
///
/// # Errors
/// [`Broken`] where it cannot be written as JSON.
pub fn body(operation: &Operation) -> Result<Vec<u8>, Broken> {
    let Operation { binding, terms, .. } = operation;
    let body = BodyOut {
        tool_version: &binding.tool_version,
        comparison: &binding.comparison,
        arguments: &binding.arguments,
        principal: &terms.principal,
        title: terms.title.as_deref(),
        pin: terms.pin.as_ref(),
        business: terms.suspicion.as_ref().and_then(|suspicion| suspicion.business),
        second_of: terms.second_of.as_ref(),
        sighting: terms.sighting.as_ref(),
    };
    blob::encode(&body, 256 + binding.arguments.present().map_or(0, |arguments| arguments.text().len()))
}

/// Columns that follow from the state.
pub struct Moving<'a> {
    /// The state's name.
    pub state: &'static str,
    /// The column of this name.
    pub cause: Option<&'static str>,
    /// The column of this name.
    pub owner: Option<&'a OwnerId>,
    /// The column of this name.
    pub effect_id: Option<&'a EffectId>,
    /// The column of this name.
    pub next_check: Option<Timestamp>,
    /// The column of this name.
    pub uncertain_since: Option<Timestamp>,
    /// The column of this name.
    pub settle_by: Option<Timestamp>,
    /// The column of this name.
    pub superseded_by: Option<&'a OperationId>,
    /// The column of this name.
    pub answer: Option<Vec<u8>>,
    /// The column of this name.
    pub erased_at: Option<Timestamp>,
    /// The column of this name.
    pub disagreement: Option<&'static str>,
    /// The column of this name.
    pub progress: Vec<u8>,
}

/// The columns and blobs of an operation that move with its events.
///
/// # Errors
/// [`Broken`] where one cannot be written as JSON.
pub fn moving(operation: &Operation) -> Result<Moving<'_>, Broken> {
    let mut moving = Moving {
        state: operation.state.name(),
        cause: None,
        owner: None,
        effect_id: None,
        next_check: None,
        uncertain_since: None,
        settle_by: None,
        superseded_by: None,
        answer: None,
        erased_at: match &operation.binding.arguments {
            Kept::Present(_) => None,
            Kept::Erased { at } => Some(*at),
        },
        disagreement: match &operation.history.disagreement {
            Some(open) if operation.history.in_disagreement() => Some(open.kind.name()),
            Some(_) | None => None,
        },
        progress: Vec::new(),
    };
    let state = match &operation.state {
        State::Proposed(proposal) => StateOut::Proposed(proposal),
        State::Approved(ready) => StateOut::Approved(ready),
        State::Pending(pending) => {
            moving.owner = Some(&pending.attempt.owner);
            moving.settle_by = pending.attempt.settle_by;
            StateOut::Pending(pending)
        }
        State::Unknown(unknown) => {
            moving.cause = Some(unknown.latest().cause.name());
            moving.next_check = unknown.next_check();
            moving.uncertain_since = Some(uncertain_since(unknown));
            StateOut::Unknown(unknown)
        }
        State::Succeeded(success) => {
            moving.effect_id = success.effect_id.as_ref();
            let erased_at = keep(&success.answer, &mut moving)?;
            let Success { attempt, received_at, recovered, .. } = success;
            StateOut::Succeeded(Done { attempt: *attempt, received_at: *received_at, recovered: *recovered, erased_at })
        }
        State::Rejected(refused) => {
            let erased_at = keep(&refused.answer, &mut moving)?;
            let Refused { attempt, received_at, .. } = refused;
            StateOut::Rejected(Done { attempt: *attempt, received_at: *received_at, recovered: false, erased_at })
        }
        State::Closed(closure) => {
            moving.superseded_by = match &closure.reason {
                ClosureReason::SupersededBy(by) => Some(by),
                ClosureReason::Close(_) => None,
            };
            StateOut::Closed(closure)
        }
    };
    moving.progress = blob::encode(&ProgressOut { state, history: &operation.history }, 512)?;
    Ok(moving)
}

/// When the earliest of its uncertain attempts was claimed.
#[must_use]
pub fn uncertain_since(unknown: &Unknown) -> Timestamp {
    let latest = unknown.latest().claimed_at;
    unknown.attempts().iter().map(|attempt| attempt.claimed_at).min().unwrap_or(latest)
}

fn keep(answer: &Kept<Answer>, moving: &mut Moving<'_>) -> Result<Option<Timestamp>, Broken> {
    match answer {
        Kept::Present(answer) => {
            moving.answer = Some(blob::encode(answer, 128 + answer.body.len())?);
            Ok(None)
        }
        Kept::Erased { at } => {
            moving.erased_at = moving.erased_at.max(Some(*at));
            Ok(Some(*at))
        }
    }
}

/// The operation in a row.
///
/// # Errors
/// [`Broken`] names the operation and the column.
pub fn operation(columns: &Columns<'_>) -> Result<Operation, Broken> {
    let key = OperationKey {
        tenant: name("tenant", TenantId::parse(columns.tenant))?,
        id: name("operation_id", OperationId::parse(columns.operation_id))?,
    };
    decoded(columns, key.clone()).map_err(|Broken(what)| Broken(format!("operation {key}: {what}")))
}

fn decoded(columns: &Columns<'_>, key: OperationKey) -> Result<Operation, Broken> {
    let body: BodyIn = blob::decode("body", columns.body)?;
    let progress: ProgressIn = blob::decode("progress", columns.progress)?;
    let suspicion = match (columns.suspicion_mark, columns.suspicion_group) {
        (Some(mark), Some(group)) => Some(Suspicion {
            mark: Fingerprint::from_bytes(hash(mark)?),
            group: Fingerprint::from_bytes(hash(group)?),
            business: body.business,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(Broken("half a suspicion".to_owned())),
    };
    let state = state(columns, progress.state)?;
    if state.name() != columns.state {
        return Err(Broken("column state and column progress differ".to_owned()));
    }
    Ok(Operation {
        binding: Binding {
            tool: name("tool", ToolName::parse(columns.tool))?,
            tool_version: body.tool_version,
            comparison: body.comparison,
            fingerprint: Fingerprint::from_bytes(hash(columns.fingerprint)?),
            fingerprint_key: FingerprintKeyId(columns.fingerprint_key),
            arguments: body.arguments,
        },
        terms: Terms {
            principal: body.principal,
            dispatch: dispatch(columns.dispatch)?,
            lane: columns.lane.map(|text| name("lane", Lane::parse(text))).transpose()?,
            deadline: columns.deadline_at.map(Timestamp::from_micros),
            corrects: columns.corrects.map(|text| name("corrects", OperationId::parse(text))).transpose()?,
            second_of: body.second_of,
            sighting: body.sighting,
            title: body.title,
            suspicion,
            pin: body.pin,
        },
        history: progress.history,
        state,
        journal: Head { seq: columns.journal_seq, hash: hash(columns.journal_hash)? },
        created_at: Timestamp::from_micros(columns.created_at),
        updated_at: Timestamp::from_micros(columns.updated_at),
        settled_at: columns.settled_at.map(Timestamp::from_micros),
        key,
    })
}

fn state(columns: &Columns<'_>, state: StateIn) -> Result<State, Broken> {
    let answer = |done: &Done| match (done.erased_at, columns.answer) {
        (Some(at), None) => Ok(Kept::Erased { at }),
        (None, Some(bytes)) => Ok(Kept::Present(blob::decode("answer", bytes)?)),
        (Some(_), Some(_)) => Err(Broken("an erased answer is still there".to_owned())),
        (None, None) => Err(Broken("the answer is missing".to_owned())),
    };
    Ok(match state {
        StateIn::Proposed(proposal) => State::Proposed(proposal),
        StateIn::Approved(ready) => State::Approved(ready),
        StateIn::Pending(pending) => State::Pending(pending),
        StateIn::Unknown(unknown) => State::Unknown(unknown),
        StateIn::Succeeded(done) => State::Succeeded(Success {
            answer: answer(&done)?,
            effect_id: columns.effect_id.map(|text| name("effect_id", EffectId::parse(text))).transpose()?,
            attempt: done.attempt,
            received_at: done.received_at,
            recovered: done.recovered,
        }),
        StateIn::Rejected(done) => {
            State::Rejected(Refused { answer: answer(&done)?, attempt: done.attempt, received_at: done.received_at })
        }
        StateIn::Closed(closure) => State::Closed(closure),
    })
}

/// The word of a dispatcher in its column.
#[must_use]
pub const fn dispatch_name(dispatch: Dispatcher) -> &'static str {
    match dispatch {
        Dispatcher::Caller => "caller",
        Dispatcher::Auto => "auto",
    }
}

fn dispatch(text: &str) -> Result<Dispatcher, Broken> {
    match text {
        "caller" => Ok(Dispatcher::Caller),
        "auto" => Ok(Dispatcher::Auto),
        other => Err(Broken(format!("column dispatch is {other:?}"))),
    }
}

/// A hash in a column.
///
/// # Errors
/// [`Broken`] where it has not 32 bytes.
pub fn hash(bytes: &[u8]) -> Result<[u8; 32], Broken> {
    bytes.try_into().map_err(|_| Broken("a hash has not 32 bytes".to_owned()))
}

/// A name in a column.
///
/// # Errors
/// [`Broken`] names the column.
pub fn name<T>(column: &'static str, parsed: Result<T, InvalidName>) -> Result<T, Broken> {
    parsed.map_err(|error| Broken(format!("column {column}: {error}")))
}
