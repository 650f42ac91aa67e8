//! A local effect in a transaction that the caller already has open (R15).
//!
//! The operation is begun first, then the caller writes its own rows, then the operation is finished with its receipt, and
//! the caller commits. A begun operation that is not finished makes the commit fail: a constraint that is deferred to `COMMIT`
//! looks whether it is. The same is done in SQL, for every language, by the functions in `schema/0002.sql`.

use onceward_core::key::{OperationId, OperationKey, ToolName};
use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use onceward_ledger::local::{NotCommitted, finishing};
use onceward_ledger::record;
use onceward_ledger::store::{Applied, Found, Opening, StoreError};
use onceward_ledger::transact::{self, Transacted, Write};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

use crate::batch::{self, Landmark};
use crate::chance::Salts;
use crate::error::Fault;
use crate::position;
use crate::rows::{self, Written};
use crate::store::PostgresStore;

/// What an operation in the caller's transaction on PostgreSQL came to.
pub type Begin<'t> = onceward_ledger::local::Begin<Box<Begun<'t>>>;

/// Why nothing was begun. The transaction is the caller's to roll back.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// A commit of this transaction would not be on disk when it is answered.
    #[error("`synchronous_commit` is off in this transaction; a receipt needs at least `local`")]
    NotDurable,
    /// The database has no ledger of this version.
    #[error("this database has no ledger of this version; open it with PostgresStore::open first")]
    NoLedger,
    /// The ledger could not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Fault> for BeginError {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.into())
    }
}

/// An operation that is begun and not finished. Dropped, it keeps the transaction from being committed.
#[must_use = "a begun operation that is not finished makes the commit fail"]
pub struct Begun<'t> {
    client: &'t Client,
    operation: Operation,
    landmark: Landmark,
    salts: Salts,
}

impl std::fmt::Debug for Begun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("key", &self.operation.key).finish_non_exhaustive()
    }
}

/// Something that is true only once the caller's transaction is committed.
#[derive(Debug)]
#[must_use = "it is not true before the transaction is committed"]
pub struct Uncommitted<T> {
    pub(crate) value: T,
    pub(crate) operation: Operation,
    pub(crate) landmark: Landmark,
}

/// Begins an operation in the caller's transaction, before the caller writes anything else in it.
///
/// `opening` carries the claim of the first attempt. Whoever has begun the same operation in another transaction is waited for
/// until that one ends: after its commit this answers [`Begin::Existing`], after its rollback it begins. A transaction above READ
/// COMMITTED may be refused instead, with [`StoreError::Busy`], and is to be made anew.
///
/// # Errors
/// [`BeginError`]: nothing was begun, and nothing may be written for the operation.
pub async fn begin_on<'t>(
    transaction: &'t Transaction<'_>,
    opening: Opening,
    at: Timestamp,
) -> Result<Begin<'t>, BeginError> {
    let client = GenericClient::client(transaction);
    check(client).await?;
    let key = opening.operation.key.clone();
    let mut salts = Salts::new();
    let restored = client.query_typed(position::EPOCH, &[]).await.map_err(Fault::from)?;
    let mut found =
        Found { operation: read(client, &key).await?, epoch: position::epoch(&restored)?, ..Found::default() };
    if let (None, Some(probe)) = (&found.operation, &opening.probe) {
        lock(client, &batch::locks(&[], &[(&key, probe)])).await?;
        found.suspects = batch::suspects_on(client, &key, probe, at).await?;
    }
    let Transacted { write, answer } = transact::open(found, opening.clone(), at, || salts.next());
    let Some(write) = write else { return begin_told(answer).map_err(Into::into) };
    if !insert(client, &write).await? {
        // Somebody was faster, and has committed.
        let Some(known) = read(client, &key).await? else { return Err(StoreError::Busy.into()) };
        return begin_told(batch::existing(&opening, known, at, &mut salts)).map_err(Into::into);
    }
    let Write { operation, entries, .. } = write;
    let State::Pending(pending) = &operation.state else { return Ok(Begin::Opened(operation)) };
    let owner = pending.attempt.owner.as_str();
    let params: Params<'_> =
        &[(&key.tenant.as_str(), Type::TEXT), (&key.id.as_str(), Type::TEXT), (&owner, Type::TEXT)];
    client.query_typed("INSERT INTO onceward.begun VALUES ($1, $2, $3)", params).await.map_err(Fault::from)?;
    let landmark = Landmark { key, head: operation.journal, made: Some(Box::new((operation.clone(), entries))) };
    Ok(Begin::Begun(Box::new(Begun { client, operation, landmark, salts })))
}

type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

fn begin_told<'t>(answer: Applied) -> Result<Begin<'t>, StoreError> {
    match answer {
        Applied::Existing(operation) => Ok(Begin::Existing(operation)),
        Applied::Suspected(operation) => Ok(Begin::Suspected(operation)),
        Applied::Refused { refusal, operation } => Ok(Begin::Refused { refusal, operation }),
        Applied::Opened(_) | Applied::Stepped(_) | Applied::NoSuchOperation | Applied::Done => Err(not_opened()),
    }
}

