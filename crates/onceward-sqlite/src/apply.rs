//! One command inside the writer's transaction: look, let the rules decide, write what they say.

use std::collections::HashMap;

use onceward_core::journal::Head;
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_core::time::Timestamp;
use onceward_ledger::credential::Credential;
use onceward_ledger::record;
use onceward_ledger::store::{Applied, Command, Found, Opening, Step};
use onceward_ledger::transact::{self, Details, Row, Transacted, Write};
use rusqlite::{Connection, OptionalExtension, params};

use crate::chance::Salts;
use crate::error::Fault;
use crate::find;
use crate::{limits, marks, position, rows};

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
            Command::Open(opening) => Some(record::body(&opening.operation)?),
            Command::Step(_)
            | Command::Beat { .. }
            | Command::ForgetOwner(_)
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. }
            | Command::Restore(_)
            | Command::CloseRestores { .. } => None,
        };
        Ok(Self { command, body })
    }
}

/// Applies a command; what it wrote is visible in this transaction only.
pub(crate) fn apply(
    connection: &Connection,
    command: &Command,
    body: Option<&[u8]>,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Outcome, Fault> {
    match command {
        Command::Open(opening) => open(connection, opening, body, at, desk),
        Command::Step(order) => step(connection, order, at, desk),
        Command::Beat { owner, kind, beat } => {
            let beat = i64::try_from(*beat).unwrap_or(i64::MAX);
            connection
                .prepare_cached(
                    "INSERT INTO onceward_owner (owner, kind, beat) VALUES (?1, ?2, ?3) \
                     ON CONFLICT (owner) DO UPDATE SET kind = excluded.kind, beat = excluded.beat",
                )?
                .execute(params![owner.as_str(), kind.name(), beat])?;
            position::raise(connection, *kind, at)?;
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
                .execute(params![hash, record::encode_text(body), at.as_micros()])?;
            Ok(done())
        }
        Command::PutCredential(credential) => put_credential(connection, credential),
        Command::RevokeCredential { id } => revoke_credential(connection, id, at),
        Command::Restore(restoring) => {
            position::restore(connection, restoring, at)?;
            Ok(done())
        }
        Command::CloseRestores { reason } => match position::close(connection, reason, at)? {
            0 => Ok(Outcome { answer: Applied::NoSuchOperation, written: None }),
            _ => Ok(done()),
        },
    }
}

fn done() -> Outcome {
    Outcome { answer: Applied::Done, written: None }
}

/// Inserts an operation, unless its key exists or an earlier one is suspected.
///
/// Most keys are new, so without suspects to look for the row is inserted as if this one were: the unique key says when it
/// is not, and only then is the row read that the rules decide on.
pub(crate) fn open(
    connection: &Connection,
    opening: &Opening,
    body: Option<&[u8]>,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Outcome, Fault> {
    if opening.probe.is_none() {
        let found = Found { epoch: position::epoch(connection)?, ..Found::default() };
        let fresh = transact::open(found, opening.clone(), at, || desk.salts.next());
        if let Some(outcome) = write(connection, fresh, None, body)? {
            return Ok(outcome);
        }
    }
    let sight = find::look(connection, &transact::opening_wants(opening), at)?;
    let known = sight.known();
    let found = Found { epoch: position::epoch(connection)?, ..sight.found };
    let transacted = transact::open(found, opening.clone(), at, || desk.salts.next());
    write(connection, transacted, known, body)?.ok_or_else(|| moved(&opening.operation.key))
}

fn moved(key: &OperationKey) -> Fault {
    Fault::Row(format!("operation {key} is not what was read a moment ago, under one lock"))
}

/// What the rules say to an opening; nothing is written.
pub(crate) fn decide_opening(
    connection: &Connection,
    opening: &Opening,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<Applied, Fault> {
    let sight = find::look(connection, &transact::opening_wants(opening), at)?;
    let found = Found { epoch: position::epoch(connection)?, ..sight.found };
    Ok(transact::open(found, opening.clone(), at, || desk.salts.next()).answer)
}

fn step(connection: &Connection, step: &Step, at: Timestamp, desk: &mut Desk) -> Result<Outcome, Fault> {
    // What is decided beside others is looked up with them.
    if transact::step_wants(step).suspects.is_none()
        && let Some((number, operation)) = desk.recent.take(&step.key)
    {
        let same_effect = match transact::step_wants(step).effect {
            Some(effect) => find::same_effect(connection, &step.key, &operation.binding.tool, effect)?,
            None => None,
        };
        let before = operation.journal;
        let found = Found { operation: Some(operation), suspects: Vec::new(), same_effect, epoch: None };
        let transacted = transact::step(found, step.clone(), at, || desk.salts.next());
        // A refusal is worth a look at the row itself: another process may have moved it.
        if transacted.write.is_some()
            && let Some(outcome) = write(connection, transacted, Some((number, before)), None)?
        {
            return Ok(outcome);
        }
    }
    let sight = find::look(connection, &transact::step_wants(step), at)?;
    let known = sight.known();
    let transacted = transact::step(sight.found, step.clone(), at, || desk.salts.next());
    write(connection, transacted, known, None)?.ok_or_else(|| moved(&step.key))
}

/// Writes what the rules have decided. Nothing is written when the row is not what they were shown: when it exists and was
/// taken to be new, or when its journal has gone on.
fn write(
    connection: &Connection,
    transacted: Transacted,
    known: Option<(i64, Head)>,
    body: Option<&[u8]>,
) -> Result<Option<Outcome>, Fault> {
    let Transacted { write, answer } = transacted;
    let Some(Write { row, operation, entries, details }) = write else {
        return Ok(Some(Outcome { answer, written: None }));
    };
    let number = match (row, known) {
        (Row::New, None) => match body {
            Some(body) => rows::insert(connection, &operation, body)?,
            None => rows::insert(connection, &operation, &record::body(&operation)?)?,
        },
        (Row::Known, Some((number, before))) => rows::update(connection, number, before, &operation)?.then_some(number),
        (Row::New, Some(_)) | (Row::Known, None) => None,
    };
    let Some(number) = number else { return Ok(None) };
    rows::append(connection, number, &entries)?;
    marks::add(connection, number, &operation)?;
    match details {
        Details::Stay => {}
        Details::EraseBefore { seq } => rows::erase_details(connection, number, seq)?,
    }
    Ok(Some(Outcome { answer, written: Some(Written { number, operation }) }))
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
        .prepare_cached(
            "UPDATE onceward_credential SET revoked_at = ?2 WHERE credential_id = ?1 AND revoked_at IS NULL",
        )?
        .execute(params![id, at.as_micros()])?;
    Ok(done())
}

/// Operations that this writer has just written and that will be settled soon. What is decided on one of them is written only
/// if the row's journal still ends where this one does, so that nothing another process has written is missed.
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

    fn take(&mut self, key: &OperationKey) -> Option<(i64, Operation)> {
        self.operations.remove(key)
    }

    /// Forgets all: the connection, and perhaps the file, is another one.
    pub(crate) fn clear(&mut self) {
        self.operations.clear();
    }
}
