//! Reads: on connections of their own, shared by all who read. Statements are sent one behind the other, so that nobody waits for
//! a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onceward_core::journal::Entry;
use onceward_core::key::{Lane, OperationId, OperationKey, OutboundKey, OwnerId, TenantId, ToolName};
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;
use onceward_ledger::credential::{Credential, CredentialHash};
use onceward_ledger::mark::Mark;
use onceward_ledger::record;
use onceward_ledger::restore::Position;
use onceward_ledger::store::{
    DisagreementOnly, Filter, OwnerKind, OwnerRow, Page, ReadyPage, StoreError, UnknownCount, Unresolved,
};
use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::batch;
use crate::connect::{Address, Link};
use crate::error::{Fault, Trouble};
use crate::limits;
use crate::outbox;
use crate::position;
use crate::rows::{self, select};
use crate::writer;

const BY_KEY: &str = select!("WHERE tenant = $1 AND operation_id = $2");
const HELD: &str = select!("WHERE owner = $1 ORDER BY ordinal LIMIT $2");
const OVERDUE: &str = select!("WHERE settle_by_at <= $1 ORDER BY settle_by_at LIMIT $2");
const DUE: &str = select!("WHERE next_check_at <= $1 ORDER BY next_check_at LIMIT $2");
const UNSETTLED: &str =
    select!("WHERE (tenant, operation_id) > ($1, $2) AND settled_at IS NULL ORDER BY tenant, operation_id LIMIT $3");
const KEYS_HELD: &str = select!("WHERE owner IS NOT NULL LIMIT $1");
const OWNERS: &str = "SELECT owner, kind, beat FROM onceward.owner UNION ALL \
     SELECT DISTINCT owner, 'library', 0::int8 FROM onceward.operation o WHERE owner IS NOT NULL AND settle_by_at IS NULL \
     AND NOT EXISTS (SELECT 1 FROM onceward.owner known WHERE known.owner = o.owner) ORDER BY 1";
const MARKED: &str =
    "SELECT tenant, operation_id FROM onceward.mark WHERE digest = $1 ORDER BY tenant, operation_id LIMIT $2";
const UNKNOWN: &str = "SELECT tool, cause, count(*), count(*) - count(next_check_at), min(uncertain_since) \
     FROM onceward.operation WHERE state = 'unknown' GROUP BY tool, cause";
const COUNTS: &str = "SELECT (SELECT count(*) FROM onceward.operation WHERE owner IS NULL AND settled_at IS NULL \
     AND state = 'proposed'), (SELECT count(*) FROM onceward.operation WHERE disagreement IS NOT NULL)";
const CREDENTIALS: &str =
    "SELECT hash, credential_id, tenant, grant_json, created_at, revoked_at FROM onceward.credential";

/// Connections that are made as they are needed, and again when they end.
pub(crate) struct Readers {
    address: Address,
    links: Vec<Mutex<Option<Arc<Link>>>>,
    turn: AtomicUsize,
}

type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

impl Readers {
    pub(crate) fn new(address: Address) -> Self {
        let links = (0..limits::READERS).map(|_| Mutex::new(None)).collect();
        Self { address, links, turn: AtomicUsize::new(0) }
    }

