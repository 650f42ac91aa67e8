//! Ten mistakes, each planted by hand, and the promise that each is seen to break.

use onceward_core::canonical::Canonical;
use onceward_core::event::{About, Basis, Claim, DispatchMark, Event, Source, Verdict};
use onceward_core::key::{AttemptNumber, Generation, OwnerId};
use onceward_core::operation::Operation;
use onceward_model::bounds;
use onceward_model::destination::{Kind, receipt, tick};
use onceward_model::grant::{NO_RECEIPT_WITHOUT_GRANT, Replays};
use onceward_model::ledger;
use onceward_model::model::{Life, observed};
use onceward_model::mutant::Mutant;
use onceward_model::property;
use stateright::{Checker, HasDiscoveries, Model};

/// The promise that a mistake breaks, and where that shows soonest.
fn promise_of(mutant: Mutant) -> (&'static str, Kind) {
    match mutant {
        Mutant::LeaseExpiresIntoAClaim | Mutant::ClaimAfterDispatch | Mutant::SecondPathWithoutGuard => {
            (property::AT_MOST_ONE_EFFECT, Kind::Nothing)
        }
        Mutant::FingerprintIgnored => (property::NO_CONFLICT_SENT, Kind::Nothing),
        Mutant::ReceiptSwapped => (property::OWN_RECEIPT, Kind::Nothing),
        Mutant::PurgeFrees => (property::FINAL_IS_FINAL, Kind::Nothing),
        Mutant::LateAnswerDropped => (property::NO_RECEIPT_LOST, Kind::Nothing),
        // Only where a key is recognised is another attempt made while one is uncertain.
        Mutant::UncertainAttemptForgotten => (property::NONE_FORGOTTEN, Kind::Key),
        Mutant::PresenceWithoutMarker => (property::OWN_RECEIPT, Kind::Lookup),
        Mutant::ReplayWithoutAuthorization => (NO_RECEIPT_WITHOUT_GRANT, Kind::Nothing),
    }
}

/// The promises that are seen broken when the mistake is planted, each with the fewest steps to it.
fn seen_broken(mutant: Mutant) -> Vec<(&'static str, usize)> {
    let (_, kind) = promise_of(mutant);
    match mutant {
        Mutant::ReplayWithoutAuthorization => broken(Replays { done: done(), mutant: Some(mutant) }),
        Mutant::LeaseExpiresIntoAClaim
        | Mutant::FingerprintIgnored
        | Mutant::ReceiptSwapped
        | Mutant::ClaimAfterDispatch
        | Mutant::PurgeFrees
        | Mutant::LateAnswerDropped
        | Mutant::UncertainAttemptForgotten
        | Mutant::SecondPathWithoutGuard
        | Mutant::PresenceWithoutMarker => {
            let dispatch = DispatchMark::WithClaim;
            broken(Life::new(kind, dispatch, bounds::in_every_run(kind, dispatch), Some(mutant)).unwrap())
        }
    }
}

fn catches(mutant: Mutant) {
    let (promise, _) = promise_of(mutant);
    let seen = seen_broken(mutant);
    assert!(seen.iter().any(|(name, _)| *name == promise), "{mutant:?} should break {promise:?}; broken were {seen:?}");
}

fn broken<M>(model: M) -> Vec<(&'static str, usize)>
where
    M: Model + Send + Sync + 'static,
    M::State: std::hash::Hash + Send + Sync + Clone + std::fmt::Debug + PartialEq + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + 'static,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut seen: Vec<_> = checker
        .discoveries()
        .into_iter()
        .filter(|(name, _)| checker.model().property(name).expectation.discovery_is_failure())
        .map(|(name, path)| (name, path.into_actions().len()))
        .collect();
    seen.sort_unstable();
    seen
}

#[test]
fn the_model_catches_a_lease_that_expires_into_a_claim() {
    catches(Mutant::LeaseExpiresIntoAClaim);
}

#[test]
fn the_model_catches_an_ignored_fingerprint() {
    catches(Mutant::FingerprintIgnored);
}

#[test]
fn the_model_catches_a_swapped_receipt() {
    catches(Mutant::ReceiptSwapped);
}

#[test]
fn the_model_catches_a_claim_after_the_dispatch() {
    catches(Mutant::ClaimAfterDispatch);
}

#[test]
fn the_model_catches_a_purge_that_frees_the_identity() {
    catches(Mutant::PurgeFrees);
}

#[test]
fn the_model_catches_a_late_answer_that_is_dropped() {
    catches(Mutant::LateAnswerDropped);
}

#[test]
fn the_model_catches_an_uncertain_attempt_that_is_forgotten() {
    catches(Mutant::UncertainAttemptForgotten);
}

#[test]
fn the_model_catches_a_second_path_without_a_guard() {
    catches(Mutant::SecondPathWithoutGuard);
}

#[test]
fn the_model_catches_a_presence_that_is_accepted_without_a_marker() {
    catches(Mutant::PresenceWithoutMarker);
}

#[test]
fn the_model_catches_a_replay_without_authorization() {
    catches(Mutant::ReplayWithoutAuthorization);
}

#[test]
fn a_revoked_grant_shows_no_receipt() {
    Replays { done: done(), mutant: None }.checker().spawn_bfs().join().assert_properties();
}

/// An operation that was done, by the rules.
fn done() -> Operation {
    let owner = OwnerId::parse("owner").unwrap();
    let claim = Event::Claim(Claim {
        attempt: AttemptNumber(1),
        owner: owner.clone(),
        basis: Basis::NoEffectSoFar,
        generation: Generation(1),
        outbound_key: None,
        send_before: tick(1),
        settle_by: None,
        dispatch: DispatchMark::WithClaim,
    });
    let answered = observed(About::Attempt(AttemptNumber(1)), Verdict::Effect(receipt(0, 0)), Source::Owner(owner));
    [claim, answered]
        .iter()
        .try_fold(ledger::created(&Canonical::empty_object()), |operation, event| operation.step(event, tick(0)))
        .unwrap()
}

#[test]
fn every_mutant_is_caught_and_a_table_says_by_what() {
    println!("| mutant | destination | promise seen broken | steps |\n|---|---|---|---|");
    for mutant in Mutant::ALL {
        let (_, kind) = promise_of(mutant);
        let seen = seen_broken(mutant);
        assert!(!seen.is_empty(), "{mutant:?} was not caught");
        for (promise, steps) in seen {
            println!("| {mutant:?} | {kind:?} | {promise} | {steps} |");
        }
    }
}
