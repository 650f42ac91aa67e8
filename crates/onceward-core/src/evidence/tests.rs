//! The evidence rules at their edges, and each way to be refused.

use core::time::Duration;

use serde_json::json;

use super::*;
use crate::classify::Next;
use crate::contract::Contract;
use crate::event::{Cause, NoEffect, NotSent, OtherEffect};
use crate::key::{AttemptNumber, EffectId, Generation, OutboundKey};
use crate::receipt::{Answer, Receipt};
use crate::state::{Disproved, Finding};

/// A destination that recognises keys for a day and refuses a second request in flight.
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

/// A destination without keys whose list shows a marker after a minute, and which works on a request for at most 30 s.
const LISTED: &str = r#"
id = "listed"
version = 1
[in_flight]
bound = "30s"
[lookup]
path = "/tickets"
items = "/items"
recognise = [{ at = "/labels", how = "contains" }]
compare = [{ argument = "/summary", effect = "/title" }]
effect_id = "/id"
consistency = "eventual"
visibility_delay = "60s"
absence_is_proof = "after_bound"
absences_required = 2
whole_if = { body_equals = { at = "/last", value = true } }
[provenance]
confidence = "operated"
"#;

fn contract(text: &str) -> Contract {
    Contract::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn keyed_with(from: &str, to: &str) -> Contract {
    assert!(KEYED.contains(from), "{from}");
    contract(&KEYED.replace(from, to))
}

/// That many seconds after the first attempt was claimed, which is far from the epoch.
fn second(second: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_secs(1_000_000 + second))
}

const HOUR: u64 = 3_600;

fn attempt(number: u32) -> Uncertain {
    Uncertain {
        attempt: AttemptNumber(number),
        generation: Generation(1),
        outbound_key: Some(key()),
        claimed_at: second(0),
        send_before: second(10),
        ended_at: None,
        cause: Cause::ReplyLost,
        absences: 0,
        absent_at: None,
    }
}

fn key() -> OutboundKey {
    OutboundKey::parse("01234567-89ab-8def-8123-456789abcdef").unwrap()
}

fn case<'a>(contract: &'a Contract, uncertain: &'a [Uncertain], now: Timestamp) -> RedriveCase<'a> {
    RedriveCase {
        pinned: contract,
        current: contract,
        scope: ScopeEquality::Same,
        uncertain,
        disproved: &[],
        last_attempt: AttemptNumber(1),
        now,
    }
}

#[test]
fn a_recognised_key_may_be_sent_again_until_the_margin_before_its_horizon() {
    let (keyed, uncertain) = (contract(KEYED), [attempt(1)]);
    let permit = may_redrive(&case(&keyed, &uncertain, second(5))).unwrap();
    assert_eq!(permit.valid_until(), second(23 * HOUR));
    assert!(permit.covers(AttemptNumber(1), Generation(1), second(23 * HOUR - 1)));
    assert!(!permit.covers(AttemptNumber(1), Generation(1), second(23 * HOUR)));
    assert!(!permit.covers(AttemptNumber(2), Generation(1), second(6)), "another attempt has been made since");
    assert!(!permit.covers(AttemptNumber(1), Generation(2), second(6)), "another key");
    assert!(!permit.covers(AttemptNumber(1), Generation(1), second(4)), "the clock went back behind the grant");
    assert_eq!(
        may_redrive(&case(&keyed, &uncertain, second(23 * HOUR))),
        Err(NoRedrive::HorizonPassed { since: second(23 * HOUR) })
    );
}

#[test]
fn a_clock_before_the_first_attempt_counts_as_a_horizon_passed() {
    let (keyed, uncertain) = (contract(KEYED), [attempt(1)]);
    let before = second(0).minus(Duration::from_micros(1));
    assert_eq!(
        may_redrive(&case(&keyed, &uncertain, before)),
        Err(NoRedrive::ClockWentBack { first_claimed_at: second(0) })
    );
}

