//! An operation as a row, and back.
//!
//! What is searched or checked is a column and stands there only; the rest is in the blobs. Where a fact is both in a column
//! and in a blob (the state's name), a row in which they differ is broken, and says so.

use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::fingerprint::{Comparison, Fingerprint, FingerprintKeyId};
use onceward_core::journal::{Entry, Head};
use onceward_core::key::{
    AttemptNumber, EffectId, InvalidName, Lane, OperationId, OperationKey, OwnerId, Principal, TenantId, ToolName,
    ToolVersion,
};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Pin, Terms};
use onceward_core::receipt::{Answer, Kept};
use onceward_core::state::{Closure, ClosureReason, Pending, Proposal, Ready, Refused, State, Success, Unknown};
use onceward_core::suspicion::Suspicion;
use onceward_core::time::Timestamp;
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use crate::blob;
use crate::error::Fault;

/// A query of whole operations: the columns that [`operation`] reads, in its order, and how they are chosen.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT number, tenant, operation_id, tool, fingerprint, fingerprint_key, state, dispatch, lane, effect_id, ",
            "suspicion_mark, suspicion_group, deadline_at, corrects, created_at, updated_at, settled_at, journal_seq, ",
            "journal_hash, body, progress, answer FROM onceward_operation ",
            $rest
        )
    };
}
pub(crate) use select;

const INSERT: &str = "INSERT INTO onceward_operation (tenant, operation_id, tool, fingerprint, fingerprint_key, state, \
     cause, dispatch, lane, attempt, owner, effect_id, suspicion_mark, suspicion_group, deadline_at, next_check_at, \
     settle_by_at, disagreement, corrects, superseded_by, created_at, updated_at, settled_at, purged_at, journal_seq, \
     journal_hash, body, progress, answer, uncertain_since) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
     ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30) ON CONFLICT (tenant, operation_id) DO NOTHING";

const UPDATE: &str = "UPDATE onceward_operation SET state = ?2, cause = ?3, attempt = ?4, owner = ?5, effect_id = ?6, \
     next_check_at = ?7, settle_by_at = ?8, disagreement = ?9, superseded_by = ?10, updated_at = ?11, settled_at = ?12, \
     purged_at = ?13, journal_seq = ?14, journal_hash = ?15, progress = ?16, answer = ?17, uncertain_since = ?19 \
     WHERE number = ?1 AND journal_hash = ?18";

const ERASE_BODY: &str = "UPDATE onceward_operation SET body = ?2 WHERE number = ?1";

const INSERT_ENTRY: &str = "INSERT INTO onceward_journal (operation, seq, at, actor, event, detail, salt, commitment, hash) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Entries of one operation; the columns are what [`entry`] reads, in its order.
pub(crate) const ENTRIES: &str = "SELECT seq, at, actor, event, detail, salt, commitment, hash FROM onceward_journal \
     WHERE operation = (SELECT number FROM onceward_operation WHERE tenant = ?1 AND operation_id = ?2) AND seq > ?3 \
     ORDER BY seq LIMIT ?4";

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
pub(crate) fn body(operation: &Operation) -> Result<Vec<u8>, Fault> {
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
    };
    blob::encode(&body, 256 + binding.arguments.present().map_or(0, |arguments| arguments.text().len()))
}

/// Columns that follow from the state.
struct Moving<'a> {
    cause: Option<&'static str>,
    owner: Option<&'a OwnerId>,
    effect_id: Option<&'a EffectId>,
    next_check: Option<Timestamp>,
    uncertain_since: Option<Timestamp>,
    settle_by: Option<Timestamp>,
    superseded_by: Option<&'a OperationId>,
    answer: Option<Vec<u8>>,
    erased_at: Option<Timestamp>,
    disagreement: Option<&'static str>,
    progress: Vec<u8>,
}

