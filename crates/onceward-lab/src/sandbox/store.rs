//! The sandbox's file: what has happened, what keys are remembered, what was asked.
//!
//! One connection behind one lock. Every write is committed when its method returns; a killed process loses none of them,
//! because the file is in write-ahead mode and what was handed to the operating system outlives the process.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use onceward_core::pointer::Pointer;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, named_params, params};
use serde_json::{Map, Value, json};

use super::clock::rfc3339;
use super::family::put;
use super::in_flight::AccountKey;
use super::limits::DATABASE_BUSY_MS;
use super::problem::Answer;
use super::resource::{Change, Kind, Resource};
use super::sync::locked;

/// A row that is to be.
#[derive(Debug, Clone)]
pub(crate) struct NewEffect {
    pub(crate) resource: Kind,
    pub(crate) account: String,
    pub(crate) at_us: i64,
    pub(crate) done_at_us: i64,
    pub(crate) idempotency_key: Option<String>,
    /// The key that no other row may carry.
    pub(crate) unique_key: Option<String>,
    pub(crate) marker: Option<String>,
    pub(crate) fingerprint: String,
    pub(crate) fields: Map<String, Value>,
    /// How a thing of a spoken interface gets its name; nothing where it has one.
    pub(crate) naming: Option<Naming>,
}

/// How a thing is named by its number, and where it carries its name.
#[derive(Debug, Clone)]
pub(crate) struct Naming {
    pub(crate) prefix: String,
    pub(crate) places: Vec<Pointer>,
}

/// The members of a spoken thing's fields: its name, and the thing as its interface shows it.
pub(crate) const SPOKEN_ID: &str = "id";
pub(crate) const SPOKEN_THING: &str = "thing";

/// A row that is.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub(crate) sequence: i64,
    pub(crate) resource: Kind,
    pub(crate) number: i64,
    pub(crate) account: String,
    pub(crate) created_at_us: i64,
    pub(crate) done_at_us: i64,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) marker: Option<String>,
    pub(crate) fingerprint: String,
    pub(crate) fields: Map<String, Value>,
    pub(crate) changed_to: Option<String>,
    pub(crate) changed_at_us: Option<i64>,
}

impl Effect {
    const COLUMNS: &'static str = "sequence, resource, number, account, created_at_us, done_at_us, idempotency_key, marker, \
                                   fingerprint, fields, changed_to, changed_at_us";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let corrupt = |column: usize| {
            rusqlite::Error::InvalidColumnType(column, "an effect".to_owned(), rusqlite::types::Type::Text)
        };
        Ok(Self {
            sequence: row.get(0)?,
            resource: Kind::from_name(&row.get::<_, String>(1)?).ok_or_else(|| corrupt(1))?,
            number: row.get(2)?,
            account: row.get(3)?,
            created_at_us: row.get(4)?,
            done_at_us: row.get(5)?,
            idempotency_key: row.get(6)?,
            marker: row.get(7)?,
            fingerprint: row.get(8)?,
            fields: serde_json::from_str(&row.get::<_, String>(9)?).map_err(|_| corrupt(9))?,
            changed_to: row.get(10)?,
            changed_at_us: row.get(11)?,
        })
    }

    /// Its name. A thing of a spoken interface has it in its fields, since each has its own place for it.
    pub(crate) fn id(&self) -> String {
        match &self.resource {
            Kind::Own(resource) => resource.id(self.number),
            Kind::Spoken(path) => self
                .fields
                .get(SPOKEN_ID)
                .and_then(Value::as_str)
                .map_or_else(|| format!("{path}#{}", self.number), str::to_owned),
        }
    }

    /// A spoken thing as its interface shows it.
    pub(crate) fn thing(&self) -> &Value {
        self.fields.get(SPOKEN_THING).unwrap_or(&Value::Null)
    }

    fn status(&self, now_us: i64) -> &str {
        match &self.changed_to {
            Some(changed) => changed,
            None if now_us < self.done_at_us => "processing",
            None => match &self.resource {
                Kind::Own(resource) => resource.first_status(),
                Kind::Spoken(_) => self.thing().get("status").and_then(Value::as_str).unwrap_or("done"),
            },
        }
    }

    /// The thing as its owner sees it at this time.
    pub(crate) fn view(&self, now_us: i64) -> Value {
        let mut view = Map::new();
        view.insert("id".to_owned(), self.id().into());
        view.insert("status".to_owned(), self.status(now_us).into());
        view.insert("created_at".to_owned(), rfc3339(self.created_at_us).into());
        view.extend(self.fields.clone());
        view.insert("marker".to_owned(), self.marker.clone().into());
        Value::Object(view)
    }

    /// The row as the auditor sees it.
    pub(crate) fn audit(&self, now_us: i64) -> Value {
        json!({
            "id": self.id(),
            "resource": self.resource.name(),
            "sequence": self.sequence,
            "account": self.account,
            "created_at": rfc3339(self.created_at_us),
            "idempotency_key": self.idempotency_key,
            "marker": self.marker,
            "request_fingerprint": self.fingerprint,
            "status": self.status(now_us),
            "changed_at": self.changed_at_us.map(rfc3339),
            "fields": match &self.resource {
                Kind::Own(_) => Value::Object(self.fields.clone()),
                Kind::Spoken(_) => self.thing().clone(),
            },
        })
    }
}

