//! An operation as a row, and back: [`onceward_ledger::record`] says which fact is in which column, this file how SQLite is asked.

use onceward_core::journal::{Entry, Head};
use onceward_core::key::{EffectId, Lane, OperationId, OwnerId};
use onceward_core::operation::Operation;
use onceward_core::receipt::Kept;
use onceward_core::time::Timestamp;
use onceward_ledger::record::{self, Columns};
use rusqlite::{Connection, Row, params};

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

/// Inserts the row and gives its number; nothing when the key exists.
pub(crate) fn insert(connection: &Connection, operation: &Operation, body: &[u8]) -> Result<Option<i64>, Fault> {
    let moving = record::moving(operation)?;
    let Operation { key, binding, terms, history, .. } = operation;
    let suspicion = terms.suspicion.as_ref();
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        key.tenant.as_str(),
        key.id.as_str(),
        binding.tool.as_str(),
        &binding.fingerprint.as_bytes()[..],
        binding.fingerprint_key.0,
        moving.state,
        moving.cause,
        record::dispatch_name(terms.dispatch),
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
    let moving = record::moving(operation)?;
    let changed = connection.prepare_cached(UPDATE)?.execute(params![
        number,
        moving.state,
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
        connection.prepare_cached(ERASE_BODY)?.execute(params![number, record::body(operation)?])?;
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
            entry.detail.as_deref().map(record::encode_text),
            entry.salt.as_ref().map(|salt| &salt[..]),
            &entry.commitment[..],
            &entry.hash[..],
        ])?;
    }
    Ok(())
}

/// The operation in a row of [`select`], and the row's number.
pub(crate) fn operation(row: &Row<'_>) -> Result<(i64, Operation), Fault> {
    let columns = Columns {
        tenant: text(row, 1)?,
        operation_id: text(row, 2)?,
        tool: text(row, 3)?,
        fingerprint: bytes(row, 4)?,
        fingerprint_key: row.get(5)?,
        state: text(row, 6)?,
        dispatch: text(row, 7)?,
        lane: optional_text(row, 8)?,
        effect_id: optional_text(row, 9)?,
        suspicion_mark: optional_bytes(row, 10)?,
        suspicion_group: optional_bytes(row, 11)?,
        deadline_at: row.get(12)?,
        corrects: optional_text(row, 13)?,
        created_at: row.get(14)?,
        updated_at: row.get(15)?,
        settled_at: row.get(16)?,
        journal_seq: row.get(17)?,
        journal_hash: bytes(row, 18)?,
        body: bytes(row, 19)?,
        progress: bytes(row, 20)?,
        answer: optional_bytes(row, 21)?,
    };
    Ok((row.get(0)?, record::operation(&columns)?))
}

/// The journal entry in a row of [`ENTRIES`].
pub(crate) fn entry(row: &Row<'_>) -> Result<Entry, Fault> {
    let salt = match optional_bytes(row, 5)? {
        Some(bytes) => Some(bytes.try_into().map_err(|_| Fault::Row("a salt has not 16 bytes".to_owned()))?),
        None => None,
    };
    Ok(Entry {
        seq: row.get(0)?,
        at: Timestamp::from_micros(row.get(1)?),
        actor: row.get(2)?,
        event: row.get(3)?,
        detail: match optional_bytes(row, 4)? {
            Some(bytes) => Some(record::decode_text("detail", bytes)?),
            None => None,
        },
        salt,
        commitment: hash(row, 6)?,
        hash: hash(row, 7)?,
    })
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
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

fn optional_bytes<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a [u8]>, Fault> {
    row.get_ref(column)?.as_blob_or_null().map_err(broken)
}

pub(crate) fn hash(row: &Row<'_>, column: usize) -> Result<[u8; 32], Fault> {
    Ok(record::hash(bytes(row, column)?)?)
}

fn broken(error: rusqlite::types::FromSqlError) -> Fault {
    Fault::Row(error.to_string())
}
