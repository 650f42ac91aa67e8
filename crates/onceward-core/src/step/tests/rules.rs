//! The rules by name, and every hole that was found in them.

use crate::event::{
    About, Basis, Cause, Claim, CloseReason, DispatchMark, Event, NoEffect, NotSent, OtherEffect, PurgeScope, Source,
    Verdict,
};
use crate::key::AttemptNumber;
use crate::limits::{ATTEMPTS_MAX, DISPROVED_MAX};
use crate::operation::{DisagreementKind, Operation};
use crate::receipt::Kept;
use crate::samples::{
    after, approved, attempted, claim, claimed, now, observe, operations, owner, owner_saw, permit, person, proposed,
    receipt, rejection, second,
};
use crate::state::{Hold, State};
use crate::step::Refusal;

const EVERY: About = About::EveryUncertain;

fn about(attempt: u32) -> About {
    About::Attempt(AttemptNumber(attempt))
}

fn lost() -> Operation {
    attempted(&approved(), Verdict::Lost(Cause::ReplyLost))
}

fn decided() -> Verdict {
    Verdict::NoEffect(NoEffect::Decided)
}

fn operator() -> Source {
    Source::Operator { by: person() }
}

fn uncertain(operation: &Operation) -> Vec<u32> {
    operation.state.uncertain().iter().map(|one| one.attempt.0).collect()
}

fn kind(operation: &Operation) -> Option<DisagreementKind> {
    operation.history.disagreement.as_ref().map(|known| known.kind)
}

fn does(operation: &Operation, event: Event) -> Operation {
    after(operation.clone(), &[event]).expect("the move is lawful")
}

fn claim_again(operation: &Operation) -> Result<Operation, Refusal> {
    let claim = claim(operation, Basis::NoEffectSoFar, DispatchMark::WithClaim);
    operation.clone().step(&Event::Claim(claim), now())
}

// R1

#[test]
fn r1_an_answer_that_finds_its_claim_lost_settles_as_late_evidence() {
    let recovered = does(
        &claimed(&approved(), DispatchMark::WithClaim),
        observe(about(1), Verdict::Lost(Cause::OwnerLost), Source::Recovery { owner: owner(1) }),
    );
    let answer = Verdict::Effect(receipt("T-1"));
    assert_eq!(recovered.clone().step(&owner_saw(1, answer.clone()), now()), Err(Refusal::ClaimLost));
    let settled = does(&recovered, observe(about(1), answer, Source::LateAnswer));
    assert!(matches!(settled.state, State::Succeeded(success) if success.recovered));
}

#[test]
fn r1_a_late_answer_settles_while_the_next_attempt_runs_and_the_next_ones_answer_is_compared() {
    let second_runs = claimed(&lost(), DispatchMark::WithClaim);
    let settled = does(&second_runs, observe(about(1), Verdict::Effect(receipt("T-1")), Source::LateAnswer));
    assert!(matches!(&settled.state, State::Succeeded(success) if success.attempt.0 == 1));
    let same = does(&settled, observe(about(2), Verdict::Effect(receipt("T-1")), Source::LateAnswer));
    assert_eq!(kind(&same), None);
    let other = does(&settled, observe(about(2), Verdict::Effect(receipt("T-2")), Source::LateAnswer));
    assert_eq!(kind(&other), Some(DisagreementKind::ReceiptsDiffer));
    assert_eq!(other.state, settled.state, "the receipt stays");
}

// R2

#[test]
fn r2_an_erased_receipt_is_still_compared_by_its_effect_id() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let erased = does(&done, Event::Purge(PurgeScope::Everything));
    let same = does(&erased, observe(about(1), Verdict::Effect(receipt("T-1")), Source::Webhook));
    assert_eq!(kind(&same), None);
    let other = does(&erased, observe(about(1), Verdict::Effect(receipt("T-2")), Source::Webhook));
    assert_eq!(kind(&other), Some(DisagreementKind::ReceiptsDiffer));
}

#[test]
fn r2_a_success_that_is_denied_keeps_its_receipt_and_makes_people_look() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let denied = does(&done, observe(about(1), Verdict::NoEffect(NoEffect::ProvedAbsent), Source::Lookup));
    assert_eq!(kind(&denied), Some(DisagreementKind::ReceiptDenied));
    assert_eq!(denied.state, done.state);
}

// R3

