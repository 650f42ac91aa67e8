//! What can happen next, and what becomes of the world then.

use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::contract::{Contract, ContractError};
use onceward_core::decide::{Decision, Request, decide, standing};
use onceward_core::event::{
    About, Basis, Cause, Claim, CloseReason, DispatchMark, Event, NotSent, Observation, PurgeScope, Source, Verdict,
};
use onceward_core::fingerprint::FingerprintKeys;
use onceward_core::key::{AttemptNumber, Generation, OutboundKey, OwnerId, Principal};
use onceward_core::operation::Operation;
use onceward_core::state::{State, Unknown};
use stateright::{Model, Property};

use crate::act::{apply, recover_as_unsent, take_request};
use crate::bounds::Bounds;
use crate::destination::{self, Kind, Sent, tick};
use crate::ledger::{self, Ledger};
use crate::mutant::Mutant;
use crate::property;
use crate::world::{Answered, Asked, Reply, Stage, Task, World};

/// One operation, at a destination of one kind, dispatched in one way.
#[derive(Clone, Debug)]
pub struct Life {
    /// What the destination offers.
    pub kind: Kind,
    /// Whether owners announce that they begin.
    pub dispatch: DispatchMark,
    /// How much may happen.
    pub bounds: Bounds,
    /// The mistake that is planted, if one is.
    pub mutant: Option<Mutant>,
    pub(crate) contract: Arc<Contract>,
    created: Operation,
    pub(crate) arguments: Canonical,
    other_arguments: Canonical,
    names: Names,
}

/// Names are made once; the explored worlds share them.
#[derive(Clone, Debug)]
struct Names {
    owners: Vec<OwnerId>,
    key: OutboundKey,
    person: Principal,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Somebody calls; if the answer is that it may be dispatched, they claim it.
    Call,
    /// Somebody who had read that it may be dispatched claims it now, though it no longer is.
    ClaimFromOldRead,
    /// Somebody calls with the same key and other arguments.
    CallWithOtherArguments,
    /// An owner announces that it begins.
    Begin(u32),
    /// An owner sends its request.
    Send(u32),
    /// An owner finds that its time to send has passed.
    TooLate(u32),
    /// An owner stops waiting for its answer.
    StopWaiting(u32),
    /// An owner dies.
    Crash(u32),
    /// A request arrives and is executed, or its key is recognised.
    Execute(u32),
    /// A request arrives and is turned away before any work.
    TurnAway(u32),
    /// A request is lost.
    Lose(u32),
    /// An answer reaches its owner.
    Answer(Answered),
    /// Recovery finds the running attempt without an owner.
    Recover,
    /// Recovery had read the row before the running attempt began.
    RecoverFromOldRead,
    /// Recovery takes a living owner for dead.
    Mistake,
    /// The reconciler sends the same key again, if that is permitted.
    Redrive,
    /// The reconciler asks the destination.
    Ask,
    /// The reconciler reads the answer.
    Hear,
    /// A person who has seen that nothing is under way says what is true.
    Decide(Choice),
    /// The caller takes it back.
    Withdraw,
    /// Its payloads are erased.
    Purge,
    /// A second entrance sends it (only in a mutant).
    SendDirectly,
    /// Time passes.
    Tick,
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// It was done.
    Done,
    /// It was not done; send it again.
    Again,
    /// It was not done, and shall not be.
    Never,
}

