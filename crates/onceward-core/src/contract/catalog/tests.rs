//! Every contract that comes with Onceward: that it says where it is from, and what it permits.

use super::*;
use crate::classify::{AttemptFacts, Body, Next, Observed, classify};
use crate::contract::{AbsenceIsProof, Becomes, Confidence, IsError, Kind, Meaning, Recognised, Span, Which};

fn catalog() -> Vec<Contract> {
    built_in().unwrap_or_else(|error| panic!("{error}"))
}

fn contract(id: &str) -> Contract {
    catalog().into_iter().find(|contract| contract.id == id).unwrap_or_else(|| panic!("there is no {id}"))
}

/// The parts of a contract that its file has, by their tables' names.
fn parts_of(contract: &Contract) -> Vec<String> {
    let text = toml::to_string(contract).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let plain = Contract::promising_nothing(&contract.id);
    let unsaid: toml::Table = toml::to_string(&plain).unwrap().parse().unwrap();
    table
        .into_iter()
        .filter(|(name, value)| unsaid.get(name) != Some(value))
        .map(|(name, _)| name)
        .filter(|name| !["id", "version", "about", "provenance"].contains(&name.as_str()))
        .collect()
}

#[test]
fn every_file_is_named_as_its_contract_and_is_in_the_catalog() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(ToOwned::to_owned))
        .collect();
    files.sort();
    let mut ids: Vec<String> = catalog().into_iter().map(|contract| contract.id).collect();
    ids.sort();
    assert_eq!(files, ids);
}

#[test]
fn every_part_of_every_contract_says_how_well_it_is_known() {
    for contract in catalog() {
        let provenance = &contract.provenance;
        assert!(provenance.read.is_some(), "{}: when were its sources read?", contract.id);
        assert!(provenance.confidence != Confidence::Unknown, "{}: how well is it known?", contract.id);
        assert!(!provenance.sources.is_empty(), "{}: what are its sources?", contract.id);
        for source in &provenance.sources {
            assert!(source.at.starts_with("https://"), "{}: {} is no address", contract.id, source.at);
        }
        let parts = parts_of(&contract);
        for part in &parts {
            assert!(provenance.parts.contains_key(part), "{}: how well is [{part}] known?", contract.id);
        }
        for part in provenance.parts.keys() {
            assert!(parts.contains(part), "{}: it has no [{part}]", contract.id);
        }
    }
}

/// What the catalog permits. Whoever changes a contract sees here what that does to a lost reply.
const PERMITS: &str = "\
stripe.v1 K1 | 23h | the same key again, for 23h | a lookup after 1m: a repetition would be answered the same
stripe.v2 K3 | 29d | a person: what happens to a key in use is not said | a person: what happens to a key in use is not said
paypal.orders.v2 K2 | 330m | the same key again, for 330m | the same key again, for 330m
square.payments K2 | never | a person: only successes are surely stored | a person: only successes are surely stored
gocardless K2 | 29d | a person: only successes are surely stored | a person: only successes are surely stored
increase K2 | always | a lookup after 1s: only successes are surely stored | a lookup after 1s: only successes are surely stored
zendesk K2 | 110m | a lookup after 1s: only successes are surely stored | a lookup after 1s: only successes are surely stored
resend K2 | 23h | the same key again, for 23h | the same key again, for 23h
github L | never | a lookup after 1s: no repetition is recognised | a lookup after 1s: no repetition is recognised
jira L | never | a lookup after 1s: no repetition is recognised | a lookup after 1s: no repetition is recognised
svix K2 | 690m | a lookup after 1s: only successes are surely stored | a lookup after 1s: only successes are surely stored
acp.checkout K2 | 23h | a person: only successes are surely stored | a person: only successes are surely stored
aws.sqs.fifo K2 | 4m | the same key again, for 4m | the same key again, for 4m
aws.stepfunctions K2 | 89d | a lookup after 1s: only successes are surely stored | a lookup after 1s: only successes are surely stored
oasis.repeatable K2 | 270s | a person: only successes are surely stored | a person: only successes are surely stored
ietf.idempotency_key K2 | never | a person: only successes are surely stored | a person: only successes are surely stored
generic.success_only K2 | never | a person: only successes are surely stored | a person: only successes are surely stored
generic.lookup_only L | never | a lookup after 1s: no repetition is recognised | a lookup after 1s: no repetition is recognised
none N | never | a person: no repetition is recognised | a person: no repetition is recognised
";

