//! What the actors do: callers, owners, recovery, the reconciler and a person. Each asks the rules and obeys.

use onceward_core::decide::Decision;
use onceward_core::event::{
    About, Basis, Cause, Claim, CloseReason, DispatchMark, Event, NoEffect, NotSent, Source, Verdict,
};
use onceward_core::evidence::{
    Absence, AbsenceCase, ChildProcess, Completeness, Presence, RecognisedBy, RedriveCase, ScopeEquality, absence,
    may_redrive, presence,
};
use onceward_core::key::AttemptNumber;
use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::state::{Ready, State, Uncertain};
use onceward_core::step::Refusal;
use onceward_core::time::Timestamp;

use crate::destination::{LOOKALIKE, Sent, receipt, tick};
use crate::model::{Choice, Life, observed};
use crate::mutant::Mutant;
use crate::world::{Answered, Asked, Reply, Stage, Task, World};

impl Life {
    pub(crate) fn call(&self, world: &mut World) -> Option<()> {
        if self.is(Mutant::ClaimAfterDispatch) {
            return self.call_and_claim_afterwards(world);
        }
        match self.told(&world.ledger.operation, &self.arguments)? {
            Decision::Ready => {}
            Decision::Conflict(_)
            | Decision::ApprovalRequired
            | Decision::InProgress
            | Decision::Unknown
            | Decision::Replay
            | Decision::Rejected
            | Decision::Closed
            | Decision::Expired => return None,
        }
        self.take(world, Basis::NoEffectSoFar, world.now + 1)
    }

    pub(crate) fn take(&self, world: &mut World, basis: Basis, send_before: u8) -> Option<()> {
        let claim = self.claim(world, basis, send_before);
        let attempt = claim.attempt.0;
        apply(world, &Event::Claim(claim))?;
        let stage = match self.dispatch {
            DispatchMark::WithClaim => Stage::Begun,
            DispatchMark::Announced => Stage::Claimed,
        };
        world.add_task(Task { attempt, send_before, stage });
        Some(())
    }

    /// The mutant's order: the request first, its record when there is time.
    fn call_and_claim_afterwards(&self, world: &mut World) -> Option<()> {
        let unclaimed = world.tasks.iter().find(|task| task.stage == Stage::SentUnclaimed).map(|task| task.attempt);
        match unclaimed {
            None => {
                let attempt = world.ledger.operation.history.attempts + 1;
                world.add_task(Task { attempt, send_before: world.now + 1, stage: Stage::SentUnclaimed });
                let arrives_by = world.now + 1;
                world.send(Sent { attempt, arrives_by });
            }
            Some(attempt) => {
                let claim = Claim {
                    dispatch: DispatchMark::WithClaim,
                    ..self.claim(world, Basis::NoEffectSoFar, world.now + 1)
                };
                apply(world, &Event::Claim(claim))?;
                world.advance(attempt, Stage::Sent);
            }
        }
        Some(())
    }

    pub(crate) fn redrive(&self, world: &mut World) -> Option<()> {
        let permit = {
            let operation = &world.ledger.operation;
            may_redrive(&RedriveCase {
                pinned: &self.contract,
                current: &self.contract,
                scope: ScopeEquality::Same,
                uncertain: operation.state.uncertain(),
                disproved: &operation.history.disproved,
                last_attempt: AttemptNumber(operation.history.attempts),
                now: tick(world.now),
            })
            .ok()?
        };
        let send_before = (world.now + 1..).take_while(|number| tick(*number) <= permit.valid_until()).next()?;
        self.take(world, Basis::Redrive(permit), send_before)
    }

    /// What an owner learned goes into the ledger; if its claim is lost, as late evidence (R1).
    pub(crate) fn hand_over(&self, world: &mut World, attempt: u32, verdict: Verdict) -> Option<()> {
        let before = world.ledger.operation.clone();
        let about = About::Attempt(AttemptNumber(attempt));
        let own = observed(about, verdict.clone(), Source::Owner(self.owner(attempt)));
        match world.ledger.apply(&own, world.now) {
            Ok(()) => self.forget(world, &before, &own),
            Err(Refusal::ClaimLost) if self.is(Mutant::LateAnswerDropped) => {}
            Err(Refusal::ClaimLost) => {
                let late = observed(about, verdict, Source::LateAnswer);
                world.ledger.apply(&late, world.now).ok()?;
            }
            Err(_) => return None,
        }
        Some(())
    }

