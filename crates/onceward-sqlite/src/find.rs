//! What a command needs to see, looked up.

use onceward_core::journal::Head;
use onceward_core::key::{EffectId, OperationId, OperationKey, ToolName};
use onceward_core::operation::Operation;
use onceward_core::suspicion::{HOLD_WINDOW, Probe};
use onceward_core::time::Timestamp;
use onceward_ledger::record;
use onceward_ledger::store::{Found, Wants};
use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::error::Fault;
use crate::rows::{self, select};

const BY_KEY: &str = select!("WHERE tenant = ?1 AND operation_id = ?2");
const MARKED_OPEN: &str = select!("WHERE tenant = ?1 AND suspicion_mark = ?2 AND settled_at IS NULL");
const MARKED_SETTLED: &str =
    select!("WHERE tenant = ?1 AND suspicion_mark = ?2 AND settled_at > ?3 ORDER BY settled_at DESC LIMIT 16");
const GROUPED_OPEN: &str = select!("WHERE tenant = ?1 AND suspicion_group = ?2 AND settled_at IS NULL");

/// What was found, and the row of the operation itself.
pub(crate) struct Sight {
    pub(crate) found: Found,
    pub(crate) number: Option<i64>,
}

impl Sight {
    /// The operation's row, and where its journal ends.
    pub(crate) fn known(&self) -> Option<(i64, Head)> {
        self.number.zip(self.found.operation.as_ref().map(|operation| operation.journal))
    }
}

/// Looks up what a command wants. Inside the writer's transaction, so that nothing changes before the command is written.
pub(crate) fn look(connection: &Connection, wants: &Wants<'_>, at: Timestamp) -> Result<Sight, Fault> {
    let known = by_key(connection, wants.key)?;
    let same_effect = match (wants.effect, &known) {
        (Some(effect), Some((_, operation))) => same_effect(connection, wants.key, &operation.binding.tool, effect)?,
        (Some(_) | None, None) | (None, Some(_)) => None,
    };
    let suspects = match wants.suspects {
        Some(probe) => suspects(connection, wants.key, probe, at)?,
        None => Vec::new(),
    };
    let (number, operation) = known.map_or((None, None), |(number, operation)| (Some(number), Some(operation)));
    Ok(Sight { found: Found { operation, suspects, same_effect, epoch: None }, number })
}

/// The operation with this key, and its row's number.
pub(crate) fn by_key(connection: &Connection, key: &OperationKey) -> Result<Option<(i64, Operation)>, Fault> {
    let mut statement = connection.prepare_cached(BY_KEY)?;
    let mut rows = statement.query(params![key.tenant.as_str(), key.id.as_str()])?;
    match rows.next()? {
        Some(row) => rows::operation(row).map(Some),
        None => Ok(None),
    }
}

/// All operations that a query made by [`select`] gives.
pub(crate) fn all(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<(i64, Operation)>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut operations = Vec::new();
    while let Some(row) = rows.next()? {
        operations.push(rows::operation(row)?);
    }
    Ok(operations)
}

/// Another operation of the tenant and tool with this effect.
pub(crate) fn same_effect(
    connection: &Connection,
    key: &OperationKey,
    tool: &ToolName,
    effect: &EffectId,
) -> Result<Option<OperationId>, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT operation_id FROM onceward_operation \
             WHERE tenant = ?1 AND tool = ?2 AND effect_id = ?3 AND operation_id <> ?4 LIMIT 1",
        )?
        .query_row(params![key.tenant.as_str(), tool.as_str(), effect.as_str(), key.id.as_str()], |row| {
            row.get::<_, String>(0)
        })
        .optional()?;
    Ok(found.map(|text| record::name("operation_id", OperationId::parse(&text))).transpose()?)
}

/// Every operation that may be the same intention: equal marks that are unresolved or were settled within the hold window,
/// and unresolved ones of the same group. Their number is bounded by what one principal has unresolved of one tool.
pub(crate) fn suspects(
    connection: &Connection,
    key: &OperationKey,
    probe: &Probe,
    at: Timestamp,
) -> Result<Vec<Operation>, Fault> {
    let tenant = key.tenant.as_str();
    let since = at.minus(HOLD_WINDOW).as_micros();
    let mut suspects = Vec::new();
    for mark in std::iter::once(&probe.suspicion.mark).chain(&probe.other_marks) {
        let mark = &mark.as_bytes()[..];
        suspects.extend(all(connection, MARKED_OPEN, params![tenant, mark])?);
        suspects.extend(all(connection, MARKED_SETTLED, params![tenant, mark, since])?);
    }
    let group = &probe.suspicion.group.as_bytes()[..];
    suspects.extend(all(connection, GROUPED_OPEN, params![tenant, group])?);
    Ok(suspects.into_iter().map(|(_, operation)| operation).collect())
}

/// Whether the entry that `head` names is in the journal of this key: whether a command of which it is not known if it was
/// written, was written.
pub(crate) fn has_landed(connection: &Connection, key: &OperationKey, head: Head) -> rusqlite::Result<bool> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT hash FROM onceward_journal WHERE seq = ?3 AND operation = \
             (SELECT number FROM onceward_operation WHERE tenant = ?1 AND operation_id = ?2)",
        )?
        .query_row(params![key.tenant.as_str(), key.id.as_str(), head.seq], |row| row.get(0))
        .optional()?;
    Ok(stored.is_some_and(|hash| hash[..] == head.hash[..]))
}
