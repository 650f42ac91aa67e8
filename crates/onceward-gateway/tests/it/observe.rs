//! Observe mode: everything is sent and recorded, nothing is blocked, and the report says what would have been.

use onceward_core::contract::built_in;
use onceward_gateway::limits::Limits;
use onceward_lab::sandbox::SandboxContract;
use serde_json::{Value, json};

use crate::bench::{Bench, Client, gateway_of, ticket};

pub(crate) const OBSERVE: &str = "observe = true";

pub(crate) async fn observing() -> Bench {
    Bench::with_text(OBSERVE, Limits::default(), |gateway| gateway).await
}

/// The number of calls that would have come to this.
fn would(report: &Value, word: &str) -> u64 {
    let groups = report["blocked"].as_array().unwrap();
    groups.iter().find(|group| group["would"] == word).map_or(0, |group| group["calls"].as_u64().unwrap())
}

async fn report(operator: &Client) -> Value {
    operator.get("/v1/report").await.json()
}

fn payment(amount: u64) -> Value {
    json!({ "amount": amount, "currency": "EUR" })
}

/// Traffic as a gateway's log has it: fourteen calls of three tools, of which three repeat an earlier one.
#[tokio::test]
async fn of_fourteen_recorded_calls_exactly_the_three_repetitions_are_reported_and_none_is_blocked() {
    let bench = observing().await;
    let unnamed = async |tool: &str, arguments: Value| {
        let path = format!("/v1/tools/{tool}/calls");
        bench.agent.post(&path, json!({ "arguments": arguments })).await
    };
    for n in 1..=5 {
        bench.agent.call("create_ticket", &format!("t-{n}"), ticket(&format!("Printer {n}"))).await.is(200, "executed");
    }
    for n in 1..=4 {
        unnamed("charge_payment", payment(1_000 * n)).await.is(200, "executed");
    }
    for item in ["toner", "paper"] {
        let order = json!({ "item": item, "quantity": 1 });
        bench.agent.call("create_order", item, order).await.is(200, "executed");
    }
    // The three: a retry by name, an equal call without identity, and a name that is used again for something else.
    let replayed = bench.agent.call("create_ticket", "t-3", ticket("Printer 3")).await.is(200, "executed");
    assert_eq!(replayed["observed"], json!({ "would": "replayed", "met": "t-3" }));
    unnamed("charge_payment", payment(2_000)).await.is(200, "executed");
    bench.agent.call("create_order", "toner", json!({ "item": "toner", "quantity": 9 })).await.is(200, "executed");

    assert_eq!(bench.writes().await, 14, "every call was sent");
    let report = report(&bench.operator).await;
    let (calls, clean) = (report["calls"].as_u64(), report["clean"].as_u64());
    assert_eq!((calls, clean, &report["complete"]), (Some(14), Some(11), &json!(true)), "{report:#}");
    for word in ["replayed", "possible_duplicate", "conflict"] {
        assert_eq!(would(&report, word), 1, "{word}: {report:#}");
    }
    assert_eq!(report["blocked"].as_array().unwrap().len(), 3, "{report:#}");
    let held = report["blocked"].as_array().unwrap().iter().find(|group| group["blocked_as"] == "held").unwrap();
    assert_eq!(held["amounts"], json!({ "EUR": "20" }), "two thousand cents");
    assert_eq!(held["examples"][0]["amount"], "20 EUR");
    assert!(report["observed_tools"].as_array().unwrap().contains(&json!("create_ticket")));
}

#[tokio::test]
async fn what_the_rules_would_refuse_or_make_wait_is_sent_and_named() {
    let bench = observing().await;
    let call = async |tool: &str, body: Value| bench.agent.post(&format!("/v1/tools/{tool}/calls"), body).await;
    let args = |title: &str| json!({ "arguments": ticket(title) });
    call("named_ticket", args("A")).await.is(200, "executed");
    call("run_ticket", args("B")).await.is(200, "executed");
    call("approved_ticket", args("C")).await.is(200, "executed");
    call("each_ticket", args("D")).await.is(200, "executed");
    bench.agent.call("short_ticket", "e", ticket("Too long")).await.is(200, "executed");
    let malformed = bench.agent.call_request("create_ticket", "not an id", ticket("F"));
    bench.agent.send(malformed).await.is(200, "executed");
    assert_eq!(bench.tickets().await, 6);
    let report = report(&bench.operator).await;
    let expected =
        [("identity_required", 2), ("approval_required", 2), ("invalid_arguments", 1), ("invalid_request", 1)];
    for (word, calls) in expected {
        assert_eq!(would(&report, word), calls, "{word}: {report:#}");
    }
    assert_eq!(report["clean"], 0);
}

#[tokio::test]
async fn a_lost_reply_is_told_and_its_repetition_is_sent_as_it_would_be_without_us() {
    let bench = observing().await;
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let again = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert_eq!(again["observed"], json!({ "would": "unknown", "met": "t-1" }));
    assert_eq!(bench.tickets().await, 2, "the duplicate that enforcing would have prevented");
    assert_eq!(would(&report(&bench.operator).await, "unknown"), 1);
}

#[tokio::test]
async fn a_destination_that_recognises_keys_sees_one_key_for_one_identity_and_no_disagreement_is_made() {
    let bench = Bench::with_contract(OBSERVE, SandboxContract::default()).await;
    let first = bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let second = bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert_eq!(first["receipt"]["body"], second["receipt"]["body"], "the destination itself recognised it");
    assert_eq!((bench.writes().await, bench.tickets().await), (2, 1));
    for id in ["t-1", second["operation_id"].as_str().unwrap()] {
        let shown = bench.operator.get(&format!("/v1/operations/{id}")).await.json();
        assert_eq!(shown["operation"]["disagreement"], Value::Null, "{shown:#}");
    }
}

