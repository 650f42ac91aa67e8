//! One batch: looked up, decided by the rules, written, committed together.
//!
//! Locks are always taken in one order, so that batches of any number of processes cannot wait for each other in a circle:
//! first those on effects, then those on rows, by key, then what an insert of a new key waits for, by key.

use std::collections::{HashMap, HashSet};

use onceward_core::journal::{Entry, Head};
use onceward_core::key::{EffectId, OperationId, OperationKey, ToolName};
use onceward_core::operation::Operation;
use onceward_core::suspicion::{HOLD_WINDOW, Probe};
use onceward_core::time::Timestamp;
use onceward_ledger::restore::Epoch;
use onceward_ledger::store::{Applied, Command, Found, Opening, Step};
use onceward_ledger::transact::{self, Details, Row, Transacted, Write};
use sha2::{Digest, Sha256};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::chance::Salts;
use crate::connect::Link;
use crate::error::Fault;
use crate::others;
use crate::outbox;
use crate::position;
use crate::queue::Job;
use crate::rows::{self, Written, select};

const BY_KEYS_LOCKED: &str = select!(
    "JOIN unnest($1::text[], $2::text[]) AS wanted (t, i) ON tenant = wanted.t AND operation_id = wanted.i \
     ORDER BY tenant, operation_id FOR UPDATE OF operation"
);
const BY_KEYS: &str =
    select!("JOIN unnest($1::text[], $2::text[]) AS wanted (t, i) ON tenant = wanted.t AND operation_id = wanted.i");
pub(crate) const SAME_EFFECT: &str = "SELECT tenant, tool, effect_id, operation_id FROM onceward.operation \
     JOIN unnest($1::text[], $2::text[]) AS wanted (t, e) ON tenant = wanted.t AND effect_id = wanted.e";
/// In order, because the function is called once for each element as it comes.
pub(crate) const LOCK_HASHES: &str = "SELECT pg_advisory_xact_lock(h) FROM unnest($1::int8[]) AS h";
const MARKED: &str = select!(
    "WHERE tenant = $1 AND suspicion_mark = ANY($2::bytea[]) AND (settled_at IS NULL OR settled_at > $3) \
     ORDER BY settled_at DESC NULLS FIRST LIMIT 64"
);
const GROUPED: &str = select!("WHERE tenant = $1 AND suspicion_group = $2 AND settled_at IS NULL LIMIT 1000");

/// A journal entry that is there if, and only if, a command was committed.
#[derive(Clone, Debug)]
pub(crate) struct Landmark {
    pub(crate) key: OperationKey,
    pub(crate) head: Head,
    /// Whether the row was to be made; then asking what became of it begins with making it.
    pub(crate) made: Option<Box<(Operation, Vec<Entry>)>>,
}

/// What a job of a batch came to, answered once the batch is committed.
pub(crate) struct Decided {
    pub(crate) job: Job,
    pub(crate) answer: Applied,
    /// By what it is known whether it was committed; `None` where nothing was written of an operation.
    pub(crate) landmark: Option<Landmark>,
}

/// A decided batch, before its commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) decided: Vec<Decided>,
    /// Rows to write, in the order of their keys.
    writes: Vec<(OperationKey, Write, Option<[u8; 32]>)>,
}

/// Why a batch was not committed, and what is known of it.
pub(crate) enum Broken {
    /// Surely nothing of it was written.
    Nothing(Fault),
    /// The COMMIT was sent, and what became of it is not known.
    Unknown(Fault),
}

/// Begins a transaction, looks up what the jobs want and decides each. What is about no operation is written; operations are not
/// yet.
pub(crate) async fn decide(
    link: &Link,
    jobs: Vec<Job>,
    at: Timestamp,
    salts: &mut Salts,
) -> Result<Batch, (Vec<Job>, Fault)> {
    let mut sight = match look(link, &jobs, at).await {
        Ok(sight) => sight,
        Err(fault) => return Err((jobs, fault)),
    };
    let mut others = Vec::new();
    for job in &jobs {
        match others::write(&link.client, &job.command, at).await {
            Ok(answer) => others.push(answer),
            Err(fault) => return Err((jobs, fault)),
        }
    }
    Ok(decided(jobs, &mut sight, others, at, salts))
}