/// What a key finds.
#[derive(Debug, Clone)]
pub(crate) struct KeyRecord {
    pub(crate) first_used_us: i64,
    pub(crate) fingerprint: String,
    /// The effect it led to, if it did.
    pub(crate) effect: Option<i64>,
    /// The answer to give again; without one the work was begun and not finished.
    pub(crate) answer: Option<Answer>,
}

/// What is remembered under a key together with what is done.
#[derive(Debug)]
pub(crate) struct Remember<'a> {
    pub(crate) key: &'a AccountKey,
    pub(crate) at_us: i64,
    pub(crate) fingerprint: &'a str,
    pub(crate) answer: Answer,
}

/// Why the file did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Another row carries this key: somebody else was first.
    #[error("another row carries this key")]
    KeyTaken,
    /// The sandbox was reset while this request was under way.
    #[error("the sandbox was reset while this request was under way")]
    Reset,
    /// The file could not be read or written.
    #[error("the sandbox's file: {0}")]
    Database(#[from] rusqlite::Error),
}

/// Counts resets: a request that began before one must not write after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The file.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Mutex<Connection>,
    epoch: AtomicU64,
}

impl Store {
    /// Opens the file, and creates it where there is none.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(DATABASE_BUSY_MS))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(include_str!("schema.sql"))?;
        Ok(Self { connection: Mutex::new(connection), epoch: AtomicU64::new(0) })
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// Reads, seeing everything that is committed.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        Ok(read(&locked(&self.connection))?)
    }

    /// Writes in one transaction, which is committed when this returns `Ok`.
    pub(crate) fn write<T>(
        &self,
        epoch: Epoch,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = locked(&self.connection);
        if self.epoch() != epoch {
            return Err(StoreError::Reset);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        Ok(written)
    }

    /// Forgets everything, and whatever is still under way.
    pub(crate) fn reset(&self) -> Result<(), StoreError> {
        let mut connection = locked(&self.connection);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(
            "DELETE FROM key_record; DELETE FROM effect; DELETE FROM request; DELETE FROM sqlite_sequence;",
        )?;
        transaction.commit()?;
        self.epoch.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Creates the effect and remembers the answer, both or neither.
    ///
    /// `remember` sees the row that has been made, and says what a repetition will find.
    ///
    /// # Errors
    /// [`StoreError::KeyTaken`] when another row carries the key; then nothing has been done.
    pub(crate) fn create<'a>(
        &self,
        epoch: Epoch,
        new: &NewEffect,
        remember: impl FnOnce(&Effect) -> Option<Remember<'a>>,
    ) -> Result<Effect, StoreError> {
        self.write(epoch, |transaction| {
            let effect = insert_effect(transaction, new)?;
            if let Some(remember) = remember(&effect) {
                put_record(transaction, &remember, Some(effect.sequence))?;
            }
            Ok(effect)
        })
    }

    /// Remembers an answer that came with no effect.
    pub(crate) fn remember(&self, epoch: Epoch, remember: &Remember<'_>) -> Result<(), StoreError> {
        self.write(epoch, |transaction| put_record(transaction, remember, None))
    }

    /// Notes that work under this key has begun, unless that is already known.
    pub(crate) fn begin(
        &self,
        epoch: Epoch,
        key: &AccountKey,
        fingerprint: &str,
        at_us: i64,
    ) -> Result<(), StoreError> {
        self.write(epoch, |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO key_record (account, key, first_used_us, fingerprint) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO NOTHING",
                )?
                .execute(params![key.account, key.key, at_us, fingerprint])?;
            Ok(())
        })
    }

    /// What this key finds. A key first used before `forgotten_before_us` is forgotten by this: it finds nothing, and no
    /// row carries it any more.
    pub(crate) fn recognise(
        &self,
        epoch: Epoch,
        key: &AccountKey,
        forgotten_before_us: Option<i64>,
    ) -> Result<Option<KeyRecord>, StoreError> {
        let found = self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT first_used_us, fingerprint, effect, status, body FROM key_record WHERE account = ?1 AND key = ?2",
                )?
                .query_row(params![key.account, key.key], |row| {
                    read_record(row)
                })
                .optional()
        })?;
        match (found, forgotten_before_us) {
            (None, _) => Ok(None),
            (Some(record), Some(horizon)) if record.first_used_us <= horizon => {
                self.write(epoch, |transaction| {
                    transaction.execute(
                        "DELETE FROM key_record WHERE account = ?1 AND key = ?2 AND first_used_us <= ?3",
                        params![key.account, key.key, horizon],
                    )?;
                    transaction.execute(
                        "UPDATE effect SET unique_key = NULL WHERE created_at_us <= ?3 \
                         AND ((account = ?1 AND unique_key = ?2) OR sequence = ?4)",
                        params![key.account, key.key, horizon, record.effect],
                    )?;
                    Ok(())
                })?;
                Ok(None)
            }
            (Some(record), _) => Ok(Some(record)),
        }
    }

    pub(crate) fn effect(&self, sequence: i64) -> Result<Option<Effect>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!("SELECT {} FROM effect WHERE sequence = ?1", Effect::COLUMNS))?
                .query_row([sequence], Effect::read)
                .optional()
        })
    }

    /// The account's thing with this number, as soon as it is committed.
    pub(crate) fn find(&self, account: &str, resource: Resource, number: i64) -> Result<Option<Effect>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {} FROM effect WHERE resource = ?1 AND number = ?2 AND account = ?3",
                    Effect::COLUMNS
                ))?
                .query_row(params![resource.name(), number, account], Effect::read)
                .optional()
        })
    }

    /// The account's things, newest first: those with the marker, if one is named, that were created at or before
    /// `visible_until_us`. One more than `limit` is returned when there are more.
    pub(crate) fn list(
        &self,
        account: &str,
        resource: Resource,
        marker: Option<&str>,
        visible_until_us: i64,
        limit: usize,
    ) -> Result<Vec<Effect>, StoreError> {
        let marked = if marker.is_some() { "AND marker = :marker" } else { "AND :marker IS NULL" };
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {} FROM effect WHERE account = :account AND resource = :resource {marked} \
                 AND created_at_us <= :until ORDER BY number DESC LIMIT :limit",
                Effect::COLUMNS
            ))?;
            let rows = statement.query_map(
                named_params! {
                    ":account": account,
                    ":resource": resource.name(),
                    ":marker": marker,
                    ":until": visible_until_us,
                    ":limit": rows(limit + 1),
                },
                Effect::read,
            )?;
            rows.collect()
        })
    }

    /// Changes a thing that nobody has changed yet; one that was changed stays as it is. Returns it as it then is.
    pub(crate) fn change(
        &self,
        epoch: Epoch,
        effect: &Effect,
        change: Change,
        at_us: i64,
    ) -> Result<Option<Effect>, StoreError> {
        self.write(epoch, |transaction| {
            transaction.execute(
                "UPDATE effect SET changed_to = ?2, changed_at_us = ?3 WHERE sequence = ?1 AND changed_to IS NULL",
                params![effect.sequence, change.status, at_us],
            )?;
            Ok(())
        })?;
        self.effect(effect.sequence)
    }
}

