//! Operations as rows of PostgreSQL: written many at a time, by arrays; read one by one.

use onceward_core::journal::Entry;
use onceward_core::key::{EffectId, Lane, OperationId, OperationKey, OwnerId};
use onceward_core::operation::Operation;
use onceward_core::receipt::Kept;
use onceward_core::time::Timestamp;
use onceward_ledger::mark::marks;
use onceward_ledger::record::{self, Columns};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::chance;
use crate::error::Fault;

/// A query of whole operations: the columns that [`operation`] reads, in its order, and how they are chosen.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant, operation_id, tool, fingerprint, fingerprint_key, state, dispatch, lane, effect_id, ",
            "suspicion_mark, suspicion_group, deadline_at, corrects, created_at, updated_at, settled_at, journal_seq, ",
            "journal_hash, body, progress, answer, ordinal FROM onceward.operation ",
            $rest
        )
    };
}
pub(crate) use select;

/// Inserts rows with their journal and marks, where the key is free, and says which were. One statement, so that a row that
/// lost the race for its key leaves nothing behind.
pub(crate) const INSERT: &str = "WITH input AS (SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], \
     $5::bytea[], $6::int8[], $7::text[], $8::text[], $9::text[], $10::text[], $11::int8[], $12::text[], $13::text[], \
     $14::bytea[], $15::bytea[], $16::int8[], $17::int8[], $18::int8[], $19::int8[], $20::text[], $21::text[], $22::text[], \
     $23::int8[], $24::int8[], $25::int8[], $26::int8[], $27::int8[], $28::bytea[], $29::bytea[], $30::bytea[], \
     $31::bytea[]) AS i (tenant, operation_id, ordinal, tool, fingerprint, fingerprint_key, state, cause, dispatch, lane, \
     attempt, owner, effect_id, suspicion_mark, suspicion_group, deadline_at, next_check_at, settle_by_at, uncertain_since, \
     disagreement, corrects, superseded_by, created_at, updated_at, settled_at, purged_at, journal_seq, journal_hash, body, \
     progress, answer)), \
     made AS (INSERT INTO onceward.operation (tenant, operation_id, ordinal, tool, fingerprint, fingerprint_key, state, cause, \
     dispatch, lane, attempt, owner, effect_id, suspicion_mark, suspicion_group, deadline_at, next_check_at, settle_by_at, \
     uncertain_since, disagreement, corrects, superseded_by, created_at, updated_at, settled_at, purged_at, journal_seq, \
     journal_hash, body, progress, answer) SELECT * FROM input ORDER BY tenant, operation_id \
     ON CONFLICT (tenant, operation_id) DO NOTHING RETURNING tenant, operation_id), \
     entries AS (INSERT INTO onceward.journal (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, hash) \
     SELECT e.* FROM unnest($32::text[], $33::text[], $34::int8[], $35::int8[], $36::text[], $37::text[], $38::bytea[], \
     $39::bytea[], $40::bytea[], $41::bytea[]) AS e (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, \
     hash) JOIN made USING (tenant, operation_id)), \
     marks AS (INSERT INTO onceward.mark (digest, tenant, operation_id) SELECT m.* FROM unnest($42::bytea[], $43::text[], \
     $44::text[]) AS m (digest, tenant, operation_id) JOIN made USING (tenant, operation_id) ON CONFLICT DO NOTHING) \
     SELECT tenant, operation_id FROM made";

/// Replaces what moves of rows whose journal still ends where it did, appends to it, and says which were.
pub(crate) const UPDATE: &str = "WITH input AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], \
     $5::text[], $6::int8[], $7::text[], $8::text[], $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::text[], \
     $14::int8[], $15::int8[], $16::int8[], $17::int8[], $18::bytea[], $19::bytea[], $20::bytea[], $21::bytea[]) \
     AS i (tenant, operation_id, before, state, cause, attempt, owner, effect_id, next_check_at, settle_by_at, \
     uncertain_since, disagreement, superseded_by, updated_at, settled_at, purged_at, journal_seq, journal_hash, progress, \
     answer, body)), \
     changed AS (UPDATE onceward.operation o SET state = i.state, cause = i.cause, attempt = i.attempt, owner = i.owner, \
     effect_id = i.effect_id, next_check_at = i.next_check_at, settle_by_at = i.settle_by_at, \
     uncertain_since = i.uncertain_since, disagreement = i.disagreement, superseded_by = i.superseded_by, \
     updated_at = i.updated_at, settled_at = i.settled_at, purged_at = i.purged_at, journal_seq = i.journal_seq, \
     journal_hash = i.journal_hash, progress = i.progress, answer = i.answer, body = coalesce(i.body, o.body) \
     FROM input i WHERE o.tenant = i.tenant AND o.operation_id = i.operation_id AND o.journal_hash = i.before \
     RETURNING o.tenant, o.operation_id), \
     entries AS (INSERT INTO onceward.journal (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, hash) \
     SELECT e.* FROM unnest($22::text[], $23::text[], $24::int8[], $25::int8[], $26::text[], $27::text[], $28::bytea[], \
     $29::bytea[], $30::bytea[], $31::bytea[]) AS e (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, \
     hash) JOIN changed USING (tenant, operation_id)), \
     marks AS (INSERT INTO onceward.mark (digest, tenant, operation_id) SELECT m.* FROM unnest($32::bytea[], $33::text[], \
     $34::text[]) AS m (digest, tenant, operation_id) JOIN changed USING (tenant, operation_id) ON CONFLICT DO NOTHING) \
     SELECT tenant, operation_id FROM changed";