fn moving(operation: &Operation) -> Result<Moving<'_>, Fault> {
    let mut moving = Moving {
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
pub(crate) fn uncertain_since(unknown: &Unknown) -> Timestamp {
    let latest = unknown.latest().claimed_at;
    unknown.attempts().iter().map(|attempt| attempt.claimed_at).min().unwrap_or(latest)
}

fn keep(answer: &Kept<Answer>, moving: &mut Moving<'_>) -> Result<Option<Timestamp>, Fault> {
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

/// Inserts the row and gives its number; nothing when the key exists.
pub(crate) fn insert(connection: &Connection, operation: &Operation, body: &[u8]) -> Result<Option<i64>, Fault> {
    let moving = moving(operation)?;
    let Operation { key, binding, terms, history, .. } = operation;
    let suspicion = terms.suspicion.as_ref();
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        key.tenant.as_str(),
        key.id.as_str(),
        binding.tool.as_str(),
        &binding.fingerprint.as_bytes()[..],
        binding.fingerprint_key.0,
        operation.state.name(),
        moving.cause,
        dispatch_name(terms.dispatch),
        terms.lane.as_ref().map(Lane::as_str),
        history.attempts,
        moving.owner.map(OwnerId::as_str),
        moving.effect_id.map(EffectId::as_str),
        suspicion.map(|suspicion| &suspicion.mark.as_bytes()[..]),
        suspicion.map(|suspicion| &suspicion.group.as_bytes()[..]),
        micros(terms.deadline),
        micros(moving.next_check),
        micros(moving.settle_by),
        moving.disagreement,
        terms.corrects.as_ref().map(OperationId::as_str),
        moving.superseded_by.map(OperationId::as_str),
        operation.created_at.as_micros(),
        operation.updated_at.as_micros(),
        micros(operation.settled_at),
        micros(moving.erased_at),
        operation.journal.seq,
        &operation.journal.hash[..],
        body,
        moving.progress,
        moving.answer,
        micros(moving.uncertain_since),
    ])?;
    Ok((inserted == 1).then(|| connection.last_insert_rowid()))
}

/// Replaces what moves of the row; says whether its journal still ended at `before`.
pub(crate) fn update(connection: &Connection, number: i64, before: Head, operation: &Operation) -> Result<bool, Fault> {
    let moving = moving(operation)?;
    let changed = connection.prepare_cached(UPDATE)?.execute(params![
        number,
        operation.state.name(),
        moving.cause,
        operation.history.attempts,
        moving.owner.map(OwnerId::as_str),
        moving.effect_id.map(EffectId::as_str),
        micros(moving.next_check),
        micros(moving.settle_by),
        moving.disagreement,
        moving.superseded_by.map(OperationId::as_str),
        operation.updated_at.as_micros(),
        micros(operation.settled_at),
        micros(moving.erased_at),
        operation.journal.seq,
        &operation.journal.hash[..],
        moving.progress,
        moving.answer,
        &before.hash[..],
        micros(moving.uncertain_since),
    ])?;
    if changed != 1 {
        return Ok(false);
    }
    if let Kept::Erased { .. } = operation.binding.arguments {
        connection.prepare_cached(ERASE_BODY)?.execute(params![number, body(operation)?])?;
    }
    Ok(true)
}

/// Erases the details of the entries before `seq`, and their salts; what was committed to stays.
pub(crate) fn erase_details(connection: &Connection, number: i64, seq: u32) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE onceward_journal SET detail = NULL, salt = NULL \
             WHERE operation = ?1 AND seq < ?2 AND detail IS NOT NULL",
        )?
        .execute(params![number, seq])?;
    Ok(())
}

/// Appends entries to the journal of row `number`. One statement each: of several rows, SQLite would keep undo copies.
pub(crate) fn append(connection: &Connection, number: i64, entries: &[Entry]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(INSERT_ENTRY)?;
    for entry in entries {
        statement.execute(params![
            number,
            entry.seq,
            entry.at.as_micros(),
            entry.actor,
            entry.event,
            entry.detail.as_deref().map(blob::encode_text),
            entry.salt.as_ref().map(|salt| &salt[..]),
            &entry.commitment[..],
            &entry.hash[..],
        ])?;
    }
    Ok(())
}

/// The operation in a row of [`select`].
pub(crate) fn operation(row: &Row<'_>) -> Result<(i64, Operation), Fault> {
    let key = OperationKey {
        tenant: name("tenant", TenantId::parse(text(row, 1)?))?,
        id: name("operation_id", OperationId::parse(text(row, 2)?))?,
    };
    decode(row, key.clone()).map_err(|fault| match fault {
        Fault::Row(what) => Fault::Row(format!("operation {key}: {what}")),
        Fault::Sql(error) => Fault::Sql(error),
    })
}