#[test]
fn r3_an_end_of_the_third_attempt_without_effect_returns_to_unknown() {
    let two = attempted(&lost(), Verdict::Lost(Cause::ReplyLost));
    for end in [
        Verdict::NotSent(NotSent::NoConnection),
        Verdict::NoEffect(NoEffect::TurnedAway),
        Verdict::Refusal(rejection()),
    ] {
        let ended = attempted(&two, end);
        assert_eq!(ended.state.name(), "unknown");
        assert_eq!(uncertain(&ended), [1, 2]);
        assert_eq!(claim_again(&ended), Err(Refusal::Uncertain));
    }
}

#[test]
fn r3_an_operation_is_free_only_when_its_last_uncertain_attempt_is_disproved() {
    let two = attempted(&lost(), Verdict::Lost(Cause::ReplyLost));
    let absent = |attempt| observe(about(attempt), Verdict::NoEffect(NoEffect::ProvedAbsent), Source::Lookup);
    let one = does(&two, absent(2));
    assert_eq!((one.state.name(), uncertain(&one)), ("unknown", vec![1]));
    assert_eq!(does(&one, absent(1)).state.name(), "approved");
}

// R5, R6

#[test]
fn r5_a_claim_whose_time_to_send_has_passed_is_refused() {
    let claim = Claim { send_before: now(), ..claim(&approved(), Basis::NoEffectSoFar, DispatchMark::WithClaim) };
    assert_eq!(approved().step(&Event::Claim(claim), now()), Err(Refusal::TooLate));
}

#[test]
fn r6_a_redrive_needs_a_permit_for_this_attempt_this_key_and_this_moment() {
    let lost = lost();
    let permit = permit(&lost, now()).expect("the contract recognises the key");
    let good = claim(&lost, Basis::Redrive(permit.clone()), DispatchMark::WithClaim);
    assert!(lost.clone().step(&Event::Claim(good.clone()), now()).is_ok());
    let step = |claim: Claim, at| lost.clone().step(&Event::Claim(claim), at).map(|_| ());
    assert_eq!(step(Claim { outbound_key: None, ..good.clone() }, now()), Err(Refusal::PermitMismatch));
    assert_eq!(step(good.clone(), second(49)), Err(Refusal::PermitMismatch), "the clock went back behind the grant");
    let late = Claim { send_before: permit.valid_until().plus(core::time::Duration::from_secs(1)), ..good.clone() };
    assert_eq!(step(late, now()), Err(Refusal::TooLate));
    let two = attempted(&lost, Verdict::Lost(Cause::ReplyLost));
    let stale = Claim { attempt: AttemptNumber(3), ..good };
    assert_eq!(two.step(&Event::Claim(stale), now()), Err(Refusal::PermitMismatch), "another attempt was made since");
}

#[test]
fn a_stale_view_never_claims() {
    let unsent = attempted(&approved(), Verdict::NotSent(NotSent::NoConnection));
    let stale = claim(&approved(), Basis::NoEffectSoFar, DispatchMark::WithClaim);
    assert_eq!(unsent.step(&Event::Claim(stale), now()), Err(Refusal::Stale { attempts: 1 }));
}

#[test]
fn attempts_end_with_their_limit_and_the_operation_can_still_be_closed() {
    let mut operation = approved();
    operation.history.attempts = ATTEMPTS_MAX;
    assert_eq!(claim_again(&operation), Err(Refusal::TooManyAttempts));
    assert_eq!(does(&operation, Event::Close(CloseReason::Withdrawn)).state.name(), "closed");
}

#[test]
fn attempts_that_never_left_are_not_counted_and_not_piled_up() {
    let mut operation = approved();
    for _ in 0..3 * ATTEMPTS_MAX {
        operation = attempted(&operation, Verdict::NotSent(NotSent::NoConnection));
    }
    assert!(operation.history.disproved.len() <= DISPROVED_MAX);
    assert!(claim_again(&operation).is_ok(), "an outage uses up nothing");
    for _ in 0..ATTEMPTS_MAX {
        operation = attempted(&operation, Verdict::NoEffect(NoEffect::TurnedAway));
    }
    assert_eq!(claim_again(&operation), Err(Refusal::TooManyAttempts), "what left is counted");
}

// R10: an absence that counts

