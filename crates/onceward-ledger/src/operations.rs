//! What people and callers ask of operations: status, journal, withdrawal, approval, decisions, erasure. Every one names
//! the permission it needs.

use onceward_core::decide::standing;
use onceward_core::event::{About, CloseReason, Event, NoEffect, Observation, PurgeScope, Source, Verdict};
use onceward_core::journal::Entry;
use onceward_core::key::{EffectId, OperationId, OperationKey};
use onceward_core::limits::EVIDENCE_BYTES_MAX;
use onceward_core::operation::Operation;
use onceward_core::outcome::{Envelope, Role, report};
use onceward_core::receipt::{Answer, Receipt};
use onceward_core::step::Refusal;

use crate::authorize::{Authorized, Decide, Execute, Grant, Purge, Read};
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::store::{Applied, Command, Expects, Filter, Page, Priority, Step};

/// What a person decides about an unknown operation.
#[derive(Clone, Debug)]
pub enum Choice {
    /// It was done: repetitions get this receipt.
    ConfirmedDone {
        /// The destination's name of the effect.
        effect_id: Option<EffectId>,
        /// What to give to whoever repeats the call.
        answer: Answer,
    },
    /// It was not done, and stays so.
    ConfirmedNotDone,
    /// It was not done, and may be dispatched again.
    DispatchAgain,
    /// Another operation replaces it; whether it was done is not established.
    SupersededBy(OperationId),
}

impl Choice {
    /// The word for it on the command line and in the API.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ConfirmedDone { .. } => "confirmed_done",
            Self::ConfirmedNotDone => "confirmed_not_done",
            Self::DispatchAgain => "dispatch_again",
            Self::SupersededBy(_) => "superseded_by",
        }
    }

    /// What follows from it, in one sentence.
    #[must_use]
    pub const fn consequence(&self) -> &'static str {
        match self {
            Self::ConfirmedDone { .. } => {
                "The operation succeeds; every repetition gets the receipt given here, and nothing is sent again."
            }
            Self::ConfirmedNotDone => {
                "The operation is closed; every repetition is told so, and nothing is sent again."
            }
            Self::DispatchAgain => {
                "The next call with this operation id is sent to the destination, under the same outbound key. If the earlier \
                 attempt had its effect after all, this may make a second one; if the destination stored an error under the key, \
                 it answers the same error, and a new operation is the way."
            }
            Self::SupersededBy(_) => {
                "The operation is closed and names its replacement; whether it was done is not established, and nothing is sent \
                 again under its id."
            }
        }
    }
}

/// Words that a decision rests on.
#[derive(Clone, Debug)]
pub struct Evidence(String);

impl Evidence {
    /// Takes the text; not empty, and within [`EVIDENCE_BYTES_MAX`].
    ///
    /// # Errors
    /// [`InvalidEvidence`]; nothing was decided.
    pub fn new(text: &str) -> Result<Self, InvalidEvidence> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidEvidence::Empty);
        }
        if text.len() > EVIDENCE_BYTES_MAX {
            return Err(InvalidEvidence::TooLong { length: text.len() });
        }
        Ok(Self(text.to_owned()))
    }
}

/// Why a text is no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEvidence {
    /// It says nothing.
    #[error("a decision needs evidence: say what was looked at, where, and what was found")]
    Empty,
    /// It is too long.
    #[error("the evidence has {length} bytes; the most is {EVIDENCE_BYTES_MAX}: name a file by its hash instead")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

impl Ledger {
    /// Finds an operation that the caller may see. Never writes.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`] also for one that it may not see.
    pub async fn find(&self, grant: &Grant, id: &OperationId) -> Result<(Operation, Authorized<Read>), LedgerError> {
        let operation = self.get(grant, id).await?;
        let allowed = grant.to_read(&operation).map_err(|_| LedgerError::NotFound)?;
        Ok((operation, allowed))
    }

    /// An operation of the caller's tenant, for a check of what the caller may do with it. Shows nothing by itself.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`].
    async fn get(&self, grant: &Grant, id: &OperationId) -> Result<Operation, LedgerError> {
        let key = OperationKey { tenant: grant.tenant().clone(), id: id.clone() };
        self.inner.look(&key).await?.ok_or(LedgerError::NotFound)
    }

    /// The status of an operation, as a repetition of its call would be told it. Never writes.
    #[must_use]
    pub fn status(&self, _allowed: &Authorized<Read>, operation: &Operation) -> Envelope {
        report(operation, &standing(operation), Role::Repeater)
    }

