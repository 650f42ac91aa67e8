//! Contracts as files: what is read, what is refused, and that every word of every dimension is known.

use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

fn error(text: &str) -> String {
    Contract::parse(text).expect_err(text).to_string()
}

const HEAD: &str = "id = \"x\"\nversion = 1\n";
const KEY: &str = "[key]\ncarriers = [{ in = \"header\", name = \"Idempotency-Key\" }]\n";

#[test]
fn the_contracts_that_come_with_onceward_are_sound() {
    let contracts = built_in().unwrap_or_else(|error| panic!("{error}"));
    let expected = "stripe.v1 K1 · stripe.v2 K3 · paypal.orders.v2 K2 · square.payments K2 · gocardless K2 · increase K2 · \
                    zendesk K2 · resend K2 · github L · jira L · svix K2 · acp.checkout K2 · aws.sqs.fifo K2 · \
                    aws.stepfunctions K2 · oasis.repeatable K2 · ietf.idempotency_key K2 · generic.success_only K2 · \
                    generic.lookup_only L · none N";
    let kinds: Vec<String> = contracts.iter().map(|contract| format!("{} {}", contract.id, contract.kind())).collect();
    assert_eq!(kinds.join(" · "), expected);
    for contract in &contracts {
        assert!(contract.provenance.read.is_some(), "{}: when were its sources read?", contract.id);
        assert!(!contract.provenance.sources.is_empty(), "{}: what are its sources?", contract.id);
        let narrowed = contract.narrower(contract);
        assert_eq!(narrowed.kind(), contract.kind());
        assert_eq!(narrowed.horizon.recognised(), contract.horizon.recognised());
        assert_eq!(narrowed.lookup, contract.lookup);
    }
}

#[test]
fn a_contract_survives_being_written_and_read() {
    for contract in built_in().unwrap() {
        let json = serde_json::to_string(&contract).unwrap();
        assert_eq!(serde_json::from_str::<Contract>(&json).unwrap(), contract);
        let toml = toml::to_string(&contract).unwrap();
        assert_eq!(Contract::parse(&toml).unwrap(), contract);
    }
}

#[test]
fn the_content_hash_moves_with_every_promise() {
    let plain = Contract::parse(HEAD).unwrap();
    let mut other = plain.clone();
    other.execution.limiter_before_work = true;
    assert_eq!(plain.content_hash(), Contract::promising_nothing("x").content_hash());
    assert_ne!(plain.content_hash(), other.content_hash());
}