#[test]
fn r10_answers_without_the_effect_count_only_in_a_row() {
    let absent = observe(about(1), Verdict::Lost(Cause::AbsentOnce), Source::Lookup);
    let seen = observe(about(1), Verdict::Lost(Cause::InFlightElsewhere), Source::Lookup);
    let count = |operation: &Operation| operation.state.uncertain()[0].absences;
    let once = does(&lost(), absent.clone());
    assert_eq!(count(&once), 1);
    assert_eq!(once.state.uncertain()[0].cause, Cause::ReplyLost, "why it is uncertain stays the same");
    assert_eq!(count(&does(&once, absent)), 2);
    assert_eq!(count(&does(&once, seen)), 0);
    let no_answer = observe(about(1), Verdict::Lost(Cause::ReplyLost), Source::Lookup);
    assert_eq!(count(&does(&once, no_answer)), 1, "a question without an answer says nothing either way");
}

#[test]
fn r1_a_late_word_that_something_is_there_contradicts_a_proof_of_absence() {
    let absent = does(&lost(), observe(about(1), Verdict::NoEffect(NoEffect::ProvedAbsent), Source::Lookup));
    assert_eq!(absent.state.name(), "approved");
    let late = |cause| does(&absent, observe(about(1), Verdict::Lost(cause), Source::LateAnswer));
    for cause in [Cause::Accepted { handle: None }, Cause::InFlightElsewhere, Cause::KeyMismatch] {
        let after = late(cause);
        assert_eq!(after.state.name(), "unknown");
        assert!(after.history.in_disagreement());
    }
    assert_eq!(late(Cause::ReplyLost).state.name(), "approved", "that it heard nothing either says nothing");
}

#[test]
fn a_lookup_that_found_nothing_must_name_the_attempts_it_was_asked_about() {
    let two = attempted(&lost(), Verdict::Lost(Cause::ReplyLost));
    for verdict in
        [Verdict::NoEffect(NoEffect::ProvedAbsent), Verdict::Lost(Cause::AbsentOnce), Verdict::Refusal(rejection())]
    {
        // It was asked when only attempt 1 had been made, and would now speak of attempt 2 as well.
        let unnamed = observe(EVERY, verdict, Source::Lookup);
        assert_eq!(two.clone().step(&unnamed, now()), Err(Refusal::NoSuchAttempt));
    }
}

// R12

#[test]
fn r12_recovery_cannot_read_a_begun_attempt_as_not_sent() {
    let recovery = |verdict| observe(about(1), verdict, Source::Recovery { owner: owner(1) });
    let unbegun = claimed(&approved(), DispatchMark::Announced);
    let never = Verdict::NotSent(NotSent::NeverBegun);
    assert_eq!(does(&unbegun, recovery(never.clone())).state.name(), "approved");
    let begun = does(&unbegun, Event::Begin { attempt: AttemptNumber(1), owner: owner(1) });
    assert_eq!(begun.clone().step(&recovery(never), now()), Err(Refusal::Begun));
    assert_eq!(does(&begun, recovery(Verdict::Lost(Cause::OwnerLost))).state.name(), "unknown");
}

#[test]
fn r12_beginning_twice_is_refused() {
    let begin = Event::Begin { attempt: AttemptNumber(1), owner: owner(1) };
    let begun = does(&claimed(&approved(), DispatchMark::Announced), begin.clone());
    assert_eq!(begun.step(&begin, now()), Err(Refusal::Begun));
}

#[test]
fn r12_an_owner_that_recovery_gave_up_may_neither_begin_nor_ask_for_time() {
    let recovered = does(
        &claimed(&approved(), DispatchMark::Announced),
        observe(about(1), Verdict::NotSent(NotSent::NeverBegun), Source::Recovery { owner: owner(1) }),
    );
    let (attempt, owner) = (AttemptNumber(1), owner(1));
    let begin = Event::Begin { attempt, owner: owner.clone() };
    assert_eq!(recovered.clone().step(&begin, now()), Err(Refusal::ClaimLost));
    let extend = Event::Extend { attempt, owner, settle_by: second(500) };
    assert_eq!(recovered.step(&extend, now()), Err(Refusal::ClaimLost));
}

#[test]
fn r12_more_time_is_given_only_before_the_time_is_up_and_never_shortens_it() {
    let running = claimed(&approved(), DispatchMark::WithClaim);
    let extend = |settle_by| Event::Extend { attempt: AttemptNumber(1), owner: owner(1), settle_by: second(settle_by) };
    let settle_by = |operation: &Operation| match &operation.state {
        State::Pending(pending) => pending.attempt.settle_by,
        other => panic!("{other:?}"),
    };
    assert_eq!(settle_by(&does(&running, extend(300))), Some(second(300)));
    assert_eq!(settle_by(&does(&running, extend(20))), Some(second(200)));
    assert_eq!(running.step(&extend(300), second(200)), Err(Refusal::TooLate));
}