/// Erases the details of the entries before a number, and their salts; what was committed to stays.
pub(crate) const ERASE_DETAILS: &str = "UPDATE onceward.journal SET detail = NULL, salt = NULL \
     WHERE tenant = $1 AND operation_id = $2 AND seq < $3 AND detail IS NOT NULL";

/// Entries of one operation; the columns are what [`entry`] reads, in its order.
pub(crate) const ENTRIES: &str = "SELECT seq, at, actor, event, detail, salt, commitment, hash FROM onceward.journal \
     WHERE tenant = $1 AND operation_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";

/// Parameters of one statement: each an array, with its type.
pub(crate) struct Arrays {
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Arrays {
    fn new() -> Self {
        Self { values: Vec::new() }
    }

    fn put<T: ToSql + Sync + Send + 'static>(&mut self, kind: Type, values: Vec<T>) {
        self.values.push((Box::new(values), kind));
    }

    pub(crate) fn as_params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.values.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}

/// A row to write, and its journal.
pub(crate) struct Written<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) entries: &'a [Entry],
    /// Where the journal of the row ended that was decided on; `None` for a new one.
    pub(crate) before: Option<[u8; 32]>,
}

/// The parameters of [`INSERT`].
pub(crate) fn insert(rows: &[Written<'_>]) -> Result<Arrays, Fault> {
    let mut moving = Vec::with_capacity(rows.len());
    let mut bodies = Vec::with_capacity(rows.len());
    for row in rows {
        moving.push(record::moving(row.operation)?);
        bodies.push(record::body(row.operation)?);
    }
    let operations = || rows.iter().map(|row| row.operation);
    let text = |of: &dyn Fn(&Operation) -> String| operations().map(of).collect::<Vec<_>>();
    let maybe = |of: &dyn Fn(&Operation) -> Option<String>| operations().map(of).collect::<Vec<_>>();
    let number = |of: &dyn Fn(&Operation) -> i64| operations().map(of).collect::<Vec<_>>();
    let times = |of: &dyn Fn(&Operation) -> Option<i64>| operations().map(of).collect::<Vec<_>>();
    let mut arrays = Arrays::new();
    arrays.put(Type::TEXT_ARRAY, text(&|one| one.key.tenant.to_string()));
    arrays.put(Type::TEXT_ARRAY, text(&|one| one.key.id.to_string()));
    arrays.put(Type::INT8_ARRAY, number(&|one| ordinal(one.created_at)));
    arrays.put(Type::TEXT_ARRAY, text(&|one| one.binding.tool.to_string()));
    arrays.put(Type::BYTEA_ARRAY, operations().map(|one| one.binding.fingerprint.as_bytes().to_vec()).collect());
    arrays.put(Type::INT8_ARRAY, number(&|one| i64::from(one.binding.fingerprint_key.0)));
    arrays.put(Type::TEXT_ARRAY, text(&|one| one.state.name().to_owned()));
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.cause).collect());
    arrays.put(Type::TEXT_ARRAY, text(&|one| record::dispatch_name(one.terms.dispatch).to_owned()));
    arrays.put(Type::TEXT_ARRAY, maybe(&|one| one.terms.lane.as_ref().map(|lane| Lane::as_str(lane).to_owned())));
    arrays.put(Type::INT8_ARRAY, number(&|one| i64::from(one.history.attempts)));
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.owner.map(OwnerId::to_string)).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.effect_id.map(effect_text)).collect());
    let suspicion = |of: &dyn Fn(&onceward_core::suspicion::Suspicion) -> Vec<u8>| {
        operations().map(|one| one.terms.suspicion.as_ref().map(of)).collect::<Vec<_>>()
    };
    arrays.put(Type::BYTEA_ARRAY, suspicion(&|one| one.mark.as_bytes().to_vec()));
    arrays.put(Type::BYTEA_ARRAY, suspicion(&|one| one.group.as_bytes().to_vec()));
    arrays.put(Type::INT8_ARRAY, times(&|one| one.terms.deadline.map(Timestamp::as_micros)));
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.next_check)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.settle_by)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.uncertain_since)).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.disagreement).collect());
    arrays.put(Type::TEXT_ARRAY, maybe(&|one| one.terms.corrects.as_ref().map(OperationId::to_string)));
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.superseded_by.map(OperationId::to_string)).collect());
    arrays.put(Type::INT8_ARRAY, number(&|one| one.created_at.as_micros()));
    arrays.put(Type::INT8_ARRAY, number(&|one| one.updated_at.as_micros()));
    arrays.put(Type::INT8_ARRAY, times(&|one| micros(one.settled_at)));
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.erased_at)).collect());
    arrays.put(Type::INT8_ARRAY, number(&|one| i64::from(one.journal.seq)));
    arrays.put(Type::BYTEA_ARRAY, operations().map(|one| one.journal.hash.to_vec()).collect());
    arrays.put(Type::BYTEA_ARRAY, bodies);
    let (progress, answers): (Vec<_>, Vec<_>) = moving.into_iter().map(|one| (one.progress, one.answer)).unzip();
    arrays.put(Type::BYTEA_ARRAY, progress);
    arrays.put(Type::BYTEA_ARRAY, answers);
    entries(&mut arrays, rows);
    marked(&mut arrays, rows);
    Ok(arrays)
}

