//! Reads: on connections that cannot write, on the caller's own thread. A replay is such a read and waits for no writer.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use onceward_core::journal::Entry;
use onceward_core::key::{Lane, OperationKey, OutboundKey, OwnerId, TenantId};
use onceward_core::operation::Operation;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;
use onceward_ledger::credential::{Credential, CredentialHash};
use onceward_ledger::mark::Mark;
use onceward_ledger::record;
use onceward_ledger::restore::Position;
use onceward_ledger::store::{DisagreementOnly, Filter, OwnerKind, OwnerRow, Page, ReadyPage, StoreError, Unresolved};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::apply::Landmark;
use crate::error::Fault;
use crate::rows::{self, select};
use crate::{connect, find, limits, marks, outbox, position};

const HELD: &str = select!("WHERE owner = ?1 ORDER BY number LIMIT ?2");
const OVERDUE: &str = select!("WHERE settle_by_at <= ?1 ORDER BY settle_by_at LIMIT ?2");
const DUE: &str = select!("WHERE next_check_at <= ?1 ORDER BY next_check_at LIMIT ?2");
const UNSETTLED: &str =
    select!("WHERE (tenant, operation_id) > (?1, ?2) AND settled_at IS NULL ORDER BY tenant, operation_id LIMIT ?3");
const LIST: &str = select!("");
const OWNERS: &str = "SELECT owner, kind, beat FROM onceward_owner UNION ALL \
     SELECT DISTINCT owner, 'library', 0 FROM onceward_operation WHERE owner IS NOT NULL AND settle_by_at IS NULL \
     AND owner NOT IN (SELECT owner FROM onceward_owner) ORDER BY owner";

/// A few connections, opened as they are needed.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Debug)]
struct Pool {
    idle: Vec<Connection>,
    open: usize,
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), pool: Mutex::new(Pool { idle: Vec::new(), open: 0 }), returned: Condvar::new() }
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let connection = self.borrow()?;
        let result = read(&connection);
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match &result {
            Ok(_) | Err(Fault::Row(_)) => pool.idle.push(connection),
            // What is wrong may be wrong with the connection.
            Err(Fault::Sql(_)) => pool.open -= 1,
        }
        drop(pool);
        self.returned.notify_one();
        result.map_err(StoreError::from)
    }

    fn borrow(&self) -> Result<Connection, StoreError> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            if pool.open < limits::READERS_MAX {
                pool.open += 1;
                break;
            }
            let waited = self.returned.wait_timeout(pool, limits::READ_WAIT).unwrap_or_else(PoisonError::into_inner);
            if waited.1.timed_out() {
                return Err(StoreError::Busy);
            }
            pool = waited.0;
        }
        drop(pool);
        connect::reader(&self.path).map_err(|error| {
            self.pool.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
            self.returned.notify_one();
            StoreError::from(Fault::Sql(error))
        })
    }

    pub(crate) fn get(&self, key: &OperationKey) -> Result<Option<Operation>, StoreError> {
        self.with(|connection| Ok(find::by_key(connection, key)?.map(|(_, operation)| operation)))
    }

    pub(crate) fn has_landed(&self, landmark: &Landmark) -> Result<bool, StoreError> {
        self.with(|connection| Ok(find::has_landed(connection, &landmark.key, landmark.head)?))
    }

    pub(crate) fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(rows::ENTRIES)?;
            let limit = limit.min(limits::PAGE_MAX);
            let mut rows = statement.query(params![key.tenant.as_str(), key.id.as_str(), after, limit])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                entries.push(rows::entry(row)?);
            }
            Ok(entries)
        })
    }

    pub(crate) fn list(&self, filter: &Filter) -> Result<Page, StoreError> {
        let limit = filter.limit.clamp(1, limits::PAGE_MAX) as usize;
        let (sql, values) = list_query(filter, limit + 1);
        self.with(|connection| {
            let mut operations = find::all(connection, &sql, params_from_iter(values))?;
            let next = if operations.len() > limit {
                operations.truncate(limit);
                operations.last().map(|(number, _)| number.unsigned_abs())
            } else {
                None
            };
            Ok(Page { operations: operations.into_iter().map(|(_, operation)| operation).collect(), next })
        })
    }

    pub(crate) fn held_by(&self, owner: &OwnerId, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.sweep(HELD, owner.as_str(), limit)
    }

    pub(crate) fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.sweep(OVERDUE, now.as_micros(), limit)
    }

    pub(crate) fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.sweep(DUE, now.as_micros(), limit)
    }

    pub(crate) fn unsettled(&self, after: Option<&OperationKey>, limit: u32) -> Result<Vec<Operation>, StoreError> {
        let (tenant, id) = after.map_or(("", ""), |key| (key.tenant.as_str(), key.id.as_str()));
        self.with(|connection| {
            let rows = find::all(connection, UNSETTLED, params![tenant, id, limit.min(limits::PAGE_MAX)])?;
            Ok(rows.into_iter().map(|(_, operation)| operation).collect())
        })
    }

    pub(crate) fn position(&self) -> Result<Position, StoreError> {
        self.with(|connection| Ok(position::read(connection)?))
    }

    pub(crate) fn suspects(
        &self,
        key: &OperationKey,
        probe: &Probe,
        at: Timestamp,
    ) -> Result<Vec<Operation>, StoreError> {
        self.with(|connection| find::suspects(connection, key, probe, at))
    }

    pub(crate) fn ready(&self, after: u64, limit: u32) -> Result<ReadyPage, StoreError> {
        self.with(|connection| outbox::ready(connection, after, limit.min(limits::PAGE_MAX)))
    }

    pub(crate) fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> Result<Option<OperationKey>, StoreError> {
        self.with(|connection| outbox::lane_head(connection, tenant, lane))
    }

    fn sweep(&self, sql: &str, by: impl rusqlite::ToSql, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.with(|connection| {
            let found = find::all(connection, sql, params![by, limit.min(limits::PAGE_MAX)])?;
            Ok(found.into_iter().map(|(_, operation)| operation).collect())
        })
    }

    pub(crate) fn marked(&self, mark: &Mark, limit: u32) -> Result<Vec<OperationKey>, StoreError> {
        self.with(|connection| marks::marked(connection, mark, limit.min(limits::PAGE_MAX)))
    }

    pub(crate) fn keys_held(&self, limit: u32) -> Result<Vec<OutboundKey>, StoreError> {
        self.with(|connection| marks::held(connection, limit))
    }

    pub(crate) fn unresolved(&self) -> Result<Unresolved, StoreError> {
        self.with(marks::unresolved)
    }

    pub(crate) fn owners(&self) -> Result<Vec<OwnerRow>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(OWNERS)?;
            let mut rows = statement.query([])?;
            let mut owners = Vec::new();
            while let Some(row) = rows.next()? {
                let kind = rows::text(row, 1)?;
                owners.push(OwnerRow {
                    owner: record::name("owner", OwnerId::parse(rows::text(row, 0)?))?,
                    kind: OwnerKind::parse(kind).ok_or_else(|| Fault::Row(format!("column kind is {kind:?}")))?,
                    beat: row.get::<_, i64>(2)?.unsigned_abs(),
                });
            }
            Ok(owners)
        })
    }

    pub(crate) fn pinned(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached("SELECT body FROM onceward_pin WHERE digest = ?1")?;
            let body: Option<Vec<u8>> = statement.query_row([hash], |row| row.get(0)).optional()?;
            Ok(body.map(|bytes| record::decode_text("body", &bytes)).transpose()?)
        })
    }

    pub(crate) fn credential(&self, hash: &CredentialHash) -> Result<Option<Credential>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(concat!(
                "SELECT hash, credential_id, tenant, grant_json, created_at, revoked_at FROM onceward_credential ",
                "WHERE hash = ?1"
            ))?;
            let mut rows = statement.query([&hash.0[..]])?;
            match rows.next()? {
                Some(row) => credential(row).map(Some),
                None => Ok(None),
            }
        })
    }

    pub(crate) fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(concat!(
                "SELECT hash, credential_id, tenant, grant_json, created_at, revoked_at FROM onceward_credential ",
                "ORDER BY created_at, credential_id"
            ))?;
            let mut rows = statement.query([])?;
            let mut credentials = Vec::new();
            while let Some(row) = rows.next()? {
                credentials.push(credential(row)?);
            }
            Ok(credentials)
        })
    }
}

