//! An application runs its own function: claim, mark, run, settle.

use onceward_gateway::auth::Role;
use serde_json::{Value, json};

use crate::bench::{Bench, Client, ticket};

fn claim(id: &str) -> Value {
    json!({ "tool": "own.rename", "arguments": { "to": "b" }, "operation_id": id, "settle_within_ms": 60_000 })
}

async fn granted(client: &Client, body: Value) -> Value {
    let answer = client.post("/v1/claims", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()
}

fn holder(granted: &Value) -> Value {
    json!({ "attempt": granted["attempt"], "secret": granted["secret"] })
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

#[tokio::test]
async fn a_claim_is_marked_run_and_settled_and_its_repetition_gets_the_receipt() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, claim("c-1")).await;
    assert!(held["outbound_key"].is_string());
    let busy = bench.agent.post("/v1/claims", claim("c-1")).await;
    busy.is(409, "in_progress");
    assert!(!busy.text.contains(held["secret"].as_str().unwrap()), "the secret is its holder's alone");
    let marked = bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await;
    assert_eq!(marked.status, 200, "{}", marked.text);
    bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await.is(409, "illegal_move");
    let longer = with(holder(&held), "settle_within_ms", json!(120_000));
    let beat = bench.agent.post("/v1/claims/c-1/heartbeat", longer).await.json();
    assert!(beat["settle_by"].as_str() > held["settle_by"].as_str(), "{beat} {held}");
    let receipt = json!({ "status": 201, "headers": { "Location": "/b", "Set-Cookie": "x" }, "body": { "id": 7 } });
    let settlement = with(with(holder(&held), "ended", json!("done")), "receipt", receipt);
    let settled = bench.agent.post("/v1/claims/c-1/settlement", settlement).await;
    settled.is(200, "executed");
    let told = bench.agent.post("/v1/claims", claim("c-1")).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"], json!({ "id": 7 }));
    assert_eq!(told["receipt"]["headers"], json!({ "location": "/b", "content-type": "application/json" }));
    bench.agent.post("/v1/claims", with(claim("c-1"), "arguments", json!({ "to": "c" }))).await.is(422, "conflict");
}

#[tokio::test]
async fn a_receipt_in_hand_is_stored_as_it_is_written_whatever_numbers_it_has() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, claim("c-1")).await;
    let marked = bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await;
    assert_eq!(marked.status, 200, "{}", marked.text);
    let settlement = json!({
        "attempt": held["attempt"],
        "secret": held["secret"],
        "ended": "done",
        "effect_id": "a name with spaces",
        "receipt": { "body": { "id": 9_007_199_254_740_993_u64 } },
    });
    bench.agent.post("/v1/claims/c-1/settlement", settlement).await.is(200, "executed");
    let told = bench.agent.post("/v1/claims", claim("c-1")).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"]["id"], json!(9_007_199_254_740_993_u64));
}

