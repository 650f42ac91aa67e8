//! The outbox: entries added in a transaction that the caller has open, and what a dispatcher asks of them.

use onceward_core::key::{Lane, OperationId, OperationKey, TenantId, ToolName};
use onceward_core::time::Timestamp;
use onceward_ledger::outbox::{Entry, OutboxError, is_entry};
use onceward_ledger::record;
use onceward_ledger::store::{Opening, ReadyPage, ReadyRow};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::caller::{Begin, BeginError, begin_on};
use crate::error::Fault;
use crate::rows;

/// Why nothing was added. The transaction is the caller's to roll back.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    /// The opening is no entry of the outbox.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The transaction cannot carry it.
    #[error(transparent)]
    Begin(#[from] BeginError),
}

/// Adds an entry to the outbox in the caller's transaction: it is sent if, and only if, that commits. `opening` is made with
/// [`Ledger::outbox_opening`](onceward_ledger::Ledger::outbox_opening) before the transaction begins.
///
/// The transaction holds the write lock from here to its end, so entries come into their lanes in the order of commits. It should
/// be `IMMEDIATE`: a deferred one that has read before can be refused the lock.
///
/// # Errors
/// [`ApproveError`]: nothing was added, and the transaction should be rolled back.
pub fn approve_in(transaction: &Transaction<'_>, opening: Opening, at: Timestamp) -> Result<Entry, ApproveError> {
    is_entry(&opening)?;
    match begin_on(transaction, opening, at)? {
        Begin::Opened(operation) => Ok(Entry::Added(operation)),
        Begin::Existing(operation) => Ok(Entry::Existing(operation)),
        // An entry is neither claimed nor suspected, and a rule has nothing to refuse in an opening without events.
        Begin::Begun(_) | Begin::Suspected(_) | Begin::Refused { .. } => Err(OutboxError::NotAnEntry.into()),
    }
}

/// The conditions repeat those of the partial indexes word for word, so that SQLite can use them. An entry that is not first in
/// its lane is looked at and not given, so that the entries of one long lane cost one look and no more.
pub(crate) const READY: &str = "SELECT tenant, operation_id, tool, attempt, updated_at, number, lane IS NOT NULL AND EXISTS \
     (SELECT 1 FROM onceward_operation earlier WHERE earlier.tenant = entry.tenant AND earlier.lane = entry.lane \
     AND earlier.dispatch = 'auto' AND earlier.settled_at IS NULL AND earlier.number < entry.number) \
     FROM onceward_operation entry WHERE dispatch = 'auto' AND state = 'approved' AND number > ?1 ORDER BY number LIMIT ?2";

/// See [`READY`].
pub(crate) const LANE_HEAD: &str = "SELECT operation_id FROM onceward_operation WHERE tenant = ?1 AND lane = ?2 \
     AND dispatch = 'auto' AND settled_at IS NULL ORDER BY number LIMIT 1";

/// Entries after that number that may be sent.
pub(crate) fn ready(connection: &Connection, after: u64, limit: u32) -> Result<ReadyPage, Fault> {
    let mut statement = connection.prepare_cached(READY)?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut found = statement.query(params![after, limit])?;
    let (mut ready, mut looked, mut last) = (Vec::new(), 0, 0_i64);
    while let Some(row) = found.next()? {
        looked += 1;
        last = row.get(5)?;
        if row.get(6)? {
            continue;
        }
        ready.push(ReadyRow {
            key: OperationKey {
                tenant: record::name("tenant", TenantId::parse(rows::text(row, 0)?))?,
                id: record::name("operation_id", OperationId::parse(rows::text(row, 1)?))?,
            },
            tool: record::name("tool", ToolName::parse(rows::text(row, 2)?))?,
            attempts: row.get(3)?,
            updated_at: Timestamp::from_micros(row.get(4)?),
        });
    }
    Ok(ReadyPage { rows: ready, next: (looked == limit && looked > 0).then_some(last.unsigned_abs()) })
}

/// The first unresolved entry of a lane.
pub(crate) fn lane_head(
    connection: &Connection,
    tenant: &TenantId,
    lane: &Lane,
) -> Result<Option<OperationKey>, Fault> {
    let mut statement = connection.prepare_cached(LANE_HEAD)?;
    let id = statement.query_row([tenant.as_str(), lane.as_str()], |row| row.get::<_, String>(0)).optional()?;
    let id = id.map(|id| record::name("operation_id", OperationId::parse(&id))).transpose()?;
    Ok(id.map(|id| OperationKey { tenant: tenant.clone(), id }))
}
