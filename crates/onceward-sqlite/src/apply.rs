//! One command inside the writer's transaction: look, let the rules decide, write what they say.

use std::collections::HashMap;

use onceward_core::journal::Head;
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_core::time::Timestamp;
use onceward_ledger::credential::Credential;
use onceward_ledger::store::{Applied, Command, Found, Opening, Step};
use onceward_ledger::transact::{self, Row, Transacted, Write};
use rusqlite::{Connection, OptionalExtension, params};

use crate::chance::Salts;
use crate::error::Fault;
use crate::find::{self, Sight};
use crate::{blob, limits, rows};

/// What a command came to, answered once its group is committed.
pub(crate) struct Outcome {
    pub(crate) answer: Applied,
    /// What it wrote to an operation, by which it can be found again.
    pub(crate) written: Option<Written>,
}

/// A row as it stands in this transaction.
pub(crate) struct Written {
    pub(crate) number: i64,
    pub(crate) operation: Operation,
}

impl Written {
    /// By what it is known whether it was committed.
    pub(crate) fn landmark(&self) -> Landmark {
        Landmark { key: self.operation.key.clone(), head: self.operation.journal }
    }
}

/// A journal entry that is there if, and only if, a command was committed.
#[derive(Clone, Debug)]
pub(crate) struct Landmark {
    pub(crate) key: OperationKey,
    pub(crate) head: Head,
}

/// What the writer keeps beside its connection.
pub(crate) struct Desk {
    pub(crate) salts: Salts,
    pub(crate) recent: Recent,
}

/// A command and, for an opening, the blob that the submitting thread has made.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) command: Command,
    pub(crate) body: Option<Vec<u8>>,
}

impl Order {
    /// Made by the thread that submits, so that the writer has less to do.
    pub(crate) fn new(command: Command) -> Result<Self, Fault> {
        let body = match &command {
            Command::Open(opening) => Some(rows::body(&opening.operation)?),
            Command::Step(_)
            | Command::Beat { .. }
            | Command::ForgetOwner(_)
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. } => None,
        };
        Ok(Self { command, body })
    }
}