#[tokio::test]
async fn nobody_settles_a_claim_without_its_secret() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, claim("c-1")).await;
    let mine = granted(&bench.agent, claim("c-2")).await;
    let (_, other_agent) = bench.credential("acme", "other", Role::Agent, "*").await;
    let (_, other_tenant) = bench.credential("other", "agent", Role::Agent, "*").await;
    let settle = |secret: &Value| json!({ "attempt": 1, "secret": secret, "ended": "done", "receipt": { "body": 1 } });
    let path = "/v1/claims/c-1/settlement";
    for wrong in [json!("x"), json!(""), json!("a.b"), mine["secret"].clone()] {
        other_agent.post(path, settle(&wrong)).await.is(403, "denied");
        other_agent
            .post("/v1/claims/c-1/dispatching", json!({ "attempt": 1, "secret": wrong }))
            .await
            .is(403, "denied");
    }
    other_tenant.post(path, settle(&held["secret"])).await.is(404, "not_found");
    bench.operator.post(path, settle(&held["secret"])).await.is(404, "not_found");
    bench.agent.post(path, with(settle(&held["secret"]), "attempt", json!(2))).await.is(403, "denied");
    let shown = bench.agent.get("/v1/operations/c-1").await;
    assert_eq!(shown.json()["operation"]["state"], "pending");
    assert!(!shown.text.contains(held["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn a_settlement_that_comes_after_its_time_is_evidence_and_is_not_dropped() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, with(claim("c-1"), "settle_within_ms", json!(1_000))).await;
    let marked = bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await;
    assert_eq!(marked.status, 200, "{}", marked.text);
    bench.agent.until_state("c-1", "unknown").await;
    bench.agent.post("/v1/claims/c-1/heartbeat", holder(&held)).await.is(409, "claim_lost");
    bench.agent.post("/v1/claims", claim("c-1")).await.is(409, "unknown");
    let settlement = with(with(holder(&held), "ended", json!("done")), "effect_id", json!("E-7"));
    let late = bench.agent.post("/v1/claims/c-1/settlement", settlement).await;
    assert_eq!(late.status, 200, "{}", late.text);
    let shown = bench.agent.until_state("c-1", "succeeded").await;
    assert_eq!(shown["operation"]["effect_id"], "E-7");
    let journal = bench.operator.get("/v1/operations/c-1/journal").await;
    assert!(journal.text.contains("late_answer"), "{}", journal.text);
}

#[tokio::test]
async fn a_claim_that_was_never_marked_is_free_again_and_one_that_failed_after_its_mark_is_unknown() {
    let bench = Bench::start().await;
    granted(&bench.agent, with(claim("c-1"), "settle_within_ms", json!(50))).await;
    bench.agent.until_state("c-1", "approved").await;
    let again = granted(&bench.agent, claim("c-1")).await;
    assert_eq!(again["attempt"], 2);
    bench.agent.post("/v1/claims/c-1/dispatching", holder(&again)).await;
    let failed = with(holder(&again), "ended", json!("failed"));
    bench.agent.post("/v1/claims/c-1/settlement", failed).await.is(409, "unknown");
    bench.agent.post("/v1/claims", claim("c-1")).await.is(409, "unknown");
}

#[tokio::test]
async fn a_claim_of_a_configured_tool_is_bound_by_its_policy() {
    let bench = Bench::start().await;
    let body = |tool: &str, arguments: Value| json!({ "tool": tool, "operation_id": tool, "arguments": arguments });
    bench.agent.post("/v1/claims", body("approved_ticket", ticket("P"))).await.is(409, "approval_required");
    bench.agent.post("/v1/claims", body("create_ticket", json!({}))).await.is(422, "invalid_arguments");
    bench.agent.post("/v1/claims", body("get_ticket", json!({ "id": "T-1" }))).await.is(400, "invalid_request");
    bench.agent.post("/v1/claims", json!({ "tool": "own.rename", "arguments": {} })).await.is(400, "identity_required");
}

#[tokio::test]
async fn an_answer_in_hand_is_not_lost_by_naming_the_end_wrongly() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, claim("c-1")).await;
    bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await;
    let path = "/v1/claims/c-1/settlement";
    let wrong = with(with(holder(&held), "ended", json!("failed")), "effect_id", json!("E-7"));
    bench.agent.post(path, wrong).await.is(400, "invalid_request");
    let two_bodies = json!({ "body": 1, "body_text": "x" });
    let wrong = with(with(holder(&held), "ended", json!("done")), "receipt", two_bodies);
    bench.agent.post(path, wrong).await.is(400, "invalid_request");
    bench.agent.until_state("c-1", "pending").await;
    let bytes = with(with(holder(&held), "ended", json!("done")), "receipt", json!({ "body_base64": "/wA=" }));
    assert_eq!(bench.agent.post(path, bytes).await.is(200, "executed")["receipt"]["body_base64"], "/wA=");
}

