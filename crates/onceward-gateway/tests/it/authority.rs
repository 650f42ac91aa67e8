//! Who may do and see what.

use onceward_gateway::auth::Role;
use reqwest::Method;
use serde_json::json;

use crate::bench::{Answer, Bench, ticket};

/// Everything that a caller can compare, the name of the exchange aside.
fn comparable(answer: &Answer) -> (u16, Vec<String>, String) {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["date", "onceward-trace"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    (answer.status, headers, answer.text.clone())
}

/// R051
#[tokio::test]
async fn without_a_credential_nothing_is_looked_up_and_nothing_is_written() {
    let bench = Bench::start().await;
    let nobody = bench.nobody();
    let refused = nobody.call("create_ticket", "t-1", ticket("Printer")).await;
    refused.is(401, "unauthenticated");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    for path in ["/v1/tools", "/v1/operations", "/v1/operations/t-1", "/v1/credentials"] {
        nobody.get(path).await.is(401, "unauthenticated");
    }
    let wrong = crate::bench::Client::to(bench.gateway.address, Some("ow_agent_AAAA"));
    assert_eq!(comparable(&wrong.get("/v1/tools").await), comparable(&nobody.get("/v1/tools").await));
    let listed = bench.operator.get("/v1/operations").await.json();
    assert!(listed["operations"].as_array().unwrap().is_empty());
    assert_eq!(bench.writes().await, 0);
}

/// R075
#[tokio::test]
async fn a_revoked_credential_gets_no_replay_from_its_next_call_on() {
    let bench = Bench::start().await;
    let (id, agent) = bench.credential("acme", "temp", Role::Agent, "*").await;
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let revoked = bench.operator.delete(&format!("/v1/credentials/{id}")).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text);
    let existing = agent.call("create_ticket", "t-1", ticket("Printer")).await;
    existing.is(401, "unauthenticated");
    assert!(!existing.text.contains("T-1001"));
    let missing = agent.call("create_ticket", "t-2", ticket("Printer")).await;
    assert_eq!(comparable(&existing), comparable(&missing));
    agent.get("/v1/operations/t-1").await.is(401, "unauthenticated");
    // Another credential of the same grant has the receipt.
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(bench.writes().await, 1);
}

/// R072
#[tokio::test]
async fn two_tenants_with_one_operation_id_have_two_operations_and_cannot_see_each_other() {
    let bench = Bench::start().await;
    let (_, theirs) = bench.credential("other", "agent", Role::Agent, "*").await;
    let mine = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let other = theirs.call("create_ticket", "t-1", ticket("Scanner")).await.is(200, "executed");
    assert_ne!(mine["receipt"]["body"]["id"], other["receipt"]["body"]["id"]);
    assert_eq!(bench.tickets().await, 2);
    bench.agent.call("create_ticket", "t-2", ticket("Mine")).await.is(200, "executed");
    assert_eq!(theirs.get("/v1/operations").await.json()["operations"].as_array().unwrap().len(), 1);
    assert_eq!(
        comparable(&theirs.get("/v1/operations/t-2").await),
        comparable(&theirs.get("/v1/operations/t-9").await)
    );
}

#[tokio::test]
async fn what_one_may_not_see_is_answered_byte_for_byte_like_what_does_not_exist() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let (_, orders) = bench.credential("acme", "orders", Role::Agent, "create_order").await;
    for path in ["", "/journal", "/receipt"] {
        let hidden = orders.get(&format!("/v1/operations/t-1{path}")).await;
        hidden.is(404, "not_found");
        assert_eq!(comparable(&hidden), comparable(&orders.get(&format!("/v1/operations/t-0{path}")).await));
    }
    let moves = [
        ("withdrawal", json!({})),
        ("approval", json!({ "decision": "approve" })),
        (
            "decisions",
            json!({ "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "x", "expected": 1 }),
        ),
        // Also what would not be accepted of an operation that one may see.
        ("decisions", json!({ "choice": "wait", "reason": "seen_at_destination", "evidence": "", "expected": 1 })),
        ("purge", json!({ "scope": "everything" })),
    ];
    for (what, body) in moves {
        let hidden = orders.post(&format!("/v1/operations/t-1/{what}"), body.clone()).await;
        hidden.is(404, "not_found");
        let missing = orders.post(&format!("/v1/operations/t-0/{what}"), body).await;
        assert_eq!(comparable(&hidden), comparable(&missing), "{what}");
    }
    for what in ["dispatching", "heartbeat"] {
        let body = json!({ "attempt": 1, "secret": "x.y" });
        let hidden = orders.post(&format!("/v1/claims/t-1/{what}"), body.clone()).await;
        let missing = orders.post(&format!("/v1/claims/t-0/{what}"), body).await;
        assert_eq!(comparable(&hidden), comparable(&missing), "{what}");
    }
    let tool = orders.call("create_ticket", "t-1", ticket("Printer")).await;
    tool.is(404, "unknown_tool");
    assert_eq!(comparable(&tool), comparable(&orders.call("no_such_tool", "t-1", ticket("Printer")).await));
    let claim = |tool: &str| json!({ "tool": tool, "operation_id": "t-1", "arguments": {} });
    assert_eq!(
        comparable(&orders.post("/v1/claims", claim("create_ticket")).await),
        comparable(&orders.post("/v1/claims", claim("no_such_tool")).await)
    );
    let tools = orders.get("/v1/tools").await.json();
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools}");
    let listed = orders.get("/v1/operations").await.json();
    assert!(listed["operations"].as_array().unwrap().is_empty(), "{listed}");
}

