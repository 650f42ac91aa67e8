//! Approvals: a person allows exactly one stored request, or declines it; and somebody asks that what was done be done once
//! more (R16, R18, R19).

use std::sync::Arc;

use onceward_core::event::{CloseReason, Event};
use onceward_core::key::{OperationId, OperationKey};
use onceward_core::operation::{Dispatcher, Operation};
use onceward_core::state::State;
use onceward_core::suspicion::{self, Manner, Probe};

use crate::authorize::{Approve, Ask, Authorized, Denied, Grant};
use crate::call::{Approval, Call, Identity};
use crate::destination::Destination;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::store::{Applied, Command, Expects, Opening, Priority};

/// What asking for a second one came to. Nothing was sent.
#[derive(Clone, Debug)]
pub enum Proposed {
    /// It waits for its approval.
    New(Operation),
    /// An equal one had been asked for already, and waits for its approval or for its call: there is one at a time.
    Already(Operation),
}

impl Proposed {
    /// The operation, whoever asked first.
    #[must_use]
    pub const fn operation(&self) -> &Operation {
        match self {
            Self::New(operation) | Self::Already(operation) => operation,
        }
    }
}

/// A settled operation of which a second one may be asked for, and whose call it will be.
#[derive(Clone, Debug)]
pub struct Again {
    earlier: Operation,
    allowed: Authorized<Ask>,
    asker: String,
}

impl Again {
    /// The operation that was done.
    #[must_use]
    pub const fn earlier(&self) -> &Operation {
        &self.earlier
    }
}

impl Ledger {
    /// Allows a proposed operation; the next call with its identity is dispatched, or for a host without identity the next
    /// equal one. The approval is for the stored request, the definition, the contract and the account that it was made
    /// with, and is used once.
    ///
    /// # Errors
    /// [`LedgerError::Denied`] for the principal whose call it was; [`LedgerError::Unresolved`] while a call that it may be
    /// repeating may have had its effect; [`LedgerError::Illegal`] where it is not proposed, or not as expected.
    pub async fn approve(&self, grant: &Grant, id: &OperationId, expects: Expects) -> Result<Operation, LedgerError> {
        let (operation, _) = self.find(grant, id).await?;
        let allowed = grant.to_approve(&operation)?;
        if let Some(other) = self.inner.unresolved_beside(&operation).await? {
            return Err(LedgerError::Unresolved { id: other.key.id });
        }
        if let State::Proposed(_) = &operation.state {
            self.inner.may_be_sent_beside(&operation).await?;
        }
        let event = Event::Approve { by: allowed.principal().clone() };
        self.move_if::<Approve>(&allowed, &operation, vec![event], expects).await
    }

    /// Declines a proposed operation.
    ///
    /// # Errors
    /// [`LedgerError::Denied`] for the principal whose call it was; [`LedgerError::Illegal`] where it is not proposed, or not
    /// as expected.
    pub async fn decline(&self, grant: &Grant, id: &OperationId, expects: Expects) -> Result<Operation, LedgerError> {
        let (operation, _) = self.find(grant, id).await?;
        let allowed = grant.to_approve(&operation)?;
        self.move_if::<Approve>(&allowed, &operation, vec![Event::Close(CloseReason::Declined)], expects).await
    }

    /// Finds the operation of which a second one is asked for. Whoever may call its tool asks for a call of its own; whoever
    /// approves asks in the name of whose call it was.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`] also for one that it may not see or ask for; [`LedgerError::Unresolved`] for one that is not
    /// settled: a second one is never released beside it (R19).
    pub async fn again(&self, grant: &Grant, id: &OperationId) -> Result<Again, LedgerError> {
        let key = OperationKey { tenant: grant.tenant().clone(), id: id.clone() };
        let earlier = self.inner.look(&key).await?.ok_or(LedgerError::NotFound)?;
        let allowed = grant.to_ask(&earlier).map_err(|Denied| LedgerError::NotFound)?;
        if !earlier.is_settled() {
            return Err(LedgerError::Unresolved { id: earlier.key.id });
        }
        Ok(Again { earlier, allowed, asker: format!("principal:{}", grant.principal()) })
    }

    /// Proposes a second one with the tool and the arguments of the first. Nothing is sent: a person who is not the caller
    /// approves it, and then the host's next equal call goes on with it.
    ///
    /// # Errors
    /// [`LedgerError::Unresolved`] while anything like it may have had its effect.
    pub async fn propose(
        &self,
        again: &Again,
        call: Call,
        destination: Option<&Arc<dyn Destination>>,
    ) -> Result<Proposed, LedgerError> {
        let call = Call { approval: Approval::Required, ..call };
        let pin = match destination {
            Some(destination) => Some(self.inner.pin(destination, &call.arguments).await?),
            None => None,
        };
        let probe = call.probe(&again.allowed, &self.inner.secret);
        let now = self.inner.clock.now();
        let operation =
            call.operation(&again.allowed, &self.inner.keys, Dispatcher::Caller, probe.as_ref(), pin, now)?;
        let opening = Opening { operation, events: Vec::new(), actor: again.asker.clone(), probe };
        match self.inner.store.submit(Command::Open(Box::new(opening)), Priority::Claim).await? {
            Applied::Opened(operation) => Ok(Proposed::New(operation)),
            Applied::Existing(operation) => Ok(Proposed::Already(operation)),
            Applied::Suspected(other) if other.terms.second_of.is_some() && !may_have_happened(&other) => {
                Ok(Proposed::Already(other))
            }
            Applied::Suspected(other) => Err(LedgerError::Unresolved { id: other.key.id }),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
            Applied::Stepped(_) | Applied::NoSuchOperation | Applied::Done => Err(LedgerError::Contended),
        }
    }

    /// A seal over what is given to a caller and comes back through it: nobody makes one without the ledger's secret, and every
    /// gateway of the ledger can check it. `purpose` keeps seals of different kinds apart.
    #[must_use]
    pub fn seal(&self, purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        self.inner.secret.keyed_hash(&[&b"onceward seal v1\0"[..], purpose].concat(), parts)
    }

    /// The identity of a second one of this operation.
    #[must_use]
    pub fn second(again: &Again, id: OperationId, business_key: Vec<onceward_core::pointer::Pointer>) -> Identity {
        Identity::Second { id, of: again.earlier.key.id.clone(), business_key }
    }
}

fn may_have_happened(operation: &Operation) -> bool {
    operation
        .terms
        .suspicion
        .as_ref()
        .is_some_and(|suspicion| suspicion::unresolved_beside(suspicion, std::slice::from_ref(operation)).is_some())
}

impl Inner {
    /// An operation that may have had its effect and that this one, of a host without identity, may be repeating: while there
    /// is one, no approval releases anything (R19).
    pub(crate) async fn unresolved_beside(&self, operation: &Operation) -> Result<Option<Operation>, LedgerError> {
        let Some(probe) = probe_of(operation) else { return Ok(None) };
        let mut others = self.store.suspects(&operation.key, &probe).await?;
        others.retain(|other| other.key != operation.key);
        Ok(suspicion::unresolved_beside(&probe.suspicion, &others).cloned())
    }
}

fn probe_of(operation: &Operation) -> Option<Probe> {
    let suspicion = operation.terms.suspicion.clone()?;
    Some(Probe { suspicion, other_marks: Vec::new(), manner: Manner::Second })
}

/// What a claim of an operation that nothing has happened of yet must find: the look before it was a moment ago.
pub(crate) fn still_alone(operation: &Operation) -> Expects {
    probe_of(operation).map_or(Expects::Anything, |probe| Expects::Alone(Box::new(probe)))
}