impl Life {
    /// The model with these settings.
    ///
    /// # Errors
    /// The contract of that kind is none: a fault of this model.
    pub fn new(
        kind: Kind,
        dispatch: DispatchMark,
        bounds: Bounds,
        mutant: Option<Mutant>,
    ) -> Result<Self, ContractError> {
        let arguments = |text: &str| Canonical::from_value(serde_json::json!({ "text": text })).expect("plain JSON");
        Ok(Self {
            kind,
            dispatch,
            bounds,
            mutant,
            contract: kind.contract()?,
            created: ledger::created(&arguments("one")),
            arguments: arguments("one"),
            other_arguments: arguments("other"),
            names: Names {
                owners: (0..=bounds.attempts + 1)
                    .map(|number| OwnerId::parse(&format!("owner-{number}")).expect("a name"))
                    .collect(),
                key: OutboundKey::parse("key-of-the-operation").expect("a name"),
                person: Principal::parse("operator").expect("a name"),
            },
        })
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(crate) fn owner(&self, attempt: u32) -> OwnerId {
        self.names.owners[attempt as usize].clone()
    }

    /// The claim of the next attempt, by an owner of its own.
    #[must_use]
    pub fn claim(&self, world: &World, basis: Basis, send_before: u8) -> Claim {
        let attempt = world.ledger.operation.history.attempts + 1;
        Claim {
            attempt: AttemptNumber(attempt),
            owner: self.owner(attempt),
            basis,
            generation: Generation(1),
            outbound_key: Some(self.names.key.clone()),
            send_before: tick(send_before),
            settle_by: None,
            dispatch: self.dispatch,
        }
    }

    /// What `decide` answers to the call that made the operation, or to one with other arguments.
    #[must_use]
    pub fn told(&self, operation: &Operation, arguments: &Canonical) -> Option<Decision> {
        if self.is(Mutant::FingerprintIgnored) {
            return Some(standing(operation));
        }
        let request = Request { tool: &operation.binding.tool, arguments };
        decide(operation, request, &FingerprintKeys::unkeyed()).ok()
    }

    /// The person's name, for a decision.
    #[must_use]
    pub fn decision(&self, verdict: Verdict) -> Event {
        observed(About::EveryUncertain, verdict, Source::Operator { by: self.names.person.clone() })
    }
}

/// An observation without words.
#[must_use]
pub fn observed(about: About, verdict: Verdict, source: Source) -> Event {
    Event::Observe(Observation { about, verdict, source, next_check: None, note: None })
}

impl Model for Life {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            ledger: Ledger::of(self.created.clone()),
            destination: destination::Destination::default(),
            requests: Vec::new(),
            answers: Vec::new(),
            tasks: Vec::new(),
            asked: None,
            conflicts_sent: 0,
            sent_directly: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let operation = &world.ledger.operation;
        let room = operation.history.attempts < self.bounds.attempts;
        match &operation.state {
            State::Approved(_) => {
                if room {
                    actions.push(Action::Call);
                }
                actions.push(Action::Withdraw);
                if operation.history.in_disagreement() {
                    self.decisions(world, actions);
                }
                if self.is(Mutant::SecondPathWithoutGuard) {
                    actions.push(Action::SendDirectly);
                }
            }
            State::Pending(pending) => {
                actions.push(Action::ClaimFromOldRead);
                if pending.attempt.begun_at.is_some() {
                    actions.push(Action::RecoverFromOldRead);
                }
                if world.task(pending.attempt.number.0).is_none() {
                    actions.push(Action::Recover);
                } else {
                    actions.push(Action::Mistake);
                }
            }
            State::Unknown(_) => {
                if room {
                    actions.extend([Action::Redrive, Action::ClaimFromOldRead]);
                }
                if world.asked.is_none() && self.kind == Kind::Lookup {
                    actions.push(Action::Ask);
                }
                self.decisions(world, actions);
                if self.is(Mutant::SecondPathWithoutGuard) {
                    actions.push(Action::SendDirectly);
                }
            }
            State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
                if operation.binding.arguments.present().is_some() && world.answers.is_empty() {
                    actions.push(Action::Purge);
                }
            }
            State::Proposed(_) => {}
        }
        actions.push(Action::CallWithOtherArguments);
        for task in &world.tasks {
            self.actions_of(task, world, actions);
        }
        for request in &world.requests {
            actions.push(Action::Execute(request.attempt));
            actions.push(Action::TurnAway(request.attempt));
            // Lost sooner or later is the same to everybody: nobody sees a request on its way.
            if world.now >= request.arrives_by {
                actions.push(Action::Lose(request.attempt));
            }
        }
        actions.extend(
            world.answers.iter().filter(|answer| world.task(answer.attempt).is_some()).copied().map(Action::Answer),
        );
        if world.asked.is_some() {
            actions.push(Action::Hear);
        }
        let nothing_is_due = world.requests.iter().all(|request| world.now < request.arrives_by);
        // Before the first claim time changes nothing; after the end only what is on its way does.
        let something_can_come = (world.task(1).is_some() || operation.history.attempts > 0) && !operation.is_settled()
            || !world.requests.is_empty();
        if world.now < self.bounds.ticks && nothing_is_due && something_can_come {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Call => self.call(&mut world)?,
            Action::ClaimFromOldRead => self.take(&mut world, Basis::NoEffectSoFar, last.now + 1)?,
            Action::CallWithOtherArguments => match self.told(&world.ledger.operation, &self.other_arguments)? {
                Decision::Ready if world.conflicts_sent == 0 => world.conflicts_sent += 1,
                Decision::Ready
                | Decision::Conflict(_)
                | Decision::ApprovalRequired
                | Decision::InProgress
                | Decision::Unknown
                | Decision::Replay
                | Decision::Rejected
                | Decision::Closed
                | Decision::Expired => return None,
            },
            Action::Begin(attempt) => {
                let event = Event::Begin { attempt: AttemptNumber(attempt), owner: self.owner(attempt) };
                match world.ledger.apply(&event, world.now) {
                    Ok(()) => world.advance(attempt, Stage::Begun),
                    // A claim that is lost forbids the dispatch.
                    Err(_) => world.drop_task(attempt),
                }
            }
            Action::Send(attempt) => {
                let arrives_by = world.task(attempt)?.send_before + 1;
                world.send(Sent { attempt, arrives_by });
                world.advance(attempt, Stage::Sent);
            }
            Action::TooLate(attempt) => {
                self.hand_over(&mut world, attempt, Verdict::NotSent(NotSent::TooLate))?;
                world.drop_task(attempt);
            }
            Action::StopWaiting(attempt) => {
                self.hand_over(&mut world, attempt, Verdict::Lost(Cause::ReplyLost))?;
                world.advance(attempt, Stage::GaveUp);
            }
            Action::Crash(attempt) => {
                world.drop_task(attempt);
                // Nobody is left to take it.
                world.answers.retain(|answer| answer.attempt != attempt);
            }
            Action::Execute(attempt) => {
                take_request(&mut world, attempt)?;
                let effect = world.destination.execute(self.kind, world.now);
                if world.task(attempt).is_some() {
                    world.answer(Answered { attempt, reply: Reply::Done(effect) });
                }
            }
            Action::TurnAway(attempt) => {
                take_request(&mut world, attempt)?;
                if world.task(attempt).is_some() {
                    world.answer(Answered { attempt, reply: Reply::TurnedAway });
                }
            }
            Action::Lose(attempt) => take_request(&mut world, attempt)?,
            Action::Answer(answer) => self.take_answer(&mut world, answer)?,
            Action::Recover | Action::Mistake => self.recover(&mut world)?,
            Action::RecoverFromOldRead => recover_as_unsent(&mut world)?,
            Action::Redrive => self.redrive(&mut world)?,
            Action::Ask => {
                world.asked = Some(Asked {
                    at: world.now,
                    attempts: world.ledger.operation.state.uncertain().iter().map(|one| one.attempt.0).collect(),
                    shown: world.destination.list(world.now),
                });
            }
            Action::Hear => self.hear(&mut world)?,
            Action::Decide(choice) => self.decide(&mut world, choice)?,
            Action::Withdraw => apply(&mut world, &Event::Close(CloseReason::Withdrawn))?,
            Action::Purge => {
                apply(&mut world, &Event::Purge(PurgeScope::Everything))?;
                if self.is(Mutant::PurgeFrees) {
                    world.ledger.operation = self.created.clone();
                }
            }
            Action::SendDirectly => {
                if world.sent_directly > 0 {
                    return None;
                }
                world.sent_directly += 1;
                let arrives_by = world.now + 1;
                world.send(Sent { attempt: 0, arrives_by });
            }
            Action::Tick => world.now += 1,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all()
    }
}

