//! What was sent beside an operation in observe mode, and what follows from it once the rules bind: nothing is sent that a call
//! beside it did, or may have done.
//!
//! A spare names the operation that it met in its own commit ([`Mark::Beside`]), so that whoever would send that one finds it,
//! whatever became of either meanwhile and in whichever order.

use std::collections::{BTreeSet, VecDeque};

use onceward_core::decide::{Decision, Request, decide};
use onceward_core::event::{CloseReason, Event};
use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use onceward_core::sighting::Sighting;
use onceward_core::state::State;
use onceward_core::step::Refusal;

use crate::error::LedgerError;
use crate::ledger::Inner;
use crate::limits;
use crate::mark::Mark;
use crate::store::{Applied, BoxFuture, Command, Expects, Priority, Step, StoreError};

impl Inner {
    /// Takes a step, and whatever follows from it for what was sent beside the operation, or what it was sent beside.
    ///
    /// # Errors
    /// As of the store: the step was not taken, or nobody knows.
    pub(crate) async fn step(&self, step: Step) -> Result<Applied, StoreError> {
        let applied = self.store.submit(Command::Step(Box::new(step)), Priority::Settle).await;
        if let Ok(Applied::Stepped(operation)) = &applied {
            self.follow(operation).await;
        }
        applied
    }

    /// The operation to which whoever repeats this one is led: what was done in its place in observe mode, or may have been, where
    /// its own state says that it was not.
    ///
    /// # Errors
    /// [`LedgerError::Unresolved`] where it would be sent, and more was sent beside it than is looked at.
    pub(crate) async fn gone_on_with(
        &self,
        operation: &Operation,
        decision: &Decision,
        max: u32,
    ) -> Result<Option<Operation>, LedgerError> {
        let would_be_sent = match decision {
            Decision::Ready | Decision::ApprovalRequired => true,
            Decision::Unknown | Decision::Rejected | Decision::Closed => false,
            Decision::Conflict(_) | Decision::InProgress | Decision::Replay | Decision::Expired => return Ok(None),
        };
        match self.beside(operation, max, &|spare| self.stands_in_the_way(operation, spare)).await? {
            // Under its key, and for something else: it is told where it stands itself, and is not sent.
            Beside::One(spare) if !self.is_one_wish(operation, &spare) => match would_be_sent {
                true => Err(LedgerError::Unresolved { id: spare.key.id.clone() }),
                false => Ok(None),
            },
            // As long as neither is known, its own attempt is what it is told of.
            Beside::One(spare) if *decision == Decision::Unknown && !is_done(&spare) => Ok(None),
            Beside::One(spare) => Ok(Some(*spare)),
            Beside::TooMany if would_be_sent => Err(LedgerError::Unresolved { id: operation.key.id.clone() }),
            Beside::TooMany | Beside::Nothing => Ok(None),
        }
    }

    /// What was sent beside this operation in observe mode for another intention under its identity, if it is this call's and did what
    /// it is about, or may have.
    pub(crate) async fn sent_for(
        &self,
        operation: &Operation,
        request: Request<'_>,
    ) -> Result<Option<Operation>, LedgerError> {
        let its_own =
            |spare: &Operation| !matches!(decide(spare, request, &self.keys), Ok(Decision::Conflict(_)) | Err(_));
        match self.beside(operation, limits::BESIDE_MAX, &its_own).await? {
            Beside::One(spare) => Ok(Some(*spare)),
            Beside::Nothing | Beside::TooMany => Ok(None),
        }
    }

    /// What was sent beside this operation in observe mode, or beside what was, and did what it is about or may have; what was done
    /// before what may have been. Unless it is nothing, the operation is not sent.
    pub(crate) async fn carried_on_by(&self, operation: &Operation) -> Result<Beside, LedgerError> {
        self.beside(operation, limits::BESIDE_MAX, &|spare| self.stands_in_the_way(operation, spare)).await
    }