#[tokio::test]
async fn an_agent_can_neither_decide_nor_administer_and_an_operator_cannot_call() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let decision = json!({ "choice": "dispatch_again", "reason": "not_at_destination", "evidence": "I want it" });
    bench.agent.decide("t-1", decision.clone()).await.is(403, "denied");
    bench.agent.get("/v1/operations/t-1/decisions").await.is(403, "denied");
    bench.agent.get("/v1/credentials").await.is(403, "denied");
    let credential = json!({ "principal": "me", "role": "operator", "tools": ["*"] });
    bench.agent.post("/v1/credentials", credential).await.is(403, "denied");
    for tool in ["create_ticket", "no_such_tool"] {
        bench.operator.call(tool, "t-2", ticket("Printer")).await.is(403, "denied");
    }
    assert_eq!(bench.writes().await, 1);
    // A person who holds both kinds of credential under one name still does not decide on an own call.
    let (_, same_name) = bench.credential("acme", "agent", Role::Operator, "*").await;
    same_name.decide("t-1", decision.clone()).await.is(403, "denied");
    let decided = bench.operator.decide("t-1", decision).await;
    assert_eq!(decided.json()["operation"]["state"], "approved", "{}", decided.text);
}

#[tokio::test]
async fn a_credential_is_made_of_the_makers_tenant_and_its_token_is_shown_once() {
    let bench = Bench::start().await;
    let make = async |body| bench.operator.post("/v1/credentials", body).await;
    let made = make(json!({ "principal": "bot", "role": "agent", "tools": ["create_*"] })).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("ow_agent_") && token.len() >= 9 + 43, "256 bits: {token}");
    let bot = crate::bench::Client::to(bench.gateway.address, Some(token));
    bot.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    bot.call("send_mail", "m-1", json!({})).await.is(404, "unknown_tool");
    let listed = bench.operator.get("/v1/credentials").await;
    assert!(!listed.text.contains(token) && listed.text.contains(made["id"].as_str().unwrap()));
    make(json!({ "principal": "bot", "role": "agent", "tools": ["*"], "scopes": ["execute", "decide"] }))
        .await
        .is(400, "invalid_request");
    make(json!({ "principal": "bot", "role": "agent", "tools": ["*"], "tenant": "other" }))
        .await
        .is(400, "invalid_request");
    let (foreign, _) = bench.credential("other", "agent", Role::Agent, "*").await;
    let listed = bench.operator.get("/v1/credentials").await;
    assert!(!listed.text.contains(&foreign), "{}", listed.text);
    let hidden = bench.operator.delete(&format!("/v1/credentials/{foreign}")).await;
    assert_eq!(comparable(&hidden), comparable(&bench.operator.delete("/v1/credentials/cred-0").await));
    hidden.is(404, "not_found");
}

#[tokio::test]
async fn an_address_or_method_that_is_not_served_is_a_problem_too() {
    let bench = Bench::start().await;
    bench.agent.get("/v1/nothing").await.is(404, "not_found");
    let answer = bench.agent.send(bench.agent.request(Method::PUT, "/v1/operations/t-1")).await;
    answer.is(405, "invalid_request");
    assert_eq!(answer.json()["status"], 405);
}
