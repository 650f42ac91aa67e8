//! How far the ledger has come, what was restored, and which server holds it (R22).

use onceward_core::time::Timestamp;
use onceward_ledger::restore::{Epoch, HighWater, Position, Replication, Restoring, Server};
use onceward_ledger::store::OwnerKind;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::error::Fault;

/// The latest restore that is open. Read with every batch that opens operations: another process may have closed it.
pub(crate) const EPOCH: &str = "SELECT as_of, restored_at FROM onceward.restore WHERE closed_at IS NULL \
     ORDER BY restored_at DESC LIMIT 1";
const HIGH_WATER: &str = "SELECT (SELECT coalesce(max(number), 0) FROM onceward.restore), beats, high_water_at \
     FROM onceward.ledger";
/// The timeline is that of the next record; a checkpoint names the one before for a while after a promotion.
const SERVER: &str = "SELECT (SELECT system_identifier::text FROM pg_control_system()), \
     left(pg_walfile_name(pg_current_wal_lsn()), 8), \
     current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')";

/// What [`EPOCH`] gives.
pub(crate) fn epoch(rows: &[Row]) -> Result<Option<Epoch>, Fault> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Epoch {
        as_of: Timestamp::from_micros(row.try_get(0)?),
        restored_at: Timestamp::from_micros(row.try_get(1)?),
    }))
}

/// Where the ledger stands.
pub(crate) async fn read(client: &Client) -> Result<Position, Fault> {
    let rows = client.query_typed(HIGH_WATER, &[]).await?;
    let row = rows.first().ok_or_else(|| Fault::Row("the ledger has lost its identity".to_owned()))?;
    let count = |at: usize| Ok::<u64, Fault>(row.try_get::<_, i64>(at)?.unsigned_abs());
    let high_water = HighWater { restores: count(0)?, beats: count(1)?, at: Timestamp::from_micros(row.try_get(2)?) };
    let epoch = epoch(&client.query_typed(EPOCH, &[]).await?)?;
    Ok(Position { high_water, epoch, server: server(client).await })
}

/// Which server it is; an engine that only speaks as PostgreSQL does has no answer.
async fn server(client: &Client) -> Option<Server> {
    let rows = match client.query_typed(SERVER, &[]).await {
        Ok(rows) => rows,
        Err(error) => {
            tracing::debug!(%error, "the database does not say which server it is");
            return None;
        }
    };
    let row = rows.first()?;
    let timeline: String = row.try_get(1).ok()?;
    let replication = match row.try_get(2).ok()? {
        true => Replication::Synchronous,
        false => Replication::Asynchronous,
    };
    Some(Server { system: row.try_get(0).ok()?, timeline: u32::from_str_radix(&timeline, 16).ok()?, replication })
}

/// A gateway has beaten. Only gateways look at the mark before they do; another process would hide that the ledger has gone back.
pub(crate) async fn raise(client: &Client, kind: OwnerKind, at: Timestamp) -> Result<(), Fault> {
    match kind {
        OwnerKind::Library => {}
        OwnerKind::Gateway => {
            let sql = "UPDATE onceward.ledger SET beats = beats + 1, high_water_at = greatest(high_water_at, $1)";
            client.query_typed(sql, &[(&at.as_micros(), Type::INT8)]).await?;
        }
    }
    Ok(())
}

/// Records a restore, and raises the ledger above everything that it had been.
pub(crate) async fn restore(client: &Client, restoring: &Restoring, at: Timestamp) -> Result<(), Fault> {
    let reached = restoring.reached.unwrap_or(HighWater { restores: 0, beats: 0, at });
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (restores, beats) = (number(reached.restores), number(reached.beats));
    let (as_of, restored_at) = (restoring.as_of.as_micros(), at.max(reached.at).as_micros());
    let insert = "INSERT INTO onceward.restore (number, as_of, restored_at) \
         SELECT greatest(coalesce(max(number), 0), $1) + 1, $2, $3 FROM onceward.restore";
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&restores, Type::INT8), (&as_of, Type::INT8), (&restored_at, Type::INT8)];
    client.query_typed(insert, &params).await?;
    let raise = "UPDATE onceward.ledger SET beats = greatest(beats, $1), high_water_at = greatest(high_water_at, $2)";
    client.query_typed(raise, &[(&beats, Type::INT8), (&restored_at, Type::INT8)]).await?;
    Ok(())
}

/// Closes what is open; says how many.
pub(crate) async fn close(client: &Client, reason: &str, at: Timestamp) -> Result<usize, Fault> {
    let sql = "UPDATE onceward.restore SET closed_at = $1, reason = $2 WHERE closed_at IS NULL RETURNING number";
    let at = at.as_micros();
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&at, Type::INT8), (&reason, Type::TEXT)];
    Ok(client.query_typed(sql, &params).await?.len())
}
