//! Local effects: what the engine decides before and after a store runs the caller's own rows and the receipt in one
//! transaction (promise 2, R15).

use onceward_core::decide::{Request, decide};
use onceward_core::event::Basis;
use onceward_core::operation::{Dispatcher, Operation};
use onceward_core::outcome::{Envelope, Role, possible_duplicate, report};
use onceward_core::state::State;

use crate::authorize::{Authorized, Execute};
use crate::call::Call;
use crate::claim::SendWindow;
use crate::error::LedgerError;
use crate::execute::visibility;
use crate::ledger::Ledger;
use crate::limits;
use crate::store::Opening;

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

    /// What the caller of a held possible repetition is told.
    #[must_use]
    pub fn suspected(&self, allowed: &Authorized<Execute>, earlier: &Operation) -> Envelope {
        possible_duplicate(earlier, visibility(allowed, earlier))
    }
}