    /// Waits at most `wait` for a pending operation to be settled, then gives its status. Never writes.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub async fn wait_for(
        &self,
        _allowed: &Authorized<Read>,
        operation: Operation,
        wait: std::time::Duration,
    ) -> Result<Envelope, LedgerError> {
        let until = self.inner.clock.uptime() + wait;
        self.inner.join(operation, until).await
    }

    /// A page of operations; those of tools that the caller may not see are left out.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub async fn list(&self, grant: &Grant, filter: Filter) -> Result<Page, LedgerError> {
        let filter = Filter { tenant: grant.tenant().clone(), ..filter };
        let mut page = self.inner.store.list(filter).await?;
        page.operations.retain(|operation| grant.to_read(operation).is_ok());
        Ok(page)
    }

    /// The journal of an operation, from after `after`, oldest first.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub async fn journal(
        &self,
        _allowed: &Authorized<Read>,
        operation: &Operation,
        after: u32,
        limit: u32,
    ) -> Result<Vec<Entry>, LedgerError> {
        Ok(self.inner.store.journal(&operation.key, after, limit).await?)
    }

    /// Takes back an operation of which nothing was sent.
    ///
    /// # Errors
    /// [`LedgerError::Illegal`] when something may have been sent.
    pub async fn withdraw(&self, grant: &Grant, id: &OperationId) -> Result<Operation, LedgerError> {
        let operation = self.get(grant, id).await?;
        let allowed = grant.to_withdraw(&operation).map_err(|_| LedgerError::NotFound)?;
        self.move_by::<Execute>(&allowed, &operation, vec![Event::Close(CloseReason::Withdrawn)]).await
    }

    /// Records a person's decision on an unknown operation, with what it rests on.
    ///
    /// # Errors
    /// [`LedgerError::Denied`] for the principal whose call it was; [`LedgerError::Illegal`] where the operation is not
    /// unknown: a running attempt must end first, and a settled operation is only contradicted, never moved.
    pub async fn decide(
        &self,
        grant: &Grant,
        id: &OperationId,
        choice: Choice,
        evidence: Evidence,
    ) -> Result<Operation, LedgerError> {
        let (operation, _) = self.find(grant, id).await?;
        let allowed = grant.to_decide(&operation)?;
        let source = Source::Operator { by: allowed.principal().clone() };
        let note = Some(evidence.0);
        let observed = |verdict| {
            Event::Observe(Observation {
                about: About::EveryUncertain,
                verdict,
                source: source.clone(),
                next_check: None,
                note: note.clone(),
            })
        };
        let events = match choice {
            Choice::ConfirmedDone { effect_id, answer } => {
                vec![observed(Verdict::Effect(Receipt { effect_id, answer, received_at: self.inner.clock.now() }))]
            }
            Choice::DispatchAgain => vec![observed(Verdict::NoEffect(NoEffect::Decided))],
            Choice::ConfirmedNotDone => {
                vec![observed(Verdict::NoEffect(NoEffect::Decided)), Event::Close(CloseReason::ConfirmedNotDone)]
            }
            Choice::SupersededBy(by) if by == *id => return Err(LedgerError::Illegal(Refusal::CannotClose)),
            Choice::SupersededBy(by) => vec![Event::Supersede { by, note: note.clone() }],
        };
        self.move_by::<Decide>(&allowed, &operation, events).await
    }

    /// Erases payloads of an operation, now if it is settled, else as soon as it is. Its identity stays taken.
    ///
    /// # Errors
    /// [`LedgerError::Denied`].
    pub async fn purge(&self, grant: &Grant, id: &OperationId, scope: PurgeScope) -> Result<Operation, LedgerError> {
        let (operation, _) = self.find(grant, id).await?;
        let allowed = grant.to_purge(&operation)?;
        self.move_by::<Purge>(&allowed, &operation, vec![Event::Purge(scope)]).await
    }

    async fn move_by<A>(
        &self,
        allowed: &Authorized<A>,
        operation: &Operation,
        events: Vec<Event>,
    ) -> Result<Operation, LedgerError> {
        self.move_if(allowed, operation, events, Expects::Anything).await
    }

    /// Moves an operation if it still is what whoever decided looked at.
    pub(crate) async fn move_if<A>(
        &self,
        allowed: &Authorized<A>,
        operation: &Operation,
        events: Vec<Event>,
        expects: Expects,
    ) -> Result<Operation, LedgerError> {
        let actor = format!("principal:{}", allowed.principal());
        let step = Step { key: operation.key.clone(), events, actor, expects };
        match self.inner.store.submit(Command::Step(Box::new(step)), Priority::Settle).await? {
            Applied::Stepped(operation) => Ok(operation),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
            Applied::NoSuchOperation => Err(LedgerError::NotFound),
            Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_) | Applied::Done => {
                Err(LedgerError::Contended)
            }
        }
    }
}
