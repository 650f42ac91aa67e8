//! The outbox: operations that are approved in the transaction of the business that wants them, and sent by a dispatcher once that
//! has committed (R25).
//!
//! An entry is an operation like any other, and what happens to it is what happens to any other: the same claims, retries,
//! unknowns and budgets. Two things are its own. Nobody calls again, so the dispatcher goes on by itself; and entries of one lane
//! are sent one after the other, in the order of their commits.
//!
//! Any number of dispatchers look at the same entries. None is reserved for one of them: the claim that has to be durable before
//! anything leaves is made once, and whoever loses it has lost one write. Each looks in an order of its own, so that they seldom
//! meet.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use onceward_core::decide::{Request, decide};
use onceward_core::key::OperationKey;
use onceward_core::operation::{Dispatcher, Operation};
use onceward_core::outcome::{Envelope, Role, report};
use onceward_core::retry::{self, Spend};
use onceward_core::state::State;
use onceward_core::step::Refusal;

use crate::authorize::{Authorized, Execute};
use crate::call::{Call, Identity};
use crate::claim::SendWindow;
use crate::destination::Destination;
use crate::directory::{Directory, Known};
use crate::drive::Run;
use crate::error::LedgerError;
use crate::execute::{Claimed, told};
use crate::governor::Go;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::places::{NoPlace, in_turns};
use crate::running::Entered;
use crate::store::{Applied, Command, Opening, Priority, ReadyRow, StoreError};

/// What an entry came to in the transaction that is to carry it.
#[derive(Clone, Debug)]
#[must_use = "an operation that existed may be another intention: compare it with `Ledger::decided`"]
pub enum Entry {
    /// It is in the transaction, and will be sent if, and only if, that commits.
    Added(Operation),
    /// The key existed; nothing was added. Here it is, to be decided on.
    Existing(Operation),
}

/// Why there is no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboxError {
    /// Nobody repeats an entry but a redelivery of what caused it, and only an id of its own tells that from a second wish.
    #[error("an entry of the outbox needs an operation id: the id of the message or of the row that causes it")]
    IdentityRequired,
    /// What was given is no entry: it is another's to dispatch, or claimed already.
    #[error("this opening was not made for the outbox; make it with Ledger::outbox_opening")]
    NotAnEntry,
    /// The ledger could not; nothing was added.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl From<StoreError> for OutboxError {
    fn from(error: StoreError) -> Self {
        Self::Ledger(error.into())
    }
}

/// Whether an opening is an entry that a transaction may take: the dispatcher's, unclaimed, with an identity of its own.
///
/// # Errors
/// [`OutboxError::NotAnEntry`].
pub fn is_entry(opening: &Opening) -> Result<(), OutboxError> {
    let mine = opening.operation.terms.dispatch == Dispatcher::Auto;
    if mine && opening.events.is_empty() && opening.probe.is_none() { Ok(()) } else { Err(OutboxError::NotAnEntry) }
}

impl Ledger {
    /// The opening of an entry, for the transaction that is to carry it. Made before that begins: what an entry is pinned to is
    /// written by the ledger itself, once for each contract. Nothing else is written.
    ///
    /// # Errors
    /// [`OutboxError`]: nothing was written.
    pub async fn outbox_opening(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        destination: &Arc<dyn Destination>,
    ) -> Result<Opening, OutboxError> {
        if self.inner.is_stopping() {
            return Err(LedgerError::ShuttingDown.into());
        }
        match &call.identity {
            Identity::Given(_) => {}
            Identity::Held { .. } | Identity::Second { .. } => return Err(OutboxError::IdentityRequired),
        }
        let pin = self.inner.pin(destination, &call.arguments).await?;
        let now = self.inner.clock.now();
        let operation = call
            .operation(allowed, &self.inner.keys, Dispatcher::Auto, None, Some(pin), now)
            .map_err(LedgerError::from)?;
        Ok(Opening { operation, events: Vec::new(), actor: format!("principal:{}", allowed.principal()), probe: None })
    }