#[test]
fn the_horizon_is_counted_from_the_first_claim_that_may_have_shown_the_key() {
    let keyed = contract(KEYED);
    let uncertain = [Uncertain { claimed_at: second(2 * HOUR), ..attempt(2) }];
    let earlier = |finding| Disproved {
        attempt: AttemptNumber(1),
        generation: Generation(1),
        outbound_key: Some(key()),
        claimed_at: second(0),
        send_before: second(10),
        owner: None,
        finding,
        cause: None,
    };
    let valid_until = |disproved: &[Disproved]| {
        may_redrive(&RedriveCase { disproved, ..case(&keyed, &uncertain, second(3 * HOUR)) }).unwrap().valid_until()
    };
    assert_eq!(valid_until(&[]), second(25 * HOUR));
    assert_eq!(valid_until(&[earlier(Finding::NoEffect(NoEffect::ProvedAbsent))]), second(23 * HOUR));
    assert_eq!(valid_until(&[earlier(Finding::NotSent(NotSent::NoConnection))]), second(25 * HOUR));
    let other_key = Disproved { generation: Generation(9), ..earlier(Finding::Refused) };
    assert_eq!(valid_until(&[other_key]), second(25 * HOUR));
}

#[test]
fn every_reason_against_a_redrive_is_found() {
    let keyed = contract(KEYED);
    let no =
        |contract: &Contract, uncertain: &[Uncertain]| may_redrive(&case(contract, uncertain, second(20))).unwrap_err();
    assert_eq!(no(&keyed, &[]), NoRedrive::NothingUncertain);
    assert_eq!(no(&keyed, &[Uncertain { outbound_key: None, ..attempt(1) }]), NoRedrive::KeyNotPlaced);
    assert_eq!(no(&contract(LISTED), &[attempt(1)]), NoRedrive::NotRecognised);
    assert_eq!(no(&keyed_with("replays_stored", "undocumented"), &[attempt(1)]), NoRedrive::NotRecognised);
    assert_eq!(no(&keyed_with(", 500 = \"stored\"", ""), &[attempt(1)]), NoRedrive::OnlySuccessesStored);
    assert_eq!(
        no(&keyed_with("kind = \"at_least\"\nmin = \"24h\"\nmargin = \"1h\"", ""), &[attempt(1)]),
        NoRedrive::HorizonUnsaid
    );
    let two_keys = [attempt(1), Uncertain { generation: Generation(2), ..attempt(2) }];
    assert_eq!(no(&keyed, &two_keys), NoRedrive::GenerationsMixed);
    let hearsay = |word: &str| no(&keyed_with("official_doc", word), &[attempt(1)]);
    assert_eq!(["memory", "conflict", "inferred", "unknown"].map(hearsay), [(); 4].map(|()| NoRedrive::Hearsay));
    assert_eq!(no(&keyed, &[Uncertain { cause: Cause::KeyMismatch, ..attempt(1) }]), NoRedrive::KeyMismatch);
    let accepted = Cause::Accepted { handle: None };
    assert_eq!(no(&keyed, &[Uncertain { cause: accepted, ..attempt(1) }]), NoRedrive::Accepted);

    let uncertain = [attempt(1)];
    let elsewhere = |scope| may_redrive(&RedriveCase { scope, ..case(&keyed, &uncertain, second(20)) }).unwrap_err();
    assert_eq!(elsewhere(ScopeEquality::Different), NoRedrive::OtherScope);
    assert_eq!(elsewhere(ScopeEquality::Unprovable), NoRedrive::ScopeUnprovable);
}

