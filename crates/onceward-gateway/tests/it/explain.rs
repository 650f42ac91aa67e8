//! What a call would come to, said without making it.

use onceward_gateway::auth::Role;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, Client, ticket};

async fn explain(client: &Client, tool: &str, id: Option<&str>, arguments: Value) -> Answer {
    let mut body = json!({ "arguments": arguments });
    if let Some(id) = id {
        body["operation_id"] = id.into();
    }
    client.post(&format!("/v1/tools/{tool}/explanations"), body).await
}

#[tokio::test]
async fn an_explanation_names_what_a_call_would_meet_send_and_be_told_and_changes_nothing() {
    let bench = Bench::start().await;
    let would = async |tool: &str, id: &str, arguments: Value| {
        let answer = explain(&bench.agent, tool, Some(id), arguments).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    let new = would("keyed_ticket", "t-1", ticket("Printer")).await;
    assert_eq!((&new["would"], &new["meets"], &new["told"]), (&json!("send"), &Value::Null, &Value::Null));
    let promised = new["outbound_key"]["key"].as_str().unwrap().to_owned();
    assert_eq!(
        would("create_ticket", "t-2", ticket("Printer")).await["outbound_key"]["key"],
        Value::Null,
        "none goes out"
    );
    assert_eq!(would("approved_ticket", "t-3", ticket("Printer")).await["would"], "propose");
    let listed = bench.operator.get("/v1/operations").await.json();
    assert!(listed["operations"].as_array().unwrap().is_empty(), "nothing was written: {listed}");
    assert_eq!(bench.writes().await, 0, "nothing was sent");

    bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let shown = bench.operator.get("/v1/operations/t-1/timeline").await.json();
    assert_eq!(shown["attempts"][0]["outbound_key"], json!(promised), "what was said is what went out");
    let replay = would("keyed_ticket", "t-1", ticket("Printer")).await;
    assert_eq!((&replay["would"], &replay["told"]["outcome"]), (&json!("replay"), &json!("replayed")));
    let row = bench.operator.get("/v1/operations/t-1").await.json();
    assert_eq!(replay["fingerprint"], row["operation"]["fingerprint"]);
    let conflict = would("keyed_ticket", "t-1", ticket("Scanner")).await;
    assert_eq!((&conflict["would"], &conflict["told"]["outcome"]), (&json!("replay"), &json!("conflict")));

    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-4", ticket("Mouse")).await.is(409, "unknown");
    let unknown = would("create_ticket", "t-4", ticket("Mouse")).await;
    assert_eq!((&unknown["would"], &unknown["told"]["outcome"]), (&json!("replay"), &json!("unknown")));
    let version = bench.operator.get("/v1/operations/t-4").await.json()["operation"]["version"].clone();
    assert_eq!(unknown["meets"]["version"], version, "explaining moves nothing");
}

#[tokio::test]
async fn an_explanation_of_a_call_without_identity_says_whether_it_would_be_held() {
    let bench = Bench::start().await;
    let first = explain(&bench.agent, "create_ticket", None, ticket("Printer")).await.json();
    assert_eq!((&first["would"], &first["identity"]["operation_id"]), (&json!("send"), &Value::Null));
    let made = bench.agent.post("/v1/tools/create_ticket/calls", json!({ "arguments": ticket("Printer") })).await;
    made.is(200, "executed");
    let held = explain(&bench.agent, "create_ticket", None, ticket("Printer")).await.json();
    assert_eq!((&held["would"], &held["told"]["outcome"]), (&json!("hold"), &json!("possible_duplicate")), "{held}");
    assert_eq!(held["meets"]["operation_id"], made.json()["operation_id"]);
    explain(&bench.agent, "named_ticket", None, ticket("Printer")).await.is(400, "identity_required");
    assert_eq!(bench.writes().await, 1);
}

#[tokio::test]
async fn who_may_not_see_a_tool_is_told_nothing_about_its_calls() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let (_, orders) = bench.credential("acme", "orders", Role::Agent, "create_order").await;
    explain(&orders, "create_ticket", Some("t-1"), ticket("Printer")).await.is(404, "unknown_tool");
    explain(&orders, "no_such_tool", Some("t-1"), ticket("Printer")).await.is(404, "unknown_tool");
    // An operator makes no calls, and may ask what one would come to.
    let asked = explain(&bench.operator, "create_ticket", Some("t-1"), ticket("Printer")).await.json();
    assert_eq!(asked["told"]["outcome"], "replayed");
    explain(&bench.agent, "create_ticket", Some("t-9"), json!({ "title": 7 })).await.is(422, "invalid_arguments");
}