    /// The first of those that are wanted, where no more than `max` are looked at.
    async fn beside(
        &self,
        operation: &Operation,
        max: u32,
        wanted: &(dyn Fn(&Operation) -> bool + Sync),
    ) -> Result<Beside, LedgerError> {
        let (mut ahead, mut seen) = (VecDeque::from([operation.key.clone()]), BTreeSet::new());
        let mut may_have = Beside::Nothing;
        while let Some(met) = ahead.pop_front() {
            for key in self.store.marked(&Mark::Beside(met), max).await? {
                if !seen.insert(key.clone()) {
                    continue;
                }
                if seen.len() >= max as usize {
                    return Ok(Beside::TooMany);
                }
                let Some(spare) = self.look(&key).await? else { continue };
                ahead.push_back(key);
                let acted = may_have_acted(&spare) && wanted(&spare);
                match (acted, &may_have) {
                    (true, _) if is_done(&spare) => return Ok(Beside::One(Box::new(spare))),
                    (true, Beside::Nothing) => may_have = Beside::One(Box::new(spare)),
                    (true, Beside::One(_) | Beside::TooMany) | (false, _) => {}
                }
            }
        }
        Ok(may_have)
    }

    /// Refuses what would be sent, or sent again, though it was done in observe mode, or may have been.
    ///
    /// # Errors
    /// [`LedgerError::Unresolved`], with what is to be looked at.
    pub(crate) async fn may_be_sent_beside(&self, operation: &Operation) -> Result<(), LedgerError> {
        if operation
            .terms
            .sighting
            .as_ref()
            .is_some_and(|sighting| sighting.would.is_blocked() && sighting.met.is_none())
        {
            return Err(LedgerError::ApprovalVoid);
        }
        if let Some(met) = met(operation) {
            // Nobody repeats it under its own id; what it was sent beside is what is gone on with.
            return Err(LedgerError::Unresolved { id: met.id });
        }
        match self.carried_on_by(operation).await? {
            Beside::Nothing => Ok(()),
            Beside::One(spare) => Err(LedgerError::Unresolved { id: spare.key.id.clone() }),
            Beside::TooMany => Err(LedgerError::Unresolved { id: operation.key.id.clone() }),
        }
    }

