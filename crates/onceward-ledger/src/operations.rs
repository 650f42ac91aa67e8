//! What people and callers ask of operations: status, lists, journal, withdrawal, erasure. Every one names the permission it
//! needs. Approvals and decisions have files of their own.

use onceward_core::decide::standing;
use onceward_core::event::{CloseReason, Event, PurgeScope};
use onceward_core::journal::Entry;
use onceward_core::key::{OperationId, OperationKey};
use onceward_core::operation::Operation;
use onceward_core::outcome::{Envelope, Role, report};
use onceward_core::step::Refusal;

use crate::authorize::{Authorized, Execute, Grant, Purge, Read};
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::store::{Applied, Expects, Filter, Page, Step};

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

    /// The status of an operation, as a repetition of its call would be told it; but for what was sent beside it in observe mode, to
    /// which only its call is led. Never writes.
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
        match self.inner.step(step).await? {
            Applied::Stepped(operation) => Ok(operation),
            Applied::Refused { refusal: Refusal::Moved { seen, .. }, operation } => {
                Err(self.inner.moved(&operation, seen).await?)
            }
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
            Applied::NoSuchOperation => Err(LedgerError::NotFound),
            Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_) | Applied::Done => {
                Err(LedgerError::Contended)
            }
        }
    }
}