#[test]
fn in_flight_behaviour_is_documented_or_its_bound_has_elapsed() {
    let uncertain = [attempt(1), Uncertain { ended_at: Some(second(25)), ..attempt(2) }];
    let silent = keyed_with("behaviour = \"rejects\"", "");
    assert_eq!(may_redrive(&case(&silent, &uncertain, second(HOUR))), Err(NoRedrive::InFlightUnsaid));
    for behaviour in ["waits_then_may_execute", "second_rejected_presumed"] {
        let unsafe_one = keyed_with("\"rejects\"", &format!("\"{behaviour}\""));
        assert_eq!(may_redrive(&case(&unsafe_one, &uncertain, second(HOUR))), Err(NoRedrive::InFlightUnsaid));
    }
    let bounded = keyed_with("behaviour = \"rejects\"", "bound = \"30s\"");
    // The later of the last moment to send (10 s) and the end of the connection (25 s), and the bound after it.
    assert_eq!(may_redrive(&case(&bounded, &uncertain, second(54))), Err(NoRedrive::InFlight { until: second(55) }));
    assert!(may_redrive(&case(&bounded, &uncertain, second(55))).is_ok());
    // A connection that ended early does not shorten it: the claim permits a first byte until 10 s.
    let early_end = [Uncertain { ended_at: Some(second(2)), ..attempt(1) }];
    assert_eq!(may_redrive(&case(&bounded, &early_end, second(39))), Err(NoRedrive::InFlight { until: second(40) }));
    let lost_owner = [attempt(1)];
    assert_eq!(may_redrive(&case(&bounded, &lost_owner, second(39))), Err(NoRedrive::InFlight { until: second(40) }));
}

#[test]
fn successes_only_protect_a_lost_reply_only_when_atomic_and_an_unreadable_success_always() {
    let successes = keyed_with(", 500 = \"stored\"", "");
    let atomic =
        keyed_with("saved = { 2xx = \"stored\", 500 = \"stored\" }", "[execution]\neffect_atomic_with_key = true");
    let unreadable = [Uncertain { cause: Cause::ReplyUnreadable, ..attempt(1) }];
    let server_error = [Uncertain { cause: Cause::ServerError, ..attempt(1) }];
    assert!(may_redrive(&case(&successes, &unreadable, second(20))).is_ok());
    assert_eq!(may_redrive(&case(&successes, &server_error, second(20))), Err(NoRedrive::OnlySuccessesStored));
    assert!(may_redrive(&case(&atomic, &server_error, second(20))).is_ok());
}

#[test]
fn a_harmless_repetition_needs_its_precondition_and_no_key() {
    let harmless = contract(
        "id = \"put\"\nversion = 1\n[precondition]\nheader = \"If-Match\"\n[provenance]\nconfidence = \"operated\"\n",
    );
    let uncertain = [Uncertain { outbound_key: None, ..attempt(1) }];
    let permit = may_redrive(&case(&harmless, &uncertain, second(HOUR * 1_000))).unwrap();
    assert!(permit.covers(AttemptNumber(1), Generation(1), second(HOUR * 10_000)));
    let plain = contract("id = \"put\"\nversion = 1\n[provenance]\nconfidence = \"operated\"\n");
    assert_eq!(
        may_redrive(&RedriveCase { current: &plain, ..case(&harmless, &uncertain, second(20)) }),
        Err(NoRedrive::NotRecognised)
    );
}

#[test]
fn a_redrive_is_covered_by_the_contract_it_was_made_with_and_by_the_one_that_holds_now() {
    let variants = [
        contract(KEYED),
        contract(LISTED),
        keyed_with("min = \"24h\"", "min = \"2h\""),
        keyed_with("\"Idempotency-Key\"", "\"X-Key\""),
        keyed_with("behaviour = \"rejects\"", "bound = \"30s\""),
        keyed_with("behaviour = \"rejects\"", "bound = \"90s\""),
        keyed_with("behaviour = \"rejects\"", ""),
        keyed_with(", 500 = \"stored\"", ""),
        keyed_with("official_doc", "memory"),
        keyed_with("\"replays_stored\"", "\"reexecutes_failures\""),
        contract(
            "id = \"i\"\nversion = 1\n[precondition]\nheader = \"If-Match\"\n[provenance]\nconfidence = \"operated\"\n",
        ),
    ];
    let uncertain = [attempt(1)];
    let mut permitted = 0;
    for pinned in &variants {
        for current in &variants {
            for at in [0, 41, 101, HOUR, 3 * HOUR, 30 * HOUR] {
                let both = may_redrive(&RedriveCase { current, ..case(pinned, &uncertain, second(at)) });
                let each = [pinned, current].map(|one| may_redrive(&case(one, &uncertain, second(at))));
                let Ok(permit) = both else { continue };
                permitted += 1;
                for alone in each {
                    assert!(permit.valid_until() <= alone.expect("each of the two must permit it").valid_until());
                }
            }
        }
    }
    assert!(permitted > 20, "{permitted}");
}