#[test]
fn what_is_unsaid_is_the_least_favourable() {
    let plain = Contract::parse(HEAD).unwrap();
    assert_eq!(plain, Contract::promising_nothing("x"));
    assert_eq!(plain.kind(), Kind::N);
    assert_eq!(plain.horizon.recognised(), Recognised::Never);
    assert!(!plain.in_flight.behaviour.excludes_a_second_effect());
    assert!(!plain.confidence_in("same_input").permits_a_second_dispatch());
    assert!(!plain.execution.effect_atomic_with_key);
    // A key alone promises nothing.
    let keyed = Contract::parse(&format!("{HEAD}{KEY}")).unwrap();
    assert_eq!(keyed.kind(), Kind::N);
    // Whoever does not say which answers are stored has said that of successes at best.
    let replays = Contract::parse(&format!("{HEAD}{KEY}[same_input]\nbehaviour = \"replays_stored\"\n")).unwrap();
    assert_eq!(replays.kind(), Kind::K2);
    let lookup = Contract::parse(&format!("{HEAD}[lookup]\npath = \"/x\"\n")).unwrap().lookup.unwrap();
    assert_eq!(lookup.absence_is_proof, AbsenceIsProof::Never);
    assert!(lookup.list_may_be_cut);
    assert_eq!(lookup.shown_after(), None);
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let cases = [
        ("version = 1\n", "missing field `id`"),
        ("id = \"x\"\nversion = 1\nretention = 3\n", "line 3: unknown field `retention`"),
        ("id = \"x\"\nversion = 1\n[horizon]\nmin = 60\n", "line 4"),
        ("id = \"x y\"\nversion = 1\n", "id: write a name"),
        ("id = \"x\"\nversion = 0\n", "version: versions count from 1"),
        ("id = \"x\"\nversion = 1\n[same_input]\nbehaviour = \"replays_stored\"\n", "there is no [key]"),
        ("id = \"x\"\nversion = 1\n[key]\ncarriers = []\n", "key.carriers"),
        ("id = \"x\"\nversion = 1\n[key]\ncarriers = [{ in = \"header\", name = \"a b\" }]\n", "is not a header name"),
        ("id = \"x\"\nversion = 1\n[key]\ncarriers = [{ in = \"body\", name = \"a\" }]\n", "JSON Pointer"),
        ("id = \"x\"\nversion = 1\n[horizon]\nkind = \"fixed\"\n", "horizon.min"),
        ("id = \"x\"\nversion = 1\n[horizon]\nmin = \"1h\"\n", "horizon.kind"),
        ("id = \"x\"\nversion = 1\n[horizon]\nkind = \"fixed\"\nmin = \"1h\"\nmargin = \"1h\"\n", "leaves nothing"),
        ("id = \"x\"\nversion = 1\n[horizon]\nkind = \"range\"\nmin = \"2h\"\nmax = \"1h\"\n", "shorter than min"),
        ("id = \"x\"\nversion = 1\n[execution]\nrefused_before_effect = [200]\n", "400 to 599"),
        ("id = \"x\"\nversion = 1\n[marker]\nat = \"/note\"\nmax_length = 35\n", "marker.max_length"),
        ("id = \"x\"\nversion = 1\nrefused_if = { text_contains = [\"\"] }\n", "refused_if: a condition is empty"),
        ("id = \"x\"\nversion = 1\n[indeterminate]\nstatus = 200\nbody = \"\"\n", "reads as done"),
        ("id = \"x\"\nversion = 1\n[live_credential]\nprefixes = [\"\"]\n", "live_credential.prefixes"),
        ("id = \"x\"\nversion = 1\n[provenance.parts]\nretention = \"memory\"\n", "no part of a contract"),
        ("id = \"x\"\nversion = 1\n[lookup]\nkind = \"cancel_by_key\"\npath = \"/c\"\n", "cancelling is no question"),
        ("id = \"x\"\nversion = 1\n[provenance]\nread = \"29.11.2026\"\n", "YYYY-MM-DD"),
        ("id = \"x\"\nversion = 1\n[lookup]\npath = \"/x\"\ntool = \"y\"\n", "not both"),
        ("id = \"x\"\nversion = 1\n[lookup]\npath = \"/x\"\nmethod = \"DELETE\"\n", "lookup.method"),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.contains(expected), "{text}\nfound: {found}\nexpected: {expected}");
    }
}

#[test]
fn absence_is_proof_only_with_everything_that_makes_it_one() {
    let sound = "[in_flight]\nbound = \"30s\"\n[lookup]\npath = \"/x\"\nabsence_is_proof = \"after_bound\"\n\
                 visibility_delay = \"60s\"\nlist_may_be_cut = false\nrecognise = [{ at = \"/marker\" }]\n";
    assert!(Contract::parse(&format!("{HEAD}{sound}")).is_ok());
    for (part, place) in [
        ("bound = \"30s\"\n", "in_flight.bound"),
        ("visibility_delay = \"60s\"\n", "lookup.visibility_delay"),
        ("list_may_be_cut = false\n", "lookup.list_may_be_cut"),
        ("recognise = [{ at = \"/marker\" }]\n", "lookup.recognise"),
    ] {
        let found = error(&format!("{HEAD}{}", sound.replace(part, "")));
        assert!(found.contains(place), "without {part}: {found}");
    }
}

#[test]
fn an_unsaid_margin_takes_a_part_of_the_horizon() {
    let day = Contract::parse(&format!("{HEAD}[horizon]\nkind = \"fixed\"\nmin = \"24h\"\n")).unwrap();
    assert_eq!(day.horizon.recognised(), Recognised::For(Duration::from_secs(23 * 3_600)));
    let minutes = Contract::parse(&format!("{HEAD}[horizon]\nkind = \"fixed\"\nmin = \"5m\"\n")).unwrap();
    assert_eq!(minutes.horizon.recognised(), Recognised::For(Duration::from_secs(270)));
    let lifetime = Contract::parse(&format!("{HEAD}[horizon]\nkind = \"resource_lifetime\"\n")).unwrap();
    assert_eq!(lifetime.horizon.recognised(), Recognised::Never);
}