    /// Closes an operation that holds a call back, where it is what was left of one that was surely not sent in observe mode and its
    /// gateway had no time to close it. Whether it was one.
    pub(crate) async fn closed_leftover(&self, earlier: &Operation) -> Result<bool, LedgerError> {
        match &earlier.state {
            State::Approved(_) if is_leftover(earlier) => self.close_leftover(earlier).await.map(|()| true),
            State::Approved(_)
            | State::Proposed(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Ok(false),
        }
    }

    /// Whether what was sent beside an operation was for its intention, or under its key: then a destination would take the one for
    /// the other.
    fn stands_in_the_way(&self, operation: &Operation, spare: &Operation) -> bool {
        let Some(Sighting { key, .. }) = &spare.terms.sighting else { return false };
        match key {
            Some(key) if *key == self.key_in_use(operation) => true,
            // It only looked like it: no word about an intention that its caller has named.
            None if operation.terms.suspicion.is_none() => false,
            Some(_) | None => self.is_one_wish(operation, spare),
        }
    }

    /// Whether what was sent beside an operation carries it out: it says the same, or has the same business key where neither has an
    /// identity.
    fn is_one_wish(&self, operation: &Operation, spare: &Operation) -> bool {
        let business =
            |operation: &Operation| operation.terms.suspicion.as_ref().and_then(|suspicion| suspicion.business);
        let one_business = business(operation).is_some() && business(operation) == business(spare);
        one_business || self.is_one_intention(operation, spare)
    }

    fn is_one_intention(&self, operation: &Operation, spare: &Operation) -> bool {
        let (one, other) = (&operation.binding, &spare.binding);
        match other.arguments.present() {
            Some(arguments) => {
                let request = Request { tool: &other.tool, arguments };
                // What cannot be compared may be.
                !matches!(decide(operation, request, &self.keys), Ok(Decision::Conflict(_)))
            }
            None => {
                let comparable = one.tool_version == other.tool_version
                    && one.comparison == other.comparison
                    && one.fingerprint_key == other.fingerprint_key;
                one.tool == other.tool && (!comparable || one.fingerprint == other.fingerprint)
            }
        }
    }

    /// What follows from a step that was taken. That it could not be done loses nothing: it is asked for again before anything is
    /// sent.
    fn follow<'a>(&'a self, operation: &'a Operation) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.followed(operation).await {
                tracing::warn!(key = %operation.key, %error, "what follows for what was sent beside it is not recorded yet");
            }
        })
    }

    async fn followed(&self, operation: &Operation) -> Result<(), LedgerError> {
        match &operation.state {
            State::Succeeded(_) => self.replace_all_met(operation).await,
            State::Approved(_) if is_leftover(operation) => self.close_leftover(operation).await,
            State::Approved(_) => match self.carried_on_by(operation).await? {
                Beside::One(spare) => self.replace(operation, &spare).await,
                Beside::Nothing | Beside::TooMany => Ok(()),
            },
            State::Proposed(_) | State::Pending(_) | State::Unknown(_) | State::Rejected(_) | State::Closed(_) => {
                Ok(())
            }
        }
    }

    /// Nobody knows the id of what was not sent beside another, and enforced it may not be sent: it would hold back what is like it
    /// for nothing.
    async fn close_leftover(&self, spare: &Operation) -> Result<(), LedgerError> {
        self.owners_step(spare, Event::Close(CloseReason::Withdrawn)).await
    }

    async fn replace_all_met(&self, spare: &Operation) -> Result<(), LedgerError> {
        let mut met = met(spare);
        for _ in 0..limits::BESIDE_MAX {
            let Some(key) = met.take() else { break };
            let Some(operation) = self.look(&key).await? else { break };
            met = self::met(&operation);
            if self.stands_in_the_way(&operation, spare) {
                self.replace(&operation, spare).await?;
            }
        }
        Ok(())
    }

    /// Puts a call that was done beside it in the place of an operation that is free, or waits. One that is unknown stays so: its own
    /// attempt may have had its effect as well, and only what is known of that one settles it.
    async fn replace(&self, operation: &Operation, spare: &Operation) -> Result<(), LedgerError> {
        match &operation.state {
            State::Proposed(_) | State::Approved(_) if is_done(spare) && self.is_one_wish(operation, spare) => {
                let note = Some(format!("sent beside it in observe mode, as operation {}, and done", spare.key.id));
                self.owners_step(operation, Event::Supersede { by: spare.key.id.clone(), note }).await
            }
            State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Ok(()),
        }
    }

    async fn owners_step(&self, operation: &Operation, event: Event) -> Result<(), LedgerError> {
        let step = Step {
            key: operation.key.clone(),
            events: vec![event],
            actor: format!("owner:{}", self.owner),
            expects: Expects::Version(operation.journal.seq),
        };
        match self.step(step).await? {
            // Where it moved meanwhile, that move is followed.
            Applied::Refused { refusal: Refusal::Moved { .. }, .. } => Ok(()),
            Applied::Refused { refusal, .. } => Err(LedgerError::Illegal(refusal)),
            Applied::Stepped(_)
            | Applied::Opened(_)
            | Applied::Existing(_)
            | Applied::Suspected(_)
            | Applied::NoSuchOperation
            | Applied::Done => Ok(()),
        }
    }
}

/// What was sent beside an operation.
pub(crate) enum Beside {
    /// Nothing that did what it is about, or may have.
    Nothing,
    /// This did, or may have.
    One(Box<Operation>),
    /// More than is looked at.
    TooMany,
}

impl Beside {
    /// Whether the operation may be sent, as far as this goes.
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

/// Whether it was made by a call that only looked like the operation that it met.
pub(crate) fn is_by_resemblance(spare: &Operation) -> bool {
    spare.terms.sighting.as_ref().is_some_and(|sighting| sighting.is_beside_another() && sighting.key.is_none())
}

fn is_done(operation: &Operation) -> bool {
    matches!(operation.state, State::Succeeded(_))
}

/// Whether its effect is there, or may be, as far as anybody knows or once knew.
fn may_have_acted(spare: &Operation) -> bool {
    match &spare.state {
        State::Pending(_) | State::Unknown(_) | State::Succeeded(_) => true,
        State::Proposed(_) | State::Approved(_) | State::Rejected(_) | State::Closed(_) => {
            !spare.state.uncertain().is_empty() || spare.history.disagreement.is_some()
        }
    }
}

fn met(spare: &Operation) -> Option<OperationKey> {
    let id = spare.terms.sighting.as_ref()?.met.clone()?;
    Some(OperationKey { tenant: spare.key.tenant.clone(), id })
}

/// Whether its call is over and nobody can name it, or may send it once the rules bind.
fn is_leftover(operation: &Operation) -> bool {
    let Some(sighting) = &operation.terms.sighting else { return false };
    sighting.is_beside_another() || (sighting.would.is_blocked() && operation.terms.suspicion.is_some())
}
