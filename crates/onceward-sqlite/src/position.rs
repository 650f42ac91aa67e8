//! How far the ledger has come, and what was restored (R22).

use onceward_core::time::Timestamp;
use onceward_ledger::restore::{Epoch, HighWater, Position, Restoring};
use onceward_ledger::store::OwnerKind;
use rusqlite::{Connection, OptionalExtension, params};

const EPOCH: &str = "SELECT as_of, restored_at FROM onceward_restore WHERE closed_at IS NULL \
     ORDER BY restored_at DESC LIMIT 1";
const HIGH_WATER: &str = "SELECT (SELECT coalesce(max(number), 0) FROM onceward_restore), beats, high_water_at \
     FROM onceward_ledger";

/// The latest restore that is open.
pub(crate) fn epoch(connection: &Connection) -> rusqlite::Result<Option<Epoch>> {
    connection
        .prepare_cached(EPOCH)?
        .query_row([], |row| {
            Ok(Epoch { as_of: Timestamp::from_micros(row.get(0)?), restored_at: Timestamp::from_micros(row.get(1)?) })
        })
        .optional()
}

/// Where the ledger stands.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Position> {
    let high_water = connection.prepare_cached(HIGH_WATER)?.query_row([], |row| {
        Ok(HighWater {
            restores: row.get::<_, i64>(0)?.unsigned_abs(),
            beats: row.get::<_, i64>(1)?.unsigned_abs(),
            at: Timestamp::from_micros(row.get(2)?),
        })
    })?;
    Ok(Position { high_water, epoch: epoch(connection)?, server: None })
}

/// A gateway has beaten. Only gateways look at the mark before they do; another process would hide that the file has gone back.
pub(crate) fn raise(connection: &Connection, kind: OwnerKind, at: Timestamp) -> rusqlite::Result<()> {
    match kind {
        OwnerKind::Library => Ok(()),
        OwnerKind::Gateway => connection
            .prepare_cached("UPDATE onceward_ledger SET beats = beats + 1, high_water_at = max(high_water_at, ?1)")?
            .execute([at.as_micros()])
            .map(drop),
    }
}

/// Records a restore, and raises the ledger above everything that it had been.
pub(crate) fn restore(connection: &Connection, restoring: &Restoring, at: Timestamp) -> rusqlite::Result<()> {
    let reached = restoring.reached.unwrap_or(HighWater { restores: 0, beats: 0, at });
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let restored_at = at.max(reached.at).as_micros();
    connection.execute(
        "INSERT INTO onceward_restore (number, as_of, restored_at) \
         SELECT max(coalesce((SELECT max(number) FROM onceward_restore), 0), ?1) + 1, ?2, ?3",
        params![number(reached.restores), restoring.as_of.as_micros(), restored_at],
    )?;
    connection.execute(
        "UPDATE onceward_ledger SET beats = max(beats, ?1), high_water_at = max(high_water_at, ?2)",
        params![number(reached.beats), restored_at],
    )?;
    Ok(())
}

/// Closes what is open; says how many.
pub(crate) fn close(connection: &Connection, reason: &str, at: Timestamp) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE onceward_restore SET closed_at = ?1, reason = ?2 WHERE closed_at IS NULL",
        params![at.as_micros(), reason],
    )
}
