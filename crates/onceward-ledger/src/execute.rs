//! Executing a call: find or make the operation, claim, dispatch, settle. The caller may hang up at any time; the work goes
//! on, and whoever repeats the call joins it (R13).

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::decide::{Decision, Request, decide, standing};
use onceward_core::event::{Basis, CloseReason, Event};
use onceward_core::key::OperationKey;
use onceward_core::operation::{Dispatcher, Operation, Pin};
use onceward_core::outcome::{Envelope, Role, Visibility, possible_duplicate, report};
use onceward_core::state::State;
use onceward_core::step::Refusal;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::approvals::still_alone;
use crate::authorize::{Authorized, Execute};
use crate::beside::is_by_resemblance;
use crate::call::Call;
use crate::claim::{Held, SendWindow};
use crate::destination::Destination;
use crate::drive::Run;
use crate::error::LedgerError;
use crate::governor::Go;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::running::{Entered, Seat};
use crate::store::{Applied, Command, Expects, Opening, Priority, Step, StoreError};

impl Ledger {
    /// Calls a tool whose effect happens at `destination`, once, however often this is called with the same identity.
    ///
    /// Waits at most `wait` for the result; the work itself is not bound to this future. After the call the envelope says
    /// what is durable: a success was stored before it was told.
    ///
    /// # Errors
    /// [`LedgerError`]: this call dispatched nothing. The same call may be made again with the same identity, unless the
    /// error says otherwise.
    pub async fn execute(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        destination: Arc<dyn Destination>,
        wait: Duration,
    ) -> Result<Envelope, LedgerError> {
        let answered = self.execute_here(allowed, call, destination, wait).await;
        // It was made in observe mode, perhaps; this call was not.
        let answered = answered.map(|envelope| Envelope { observed: None, ..envelope });
        self.inner.metrics.called(allowed.tool(), &answered);
        answered
    }

    async fn execute_here(
        &self,
        allowed: &Authorized<Execute>,
        call: Call,
        destination: Arc<dyn Destination>,
        wait: Duration,
    ) -> Result<Envelope, LedgerError> {
        let mut key = call.key(allowed);
        let until = self.inner.clock.uptime() + wait;
        let call = Arc::new(call);
        for _ in 0..limits::RACES_MAX {
            let Some(operation) = self.inner.look(&key).await? else {
                match self.inner.opened(allowed, &call, &destination).await? {
                    Opened::Running(result) => return self.inner.outcome(&key, result, until).await,
                    Opened::Joined(result) => {
                        self.inner.seat_left(result, until).await;
                        continue;
                    }
                    Opened::Waiting(operation) => return Ok(told(&operation, Role::Repeater)),
                    Opened::Exists => continue,
                    Opened::Suspected(earlier) if self.inner.closed_leftover(&earlier).await? => continue,
                    Opened::Suspected(earlier) if self.inner.goes_on_with(allowed, &call, &earlier)? => {
                        key = earlier.key;
                        continue;
                    }
                    Opened::Suspected(earlier) => {
                        return self.inner.suspected(allowed, &earlier).await;
                    }
                }
            };
            let request = Request { tool: allowed.tool(), arguments: &call.arguments };
            let decision = decide(&operation, request, &self.inner.keys)?;
            match self.inner.gone_on_with(&operation, &decision, limits::BESIDE_MAX).await? {
                Some(beside) if is_by_resemblance(&beside) => {
                    return Ok(possible_duplicate(&beside, visibility(allowed, &beside)));
                }
                Some(beside) => {
                    key = beside.key;
                    continue;
                }
                None => {}
            }
            match decision {
                Decision::InProgress => return self.inner.join(operation, until).await,
                Decision::Ready | Decision::Unknown => {
                    match self.inner.resumed(&operation, &decision, &call, &destination).await? {
                        Resumed::Running(result) => return self.inner.outcome(&key, result, until).await,
                        Resumed::Joined(result) => {
                            let left = self.inner.seat_left(result, until).await;
                            // Whoever sits there pauses between two attempts, for longer than this call waits.
                            if left.is_none() && self.inner.clock.uptime() >= until {
                                return Ok(told(&operation, Role::Repeater));
                            }
                        }
                        // What was sent beside it meanwhile is looked at first.
                        Resumed::Moved | Resumed::CarriedOn => {}
                        Resumed::Stays(operation) => return Ok(told(&operation, Role::Repeater)),
                        Resumed::Suspected(earlier) => {
                            return self.inner.suspected(allowed, &earlier).await;
                        }
                    }
                }
                Decision::Conflict(_) => match self.inner.sent_for(&operation, request).await? {
                    Some(own) => key = own.key,
                    None => return Ok(report(&operation, &decision, Role::Repeater)),
                },
                Decision::ApprovalRequired
                | Decision::Replay
                | Decision::Rejected
                | Decision::Closed
                | Decision::Expired => return Ok(report(&operation, &decision, Role::Repeater)),
            }
        }
        Err(LedgerError::Contended)
    }
}