/// What the jobs of a batch want to see.
#[derive(Default)]
struct Sight {
    known: HashMap<OperationKey, Operation>,
    /// By tenant and effect: the tools and operations that have it.
    effects: HashMap<(String, String), Vec<(ToolName, OperationId)>>,
    suspects: HashMap<OperationKey, Vec<Operation>>,
    epoch: Option<Epoch>,
}

async fn look(link: &Link, jobs: &[Job], at: Timestamp) -> Result<Sight, Fault> {
    let mut steps: Vec<&OperationKey> = Vec::new();
    let mut effects: Vec<(&OperationKey, &EffectId)> = Vec::new();
    let mut probes: Vec<(&OperationKey, &Probe)> = Vec::new();
    for job in jobs {
        match &job.command {
            Command::Step(step) => {
                let wants = transact::step_wants(step);
                steps.push(&step.key);
                effects.extend(wants.effect.map(|effect| (&step.key, effect)));
                probes.extend(wants.suspects.map(|probe| (&step.key, probe)));
            }
            // One with a probe is decided on what is there, so its own key is looked at as well.
            Command::Open(opening) => {
                let probe = opening.probe.as_ref().map(|probe| (&opening.operation.key, probe));
                steps.extend(probe.map(|(key, _)| key));
                probes.extend(probe);
            }
            Command::Beat { .. }
            | Command::ForgetOwner(_)
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. }
            | Command::Restore(_)
            | Command::CloseRestores { .. } => {}
        }
    }
    let mut hashes = locks(&effects, &probes);
    // What the trigger of a lane locks as well, but one row after the other: here all at once, in order.
    hashes.extend(jobs.iter().filter_map(|job| outbox::lane_of(&job.command)));
    hashes.sort_unstable();
    hashes.dedup();
    let client = &link.client;
    let begun = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '4s'");
    let locked = async {
        match hashes.is_empty() {
            true => Ok(Vec::new()),
            false => client.query_typed(LOCK_HASHES, &[(&hashes, Type::INT8_ARRAY)]).await,
        }
    };
    let (tenants, ids) = split(steps.iter().copied());
    let wanted = async {
        match steps.is_empty() {
            true => Ok(Vec::new()),
            false => {
                let keys: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                    [(&tenants, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
                client.query_typed(BY_KEYS_LOCKED, &keys).await
            }
        }
    };
    let restored = async {
        match jobs.iter().any(|job| matches!(job.command, Command::Open(_))) {
            false => Ok(Vec::new()),
            true => client.query_typed(position::EPOCH, &[]).await,
        }
    };
    // One way there and back: each is sent before the answer to the one before it has come.
    let (begun, locked, found, restored) = futures_util::join!(begun, locked, wanted, restored);
    begun?;
    locked?;
    let mut sight = Sight { epoch: position::epoch(&restored?)?, ..Sight::default() };
    for row in &found? {
        let operation = rows::operation(row)?;
        sight.known.insert(operation.key.clone(), operation);
    }
    // Read only now: a statement sees what was committed before it began, and others may have held the locks until a moment ago.
    if !effects.is_empty() {
        let tenants: Vec<String> = effects.iter().map(|(key, _)| key.tenant.to_string()).collect();
        let ids: Vec<String> = effects.iter().map(|(_, effect)| effect.as_str().to_owned()).collect();
        let wanted: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&tenants, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
        for row in client.query_typed(SAME_EFFECT, &wanted).await? {
            let tool: &str = row.try_get(1)?;
            let id: &str = row.try_get(3)?;
            let tool = onceward_ledger::record::name("tool", ToolName::parse(tool))?;
            let id = onceward_ledger::record::name("operation_id", OperationId::parse(id))?;
            sight.effects.entry((row.try_get(0)?, row.try_get(2)?)).or_default().push((tool, id));
        }
    }
    for (key, probe) in probes {
        sight.suspects.insert(key.clone(), suspects(link, key, probe, at).await?);
    }
    Ok(sight)
}

/// Every operation that may be the same intention. Those who look for the same one hold a lock on its mark and group by now, so
/// that of two equal calls at once the second sees the first.
pub(crate) async fn suspects(
    link: &Link,
    key: &OperationKey,
    probe: &Probe,
    at: Timestamp,
) -> Result<Vec<Operation>, Fault> {
    suspects_on(&link.client, key, probe, at).await
}

/// The same, on any connection.
pub(crate) async fn suspects_on(
    client: &Client,
    key: &OperationKey,
    probe: &Probe,
    at: Timestamp,
) -> Result<Vec<Operation>, Fault> {
    let tenant = key.tenant.as_str();
    let marks: Vec<Vec<u8>> =
        std::iter::once(&probe.suspicion.mark).chain(&probe.other_marks).map(|mark| mark.as_bytes().to_vec()).collect();
    let since = at.minus(HOLD_WINDOW).as_micros();
    let group = probe.suspicion.group.as_bytes().to_vec();
    let marked: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&tenant, Type::TEXT), (&marks, Type::BYTEA_ARRAY), (&since, Type::INT8)];
    let grouped: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&tenant, Type::TEXT), (&group, Type::BYTEA)];
    let (marked, grouped) =
        futures_util::join!(client.query_typed(MARKED, &marked), client.query_typed(GROUPED, &grouped));
    marked?.iter().chain(&grouped?).map(rows::operation).collect()
}