    /// Adds an entry in a transaction of the ledger's own: for a caller who wants the operation kept now and sent later. A
    /// repetition is told how it stands.
    ///
    /// # Errors
    /// [`OutboxError`]: after [`StoreError::CommitUnknown`] the entry may be there; the same call tells.
    pub async fn enqueue(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        destination: &Arc<dyn Destination>,
    ) -> Result<Envelope, OutboxError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        let repeated = |operation: &Operation| -> Result<Envelope, OutboxError> {
            let decision = decide(operation, request, &self.inner.keys).map_err(LedgerError::from)?;
            Ok(report(operation, &decision, Role::Repeater))
        };
        if let Some(operation) = self.inner.look(&call.key(allowed)).await? {
            return repeated(&operation);
        }
        let opening = self.outbox_opening(allowed, call, destination).await?;
        match self.inner.store.submit(Command::Open(Box::new(opening)), Priority::Claim).await? {
            Applied::Opened(operation) => Ok(told(&operation, Role::Executor)),
            Applied::Existing(operation) => repeated(&operation),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal).into()),
            Applied::Suspected(_) | Applied::Stepped(_) | Applied::NoSuchOperation | Applied::Done => {
                Err(LedgerError::Contended.into())
            }
        }
    }

    /// Starts the dispatcher: from now on this process sends entries of the directory's tools. A second call changes nothing.
    ///
    /// What becomes unknown is the reconciler's to settle ([`Ledger::reconcile`]), and blocks its lane until it is.
    pub fn dispatch_outbox(&self, directory: Arc<dyn Directory>) {
        if self.inner.outbox.set(directory).is_ok() {
            self.inner.runtime.spawn(Box::pin(run(Arc::clone(&self.inner))));
        }
    }
}

async fn run(inner: Arc<Inner>) {
    let mut after = 0;
    while !inner.is_stopping() {
        inner.runtime.sleep(inner.intervals.sweep.min(limits::OUTBOX_EVERY)).await;
        if !inner.store.is_healthy() {
            continue;
        }
        match inner.dispatch_round(after).await {
            Ok(next) => after = next,
            Err(error) => tracing::warn!(%error, "a round of the dispatcher failed"),
        }
    }
}

impl Inner {
    /// One round: entries after that place which may be sent and find a place are sent, each in a task of its own. Gives where
    /// the next round begins, so that in turn all are looked at, however many wait for a destination that is away.
    async fn dispatch_round(self: &Arc<Self>, after: u64) -> Result<u64, LedgerError> {
        let Some(directory) = self.outbox.get() else { return Ok(0) };
        let mut after = after;
        for _ in 0..limits::OUTBOX_PAGES {
            let page = self.store.ready(after, limits::OUTBOX_BATCH).await?;
            for row in in_turns(page.rows, limits::OUTBOX_TURN, |row| &row.key, |key| self.own_order(key)) {
                if self.rests(&row) || self.running.contains(&row.key) {
                    continue;
                }
                // A tool that is not configured here may be in another process.
                let Some(known) = directory.known(&row.tool) else { continue };
                let place = match self.deliveries.take(&row.key, known.destination.scope()) {
                    Ok(place) => place,
                    Err(NoPlace::There) => continue,
                    Err(NoPlace::Anywhere) => return Ok(after),
                };
                let inner = Arc::clone(self);
                self.runtime.spawn(Box::pin(async move {
                    if let Err(error) = inner.deliver_lane(&row.key, known).await {
                        tracing::warn!(key = %row.key, %error, "an entry of the outbox could not be sent");
                    }
                    drop(place);
                }));
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(0),
            }
        }
        Ok(after)
    }

    /// The place of an entry in its turn: another one for each process, so that two seldom meet.
    fn own_order(&self, key: &OperationKey) -> u64 {
        let mut order = DefaultHasher::new();
        (self.owner.as_str(), key.tenant.as_str(), key.id.as_str()).hash(&mut order);
        order.finish()
    }

