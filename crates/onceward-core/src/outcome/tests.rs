//! What callers are told, and what they must never be told.

use serde_json::json;

use super::*;
use crate::canonical::Canonical;
use crate::decide::{Request, decide, standing};
use crate::event::{About, Cause, Event, Observation, Source, Verdict};
use crate::fingerprint::FingerprintKeys;
use crate::key::AttemptNumber;
use crate::samples::{approved, attempted, claimed, now, observe, operations, owner, receipt, second};

fn replayed(operation: &Operation) -> Envelope {
    report(operation, &standing(operation), Role::Repeater)
}

fn conflicting(operation: &Operation) -> Envelope {
    let other = Canonical::from_value(json!({ "summary": "another", "amount": 4 })).unwrap();
    let request = Request { tool: &operation.binding.tool, arguments: &other };
    let decision = decide(operation, request, &FingerprintKeys::unkeyed()).unwrap();
    report(operation, &decision, Role::Repeater)
}

/// The sample operation, lost, with or without a check that is scheduled.
fn lost(next_check: Option<Timestamp>) -> Operation {
    let seen = Observation {
        about: About::Attempt(AttemptNumber(1)),
        verdict: Verdict::Lost(Cause::ReplyLost),
        source: Source::Owner(owner(1)),
        next_check,
        note: None,
    };
    let running = claimed(&approved(), crate::event::DispatchMark::WithClaim);
    running.step(&Event::Observe(seen), second(10)).unwrap()
}

#[test]
fn the_message_of_an_unknown_never_promises_a_check_that_is_not_scheduled() {
    let waits = replayed(&lost(None));
    assert!(waits.message.contains("no automatic check is scheduled"), "{}", waits.message);
    assert_eq!((waits.check_after, waits.settles_by), (None, Some(SettlesBy::Person)));
    assert_eq!(waits.next_action, NextAction::AskOperator);
    let checked = replayed(&lost(Some(now())));
    assert!(checked.message.contains(&now().to_string()), "{}", checked.message);
    assert_eq!((checked.check_after, checked.settles_by), (Some(now().to_string()), Some(SettlesBy::Automatic)));
}

#[test]
fn what_a_person_lets_be_sent_again_is_not_told_as_surely_not_done() {
    let decided = Observation {
        about: About::EveryUncertain,
        verdict: Verdict::NoEffect(NoEffect::Decided),
        source: Source::Operator { by: crate::samples::person() },
        next_check: None,
        note: None,
    };
    let told = replayed(&lost(None).step(&Event::Observe(decided), second(20)).unwrap());
    assert_eq!(told.outcome, Outcome::NotDispatched);
    assert!(told.message.contains("A person decided") && !told.message.contains("Surely"), "{}", told.message);
    let unsent = replayed(&attempted(&approved(), Verdict::NotSent(crate::event::NotSent::NoConnection)));
    assert!(unsent.message.contains("Surely nothing happened"), "{}", unsent.message);
}

#[test]
fn an_unknown_says_when_it_was_sent_and_that_neither_a_new_id_nor_other_arguments_is_the_way() {
    let told = replayed(&lost(None));
    let sent = second(10).to_string();
    for words in ["may have happened", &sent, "new operation id", "changed arguments", "Tell nobody"] {
        assert!(told.message.contains(words), "{words}: {}", told.message);
    }
    assert_eq!(told.dispatched, Dispatched::Maybe);
}

#[test]
fn only_an_unknown_or_a_running_operation_says_when_or_by_whom_it_settles() {
    for (name, operation) in operations() {
        let told = replayed(&operation);
        let open = matches!(told.outcome, Outcome::Unknown | Outcome::InProgress | Outcome::ApprovalRequired);
        assert_eq!(told.settles_by.is_some(), open, "{name}");
        assert!(told.check_after.is_none() || told.outcome == Outcome::Unknown, "{name}");
    }
}

#[test]
fn a_conflict_carries_nothing_of_the_operation_that_holds_the_key() {
    for (name, operation) in operations() {
        let told = conflicting(&operation);
        assert_eq!(told.outcome, Outcome::Conflict, "{name}");
        assert_eq!(told.answer, None, "{name}");
        assert_eq!(told.as_of, None, "{name}");
        assert_eq!(told.disagreement, None, "{name}");
        assert_eq!((told.dispatched, told.replayed), (Dispatched::No, false), "{name}");
        let text = serde_json::to_string(&told).unwrap();
        assert!(!text.contains("Printer") && !text.contains("T-1"), "{name}: {text}");
    }
}