    /// The mutant that reads the latest attempt's end as the operation's.
    fn forget(&self, world: &mut World, before: &Operation, event: &Event) {
        let more_were_uncertain = match &before.state {
            State::Pending(pending) => !pending.earlier.is_empty(),
            State::Proposed(_)
            | State::Approved(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => false,
        };
        let disproved =
            matches!(event, Event::Observe(seen) if matches!(seen.verdict, Verdict::NotSent(_) | Verdict::NoEffect(_)));
        if self.is(Mutant::UncertainAttemptForgotten) && more_were_uncertain && disproved {
            world.ledger.operation.state = State::Approved(Ready::default());
            world.ledger.judge(before, event);
        }
    }

    pub(crate) fn take_answer(&self, world: &mut World, answer: Answered) -> Option<()> {
        world.answers.retain(|known| *known != answer);
        let verdict = match answer.reply {
            Reply::Done(effect) => {
                world.ledger.arrived.insert(effect);
                let stored = if self.is(Mutant::ReceiptSwapped) { LOOKALIKE } else { effect };
                Verdict::Effect(learned(receipt(stored, world.now)))
            }
            Reply::TurnedAway => Verdict::NoEffect(NoEffect::TurnedAway),
        };
        self.hand_over(world, answer.attempt, verdict)?;
        world.drop_task(answer.attempt);
        Some(())
    }

    pub(crate) fn recover(&self, world: &mut World) -> Option<()> {
        let State::Pending(pending) = &world.ledger.operation.state else { return None };
        if self.is(Mutant::LeaseExpiresIntoAClaim) {
            world.ledger.operation.state = State::Approved(Ready::default());
            return Some(());
        }
        let attempt = &pending.attempt;
        let verdict = match attempt.begun_at {
            None => Verdict::NotSent(NotSent::NeverBegun),
            Some(_) => Verdict::Lost(Cause::OwnerLost),
        };
        let event =
            observed(About::Attempt(attempt.number), verdict, Source::Recovery { owner: attempt.owner.clone() });
        apply(world, &event)
    }

    /// Reads a lookup's answer. It speaks of the attempts that were uncertain when it was asked, and of no other.
    pub(crate) fn hear(&self, world: &mut World) -> Option<()> {
        let asked = world.asked.take()?;
        let mut found: Vec<_> = asked.shown.iter().map(|shown| shown.candidate(asked.at)).collect();
        if self.is(Mutant::PresenceWithoutMarker) {
            found.iter_mut().for_each(|candidate| candidate.by = RecognisedBy::OurMarker);
        }
        let ours = found.iter().any(|candidate| candidate.by != RecognisedBy::Resemblance);
        let verdict = match presence(&found) {
            Presence::Ours(receipt) => Verdict::Effect(learned(receipt)),
            Presence::OtherEffect(kind) => Verdict::OtherEffect(kind),
            // Somebody else's thing does not show that ours exists, nor that it does not: only what carries our name counts.
            Presence::Nothing | Presence::Candidates(_) if !ours => return self.hear_nothing(world, &asked),
            Presence::Nothing | Presence::Candidates(_) => return Some(()),
        };
        let event = observed(About::EveryUncertain, verdict, Source::Lookup);
        // What it shows may be known by now.
        let _ = world.ledger.apply(&event, world.now);
        Some(())
    }

    fn hear_nothing(&self, world: &mut World, asked: &Asked) -> Option<()> {
        let uncertain: Vec<Uncertain> = match &world.ledger.operation.state {
            State::Pending(_) | State::Unknown(_) => world.ledger.operation.state.uncertain(),
            State::Proposed(_) | State::Approved(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
                &[]
            }
        }
        .iter()
        .filter(|one| asked.attempts.contains(&one.attempt.0))
        .cloned()
        .collect();
        let says = absence(&AbsenceCase {
            contract: &self.contract,
            uncertain: &uncertain,
            asked_at: tick(asked.at),
            completeness: Completeness::Whole,
            child: ChildProcess::NotOne,
            scope: ScopeEquality::Same,
        });
        let verdict = match says {
            Absence::Proof => Verdict::NoEffect(NoEffect::ProvedAbsent),
            Absence::Counts { .. } => Verdict::Lost(Cause::AbsentOnce),
            Absence::SaysNothing { .. } => return Some(()),
        };
        for one in &uncertain {
            apply(world, &observed(About::Attempt(one.attempt), verdict.clone(), Source::Lookup))?;
        }
        Some(())
    }

    pub(crate) fn decide(&self, world: &mut World, choice: Choice) -> Option<()> {
        let not_done = Verdict::NoEffect(NoEffect::Decided);
        match choice {
            Choice::Done => {
                let receipt = learned(receipt(0, world.now));
                apply(world, &self.decision(Verdict::Effect(receipt)))
            }
            Choice::Again => apply(world, &self.decision(not_done)),
            Choice::Never => {
                apply(world, &self.decision(not_done))?;
                apply(world, &Event::Close(CloseReason::ConfirmedNotDone))
            }
        }
    }
}

/// Recovery as one that saw the attempt before it began: a mistake that the rules must refuse.
pub(crate) fn recover_as_unsent(world: &mut World) -> Option<()> {
    let State::Pending(pending) = &world.ledger.operation.state else { return None };
    let source = Source::Recovery { owner: pending.attempt.owner.clone() };
    let about = About::Attempt(pending.attempt.number);
    apply(world, &observed(about, Verdict::NotSent(NotSent::NeverBegun), source))
}

/// A receipt without the time at which it was learned, which no rule reads.
fn learned(receipt: Receipt) -> Receipt {
    Receipt { received_at: Timestamp::EPOCH, ..receipt }
}

pub(crate) fn apply(world: &mut World, event: &Event) -> Option<()> {
    world.ledger.apply(event, world.now).ok()
}

pub(crate) fn take_request(world: &mut World, attempt: u32) -> Option<()> {
    let at = world.requests.iter().position(|request| request.attempt == attempt)?;
    world.requests.remove(at);
    Some(())
}