    async fn link(&self) -> Result<Arc<Link>, Fault> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.links.len();
        let mut place = self.links[turn].lock().await;
        if let Some(link) = place.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        let link = Arc::new(self.address.link().await?);
        *place = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Reading changes nothing, so a connection that ended is replaced, and the question is asked once more.
    async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let link = self.link().await?;
        match link.client.query_typed(sql, params).await.map_err(Fault::from) {
            Err(fault) if fault.trouble() == Trouble::Gone => {
                let link = self.link().await?;
                Ok(link.client.query_typed(sql, params).await?)
            }
            answered => answered,
        }
    }

    async fn operations(&self, sql: &str, params: Params<'_>) -> Result<Vec<Operation>, StoreError> {
        let rows = self.query(sql, params).await?;
        Ok(rows.iter().map(rows::operation).collect::<Result<_, Fault>>()?)
    }

    pub(crate) async fn get(&self, key: &OperationKey) -> Result<Option<Operation>, StoreError> {
        let (tenant, id) = (key.tenant.as_str(), key.id.as_str());
        let found = self.operations(BY_KEY, &[(&tenant, Type::TEXT), (&id, Type::TEXT)]).await?;
        Ok(found.into_iter().next())
    }

    /// The same, of what a fail-over cannot take back: first something of our own is committed, and the server has waited for
    /// its standby.
    pub(crate) async fn confirmed(&self, key: &OperationKey) -> Result<Option<Operation>, StoreError> {
        // A connection of its own: the word of doubt must be about this commit.
        let link = self.address.link().await?;
        writer::reach(&link).await?;
        let found = batch::read(&link, std::slice::from_ref(key)).await?;
        Ok(found.into_values().next())
    }

    pub(crate) async fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        let (tenant, id) = (key.tenant.as_str(), key.id.as_str());
        let (after, limit) = (i64::from(after), i64::from(limit.min(limits::PAGE_MAX)));
        let params: [(&(dyn ToSql + Sync), Type); 4] =
            [(&tenant, Type::TEXT), (&id, Type::TEXT), (&after, Type::INT8), (&limit, Type::INT8)];
        let rows = self.query(rows::ENTRIES, &params).await?;
        Ok(rows.iter().map(rows::entry).collect::<Result<_, Fault>>()?)
    }

    pub(crate) async fn list(&self, filter: &Filter) -> Result<Page, StoreError> {
        let limit = filter.limit.clamp(1, limits::PAGE_MAX) as usize;
        let more = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let sql = list_query(filter);
        let tenant = filter.tenant.as_str();
        let tool = filter.tool.as_ref().map(ToolName::as_str);
        let after = filter.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
        let params: [(&(dyn ToSql + Sync), Type); 5] = [
            (&tenant, Type::TEXT),
            (&filter.states, Type::TEXT_ARRAY),
            (&tool, Type::TEXT),
            (&after, Type::INT8),
            (&more, Type::INT8),
        ];
        let mut found = self.query(&sql, &params).await?;
        let next = if found.len() > limit {
            found.truncate(limit);
            found.last().map(rows::place).transpose()?.map(i64::unsigned_abs)
        } else {
            None
        };
        let operations = found.iter().map(rows::operation).collect::<Result<_, Fault>>()?;
        Ok(Page { operations, next })
    }

    pub(crate) async fn held_by(&self, owner: &OwnerId, limit: u32) -> Result<Vec<Operation>, StoreError> {
        let owner = owner.as_str();
        self.operations(HELD, &[(&owner, Type::TEXT), (&page(limit), Type::INT8)]).await
    }

    pub(crate) async fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.operations(OVERDUE, &[(&now.as_micros(), Type::INT8), (&page(limit), Type::INT8)]).await
    }

    pub(crate) async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Operation>, StoreError> {
        self.operations(DUE, &[(&now.as_micros(), Type::INT8), (&page(limit), Type::INT8)]).await
    }

    pub(crate) async fn ready(&self, after: u64, limit: u32) -> Result<ReadyPage, StoreError> {
        let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), page(limit));
        let found = self.query(outbox::READY, &[(&after, Type::INT8), (&limit, Type::INT8)]).await?;
        Ok(outbox::page(&found, limit)?)
    }

    pub(crate) async fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> Result<Option<OperationKey>, StoreError> {
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&tenant.as_str(), Type::TEXT), (&lane.as_str(), Type::TEXT)];
        let found = self.query(outbox::LANE_HEAD, &params).await?;
        let key = found.first().map(|row| {
            let id = record::name("operation_id", OperationId::parse(row.try_get(0)?))?;
            Ok(OperationKey { tenant: tenant.clone(), id })
        });
        Ok(key.transpose().map_err(|fault: Fault| fault)?)
    }

    pub(crate) async fn suspects(
        &self,
        key: &OperationKey,
        probe: &Probe,
        at: Timestamp,
    ) -> Result<Vec<Operation>, StoreError> {
        let link = self.link().await?;
        Ok(batch::suspects(&link, key, probe, at).await?)
    }

    pub(crate) async fn marked(&self, mark: &Mark, limit: u32) -> Result<Vec<OperationKey>, StoreError> {
        let digest = mark.digest().to_vec();
        let rows = self.query(MARKED, &[(&digest, Type::BYTEA), (&page(limit), Type::INT8)]).await?;
        let keys = rows.iter().map(|row| {
            Ok(OperationKey {
                tenant: record::name("tenant", TenantId::parse(row.try_get(0)?))?,
                id: record::name("operation_id", OperationId::parse(row.try_get(1)?))?,
            })
        });
        Ok(keys.collect::<Result<_, Fault>>()?)
    }

    pub(crate) async fn keys_held(&self, limit: u32) -> Result<Vec<OutboundKey>, StoreError> {
        let held = self.operations(KEYS_HELD, &[(&i64::from(limit), Type::INT8)]).await?;
        Ok(held
            .into_iter()
            .filter_map(|operation| match operation.state {
                State::Pending(pending) => pending.attempt.outbound_key,
                State::Proposed(_)
                | State::Approved(_)
                | State::Unknown(_)
                | State::Succeeded(_)
                | State::Rejected(_)
                | State::Closed(_) => None,
            })
            .collect())
    }

    pub(crate) async fn unresolved(&self) -> Result<Unresolved, StoreError> {
        let rows = self.query(UNKNOWN, &[]).await?;
        let count = |row: &Row, at: usize| Ok::<u64, Fault>(row.try_get::<_, i64>(at)?.unsigned_abs());
        let unknown = rows.iter().map(|row| {
            Ok(UnknownCount {
                tool: record::name("tool", ToolName::parse(row.try_get(0)?))?,
                cause: row.try_get(1)?,
                count: count(row, 2)?,
                for_a_person: count(row, 3)?,
                oldest: Timestamp::from_micros(row.try_get::<_, Option<i64>>(4)?.unwrap_or_default()),
            })
        });
        let unknown = unknown.collect::<Result<_, Fault>>()?;
        let counts = self.query(COUNTS, &[]).await?;
        let counts = counts.first().ok_or_else(|| Fault::Row("a count has no row".to_owned()))?;
        Ok(Unresolved { unknown, proposed: count(counts, 0)?, in_disagreement: count(counts, 1)? })
    }

    pub(crate) async fn unsettled(
        &self,
        after: Option<&OperationKey>,
        limit: u32,
    ) -> Result<Vec<Operation>, StoreError> {
        let (tenant, id) = after.map_or(("", ""), |key| (key.tenant.as_str(), key.id.as_str()));
        let limit = i64::from(limit.min(limits::PAGE_MAX));
        self.operations(UNSETTLED, &[(&tenant, Type::TEXT), (&id, Type::TEXT), (&limit, Type::INT8)]).await
    }

    pub(crate) async fn position(&self) -> Result<Position, StoreError> {
        let link = self.link().await?;
        Ok(position::read(&link.client).await?)
    }

    pub(crate) async fn owners(&self) -> Result<Vec<OwnerRow>, StoreError> {
        let rows = self.query(OWNERS, &[]).await?;
        let owners = rows.iter().map(|row| {
            let kind: &str = row.try_get(1)?;
            Ok(OwnerRow {
                owner: record::name("owner", OwnerId::parse(row.try_get(0)?))?,
                kind: OwnerKind::parse(kind).ok_or_else(|| Fault::Row(format!("column kind is {kind:?}")))?,
                beat: row.try_get::<_, i64>(2)?.unsigned_abs(),
            })
        });
        Ok(owners.collect::<Result<_, Fault>>()?)
    }

    pub(crate) async fn pinned(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let rows = self.query("SELECT body FROM onceward.pin WHERE digest = $1", &[(&hash, Type::TEXT)]).await?;
        let body = rows.first().map(|row| Ok(record::decode_text("body", row.try_get(0)?)?));
        Ok(body.transpose().map_err(|fault: Fault| fault)?)
    }

    pub(crate) async fn credential(&self, hash: &CredentialHash) -> Result<Option<Credential>, StoreError> {
        let sql = format!("{CREDENTIALS} WHERE hash = $1");
        let rows = self.query(&sql, &[(&&hash.0[..], Type::BYTEA)]).await?;
        Ok(rows.first().map(credential).transpose()?)
    }

    pub(crate) async fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        let sql = format!("{CREDENTIALS} ORDER BY created_at, credential_id");
        let rows = self.query(&sql, &[]).await?;
        Ok(rows.iter().map(credential).collect::<Result<_, Fault>>()?)
    }
}