fn nothing_found<'a>(contract: &'a Contract, uncertain: &'a [Uncertain], asked_at: Timestamp) -> AbsenceCase<'a> {
    AbsenceCase {
        contract,
        uncertain,
        asked_at,
        completeness: Completeness::Whole,
        child: ChildProcess::NotOne,
        scope: ScopeEquality::Same,
    }
}

#[test]
fn absence_counts_only_after_the_bound_and_the_delay_and_as_often_as_asked() {
    let listed = contract(LISTED);
    let once = [attempt(1)];
    let twice = [Uncertain { absences: 1, ..attempt(1) }];
    // Sent until 10 s, worked on until 40 s, shown from 100 s on.
    assert_eq!(
        absence(&nothing_found(&listed, &twice, second(99))),
        Absence::SaysNothing { why: Silence::TooEarly, earliest: Some(second(100)) }
    );
    assert_eq!(
        absence(&nothing_found(&listed, &once, second(100))),
        Absence::Counts { so_far: 1, needed: 2, next: second(160) }
    );
    assert_eq!(absence(&nothing_found(&listed, &twice, second(160))), Absence::Proof);
    let one_is_younger = [twice[0].clone(), attempt(2)];
    assert!(matches!(
        absence(&nothing_found(&listed, &one_is_younger, second(160))),
        Absence::Counts { so_far: 1, .. }
    ));
    let late_end = [Uncertain { ended_at: Some(second(500)), ..twice[0].clone() }];
    assert!(matches!(absence(&nothing_found(&listed, &late_end, second(589))), Absence::SaysNothing { .. }));
    assert_eq!(absence(&nothing_found(&listed, &late_end, second(590))), Absence::Proof);
}

