//! What must hold in every reachable world, and what must be reachable so that it is not held of nothing.

use onceward_core::event::{About, Basis, Cause, CloseReason, Event, NoEffect, Source, Verdict};
use onceward_core::key::AttemptNumber;
use onceward_core::operation::Operation;
use onceward_core::state::State;
use stateright::Property;

use crate::destination::{receipt, tick};
use crate::ledger;
use crate::model::{Life, observed, unknown};
use crate::world::World;

/// The effect happens at most once, as long as no person decides wrongly.
pub const AT_MOST_ONE_EFFECT: &str = "at most one effect";
/// A claim needs a permit while an attempt may have had its effect.
pub const NO_BLIND_CLAIM: &str = "no claim without a permit while an attempt is uncertain";
/// An attempt that may have had its effect stays known until evidence says otherwise.
pub const NONE_FORGOTTEN: &str = "no uncertain attempt is forgotten";
/// A final state is left by nothing.
pub const FINAL_IS_FINAL: &str = "a final state never changes";
/// What the destination answered to a living owner is in the row or in the journal.
pub const NO_RECEIPT_LOST: &str = "every receipt that arrived is kept";
/// The receipt in the row names an effect of this operation.
pub const OWN_RECEIPT: &str = "the stored receipt is the operation's own";
/// A call with other arguments never leads to a dispatch.
pub const NO_CONFLICT_SENT: &str = "a conflicting call is never dispatched";
/// From every state somebody can move it on, and a person can settle it.
pub const A_WAY_OUT: &str = "every state has a way out";

/// All of them.
#[must_use]
pub fn all() -> Vec<Property<Life>> {
    vec![
        Property::always(AT_MOST_ONE_EFFECT, |_, world: &World| world.destination.effects.len() <= 1),
        Property::always(NO_BLIND_CLAIM, |_, world: &World| !world.ledger.blind_claim),
        Property::always(NONE_FORGOTTEN, |_, world: &World| !world.ledger.forgotten),
        Property::always(FINAL_IS_FINAL, |_, world: &World| {
            world.ledger.settled.is_none() || ledger::settled(&world.ledger.operation) == world.ledger.settled
        }),
        Property::always(NO_RECEIPT_LOST, |_, world: &World| world.ledger.arrived.is_subset(&world.ledger.kept)),
        Property::always(OWN_RECEIPT, |_, world: &World| {
            let named = world.ledger.settled.as_ref().and_then(|settled| settled.effect);
            named.is_none_or(|effect| usize::from(effect) < world.destination.effects.len())
        }),
        Property::always(NO_CONFLICT_SENT, |_, world: &World| world.conflicts_sent == 0),
        Property::always(A_WAY_OUT, has_a_way_out),
        Property::sometimes("it succeeds", |_, world: &World| {
            matches!(world.ledger.operation.state, State::Succeeded(_))
        }),
        Property::sometimes("two attempts are uncertain at once", |_, world: &World| {
            unknown(&world.ledger.operation).is_some_and(|unknown| unknown.attempts().len() == 2)
                // Without a key no second attempt is made while one is uncertain.
                || world.ledger.operation.history.attempts == 2
        }),
        Property::sometimes(
            "an uncertain attempt turns out to have had its effect",
            |_, world: &World| matches!(&world.ledger.operation.state, State::Succeeded(success) if success.recovered),
        ),
        Property::sometimes("it is unknown, and was never executed", |_, world: &World| {
            world.is_quiet() && world.destination.effects.is_empty() && unknown(&world.ledger.operation).is_some()
        }),
    ]
}

/// Whether somebody can move it on: its owner or recovery while it is pending, a person while it is unknown, a caller while
/// it is free.
fn has_a_way_out(life: &Life, world: &World) -> bool {
    let at = tick(world.now);
    let becomes = |operation: &Operation, event: &Event| operation.clone().step(event, at).ok();
    let operation = &world.ledger.operation;
    match &operation.state {
        State::Proposed(_) => becomes(operation, &Event::Close(CloseReason::Declined)).is_some(),
        State::Approved(_) => {
            let closes = becomes(operation, &Event::Close(CloseReason::Withdrawn)).is_some();
            let free = if operation.history.in_disagreement() {
                becomes(operation, &life.decision(Verdict::NoEffect(NoEffect::Decided)))
            } else {
                Some(operation.clone())
            };
            let claim = Event::Claim(life.claim(world, Basis::NoEffectSoFar, world.now + 1));
            closes && free.is_some_and(|free| becomes(&free, &claim).is_some())
        }
        State::Pending(pending) => {
            let owner = pending.attempt.owner.clone();
            let about = About::Attempt(AttemptNumber(operation.history.attempts));
            let lost = observed(about, Verdict::Lost(Cause::OwnerLost), Source::Recovery { owner });
            becomes(operation, &lost).is_some_and(|after| unknown(&after).is_some())
        }
        State::Unknown(_) => {
            let done = life.decision(Verdict::Effect(receipt(0, world.now)));
            let not_done = life.decision(Verdict::NoEffect(NoEffect::Decided));
            let never = Event::Close(CloseReason::ConfirmedNotDone);
            becomes(operation, &done).is_some_and(|after| after.is_settled())
                && becomes(operation, &never).is_some_and(|after| after.is_settled())
                && becomes(operation, &not_done).is_some_and(|after| matches!(after.state, State::Approved(_)))
        }
        State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => true,
    }
}
