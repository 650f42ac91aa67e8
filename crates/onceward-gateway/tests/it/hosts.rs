//! Hosts that send no identity: every policy, over HTTP, and the way to a deliberate second one (R16, R18, R19).

use onceward_gateway::auth::Role;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::bench::{Answer, Bench, Client, ticket};

/// A call that nothing names.
async fn unnamed(client: &Client, tool: &str, arguments: Value) -> Answer {
    client.post(&format!("/v1/tools/{tool}/calls"), json!({ "arguments": arguments })).await
}

/// The same within a run.
async fn within(client: &Client, run: &str, arguments: Value) -> Answer {
    let request = client.request(Method::POST, "/v1/tools/run_ticket/calls").header("onceward-scope", run);
    client.send(request.json(&json!({ "arguments": arguments }))).await
}

fn id(body: &Value) -> String {
    body["operation_id"].as_str().unwrap_or_else(|| panic!("no operation id in {body}")).to_owned()
}

async fn decide(client: &Client, id: &str, body: Value) -> Answer {
    client.post(&format!("/v1/operations/{id}/approval"), body).await
}

#[tokio::test]
async fn a_deliberate_second_one_is_asked_for_approved_by_somebody_else_and_made_once() {
    let bench = Bench::start().await;
    let call = async || unnamed(&bench.agent, "create_ticket", ticket("Printer")).await;
    let first = call().await.is(200, "executed");
    let held = call().await.is(409, "possible_duplicate");
    assert_eq!((&held["next_action"], id(&held)), (&json!("request_approval"), id(&first)));
    assert!(held["detail"].as_str().unwrap().contains("/v1/approvals"), "{held}");

    let ask = async |client: &Client| client.post("/v1/approvals", json!({ "operation_id": id(&first) })).await;
    let asked = ask(&bench.agent).await;
    assert_eq!(asked.status, 201, "{}", asked.text);
    let second = id(&asked.json()["operation"]);
    let shown = asked.json()["operation"].clone();
    assert_eq!((&shown["state"], &shown["second_of"]), (&json!("proposed"), &json!(id(&first))));
    assert_eq!((&shown["proposal"]["reason"], &shown["arguments"]), (&json!("possible_duplicate"), &ticket("Printer")));
    let again = ask(&bench.operator).await;
    assert_eq!((again.status, id(&again.json()["operation"])), (200, second.clone()), "one at a time");
    let listed = bench.operator.get("/v1/operations?state=proposed").await.json();
    assert_eq!(listed["operations"].as_array().unwrap().len(), 1, "{listed}");
    let waits = call().await.is(409, "approval_required");
    assert_eq!(id(&waits), second);

    decide(&bench.agent, &second, json!({ "decision": "approve" })).await.is(403, "denied");
    let version = shown["version"].as_u64().unwrap();
    decide(&bench.operator, &second, json!({ "decision": "approve", "expected": version + 1 })).await.is(409, "moved");
    assert_eq!(bench.tickets().await, 1, "asking and refusing send nothing");
    let allowed = decide(&bench.operator, &second, json!({ "decision": "approve", "expected": version })).await;
    assert_eq!((allowed.status, &allowed.json()["operation"]["approved_by"]), (200, &json!("operator")));
    assert_eq!(bench.tickets().await, 1, "approving sends nothing");

    let done = call().await.is(200, "executed");
    assert_eq!(id(&done), second);
    for _ in 0..3 {
        assert_eq!(id(&call().await.is(409, "possible_duplicate")), second);
    }
    assert_eq!((bench.tickets().await, bench.writes().await), (2, 2));
}

#[tokio::test]
async fn nobody_asks_for_a_second_one_of_what_is_unknown_or_is_not_theirs() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    let lost = unnamed(&bench.agent, "held_ticket", ticket("Printer")).await.is(409, "unknown");
    let ask = json!({ "operation_id": id(&lost) });
    for client in [&bench.agent, &bench.operator] {
        client.post("/v1/approvals", ask.clone()).await.is(409, "earlier_unresolved");
    }
    // In other words it is held too, and there is nothing that an approval could release.
    let rephrased = unnamed(&bench.agent, "held_ticket", ticket("The printer burns")).await;
    assert_eq!(id(&rephrased.is(409, "possible_duplicate")), id(&lost));
    let (_, stranger) = bench.credential("umbrella", "agent", Role::Agent, "*").await;
    stranger.post("/v1/approvals", ask.clone()).await.is(404, "not_found");
    let (_, other_tool) = bench.credential("acme", "narrow", Role::Agent, "send_mail").await;
    other_tool.post("/v1/approvals", ask).await.is(404, "not_found");
    // One that its caller named holds nothing back: a second one has a name of its own.
    bench.agent.call("held_ticket", "named-1", ticket("Scanner")).await.is(200, "executed");
    bench.agent.post("/v1/approvals", json!({ "operation_id": "named-1" })).await.is(400, "invalid_request");
    assert_eq!(bench.tickets().await, 2);
}

