//! The one thread that writes.
//!
//! It takes whatever waits, writes it in one transaction, commits, and only then answers (R14). What is already known to have
//! happened is tried again until it is written; new work fails in time, with nothing written.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onceward_ledger::clock::Clock;
use onceward_ledger::store::{Applied, LedgerId, Priority, ReplySender, StoreError};
use rusqlite::Connection;

use crate::apply::{self, Desk, Landmark, Order, Outcome, Recent, Written};
use crate::chance::Salts;
use crate::checkpoint::Log;
use crate::connect::{self, patiently};
use crate::error::{Fault, Trouble, not_written, trouble};
use crate::find;
use crate::health::{Gauges, Health};
use crate::job::{Job, Work};
use crate::limits;
use crate::local::{Guard, LocalRun};
use crate::queue::Queue;
use crate::space::Space;

/// What the writer works with.
pub(crate) struct Writer {
    path: PathBuf,
    id: LedgerId,
    clock: Arc<dyn Clock>,
    wait: Duration,
    bytes_max: Option<u64>,
    reserve_bytes: u64,
    queue: Arc<Queue<Job>>,
    health: Arc<Health>,
    gauges: Arc<Gauges>,
    log: Arc<Log>,
    guard: Guard,
    desk: Desk,
    /// Nothing only while a failed connection is being replaced.
    line: Option<Line>,
}

/// A connection that writes, and what is watched over it.
pub(crate) struct Line {
    connection: Connection,
    space: Space,
}

/// What the writer is started with.
pub(crate) struct Setting {
    pub(crate) path: PathBuf,
    pub(crate) id: LedgerId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wait: Duration,
    pub(crate) bytes_max: Option<u64>,
    pub(crate) reserve_bytes: u64,
    pub(crate) queue: Arc<Queue<Job>>,
    pub(crate) health: Arc<Health>,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) log: Arc<Log>,
}

/// One member of a group that was applied and waits for the commit.
enum Member {
    Command { reply: ReplySender, result: Result<Outcome, StoreError>, again: Again },
    Local(LocalRun),
}

/// A command as it came, should its transaction be undone.
struct Again {
    order: Order,
    since: Duration,
    priority: Priority,
    uncertain: Option<Box<(Landmark, Applied)>>,
}

impl Again {
    fn into_job(self, reply: ReplySender) -> Job {
        let Self { order, since, priority, uncertain } = self;
        Job { work: Work::Command { order, reply, uncertain }, priority, since }
    }

    fn is_kept(&self) -> bool {
        self.priority == Priority::Settle
    }
}

/// How members of a group are kept apart. A savepoint for each costs a fifth of the writer's time, and hardly ever does a
/// member fail by itself; so a group is first written without, and once more with them when one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    Together,
    Each,
}

/// Why a group ended before its commit: everything in it is to be undone.
enum Undo {
    /// SQLite failed; no member is to blame.
    Broken(rusqlite::Error),
    /// A member failed by itself.
    OneFailed,
}

/// A group that ended before its commit.
struct Undone {
    members: Vec<Member>,
    rest: Vec<Job>,
    why: Undo,
}

impl Member {
    /// What is to be written again. Effects are kept apart from the first, so none is in a group that is written twice.
    fn into_job(self) -> Option<Job> {
        match self {
            Self::Command { reply, again, .. } => Some(again.into_job(reply)),
            Self::Local(LocalRun { reply, .. }) => {
                let undone = StoreError::Unavailable("its group was undone".to_owned());
                let _ = reply.send(Err(undone.into()));
                None
            }
        }
    }
}

impl Writer {
    /// Sets the connection up.
    pub(crate) fn new(setting: Setting, connection: Connection) -> rusqlite::Result<Self> {
        let Setting { path, id, clock, wait, bytes_max, reserve_bytes, queue, health, gauges, log } = setting;
        let mut writer = Self {
            guard: Guard::new(Arc::clone(&clock)),
            desk: Desk { salts: Salts::new(), recent: Recent::default() },
            path,
            id,
            clock,
            wait,
            bytes_max,
            reserve_bytes,
            queue,
            health,
            gauges,
            log,
            line: None,
        };
        writer.line = Some(writer.line(connection)?);
        Ok(writer)
    }

    fn line(&self, mut connection: Connection) -> rusqlite::Result<Line> {
        let space = Space::new(&connection, &self.path, self.bytes_max, self.reserve_bytes)?;
        self.log.watch(&mut connection)?;
        self.guard.install(&mut connection)?;
        Ok(Line { connection, space })
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let mut batch = Vec::with_capacity(limits::GROUP_MAX);
        while self.queue.take(limits::GROUP_MAX, &mut batch) {
            self.write(&mut batch);
            if !self.health.is_well() {
                self.mend();
            }
        }
    }