/// A count of rows as SQL takes it.
pub(crate) fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads effects in the order of their sequence, for the auditor.
pub(crate) fn all_effects(
    connection: &Connection,
    resource: Option<&Kind>,
    account: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Effect>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM effect WHERE (?1 IS NULL OR resource = ?1) AND (?2 IS NULL OR account = ?2) \
         ORDER BY sequence LIMIT ?3",
        Effect::COLUMNS
    ))?;
    statement.query_map(params![resource.map(Kind::name), account, rows(limit)], Effect::read)?.collect()
}

fn insert_effect(transaction: &Transaction<'_>, new: &NewEffect) -> Result<Effect, StoreError> {
    let number: i64 = transaction
        .prepare_cached("SELECT coalesce(max(number), 1000) + 1 FROM effect WHERE resource = ?1")?
        .query_row([new.resource.name()], |row| row.get(0))?;
    let fields = named(new, number);
    transaction
        .prepare_cached(
            "INSERT INTO effect (resource, number, account, created_at_us, done_at_us, idempotency_key, unique_key, marker, \
             fingerprint, fields) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            new.resource.name(),
            number,
            new.account,
            new.at_us,
            new.done_at_us,
            new.idempotency_key,
            new.unique_key,
            new.marker,
            new.fingerprint,
            Value::Object(fields.clone()).to_string(),
        ])
        .map_err(|error| match error.sqlite_error_code() {
            // The numbers are counted inside this transaction, so the key is the only thing that can be taken.
            Some(ErrorCode::ConstraintViolation) if new.unique_key.is_some() => StoreError::KeyTaken,
            _ => StoreError::Database(error),
        })?;
    Ok(Effect {
        sequence: transaction.last_insert_rowid(),
        resource: new.resource.clone(),
        number,
        account: new.account.clone(),
        created_at_us: new.at_us,
        done_at_us: new.done_at_us,
        idempotency_key: new.idempotency_key.clone(),
        marker: new.marker.clone(),
        fingerprint: new.fingerprint.clone(),
        fields,
        changed_to: None,
        changed_at_us: None,
    })
}

