//! The schema: numbered files, applied once, in order, each with its checksum recorded.
//!
//! Any number of processes may open one new file at the same time: whoever gets the write lock migrates, the others wait and
//! find it done. A file whose schema is complete is only read, so that it can be opened while another process writes.

use std::path::Path;
use std::time::Duration;

use onceward_core::hex;
use onceward_core::outbound::LedgerSecret;
use onceward_ledger::clock::Clock;
use onceward_ledger::store::LedgerId;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::connect::{opening, patiently};
use crate::error::OpenError;
use crate::{chance, marks, secret};

struct Migration {
    version: u32,
    sql: &'static str,
    /// What SQL alone cannot say about rows that were there before.
    fill: fn(&Connection) -> rusqlite::Result<()>,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../schema/0001.sql"), fill: |_| Ok(()) },
    Migration { version: 2, sql: include_str!("../schema/0002.sql"), fill: marks::fill },
    Migration { version: 3, sql: include_str!("../schema/0003.sql"), fill: |_| Ok(()) },
    Migration { version: 4, sql: include_str!("../schema/0004.sql"), fill: |_| Ok(()) },
];

const REGISTER: &str = "CREATE TABLE IF NOT EXISTS onceward_schema (
    version    INTEGER PRIMARY KEY,
    checksum   BLOB    NOT NULL CHECK (length(checksum) = 32),
    applied_at INTEGER NOT NULL
) STRICT";

const SECRET_CHECK: &[u8] = b"onceward ledger secret check v1\0";

/// Who a ledger is.
pub(crate) struct Identity {
    pub(crate) id: LedgerId,
    pub(crate) secret: LedgerSecret,
}