fn page(limit: u32) -> i64 {
    i64::from(limit.min(limits::PAGE_MAX))
}

/// The statement of a list. Its conditions repeat those of the partial indexes, so that they can be used.
fn list_query(filter: &Filter) -> String {
    let mut sql = select!("WHERE tenant = $1").to_owned();
    let open = ["proposed", "approved", "unknown"];
    match filter.states.as_slice() {
        [] => sql.push_str(" AND cardinality($2::text[]) = 0"),
        states => {
            if states.iter().all(|state| open.contains(&state.as_str())) {
                sql.push_str(" AND owner IS NULL AND settled_at IS NULL");
            }
            sql.push_str(" AND state = ANY($2::text[])");
        }
    }
    sql.push_str(match &filter.tool {
        Some(_) => " AND tool = $3",
        None => " AND $3::text IS NULL",
    });
    match filter.disagreement_only {
        DisagreementOnly::Yes => sql.push_str(" AND disagreement IS NOT NULL"),
        DisagreementOnly::No => {}
    }
    sql.push_str(match filter.after {
        Some(_) => " AND ordinal < $4",
        None => " AND $4::int8 IS NULL",
    });
    sql.push_str(" ORDER BY ordinal DESC LIMIT $5");
    sql
}

fn credential(row: &Row) -> Result<Credential, Fault> {
    let text: &str = row.try_get(3)?;
    let credential = Credential {
        id: row.try_get(1)?,
        hash: CredentialHash(record::hash(row.try_get(0)?)?),
        grant: serde_json::from_str(text).map_err(|error| Fault::Row(format!("column grant_json: {error}")))?,
        created_at: Timestamp::from_micros(row.try_get(4)?),
        revoked_at: row.try_get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
    };
    // Lists are made by the column, permission by the grant: they must not part.
    if *credential.grant.tenant() != record::name("tenant", TenantId::parse(row.try_get(2)?))? {
        return Err(Fault::Row(format!("credential {} has two tenants", credential.id)));
    }
    Ok(credential)
}