/// What is locked beside rows, each as a number, in order and once.
pub(crate) fn locks(effects: &[(&OperationKey, &EffectId)], probes: &[(&OperationKey, &Probe)]) -> Vec<i64> {
    let number = |domain: &[u8], tenant: &str, what: &[u8]| {
        let mut hash = Sha256::new();
        hash.update(domain);
        hash.update((tenant.len() as u64).to_be_bytes());
        hash.update(tenant.as_bytes());
        hash.update(what);
        let bytes: [u8; 32] = hash.finalize().into();
        i64::from_be_bytes(bytes[..8].try_into().unwrap_or_default())
    };
    let mut hashes: Vec<i64> = effects
        .iter()
        .map(|(key, effect)| number(b"onceward effect\0", key.tenant.as_str(), effect.as_str().as_bytes()))
        .collect();
    for (key, probe) in probes {
        let tenant = key.tenant.as_str();
        hashes.push(number(b"onceward group\0", tenant, probe.suspicion.group.as_bytes()));
        hashes.push(number(b"onceward mark\0", tenant, probe.suspicion.mark.as_bytes()));
    }
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// What a job is decided on beside its own row: two jobs that share one are decided one after the other, each on what the other has
/// written.
pub(crate) fn shared(job: &Job) -> Vec<i64> {
    match &job.command {
        Command::Open(opening) => {
            let probe = opening.probe.as_ref().map(|probe| (&opening.operation.key, probe));
            locks(&[], probe.as_slice())
        }
        Command::Step(step) => {
            let wants = transact::step_wants(step);
            let effect = wants.effect.map(|effect| (&step.key, effect));
            let probe = wants.suspects.map(|probe| (&step.key, probe));
            locks(effect.as_slice(), probe.as_slice())
        }
        Command::Beat { .. }
        | Command::ForgetOwner(_)
        | Command::Pin { .. }
        | Command::PutCredential(_)
        | Command::RevokeCredential { .. }
        | Command::Restore(_)
        | Command::CloseRestores { .. } => Vec::new(),
    }
}

fn split<'a>(keys: impl Iterator<Item = &'a OperationKey>) -> (Vec<String>, Vec<String>) {
    keys.map(|key| (key.tenant.to_string(), key.id.to_string())).unzip()
}

fn decided(jobs: Vec<Job>, sight: &mut Sight, others: Vec<Option<Applied>>, at: Timestamp, salts: &mut Salts) -> Batch {
    let mut batch = Batch::default();
    for (job, other) in jobs.into_iter().zip(others) {
        let transacted = match &job.command {
            Command::Open(opening) => {
                let key = &opening.operation.key;
                let found = Found {
                    operation: sight.known.remove(key),
                    suspects: sight.suspects.remove(key).unwrap_or_default(),
                    same_effect: None,
                    epoch: sight.epoch,
                };
                transact::open(found, (**opening).clone(), at, || salts.next())
            }
            Command::Step(step) => {
                let operation = sight.known.remove(&step.key);
                let same_effect = operation.as_ref().and_then(|operation| sight.same_effect(step, operation));
                let suspects = sight.suspects.remove(&step.key).unwrap_or_default();
                let found = Found { operation, suspects, same_effect, epoch: None };
                let before = found.operation.as_ref().map(|operation| operation.journal.hash);
                let transacted = transact::step(found, (**step).clone(), at, || salts.next());
                batch.take(job, transacted, before);
                continue;
            }
            Command::Beat { .. }
            | Command::ForgetOwner(_)
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. }
            | Command::Restore(_)
            | Command::CloseRestores { .. } => {
                batch.decided.push(Decided { job, answer: other.unwrap_or(Applied::Done), landmark: None });
                continue;
            }
        };
        batch.take(job, transacted, None);
    }
    batch.writes.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    batch
}

