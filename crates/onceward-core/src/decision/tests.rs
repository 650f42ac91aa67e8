//! Choices over operations in every state, and what is said of each.

use super::*;
use crate::contract::Contract;
use crate::event::Cause;
use crate::evidence::ScopeEquality;
use crate::key::{Generation, OutboundKey};
use crate::outbound::LedgerSecret;
use crate::samples::{after, approved, attempted, now, observe, operations, person, receipt, second};
use crate::step::Refusal;

const KEYED: &str = r#"
id = "keyed"
version = 1
[key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
[same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "stored" }
[in_flight]
behaviour = "rejects"
[horizon]
kind = "at_least"
min = "24h"
margin = "1h"
[provenance]
confidence = "official_doc"
"#;

fn key_of(operation: &Operation) -> impl Fn(Generation) -> OutboundKey {
    let key = operation.key.clone();
    move |generation| LedgerSecret::new([1; 32]).outbound_key(&key, generation)
}

fn offers_of(operation: &Operation, contract: Option<&Contract>, at: Timestamp) -> Vec<Offer> {
    let keys = key_of(operation);
    offers(&DecisionCase {
        operation,
        runs: Runs::Destination,
        pinned: contract,
        current: contract,
        scope: ScopeEquality::Same,
        keys: &keys,
        now: at,
    })
}

fn legal(operation: &Operation, contract: Option<&Contract>, choice: ChoiceKind, at: Timestamp) -> Consequence {
    let offer = offers_of(operation, contract, at).into_iter().find(|offer| offer.choice == choice).unwrap();
    match offer.offered {
        Offered::Legal(consequence) => consequence,
        Offered::NotLegal { because } => panic!("{choice:?}: {because}"),
    }
}

fn evidence() -> Evidence {
    Evidence::new(Reason::DestinationSays, Some("asked"), None).unwrap()
}

fn of_kind(kind: ChoiceKind) -> Choice {
    let answer = Answer::json(&serde_json::json!({ "id": "T-9" }));
    match kind {
        ChoiceKind::ConfirmedDone => Choice::ConfirmedDone { effect_id: Some(EffectId::parse("T-9").unwrap()), answer },
        ChoiceKind::ConfirmedNotDone => Choice::ConfirmedNotDone,
        ChoiceKind::DispatchAgain => Choice::DispatchAgain,
        ChoiceKind::Refused => Choice::Refused { answer },
        ChoiceKind::SupersededBy => Choice::SupersededBy(OperationId::parse("another").unwrap()),
        ChoiceKind::Wait => Choice::Wait { until: Some(second(500)) },
        ChoiceKind::Acknowledge => Choice::Acknowledge,
    }
}

fn take(operation: &Operation, choice: Choice) -> Result<Operation, Refusal> {
    let events = choice.events(operation, &evidence(), &person(), now());
    events.iter().try_fold(operation.clone(), |operation, event| operation.step(event, now()))
}

#[test]
fn what_is_offered_is_what_the_machine_does_in_every_state() {
    let contract = Contract::parse(KEYED).unwrap();
    let mut seen = (0, 0);
    for (name, operation) in operations() {
        for offer in offers_of(&operation, Some(&contract), now()) {
            let taken = take(&operation, of_kind(offer.choice));
            match (&offer.offered, taken) {
                (Offered::Legal(consequence), Ok(after)) => {
                    assert_eq!(consequence.state, after.state.name(), "{name}: {offer:?}");
                    assert!(!consequence.words.is_empty());
                    seen.0 += 1;
                }
                (Offered::NotLegal { because }, Err(_)) => {
                    assert!(!because.is_empty(), "{name}: {offer:?}");
                    seen.1 += 1;
                }
                (offered, taken) => panic!("{name}: {offered:?}, and taken it is {taken:?}"),
            }
        }
    }
    assert!(seen.0 > 20 && seen.1 > 20, "{seen:?}");
}

#[test]
fn only_another_dispatch_can_make_a_second_effect_or_names_a_key() {
    for (_, operation) in operations() {
        for offer in offers_of(&operation, None, now()) {
            let (Offered::Legal(consequence), true) = (offer.offered, offer.choice != ChoiceKind::DispatchAgain) else {
                continue;
            };
            assert_eq!((consequence.second_effect, consequence.next_key), (SecondEffect::Excluded, None));
        }
    }
}

#[test]
fn a_settled_operation_is_moved_by_no_choice_and_only_an_open_contradiction_can_be_acknowledged() {
    for (name, operation) in operations() {
        if !operation.is_settled() {
            continue;
        }
        for kind in ChoiceKind::ALL {
            let taken = take(&operation, of_kind(kind));
            match kind {
                ChoiceKind::Acknowledge => assert_eq!(taken.is_ok(), operation.history.in_disagreement(), "{name}"),
                ChoiceKind::ConfirmedDone
                | ChoiceKind::ConfirmedNotDone
                | ChoiceKind::DispatchAgain
                | ChoiceKind::Refused
                | ChoiceKind::SupersededBy
                | ChoiceKind::Wait => assert_eq!(taken, Err(Refusal::Settled), "{name}: {kind:?}"),
            }
            if let Ok(after) = take(&operation, of_kind(kind)) {
                assert_eq!(after.state, operation.state, "{name}: what is recorded stays");
                assert!(!after.history.in_disagreement(), "{name}");
            }
        }
    }
}

#[test]
fn to_wait_moves_nothing_but_the_check_that_is_scheduled() {
    let unscheduled = attempted(&approved(), Verdict::Lost(Cause::ReplyLost));
    let after = take(&unscheduled, of_kind(ChoiceKind::Wait)).unwrap();
    assert_eq!((&after.state, &after.history), (&unscheduled.state, &unscheduled.history));
    let scheduled = operations().into_iter().find(|(name, _)| *name == "unknown, a check is scheduled").unwrap().1;
    let after = take(&scheduled, of_kind(ChoiceKind::Wait)).unwrap();
    let State::Unknown(unknown) = &after.state else { panic!("{:?}", after.state) };
    assert_eq!(unknown.next_check(), Some(second(500)));
    assert_eq!((unknown.attempts(), &after.history), (scheduled.state.uncertain(), &scheduled.history));
}

#[test]
fn a_contradiction_that_is_open_stays_open_when_somebody_only_waits() {
    let contradicted = operations().into_iter().find(|(name, _)| *name == "unknown, contradicted").unwrap().1;
    assert!(take(&contradicted, of_kind(ChoiceKind::Wait)).unwrap().history.in_disagreement());
    let words = legal(&contradicted, None, ChoiceKind::Wait, now()).words;
    assert!(words.contains("stays open"), "{words}");
    let words = legal(&contradicted, None, ChoiceKind::ConfirmedDone, now()).words;
    assert!(words.contains("counts as seen"), "{words}");
}

#[test]
fn another_dispatch_says_which_key_goes_out_and_until_when_it_is_recognised() {
    let contract = Contract::parse(KEYED).unwrap();
    let lost = attempted(&approved(), Verdict::Lost(Cause::ReplyLost));
    let key = key_of(&lost)(Generation(1));
    let until = second(10 + 23 * 3600);
    let told = legal(&lost, Some(&contract), ChoiceKind::DispatchAgain, now());
    assert_eq!(told.next_key, Some(NextKey { generation: Generation(1), key: key.clone(), is: KeyUse::Same }));
    assert_eq!(told.second_effect, SecondEffect::ExcludedUntil(until));
    assert!(told.words.contains(key.as_str()) && told.words.contains(&until.to_string()), "{}", told.words);
    // Once the horizon has passed, the same key protects nobody.
    let late = legal(&lost, Some(&contract), ChoiceKind::DispatchAgain, until);
    assert_eq!(late.second_effect, SecondEffect::Possible);
    assert!(late.words.contains("ended at"), "{}", late.words);
    // A destination without keys gets none.
    let none = Contract::promising_nothing("none");
    let bare = legal(&lost, Some(&none), ChoiceKind::DispatchAgain, now());
    assert_eq!((bare.next_key, bare.second_effect), (None, SecondEffect::Possible));
}

#[test]
fn r064_after_a_stored_error_another_dispatch_sends_a_new_key_and_says_so() {
    let contract = Contract::parse(KEYED).unwrap();
    let failed = attempted(&approved(), Verdict::Lost(Cause::ServerError));
    let key = key_of(&failed)(Generation(2));
    let told = legal(&failed, Some(&contract), ChoiceKind::DispatchAgain, now());
    assert_eq!(told.next_key, Some(NextKey { generation: Generation(2), key: key.clone(), is: KeyUse::New }));
    assert_eq!(told.second_effect, SecondEffect::Possible);
    assert!(told.words.contains("new key") && told.words.contains(key.as_str()), "{}", told.words);
    // What is said is what the next claim does.
    let decided = take(&failed, Choice::DispatchAgain).unwrap();
    assert_eq!(crate::evidence::next_generation(&decided.history, &contract), Generation(2));
}

#[test]
fn past_its_deadline_another_dispatch_sends_nothing() {
    let mut lost = attempted(&approved(), Verdict::Lost(Cause::ReplyLost));
    lost.terms.deadline = Some(second(20));
    let told = legal(&lost, None, ChoiceKind::DispatchAgain, now());
    assert_eq!(told.second_effect, SecondEffect::Excluded);
    assert!(told.words.contains("deadline passed"), "{}", told.words);
}

#[test]
fn an_answer_that_a_person_calls_a_refusal_is_stored_and_every_attempt_is_disproved() {
    let one = attempted(&approved(), Verdict::Lost(Cause::FunctionFailed));
    let after = take(&one, of_kind(ChoiceKind::Refused)).unwrap();
    let State::Rejected(refused) = &after.state else { panic!("{:?}", after.state) };
    assert_eq!(refused.answer.present(), Some(&Answer::json(&serde_json::json!({ "id": "T-9" }))));
    assert_eq!(after.history.disproved.len(), 1);
}

#[test]
fn the_nearest_irreversible_moment_is_the_end_of_the_horizon() {
    let contract = Contract::parse(KEYED).unwrap();
    let lost = attempted(&approved(), Verdict::Lost(Cause::ReplyLost));
    let keys = key_of(&lost);
    let case = |now, contract| DecisionCase {
        operation: &lost,
        runs: Runs::Destination,
        pinned: contract,
        current: contract,
        scope: ScopeEquality::Same,
        keys: &keys,
        now,
    };
    let end = second(10 + 23 * 3600);
    assert_eq!(irreversible_at(&case(now(), Some(&contract))), Some(end));
    assert_eq!(irreversible_at(&case(end, Some(&contract))), None, "it has passed");
    assert_eq!(irreversible_at(&case(now(), None)), None);
    let said = without_a_decision(&case(now(), Some(&contract)));
    assert!(said.contains("No automatic check") && said.contains(&end.to_string()), "{said}");
}

#[test]
fn every_choice_has_reasons_that_carry_it_and_one_that_says_nothing_confirms_nothing() {
    for choice in ChoiceKind::ALL {
        assert!(Reason::ALL.iter().any(|reason| reason.carries(choice)), "{choice:?}");
    }
    for reason in [Reason::RiskAccepted, Reason::StillLooking, Reason::Replaced] {
        assert!(!reason.carries(ChoiceKind::ConfirmedDone) && !reason.carries(ChoiceKind::ConfirmedNotDone));
        let word = serde_json::to_value(reason).unwrap();
        assert_eq!(word, reason.name());
        assert!(!reason.meaning().is_empty());
    }
}

#[test]
fn evidence_says_something_or_names_a_file_and_the_journal_keeps_both() {
    let new = |text, file| Evidence::new(Reason::SeenAtDestination, text, file);
    assert_eq!(new(None, None), Err(InvalidEvidence::Empty));
    assert_eq!(new(Some("  \n"), None), Err(InvalidEvidence::Empty));
    let long = "x".repeat(EVIDENCE_BYTES_MAX + 1);
    assert_eq!(new(Some(&long), None), Err(InvalidEvidence::TooLong { length: EVIDENCE_BYTES_MAX + 1 }));
    let digits = "ab".repeat(32);
    for wrong in ["", "sha256:", "ab", &digits[1..], &format!("md5:{digits}"), &format!("{digits}00")] {
        assert_eq!(FileHash::parse(wrong), Err(InvalidEvidence::FileHash), "{wrong}");
    }
    let file = FileHash::parse(&format!("sha256:{digits}")).unwrap();
    assert_eq!(FileHash::parse(&digits), Ok(file));
    let note = new(Some(" T-1 is there "), Some(file)).unwrap().note(ChoiceKind::ConfirmedDone);
    assert_eq!(note, format!("confirmed_done (seen_at_destination): T-1 is there; file sha256:{digits}"));
    assert!(new(None, Some(file)).is_ok());
}

#[test]
fn a_decision_rests_on_what_can_carry_it_and_neither_replaces_itself_nor_waits_for_the_past() {
    let id = OperationId::parse("operation").unwrap();
    let new = |choice, reason| {
        Decision::new(&id, choice, Evidence::new(reason, Some("looked"), None).unwrap(), now()).map(|_| ())
    };
    let carries =
        InvalidDecision::ReasonDoesNotCarry { choice: ChoiceKind::ConfirmedNotDone, reason: Reason::SeenAtDestination };
    assert_eq!(new(Choice::ConfirmedNotDone, Reason::SeenAtDestination), Err(carries));
    assert!(carries.to_string().contains("not_at_destination"), "{carries}");
    assert_eq!(new(Choice::ConfirmedNotDone, Reason::NotAtDestination), Ok(()));
    assert_eq!(new(Choice::SupersededBy(id.clone()), Reason::Replaced), Err(InvalidDecision::ReplacesItself));
    let wait = |until| new(Choice::Wait { until }, Reason::StillLooking);
    assert_eq!((wait(None), wait(Some(now().plus(DECISION_WAIT_MAX)))), (Ok(()), Ok(())));
    for wrong in [now(), second(0), now().plus(DECISION_WAIT_MAX + core::time::Duration::from_secs(1))] {
        assert_eq!(wait(Some(wrong)), Err(InvalidDecision::WaitOutOfRange), "{wrong}");
    }
}

#[test]
fn evidence_against_a_settled_operation_makes_people_look_and_acknowledging_it_keeps_the_receipt() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let other = observe(About::EveryUncertain, Verdict::Effect(receipt("T-2")), Source::Webhook);
    let contradicted = after(done.clone(), std::slice::from_ref(&other)).unwrap();
    assert!(contradicted.history.in_disagreement());
    let seen = take(&contradicted, Choice::Acknowledge).unwrap();
    assert_eq!(seen.state, done.state);
    assert!(!seen.history.in_disagreement());
    assert_eq!(take(&seen, Choice::Acknowledge), Err(Refusal::NothingToAcknowledge));
    // The next contradiction opens it again.
    assert!(after(seen, &[other]).unwrap().history.in_disagreement());
}

#[test]
fn a_contradiction_about_an_uncertain_attempt_is_answered_with_that_attempt_and_not_in_passing() {
    let found = |name: &str| operations().into_iter().find(|(known, _)| *known == name).unwrap().1;
    let contradicted = found("unknown, contradicted");
    assert_eq!(take(&contradicted, Choice::Acknowledge), Err(Refusal::Uncertain));
    let Offered::NotLegal { because } = &offers_of(&contradicted, None, now())[6].offered else { panic!("legal") };
    assert!(because.contains("decided with what became of that attempt"), "{because}");
    for choice in ChoiceKind::ALL {
        assert!(
            take(&found("pending"), of_kind(choice)).is_err(),
            "while an attempt runs, nothing is decided: {choice:?}"
        );
    }
    assert_eq!(take(&approved(), of_kind(ChoiceKind::Wait)), Err(Refusal::NothingUncertain));
}