#[test]
fn r095_a_replay_is_the_receipt_of_that_time_with_the_time() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let told = replayed(&done);
    assert_eq!((told.outcome, told.replayed), (Outcome::Replayed, true));
    assert_eq!(told.as_of.as_deref(), Some(receipt("T-1").received_at.to_string().as_str()));
    assert_eq!(told.answer, Some(receipt("T-1").answer));
    // The thing was changed by others meanwhile, and somebody says so: the receipt is still what was done.
    let other = observe(About::Attempt(AttemptNumber(1)), Verdict::Effect(receipt("T-2")), Source::Webhook);
    let contradicted = done.step(&other, now()).unwrap();
    assert_eq!(replayed(&contradicted).answer, Some(receipt("T-1").answer));
    assert_eq!(replayed(&contradicted).disagreement.as_deref(), Some("receipts_differ"));
}

#[test]
fn a_success_after_an_uncertain_attempt_is_recovered_for_its_executor_and_replayed_for_others() {
    let uncertain = attempted(&approved(), Verdict::Lost(Cause::ReplyLost));
    let done = attempted(&uncertain, Verdict::Effect(receipt("T-1")));
    let by = |role| report(&done, &standing(&done), role).outcome;
    assert_eq!((by(Role::Executor), by(Role::Repeater)), (Outcome::Recovered, Outcome::Replayed));
    let at_once = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    assert_eq!(report(&at_once, &standing(&at_once), Role::Executor).outcome, Outcome::Executed);
}

#[test]
fn surely_nothing_sent_is_said_only_while_every_attempt_is_disproved() {
    for (name, operation) in operations() {
        let told = replayed(&operation);
        if told.outcome != Outcome::Conflict && told.dispatched == Dispatched::No {
            assert!(operation.state.uncertain().is_empty(), "{name}");
            let running =
                matches!(operation.state, crate::state::State::Pending(_) | crate::state::State::Succeeded(_));
            assert!(!running, "{name}");
        }
    }
}

#[test]
fn an_answer_is_given_only_with_success_or_refusal_and_is_then_the_destinations() {
    for (name, operation) in operations() {
        for role in [Role::Executor, Role::Repeater] {
            let told = report(&operation, &standing(&operation), role);
            let may = told.outcome.is_success() || told.outcome == Outcome::Rejected;
            assert_eq!(told.answer.is_some(), may, "{name}");
            assert_eq!(told.source == AnswerSource::Destination, may, "{name}");
        }
    }
}

#[test]
fn a_hidden_possible_duplicate_tells_nothing_of_the_earlier_operation() {
    for (name, operation) in operations() {
        let hidden = possible_duplicate(&operation, Visibility::Hidden);
        assert_eq!((hidden.outcome, &hidden.operation_id, &hidden.answer), (Outcome::PossibleDuplicate, &None, &None));
        let text = serde_json::to_string(&hidden).unwrap();
        for told in ["T-1", "\"operation_id\"", "as_of"] {
            assert!(!text.contains(told), "{name}: {told} in {text}");
        }
        let same = serde_json::to_string(&possible_duplicate(&approved(), Visibility::Hidden)).unwrap();
        assert_eq!(text, same, "{name}: two hidden answers differ, so they tell which state it is in");
    }
}

#[test]
fn a_shown_possible_duplicate_names_the_earlier_operation_and_carries_its_receipt() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let shown = possible_duplicate(&done, Visibility::Shown);
    assert_eq!((shown.outcome, shown.replayed), (Outcome::PossibleDuplicate, false));
    assert_eq!(shown.operation_id, Some(done.key.id.clone()));
    assert_eq!(shown.answer, Some(receipt("T-1").answer));
}

#[test]
fn every_envelope_survives_being_sent() {
    for (name, operation) in operations() {
        let told = Envelope { answer: None, ..replayed(&operation) };
        let text = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<Envelope>(&text).unwrap(), told, "{name}");
    }
}