impl Sight {
    fn same_effect(&self, step: &Step, operation: &Operation) -> Option<OperationId> {
        let effect = transact::step_wants(step).effect?;
        let at = (step.key.tenant.to_string(), effect.as_str().to_owned());
        let same = self.effects.get(&at)?;
        same.iter().find(|(tool, id)| *tool == operation.binding.tool && *id != step.key.id).map(|(_, id)| id.clone())
    }
}

impl Batch {
    fn take(&mut self, job: Job, transacted: Transacted, before: Option<[u8; 32]>) {
        let Transacted { write, answer } = transacted;
        let landmark = write.as_ref().map(|write| Landmark {
            key: write.operation.key.clone(),
            head: write.operation.journal,
            made: match write.row {
                Row::New => Some(Box::new((write.operation.clone(), write.entries.clone()))),
                Row::Known => None,
            },
        });
        if let Some(write) = write {
            self.writes.push((write.operation.key.clone(), write, before));
        }
        self.decided.push(Decided { job, answer, landmark });
    }

    /// Writes what was decided and commits. Gives the keys whose insert or update found its row as it was decided on; the others
    /// wrote nothing, and are decided again.
    pub(crate) async fn commit(&self, link: &Link) -> Result<HashSet<OperationKey>, Broken> {
        let mut new = Vec::new();
        let mut known = Vec::new();
        let mut erasures = Vec::new();
        for (key, write, before) in &self.writes {
            let row = Written { operation: &write.operation, entries: &write.entries, before: *before };
            match write.row {
                Row::New => new.push(row),
                Row::Known => known.push(row),
            }
            match write.details {
                Details::Stay => {}
                Details::EraseBefore { seq } => erasures.push((key, i64::from(seq))),
            }
        }
        let client = &link.client;
        let arrays = |rows: &[Written<'_>], of: fn(&[Written<'_>]) -> Result<rows::Arrays, Fault>| match rows.is_empty()
        {
            true => Ok(None),
            false => of(rows).map(Some),
        };
        let inserts = arrays(&new, rows::insert).map_err(Broken::Nothing)?;
        let updates = arrays(&known, rows::update).map_err(Broken::Nothing)?;
        let inserted = async {
            match &inserts {
                None => Ok(Vec::new()),
                Some(arrays) => client.query_typed(rows::INSERT, &arrays.as_params()).await,
            }
        };
        let updated = async {
            match &updates {
                None => Ok(Vec::new()),
                Some(arrays) => client.query_typed(rows::UPDATE, &arrays.as_params()).await,
            }
        };
        let rest = async {
            for (key, seq) in &erasures {
                let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(&key.tenant.as_str(), Type::TEXT), (&key.id.as_str(), Type::TEXT), (seq, Type::INT8)];
                client.query_typed(rows::ERASE_DETAILS, &params).await?;
            }
            Ok::<(), Fault>(())
        };
        if erasures.is_empty() {
            // The usual batch: rows and COMMIT go out together, and one answer comes back.
            link.is_in_doubt();
            let committed = client.batch_execute("COMMIT");
            let (inserted, updated, committed) = futures_util::join!(inserted, updated, committed);
            return match (inserted, updated, committed) {
                (Ok(inserted), Ok(updated), Ok(())) if !link.is_in_doubt() => {
                    keys(inserted.iter().chain(&updated)).map_err(Broken::Unknown)
                }
                (Ok(_), Ok(_), Ok(())) => Err(Broken::Unknown(Fault::Late("the standby"))),
                // The server itself has refused a statement, so the transaction could only be rolled back.
                (Err(error), _, _) | (Ok(_), Err(error), _) if error.as_db_error().is_some() => {
                    Err(Broken::Nothing(error.into()))
                }
                (Err(error), _, _) | (Ok(_), Err(error), _) | (Ok(_), Ok(_), Err(error)) => {
                    Err(Broken::Unknown(error.into()))
                }
            };
        }
        let (inserted, updated, rest) = futures_util::join!(inserted, updated, rest);
        let inserted = inserted.map_err(|error| Broken::Nothing(error.into()))?;
        let updated = updated.map_err(|error| Broken::Nothing(error.into()))?;
        rest.map_err(Broken::Nothing)?;
        link.is_in_doubt();
        client.batch_execute("COMMIT").await.map_err(|error| Broken::Unknown(error.into()))?;
        if link.is_in_doubt() {
            return Err(Broken::Unknown(Fault::Late("the standby")));
        }
        keys(inserted.iter().chain(&updated)).map_err(Broken::Unknown)
    }

    /// The keys that it writes.
    pub(crate) fn writes(&self) -> HashSet<OperationKey> {
        self.writes.iter().map(|(key, ..)| key.clone()).collect()
    }
}