/// The parameters of [`UPDATE`].
pub(crate) fn update(rows: &[Written<'_>]) -> Result<Arrays, Fault> {
    let mut moving = Vec::with_capacity(rows.len());
    let mut bodies = Vec::with_capacity(rows.len());
    for row in rows {
        moving.push(record::moving(row.operation)?);
        bodies.push(match row.operation.binding.arguments {
            Kept::Erased { .. } => Some(record::body(row.operation)?),
            Kept::Present(_) => None,
        });
    }
    let operations = || rows.iter().map(|row| row.operation);
    let mut arrays = Arrays::new();
    arrays.put(Type::TEXT_ARRAY, operations().map(|one| one.key.tenant.to_string()).collect());
    arrays.put(Type::TEXT_ARRAY, operations().map(|one| one.key.id.to_string()).collect());
    arrays.put(Type::BYTEA_ARRAY, rows.iter().map(|row| row.before.map(|hash| hash.to_vec())).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.state).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.cause).collect());
    arrays.put(Type::INT8_ARRAY, operations().map(|one| i64::from(one.history.attempts)).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.owner.map(OwnerId::to_string)).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.effect_id.map(effect_text)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.next_check)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.settle_by)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.uncertain_since)).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.disagreement).collect());
    arrays.put(Type::TEXT_ARRAY, moving.iter().map(|one| one.superseded_by.map(OperationId::to_string)).collect());
    arrays.put(Type::INT8_ARRAY, operations().map(|one| one.updated_at.as_micros()).collect());
    arrays.put(Type::INT8_ARRAY, operations().map(|one| micros(one.settled_at)).collect());
    arrays.put(Type::INT8_ARRAY, moving.iter().map(|one| micros(one.erased_at)).collect());
    arrays.put(Type::INT8_ARRAY, operations().map(|one| i64::from(one.journal.seq)).collect());
    arrays.put(Type::BYTEA_ARRAY, operations().map(|one| one.journal.hash.to_vec()).collect());
    let (progress, answers): (Vec<_>, Vec<_>) = moving.into_iter().map(|one| (one.progress, one.answer)).unzip();
    arrays.put(Type::BYTEA_ARRAY, progress);
    arrays.put(Type::BYTEA_ARRAY, answers);
    arrays.put(Type::BYTEA_ARRAY, bodies);
    entries(&mut arrays, rows);
    marked(&mut arrays, rows);
    Ok(arrays)
}

