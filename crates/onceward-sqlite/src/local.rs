//! A local effect: the caller's own rows and the receipt, in one transaction of the writer (R15).
//!
//! The effect runs inside a savepoint. Either the operation, its rows and its receipt are committed together, or none is: a
//! crash at any moment leaves no operation that is half done, and so none that is unknown.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onceward_core::event::Event;
use onceward_core::key::{AttemptNumber, OwnerId, TenantId};
use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::Clock;
use onceward_ledger::local::{LocalOutcome, done};
use onceward_ledger::store::{Applied, Opening, StoreError};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tokio::sync::oneshot;

use crate::apply::{self, Desk, Outcome, Written};
use crate::error::not_written;
use crate::limits;

/// What a local effect may do: everything to the application's own tables, in this transaction.
///
/// `COMMIT`, `ROLLBACK`, `SAVEPOINT`, `ATTACH`, `PRAGMA` and writes to the ledger's tables are refused by SQLite.
#[derive(Debug)]
pub struct LocalTx<'a> {
    connection: &'a Connection,
}

impl Deref for LocalTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// The caller's part of a local effect. It must be fast: every other write waits for it.
pub type Effect = Box<dyn FnOnce(&LocalTx<'_>) -> Result<Receipt, LocalError> + Send>;

/// Why a local effect on SQLite did not happen.
pub type LocalError = onceward_ledger::local::LocalError<rusqlite::Error>;

/// Why a local effect on SQLite has no outcome.
pub type LocalFailure = onceward_ledger::local::LocalFailure<rusqlite::Error>;

/// The result of a local effect, as it is sent back.
pub(crate) type LocalResult = Result<LocalOutcome, LocalFailure>;

/// A local effect that waits for the writer.
pub(crate) struct LocalJob {
    opening: Opening,
    effect: Effect,
    reply: oneshot::Sender<LocalResult>,
}

/// A local effect that ran and waits for the commit.
pub(crate) struct LocalRun {
    pub(crate) result: LocalResult,
    pub(crate) written: Option<Written>,
    pub(crate) reply: oneshot::Sender<LocalResult>,
}

impl LocalJob {
    pub(crate) fn new(opening: Opening, effect: Effect, reply: oneshot::Sender<LocalResult>) -> Self {
        Self { opening, effect, reply }
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.opening.operation.key.tenant
    }

    pub(crate) fn fail(self, error: StoreError) {
        // Nobody waits any more for an answer that is not taken.
        let _ = self.reply.send(Err(error.into()));
    }

    pub(crate) fn into_reply(self) -> oneshot::Sender<LocalResult> {
        self.reply
    }

    /// Runs it inside the savepoint that the writer has opened. The writer rolls back to it unless something was written.
    pub(crate) fn run(self, connection: &mut Connection, guard: &Guard, at: Timestamp, desk: &mut Desk) -> LocalRun {
        let Self { opening, effect, reply } = self;
        let (result, written) = match run(opening, effect, connection, guard, at, desk) {
            Ok((outcome, written)) => (Ok(outcome), written),
            Err(failure) => (Err(failure), None),
        };
        LocalRun { result, written, reply }
    }
}

fn run(
    mut opening: Opening,
    effect: Effect,
    connection: &mut Connection,
    guard: &Guard,
    at: Timestamp,
    desk: &mut Desk,
) -> Result<(LocalOutcome, Option<Written>), LocalFailure> {
    let Some((owner, attempt)) = claimed(&opening) else {
        let outcome = apply::open(connection, &opening, None, at, desk).map_err(StoreError::from)?;
        return told(outcome, LocalOutcome::Opened);
    };
    // What the rules say comes first: only an operation that may run runs.
    let trial = apply::decide_opening(connection, &opening, at, desk).map_err(StoreError::from)?;
    match &trial {
        Applied::Opened(operation) => match &operation.state {
            State::Pending(_) => {}
            // A restore is open, and the effect may have been made before it: it is recorded, and nothing is run.
            State::Proposed(_)
            | State::Approved(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => {
                let outcome = apply::open(connection, &opening, None, at, desk).map_err(StoreError::from)?;
                return told(outcome, LocalOutcome::Opened);
            }
        },
        Applied::Existing(_)
        | Applied::Suspected(_)
        | Applied::Stepped(_)
        | Applied::Refused { .. }
        | Applied::NoSuchOperation
        | Applied::Done => return told(Outcome { answer: trial, written: None }, LocalOutcome::Opened),
    }
    let receipt = perform(effect, connection, guard)?;
    opening.events.push(done(owner, attempt, receipt));
    let outcome = apply::open(connection, &opening, None, at, desk).map_err(StoreError::from)?;
    if let Applied::Existing(_) | Applied::Suspected(_) = outcome.answer {
        // The write lock is held since the trial, so only the effect itself can have changed what is found.
        return Err(StoreError::Corrupt("the effect changed the ledger's own tables".to_owned()).into());
    }
    told(outcome, LocalOutcome::Done)
}

fn told(
    outcome: Outcome,
    opened: impl FnOnce(Operation) -> LocalOutcome,
) -> Result<(LocalOutcome, Option<Written>), LocalFailure> {
    let Outcome { answer, written } = outcome;
    let told = match answer {
        Applied::Opened(operation) => opened(operation),
        Applied::Existing(operation) => LocalOutcome::Existing(operation),
        Applied::Suspected(operation) => LocalOutcome::Suspected(operation),
        Applied::Refused { refusal, operation } => LocalOutcome::Refused { refusal, operation },
        Applied::Stepped(_) | Applied::NoSuchOperation | Applied::Done => {
            return Err(StoreError::Corrupt("an opening was answered as if it were none".to_owned()).into());
        }
    };
    Ok((told, written))
}

fn claimed(opening: &Opening) -> Option<(OwnerId, AttemptNumber)> {
    opening.events.iter().find_map(|event| match event {
        Event::Claim(claim) => Some((claim.owner.clone(), claim.attempt)),
        Event::Approve { .. }
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Observe(_)
        | Event::Close(_)
        | Event::Supersede { .. }
        | Event::Wait { .. }
        | Event::Acknowledge { .. }
        | Event::Purge(_) => None,
    })
}

/// Runs the caller's part: guarded, timed, and with a panic turned into an answer.
fn perform(effect: Effect, connection: &mut Connection, guard: &Guard) -> Result<Receipt, LocalFailure> {
    let sql = |error: rusqlite::Error| LocalFailure::Store(not_written(&error));
    let until = guard.clock.uptime() + limits::LOCAL_EFFECT;
    let clock = Arc::clone(&guard.clock);
    connection.progress_handler(limits::PROGRESS_STEPS, Some(move || clock.uptime() >= until)).map_err(sql)?;
    guard.raised.store(true, Ordering::Relaxed);
    let performed = catch_unwind(AssertUnwindSafe(|| effect(&LocalTx { connection })));
    guard.raised.store(false, Ordering::Relaxed);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(sql)?;
    let late = guard.clock.uptime() >= until;
    match performed {
        Err(panic) => Err(LocalFailure::panicked(panic.as_ref())),
        Ok(_) if late => Err(LocalFailure::TookTooLong(limits::LOCAL_EFFECT)),
        Ok(Err(error)) => Err(LocalFailure::Effect(error)),
        Ok(Ok(receipt)) => Ok(receipt),
    }
}

/// What refuses statements while an effect runs.
///
/// It is installed once and switched: installing it would make SQLite prepare every statement anew.
pub(crate) struct Guard {
    raised: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl Guard {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { raised: Arc::new(AtomicBool::new(false)), clock }
    }

    pub(crate) fn install(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let raised = Arc::clone(&self.raised);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if raised.load(Ordering::Relaxed) && is_denied(&context) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }))
    }
}

fn is_denied(context: &AuthContext<'_>) -> bool {
    let ours = |name: &str| name.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("onceward_"));
    match context.action {
        AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::Unknown { .. } => true,
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::DropTable { table_name }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. } => ours(table_name),
        _ => false,
    }
}
