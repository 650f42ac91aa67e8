//! `onceward lab`.

use super::{Said, run};

#[test]
fn the_lab_passes_and_its_file_has_what_it_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &["lab", "--output", "results.json"]);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    let text = std::fs::read_to_string(folder.path().join("results.json")).expect("the results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let scenarios = results["scenarios"].as_object().expect("scenarios");

    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.last(), Some(&format!("PASS: {} scenarios", scenarios.len()).as_str()));
    assert_eq!(lines.len(), scenarios.len() + 1, "one line for each scenario, and the last one");
    assert_eq!(results["passed"], true);
    assert!(results["versions"]["onceward"].is_string() && results["versions"]["sqlite"].is_string());
    let is = |name: &str, field: &str, value: serde_json::Value| assert_eq!(scenarios[name][field], value, "{name}");
    is("naive_retry", "attempts", 2.into());
    is("naive_retry", "tickets", 2.into());
    is("stable_key_retry", "attempts", 3.into());
    is("stable_key_retry", "tickets", 1.into());
    is("stable_key_retry", "replay_ticket_id", "T-1001".into());
    is("changed_payload", "rejected", true.into());
    is("changed_payload", "tickets", 1.into());
    is("failure_before_commit", "tickets_before_retry", 0.into());
    is("failure_before_commit", "tickets_after_retry", 1.into());
    is("concurrent_same_key", "attempts", 8.into());
    is("concurrent_same_key", "tickets", 1.into());
    is("concurrent_same_key", "returned_ticket_ids", serde_json::json!(["T-1001"]));
    is("new_key_same_payload", "tickets", 2.into());
    is("deleted_replay_record", "tickets", 2.into());
    is("purged_record", "tickets", 1.into());
    is("purged_record", "outcome", "expired".into());
}

#[test]
fn a_scenario_that_does_not_exist_is_refused_with_the_names_of_those_that_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let Said { code, out, err } = run(folder.path(), &["lab", "--only", "naive_rety"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("naive_rety") && err.contains("naive_retry"), "{err}");
    assert_eq!(out, "", "nothing was played");
}