#[test]
fn what_proves_nothing_says_why() {
    let listed = contract(LISTED);
    let ready = [Uncertain { absences: 9, ..attempt(1) }];
    let late = second(1_000);
    let silence = |case: AbsenceCase<'_>| match absence(&case) {
        Absence::SaysNothing { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(silence(nothing_found(&listed, &[], late)), Silence::NothingUncertain);
    assert_eq!(silence(nothing_found(&contract(KEYED), &ready, late)), Silence::NotProof);
    let cut = AbsenceCase { completeness: Completeness::Cut, ..nothing_found(&listed, &ready, late) };
    assert_eq!(silence(cut), Silence::CutList);
    let child = AbsenceCase { child: ChildProcess::MayLive, ..nothing_found(&listed, &ready, late) };
    assert_eq!(silence(child), Silence::ChildMayLive);
    for scope in [ScopeEquality::Different, ScopeEquality::Unprovable] {
        let elsewhere = AbsenceCase { scope, ..nothing_found(&listed, &ready, late) };
        assert_eq!(silence(elsewhere), Silence::OtherScope);
    }
    let a_moment_ago = [Uncertain { absent_at: Some(late), ..ready[0].clone() }];
    assert_eq!(silence(nothing_found(&listed, &a_moment_ago, late)), Silence::TooEarly);
    let memory = contract(&LISTED.replace("operated", "memory"));
    assert_eq!(silence(nothing_found(&memory, &ready, late)), Silence::Hearsay);
    let mut unbounded = listed.clone();
    unbounded.in_flight.bound = None;
    assert_eq!(silence(nothing_found(&unbounded, &ready, late)), Silence::NoBound);
    let mut lagging = listed.clone();
    lagging.lookup.as_mut().unwrap().visibility_delay = None;
    assert_eq!(silence(nothing_found(&lagging, &ready, late)), Silence::NoVisibilityDelay);
    let accepted = [Uncertain { cause: Cause::Accepted { handle: None }, ..ready[0].clone() }];
    assert_eq!(silence(nothing_found(&listed, &accepted, late)), Silence::Accepted);
    let mismatch = [Uncertain { cause: Cause::KeyMismatch, ..ready[0].clone() }];
    assert_eq!(silence(nothing_found(&listed, &mismatch, late)), Silence::KeyMismatch);
}

#[test]
fn absence_within_the_horizon_ends_with_the_horizon() {
    let horizon = "[horizon]\nkind = \"fixed\"\nmin = \"1h\"\nmargin = \"1m\"\n[lookup]";
    let remembered = contract(&LISTED.replace("after_bound", "within_horizon").replace("[lookup]", horizon));
    let ready = [Uncertain { absences: 1, ..attempt(1) }];
    assert_eq!(absence(&nothing_found(&remembered, &ready, second(3_539))), Absence::Proof);
    assert_eq!(
        absence(&nothing_found(&remembered, &ready, second(3_540))),
        Absence::SaysNothing { why: Silence::HorizonPassed, earliest: None }
    );
}

fn found(by: RecognisedBy, parameters: Compared, id: Option<&str>) -> Candidate {
    let receipt = Receipt {
        effect_id: id.map(|id| EffectId::parse(id).unwrap()),
        answer: Answer::json(&json!({ "title": "broken" })),
        received_at: second(0),
    };
    Candidate { by, parameters, receipt }
}

#[test]
fn presence_counts_only_through_our_name_with_equal_parameters() {
    use Compared::{Different, Not, Same};
    use RecognisedBy::{OurKey, OurMarker, Resemblance};
    assert_eq!(presence(&[]), Presence::Nothing);
    assert!(matches!(presence(&[found(OurMarker, Same, Some("T-1"))]), Presence::Ours(_)));
    assert!(matches!(presence(&[found(OurKey, Same, None)]), Presence::Ours(_)));
    assert_eq!(
        presence(&[found(OurMarker, Different, Some("T-1"))]),
        Presence::OtherEffect(OtherEffect::OtherParameters)
    );
    assert!(matches!(presence(&[found(OurMarker, Not, Some("T-1"))]), Presence::Candidates(_)));
    assert!(matches!(presence(&[found(Resemblance, Same, Some("T-1"))]), Presence::Candidates(_)));
}

#[test]
fn two_effects_under_our_name_are_a_disagreement_and_one_shown_twice_is_not() {
    use Compared::Same;
    use RecognisedBy::{OurMarker, Resemblance};
    let one = found(OurMarker, Same, Some("T-1"));
    assert!(matches!(presence(&[one.clone(), one.clone()]), Presence::Ours(_)));
    assert!(matches!(presence(&[found(Resemblance, Same, Some("T-9")), one.clone()]), Presence::Ours(_)));
    let more = Presence::OtherEffect(OtherEffect::MoreThanOne);
    assert_eq!(presence(&[one, found(OurMarker, Same, Some("T-2"))]), more);
    let nameless = found(OurMarker, Same, None);
    assert_eq!(presence(&[nameless.clone(), nameless]), more);
}

fn read(body: serde_json::Value) -> Reading {
    let arguments = json!({ "summary": "broken" });
    read_lookup(&contract(LISTED), &Answer::json(&body), &[key()], &arguments, second(0))
}

#[test]
fn a_list_is_read_by_marker_and_compared() {
    let marked = |title: &str| json!({ "id": 7, "title": title, "labels": ["x", key().as_str()] });
    let foreign = json!({ "id": 8, "title": "other", "labels": ["ffffffff-89ab-8def-8123-456789abcdef"] });
    match read(json!({ "items": [foreign, marked("broken")], "last": true })) {
        Reading::Found { candidates, completeness } => {
            assert_eq!(completeness, Completeness::Whole);
            assert_eq!(candidates.len(), 1);
            assert_eq!(candidates[0].receipt.effect_id.as_ref().unwrap().as_str(), "7");
            assert!(matches!(presence(&candidates), Presence::Ours(_)));
        }
        Reading::Unreadable => panic!("unreadable"),
    }
    let Reading::Found { candidates, completeness } = read(json!({ "items": [marked("mended")] })) else {
        panic!("unreadable");
    };
    assert_eq!(completeness, Completeness::Cut);
    assert_eq!(presence(&candidates), Presence::OtherEffect(OtherEffect::OtherParameters));
}

#[test]
fn an_answer_to_another_question_is_not_an_empty_list() {
    assert_eq!(read(json!({ "error": "busy" })), Reading::Unreadable);
    assert_eq!(read(json!({ "items": {} })), Reading::Unreadable);
    let listed = contract(LISTED);
    for (status, body) in [(500, "{\"items\":[]}"), (404, ""), (200, "<html>")] {
        let answer = Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec() };
        assert_eq!(read_lookup(&listed, &answer, &[key()], &json!({}), second(0)), Reading::Unreadable, "{status}");
    }
}

