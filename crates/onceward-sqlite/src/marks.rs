//! Marks of uncertain operations, and what is counted of unresolved ones.

use onceward_core::key::{OperationId, OperationKey, OutboundKey, TenantId, ToolName};
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use onceward_ledger::mark::{Mark, marks};
use onceward_ledger::record;
use onceward_ledger::store::{UnknownCount, Unresolved};
use rusqlite::{Connection, params};
use serde::Deserialize;

use crate::error::Fault;
use crate::rows::{self, select};

const INSERT: &str = "INSERT INTO onceward_mark (digest, operation) VALUES (?1, ?2) ON CONFLICT DO NOTHING";

const MARKED: &str = "SELECT tenant, operation_id FROM onceward_mark JOIN onceward_operation ON number = operation \
     WHERE digest = ?1 ORDER BY operation LIMIT ?2";

const HELD: &str = "SELECT progress FROM onceward_operation WHERE owner IS NOT NULL LIMIT ?1";

/// The conditions repeat those of the partial indexes word for word, so that SQLite can use them.
pub(crate) const UNKNOWN: &str = "SELECT tool, cause, count(*), count(*) - count(next_check_at), min(uncertain_since) \
     FROM onceward_operation WHERE state = 'unknown' GROUP BY tool, cause";
/// See [`UNKNOWN`].
pub(crate) const PROPOSED: &str = "SELECT count(*) FROM onceward_operation \
     WHERE owner IS NULL AND settled_at IS NULL AND state = 'proposed'";
/// See [`UNKNOWN`].
pub(crate) const DISPUTED: &str = "SELECT count(*) FROM onceward_operation WHERE disagreement IS NOT NULL";

/// Adds the marks that row `number` has by now.
pub(crate) fn add(connection: &Connection, number: i64, operation: &Operation) -> Result<(), Fault> {
    let marks = marks(operation);
    if marks.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(INSERT)?;
    for mark in &marks {
        statement.execute(params![&mark.digest()[..], number])?;
    }
    Ok(())
}

/// Operations that have this mark.
pub(crate) fn marked(connection: &Connection, mark: &Mark, limit: u32) -> Result<Vec<OperationKey>, Fault> {
    let mut statement = connection.prepare_cached(MARKED)?;
    let mut found = statement.query(params![&mark.digest()[..], limit])?;
    let mut keys = Vec::new();
    while let Some(row) = found.next()? {
        keys.push(OperationKey {
            tenant: record::name("tenant", TenantId::parse(rows::text(row, 0)?))?,
            id: record::name("operation_id", OperationId::parse(rows::text(row, 1)?))?,
        });
    }
    Ok(keys)
}

/// What of a progress names the key that is being sent.
#[derive(Deserialize)]
struct Held {
    state: HeldState,
}

#[derive(Deserialize)]
struct HeldState {
    pending: HeldPending,
}

#[derive(Deserialize)]
struct HeldPending {
    attempt: HeldAttempt,
}

#[derive(Deserialize)]
struct HeldAttempt {
    #[serde(default)]
    outbound_key: Option<OutboundKey>,
}

/// The keys that attempts under way send.
pub(crate) fn held(connection: &Connection, limit: u32) -> Result<Vec<OutboundKey>, Fault> {
    let mut statement = connection.prepare_cached(HELD)?;
    let mut found = statement.query([limit])?;
    let mut keys = Vec::new();
    while let Some(row) = found.next()? {
        let bytes = row.get_ref(0)?.as_blob().map_err(|error| Fault::Row(error.to_string()))?;
        let held: Held = record::decode("progress", bytes)?;
        keys.extend(held.state.pending.attempt.outbound_key);
    }
    Ok(keys)
}

/// Counts what is unresolved, from indexes that hold nothing else.
pub(crate) fn unresolved(connection: &Connection) -> Result<Unresolved, Fault> {
    let mut statement = connection.prepare_cached(UNKNOWN)?;
    let mut found = statement.query([])?;
    let mut unknown = Vec::new();
    while let Some(row) = found.next()? {
        unknown.push(UnknownCount {
            tool: record::name("tool", ToolName::parse(rows::text(row, 0)?))?,
            cause: row.get(1)?,
            count: row.get::<_, i64>(2)?.unsigned_abs(),
            for_a_person: row.get::<_, i64>(3)?.unsigned_abs(),
            oldest: Timestamp::from_micros(row.get::<_, Option<i64>>(4)?.unwrap_or_default()),
        });
    }
    let count = |sql: &str| -> Result<u64, Fault> {
        let count: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    };
    Ok(Unresolved { unknown, proposed: count(PROPOSED)?, in_disagreement: count(DISPUTED)? })
}

/// Gives the operations that an earlier schema left unresolved what this one keeps of them. A row that cannot be read is left as
/// it is: it is named when it is asked for, and must not keep the others from being opened.
pub(crate) fn fill(connection: &Connection) -> rusqlite::Result<()> {
    const OPEN: &str = select!("INDEXED BY onceward_operation_open WHERE owner IS NULL AND settled_at IS NULL");
    const HELD: &str = select!("INDEXED BY onceward_operation_held WHERE owner IS NOT NULL");
    for sql in [OPEN, HELD] {
        let mut statement = connection.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            match rows::operation(row) {
                Ok((number, operation)) => fill_one(connection, number, &operation)?,
                Err(Fault::Row(what)) => tracing::warn!(what, "a record is broken and gets no mark"),
                Err(Fault::Sql(error)) => return Err(error),
            }
        }
    }
    Ok(())
}

fn fill_one(connection: &Connection, number: i64, operation: &Operation) -> rusqlite::Result<()> {
    match add(connection, number, operation) {
        Ok(()) | Err(Fault::Row(_)) => {}
        Err(Fault::Sql(error)) => return Err(error),
    }
    if let State::Unknown(unknown) = &operation.state {
        connection.execute(
            "UPDATE onceward_operation SET uncertain_since = ?2 WHERE number = ?1",
            params![number, record::uncertain_since(unknown).as_micros()],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let rows = statement.query_map(rusqlite::params_from_iter((0..count).map(|_| 1)), |row| row.get(3)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// A scrape of a ledger with a million settled operations must not look at one of them.
    #[test]
    fn nothing_that_is_counted_or_found_by_a_mark_reads_the_whole_table() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../schema/0001.sql")).unwrap();
        connection.execute_batch(include_str!("../schema/0002.sql")).unwrap();
        let expected = [
            (UNKNOWN, "onceward_operation USING COVERING INDEX onceward_operation_unknown"),
            (PROPOSED, "INDEX onceward_operation_open"),
            (DISPUTED, "INDEX onceward_operation_disputed"),
            (HELD, "INDEX onceward_operation_held"),
            (MARKED, "onceward_mark USING PRIMARY KEY"),
        ];
        for (sql, wanted) in expected {
            let plan = plan(&connection, sql);
            assert!(plan.iter().any(|line| line.contains(wanted)), "{sql}: {plan:?}");
            assert!(plan.iter().all(|line| !line.starts_with("SCAN") || line.contains("INDEX")), "{sql}: {plan:?}");
            assert!(plan.iter().all(|line| !line.contains("TEMP B-TREE")), "{sql}: {plan:?}");
        }
    }
}