fn decode(row: &Row<'_>, key: OperationKey) -> Result<(i64, Operation), Fault> {
    let body: BodyIn = blob::decode("body", bytes(row, 19)?)?;
    let progress: ProgressIn = blob::decode("progress", bytes(row, 20)?)?;
    let suspicion = match (optional_hash(row, 10)?, optional_hash(row, 11)?) {
        (Some(mark), Some(group)) => Some(Suspicion {
            mark: Fingerprint::from_bytes(mark),
            group: Fingerprint::from_bytes(group),
            business: body.business,
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(Fault::Row("half a suspicion".to_owned())),
    };
    let state = state(row, progress.state)?;
    if state.name() != text(row, 6)? {
        return Err(Fault::Row("column state and column progress differ".to_owned()));
    }
    let operation = Operation {
        binding: Binding {
            tool: name("tool", ToolName::parse(text(row, 3)?))?,
            tool_version: body.tool_version,
            comparison: body.comparison,
            fingerprint: Fingerprint::from_bytes(hash(row, 4)?),
            fingerprint_key: FingerprintKeyId(row.get(5)?),
            arguments: body.arguments,
        },
        terms: Terms {
            principal: body.principal,
            dispatch: dispatch(text(row, 7)?)?,
            lane: optional_text(row, 8)?.map(|text| name("lane", Lane::parse(text))).transpose()?,
            deadline: time(row, 12)?,
            corrects: optional_text(row, 13)?.map(|text| name("corrects", OperationId::parse(text))).transpose()?,
            second_of: body.second_of,
            title: body.title,
            suspicion,
            pin: body.pin,
        },
        history: progress.history,
        state,
        journal: Head { seq: row.get(17)?, hash: hash(row, 18)? },
        created_at: Timestamp::from_micros(row.get(14)?),
        updated_at: Timestamp::from_micros(row.get(15)?),
        settled_at: time(row, 16)?,
        key,
    };
    Ok((row.get(0)?, operation))
}

fn state(row: &Row<'_>, state: StateIn) -> Result<State, Fault> {
    let answer = |done: &Done| match (done.erased_at, row.get_ref(21)?.as_blob_or_null().map_err(broken)?) {
        (Some(at), None) => Ok(Kept::Erased { at }),
        (None, Some(bytes)) => Ok(Kept::Present(blob::decode("answer", bytes)?)),
        (Some(_), Some(_)) => Err(Fault::Row("an erased answer is still there".to_owned())),
        (None, None) => Err(Fault::Row("the answer is missing".to_owned())),
    };
    Ok(match state {
        StateIn::Proposed(proposal) => State::Proposed(proposal),
        StateIn::Approved(ready) => State::Approved(ready),
        StateIn::Pending(pending) => State::Pending(pending),
        StateIn::Unknown(unknown) => State::Unknown(unknown),
        StateIn::Succeeded(done) => State::Succeeded(Success {
            answer: answer(&done)?,
            effect_id: optional_text(row, 9)?.map(|text| name("effect_id", EffectId::parse(text))).transpose()?,
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

/// The journal entry in a row of [`ENTRIES`].
pub(crate) fn entry(row: &Row<'_>) -> Result<Entry, Fault> {
    let salt = match row.get_ref(5)?.as_blob_or_null().map_err(broken)? {
        Some(bytes) => Some(bytes.try_into().map_err(|_| Fault::Row("a salt has not 16 bytes".to_owned()))?),
        None => None,
    };
    Ok(Entry {
        seq: row.get(0)?,
        at: Timestamp::from_micros(row.get(1)?),
        actor: row.get(2)?,
        event: row.get(3)?,
        detail: match row.get_ref(4)?.as_blob_or_null().map_err(broken)? {
            Some(bytes) => Some(blob::decode_text("detail", bytes)?),
            None => None,
        },
        salt,
        commitment: hash(row, 6)?,
        hash: hash(row, 7)?,
    })
}

const fn dispatch_name(dispatch: Dispatcher) -> &'static str {
    match dispatch {
        Dispatcher::Caller => "caller",
        Dispatcher::Auto => "auto",
    }
}

fn dispatch(text: &str) -> Result<Dispatcher, Fault> {
    match text {
        "caller" => Ok(Dispatcher::Caller),
        "auto" => Ok(Dispatcher::Auto),
        other => Err(Fault::Row(format!("column dispatch is {other:?}"))),
    }
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Fault> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, Fault> {
    row.get_ref(column)?.as_str().map_err(broken)
}

fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, Fault> {
    row.get_ref(column)?.as_str_or_null().map_err(broken)
}

fn bytes<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Fault> {
    row.get_ref(column)?.as_blob().map_err(broken)
}

pub(crate) fn hash(row: &Row<'_>, column: usize) -> Result<[u8; 32], Fault> {
    bytes(row, column)?.try_into().map_err(|_| Fault::Row("a hash has not 32 bytes".to_owned()))
}

fn optional_hash(row: &Row<'_>, column: usize) -> Result<Option<[u8; 32]>, Fault> {
    match row.get_ref(column)?.as_blob_or_null().map_err(broken)? {
        Some(bytes) => bytes.try_into().map(Some).map_err(|_| Fault::Row("a hash has not 32 bytes".to_owned())),
        None => Ok(None),
    }
}

pub(crate) fn name<T>(column: &'static str, parsed: Result<T, InvalidName>) -> Result<T, Fault> {
    parsed.map_err(|error| Fault::Row(format!("column {column}: {error}")))
}

fn broken(error: rusqlite::types::FromSqlError) -> Fault {
    Fault::Row(error.to_string())
}
