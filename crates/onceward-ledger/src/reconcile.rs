//! The way out of `unknown` without a person, in the background: the same key again where the contract allows it, else a
//! question to the destination, else the operation waits for a person.
//!
//! Bounded and fair: so many checks at once, so many for one tenant at one destination, and a budget for each; what finds no
//! place is put off and stays durable. Nothing here decides anything: the rules do, and each step is in the journal.

use std::sync::Arc;

use onceward_core::event::{About, Event, Observation, Source, Verdict};
use onceward_core::evidence::RedrivePermit;
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_core::retry::Spend;
use onceward_core::state::State;
use onceward_core::time::Timestamp;

use crate::claim::SendWindow;
use crate::directory::{Directory, Known};
use crate::drive::Run;
use crate::error::LedgerError;
use crate::execute::Claimed;
use crate::governor::Go;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::lookup::is_own_function;
use crate::places::in_turns;
use crate::running::Entered;
use crate::store::{Command, Expects, Priority, Step};

impl Ledger {
    /// Starts the reconciler: from now on unknown operations of the directory's tools are checked by this process, and an
    /// answer that says `unknown` may promise it. A second call changes nothing.
    pub fn reconcile(&self, directory: Arc<dyn Directory>) {
        if self.inner.directory.set(directory).is_ok() {
            self.inner.runtime.spawn(Box::pin(run(Arc::clone(&self.inner))));
        }
    }
}

async fn run(inner: Arc<Inner>) {
    while !inner.is_stopping() {
        inner.runtime.sleep(inner.intervals.sweep).await;
        if !inner.store.is_healthy() {
            continue;
        }
        if let Err(error) = inner.round().await {
            tracing::warn!(%error, "a round of the reconciler failed");
        }
    }
}

impl Inner {
    /// One round: whatever is due and finds a place is checked, each check in a task of its own.
    async fn round(self: &Arc<Self>) -> Result<(), LedgerError> {
        let Some(directory) = self.directory.get() else { return Ok(()) };
        let due = self.store.due(self.clock.now(), limits::CHECKS_BATCH).await?;
        // Only when the round is full do rows that find no place keep others from being seen at all.
        let crowded = due.len() >= limits::CHECKS_BATCH as usize;
        for operation in in_turns(due, 1, |operation| &operation.key, |_| 0) {
            if is_own_function(&operation) {
                match self.next_check(&operation, None).await? {
                    None => self.reschedule(&operation, None).await?,
                    Some(_) if crowded => self.put_off(&operation).await?,
                    // Nobody but its application can look for the effect: it stays due until that has said what it found.
                    Some(_) => {}
                }
                continue;
            }
            match directory.known(&operation.binding.tool) {
                Some(known) => match self.checks.take(&operation.key, known.destination.scope()) {
                    Ok(place) => {
                        let inner = Arc::clone(self);
                        self.runtime.spawn(Box::pin(async move {
                            if let Err(error) = inner.check(&operation.key, &known).await {
                                tracing::warn!(key = %operation.key, %error, "a check failed");
                            }
                            drop(place);
                        }));
                    }
                    Err(_) if crowded => self.put_off(&operation).await?,
                    Err(_) => {}
                },
                // A tool that is not configured here now.
                None => self.look_later(&operation).await?,
            }
        }
        Ok(())
    }

    /// Does the next thing about an operation that is due.
    async fn check(self: &Arc<Self>, key: &OperationKey, known: &Known) -> Result<(), LedgerError> {
        // Read anew: it was listed a moment ago, and a caller may have been faster.
        let Some(operation) = self.look(key).await? else { return Ok(()) };
        let State::Unknown(unknown) = &operation.state else { return Ok(()) };
        if unknown.next_check().is_none_or(|at| at > self.clock.now()) {
            return Ok(());
        }
        if let Some(permit) = self.worthwhile_permit(&operation, known).await?
            && self.may_still_execute(&operation).await?
        {
            return self.redrive(&operation, known, permit).await;
        }
        let (tenant, scope) = (&operation.key.tenant, known.destination.scope());
        if !self.questions.spend(tenant, scope, Spend::AfterRefusal, self.clock.now()) {
            return self.put_off(&operation).await;
        }
        let asked = self.ask(&operation, known).await?;
        match asked.said {
            // There was nothing to ask: what is scheduled says when there will be, or that a person settles it.
            crate::lookup::Said::NoWay => self.look_later(&operation).await,
            _ => Ok(()),
        }
    }