    fn write(&mut self, batch: &mut Vec<Job>) {
        let Some(mut line) = self.line.take() else {
            return self.undo(Vec::new(), std::mem::take(batch), &rusqlite::Error::InvalidQuery);
        };
        fail::fail_point!("sqlite::before_begin");
        let has_local = batch.iter().any(|job| matches!(job.work, Work::Local(_)));
        let mut apart = if has_local { Apart::Each } else { Apart::Together };
        loop {
            if let Err(error) = self.begin(&line.connection, batch) {
                self.line = Some(line);
                return self.undo(Vec::new(), std::mem::take(batch), &error);
            }
            if batch.is_empty() {
                self.line = Some(line);
                return;
            }
            let Undone { members, rest, why } = match self.group(&mut line, batch, apart) {
                Ok(group) => return self.commit(line, group),
                Err(undone) => undone,
            };
            // SQLite may have undone it already.
            if !line.connection.is_autocommit()
                && let Err(error) = line.connection.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "a group could not be undone; its connection is closed");
                self.line = Some(line);
                return self.undo(members, rest, &error);
            }
            match why {
                Undo::Broken(error) => {
                    self.line = Some(line);
                    return self.undo(members, rest, &error);
                }
                Undo::OneFailed => {
                    apart = Apart::Each;
                    batch.extend(members.into_iter().filter_map(Member::into_job));
                    batch.extend(rest);
                }
            }
        }
    }

    /// Takes the write lock. Claims whose wait is over meanwhile are told so and leave the batch; settles stay.
    fn begin(&self, connection: &Connection, batch: &mut Vec<Job>) -> rusqlite::Result<()> {
        let (mut pause, longest) = limits::LOCK_PAUSE;
        let mut closed_at = None;
        loop {
            match connection.execute_batch("BEGIN IMMEDIATE") {
                Ok(()) => return Ok(()),
                Err(error) if trouble(&error) == Trouble::Busy => {}
                Err(error) => return Err(error),
            }
            let now = self.clock.uptime();
            let mut expired: Vec<Job> =
                batch.extract_if(.., |job| !job.is_kept() && now.saturating_sub(job.since) >= self.wait).collect();
            self.queue.expire(now.saturating_sub(self.wait), &mut expired);
            for job in expired {
                job.fail(StoreError::Busy);
            }
            if self.queue.is_closed() {
                let since = *closed_at.get_or_insert(now);
                if now.saturating_sub(since) >= limits::CLOSE_WAIT {
                    for job in batch.drain(..) {
                        job.fail(StoreError::Busy);
                    }
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// Applies each member of the batch in the open transaction.
    fn group(&mut self, line: &mut Line, batch: &mut Vec<Job>, apart: Apart) -> Result<Vec<Member>, Undone> {
        let mut members = Vec::with_capacity(batch.len());
        let room = match line.space.has_room_for_claims(&line.connection, self.clock.uptime()) {
            Ok(room) => room,
            Err(error) => return Err(Undone { members, rest: std::mem::take(batch), why: Undo::Broken(error) }),
        };
        let mut jobs = batch.drain(..);
        while let Some(job) = jobs.next() {
            if !room && job.priority == Priority::Claim {
                job.fail(StoreError::Unavailable(
                    "the space that is left is kept for operations under way; claims are not taken".to_owned(),
                ));
                continue;
            }
            let (member, why) = self.member(&mut line.connection, job, apart);
            members.push(member);
            if let Some(why) = why {
                return Err(Undone { members, rest: jobs.collect(), why });
            }
        }
        fail::fail_point!("sqlite::after_write_before_commit");
        Ok(members)
    }

    /// Applies one; says so when the group must be undone.
    fn member(&mut self, connection: &mut Connection, job: Job, apart: Apart) -> (Member, Option<Undo>) {
        let at = self.clock.now();
        let Job { work, priority, since } = job;
        match work {
            Work::Command { order, reply, uncertain } => {
                let again = Again { order, since, priority, uncertain };
                let write = |connection: &Connection, desk: &mut Desk| {
                    if let Some(known) = &again.uncertain
                        && find::has_landed(connection, &known.0.key, known.0.head)?
                    {
                        return Ok(Outcome { answer: known.1.clone(), written: None });
                    }
                    let Order { command, body } = &again.order;
                    apply::apply(connection, command, body.as_deref(), at, desk)
                };
                let applied = match apart {
                    Apart::Together => write(connection, &mut self.desk),
                    Apart::Each => savepoint(connection, &mut self.desk, write),
                };
                let (result, why) = match (applied, apart) {
                    (Ok(outcome), _) => (Ok(outcome), None),
                    (Err(Fault::Sql(error)), _) if trouble(&error) != Trouble::Constraint => {
                        (Err(not_written(&error)), Some(Undo::Broken(error)))
                    }
                    (Err(fault), Apart::Together) => (Err(fault.into()), Some(Undo::OneFailed)),
                    (Err(fault), Apart::Each) => (Err(fault.into()), None),
                };
                (Member::Command { reply, result, again }, why)
            }
            Work::Local(job) => {
                if let Err(error) = connection.execute_batch("SAVEPOINT onceward_effect") {
                    let result = Err(not_written(&error).into());
                    let (reply, written) = (job.into_reply(), None);
                    return (Member::Local(LocalRun { result, written, reply }), Some(Undo::Broken(error)));
                }
                let run = job.run(connection, &self.guard, at, &mut self.desk);
                let end = match &run.written {
                    Some(_) => "RELEASE onceward_effect",
                    None => "ROLLBACK TO onceward_effect; RELEASE onceward_effect",
                };
                let why = connection.execute_batch(end).err().map(Undo::Broken);
                (Member::Local(run), why)
            }
        }
    }

    /// Commits, and answers everyone by what is durable.
    fn commit(&mut self, line: Line, group: Vec<Member>) {
        let began = self.clock.uptime();
        match commit(&line.connection, self.clock.as_ref(), self.wait) {
            Ok(()) => {
                self.gauges.commits.count_time(self.clock.uptime().saturating_sub(began));
                self.gauges.groups.count(u64::try_from(group.len()).unwrap_or(u64::MAX));
                fail::fail_point!("sqlite::after_commit_before_reply");
                for member in group {
                    self.answer(member);
                }
                self.log.committed(&line.connection);
                self.line = Some(line);
            }
            Err(error) => {
                tracing::error!(%error, "a commit failed; nothing is let in until a probe is written");
                self.health.fell_ill(format!("a commit failed: {error}"));
                self.desk.recent.clear();
                // What this connection believes to have written must not be what is read back.
                drop(line);
                self.resolve(group, &error);
            }
        }
    }

    fn answer(&mut self, member: Member) {
        match member {
            Member::Command { reply, result, .. } => {
                let result = result.map(|Outcome { answer, written }| {
                    if let Some(written) = written {
                        self.desk.recent.remember(written);
                    }
                    answer
                });
                // Nobody waits any more for an answer that is not taken.
                let _ = reply.send(result);
            }
            Member::Local(LocalRun { result, reply, .. }) => {
                let _ = reply.send(result);
            }
        }
    }

    /// After a failed commit: reads what is really there, and answers by it.
    fn resolve(&mut self, group: Vec<Member>, error: &rusqlite::Error) {
        let eyes = connect::reader(&self.path);
        let has_landed = |landmark: &Landmark| match &eyes {
            Ok(connection) => find::has_landed(connection, &landmark.key, landmark.head).ok(),
            Err(_) => None,
        };
        let nothing = || StoreError::Unavailable(format!("the commit failed and nothing was written: {error}"));
        let unclear = || StoreError::CommitUnknown(error.to_string());
        let mut repeated = Vec::new();
        for member in group {
            match member {
                Member::Command { reply, result, again } => {
                    let about_row =
                        result.as_ref().ok().and_then(|outcome| outcome.written.as_ref()).map(Written::landmark);
                    let landed = match (&about_row, &result) {
                        (Some(landmark), _) => has_landed(landmark),
                        // It wrote no row of an operation: its answer speaks of a state that may not have come to be.
                        (None, Ok(Outcome { answer: Applied::Done, .. })) => None,
                        (None, Ok(_) | Err(_)) => Some(false),
                    };
                    match (landed, again.is_kept()) {
                        (Some(true), _) => drop(reply.send(result.map(|outcome| outcome.answer))),
                        (Some(false), true) => repeated.push(again.into_job(reply)),
                        (None, true) => {
                            let uncertain = about_row
                                .zip(result.ok())
                                .map(|(landmark, outcome)| Box::new((landmark, outcome.answer)));
                            repeated.push(Again { uncertain, ..again }.into_job(reply));
                        }
                        (Some(false), false) => drop(reply.send(Err(nothing()))),
                        (None, false) => drop(reply.send(Err(unclear()))),
                    }
                }
                Member::Local(LocalRun { result, written, reply }) => {
                    let answer = match written.as_ref().map(|written| has_landed(&written.landmark())) {
                        Some(Some(true)) => result,
                        Some(Some(false)) | None => Err(nothing().into()),
                        Some(None) => Err(unclear().into()),
                    };
                    drop(reply.send(answer));
                }
            }
        }
        self.queue.put_back(repeated.into_iter());
    }

    /// After a transaction was undone: certainly nothing was written. New work is told so, what is known is tried again.
    fn undo(&mut self, members: Vec<Member>, rest: Vec<Job>, error: &rusqlite::Error) {
        let refusal = not_written(error);
        let mut again = Vec::new();
        let mut refused = 0_usize;
        for member in members {
            match member {
                Member::Command { reply, again: known, .. } if known.is_kept() => again.push(known.into_job(reply)),
                Member::Command { reply, .. } => {
                    refused += 1;
                    drop(reply.send(Err(refusal.clone())));
                }
                Member::Local(LocalRun { reply, .. }) => {
                    refused += 1;
                    drop(reply.send(Err(refusal.clone().into())));
                }
            }
        }
        for job in rest {
            if job.is_kept() {
                again.push(job);
            } else {
                refused += 1;
                job.fail(refusal.clone());
            }
        }
        self.desk.recent.clear();
        // A file that is full for claims may still have room for settles alone; everything else is an illness.
        if trouble(error) != Trouble::Full || refused == 0 {
            tracing::error!(%error, "a group could not be written; nothing is let in until a probe is written");
            self.health.fell_ill(error.to_string());
        }
        self.queue.put_back(again.into_iter());
    }

    /// Tries until a probe is written, or the store is closed and has waited long enough. New work fails meanwhile.
    fn mend(&mut self) {
        self.line = None;
        let (mut pause, longest) = limits::MEND_PAUSE;
        let mut closed_at = None;
        loop {
            let mut refused = Vec::new();
            self.queue.expire(Duration::MAX, &mut refused);
            for job in refused {
                job.fail(StoreError::Unavailable(self.health.trouble()));
            }
            match self.probe() {
                Ok(line) => {
                    self.line = Some(line);
                    self.health.recovered();
                    tracing::warn!("the ledger takes writes again");
                    return;
                }
                Err(trouble) => self.health.fell_ill(trouble),
            }
            if self.queue.is_closed() {
                let now = self.clock.uptime();
                let since = *closed_at.get_or_insert(now);
                if now.saturating_sub(since) >= limits::CLOSE_WAIT {
                    return self.give_up();
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// A new connection that has shown that it can commit.
    fn probe(&self) -> Result<Line, String> {
        let until = self.clock.uptime() + self.wait;
        let connection =
            connect::open_known(&self.path, self.clock.as_ref(), until).map_err(|error| error.to_string())?;
        let clock = self.clock.as_ref();
        let probe = || {
            patiently(clock, until, || connection.execute_batch("BEGIN IMMEDIATE"))?;
            connection.execute("UPDATE onceward_ledger SET probes = probes + 1 WHERE ledger_id = ?1", [&self.id.0])
        };
        let changed = probe().map_err(|error| error.to_string())?;
        if changed != 1 {
            return Err("another ledger has taken this one's place".to_owned());
        }
        commit(&connection, clock, self.wait).map_err(|error| error.to_string())?;
        self.line(connection).map_err(|error| error.to_string())
    }

    /// The store is closed and the file takes no writes: what is left is answered, and its callers hold the only record.
    fn give_up(&mut self) {
        let mut left = Vec::new();
        while self.queue.take(usize::MAX, &mut left) {
            for job in left.drain(..) {
                job.fail(StoreError::Unavailable(self.health.trouble()));
            }
        }
        self.health.recovered();
    }
}

/// Keeps the writes of one member apart from the others': its failure undoes them alone.
fn savepoint(
    connection: &Connection,
    desk: &mut Desk,
    write: impl FnOnce(&Connection, &mut Desk) -> Result<Outcome, Fault>,
) -> Result<Outcome, Fault> {
    connection.execute_batch("SAVEPOINT onceward_member")?;
    let outcome = write(connection, desk);
    // An error may have ended the whole transaction, and its savepoints with it.
    if !connection.is_autocommit() {
        connection.execute_batch(match &outcome {
            Ok(_) => "RELEASE onceward_member",
            Err(_) => "ROLLBACK TO onceward_member; RELEASE onceward_member",
        })?;
    }
    outcome
}

fn commit(connection: &Connection, clock: &dyn Clock, wait: Duration) -> rusqlite::Result<()> {
    fail::fail_point!("sqlite::commit_fails", |_| Err(rusqlite::Error::InvalidQuery));
    let committed = patiently(clock, clock.uptime() + wait, || connection.execute_batch("COMMIT"));
    fail::fail_point!("sqlite::commit_seems_to_fail", |_| Err(rusqlite::Error::InvalidQuery));
    committed
}