#[tokio::test]
async fn nothing_is_sent_that_no_caller_sent() {
    let bench = Bench::with_contract(OBSERVE, SandboxContract::default()).await;
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    let lost = bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    assert_eq!(lost["attempts"], 1, "enforced, the same key would have been sent again");
    assert_eq!((lost["settles_by"].as_str(), bench.writes().await), (Some("person"), 1));
    let again = bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert_eq!(again["observed"]["would"], "redriven");
    assert_eq!((bench.writes().await, bench.tickets().await), (2, 1));
}

#[tokio::test]
async fn leaving_observe_mode_is_one_line_and_what_was_observed_is_remembered() {
    let bench = observing().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let Bench { gateway, sandbox, agent: _, operator: _, folder: _folder, ground } = bench;
    let token = gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    gateway.stop().await;
    let enforcing =
        gateway_of(ground.home.clone(), Bench::tools("", &sandbox), Limits::default()).start().await.unwrap();
    let agent = Client::to(enforcing.address, Some(&token));
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(422, "conflict");
    enforcing.stop().await;
}

#[tokio::test]
async fn a_destination_or_a_tool_is_observed_by_itself() {
    const TEXT: &str = r#"
[destination.a]
url = "http://127.0.0.1:1"
contract = "none"
observe = true

[destination.a.tool.one]
request = { method = "POST", path = "/", body = "arguments" }

[destination.a.tool.two]
observe = false
request = { method = "POST", path = "/", body = "arguments" }
"#;
    let catalog = crate::bench::catalog(TEXT);
    let lines: Vec<String> = catalog.explain().iter().map(ToString::to_string).collect();
    assert!(lines[0].contains("only observed, nothing is blocked"), "{lines:#?}");
    assert!(!lines[1].contains("only observed"), "{lines:#?}");
}

#[tokio::test]
async fn who_may_not_call_a_tool_may_not_call_it_observed_either() {
    let bench = observing().await;
    let (_, elsewhere) = bench.credential("acme", "other", onceward_gateway::auth::Role::Agent, "mail.*").await;
    elsewhere.call("create_ticket", "t-1", ticket("Printer")).await.is(404, "unknown_tool");
    bench.nobody().call("create_ticket", "t-1", ticket("Printer")).await.is(401, "unauthenticated");
    assert_eq!(bench.writes().await, 0);
}

#[tokio::test]
async fn an_applications_own_function_runs_whatever_is_recorded_and_its_repetitions_are_reported() {
    let bench = observing().await;
    let claim = |token: &str| {
        let arguments = json!({ "to": "b" });
        json!({ "tool": "own.rename", "arguments": arguments, "operation_id": "c-1", "begin": true, "token": token })
    };
    let mut ids = Vec::new();
    for token in ["0000000000000001", "0000000000000002"] {
        let granted = bench.agent.post("/v1/claims", claim(token)).await;
        assert_eq!(granted.status, 201, "{}", granted.text);
        let granted = granted.json();
        let again = bench.agent.post("/v1/claims", claim(token)).await;
        assert_eq!(again.json(), granted, "a lost answer to a claim finds the same grant");
        let id = granted["operation_id"].as_str().unwrap().to_owned();
        let settlement = json!({
            "attempt": granted["attempt"], "secret": granted["secret"], "ended": "done", "effect_id": "E-1",
            "receipt": { "body": { "id": "E-1" } },
        });
        bench.agent.post(&format!("/v1/claims/{id}/settlement"), settlement).await.is(200, "executed");
        ids.push(id);
    }
    assert_eq!(ids[0], "c-1");
    assert_ne!(ids[1], "c-1", "nothing that is known of an operation is touched");
    assert_eq!(would(&report(&bench.operator).await, "replayed"), 1);
}

#[tokio::test]
async fn two_equal_calls_at_one_moment_are_both_sent() {
    let bench = observing().await;
    let call = || bench.agent.call("create_ticket", "t-1", ticket("Printer"));
    let (one, other) = tokio::join!(call(), call());
    one.is(200, "executed");
    other.is(200, "executed");
    assert_eq!(bench.tickets().await, 2);
    let report = report(&bench.operator).await;
    assert_eq!((report["calls"].as_u64(), report["clean"].as_u64()), (Some(2), Some(1)), "{report:#}");
}

#[tokio::test]
async fn a_built_in_contract_is_observed_through_its_proxy_with_the_clients_own_key() {
    let stripe = built_in().unwrap().into_iter().find(|contract| contract.id == "stripe.v1").unwrap();
    let shop = crate::proxy::Shop::observing(SandboxContract::speaking(stripe)).await;
    let key = "0b2f6f8e-8a3e-4a3c-9b53-6f8a0c1d2e3f";
    let first = shop.intent(key, "amount=5000&currency=eur").await;
    let retried = shop.intent(key, "amount=5000&currency=eur").await;
    assert_eq!((first.status, &first.text), (200, &retried.text), "the vendor recognised its client's key");
    let mismatch = shop.intent(key, "amount=9000&currency=eur").await;
    assert_eq!(mismatch.status, 400, "the vendor's own refusal: {}", mismatch.text);
    assert_eq!((shop.effects("/v1/payment_intents").await, shop.keys().await.len()), (1, 3));
    assert_eq!(would(&report(&shop.bench.operator).await, "conflict"), 1);
}
