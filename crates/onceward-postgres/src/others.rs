//! Commands that are about no operation.

use onceward_core::time::Timestamp;
use onceward_ledger::record;
use onceward_ledger::store::{Applied, Command};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Fault;
use crate::position;

/// Writes one, inside the open transaction, and says what it came to; nothing for a command that is about an operation.
pub(crate) async fn write(client: &Client, command: &Command, at: Timestamp) -> Result<Option<Applied>, Fault> {
    let now = at.as_micros();
    match command {
        Command::Beat { owner, kind, beat } => {
            let beat = i64::try_from(*beat).unwrap_or(i64::MAX);
            let params: [(&(dyn ToSql + Sync), Type); 3] =
                [(&owner.as_str(), Type::TEXT), (&kind.name(), Type::TEXT), (&beat, Type::INT8)];
            let sql = "INSERT INTO onceward.owner (owner, kind, beat) VALUES ($1, $2, $3) \
                       ON CONFLICT (owner) DO UPDATE SET kind = excluded.kind, beat = excluded.beat";
            client.query_typed(sql, &params).await?;
            position::raise(client, *kind, at).await?;
        }
        Command::ForgetOwner(owner) => {
            let sql = "DELETE FROM onceward.owner WHERE owner = $1 \
                       AND NOT EXISTS (SELECT 1 FROM onceward.operation WHERE owner = $1)";
            client.query_typed(sql, &[(&owner.as_str(), Type::TEXT)]).await?;
        }
        Command::Pin { hash, body } => {
            let body = record::encode_text(body);
            let params: [(&(dyn ToSql + Sync), Type); 3] =
                [(hash, Type::TEXT), (&body, Type::BYTEA), (&now, Type::INT8)];
            let sql = "INSERT INTO onceward.pin (digest, body, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            client.query_typed(sql, &params).await?;
        }
        Command::PutCredential(credential) => {
            let grant = serde_json::to_string(&credential.grant)
                .map_err(|error| Fault::Row(format!("a grant cannot be written as JSON: {error}")))?;
            let hash = &credential.hash.0[..];
            let revoked = credential.revoked_at.map(Timestamp::as_micros);
            let created = credential.created_at.as_micros();
            let tenant = credential.grant.tenant().as_str();
            let params: [(&(dyn ToSql + Sync), Type); 6] = [
                (&hash, Type::BYTEA),
                (&credential.id, Type::TEXT),
                (&tenant, Type::TEXT),
                (&grant, Type::TEXT),
                (&created, Type::INT8),
                (&revoked, Type::INT8),
            ];
            let sql = "INSERT INTO onceward.credential (hash, credential_id, tenant, grant_json, created_at, revoked_at) \
                       VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (hash) DO NOTHING";
            client.query_typed(sql, &params).await?;
        }
        Command::RevokeCredential { id } => {
            let params: [(&(dyn ToSql + Sync), Type); 2] = [(id, Type::TEXT), (&now, Type::INT8)];
            let sql = "UPDATE onceward.credential SET revoked_at = coalesce(revoked_at, $2) WHERE credential_id = $1 \
                       RETURNING credential_id";
            if client.query_typed(sql, &params).await?.is_empty() {
                return Ok(Some(Applied::NoSuchOperation));
            }
        }
        Command::Restore(restoring) => position::restore(client, restoring, at).await?,
        Command::CloseRestores { reason } => {
            if position::close(client, reason, at).await? == 0 {
                return Ok(Some(Applied::NoSuchOperation));
            }
        }
        Command::Open(_) | Command::Step(_) => return Ok(None),
    }
    Ok(Some(Applied::Done))
}