fn entries(arrays: &mut Arrays, rows: &[Written<'_>]) {
    let all = || rows.iter().flat_map(|row| row.entries.iter().map(|entry| (&row.operation.key, entry)));
    arrays.put(Type::TEXT_ARRAY, all().map(|(key, _)| key.tenant.to_string()).collect());
    arrays.put(Type::TEXT_ARRAY, all().map(|(key, _)| key.id.to_string()).collect());
    arrays.put(Type::INT8_ARRAY, all().map(|(_, entry)| i64::from(entry.seq)).collect());
    arrays.put(Type::INT8_ARRAY, all().map(|(_, entry)| entry.at.as_micros()).collect());
    arrays.put(Type::TEXT_ARRAY, all().map(|(_, entry)| entry.actor.clone()).collect());
    arrays.put(Type::TEXT_ARRAY, all().map(|(_, entry)| entry.event.clone()).collect());
    arrays.put(Type::BYTEA_ARRAY, all().map(|(_, entry)| entry.detail.as_deref().map(record::encode_text)).collect());
    arrays.put(Type::BYTEA_ARRAY, all().map(|(_, entry)| entry.salt.map(|salt| salt.to_vec())).collect());
    arrays.put(Type::BYTEA_ARRAY, all().map(|(_, entry)| entry.commitment.to_vec()).collect());
    arrays.put(Type::BYTEA_ARRAY, all().map(|(_, entry)| entry.hash.to_vec()).collect());
}

fn marked(arrays: &mut Arrays, rows: &[Written<'_>]) {
    let all: Vec<(Vec<u8>, &OperationKey)> = rows
        .iter()
        .flat_map(|row| marks(row.operation).into_iter().map(|mark| (mark.digest().to_vec(), &row.operation.key)))
        .collect();
    arrays.put(Type::BYTEA_ARRAY, all.iter().map(|(digest, _)| digest.clone()).collect());
    arrays.put(Type::TEXT_ARRAY, all.iter().map(|(_, key)| key.tenant.to_string()).collect());
    arrays.put(Type::TEXT_ARRAY, all.iter().map(|(_, key)| key.id.to_string()).collect());
}

fn effect_text(effect: &EffectId) -> String {
    effect.as_str().to_owned()
}

/// Where a new operation stands in lists: by its time, and by chance among those of one microsecond.
fn ordinal(created_at: Timestamp) -> i64 {
    let chance = i64::from(u16::from_be_bytes(chance::bytes::<2>()) & 0x0fff);
    created_at.as_micros().saturating_mul(4096).saturating_add(chance)
}

/// The operation in a row of [`select`].
pub(crate) fn operation(row: &Row) -> Result<Operation, Fault> {
    let columns = Columns {
        tenant: row.try_get(0)?,
        operation_id: row.try_get(1)?,
        tool: row.try_get(2)?,
        fingerprint: row.try_get(3)?,
        fingerprint_key: narrow("fingerprint_key", row.try_get(4)?)?,
        state: row.try_get(5)?,
        dispatch: row.try_get(6)?,
        lane: row.try_get(7)?,
        effect_id: row.try_get(8)?,
        suspicion_mark: row.try_get(9)?,
        suspicion_group: row.try_get(10)?,
        deadline_at: row.try_get(11)?,
        corrects: row.try_get(12)?,
        created_at: row.try_get(13)?,
        updated_at: row.try_get(14)?,
        settled_at: row.try_get(15)?,
        journal_seq: narrow("journal_seq", row.try_get(16)?)?,
        journal_hash: row.try_get(17)?,
        body: row.try_get(18)?,
        progress: row.try_get(19)?,
        answer: row.try_get(20)?,
    };
    Ok(record::operation(&columns)?)
}

/// The place in lists of a row of [`select`].
pub(crate) fn place(row: &Row) -> Result<i64, Fault> {
    Ok(row.try_get(21)?)
}

/// The journal entry in a row of [`ENTRIES`].
pub(crate) fn entry(row: &Row) -> Result<Entry, Fault> {
    let salt = match row.try_get::<_, Option<&[u8]>>(5)? {
        Some(bytes) => Some(bytes.try_into().map_err(|_| Fault::Row("a salt has not 16 bytes".to_owned()))?),
        None => None,
    };
    Ok(Entry {
        seq: narrow("seq", row.try_get(0)?)?,
        at: Timestamp::from_micros(row.try_get(1)?),
        actor: row.try_get(2)?,
        event: row.try_get(3)?,
        detail: match row.try_get::<_, Option<&[u8]>>(4)? {
            Some(bytes) => Some(record::decode_text("detail", bytes)?),
            None => None,
        },
        salt,
        commitment: record::hash(row.try_get(6)?)?,
        hash: record::hash(row.try_get(7)?)?,
    })
}

pub(crate) fn narrow(column: &'static str, number: i64) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| Fault::Row(format!("column {column} is {number}")))
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}