#[test]
fn what_each_contract_permits_after_a_lost_reply_and_after_a_server_error() {
    let mut table = String::new();
    for contract in catalog() {
        let recognised = match contract.horizon.recognised() {
            Recognised::For(length) => Span::from(length).to_string(),
            Recognised::Always => "always".to_owned(),
            Recognised::Never => "never".to_owned(),
        };
        let words = |becomes: Becomes| match becomes.why_not_repeated() {
            Some(why) => format!("{becomes}: {why}"),
            None => becomes.to_string(),
        };
        let lost = words(contract.lost_reply_becomes());
        let failed = words(contract.status_becomes(Which::First, 500));
        table.push_str(&format!("{} {} | {recognised} | {lost} | {failed}\n", contract.id, contract.kind()));
    }
    println!("{table}");
    assert_eq!(table, PERMITS);
}

/// The parts that a repetition of a contract with a key relies on.
const RELIED_ON: [&str; 6] = ["same_input", "key", "scope", "horizon", "in_flight", "execution"];

#[test]
fn no_repetition_relies_on_something_remembered_guessed_or_contradicted() {
    for contract in catalog() {
        let hearsay: Vec<&str> = RELIED_ON
            .into_iter()
            .filter(|part| !contract.confidence_in(part).permits_a_second_dispatch())
            .filter(|part| *part != "execution" || contract.kind() == Kind::K2)
            .collect();
        let repeated = matches!(contract.lost_reply_becomes(), Becomes::Repeated { .. });
        assert!(!repeated || hearsay.is_empty(), "{} is sent again on the word of {hearsay:?}", contract.id);
    }
}

#[test]
fn each_part_alone_stops_a_repetition_when_it_is_only_remembered() {
    for id in ["stripe.v1", "paypal.orders.v2", "resend", "aws.sqs.fifo"] {
        let known = contract(id);
        assert!(matches!(known.lost_reply_becomes(), Becomes::Repeated { .. }), "{id}");
        for part in RELIED_ON {
            // Only successes are stored without a word about failures: that word is execution's.
            if part == "execution" && known.kind() != Kind::K2 {
                continue;
            }
            for confidence in [Confidence::Memory, Confidence::Conflict, Confidence::Inferred, Confidence::Unknown] {
                let mut doubted = known.clone();
                doubted.provenance.parts.insert(part.to_owned(), confidence);
                let becomes = doubted.lost_reply_becomes();
                assert!(!matches!(becomes, Becomes::Repeated { .. }), "{id}, {part} from {confidence:?}: {becomes}");
            }
        }
    }
}

#[test]
fn what_lets_an_operation_be_sent_again_without_proof_is_known_well() {
    for contract in catalog() {
        if !contract.confidence_in("execution").permits_a_second_dispatch() {
            let execution = &contract.execution;
            let risky = execution.limiter_before_work
                || execution.shed_before_work
                || execution.trusts_refused_stream
                || execution.effect_atomic_with_key
                || execution.is_error == IsError::Refused;
            assert!(!risky, "{}: a guess about when the effect happens", contract.id);
        }
        if !contract.confidence_in("responses").permits_a_second_dispatch() {
            let again = |meaning: Meaning| matches!(meaning, Meaning::TurnedAway | Meaning::CredentialRefused);
            assert!(!contract.responses.iter().any(|rule| again(rule.is)), "{}: a guess about an answer", contract.id);
        }
        if let Some(lookup) = &contract.lookup
            && !contract.confidence_in("lookup").permits_a_second_dispatch()
        {
            assert_eq!(lookup.absence_is_proof, AbsenceIsProof::Never, "{}", contract.id);
        }
    }
}

#[test]
fn an_unknown_tells_each_vendors_client_to_stop() {
    // Statuses that the vendor's own clients send again unless a header forbids it.
    let sent_again = [("stripe.v1", 409), ("stripe.v2", 409), ("increase", 409)];
    for contract in catalog() {
        let Some(answer) = &contract.indeterminate else {
            let cannot_be_proxied = contract.id.starts_with("aws.") || contract.id == "none";
            assert!(cannot_be_proxied, "{}: how does its client learn of an unknown?", contract.id);
            continue;
        };
        assert!((400..=499).contains(&answer.status), "{}: clients repeat a {}", contract.id, answer.status);
        let body = answer.body.replace("{code}", "unknown").replace("{message}", "m").replace("{operation_id}", "o");
        let body = body.replace("{status}", "409");
        let body: serde_json::Value =
            serde_json::from_str(&body).unwrap_or_else(|why| panic!("{}: {why}", contract.id));
        assert!(body.to_string().contains("\"m\""), "{}: the message is not in it", contract.id);
        if sent_again.contains(&(contract.id.as_str(), answer.status)) {
            let hint = contract.retry_hint.as_ref().unwrap();
            assert_eq!(answer.headers.get(&hint.header), Some(&hint.stop), "{}", contract.id);
        }
    }
}

