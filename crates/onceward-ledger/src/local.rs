//! Local effects: what the engine decides before and after a store runs the caller's own rows and the receipt in one
//! transaction (promise 2, R15).

use std::any::Any;
use std::time::Duration;

use onceward_core::decide::{Request, decide};
use onceward_core::event::{About, Basis, Event, Observation, Source, Verdict};
use onceward_core::key::{AttemptNumber, OwnerId};
use onceward_core::operation::{Dispatcher, Operation};
use onceward_core::outcome::{Envelope, Role, possible_duplicate, report};
use onceward_core::receipt::Receipt;
use onceward_core::state::State;
use onceward_core::step::Refusal;

use crate::authorize::{Authorized, Execute};
use crate::call::Call;
use crate::claim::SendWindow;
use crate::error::LedgerError;
use crate::execute::visibility;
use crate::ledger::Ledger;
use crate::limits;
use crate::store::{Expects, Opening, Step, StoreError};

/// Why a local effect did not happen, in the words of who runs it. `E` is the error of the store's driver.
#[derive(Debug, thiserror::Error)]
pub enum LocalError<E> {
    /// The database refused a statement, or it took too long.
    #[error("{0}")]
    Sql(#[from] E),
    /// The application's own reason.
    #[error("{0}")]
    Application(Box<dyn std::error::Error + Send + Sync>),
}

impl<E> LocalError<E> {
    /// The application's own reason.
    pub fn because(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Application(reason.into())
    }
}

/// What became of a local effect.
#[derive(Debug)]
pub enum LocalOutcome {
    /// It was done: rows and receipt are durable.
    Done(Operation),
    /// It was recorded without a claim, since it waits for approval or for the end of a restore; nothing ran.
    Opened(Operation),
    /// The key existed; nothing ran. Here it is, to be decided on.
    Existing(Operation),
    /// It may repeat this earlier operation; nothing ran.
    Suspected(Operation),
    /// A rule refused it; nothing ran.
    Refused {
        /// Which rule.
        refusal: Refusal,
        /// The operation as it would have stood.
        operation: Operation,
    },
}

/// Why a local effect has no outcome. In every case but [`Store`](Self::Store) with `CommitUnknown` nothing of it is left: no
/// row, no receipt, no operation; the same call may be made again. After `CommitUnknown` the same call finds out.
#[derive(Debug, thiserror::Error)]
pub enum LocalFailure<E> {
    /// The effect said no, and was rolled back.
    #[error("the effect failed and was rolled back: {0}")]
    Effect(LocalError<E>),
    /// The effect panicked, and was rolled back.
    #[error("the effect panicked and was rolled back: {0}")]
    Panicked(String),
    /// The effect took longer than it may, and was rolled back.
    #[error("the effect took longer than {} ms and was rolled back", .0.as_millis())]
    TookTooLong(Duration),
    /// The ledger could not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<E> LocalFailure<E> {
    /// The effect panicked with this.
    #[must_use]
    pub fn panicked(panic: &(dyn Any + Send)) -> Self {
        Self::Panicked(match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "without words".to_owned(),
        })
    }
}

/// Why a call with a local effect has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteLocalError<E> {
    /// The ledger could not; nothing was run.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The effect was not done; of it nothing is left, unless the failure says that the commit is unknown.
    #[error(transparent)]
    Effect(#[from] LocalFailure<E>),
}

/// What an operation in the caller's transaction came to. `B` is the store's begun operation.
#[derive(Debug)]
#[must_use = "a begun operation that is not finished makes the commit fail"]
pub enum Begin<B> {
    /// It is this transaction's: write, then finish it.
    Begun(B),
    /// It was recorded without a claim, since it waits for approval or for the end of a restore. Nothing may be written for it; the
    /// transaction may commit.
    Opened(Operation),
    /// The key existed; nothing may be written for it. Here it is, to be decided on.
    Existing(Operation),
    /// It may repeat this earlier operation; nothing may be written for it.
    Suspected(Operation),
    /// A rule refused it; nothing may be written for it.
    Refused {
        /// Which rule.
        refusal: Refusal,
        /// The operation as it would have stood.
        operation: Operation,
    },
}