fn not_opened() -> StoreError {
    StoreError::Corrupt("an opening was answered as if it were none".to_owned())
}

/// What must be right with a transaction that is not ours. Checked and never set: it is the caller's.
async fn check(client: &Client) -> Result<(), BeginError> {
    let sql = "SELECT current_setting('synchronous_commit') <> 'off', to_regclass('onceward.begun') IS NOT NULL";
    let rows = client.query_typed(sql, &[]).await.map_err(Fault::from)?;
    let read = |at: usize| rows.first().is_some_and(|row| row.try_get(at).unwrap_or(false));
    match (read(0), read(1)) {
        (false, _) => Err(BeginError::NotDurable),
        (true, false) => Err(BeginError::NoLedger),
        (true, true) => Ok(()),
    }
}

async fn read(client: &Client, key: &OperationKey) -> Result<Option<Operation>, Fault> {
    Ok(batch::read_on(client, std::slice::from_ref(key)).await?.remove(key))
}

async fn lock(client: &Client, hashes: &[i64]) -> Result<(), Fault> {
    client.query_typed(batch::LOCK_HASHES, &[(&hashes, Type::INT8_ARRAY)]).await?;
    Ok(())
}

async fn insert(client: &Client, write: &Write) -> Result<bool, Fault> {
    let row = Written { operation: &write.operation, entries: &write.entries, before: None };
    let arrays = rows::insert(&[row])?;
    Ok(client.query_typed(rows::INSERT, &arrays.as_params()).await?.len() == 1)
}

impl Begun<'_> {
    /// The operation as it stands in this transaction.
    #[must_use]
    pub const fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Stores the receipt. From now on the transaction can be committed, and the operation is done if it is.
    ///
    /// # Errors
    /// [`StoreError`]: it is not finished, and the transaction cannot be committed.
    pub async fn finish(mut self, receipt: Receipt, at: Timestamp) -> Result<Uncommitted<Receipt>, StoreError> {
        let before = self.operation.journal.hash;
        let same_effect = self.same_effect(&receipt).await?;
        let step = finishing(&self.operation, receipt.clone()).ok_or_else(not_opened)?;
        let found = Found { operation: Some(self.operation), same_effect, ..Found::default() };
        let salts = &mut self.salts;
        let Transacted { write, answer } = transact::step(found, step, at, || salts.next());
        let Some(Write { operation, entries, .. }) = write else {
            return Err(StoreError::Corrupt(format!("the operation could not be finished: {answer:?}")));
        };
        let row = Written { operation: &operation, entries: &entries, before: Some(before) };
        let arrays = rows::update(&[row]).map_err(StoreError::from)?;
        let changed = self.client.query_typed(rows::UPDATE, &arrays.as_params()).await.map_err(Fault::from)?;
        let key = &operation.key;
        let params: Params<'_> = &[(&key.tenant.as_str(), Type::TEXT), (&key.id.as_str(), Type::TEXT)];
        let sql = "DELETE FROM onceward.begun WHERE tenant = $1 AND operation_id = $2 RETURNING owner";
        let freed = self.client.query_typed(sql, params).await.map_err(Fault::from)?;
        if changed.len() != 1 || freed.len() != 1 {
            // The transaction that it was begun in has ended: what was written since then is not part of it.
            return Err(StoreError::Corrupt("the operation is not begun in this transaction".to_owned()));
        }
        let landmark = Landmark { head: operation.journal, ..self.landmark };
        Ok(Uncommitted { value: receipt, operation, landmark })
    }

    /// Another operation of the tool that has the same effect: of two that store one at once, the second sees the first.
    async fn same_effect(&self, receipt: &Receipt) -> Result<Option<OperationId>, Fault> {
        let (key, Some(effect)) = (&self.operation.key, &receipt.effect_id) else { return Ok(None) };
        lock(self.client, &batch::locks(&[(key, effect)], &[])).await?;
        let (tenants, effects) = (vec![key.tenant.as_str()], vec![effect.as_str()]);
        let params: Params<'_> = &[(&tenants, Type::TEXT_ARRAY), (&effects, Type::TEXT_ARRAY)];
        for row in self.client.query_typed(batch::SAME_EFFECT, params).await? {
            let tool = record::name("tool", ToolName::parse(row.try_get(1)?))?;
            let id = record::name("operation_id", OperationId::parse(row.try_get(3)?))?;
            if tool == self.operation.binding.tool && id != key.id {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

impl<T> Uncommitted<T> {
    /// The value, after a look of its own has shown that the transaction was committed. One that is still being committed is
    /// waited for, so this is also how a caller learns what became of a `COMMIT` whose answer was lost.
    ///
    /// # Errors
    /// [`NotCommitted`]: the value is not true, or it is not known whether it is.
    pub async fn confirm(self, store: &PostgresStore) -> Result<T, NotCommitted> {
        match store.has_landed(&self.landmark).await? {
            true => Ok(self.value),
            false => Err(NotCommitted::NotThere),
        }
    }
}