/// What one answer of a vendor means, in words.
fn told(id: &str, which: Which, status: u16, body: &str) -> String {
    let answer = Observed::Http {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Body::Whole(body.as_bytes().to_vec()),
    };
    contract(id).becomes(which, &answer).to_string()
}

#[test]
fn the_meanings_of_409_are_told_apart_by_what_the_answer_says() {
    use Which::{First, Repetition};
    let gone =
        r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#;
    let cases = [
        // Being executed.
        ("stripe.v1", Repetition, r#"{"error":{"code":"idempotency_key_in_use"}}"#, "the same key again, for 23h"),
        ("resend", First, r#"{"name":"concurrent_idempotent_requests"}"#, "the same key again, for 23h"),
        // Used with other input.
        ("resend", Repetition, r#"{"name":"invalid_idempotent_request"}"#, "a disagreement, for a person"),
        ("increase", Repetition, r#"{"type":"idempotency_key_already_used_error"}"#, "a disagreement, for a person"),
        // It exists: another's on a first attempt, perhaps ours on a repetition.
        ("gocardless", First, gone, "refused, nothing happened"),
        ("gocardless", Repetition, gone, "a lookup after 1s"),
        ("svix", First, r#"{"code":"conflict"}"#, "refused, nothing happened"),
        ("svix", Repetition, r#"{"code":"conflict"}"#, "a lookup after 1s"),
        // Nothing that the contract knows.
        ("gocardless", First, r#"{"error":{"errors":[{"reason":"other"}]}}"#, "a person"),
    ];
    for (id, which, body, expected) in cases {
        assert_eq!(told(id, which, 409, body), expected, "{id}, {which:?}: {body}");
    }
}

#[test]
fn what_a_refusal_points_at_is_kept_and_asked_for() {
    let contract = contract("gocardless");
    let repetition =
        AttemptFacts { redrive: true, earlier_uncertain: true, arguments: None, now: crate::time::Timestamp::EPOCH };
    let body =
        r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#;
    let answer = Observed::Http { status: 409, headers: Vec::new(), body: Body::Whole(body.into()) };
    let classified = classify(&contract, &repetition, &answer);
    let pointed = crate::event::Cause::AlreadyExists { handle: Some("PM1".to_owned()) };
    assert_eq!(classified.verdict, crate::event::Verdict::Lost(pointed));
    assert_eq!(classified.then, Next::LookupAfter(core::time::Duration::ZERO));
    // What was pointed at is ours only if it is what was asked for.
    let found = |amount: u32| {
        crate::receipt::Answer::json(&serde_json::json!({ "payments": { "id": "PM1", "amount": amount } }))
    };
    let arguments = serde_json::json!({ "amount": 500 });
    let read = |amount| match crate::evidence::read_lookup(
        &contract,
        &found(amount),
        &[],
        &arguments,
        crate::time::Timestamp::EPOCH,
    ) {
        crate::evidence::Reading::Found { candidates, .. } => crate::evidence::presence(&candidates),
        crate::evidence::Reading::Unreadable => panic!("it can be read"),
    };
    assert!(matches!(read(500), crate::evidence::Presence::Ours(_)));
    assert!(matches!(read(700), crate::evidence::Presence::OtherEffect(_)), "another's payment under our key");
}

#[test]
fn an_error_inside_a_success_is_no_success() {
    let mut contract = contract("generic.lookup_only");
    let rule =
        "when = { all_of = [{ status = [200] }, { body_equals = { at = \"/ok\", value = false } }] }\nis = \"refused\"";
    contract.responses.push(toml::from_str(rule).unwrap());
    let answer = |body: &str| Observed::Http { status: 200, headers: Vec::new(), body: Body::Whole(body.into()) };
    assert_eq!(contract.becomes(Which::First, &answer(r#"{"ok":false,"id":"1"}"#)), Becomes::Refused);
    assert_eq!(contract.becomes(Which::First, &answer(r#"{"ok":true,"id":"1"}"#)), Becomes::Done);
    assert!(matches!(contract.becomes(Which::First, &answer(r#"{"ok":true}"#)), Becomes::LookedUp { .. }));
}