/// Why something uncommitted is not true.
#[derive(Debug, thiserror::Error)]
pub enum NotCommitted {
    /// The ledger has no trace of it: the transaction was rolled back, or, on SQLite, is still open.
    #[error("the transaction is not committed")]
    NotThere,
    /// The ledger cannot be read, or is busy because the transaction is still open.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The effect that a claimed attempt has had in the transaction that carries its receipt.
#[must_use]
pub fn done(owner: OwnerId, attempt: AttemptNumber, receipt: Receipt) -> Event {
    Event::Observe(Observation {
        about: About::Attempt(attempt),
        verdict: Verdict::Effect(receipt),
        source: Source::Owner(owner),
        next_check: None,
        note: None,
    })
}

/// The step that finishes a begun operation; `None` where no attempt of it is claimed.
#[must_use]
pub fn finishing(operation: &Operation, receipt: Receipt) -> Option<Step> {
    let State::Pending(pending) = &operation.state else { return None };
    let owner = &pending.attempt.owner;
    Some(Step {
        key: operation.key.clone(),
        events: vec![done(owner.clone(), pending.attempt.number, receipt)],
        actor: format!("owner:{owner}"),
        expects: Expects::Anything,
    })
}

/// What a call with a local effect comes to before anything is written.
#[derive(Debug)]
pub enum LocalCall {
    /// The operation exists: here is what its caller is told. Nothing is run.
    Answered(Box<Envelope>),
    /// It does not: a store may open it, run the effect and store the receipt, in one transaction.
    Open(Box<Opening>),
}

impl Ledger {
    /// Looks a call up, and prepares its opening with the claim of its first attempt. Writes nothing.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was written and nothing may be run.
    pub async fn prepare_local(&self, allowed: &Authorized<Execute>, call: &Call) -> Result<LocalCall, LedgerError> {
        if let Some(operation) = self.inner.look(&call.key(allowed)).await? {
            return Ok(LocalCall::Answered(Box::new(self.decided(allowed, call, &operation)?)));
        }
        self.local_opening(allowed, call).map(|opening| LocalCall::Open(Box::new(opening)))
    }

    /// The opening of a call with a local effect, without a look first: for a transaction that the caller already has open,
    /// in which the store looks itself.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was written.
    pub fn local_opening(&self, allowed: &Authorized<Execute>, call: &Call) -> Result<Opening, LedgerError> {
        if self.inner.is_stopping() {
            return Err(LedgerError::ShuttingDown);
        }
        let probe = call.probe(allowed, &self.inner.secret);
        let now = self.inner.clock.now();
        let operation = call.operation(allowed, &self.inner.keys, Dispatcher::Caller, probe.as_ref(), None, now)?;
        let window = SendWindow::open(&*self.inner.clock, limits::SEND_WITHIN);
        let events = match operation.state {
            State::Approved(_) => vec![self.inner.next_claim(&operation, Basis::NoEffectSoFar, window)],
            State::Proposed(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Vec::new(),
        };
        Ok(Opening { operation, events, actor: format!("principal:{}", allowed.principal()), probe })
    }

    /// What a repetition is told of an operation that exists.
    ///
    /// # Errors
    /// [`LedgerError::FingerprintKey`] when it cannot be compared.
    pub fn decided(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        operation: &Operation,
    ) -> Result<Envelope, LedgerError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        let decision = decide(operation, request, &self.inner.keys)?;
        Ok(report(operation, &decision, Role::Repeater))
    }

    /// What the caller of an effect that was done by this call is told.
    #[must_use]
    pub fn executed(&self, _allowed: &Authorized<Execute>, operation: &Operation) -> Envelope {
        crate::execute::told(operation, Role::Executor)
    }

    /// What a caller is told of what became of its local effect.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing ran, or what exists cannot be compared.
    pub fn told_of(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        outcome: LocalOutcome,
    ) -> Result<Envelope, LedgerError> {
        match outcome {
            LocalOutcome::Done(operation) => Ok(self.executed(allowed, &operation)),
            LocalOutcome::Existing(operation) | LocalOutcome::Opened(operation) => {
                self.decided(allowed, call, &operation)
            }
            LocalOutcome::Suspected(earlier) => Ok(self.suspected(allowed, &earlier)),
            LocalOutcome::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
        }
    }

    /// What the caller of a held possible repetition is told.
    #[must_use]
    pub fn suspected(&self, allowed: &Authorized<Execute>, earlier: &Operation) -> Envelope {
        possible_duplicate(earlier, visibility(allowed, earlier))
    }
}
