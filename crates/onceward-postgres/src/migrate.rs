//! The schema: numbered files, applied once, in order, each with its checksum recorded. Under an advisory lock, so that any number
//! of gateways may start at once.

use onceward_core::hex;
use onceward_core::outbound::LedgerSecret;
use onceward_core::time::Timestamp;
use onceward_ledger::store::LedgerId;
use sha2::{Digest, Sha256};
use tokio_postgres::types::{ToSql, Type};

use crate::chance;
use crate::connect::Link;
use crate::error::{Fault, OpenError};

struct Migration {
    version: i64,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../schema/0001.sql") },
    Migration { version: 2, sql: include_str!("../schema/0002.sql") },
    Migration { version: 3, sql: include_str!("../schema/0003.sql") },
];

/// "onceward", as a number: the lock that whoever migrates holds until its transaction ends.
const LOCK: i64 = 0x6f6e_6365_7761_7264;

const REGISTER: &str = "CREATE SCHEMA IF NOT EXISTS onceward; \
     CREATE TABLE IF NOT EXISTS onceward.schema (version bigint PRIMARY KEY, \
     checksum bytea NOT NULL CHECK (length(checksum) = 32), applied_at bigint NOT NULL)";

const SECRET_CHECK: &[u8] = b"onceward ledger secret check v1\0";

/// Brings the schema up to date and gives the ledger's identity, once it is sure that the secret is its own.
pub(crate) async fn run(link: &Link, secret: &LedgerSecret, now: Timestamp) -> Result<LedgerId, OpenError> {
    match complete(link, secret, now).await {
        Ok(id) => {
            link.client.batch_execute("COMMIT").await.map_err(|error| said(error.into()))?;
            Ok(id)
        }
        Err(error) => {
            // The error at hand says more than one about undoing would.
            let _ = link.client.batch_execute("ROLLBACK").await;
            Err(error)
        }
    }
}

fn said(fault: Fault) -> OpenError {
    OpenError::Schema(fault.words())
}

async fn complete(link: &Link, secret: &LedgerSecret, now: Timestamp) -> Result<LedgerId, OpenError> {
    let client = &link.client;
    let failed = |error: tokio_postgres::Error| said(error.into());
    let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})");
    client.batch_execute(&begin).await.map_err(failed)?;
    // A role that may only use the ledger cannot make a schema, and need not where everything is there.
    let there = client
        .query_typed("SELECT 1 FROM pg_tables WHERE schemaname = 'onceward' AND tablename = 'schema'", &[])
        .await
        .map_err(failed)?;
    if there.is_empty() {
        client.batch_execute(REGISTER).await.map_err(failed)?;
    }
    let applied = client
        .query_typed("SELECT version, checksum FROM onceward.schema ORDER BY version", &[])
        .await
        .map_err(failed)?;
    for (row, known) in applied.iter().zip(MIGRATIONS) {
        let sum: &[u8] = row.try_get(1).map_err(failed)?;
        if sum != &checksum(known)[..] {
            return Err(OpenError::ForeignSchema { version: known.version });
        }
    }
    if let Some(newer) = applied.get(MIGRATIONS.len()) {
        let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
        return Err(OpenError::NewerSchema { found: newer.try_get(0).map_err(failed)?, known });
    }
    for migration in &MIGRATIONS[applied.len()..] {
        client.batch_execute(migration.sql).await.map_err(failed)?;
        let (sum, at) = (&checksum(migration)[..], now.as_micros());
        let params: [(&(dyn ToSql + Sync), Type); 3] =
            [(&migration.version, Type::INT8), (&sum, Type::BYTEA), (&at, Type::INT8)];
        let sql = "INSERT INTO onceward.schema (version, checksum, applied_at) VALUES ($1, $2, $3)";
        client.query_typed(sql, &params).await.map_err(failed)?;
    }
    identity(link, secret, now).await
}

async fn identity(link: &Link, secret: &LedgerSecret, now: Timestamp) -> Result<LedgerId, OpenError> {
    let client = &link.client;
    let failed = |error: tokio_postgres::Error| said(error.into());
    let rows = client.query_typed("SELECT ledger_id, secret_check FROM onceward.ledger", &[]).await.map_err(failed)?;
    if let Some(row) = rows.first() {
        let id = LedgerId(row.try_get(0).map_err(failed)?);
        let stored: &[u8] = row.try_get(1).map_err(failed)?;
        return if stored == &check(secret, &id)[..] { Ok(id) } else { Err(OpenError::SecretMismatch) };
    }
    let id = LedgerId(hex::encode(&chance::bytes::<16>()));
    let (sum, at) = (&check(secret, &id)[..], now.as_micros());
    let params: [(&(dyn ToSql + Sync), Type); 3] = [(&id.0, Type::TEXT), (&sum, Type::BYTEA), (&at, Type::INT8)];
    let sql = "INSERT INTO onceward.ledger (one, ledger_id, secret_check, created_at) VALUES (1, $1, $2, $3)";
    client.query_typed(sql, &params).await.map_err(failed)?;
    Ok(id)
}

fn check(secret: &LedgerSecret, id: &LedgerId) -> [u8; 32] {
    secret.keyed_hash(SECRET_CHECK, &[id.0.as_bytes()])
}

fn checksum(migration: &Migration) -> [u8; 32] {
    Sha256::digest(migration.sql.as_bytes()).into()
}

/// Whether a commit is on disk, and as far as the database is set to wait for, when it is answered.
pub(crate) async fn is_durable(link: &Link) -> Result<(), OpenError> {
    let rows = link
        .client
        .query_typed("SELECT current_setting('synchronous_commit'), current_setting('fsync')", &[])
        .await
        .map_err(|error| said(error.into()))?;
    let read = |at: usize| rows.first().and_then(|row| row.try_get::<_, String>(at).ok()).unwrap_or_default();
    match (read(0).as_str(), read(1).as_str()) {
        ("off", _) => Err(OpenError::NotDurable { found: "off".to_owned() }),
        (_, "off") => Err(OpenError::NotDurable { found: "fsync = off".to_owned() }),
        (_, _) => Ok(()),
    }
}