/// The fields of the row with this number.
fn named(new: &NewEffect, number: i64) -> Map<String, Value> {
    let mut fields = new.fields.clone();
    if let Some(naming) = &new.naming {
        let id = format!("{}{number}", naming.prefix);
        if let Some(thing) = fields.get_mut(SPOKEN_THING) {
            naming.places.iter().for_each(|place| put(thing, place, id.clone().into()));
        }
        fields.insert(SPOKEN_ID.to_owned(), id.into());
    }
    fields
}

/// Completes what was begun under the key, or notes it. A complete record stands: the first answer is the one that is
/// given again, also where no constraint kept a second effect away.
fn put_record(transaction: &Transaction<'_>, remember: &Remember<'_>, effect: Option<i64>) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO key_record (account, key, first_used_us, fingerprint, effect, status, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (account, key) DO UPDATE \
             SET effect = excluded.effect, status = excluded.status, body = excluded.body WHERE status IS NULL",
        )?
        .execute(params![
            remember.key.account,
            remember.key.key,
            remember.at_us,
            remember.fingerprint,
            effect,
            remember.answer.status.as_u16(),
            remember.answer.body.to_string(),
        ])?;
    Ok(())
}

fn read_record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let corrupt =
        |column: usize| rusqlite::Error::InvalidColumnType(column, "an answer".to_owned(), rusqlite::types::Type::Text);
    let answer = match (row.get::<_, Option<u16>>(3)?, row.get::<_, Option<String>>(4)?) {
        (Some(status), Some(body)) => Some(Answer::new(
            StatusCode::from_u16(status).map_err(|_| corrupt(3))?,
            serde_json::from_str(&body).map_err(|_| corrupt(4))?,
        )),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(corrupt(4)),
    };
    Ok(KeyRecord { first_used_us: row.get(0)?, fingerprint: row.get(1)?, effect: row.get(2)?, answer })
}