// R22

#[test]
fn r22_a_restored_proposal_returns_to_approval_and_is_never_dispatched_without_it() {
    let restored = does(&proposed(), observe(EVERY, Verdict::Lost(Cause::Restored), Source::Restore));
    assert_eq!(restored.state.name(), "unknown");
    let absent = does(&restored, observe(about(1), Verdict::NoEffect(NoEffect::ProvedAbsent), Source::Lookup));
    assert_eq!(absent.state.name(), "proposed");
    assert_eq!(claim_again(&absent), Err(Refusal::ApprovalRequired));
    let approved = does(&absent, Event::Approve { by: person() });
    assert!(claim_again(&approved).is_ok());
}

#[test]
fn r22_what_a_restored_ledger_forgot_may_have_been_sent_until_the_restore() {
    let running = claimed(&approved(), DispatchMark::WithClaim);
    let later = second(5_000);
    let restored = running.step(&observe(about(1), Verdict::Lost(Cause::Restored), Source::Restore), later).unwrap();
    assert_eq!(restored.state.uncertain()[0].send_before, later, "an absence counts only from then on");
    let known = lost().step(&observe(EVERY, Verdict::Lost(Cause::Restored), Source::Restore), later).unwrap();
    assert_eq!((known.state.uncertain()[0].send_before, known.state.uncertain()[0].ended_at), (later, None));
}

#[test]
fn r22_an_attempt_that_a_restored_ledger_forgot_cannot_be_repeated_by_any_contract() {
    let restored = does(&approved(), observe(EVERY, Verdict::Lost(Cause::Restored), Source::Restore));
    assert_eq!(uncertain(&restored), [1]);
    assert!(permit(&restored, now()).is_none());
}

// R24

#[test]
fn r24_an_erasure_of_an_unresolved_operation_waits_until_it_is_settled() {
    let queued = does(&lost(), Event::Purge(PurgeScope::Everything));
    assert!(queued.binding.arguments.present().is_some(), "they are needed to settle it");
    let settled = does(&queued, observe(about(1), Verdict::Effect(receipt("T-1")), Source::Lookup));
    assert!(matches!(&settled.state, State::Succeeded(success) if matches!(success.answer, Kept::Erased { .. })));
    assert!(settled.binding.arguments.present().is_none());
    assert_eq!(settled.history.erasure, None);
}

#[test]
fn r24_of_two_queued_erasures_the_larger_one_is_carried_out() {
    let queued = after(lost(), &[Event::Purge(PurgeScope::Everything), Event::Purge(PurgeScope::Arguments)]).unwrap();
    assert_eq!(queued.history.erasure, Some(PurgeScope::Everything));
}

#[test]
fn r083_a_purge_takes_settled_payloads_only_and_never_an_identity() {
    for (name, before) in operations() {
        let after = does(&before, Event::Purge(PurgeScope::Everything));
        assert_eq!(after.key, before.key, "{name}");
        assert_eq!(after.binding.fingerprint, before.binding.fingerprint, "{name}");
        assert_eq!(after.state.name(), before.state.name(), "{name}");
        assert_eq!(after.binding.arguments.present().is_none(), before.is_settled(), "{name}");
    }
}

// R054: crash, throw, 503 × before, after the effect × local, external × two places: none frees an identity after a possible
// effect. What the ledger can see is the same before and after the effect, except where nothing left or the destination says so.

