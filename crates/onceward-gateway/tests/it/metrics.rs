//! What a scraper reads.

use std::collections::BTreeMap;

use onceward_gateway::auth::Role;
use onceward_gateway::limits::Limits;
use onceward_gateway::metrics::Access;
use reqwest::StatusCode;
use serde_json::json;

use crate::bench::{Bench, Client, gateway_of, ticket, until};

/// Every series by its name with its labels.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
        })
        .collect()
}

async fn read(client: &Client) -> BTreeMap<String, f64> {
    let answer = client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    series(&answer.text)
}

#[tokio::test]
async fn calls_repetitions_conflicts_receipts_and_times_are_counted() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    for _ in 0..2 {
        bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    }
    bench.agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(422, "conflict");
    let read = read(&bench.operator).await;
    for (name, expected) in [
        ("onceward_calls_total{tool=\"create_ticket\",outcome=\"executed\"}", 1.0),
        ("onceward_calls_total{tool=\"create_ticket\",outcome=\"replayed\"}", 2.0),
        ("onceward_calls_total{tool=\"create_ticket\",outcome=\"conflict\"}", 1.0),
        ("onceward_attempts_total{tool=\"create_ticket\",basis=\"no_effect_so_far\"}", 1.0),
        ("onceward_observations_total{source=\"owner\",verdict=\"effect\"}", 1.0),
        ("onceward_receipts_total{tool=\"create_ticket\",source=\"owner\"}", 1.0),
        ("onceward_dispatch_seconds_count{tool=\"create_ticket\"}", 1.0),
        ("onceward_dispatches_in_flight", 0.0),
        ("onceward_ledger_writable", 1.0),
        ("onceward_oldest_unknown_age_seconds", 0.0),
        ("onceward_owners_recovered_total", 0.0),
    ] {
        assert_eq!(read.get(name), Some(&expected), "{name} in {read:#?}");
    }
    assert!(read["onceward_ledger_commit_seconds_count"] >= 2.0, "{read:#?}");
    assert!(read["onceward_dispatch_seconds_sum{tool=\"create_ticket\"}"] > 0.0, "{read:#?}");
}

/// Outcomes that came after the deadline were dropped, and nobody saw for how long they had been unknown.
#[tokio::test]
async fn r115_the_age_of_what_is_unknown_is_visible_by_tool_and_cause_until_it_is_settled() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let (count, age) = (
        "onceward_unknown_operations{tool=\"create_ticket\",cause=\"reply_lost\"}",
        "onceward_unknown_oldest_age_seconds{tool=\"create_ticket\",cause=\"reply_lost\"}",
    );
    let needs_person = "onceward_needs_person_operations{reason=\"unknown\"}";
    let first = until("the unknown operation is counted", async || {
        let read = read(&bench.operator).await;
        (read.get(count) == Some(&1.0)).then_some(read)
    })
    .await;
    assert_eq!(first["onceward_oldest_unknown_age_seconds"], first[age]);
    assert_eq!(first.get(needs_person), Some(&1.0), "no check is scheduled for it");
    // It is not a count of scrapes: it grows by itself.
    until("it grows older", async || (read(&bench.operator).await[age] > first[age]).then_some(())).await;

    let decision = json!({
        "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "Ticket 1 is there, with this title.", "effect_id": "1",
        "receipt": { "status": 201, "body": { "id": 1 } },
    });
    let decided = bench.operator.decide("t-1", decision).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    let last = until("it is gone", async || {
        let read = read(&bench.operator).await;
        (!read.contains_key(count)).then_some(read)
    })
    .await;
    assert_eq!(last["onceward_oldest_unknown_age_seconds"], 0.0);
    let decisions = "onceward_decisions_total{tool=\"create_ticket\",choice=\"confirmed_done\"}";
    assert_eq!(last.get(decisions), Some(&1.0), "{last:#?}");
    assert_eq!(last.get("onceward_receipts_total{tool=\"create_ticket\",source=\"operator\"}"), Some(&1.0));
}

#[tokio::test]
async fn metrics_are_for_whoever_may_read_every_tool_unless_they_are_open_or_off() {
    let bench = Bench::start().await;
    bench.nobody().get("/metrics").await.is(401, "unauthenticated");
    let (_, some_tools) = bench.credential("acme", "narrow", Role::Operator, "create_*").await;
    some_tools.get("/metrics").await.is(403, "denied");
    read(&bench.operator).await;
    let ledger = bench.ledger();
    let Bench { gateway, sandbox, .. } = bench;
    gateway.stop().await;
    for (access, status) in [(Access::Open, StatusCode::OK), (Access::Off, StatusCode::NOT_FOUND)] {
        let mut next = gateway_of(ledger.clone(), Bench::tools("", &sandbox), Limits::default());
        next.metrics = access;
        let gateway = next.start().await.unwrap();
        let answer = Client::to(gateway.address, None).get("/metrics").await;
        assert_eq!(answer.status, status.as_u16(), "{}", answer.text);
        gateway.stop().await;
    }
}

/// An application may claim whatever it calls a tool, and one that counts must not be filled by it.
#[tokio::test]
async fn tools_that_no_configuration_names_are_one_series() {
    let bench = Bench::start().await;
    for n in 0..20 {
        let claim = json!({ "tool": format!("made_up_{n}"), "operation_id": format!("c-{n}"), "arguments": {} });
        let granted = bench.agent.post("/v1/claims", claim).await;
        assert_eq!(granted.status, 201, "{}", granted.text);
    }
    let read = read(&bench.operator).await;
    assert_eq!(read.get("onceward_calls_total{tool=\"other\",outcome=\"granted\"}"), Some(&20.0), "{read:#?}");
    assert!(read.keys().all(|name| !name.contains("made_up")), "{read:#?}");
}
