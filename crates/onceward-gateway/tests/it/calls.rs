//! Calls, repetitions, and everything that a repetition may meet.

use onceward_gateway::auth::Role;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::bench::{Bench, DEADLINE, ticket, until};

#[tokio::test]
async fn a_repetition_finds_the_receipt_of_the_first_call() {
    let bench = Bench::start().await;
    let first = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await;
    let told = first.is(200, "executed");
    assert_eq!(told["receipt"]["status"], 201);
    assert_eq!(told["receipt"]["body"]["id"], "T-1001");
    assert_eq!(first.header("idempotent-replayed"), Some("false"));
    let second = bench.agent.call("create_ticket", "\"t-1\"", ticket("Printer")).await;
    let told_again = second.is(200, "replayed");
    assert_eq!(told_again["receipt"], told["receipt"]);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(second.header("onceward-operation-id"), Some("t-1"));
    assert_eq!(told_again["dispatched"], "yes");
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
}

#[tokio::test]
async fn a_lost_reply_makes_one_ticket_and_blocks_every_later_call() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    for _ in 0..3 {
        let told = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await;
        let body = told.is(409, "unknown");
        assert_eq!(body["type"], "urn:onceward:problem:unknown");
        assert_eq!(body["dispatched"], "maybe");
        assert_eq!(body["settles_by"], "person");
        assert_eq!(told.header("retry-after"), None, "repeating is not the way out");
    }
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
}

#[tokio::test]
async fn a_decision_with_evidence_settles_an_unknown_and_the_next_call_gets_its_receipt() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let decide = async |body| bench.operator.decide("t-1", body).await;
    decide(json!({ "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "  " }))
        .await
        .is(400, "invalid_request");
    decide(json!({ "choice": "confirmed_done", "evidence": "no reason" })).await.is(400, "invalid_request");
    let with_receipt = json!({
        "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence": "seen", "effect_id": "T-1001",
    });
    decide(with_receipt).await.is(400, "invalid_request");
    let decided = decide(json!({
        "choice": "confirmed_done", "reason": "seen_at_destination",
        "evidence": "T-1001 is in the helpdesk, with our title, of 10:31",
        "effect_id": "T-1001", "receipt": { "status": 201, "body": { "id": "T-1001" } },
    }))
    .await;
    assert_eq!(
        (decided.status, decided.json()["operation"]["state"].as_str()),
        (200, Some("succeeded")),
        "{}",
        decided.text
    );
    let told = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"], json!({ "id": "T-1001" }));
    assert_eq!(bench.writes().await, 1);
    decide(json!({ "choice": "dispatch_again", "reason": "not_at_destination", "evidence": "again" }))
        .await
        .is(409, "illegal_move");
    let journal = bench.operator.get("/v1/operations/t-1/journal").await;
    assert!(journal.text.contains("of 10:31"), "the evidence is kept: {}", journal.text);
}

/// R050
#[tokio::test]
async fn a_conflict_names_the_field_and_sends_nothing_in_whatever_state() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let other = bench.agent.call("create_ticket", "t-1", ticket("Scanner")).await;
    let body = other.is(422, "conflict");
    assert!(body["differences"].to_string().contains("/title"), "{body}");
    assert!(!other.text.contains("Printer"), "the stored value is not told: {}", other.text);
    let tool = bench.agent.call("create_order", "t-1", json!({ "item": "toner", "quantity": 1 })).await;
    tool.is(422, "conflict");
    assert!(!tool.text.contains("T-1001"), "{}", tool.text);
    assert_eq!(bench.writes().await, 1);
}

/// R050
#[tokio::test]
async fn what_fails_validation_is_not_kept_and_the_corrected_call_goes_on() {
    let bench = Bench::start().await;
    let invalid = bench.agent.call("create_ticket", "t-1", json!({ "title": "Printer" })).await;
    let body = invalid.is(422, "invalid_arguments");
    assert!(body["violations"].to_string().contains("body"), "{body}");
    bench.agent.get("/v1/operations/t-1").await.is(404, "not_found");
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
}

#[tokio::test]
async fn an_identity_that_is_malformed_or_given_twice_is_refused() {
    let bench = Bench::start().await;
    let long = "x".repeat(256);
    for id in ["a b", "\"open", long.as_str()] {
        bench.agent.call("create_ticket", id, ticket("Printer")).await.is(400, "invalid_request");
    }
    let call = |header: &str, body: &str| {
        bench
            .agent
            .request(Method::POST, "/v1/tools/create_ticket/calls")
            .header("idempotency-key", header)
            .json(&json!({ "arguments": ticket("Printer"), "operation_id": body }))
    };
    bench.agent.send(call("a", "b")).await.is(422, "identity_conflict");
    assert_eq!(bench.writes().await, 0);
    bench.agent.send(call("a", "a")).await.is(200, "executed");
}

#[tokio::test]
async fn a_call_without_identity_is_refused_or_held_as_its_tool_says() {
    let bench = Bench::start().await;
    let call = async |tool: &str| {
        bench.agent.post(&format!("/v1/tools/{tool}/calls"), json!({ "arguments": ticket("Printer") })).await
    };
    call("named_ticket").await.is(400, "identity_required");
    let first = call("create_ticket").await.is(200, "executed");
    let held = call("create_ticket").await;
    let body = held.is(409, "possible_duplicate");
    assert_eq!(body["receipt"], first["receipt"], "a caller that may see it gets the earlier receipt");
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
}

/// R011
#[tokio::test]
async fn calls_that_meet_a_running_attempt_join_it_or_are_told_to_come_back() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "delay_after_commit;ms=1500" })).await;
    let call = || bench.agent.call_request("create_ticket", "t-1", ticket("Printer"));
    let (first, joined, hasty) = tokio::join!(
        bench.agent.send(call()),
        async {
            until("the attempt", async || (bench.writes().await == 1).then_some(())).await;
            bench.agent.send(call()).await
        },
        async {
            until("the attempt", async || (bench.writes().await == 1).then_some(())).await;
            bench.agent.send(call().header("prefer", "wait=0")).await
        },
    );
    let receipt = first.is(200, "executed")["receipt"].clone();
    assert_eq!(joined.is(200, "replayed")["receipt"], receipt);
    hasty.is(409, "in_progress");
    assert!(hasty.header("retry-after").is_some());
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
}

