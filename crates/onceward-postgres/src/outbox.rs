//! The outbox: entries added in a transaction that the caller has open, and what a dispatcher asks of them.
//!
//! The order of a lane is `ordinal`. A trigger takes the lane's advisory lock, which is held until the commit, and puts a new
//! entry after every unresolved one: the order of commits is the order in the lane, whatever the clocks of the machines say.

use onceward_core::key::{Lane, OperationId, OperationKey, TenantId, ToolName};
use onceward_core::operation::Dispatcher;
use onceward_core::time::Timestamp;
use onceward_ledger::outbox::{Entry, OutboxError, is_entry};
use onceward_ledger::record;
use onceward_ledger::store::{Command, Opening, ReadyPage, ReadyRow};
use sha2::{Digest, Sha256};
use tokio_postgres::{Row, Transaction};

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
/// An entry with a lane holds the lane until the transaction ends, so that entries come into it in the order of commits; such a
/// transaction must be READ COMMITTED. Whoever adds the same operation in another transaction is waited for.
///
/// # Errors
/// [`ApproveError`]: nothing was added, and the transaction must be rolled back.
pub async fn approve_in(transaction: &Transaction<'_>, opening: Opening, at: Timestamp) -> Result<Entry, ApproveError> {
    is_entry(&opening)?;
    match begin_on(transaction, opening, at).await? {
        Begin::Opened(operation) => Ok(Entry::Added(operation)),
        Begin::Existing(operation) => Ok(Entry::Existing(operation)),
        // An entry is neither claimed nor suspected, and a rule has nothing to refuse in an opening without events.
        Begin::Begun(_) | Begin::Suspected(_) | Begin::Refused { .. } => Err(OutboxError::NotAnEntry.into()),
    }
}

/// An entry that is not first in its lane is looked at and not given, so that the entries of one long lane cost one look each
/// and no more.
pub(crate) const READY: &str = "SELECT tenant, operation_id, tool, attempt, updated_at, ordinal, lane IS NOT NULL AND EXISTS \
     (SELECT 1 FROM onceward.operation earlier WHERE earlier.tenant = entry.tenant AND earlier.lane = entry.lane \
     AND earlier.dispatch = 'auto' AND earlier.settled_at IS NULL AND earlier.ordinal < entry.ordinal) \
     FROM onceward.operation entry WHERE dispatch = 'auto' AND state = 'approved' AND ordinal > $1 ORDER BY ordinal LIMIT $2";

/// The first unresolved entry of a lane.
pub(crate) const LANE_HEAD: &str = "SELECT operation_id FROM onceward.operation WHERE tenant = $1 AND lane = $2 \
     AND dispatch = 'auto' AND settled_at IS NULL ORDER BY ordinal LIMIT 1";

/// The page in the rows of [`READY`], of which there were to be at most `limit`.
pub(crate) fn page(found: &[Row], limit: i64) -> Result<ReadyPage, Fault> {
    let full = i64::try_from(found.len()).unwrap_or(i64::MAX) >= limit;
    let last = found.last().map(|row| row.try_get::<_, i64>(5)).transpose()?;
    let mut ready = Vec::new();
    for row in found {
        if row.try_get(6)? {
            continue;
        }
        ready.push(ReadyRow {
            key: OperationKey {
                tenant: record::name("tenant", TenantId::parse(row.try_get(0)?))?,
                id: record::name("operation_id", OperationId::parse(row.try_get(1)?))?,
            },
            tool: record::name("tool", ToolName::parse(row.try_get(2)?))?,
            attempts: rows::narrow("attempt", row.try_get(3)?)?,
            updated_at: Timestamp::from_micros(row.try_get(4)?),
        });
    }
    Ok(ReadyPage { rows: ready, next: last.filter(|_| full).map(i64::unsigned_abs) })
}

/// The advisory lock of the lane that a command adds to, if it adds to one.
pub(crate) fn lane_of(command: &Command) -> Option<i64> {
    let Command::Open(opening) = command else { return None };
    let terms = &opening.operation.terms;
    let lane = terms.lane.as_ref().filter(|_| terms.dispatch == Dispatcher::Auto)?;
    Some(lane_lock(&opening.operation.key.tenant, lane))
}

/// The number of a lane's advisory lock; `onceward.lane_lock` in the schema makes the same.
fn lane_lock(tenant: &TenantId, lane: &Lane) -> i64 {
    let mut hash = Sha256::new();
    hash.update(b"onceward lane\0");
    hash.update((tenant.as_str().len() as u64).to_be_bytes());
    hash.update(tenant.as_str().as_bytes());
    hash.update(lane.as_str().as_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    i64::from_be_bytes(bytes[..8].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_the_same_lock_in_a_batch_as_in_sql() {
        let (tenant, lane) = (TenantId::parse("acme").unwrap(), Lane::parse("lane-7").unwrap());
        assert_eq!(lane_lock(&tenant, &lane), -6_551_699_934_608_582_277);
    }
}