fn credential(row: &Row<'_>) -> Result<Credential, Fault> {
    let text: String = row.get(3)?;
    let credential = Credential {
        id: row.get(1)?,
        hash: CredentialHash(rows::hash(row, 0)?),
        grant: serde_json::from_str(&text).map_err(|error| Fault::Row(format!("column grant_json: {error}")))?,
        created_at: Timestamp::from_micros(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
    };
    // Lists are made by the column, permission by the grant: they must not part.
    if *credential.grant.tenant() != record::name("tenant", TenantId::parse(rows::text(row, 2)?))? {
        return Err(Fault::Row(format!("credential {} has two tenants", credential.id)));
    }
    Ok(credential)
}

/// The statement of a list. Its conditions repeat those of the partial indexes word for word, so that SQLite can use them.
fn list_query(filter: &Filter, limit: usize) -> (String, Vec<Value>) {
    let mut sql = LIST.to_owned();
    let mut values = vec![Value::from(filter.tenant.as_str().to_owned())];
    sql.push_str("WHERE tenant = ?1");
    if !filter.states.is_empty() {
        let open = ["proposed", "approved", "unknown"];
        if filter.states.iter().all(|state| open.contains(&state.as_str())) {
            sql.push_str(" AND owner IS NULL AND settled_at IS NULL");
        }
        let marks: Vec<String> = filter
            .states
            .iter()
            .map(|state| {
                values.push(Value::from(state.clone()));
                format!("?{}", values.len())
            })
            .collect();
        sql.push_str(&format!(" AND state IN ({})", marks.join(", ")));
    }
    if let Some(tool) = &filter.tool {
        values.push(Value::from(tool.as_str().to_owned()));
        sql.push_str(&format!(" AND tool = ?{}", values.len()));
    }
    match filter.disagreement_only {
        DisagreementOnly::Yes => sql.push_str(" AND disagreement IS NOT NULL"),
        DisagreementOnly::No => {}
    }
    if let Some(after) = filter.after {
        values.push(Value::from(i64::try_from(after).unwrap_or(i64::MAX)));
        sql.push_str(&format!(" AND number < ?{}", values.len()));
    }
    values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
    sql.push_str(&format!(" ORDER BY number DESC LIMIT ?{}", values.len()));
    (sql, values)
}