#[tokio::test]
async fn a_caller_that_hangs_up_changes_nothing() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "delay_before_commit;ms=700" })).await;
    let body = json!({ "arguments": ticket("Printer"), "operation_id": "t-1" }).to_string();
    let token = bench.gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    let head = format!(
        "POST /v1/tools/create_ticket/calls HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(bench.gateway.address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    until("the request at the sandbox", async || (bench.writes().await == 1).then_some(())).await;
    drop(stream);
    bench.agent.until_state("t-1", "succeeded").await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
}

/// A caller that hangs up at any moment at all leaves no claim that nobody runs.
#[tokio::test]
async fn a_caller_that_hangs_up_at_once_leaves_no_orphan() {
    let bench = Bench::start().await;
    let token = bench.gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    for n in 0..20 {
        let body = json!({ "arguments": ticket("Printer"), "operation_id": format!("t-{n}") }).to_string();
        let head = format!(
            "POST /v1/tools/create_ticket/calls HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(bench.gateway.address).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        drop(stream);
    }
    // Either it was read and done, or it was never read: no state between. A call that is only now read is in neither count
    // or in both, soon.
    let settled = until("every operation settled, with one ticket each", async || {
        let page = bench.agent.get("/v1/operations?limit=100").await.json();
        let operations = page["operations"].as_array().unwrap().clone();
        let done = operations.iter().all(|operation| operation["state"] == "succeeded");
        (done && i64::try_from(operations.len()).unwrap() == bench.tickets().await).then_some(())
    });
    tokio::time::timeout(DEADLINE, settled).await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_stored_and_replayed_and_nothing_is_sent_again() {
    let bench = Bench::start().await;
    let declined = json!({ "amount": 4002, "currency": "EUR" });
    let first = bench.agent.call("charge_payment", "p-1", declined.clone()).await;
    assert_eq!(first.is(422, "rejected")["receipt"]["status"], 402);
    let again = bench.agent.call("charge_payment", "p-1", declined).await;
    assert_eq!(again.is(422, "rejected")["receipt"]["status"], 402);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(bench.writes().await, 1);
}

#[tokio::test]
async fn an_unreachable_destination_is_not_dispatched_and_the_same_call_goes_on_later() {
    let mut bench = Bench::start().await;
    let address = bench.sandbox.address();
    let agent = bench.agent.clone();
    let (folder, database) = (tempfile::tempdir().unwrap(), "later.db");
    bench.sandbox.stop().await;
    let told = agent.call("create_ticket", "t-1", ticket("Printer")).await;
    assert_eq!(told.is(503, "not_dispatched")["dispatched"], "no");
    assert!(told.header("retry-after").is_some());
    bench.sandbox = onceward_lab::sandbox::Sandbox::start(onceward_lab::sandbox::SandboxConfig {
        listen: address,
        database: folder.path().join(database),
        contract: onceward_lab::sandbox::SandboxContract::without_keys(),
        faults: onceward_lab::sandbox::Faults::none(),
    })
    .await
    .unwrap();
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert_eq!(bench.tickets().await, 1);
}

#[tokio::test]
async fn a_read_passes_through_and_leaves_no_operation() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let read = bench.agent.post("/v1/tools/get_ticket/calls", json!({ "arguments": { "id": "T-1001" } })).await;
    assert_eq!(read.status, 200, "{}", read.text);
    assert_eq!(read.json()["answer"]["body"]["title"], "Printer");
    let missing = bench.agent.post("/v1/tools/get_ticket/calls", json!({ "arguments": { "id": "T-9" } })).await;
    assert_eq!((missing.status, missing.json()["answer"]["status"].as_u64()), (200, Some(404)));
    let listed = bench.agent.get("/v1/operations").await.json();
    assert_eq!(listed["operations"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_operation_that_needs_approval_is_sent_after_a_person_allowed_it() {
    let bench = Bench::start().await;
    let call = async || bench.agent.call("approved_ticket", "t-1", ticket("Printer")).await;
    call().await.is(409, "approval_required");
    call().await.is(409, "approval_required");
    assert_eq!(bench.writes().await, 0);
    let approve = json!({ "decision": "approve" });
    bench.agent.post("/v1/operations/t-1/approval", approve.clone()).await.is(403, "denied");
    let approved = bench.operator.post("/v1/operations/t-1/approval", approve.clone()).await;
    assert_eq!(approved.json()["operation"]["state"], "approved", "{}", approved.text);
    bench.operator.post("/v1/operations/t-1/approval", approve).await.is(409, "illegal_move");
    call().await.is(200, "executed");
    assert_eq!(bench.writes().await, 1);
    bench.agent.call("approved_ticket", "t-2", ticket("Scanner")).await.is(409, "approval_required");
    bench.operator.post("/v1/operations/t-2/approval", json!({ "decision": "decline" })).await;
    bench.agent.call("approved_ticket", "t-2", ticket("Scanner")).await.is(410, "closed");
    assert_eq!(bench.writes().await, 1);
}

#[tokio::test]
async fn a_purged_operation_answers_expired_and_its_identity_stays_taken() {
    let bench = Bench::start().await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    bench.agent.post("/v1/operations/t-1/purge", json!({ "scope": "everything" })).await.is(403, "denied");
    let purged = bench.operator.post("/v1/operations/t-1/purge", json!({ "scope": "everything" })).await;
    assert_eq!(purged.status, 200, "{}", purged.text);
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(410, "expired");
    bench.agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(422, "conflict");
    assert_eq!(bench.writes().await, 1);
}

#[tokio::test]
async fn operations_are_listed_in_pages_and_by_state() {
    let bench = Bench::start().await;
    for n in 0..5 {
        bench.agent.call("create_ticket", &format!("t-{n}"), ticket(&format!("Printer {n}"))).await.is(200, "executed");
    }
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-5", ticket("Lost")).await.is(409, "unknown");
    let unknown = bench.operator.get("/v1/operations?state=unknown&tool=create_ticket").await.json();
    assert_eq!(unknown["operations"].as_array().unwrap().len(), 1);
    assert_eq!(unknown["operations"][0]["title"], "Ticket: Lost");
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for _ in 0..6 {
        let page = bench.operator.get(&format!("/v1/operations?limit=2{cursor}")).await.json();
        let rows = page["operations"].as_array().unwrap();
        assert!(rows.len() <= 2);
        seen.extend(rows.iter().map(|row| row["operation_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["t-5", "t-4", "t-3", "t-2", "t-1", "t-0"]);
    for query in ["state=lost", "limit=0", "limit=201", "cursor=x", "stat=unknown"] {
        bench.operator.get(&format!("/v1/operations?{query}")).await.is(400, "invalid_request");
    }
    let journal = bench.operator.get("/v1/operations/t-0/journal?limit=1").await.json();
    assert_eq!(journal["entries"].as_array().unwrap().len(), 1);
    assert_eq!(journal["next_after"], 1);
}

#[tokio::test]
async fn a_withdrawn_operation_is_never_sent() {
    let bench = Bench::start().await;
    bench.agent.call("approved_ticket", "t-1", ticket("Printer")).await.is(409, "approval_required");
    let withdrawn = bench.agent.post("/v1/operations/t-1/withdrawal", json!({})).await;
    assert_eq!(withdrawn.json()["operation"]["state"], "closed", "{}", withdrawn.text);
    bench.agent.call("approved_ticket", "t-1", ticket("Printer")).await.is(410, "closed");
    bench.agent.call("create_ticket", "t-2", ticket("Printer")).await.is(200, "executed");
    bench.agent.post("/v1/operations/t-2/withdrawal", json!({})).await.is(409, "illegal_move");
    let (_, other) = bench.credential("other", "agent", Role::Agent, "*").await;
    other.post("/v1/operations/t-1/withdrawal", json!({})).await.is(404, "not_found");
}
