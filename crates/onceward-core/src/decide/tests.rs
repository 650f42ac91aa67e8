//! The identity comes before the state, in every state.

use serde_json::json;

use super::*;
use crate::event::Verdict;
use crate::event::{Event, PurgeScope};
use crate::fingerprint::{FingerprintKey, FingerprintKeyId};
use crate::key::ToolVersion;
use crate::samples::{approved, arguments, attempted, now, operations, receipt};

fn told(operation: &Operation, arguments: &Canonical) -> Decision {
    let request = Request { tool: &operation.binding.tool, arguments };
    decide(operation, request, &FingerprintKeys::unkeyed()).unwrap()
}

fn other_arguments() -> Canonical {
    Canonical::from_value(json!({ "summary": "Printer on fire", "amount": 4 })).unwrap()
}

#[test]
fn r044_every_path_compares_arguments() {
    let mut states = std::collections::BTreeSet::new();
    for (name, operation) in operations() {
        states.insert(operation.state.name());
        assert!(matches!(told(&operation, &other_arguments()), Decision::Conflict(_)), "{name}");
        assert!(!matches!(told(&operation, &arguments()), Decision::Conflict(_)), "{name}");
    }
    assert_eq!(states.len(), 7, "each state was asked");
}

#[test]
fn another_tool_is_a_conflict_in_every_state_whatever_the_arguments_are() {
    let other = ToolName::parse("another_tool").unwrap();
    for (name, operation) in operations() {
        for arguments in [arguments(), other_arguments()] {
            let request = Request { tool: &other, arguments: &arguments };
            let decision = decide(&operation, request, &FingerprintKeys::unkeyed()).unwrap();
            assert_eq!(decision, Decision::Conflict(Conflict::OtherTool), "{name}");
        }
    }
}

#[test]
fn a_conflict_names_the_fields_that_differ_and_no_values() {
    let Decision::Conflict(Conflict::OtherArguments(differences)) = told(&approved(), &other_arguments()) else {
        panic!("not a conflict")
    };
    let shown = serde_json::to_string(&differences.compared).unwrap();
    assert!(shown.contains("amount") && !shown.contains('3') && !shown.contains('4'), "{shown}");
}

#[test]
fn a_purged_operation_is_expired_and_a_conflict_comes_first() {
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let purged = done.clone().step(&Event::Purge(PurgeScope::Everything), now()).unwrap();
    assert_eq!(told(&purged, &arguments()), Decision::Expired);
    assert_eq!(told(&purged, &other_arguments()), Decision::Conflict(Conflict::OtherArgumentsErased));
    let without_arguments = done.step(&Event::Purge(PurgeScope::Arguments), now()).unwrap();
    assert_eq!(told(&without_arguments, &arguments()), Decision::Replay, "the receipt is still there");
}

#[test]
fn a_newer_tool_version_is_no_conflict_because_the_row_names_its_own() {
    let mut operation = approved();
    // The row was made with version 1; whatever is configured by now, the row is compared under that.
    assert_eq!(told(&operation, &arguments()), Decision::Ready);
    operation.binding.tool_version = ToolVersion::parse("2").unwrap();
    assert!(
        matches!(told(&operation, &arguments()), Decision::Conflict(_)),
        "the version takes part in the fingerprint"
    );
}

#[test]
fn another_fingerprint_key_is_no_conflict_while_the_rows_own_is_known() {
    let key = FingerprintKey::from_bytes(vec![7; 32]).unwrap();
    let rotated = FingerprintKeys::new(FingerprintKeyId(1), [(FingerprintKeyId(1), key)]).unwrap();
    let operation = approved();
    let arguments = arguments();
    let request = Request { tool: &operation.binding.tool, arguments: &arguments };
    assert_eq!(decide(&operation, request, &rotated).unwrap(), Decision::Ready);
}

#[test]
fn a_fingerprint_key_that_is_not_configured_permits_nothing() {
    let mut operation = approved();
    operation.binding.fingerprint_key = FingerprintKeyId(9);
    let arguments = arguments();
    let request = Request { tool: &operation.binding.tool, arguments: &arguments };
    assert!(decide(&operation, request, &FingerprintKeys::unkeyed()).is_err());
}

#[test]
fn r020_reordered_members_and_equal_numbers_are_the_same_intention() {
    for text in [r#"{"amount":3,"summary":"Printer on fire"}"#, r#"{ "summary" : "Printer on fire", "amount" : 3.0 }"#]
    {
        let arguments = crate::canonical::parse(text.as_bytes()).unwrap();
        assert_eq!(told(&approved(), &arguments), Decision::Ready, "{text}");
    }
}

#[test]
fn only_a_free_operation_is_ever_told_ready() {
    for (name, operation) in operations() {
        let ready = standing(&operation) == Decision::Ready;
        assert_eq!(ready, matches!(operation.state, State::Approved(_)), "{name}");
    }
}