/// A caller may see an earlier operation that its call looks like when its permission for this call covers that one too.
pub(crate) fn visibility(allowed: &Authorized<Execute>, earlier: &Operation) -> Visibility {
    if earlier.key.tenant == *allowed.tenant() && earlier.binding.tool == *allowed.tool() {
        Visibility::Shown
    } else {
        Visibility::Hidden
    }
}

/// What a first call finds.
pub(crate) enum Opened {
    /// It was inserted and claimed, and runs.
    Running(watch::Receiver<Option<Operation>>),
    /// Another call of this process is about to insert it, or runs it.
    Joined(watch::Receiver<Option<Operation>>),
    /// It was inserted and waits for approval.
    Waiting(Operation),
    /// Somebody else was faster.
    Exists,
    /// It looks like a repetition; nothing was written.
    Suspected(Operation),
}

/// What a call that found its operation open comes to.
pub(crate) enum Resumed {
    /// An attempt runs, here.
    Running(watch::Receiver<Option<Operation>>),
    /// Another call of this process runs it.
    Joined(watch::Receiver<Option<Operation>>),
    /// The row moved meanwhile; look again.
    Moved,
    /// Nothing permits a dispatch; it stays where it is.
    Stays(Box<Operation>),
    /// Another one was sent in its place in observe mode, and did it or may have: whoever repeats it goes on with that one.
    CarriedOn,
    /// This one may have had its effect, and the operation may be its repetition. No approval releases it (R19).
    Suspected(Box<Operation>),
}

/// What a claim comes to.
pub(crate) enum Claimed {
    /// This process holds the attempt.
    Held(Held, Box<Operation>),
    /// The row moved meanwhile; look again.
    Moved,
    /// A rule forbids another attempt; it stays where it is.
    Stays(Box<Operation>),
}

impl Inner {
    /// What a call is told that may repeat an earlier one: of what was done in that one's place, where something was.
    pub(crate) async fn suspected(
        &self,
        allowed: &Authorized<Execute>,
        earlier: &Operation,
    ) -> Result<Envelope, LedgerError> {
        let gone_on = self.gone_on_with(earlier, &standing(earlier), limits::BESIDE_MAX).await?;
        let earlier = gone_on.as_ref().unwrap_or(earlier);
        Ok(possible_duplicate(earlier, visibility(allowed, earlier)))
    }