#[test]
fn r054_no_ending_frees_an_identity_after_a_possible_effect() {
    let external = claimed(&approved(), DispatchMark::WithClaim);
    let announced = claimed(&approved(), DispatchMark::Announced);
    let running = does(&announced, Event::Begin { attempt: AttemptNumber(1), owner: owner(1) });
    let redriven = claimed(&lost(), DispatchMark::WithClaim);
    let gone = |attempt: u32, verdict| observe(about(attempt), verdict, Source::Recovery { owner: owner(attempt) });
    let unsent = || Verdict::NotSent(NotSent::NoConnection);
    let shed = || Verdict::NoEffect(NoEffect::TurnedAway);
    let lost = |cause| Verdict::Lost(cause);
    let cells: Vec<(&str, &Operation, Event, &str)> = vec![
        // External: the dispatch begins with the claim.
        ("crash before or after", &external, gone(1, lost(Cause::OwnerLost)), "unknown"),
        ("no connection", &external, owner_saw(1, unsent()), "approved"),
        ("reply lost", &external, owner_saw(1, lost(Cause::ReplyLost)), "unknown"),
        ("reply unreadable", &external, owner_saw(1, lost(Cause::ReplyUnreadable)), "unknown"),
        ("503 before any work, by contract", &external, owner_saw(1, shed()), "approved"),
        ("503 that says nothing", &external, owner_saw(1, lost(Cause::ServerError)), "unknown"),
        ("accepted for later", &external, owner_saw(1, lost(Cause::Accepted { handle: None })), "unknown"),
        ("refused", &external, owner_saw(1, Verdict::Refusal(rejection())), "rejected"),
        // An application's function, before its mark and after it.
        ("crash before the mark", &announced, gone(1, Verdict::NotSent(NotSent::NeverBegun)), "approved"),
        ("given up before the mark", &announced, owner_saw(1, Verdict::NotSent(NotSent::NeverBegun)), "approved"),
        ("overdue before the mark", &announced, gone(1, Verdict::NotSent(NotSent::NeverBegun)), "approved"),
        ("success reported before the mark", &announced, owner_saw(1, Verdict::Effect(receipt("T-1"))), "succeeded"),
        ("crash after the mark", &running, gone(1, lost(Cause::OwnerLost)), "unknown"),
        ("throw after the mark", &running, owner_saw(1, lost(Cause::FunctionFailed)), "unknown"),
        ("overdue after the mark", &running, gone(1, lost(Cause::SettleOverdue)), "unknown"),
        ("503 inside the function", &running, owner_saw(1, lost(Cause::ServerError)), "unknown"),
        // A repetition, while the first attempt is uncertain: whatever this one is, the first stays.
        ("redrive, crash", &redriven, gone(2, lost(Cause::OwnerLost)), "unknown"),
        ("redrive, no connection", &redriven, owner_saw(2, unsent()), "unknown"),
        ("redrive, reply lost", &redriven, owner_saw(2, lost(Cause::ReplyLost)), "unknown"),
        ("redrive, 503 before any work", &redriven, owner_saw(2, shed()), "unknown"),
        ("redrive, 503 that says nothing", &redriven, owner_saw(2, lost(Cause::ServerError)), "unknown"),
        ("redrive, refused", &redriven, owner_saw(2, Verdict::Refusal(rejection())), "unknown"),
        ("redrive, in flight elsewhere", &redriven, owner_saw(2, lost(Cause::InFlightElsewhere)), "unknown"),
        ("redrive, success", &redriven, owner_saw(2, Verdict::Effect(receipt("T-1"))), "succeeded"),
    ];
    assert_eq!(cells.len(), 24);
    for (name, before, event, expected) in cells {
        let after = does(before, event);
        assert_eq!(after.state.name(), expected, "{name}");
        let free = claim_again(&after).is_ok();
        assert_eq!(free, expected == "approved", "{name}");
    }
}

// What the destination says of a credential or of its load

#[test]
fn a_refused_credential_holds_an_operation_and_says_why() {
    let held = |how| match attempted(&approved(), Verdict::NoEffect(how)).state {
        State::Approved(ready) => ready.hold,
        other => panic!("{other:?}"),
    };
    assert_eq!(held(NoEffect::CredentialRefused), Some(Hold::CredentialRefused));
    assert_eq!(held(NoEffect::TurnedAway), Some(Hold::Unreachable));
    assert_eq!(held(NoEffect::ProvedAbsent), None);
}

// A person

#[test]
fn only_a_persons_word_closes_an_unknown_and_age_never_does() {
    for reason in [CloseReason::Declined, CloseReason::Withdrawn, CloseReason::DeadlinePassed] {
        assert_eq!(lost().step(&Event::Close(reason), second(1_000_000)), Err(Refusal::CannotClose));
    }
    assert_eq!(does(&lost(), Event::Close(CloseReason::ConfirmedNotDone)).state.name(), "closed");
}

#[test]
fn a_person_decides_on_what_is_unknown_and_not_on_what_is_running_or_settled() {
    let decision = observe(EVERY, decided(), operator());
    let running = claimed(&approved(), DispatchMark::WithClaim);
    assert_eq!(running.step(&decision, now()), Err(Refusal::AttemptInFlight));
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    assert_eq!(done.step(&decision, now()), Err(Refusal::Settled));
    assert_eq!(does(&lost(), decision).state.name(), "approved");
}