    /// Whether an entry that was turned away rests before it is sent again, longer with every run of attempts. Its row says since
    /// when, so that it rests on through a restart.
    fn rests(&self, row: &ReadyRow) -> bool {
        let runs = row.attempts.div_ceil(limits::ATTEMPTS_IN_CALL_MAX);
        row.attempts > 0 && self.clock.now() < row.updated_at.plus(retry::pause_between_checks(runs))
    }

    /// Sends an entry, and then what follows in its lane, as long as each is settled.
    async fn deliver_lane(self: &Arc<Self>, key: &OperationKey, known: Known) -> Result<(), LedgerError> {
        let (mut key, mut known) = (key.clone(), known);
        for _ in 0..limits::LANE_RUN_MAX {
            let Some(operation) = self.deliver(&key, &known).await? else { return Ok(()) };
            let Some(lane) = operation.terms.lane.as_ref().filter(|_| operation.is_settled()) else { return Ok(()) };
            let Some(next) = self.store.lane_head(&key.tenant, lane).await? else { return Ok(()) };
            let Some(head) = self.look(&next).await? else { return Ok(()) };
            let directory = self.outbox.get();
            match directory.and_then(|directory| directory.known(&head.binding.tool)) {
                // The place is for one destination.
                Some(following) if following.destination.scope() == known.destination.scope() => known = following,
                Some(_) | None => return Ok(()),
            }
            key = next;
        }
        Ok(())
    }

    /// Claims an entry and runs the claim to its end. `None` where nothing was sent.
    async fn deliver(self: &Arc<Self>, key: &OperationKey, known: &Known) -> Result<Option<Operation>, LedgerError> {
        let seat = match self.running.enter(key) {
            Entered::Seated(seat) => seat,
            Entered::Joined(_) => return Ok(None),
        };
        // Read anew: it was listed a moment ago.
        let Some(operation) = self.look(key).await? else { return Ok(None) };
        let State::Approved(_) = &operation.state else { return Ok(None) };
        let now = self.clock.now();
        if operation.terms.deadline.is_some_and(|deadline| now >= deadline) {
            // Also where nothing could be sent now: it must not block its lane for longer than it is wanted.
            self.refused_claim(Refusal::DeadlinePassed, operation).await?;
            return self.look(key).await;
        }
        if !self.may_still_execute(&operation).await? {
            tracing::warn!(%key, "whoever made this entry may no longer make it; it waits for a person");
            return Ok(None);
        }
        if !known.is_as_approved(&operation) {
            tracing::warn!(%key, "this entry was approved under another definition, contract, account or request; it waits for a person");
            return Ok(None);
        }
        if !self.carried_on_by(&operation).await?.is_nothing() {
            tracing::debug!(%key, "sent beside the outbox in observe mode; what became of that is not known");
            return Ok(None);
        }
        let (tenant, scope) = (&key.tenant, known.destination.scope());
        if operation.history.attempts > 0 && !self.governor.spend(tenant, scope, Spend::AfterRefusal, now) {
            return Ok(None);
        }
        // Held back before it is claimed, so that an outage takes no attempt of anybody's.
        if self.governor.ask(tenant, scope, now) == Go::HeldBack {
            return Ok(None);
        }
        let permit = self.admit_dispatch()?;
        let window = SendWindow::open(&*self.clock, limits::SEND_WITHIN);
        let claim = self.claim_after_proof(&operation, known.destination.contract(), window);
        let sent = match self.claim(&operation, claim, format!("dispatcher:{}", self.owner)).await? {
            Claimed::Held(held, operation) => {
                let run = Run { inner: Arc::clone(self), tool: known.clone() };
                let operation = run.drive(held, *operation, window).await?;
                seat.leave(operation.clone());
                Some(operation)
            }
            // Another dispatcher was faster, or a rule forbids it.
            Claimed::Moved | Claimed::Stays(_) => None,
        };
        drop(permit);
        Ok(sent)
    }
}