    /// Whether a held call is its host's only way to go on with the operation that it looks like: one of the same principal,
    /// with the same arguments, that waits for its approval, was approved or could not be sent, and of which surely nothing has
    /// happened. A host without identity cannot name it; going on with it is what both calls want, and makes one effect.
    pub(crate) fn goes_on_with(
        &self,
        allowed: &Authorized<Execute>,
        call: &Call,
        earlier: &Operation,
    ) -> Result<bool, LedgerError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        if earlier.key.tenant != *allowed.tenant() || earlier.terms.principal != *allowed.principal() {
            return Ok(false);
        }
        Ok(match decide(earlier, request, &self.keys)? {
            Decision::Ready | Decision::ApprovalRequired => true,
            Decision::Conflict(_)
            | Decision::InProgress
            | Decision::Unknown
            | Decision::Replay
            | Decision::Rejected
            | Decision::Closed
            | Decision::Expired => false,
        })
    }

    /// [`Self::open`] in a task of its own: between a durable claim and its run there is no place for a caller to hang up.
    pub(crate) async fn opened(
        self: &Arc<Self>,
        allowed: &Authorized<Execute>,
        call: &Arc<Call>,
        destination: &Arc<dyn Destination>,
    ) -> Result<Opened, LedgerError> {
        let (inner, allowed) = (Arc::clone(self), allowed.clone());
        let (call, destination) = (Arc::clone(call), Arc::clone(destination));
        self.detached(async move { inner.open(&allowed, &call, &destination).await }).await
    }

    /// [`Self::resume`] in a task of its own.
    pub(crate) async fn resumed(
        self: &Arc<Self>,
        operation: &Operation,
        decision: &Decision,
        call: &Arc<Call>,
        destination: &Arc<dyn Destination>,
    ) -> Result<Resumed, LedgerError> {
        let (inner, operation, decision) = (Arc::clone(self), operation.clone(), decision.clone());
        let (call, destination) = (Arc::clone(call), Arc::clone(destination));
        self.detached(async move { inner.resume(&operation, &decision, &call, &destination).await }).await
    }

    async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LedgerError>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (done, result) = oneshot::channel();
        self.runtime.spawn(Box::pin(async move {
            // A caller that hung up no longer wants to know; what was claimed runs all the same.
            let _ = done.send(work.await);
        }));
        result.await.unwrap_or(Err(LedgerError::Contended))
    }

    async fn open(
        self: &Arc<Self>,
        allowed: &Authorized<Execute>,
        call: &Call,
        destination: &Arc<dyn Destination>,
    ) -> Result<Opened, LedgerError> {
        let key = call.key(allowed);
        let seat = match self.running.enter(&key) {
            Entered::Seated(seat) => seat,
            Entered::Joined(result) => return Ok(Opened::Joined(result)),
        };
        let permit = self.admit_dispatch()?;
        let pin = self.pin(destination, &call.arguments).await?;
        let window = SendWindow::open(&*self.clock, limits::SEND_WITHIN);
        let probe = call.probe(allowed, &self.secret);
        let operation =
            call.operation(allowed, &self.keys, Dispatcher::Caller, probe.as_ref(), Some(pin), self.clock.now())?;
        // Held back before it is claimed, so that an outage takes no attempt of anybody's. What is only observed is not held back.
        let go = match &call.sighting {
            Some(_) => Go::Ahead,
            None => self.governor.ask(allowed.tenant(), destination.scope(), self.clock.now()),
        };
        let events = match operation.state {
            State::Approved(_) if go == Go::Ahead => vec![self.next_claim(&operation, Basis::NoEffectSoFar, window)],
            State::Approved(_) => Vec::new(),
            State::Proposed(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Vec::new(),
        };
        // One that is made beside another keeps its mark, and is not held back by it.
        let probe = probe.filter(|_| !call.is_beside_another());
        let opening = Opening { operation, events, actor: format!("principal:{}", allowed.principal()), probe };
        fail::fail_point!("execute::before_claim");
        let applied = self.store.submit(Command::Open(Box::new(opening)), Priority::Claim).await;
        let applied = self.known(&key, applied).await?;
        fail::fail_point!("execute::after_claim");
        match applied {
            Applied::Opened(operation) | Applied::Stepped(operation) => match Held::of(&operation, &self.owner) {
                Some(held) => {
                    Ok(Opened::Running(self.launch(held, operation, call, destination, window, seat, permit)))
                }
                None => Ok(Opened::Waiting(operation)),
            },
            Applied::Suspected(earlier) => Ok(Opened::Suspected(earlier)),
            Applied::Existing(_) | Applied::NoSuchOperation | Applied::Done => Ok(Opened::Exists),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
        }
    }

    /// Claims the next attempt of an operation that exists: after proof that nothing happened, or under the destination's
    /// promise to recognise the same key.
    async fn resume(
        self: &Arc<Self>,
        operation: &Operation,
        decision: &Decision,
        call: &Call,
        destination: &Arc<dyn Destination>,
    ) -> Result<Resumed, LedgerError> {
        if is_the_dispatchers(operation, decision) {
            return Ok(Resumed::Stays(Box::new(operation.clone())));
        }
        if is_an_applications(operation) {
            return match decision {
                Decision::Ready => Err(LedgerError::OtherRunner { made_for: "its application, under a claim" }),
                _ => Ok(Resumed::Stays(Box::new(operation.clone()))),
            };
        }
        let seat = match self.running.enter(&operation.key) {
            Entered::Seated(seat) => seat,
            Entered::Joined(result) => return Ok(Resumed::Joined(result)),
        };
        let window = SendWindow::open(&*self.clock, limits::SEND_WITHIN);
        let known = call.known(destination);
        let (claim, window) = match decision {
            Decision::Ready => {
                if !self.carried_on_by(operation).await?.is_nothing() {
                    return Ok(Resumed::CarriedOn);
                }
                if !known.is_as_approved(operation) || call.is_let_through_by_observing(operation) {
                    return Err(LedgerError::ApprovalVoid);
                }
                if let Some(earlier) = self.unresolved_beside(operation).await? {
                    return Ok(Resumed::Suspected(Box::new(earlier)));
                }
                (self.claim_after_proof(operation, destination.contract(), window), window)
            }
            _ => match self.worthwhile_permit(operation, &known).await? {
                Some(redrive) => self.next_redrive(operation, redrive, window),
                None => return Ok(Resumed::Stays(Box::new(operation.clone()))),
            },
        };
        // Held back before it is claimed, so that an outage takes no attempt of anybody's. What is only observed is not held back.
        if call.sighting.is_none()
            && self.governor.ask(&operation.key.tenant, destination.scope(), self.clock.now()) == Go::HeldBack
        {
            return Ok(Resumed::Stays(Box::new(operation.clone())));
        }
        let permit = self.admit_dispatch()?;
        match self.claim(operation, claim, format!("owner:{}", self.owner)).await? {
            Claimed::Held(held, operation) => {
                Ok(Resumed::Running(self.launch(held, *operation, call, destination, window, seat, permit)))
            }
            Claimed::Moved => Ok(Resumed::Moved),
            Claimed::Stays(operation) => Ok(Resumed::Stays(operation)),
        }
    }

    /// Submits a claim for this process.
    pub(crate) async fn claim(
        &self,
        operation: &Operation,
        claim: Event,
        actor: String,
    ) -> Result<Claimed, LedgerError> {
        let expects = match &operation.state {
            State::Approved(_) => still_alone(operation),
            State::Proposed(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Expects::Anything,
        };
        let step = Step { key: operation.key.clone(), events: vec![claim], actor, expects };
        fail::fail_point!("execute::before_claim");
        let applied = self.store.submit(Command::Step(Box::new(step)), Priority::Claim).await;
        match self.known(&operation.key, applied).await? {
            Applied::Stepped(operation) => {
                fail::fail_point!("execute::after_claim");
                Ok(match Held::of(&operation, &self.owner) {
                    Some(held) => Claimed::Held(held, Box::new(operation)),
                    None => Claimed::Moved,
                })
            }
            Applied::Refused { refusal, operation } => self.refused_claim(refusal, operation).await,
            Applied::Opened(_)
            | Applied::Existing(_)
            | Applied::Suspected(_)
            | Applied::NoSuchOperation
            | Applied::Done => Ok(Claimed::Moved),
        }
    }

    /// What a refused claim means for its caller: look again, or it stays where it is.
    pub(crate) async fn refused_claim(&self, refusal: Refusal, operation: Operation) -> Result<Claimed, LedgerError> {
        match (refusal, &operation.state) {
            // Nothing may have happened, and nothing will any more.
            (Refusal::DeadlinePassed, State::Approved(_)) => {
                let events = vec![Event::Close(CloseReason::DeadlinePassed)];
                let step = Step {
                    key: operation.key.clone(),
                    events,
                    actor: format!("owner:{}", self.owner),
                    expects: Expects::Anything,
                };
                self.store.submit(Command::Step(Box::new(step)), Priority::Settle).await?;
                Ok(Claimed::Moved)
            }
            (
                Refusal::Stale { .. }
                | Refusal::AttemptInFlight
                | Refusal::Uncertain
                | Refusal::Settled
                | Refusal::ClaimLost
                | Refusal::NoSuchAttempt,
                _,
            ) => Ok(Claimed::Moved),
            (
                Refusal::DeadlinePassed
                | Refusal::ApprovalRequired
                | Refusal::InDisagreement
                | Refusal::PermitMismatch
                | Refusal::TooManyAttempts
                | Refusal::Begun
                | Refusal::TooLate
                | Refusal::CannotClose
                | Refusal::NothingToApprove
                | Refusal::NothingToAcknowledge
                | Refusal::NothingUncertain
                | Refusal::Moved { .. },
                _,
            ) => Ok(Claimed::Stays(Box::new(operation))),
        }
    }

    /// A claim whose commit is unknown is read back before anything else: if the row says that this process holds the
    /// attempt, the claim is durable; if not, nothing was claimed and nothing may be sent (R14).
    async fn known(&self, key: &OperationKey, applied: Result<Applied, StoreError>) -> Result<Applied, LedgerError> {
        match applied {
            Ok(applied) => Ok(applied),
            Err(error @ StoreError::CommitUnknown(_)) => match self.store.confirmed(key).await? {
                Some(operation) if Held::of(&operation, &self.owner).is_some() => Ok(Applied::Stepped(operation)),
                Some(_) | None => Err(error.into()),
            },
            Err(error @ (StoreError::Busy | StoreError::Unavailable(_) | StoreError::Corrupt(_))) => Err(error.into()),
        }
    }

    /// Runs a claim to its end in a task of its own.
    #[allow(clippy::too_many_arguments, reason = "each is one thing that the task takes over from its caller")]
    fn launch(
        self: &Arc<Self>,
        held: Held,
        operation: Operation,
        call: &Call,
        destination: &Arc<dyn Destination>,
        window: SendWindow,
        seat: Seat,
        permit: OwnedSemaphorePermit,
    ) -> watch::Receiver<Option<Operation>> {
        let result = seat.watch();
        let run = Run { inner: Arc::clone(self), tool: call.known(destination) };
        self.runtime.spawn(Box::pin(async move {
            match run.drive(held, operation, window).await {
                Ok(operation) => seat.leave(operation),
                Err(error) => tracing::error!(%error, "an attempt could not be settled; recovery will take it"),
            }
            drop(permit);
        }));
        result
    }

    pub(crate) fn admit_dispatch(&self) -> Result<OwnedSemaphorePermit, LedgerError> {
        if self.is_stopping() {
            return Err(LedgerError::ShuttingDown);
        }
        Arc::clone(&self.dispatches)
            .try_acquire_owned()
            .map_err(|_| LedgerError::Overloaded { what: "dispatches under way", most: limits::DISPATCHES_MAX })
    }

    /// The destination as it is now, its contract durable under its content hash.
    pub(crate) async fn pin(
        &self,
        destination: &Arc<dyn Destination>,
        arguments: &Canonical,
    ) -> Result<Pin, LedgerError> {
        let contract = destination.contract_hash();
        self.pins.pin(&*self.store, &contract, destination.contract()).await?;
        let request = destination.request_digest(arguments);
        Ok(Pin { contract, scope: destination.scope().to_owned(), request })
    }

    /// Waits for the attempt that this call launched. Past its wait the caller is told how it stands; the work goes on.
    pub(crate) async fn outcome(
        &self,
        key: &OperationKey,
        result: watch::Receiver<Option<Operation>>,
        until: Duration,
    ) -> Result<Envelope, LedgerError> {
        match self.seat_left(result, until).await {
            Some(operation) => Ok(told(&operation, Role::Executor)),
            // It runs, or has run: an error of the ledger's is no word that nothing was sent.
            None => match self.look(key).await {
                Ok(Some(operation)) => Ok(told(&operation, Role::Executor)),
                Ok(None) | Err(_) => Err(LedgerError::OutOfSight),
            },
        }
    }

    /// Waits until a seat of the running set is left, at most `until`.
    async fn seat_left(&self, mut result: watch::Receiver<Option<Operation>>, until: Duration) -> Option<Operation> {
        let left = until.saturating_sub(self.clock.uptime());
        let wait = Box::pin(result.wait_for(Option::is_some));
        match futures_util::future::select(wait, self.runtime.sleep(left)).await {
            futures_util::future::Either::Left((Ok(operation), _)) => operation.clone(),
            futures_util::future::Either::Left((Err(_), _)) | futures_util::future::Either::Right(_) => None,
        }
    }

    /// Waits for an attempt that somebody else holds: here by its seat, elsewhere by looking at the row.
    pub(crate) async fn join(&self, operation: Operation, until: Duration) -> Result<Envelope, LedgerError> {
        let mut operation = operation;
        let mut pause = limits::POLL_FIRST;
        loop {
            match standing(&operation) {
                Decision::InProgress => {}
                decision => return Ok(report(&operation, &decision, Role::Repeater)),
            }
            let left = until.saturating_sub(self.clock.uptime());
            if left.is_zero() {
                return Ok(told(&operation, Role::Repeater));
            }
            match self.running.joined(&operation.key) {
                Some(result) => drop(self.seat_left(result, until).await),
                None => {
                    self.runtime.sleep(pause.min(left)).await;
                    pause = (pause * 2).min(limits::POLL_MAX);
                }
            }
            operation = self.look(&operation.key).await?.ok_or(LedgerError::NotFound)?;
        }
    }
}

/// Whether an application has run it under a claim, or said how it would: what a destination promises says nothing about that.
fn is_an_applications(operation: &Operation) -> bool {
    match &operation.terms.pin {
        Some(pin) => pin.is_own_function(),
        None => operation.history.attempts > 0,
    }
}

/// Whether the next attempt of an operation is the dispatcher's to make: a caller's would leave out what comes before it in its
/// lane.
pub(crate) fn is_the_dispatchers(operation: &Operation, decision: &Decision) -> bool {
    match (operation.terms.dispatch, decision) {
        (Dispatcher::Auto, Decision::Ready) => true,
        (Dispatcher::Caller | Dispatcher::Auto, _) => false,
    }
}

/// What a caller about the same intention is told of the operation as it stands.
pub(crate) fn told(operation: &Operation, role: Role) -> Envelope {
    report(operation, &standing(operation), role)
}