    /// Sends the same key again, as a caller's repetition would.
    async fn redrive(
        self: &Arc<Self>,
        operation: &Operation,
        known: &Known,
        permit: RedrivePermit,
    ) -> Result<(), LedgerError> {
        let (tenant, scope, now) = (&operation.key.tenant, known.destination.scope(), self.clock.now());
        let seat = match self.running.enter(&operation.key) {
            Entered::Seated(seat) => seat,
            // A caller's repetition does it.
            Entered::Joined(_) => return Ok(()),
        };
        if !self.governor.spend(tenant, scope, Spend::AfterTimeout, now)
            || self.governor.ask(tenant, scope, now) == Go::HeldBack
        {
            return self.put_off(operation).await;
        }
        let place = self.admit_dispatch()?;
        let window = SendWindow::open(&*self.clock, limits::SEND_WITHIN);
        let (claim, window) = self.next_redrive(operation, permit, window);
        match self.claim(operation, claim, format!("reconciler:{}", self.owner)).await? {
            Claimed::Held(held, operation) => {
                let run = Run { inner: Arc::clone(self), tool: known.clone() };
                let operation = run.drive(held, *operation, window).await?;
                seat.leave(operation);
            }
            Claimed::Moved => {}
            // A rule forbids it though the contract would not: the next look is a question, or a person's.
            Claimed::Stays(operation) => self.look_later(&operation).await?,
        }
        drop(place);
        Ok(())
    }

    /// Whether whoever made the call could still make it: a redrive is on its behalf. Principals that have no credential in
    /// this ledger at all are the embedding application's own.
    pub(crate) async fn may_still_execute(&self, operation: &Operation) -> Result<bool, LedgerError> {
        let mut known = false;
        for credential in self.store.credentials().await? {
            let grant = &credential.grant;
            if *grant.tenant() != operation.key.tenant || *grant.principal() != operation.terms.principal {
                continue;
            }
            known = true;
            if credential.revoked_at.is_none() && grant.to_execute(&operation.binding.tool).is_ok() {
                return Ok(true);
            }
        }
        Ok(!known)
    }

    /// Puts a check off that could not be made now.
    async fn put_off(&self, operation: &Operation) -> Result<(), LedgerError> {
        let pause = limits::CHECK_PUT_OFF + self.chance().of(limits::CHECK_PUT_OFF);
        self.reschedule(operation, Some(self.clock.now().plus(pause))).await
    }

    /// Schedules what can be done later, or nothing: then a person settles it, and the operation says so.
    async fn look_later(&self, operation: &Operation) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let next = match self.next_check(operation, None).await? {
            Some(at) if at <= now => Some(now.plus(limits::CHECK_PUT_OFF)),
            next => next,
        };
        self.reschedule(operation, next).await
    }

    async fn reschedule(&self, operation: &Operation, next_check: Option<Timestamp>) -> Result<(), LedgerError> {
        let Some(latest) = operation.state.uncertain().last() else { return Ok(()) };
        let seen = Observation {
            about: About::Attempt(latest.attempt),
            verdict: Verdict::Lost(latest.cause.clone()),
            source: Source::Lookup,
            next_check,
            note: None,
        };
        let step = Step {
            key: operation.key.clone(),
            events: vec![Event::Observe(seen)],
            actor: format!("reconciler:{}", self.owner),
            expects: Expects::Version(operation.journal.seq),
        };
        self.store.submit(Command::Step(Box::new(step)), Priority::Claim).await?;
        Ok(())
    }
}