#[test]
fn a_marker_inside_a_longer_one_is_another_marker() {
    let text = LISTED.replace("at = \"/labels\"", "at = \"/text\"");
    let listed = contract(&text);
    let reads = |text: String| {
        let answer = Answer::json(&json!({ "items": [{ "id": 1, "text": text }] }));
        match read_lookup(&listed, &answer, &[key()], &json!({}), second(0)) {
            Reading::Found { candidates, .. } => candidates.len(),
            Reading::Unreadable => panic!("unreadable"),
        }
    };
    assert_eq!(reads(format!("see [{}].", key().as_str())), 1);
    assert_eq!(reads(format!("see {}0", key().as_str())), 0);
    assert_eq!(reads(format!("see a-{}", key().as_str())), 0);
}

#[test]
fn a_check_is_promised_only_where_one_is_scheduled() {
    let (keyed, listed, none) = (contract(KEYED), contract(LISTED), contract("id = \"none\"\nversion = 1\n"));
    let uncertain = [attempt(1)];
    let next = |contract: &Contract, at| next_check(&case(contract, &uncertain, second(at)));
    assert_eq!(next(&keyed, 20), NextCheck::Redrive { at: second(20) });
    assert_eq!(next(&keyed, 24 * HOUR), NextCheck::Person);
    assert_eq!(next(&none, 20), NextCheck::Person);
    assert_eq!(NextCheck::Person.settles_by(), SettlesBy::Person);
    assert_eq!(next(&listed, 20), NextCheck::Lookup { at: second(60) });
    assert_eq!(next(&listed, 80), NextCheck::Lookup { at: second(140) });
    assert_eq!(next(&listed, 8 * 24 * HOUR), NextCheck::Person);
    let bounded = keyed_with("behaviour = \"rejects\"", "bound = \"30s\"");
    assert_eq!(next(&bounded, 20), NextCheck::Redrive { at: second(40) });
}

#[test]
fn an_answers_advice_is_followed_as_far_as_it_is_permitted() {
    let (keyed, listed) = (contract(KEYED), contract(LISTED));
    let uncertain = [Uncertain { cause: Cause::ServerError, ..attempt(1) }];
    let after = |advice, contract: &Contract| next_check_after(advice, &case(contract, &uncertain, second(20)));
    let patient = Next::RetrySameKey { not_before: Some(Duration::from_secs(7)) };
    assert_eq!(after(patient, &keyed), NextCheck::Redrive { at: second(27) });
    assert_eq!(after(patient, &listed), NextCheck::Lookup { at: second(60) });
    // A stored error would be given again, though the key could be sent.
    assert_eq!(after(Next::Operator, &keyed), NextCheck::Person);
    assert_eq!(after(Next::LookupAfter(Duration::ZERO), &listed), NextCheck::Lookup { at: second(60) });
    assert_eq!(after(Next::LookupAfter(Duration::ZERO), &keyed), NextCheck::Person);
}