/// R008, R009: each call of a host without identity waits for a person, and what is sent is what was shown.
#[tokio::test]
async fn r009_each_call_without_identity_waits_for_approval_and_runs_as_it_was_shown() {
    let bench = Bench::start().await;
    let call = async |title: &str| unnamed(&bench.agent, "each_ticket", ticket(title)).await;
    let one = id(&call("Printer").await.is(409, "approval_required"));
    assert_eq!(id(&call("Printer").await.is(409, "approval_required")), one, "a repetition makes no second row");
    let other = id(&call("Scanner").await.is(409, "approval_required"));
    assert_ne!(other, one, "another call waits beside it");
    assert_eq!(bench.tickets().await, 0);
    decide(&bench.operator, &one, json!({ "decision": "approve" })).await;
    assert_eq!(
        id(&call("Scanner").await.is(409, "approval_required")),
        other,
        "the approval is for the other arguments"
    );
    assert_eq!(id(&call("Printer").await.is(200, "executed")), one);
    assert_eq!(id(&call("Printer").await.is(409, "possible_duplicate")), one, "and it was used");
    decide(&bench.operator, &other, json!({ "decision": "decline" })).await;
    call("Scanner").await.is(409, "possible_duplicate");
    // With an identity the tool asks nobody.
    bench.agent.call("each_ticket", "t-1", ticket("Plotter")).await.is(200, "executed");
    assert_eq!(bench.tickets().await, 2);
}

#[tokio::test]
async fn equal_calls_within_one_run_are_one_operation_and_in_another_run_another() {
    let bench = Bench::start().await;
    unnamed(&bench.agent, "run_ticket", ticket("Printer")).await.is(400, "identity_required");
    let first = within(&bench.agent, "run-7", ticket("Printer")).await.is(200, "executed");
    let again = within(&bench.agent, "\"run-7\"", json!({ "body": "It burns.", "title": "Printer" })).await;
    assert_eq!(again.is(200, "replayed")["receipt"], first["receipt"]);
    within(&bench.agent, "run-8", ticket("Printer")).await.is(200, "executed");
    within(&bench.agent, "run-7", ticket("Scanner")).await.is(200, "executed");
    let (_, other) = bench.credential("acme", "second", Role::Agent, "*").await;
    within(&other, "run-7", ticket("Printer")).await.is(200, "executed");
    assert_eq!(bench.tickets().await, 4);

    // The id is what docs/hosts.md says, so that an application can name the operation too.
    let mut hash = Sha256::new();
    hash.update(b"onceward run v1\0");
    for part in ["agent", "run-7", "run_ticket", r#"{"body":"It burns.","title":"Printer"}"#] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(id(&first), format!("run-{digest}"));
    // A run says nothing where the tool's policy is another.
    let run = bench.agent.request(Method::POST, "/v1/tools/held_ticket/calls").header("onceward-scope", "run-7");
    bench.agent.send(run.json(&json!({ "arguments": ticket("Plotter") }))).await.is(200, "executed");
    let run = bench.agent.request(Method::POST, "/v1/tools/held_ticket/calls").header("onceward-scope", "run-8");
    bench.agent.send(run.json(&json!({ "arguments": ticket("Plotter") }))).await.is(409, "possible_duplicate");
}

/// Whichever way a call comes in, its tool's policy binds it.
#[tokio::test]
async fn a_claim_without_identity_goes_by_the_policy_of_its_tool() {
    let bench = Bench::start().await;
    let claim = async |tool: &str, title: &str| {
        bench.agent.post("/v1/claims", json!({ "tool": tool, "arguments": ticket(title) })).await
    };
    claim("named_ticket", "Printer").await.is(400, "identity_required");
    claim("a_function_of_ours", "Printer").await.is(400, "identity_required");
    let granted = claim("held_ticket", "Printer").await;
    assert_eq!(granted.status, 201, "{}", granted.text);
    let held = claim("held_ticket", "Printer").await.is(409, "possible_duplicate");
    assert_eq!(id(&held), id(&granted.json()));
    let called = unnamed(&bench.agent, "held_ticket", ticket("Printer")).await.is(409, "possible_duplicate");
    assert_eq!(id(&called), id(&granted.json()), "the two entrances see each other");

    let waits = id(&claim("each_ticket", "Printer").await.is(409, "approval_required"));
    decide(&bench.operator, &waits, json!({ "decision": "approve" })).await;
    let granted = claim("each_ticket", "Printer").await;
    assert_eq!((granted.status, id(&granted.json())), (201, waits), "{}", granted.text);
    claim("each_ticket", "Printer").await.is(409, "possible_duplicate");
    assert_eq!(bench.tickets().await, 0);
}