fn keys<'a>(rows: impl Iterator<Item = &'a tokio_postgres::Row>) -> Result<HashSet<OperationKey>, Fault> {
    rows.map(|row| {
        let tenant: &str = row.try_get(0)?;
        let id: &str = row.try_get(1)?;
        Ok(OperationKey {
            tenant: onceward_ledger::record::name("tenant", onceward_core::key::TenantId::parse(tenant))?,
            id: onceward_ledger::record::name("operation_id", OperationId::parse(id))?,
        })
    })
    .collect()
}

/// The operations of these keys, as they stand.
pub(crate) async fn read(link: &Link, keys: &[OperationKey]) -> Result<HashMap<OperationKey, Operation>, Fault> {
    read_on(&link.client, keys).await
}

/// The same, on any connection.
pub(crate) async fn read_on(client: &Client, keys: &[OperationKey]) -> Result<HashMap<OperationKey, Operation>, Fault> {
    let (tenants, ids) = split(keys.iter());
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&tenants, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
    let mut found = HashMap::new();
    for row in client.query_typed(BY_KEYS, &params).await? {
        let operation = rows::operation(&row)?;
        found.insert(operation.key.clone(), operation);
    }
    Ok(found)
}

/// Which landmarks are in the journal, asked so that a transaction which is still being committed is waited for: rows that were to
/// be made are made once more, which waits for whoever makes them now, and nothing of it stays.
pub(crate) async fn landed(link: &Link, landmarks: &[Landmark]) -> Result<HashSet<OperationKey>, Fault> {
    let client = &link.client;
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '4s'").await?;
    let mut ordered: Vec<&Landmark> = landmarks.iter().collect();
    ordered.sort_by(|one, other| one.key.cmp(&other.key));
    let known: Vec<&OperationKey> = ordered.iter().filter(|one| one.made.is_none()).map(|one| &one.key).collect();
    if !known.is_empty() {
        let (tenants, ids) = split(known.into_iter());
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&tenants, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
        client.query_typed(BY_KEYS_LOCKED, &params).await?;
    }
    let made: Vec<Written<'_>> = ordered
        .iter()
        .filter_map(|one| one.made.as_ref())
        .map(|made| Written { operation: &made.0, entries: &made.1, before: None })
        .collect();
    let mut free = HashSet::new();
    if !made.is_empty() {
        let arrays = rows::insert(&made)?;
        free = keys(client.query_typed(rows::INSERT, &arrays.as_params()).await?.iter())?;
    }
    let mut landed = HashSet::new();
    for landmark in ordered.iter().filter(|one| !free.contains(&one.key)) {
        let seq = i64::from(landmark.head.seq);
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&landmark.key.tenant.as_str(), Type::TEXT), (&landmark.key.id.as_str(), Type::TEXT), (&seq, Type::INT8)];
        let sql = "SELECT hash FROM onceward.journal WHERE tenant = $1 AND operation_id = $2 AND seq = $3";
        for row in client.query_typed(sql, &params).await? {
            let hash: &[u8] = row.try_get(0)?;
            if hash == &landmark.head.hash[..] {
                landed.insert(landmark.key.clone());
            }
        }
    }
    client.batch_execute("ROLLBACK").await?;
    Ok(landed)
}

/// An opening whose key turned out to be taken: what the rules say to it.
pub(crate) fn existing(opening: &Opening, known: Operation, at: Timestamp, salts: &mut Salts) -> Applied {
    let found = Found { operation: Some(known), ..Found::default() };
    transact::open(found, opening.clone(), at, || salts.next()).answer
}