impl Life {
    fn actions_of(&self, task: &Task, world: &World, actions: &mut Vec<Action>) {
        let attempt = task.attempt;
        let in_time = world.now < task.send_before;
        match task.stage {
            Stage::SentUnclaimed => actions.push(Action::Call),
            Stage::Claimed if in_time => actions.push(Action::Begin(attempt)),
            Stage::Begun if in_time => actions.push(Action::Send(attempt)),
            Stage::Claimed | Stage::Begun => actions.push(Action::TooLate(attempt)),
            Stage::Sent => actions.push(Action::StopWaiting(attempt)),
            // Its death is the same as an answer that never comes.
            Stage::GaveUp => return,
        }
        actions.push(Action::Crash(attempt));
    }

    /// What a truthful and careful person may decide now: nothing, while anything can still happen.
    fn decisions(&self, world: &World, actions: &mut Vec<Action>) {
        if !world.is_quiet() {
            return;
        }
        if world.destination.effects.is_empty() {
            actions.extend([Choice::Again, Choice::Never].map(Action::Decide));
        } else {
            actions.push(Action::Decide(Choice::Done));
        }
    }
}

/// The uncertain attempts of an unknown operation.
#[must_use]
pub fn unknown(operation: &Operation) -> Option<&Unknown> {
    match &operation.state {
        State::Unknown(unknown) => Some(unknown),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}