/// Brings the schema up to date and gives the ledger's identity.
pub(crate) fn run(
    connection: &Connection,
    path: &Path,
    clock: &dyn Clock,
    until: Duration,
) -> Result<Identity, OpenError> {
    let failed = |error: rusqlite::Error| opening(path, &error);
    let applied = patiently(clock, until, || versions(connection)).map_err(failed)?;
    let identity =
        if verify(path, &applied)? == MIGRATIONS.len() { identity(connection).map_err(failed)? } else { None };
    if let Some(identity) = identity
        && let Some(secret) = secret::read(path)?
    {
        return known(path, identity, secret);
    }
    patiently(clock, until, || connection.execute_batch("BEGIN IMMEDIATE")).map_err(failed)?;
    let done = complete(connection, path, clock);
    match &done {
        Ok(_) => connection.execute_batch("COMMIT").map_err(failed)?,
        Err(_) => {
            // The error at hand says more than one about undoing would.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
    done
}

/// With the write lock held: whatever is missing is made, and nothing that another process has made meanwhile.
fn complete(connection: &Connection, path: &Path, clock: &dyn Clock) -> Result<Identity, OpenError> {
    let failed = |error: rusqlite::Error| opening(path, &error);
    connection.execute_batch(REGISTER).map_err(failed)?;
    let applied = verify(path, &versions(connection).map_err(failed)?)?;
    for migration in &MIGRATIONS[applied..] {
        connection.execute_batch(migration.sql).map_err(failed)?;
        (migration.fill)(connection).map_err(failed)?;
        connection
            .execute(
                "INSERT INTO onceward_schema (version, checksum, applied_at) VALUES (?1, ?2, ?3)",
                params![migration.version, &checksum(migration)[..], clock.now().as_micros()],
            )
            .map_err(failed)?;
    }
    match identity(connection).map_err(failed)? {
        None => {
            let secret = secret::create(path)?;
            let id = LedgerId(hex::encode(&chance::bytes::<16>()));
            connection
                .execute(
                    "INSERT INTO onceward_ledger (one, ledger_id, secret_check, created_at) VALUES (1, ?1, ?2, ?3)",
                    params![id.0, &check(&secret, &id)[..], clock.now().as_micros()],
                )
                .map_err(failed)?;
            Ok(Identity { id, secret })
        }
        Some(stored) => {
            if let Some(secret) = secret::read(path)? {
                return known(path, stored, secret);
            }
            let used = connection
                .query_row("SELECT 1 FROM onceward_operation LIMIT 1", [], |_| Ok(()))
                .optional()
                .map_err(failed)?;
            if used.is_some() {
                return Err(OpenError::SecretMissing { path: secret::secret_path(path) });
            }
            // No key was ever derived from the lost one.
            let secret = secret::create(path)?;
            connection
                .execute("UPDATE onceward_ledger SET secret_check = ?1", params![&check(&secret, &stored.id)[..]])
                .map_err(failed)?;
            Ok(Identity { id: stored.id, secret })
        }
    }
}

/// Whether a connection's database has the schema that this version knows.
pub(crate) fn is_current(connection: &Connection, path: &Path) -> Result<bool, OpenError> {
    let applied = versions(connection).map_err(|error| opening(path, &error))?;
    Ok(verify(path, &applied)? == MIGRATIONS.len())
}

struct Stored {
    id: LedgerId,
    check: Vec<u8>,
}

fn known(path: &Path, stored: Stored, secret: LedgerSecret) -> Result<Identity, OpenError> {
    if check(&secret, &stored.id)[..] != stored.check[..] {
        return Err(OpenError::SecretMismatch { path: secret::secret_path(path) });
    }
    Ok(Identity { id: stored.id, secret })
}

fn identity(connection: &Connection) -> rusqlite::Result<Option<Stored>> {
    connection
        .query_row("SELECT ledger_id, secret_check FROM onceward_ledger", [], |row| {
            Ok(Stored { id: LedgerId(row.get(0)?), check: row.get(1)? })
        })
        .optional()
}

fn check(secret: &LedgerSecret, id: &LedgerId) -> [u8; 32] {
    secret.keyed_hash(SECRET_CHECK, &[id.0.as_bytes()])
}

fn versions(connection: &Connection) -> rusqlite::Result<Vec<(u32, Vec<u8>)>> {
    let registered = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'onceward_schema'", [], |_| Ok(()))
        .optional()?;
    if registered.is_none() {
        return Ok(Vec::new());
    }
    connection
        .prepare("SELECT version, checksum FROM onceward_schema ORDER BY version")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// How many of our migrations the file has.
fn verify(path: &Path, applied: &[(u32, Vec<u8>)]) -> Result<usize, OpenError> {
    for (at, (version, sum)) in applied.iter().enumerate() {
        let Some(migration) = MIGRATIONS.get(at) else {
            let known = MIGRATIONS.len() as u32;
            return Err(OpenError::NewerSchema { path: path.to_owned(), found: *version, known });
        };
        if migration.version != *version || checksum(migration)[..] != sum[..] {
            return Err(OpenError::ForeignSchema { path: path.to_owned(), version: *version });
        }
    }
    Ok(applied.len())
}

fn checksum(migration: &Migration) -> [u8; 32] {
    Sha256::digest(migration.sql.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_from_one_without_a_gap() {
        for (at, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, at + 1);
        }
    }

    /// A released schema file never changes: a file in the field would be refused. A new file is added instead.
    #[test]
    fn a_changed_checksum_or_a_later_version_is_refused() {
        let path = Path::new("x.db");
        let right = checksum(&MIGRATIONS[0]).to_vec();
        assert_eq!(verify(path, &[(1, right.clone())]).unwrap(), 1);
        assert!(matches!(verify(path, &[(1, vec![0; 32])]), Err(OpenError::ForeignSchema { version: 1, .. })));
        let later = MIGRATIONS.len() as u32 + 1;
        let mut all: Vec<_> = MIGRATIONS.iter().map(|m| (m.version, checksum(m).to_vec())).collect();
        all.push((later, vec![0; 32]));
        assert!(matches!(verify(path, &all), Err(OpenError::NewerSchema { found, .. }) if found == later));
    }
}