/// Applies a command; what it wrote is visible in this transaction only.
pub(crate) fn apply(
    connection: &Connection,
    command: Command,
    body: Option<&[u8]>,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Outcome, Fault> {
    match command {
        Command::Open(opening) => open(connection, *opening, body, at, desk),
        Command::Step(order) => step(connection, *order, at, desk),
        Command::Beat { owner, kind, beat } => {
            let beat = i64::try_from(beat).unwrap_or(i64::MAX);
            connection
                .prepare_cached(
                    "INSERT INTO onceward_owner (owner, kind, beat) VALUES (?1, ?2, ?3) \
                     ON CONFLICT (owner) DO UPDATE SET kind = excluded.kind, beat = excluded.beat",
                )?
                .execute(params![owner.as_str(), kind.name(), beat])?;
            Ok(done())
        }
        Command::ForgetOwner(owner) => {
            connection
                .prepare_cached(
                    "DELETE FROM onceward_owner WHERE owner = ?1 \
                     AND NOT EXISTS (SELECT 1 FROM onceward_operation WHERE owner = ?1)",
                )?
                .execute([owner.as_str()])?;
            Ok(done())
        }
        Command::Pin { hash, body } => {
            connection
                .prepare_cached(
                    "INSERT INTO onceward_pin (digest, body, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                )?
                .execute(params![hash, blob::encode_text(&body), at.as_micros()])?;
            Ok(done())
        }
        Command::PutCredential(credential) => put_credential(connection, &credential),
        Command::RevokeCredential { id } => revoke_credential(connection, &id, at),
    }
}

fn done() -> Outcome {
    Outcome { answer: Applied::Done, written: None }
}

/// Inserts an operation, unless its key exists or an earlier one is suspected.
pub(crate) fn open(
    connection: &Connection,
    opening: Opening,
    body: Option<&[u8]>,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Outcome, Fault> {
    let sight = find::look(connection, &transact::opening_wants(&opening), at)?;
    let transacted = transact::open(sight.found, opening, at, || desk.salts.next());
    write(connection, transacted, sight.number, body)
}

/// What the rules say to an opening; nothing is written.
pub(crate) fn decide_opening(
    connection: &Connection,
    opening: Opening,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Applied, Fault> {
    let sight = find::look(connection, &transact::opening_wants(&opening), at)?;
    Ok(transact::open(sight.found, opening, at, || desk.salts.next()).answer)
}

fn step(connection: &Connection, step: Step, at: Timestamp, desk: &mut Desk) -> Result<Outcome, Fault> {
    let wants = transact::step_wants(&step);
    let sight = match desk.recent.take(connection, wants.key)? {
        Some((number, operation)) => {
            let same_effect = match wants.effect {
                Some(effect) => find::same_effect(connection, wants.key, &operation.binding.tool, effect)?,
                None => None,
            };
            let found = Found { operation: Some(operation), suspects: Vec::new(), same_effect };
            Sight { found, number: Some(number) }
        }
        None => find::look(connection, &wants, at)?,
    };
    let transacted = transact::step(sight.found, step, at, || desk.salts.next());
    write(connection, transacted, sight.number, None)
}

/// Writes what the rules have decided.
fn write(
    connection: &Connection,
    transacted: Transacted,
    number: Option<i64>,
    body: Option<&[u8]>,
) -> Result<Outcome, Fault> {
    let Transacted { write, answer } = transacted;
    let Some(Write { row, operation, entries }) = write else {
        return Ok(Outcome { answer, written: None });
    };
    let number = match (row, number, body) {
        (Row::New, None, Some(body)) => rows::insert(connection, &operation, body)?,
        (Row::New, None, None) => rows::insert(connection, &operation, &rows::body(&operation)?)?,
        (Row::Known, Some(number), _) => {
            rows::update(connection, number, &operation)?;
            number
        }
        (Row::New, Some(_), _) | (Row::Known, None, _) => {
            return Err(Fault::Row(format!("operation {} is both new and known", operation.key)));
        }
    };
    rows::append(connection, number, &entries)?;
    Ok(Outcome { answer, written: Some(Written { number, operation }) })
}

fn put_credential(connection: &Connection, credential: &Credential) -> Result<Outcome, Fault> {
    let grant = serde_json::to_string(&credential.grant)
        .map_err(|error| Fault::Row(format!("a grant cannot be written as JSON: {error}")))?;
    connection
        .prepare_cached(
            "INSERT INTO onceward_credential (hash, credential_id, tenant, grant_json, created_at, revoked_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (hash) DO NOTHING",
        )?
        .execute(params![
            &credential.hash.0[..],
            credential.id,
            credential.grant.tenant().as_str(),
            grant,
            credential.created_at.as_micros(),
            credential.revoked_at.map(Timestamp::as_micros),
        ])?;
    Ok(done())
}

fn revoke_credential(connection: &Connection, id: &str, at: Timestamp) -> Result<Outcome, Fault> {
    let known = connection
        .prepare_cached("SELECT 1 FROM onceward_credential WHERE credential_id = ?1")?
        .query_row([id], |_| Ok(()))
        .optional()?;
    if known.is_none() {
        return Ok(Outcome { answer: Applied::NoSuchOperation, written: None });
    }
    connection
        .prepare_cached("UPDATE onceward_credential SET revoked_at = ?2 WHERE credential_id = ?1 AND revoked_at IS NULL")?
        .execute(params![id, at.as_micros()])?;
    Ok(done())
}

/// Operations that this writer has just written and that will be settled soon. A row is taken from here only when its journal
/// still ends where this one does, so that nothing another process has written is missed.
#[derive(Default)]
pub(crate) struct Recent {
    operations: HashMap<OperationKey, (i64, Operation)>,
}

impl Recent {
    /// Remembers a row that is committed.
    pub(crate) fn remember(&mut self, written: Written) {
        let Written { number, operation } = written;
        let bytes = operation.binding.arguments.present().map_or(0, |arguments| arguments.text().len());
        if operation.is_settled() || bytes > limits::RECENT_BODY_BYTES_MAX {
            return;
        }
        if self.operations.len() >= limits::RECENT_MAX {
            // What has not been settled by now is settled the longer way.
            self.operations.clear();
        }
        self.operations.insert(operation.key.clone(), (number, operation));
    }

    fn take(&mut self, connection: &Connection, key: &OperationKey) -> rusqlite::Result<Option<(i64, Operation)>> {
        let Some((number, operation)) = self.operations.remove(key) else { return Ok(None) };
        let mut statement = connection.prepare_cached("SELECT journal_hash FROM onceward_operation WHERE number = ?1")?;
        let mut rows = statement.query([number])?;
        let same = match rows.next()? {
            Some(row) => row.get_ref(0)?.as_blob()? == &operation.journal.hash[..],
            None => false,
        };
        Ok(same.then_some((number, operation)))
    }

    /// Forgets all: the connection, and perhaps the file, is another one.
    pub(crate) fn clear(&mut self) {
        self.operations.clear();
    }
}