#[test]
fn two_contracts_promise_together_no_more_than_each() {
    let (v1, v2) = {
        let contracts = built_in().unwrap();
        (contracts[0].clone(), contracts[1].clone())
    };
    let both = v1.narrower(&v2);
    assert_eq!(
        both.kind(),
        Kind::L,
        "v1 replays and v2 continues: together neither, and v1's question can still be asked"
    );
    assert_eq!(both.same_input.behaviour, SameInput::Undocumented);
    assert_eq!(both.in_flight.behaviour, InFlight::Undocumented);
    assert!(!both.execution.limiter_before_work);
    assert_eq!(both.horizon.min, v1.horizon.min);
    assert_eq!(both.replay_marker, v1.replay_marker);
    let mut moved = v1.clone();
    moved.key.as_mut().unwrap().carriers[0].name = "X-Other".to_owned();
    assert_eq!(v1.narrower(&moved).key, None);
}

#[test]
fn a_live_credential_is_recognised() {
    let live = LiveCredential { prefixes: vec!["sk_live_".to_owned()] };
    assert!(live.recognises("sk_live_1"));
    assert!(!live.recognises("sk_test_1"));
}

fn knows<T: DeserializeOwned + Serialize>(words: &str) {
    for word in words.split_whitespace() {
        let value = serde_json::Value::String(word.to_owned());
        let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{word}: {error}"));
        let written = serde_json::to_value(read).unwrap();
        let alias = word == "sdk_or_spec" && written == "spec_or_sdk";
        assert!(written == value || alias, "{word} is written as {written}");
    }
}

#[test]
fn every_word_of_every_dimension_is_known() {
    knows::<SameInput>(
        "replays_stored returns_current returns_existing_resource reexecutes_failures rejects_duplicate_with_pointer \
         rejects_duplicate_no_receipt accepted_no_effect undocumented",
    );
    knows::<OtherInput>(
        "rejects replays_original_silently executes_as_new accepted_no_effect indistinguishable undocumented",
    );
    knows::<InFlight>("rejects second_may_fail second_rejected_presumed waits_then_may_execute undocumented");
    knows::<Kept>("stored not_stored reexecuted unknown");
    knows::<HorizonKind>(
        "fixed at_least range configurable client_chosen indefinite resource_lifetime server_defined undocumented",
    );
    knows::<HorizonClock>("first_request first_completion client_first_sent object_end unknown");
    knows::<AfterExpiry>("reexecutes rejects not_applicable unknown");
    knows::<LookupKind>(
        "by_key by_key_via_conflict by_client_reference by_injected_marker list_scan by_provider_id_only event_stream \
         cancel_by_key async_handle none",
    );
    knows::<Consistency>("strong strong_presumed mixed eventual unknown");
    knows::<AbsenceIsProof>("within_horizon after_bound never not_applicable");
    knows::<Mechanism>(
        "key_replay key_replay_success_only key_replay_no_5xx key_reexecute_failures key_current_state \
         key_conflict_with_pointer key_reject_duplicate natural_key_unique repetition_window two_phase_object none",
    );
    knows::<Confidence>(
        "official_doc spec_or_sdk sdk_or_spec server_source secondary memory inferred conflict unknown operated",
    );
    knows::<Required>("yes no conditional");
    knows::<Encoding>("raw sf_string");
    knows::<Format>("any uuid printable_ascii alnum_dash_underscore");
    knows::<LengthUnit>("chars bytes");
    knows::<Role>("key natural_key");
    knows::<Place>("header body form query path param field mcp_meta argument graphql_directive jwt smtp_header");
    let classes: Saved = toml::from_str(
        "2xx = \"stored\"\n4xx_after_execution = \"stored\"\n4xx_before_execution = \"stored\"\n429 = \"stored\"\n\
         500 = \"stored\"\n503 = \"stored\"\n",
    )
    .unwrap();
    assert_eq!(classes.unavailable, Kept::Stored);
}