#[test]
fn a_replaced_unknown_keeps_its_uncertain_attempts_as_abandoned_ones() {
    let another = crate::key::OperationId::parse("another").unwrap();
    let closed = does(&lost(), Event::Supersede { by: another, note: None });
    assert_eq!((closed.state.name(), uncertain(&closed)), ("closed", vec![1]));
}

// Holes that were found, each closed

#[test]
fn an_effect_found_by_a_lookup_is_not_refused_because_a_late_answer_had_freed_the_operation() {
    let freed = does(&lost(), observe(about(1), Verdict::NoEffect(NoEffect::TurnedAway), Source::LateAnswer));
    assert_eq!(freed.state.name(), "approved");
    let found = does(&freed, observe(EVERY, Verdict::Effect(receipt("T-1")), Source::Lookup));
    assert_eq!((found.state.name(), kind(&found)), ("succeeded", Some(DisagreementKind::EffectAfterDisproof)));
}

#[test]
fn an_effect_found_by_a_lookup_settles_an_attempt_that_runs_alone() {
    let running = claimed(&approved(), DispatchMark::WithClaim);
    let found = does(&running, observe(EVERY, Verdict::Effect(receipt("T-1")), Source::Lookup));
    assert!(matches!(found.state, State::Succeeded(success) if success.attempt.0 == 1));
}

#[test]
fn an_effect_found_after_an_operation_was_closed_makes_people_look() {
    let closed = does(&lost(), Event::Close(CloseReason::ConfirmedNotDone));
    let found = does(&closed, observe(EVERY, Verdict::Effect(receipt("T-1")), Source::Lookup));
    assert_eq!((found.state.name(), kind(&found)), ("closed", Some(DisagreementKind::EffectAfterClose)));
}

#[test]
fn a_webhook_about_an_earlier_attempt_with_the_same_key_does_not_free_the_running_one() {
    let running = claimed(&approved(), DispatchMark::WithClaim);
    for verdict in [Verdict::NoEffect(NoEffect::TurnedAway), Verdict::Refusal(rejection())] {
        let event = observe(about(1), verdict.clone(), Source::Webhook);
        assert_eq!(running.clone().step(&event, now()), Err(Refusal::AttemptInFlight));
        // A late answer is offered once only: it is recorded, and the attempt stays in its owner's hands.
        assert_eq!(does(&running, observe(about(1), verdict, Source::LateAnswer)).state, running.state);
    }
}

#[test]
fn a_contradiction_about_an_attempt_read_as_never_sent_reopens_it_in_every_state() {
    let unsent = attempted(&approved(), Verdict::NotSent(NotSent::NoConnection));
    let other = || observe(about(1), Verdict::OtherEffect(OtherEffect::OtherParameters), Source::Webhook);
    assert_eq!(uncertain(&does(&unsent, other())), [1]);
    let running = does(&claimed(&unsent, DispatchMark::WithClaim), other());
    assert_eq!((running.state.name(), uncertain(&running)), ("pending", vec![1]));
    let two = does(&attempted(&unsent, Verdict::Lost(Cause::ReplyLost)), other());
    assert_eq!(uncertain(&two), [1, 2]);
}

#[test]
fn a_contradiction_that_outlives_its_attempt_can_be_answered_by_a_person_and_the_operation_goes_on() {
    let unsent = attempted(&approved(), Verdict::NotSent(NotSent::NoConnection));
    let sent_after_all = does(&unsent, observe(about(1), Verdict::Lost(Cause::ReplyLost), Source::LateAnswer));
    assert_eq!(kind(&sent_after_all), Some(DisagreementKind::SentAfterAll));
    let absent = does(&sent_after_all, observe(about(1), Verdict::NoEffect(NoEffect::ProvedAbsent), Source::Lookup));
    assert_eq!(absent.state.name(), "approved");
    assert_eq!(claim_again(&absent), Err(Refusal::InDisagreement));
    let answered = does(&absent, observe(EVERY, decided(), operator()));
    assert!(claim_again(&answered).is_ok());
}

#[test]
fn a_lookup_that_found_nothing_does_not_contradict_an_attempt_that_never_left() {
    let unsent = attempted(&approved(), Verdict::NotSent(NotSent::NoConnection));
    let absent = does(&unsent, observe(about(1), Verdict::Lost(Cause::AbsentOnce), Source::Lookup));
    assert_eq!((absent.state.name(), kind(&absent)), ("approved", None));
}