#[tokio::test]
async fn a_claim_that_begins_at_once_needs_no_mark_and_is_unknown_when_nobody_settles_it() {
    let bench = Bench::start().await;
    let begun =
        |id: &str, within_ms: u64| with(with(claim(id), "begin", json!(true)), "settle_within_ms", json!(within_ms));
    let held = granted(&bench.agent, begun("c-1", 60_000)).await;
    bench.agent.post("/v1/claims/c-1/dispatching", holder(&held)).await.is(409, "illegal_move");
    let settlement = with(with(holder(&held), "ended", json!("done")), "receipt", json!({ "body": { "id": 7 } }));
    bench.agent.post("/v1/claims/c-1/settlement", settlement).await.is(200, "executed");

    granted(&bench.agent, begun("c-2", 50)).await;
    bench.agent.until_state("c-2", "unknown").await;

    let unsent = granted(&bench.agent, begun("c-3", 60_000)).await;
    let nothing = with(holder(&unsent), "ended", json!("nothing_sent"));
    bench.agent.post("/v1/claims/c-3/settlement", nothing).await.is(503, "not_dispatched");
    assert_eq!(granted(&bench.agent, begun("c-3", 60_000)).await["attempt"], 2);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_again_to_its_token_and_to_nobody_else() {
    const MINE: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const ANOTHERS: &str = "00000000000000000000000000000000";
    let bench = Bench::start().await;
    let asked = |token: &str| with(with(claim("c-1"), "token", json!(token)), "begin", json!(true));
    let first = granted(&bench.agent, asked(MINE)).await;
    assert_eq!(granted(&bench.agent, asked(MINE)).await, first, "the same grant, not another attempt");
    bench.agent.post("/v1/claims", asked(ANOTHERS)).await.is(409, "in_progress");
    bench.agent.post("/v1/claims", claim("c-1")).await.is(409, "in_progress");
    bench.agent.post("/v1/claims", with(asked(MINE), "arguments", json!({ "to": "c" }))).await.is(422, "conflict");
    for malformed in ["short", "with a space in the middle", &"x".repeat(65)] {
        bench.agent.post("/v1/claims", asked(malformed)).await.is(400, "invalid_request");
    }
    let settlement = with(with(holder(&first), "ended", json!("done")), "receipt", json!({ "body": 1 }));
    bench.agent.post("/v1/claims/c-1/settlement", settlement).await.is(200, "executed");
    bench.agent.post("/v1/claims", asked(MINE)).await.is(200, "replayed");
}

#[tokio::test]
async fn a_copy_of_a_claim_that_was_given_back_is_granted_to_nobody() {
    const MINE: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const NEXT: &str = "11111111111111111111111111111111";
    let bench = Bench::start().await;
    let asked = |token: &str| with(with(claim("c-1"), "token", json!(token)), "begin", json!(true));
    let first = granted(&bench.agent, asked(MINE)).await;
    let nothing = with(holder(&first), "ended", json!("nothing_sent"));
    bench.agent.post("/v1/claims/c-1/settlement", nothing).await.is(503, "not_dispatched");
    // It was on its way all the time. A grant would be nobody's, and the operation unknown in the end.
    bench.agent.post("/v1/claims", asked(MINE)).await.is(409, "claim_lost");
    assert_eq!(granted(&bench.agent, asked(NEXT)).await["attempt"], 2);
}

#[tokio::test]
async fn a_result_that_is_null_is_a_result() {
    let bench = Bench::start().await;
    let held = granted(&bench.agent, with(claim("c-1"), "begin", json!(true))).await;
    let settlement = with(with(holder(&held), "ended", json!("done")), "receipt", json!({ "body": null }));
    bench.agent.post("/v1/claims/c-1/settlement", settlement).await.is(200, "executed");
    let told = bench.agent.post("/v1/claims", claim("c-1")).await.is(200, "replayed");
    assert_eq!(told["receipt"].get("body"), Some(&Value::Null), "{told:#}");
}

#[tokio::test]
async fn what_comes_late_of_an_operation_that_was_erased_leaves_no_words() {
    let bench = Bench::start().await;
    let claim = json!({ "tool": "own.rename", "arguments": { "to": "b" }, "operation_id": "c-1", "begin": true });
    let held = bench.agent.post("/v1/claims", claim).await.json();
    let failed = with(holder(&held), "ended", json!("failed"));
    bench.agent.post("/v1/claims/c-1/settlement", failed).await.is(409, "unknown");
    let not_done = json!({ "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence": "looked" });
    assert_eq!(bench.operator.decide("c-1", not_done).await.status, 200);
    let everything = json!({ "scope": "everything" });
    bench.operator.post("/v1/operations/c-1/purge", everything.clone()).await;
    let done = with(with(holder(&held), "ended", json!("done")), "receipt", json!({ "body": "her address" }));
    bench.agent.post("/v1/claims/c-1/settlement", done).await;
    let journal = async || bench.operator.get("/v1/operations/c-1/journal").await.text;
    let before = journal().await;
    assert!(before.contains("late_answer") && !before.contains("her address"), "{before}");
    let again = bench.operator.post("/v1/operations/c-1/purge", everything).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert!(!journal().await.contains("late_answer"), "asked for once more, it takes what came since");
}
