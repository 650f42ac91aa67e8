//! What is told and sent once observe mode is left: nothing that was done beside it, or may have been.

use onceward_gateway::limits::Limits;
use onceward_lab::sandbox::SandboxContract;
use serde_json::{Value, json};

use crate::bench::{Bench, Client, gateway_of, ticket};
use crate::observe::{OBSERVE, observing};

/// The gateway once the line is taken out, on the same ledger.
async fn enforced(
    bench: Bench,
) -> (onceward_gateway::serve::Running, Client, Client, onceward_lab::sandbox::Running, impl Drop) {
    let Bench { gateway, sandbox, agent: _, operator: _, folder, ground } = bench;
    let tokens = gateway.first_tokens.as_ref().unwrap();
    let (agent, operator) = (tokens.agent.reveal().to_owned(), tokens.operator.reveal().to_owned());
    gateway.stop().await;
    let gateway = gateway_of(ground.home.clone(), Bench::tools("", &sandbox), Limits::default()).start().await.unwrap();
    let clients = (Client::to(gateway.address, Some(&agent)), Client::to(gateway.address, Some(&operator)));
    (gateway, clients.0, clients.1, sandbox, Kept { _folder: folder, _ground: ground })
}

/// What a ledger lies in, until the test ends.
struct Kept {
    _folder: tempfile::TempDir,
    _ground: crate::bench::Ground,
}

impl Drop for Kept {
    fn drop(&mut self) {}
}

async fn tickets(sandbox: &onceward_lab::sandbox::Running) -> i64 {
    let audit = Client::to(sandbox.address(), None).get("/admin/effects?resource=tickets").await.json();
    audit["count"].as_i64().unwrap()
}

#[tokio::test]
async fn after_leaving_a_repetition_of_what_was_done_is_never_sent_again() {
    let bench = observing().await;
    // Surely not sent, and then done by the same call; lost, and then done beside it.
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "unauthorized_401" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-2", ticket("Scanner")).await.is(409, "unknown");
    bench.agent.call("create_ticket", "t-2", ticket("Scanner")).await.is(200, "executed");
    let before = bench.tickets().await;
    let (gateway, agent, operator, sandbox, _kept) = enforced(bench).await;
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    agent.call("create_ticket", "t-2", ticket("Scanner")).await.is(200, "replayed");
    assert_eq!(tickets(&sandbox).await, before);
    let shown = operator.get("/v1/operations/t-2").await.json();
    assert_eq!(shown["operation"]["state"], "unknown", "its own attempt may have had its effect as well: {shown:#}");
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_nothing_is_sent_that_was_free_only_because_nobody_was_asked() {
    let bench = observing().await;
    bench.fault(json!({ "match": { "path": "/tickets", "times": 9 }, "fault": "unauthorized_401" })).await;
    for (tool, id) in [("approved_ticket", "a-1"), ("short_ticket", "s-1")] {
        bench.agent.call(tool, id, ticket("Too long")).await;
    }
    let before = bench.tickets().await;
    bench.auditor().delete("/admin/faults").await;
    let (gateway, agent, _, sandbox, _kept) = enforced(bench).await;
    for (tool, id) in [("approved_ticket", "a-1"), ("short_ticket", "s-1")] {
        let state = agent.get(&format!("/v1/operations/{id}")).await.json()["operation"]["state"].clone();
        let told = agent.call(tool, id, ticket("Too long")).await;
        if state == "approved" {
            told.is(409, "approval_void");
        }
    }
    assert_eq!(tickets(&sandbox).await, before);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_an_unknown_that_was_made_beside_another_still_holds_an_equal_call() {
    let bench = observing().await;
    let unnamed = |client: &Client| {
        let client = client.clone();
        async move { client.post("/v1/tools/create_ticket/calls", json!({ "arguments": ticket("Printer") })).await }
    };
    unnamed(&bench.agent).await.is(200, "executed");
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    unnamed(&bench.agent).await.is(409, "unknown");
    let (gateway, agent, _, sandbox, _kept) = enforced(bench).await;
    let held = unnamed(&agent).await.is(409, "possible_duplicate");
    assert_eq!(held["state"], "unknown", "the one that is uncertain holds it, for as long as it is: {held:#}");
    assert_eq!(tickets(&sandbox).await, 2);
    gateway.stop().await;
}

/// A claim of an application's own function that begins at once.
async fn own(agent: &Client, id: &str, token: &str) -> (u16, Value) {
    let claim =
        json!({ "tool": "own.rename", "arguments": { "to": "b" }, "operation_id": id, "begin": true, "token": token });
    let answer = agent.post("/v1/claims", claim).await;
    (answer.status, answer.json())
}

async fn settled(agent: &Client, (status, grant): &(u16, Value), mut end: Value) {
    assert_eq!(*status, 201, "{grant:#}");
    end["attempt"] = grant["attempt"].clone();
    end["secret"] = grant["secret"].clone();
    let path = format!("/v1/claims/{}/settlement", grant["operation_id"].as_str().unwrap());
    let answer = agent.post(&path, end).await;
    assert!([200, 409, 410, 422, 503].contains(&answer.status), "{}", answer.text);
}

fn done(body: &str) -> Value {
    json!({ "ended": "done", "receipt": { "body": body } })
}

#[tokio::test]
async fn after_leaving_a_claim_is_told_what_was_done_beside_it_whatever_its_own_attempt_came_to() {
    let bench = observing().await;
    for (id, end) in [("given-back", json!({ "ended": "nothing_sent" })), ("failed", json!({ "ended": "failed" }))] {
        let first = own(&bench.agent, id, "0000000000000001").await;
        let beside = own(&bench.agent, id, "0000000000000002").await;
        assert_ne!(beside.1["operation_id"], id);
        // What is done beside it ends before it does.
        settled(&bench.agent, &beside, done("the second")).await;
        settled(&bench.agent, &first, end).await;
    }
    let running = own(&bench.agent, "running", "0000000000000001").await;
    let beside = own(&bench.agent, "running", "0000000000000002").await;
    settled(&bench.agent, &running, json!({ "ended": "nothing_sent" })).await;

    let (gateway, agent, _, _sandbox, _kept) = enforced(bench).await;
    let given_back = own(&agent, "given-back", "0000000000000003").await;
    assert_eq!((given_back.0, &given_back.1["outcome"]), (200, &json!("replayed")), "{:#}", given_back.1);
    assert_eq!(given_back.1["receipt"]["body"], "the second");
    assert_eq!(given_back.1["observed"], Value::Null);
    let failed = own(&agent, "failed", "0000000000000003").await;
    assert_eq!(failed.1["receipt"]["body"], "the second", "whichever was known first: {:#}", failed.1);
    let held = own(&agent, "running", "0000000000000003").await;
    assert_eq!(held.1["outcome"], "in_progress", "the one beside it is under way: {:#}", held.1);
    settled(&agent, &beside, done("later")).await;
    let told = own(&agent, "running", "0000000000000003").await;
    assert_eq!((&told.1["outcome"], &told.1["receipt"]["body"]), (&json!("replayed"), &json!("later")), "{:#}", told.1);
    gateway.stop().await;
}

#[tokio::test]
async fn two_intentions_under_one_identity_at_one_moment_are_a_conflict_and_neither_is_told_the_others_receipt() {
    let bench = observing().await;
    let mut rounds = Vec::new();
    for round in 0..12 {
        let id = format!("r-{round}");
        let call = |title: &str| bench.agent.call("create_ticket", &id, ticket(title));
        let (printer, scanner) = tokio::join!(call("Printer"), call("Scanner"));
        let would = |answer: &Value| answer["observed"]["would"].as_str().unwrap().to_owned();
        let (printer, scanner) = (printer.is(200, "executed"), scanner.is(200, "executed"));
        let mut both = [would(&printer), would(&scanner)];
        both.sort();
        assert_eq!(both, ["conflict", "sent"], "{printer:#}\n{scanner:#}");
        rounds.push(id);
    }
    let before = bench.tickets().await;
    let (gateway, agent, _, sandbox, _kept) = enforced(bench).await;
    for id in rounds {
        for title in ["Printer", "Scanner"] {
            let told = agent.call("create_ticket", &id, ticket(title)).await.is(200, "replayed");
            assert_eq!(told["receipt"]["body"]["title"], title, "{told:#}");
            assert_eq!(told["observed"], Value::Null, "{told:#}");
        }
        agent.call("create_ticket", &id, ticket("Plotter")).await.is(422, "conflict");
    }
    assert_eq!(tickets(&sandbox).await, before);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_what_was_not_sent_beside_another_holds_nothing_back() {
    let bench = observing().await;
    let unnamed = |client: &Client, title: &'static str| {
        let client = client.clone();
        async move { client.post("/v1/tools/create_ticket/calls", json!({ "arguments": ticket(title) })).await }
    };
    let first = unnamed(&bench.agent, "Printer").await.is(200, "executed");
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "unauthorized_401" })).await;
    let refused = unnamed(&bench.agent, "Printer").await;
    assert_eq!(refused.json()["observed"]["would"], "possible_duplicate", "{}", refused.text);
    let leftover = refused.json()["operation_id"].as_str().unwrap().to_owned();
    let (gateway, agent, operator, sandbox, _kept) = enforced(bench).await;
    let closed = operator.get(&format!("/v1/operations/{leftover}")).await.json();
    assert_eq!(closed["operation"]["state"], "closed", "{closed:#}");
    let held = unnamed(&agent, "Printer").await.is(409, "possible_duplicate");
    assert_eq!(held["operation_id"], first["operation_id"], "the one that was done: {held:#}");
    unnamed(&agent, "Scanner").await.is(200, "executed");
    assert_eq!(tickets(&sandbox).await, 2);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_no_approval_releases_what_was_done_beside_it() {
    let bench = Bench::start().await;
    bench.agent.call("approved_ticket", "a-1", ticket("Printer")).await.is(409, "approval_required");
    let Bench { gateway, sandbox, agent: _, operator: _, folder: _folder, ground } = bench;
    let tokens = gateway.first_tokens.as_ref().unwrap();
    let (agent, operator) = (tokens.agent.reveal().to_owned(), tokens.operator.reveal().to_owned());
    gateway.stop().await;
    let start = async |head: &str| {
        let tools = Bench::tools(head, &sandbox);
        gateway_of(ground.home.clone(), tools, Limits::default()).start().await.unwrap()
    };
    let observing = start("observe = true\n").await;
    let client = Client::to(observing.address, Some(&agent));
    client.call("approved_ticket", "a-1", ticket("Printer")).await.is(200, "executed");
    observing.stop().await;
    let enforcing = start("").await;
    let (client, operator) =
        (Client::to(enforcing.address, Some(&agent)), Client::to(enforcing.address, Some(&operator)));
    operator.post("/v1/operations/a-1/approval", json!({ "decision": "approve" })).await.is(409, "illegal_move");
    let told = client.call("approved_ticket", "a-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"]["title"], "Printer", "{told:#}");
    assert_eq!(tickets(&sandbox).await, 1);
    enforcing.stop().await;
}

/// A claim without identity that is given back while an equal one runs and is done: nobody can name it, and it must not hold back
/// everything that its caller does from then on.
#[tokio::test]
async fn after_leaving_what_another_did_in_its_place_waits_for_nobody() {
    let bench = observing().await;
    let unnamed = async |client: &Client, to: &str, token: &str| {
        let claim = json!({ "tool": "create_ticket", "arguments": ticket(to), "begin": true, "token": token });
        let answer = client.post("/v1/claims", claim).await;
        (answer.status, answer.json())
    };
    let first = unnamed(&bench.agent, "b", "0000000000000001").await;
    let second = unnamed(&bench.agent, "b", "0000000000000002").await;
    settled(&bench.agent, &second, done("the second")).await;
    settled(&bench.agent, &first, json!({ "ended": "nothing_sent" })).await;
    let (gateway, agent, operator, _sandbox, _kept) = enforced(bench).await;
    let shown = operator.get(&format!("/v1/operations/{}", first.1["operation_id"].as_str().unwrap())).await.json();
    assert_eq!(shown["operation"]["state"], "closed", "{shown:#}");
    let held = unnamed(&agent, "b", "0000000000000003").await;
    assert_eq!(held.1["outcome"], "possible_duplicate", "{:#}", held.1);
    assert_eq!(held.1["operation_id"], second.1["operation_id"], "{:#}", held.1);
    let other = unnamed(&agent, "c", "0000000000000004").await;
    assert_eq!(other.0, 201, "{:#}", other.1);
    gateway.stop().await;
}

/// An operator says that the one beside it was not done, and then its holder says that it was.
#[tokio::test]
async fn after_leaving_nothing_is_sent_beside_what_was_contradicted() {
    let bench = observing().await;
    let first = own(&bench.agent, "c-1", "0000000000000001").await;
    let beside = own(&bench.agent, "c-1", "0000000000000002").await;
    let id = beside.1["operation_id"].as_str().unwrap().to_owned();
    settled(&bench.agent, &beside, json!({ "ended": "failed" })).await;
    let decided = bench
        .operator
        .decide(&id, json!({ "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence": "looked" }))
        .await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    settled(&bench.agent, &beside, done("late")).await;
    settled(&bench.agent, &first, json!({ "ended": "nothing_sent" })).await;
    let (gateway, agent, _, _sandbox, _kept) = enforced(bench).await;
    let told = own(&agent, "c-1", "0000000000000003").await;
    assert_ne!(told.0, 201, "somebody has said that it was done: {:#}", told.1);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_a_chain_of_calls_beside_each_other_is_followed_to_what_was_done() {
    let bench = observing().await;
    let first = own(&bench.agent, "c-1", "0000000000000001").await;
    let second = own(&bench.agent, "c-1", "0000000000000002").await;
    let second_id = second.1["operation_id"].as_str().unwrap().to_owned();
    // Whoever goes on under the id that it was given.
    let third = own(&bench.agent, &second_id, "0000000000000003").await;
    assert_ne!(third.1["operation_id"], second_id);
    settled(&bench.agent, &third, done("the third")).await;
    for unsent in [&first, &second] {
        settled(&bench.agent, unsent, json!({ "ended": "nothing_sent" })).await;
    }
    let (gateway, agent, _, _sandbox, _kept) = enforced(bench).await;
    for (id, token) in [("c-1", "0000000000000004"), (second_id.as_str(), "0000000000000005")] {
        let told = own(&agent, id, token).await;
        assert_eq!(
            (&told.1["outcome"], &told.1["receipt"]["body"]),
            (&json!("replayed"), &json!("the third")),
            "{:#}",
            told.1
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_a_refusal_is_not_told_of_what_was_done_later() {
    let bench = observing().await;
    let refused = own(&bench.agent, "c-1", "0000000000000001").await;
    settled(&bench.agent, &refused, json!({ "ended": "refused", "receipt": { "body": "no" } })).await;
    let beside = own(&bench.agent, "c-1", "0000000000000002").await;
    settled(&bench.agent, &beside, done("yes")).await;
    let (gateway, agent, _, _sandbox, _kept) = enforced(bench).await;
    let told = own(&agent, "c-1", "0000000000000003").await;
    assert_eq!((&told.1["outcome"], &told.1["receipt"]["body"]), (&json!("replayed"), &json!("yes")), "{:#}", told.1);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_no_key_is_sent_again_that_is_under_way_beside_it() {
    let bench = Bench::with_contract(OBSERVE, SandboxContract::default()).await;
    bench.fault(json!({ "match": { "path": "/tickets", "times": 2 }, "fault": "lose_reply_after_commit" })).await;
    for _ in 0..2 {
        bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    }
    let (gateway, agent, _, sandbox, _kept) = enforced(bench).await;
    agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let log = Client::to(sandbox.address(), None).get("/admin/requests").await.json();
    let writes = log["requests"].as_array().unwrap().iter().filter(|request| request["method"] == "POST").count();
    assert_eq!(writes, 2, "{log:#}");
    gateway.stop().await;
}

/// As agents do that go on under the id of the last answer, which the answer asks for.
#[tokio::test]
async fn after_leaving_a_long_chain_of_lost_calls_is_followed_to_its_end() {
    let bench = observing().await;
    let mut ids = vec!["c-0".to_owned()];
    for turn in 0..120 {
        let granted = own(&bench.agent, ids.last().unwrap(), &format!("000000000000{turn:04}")).await;
        let end = if turn == 119 { done("the last") } else { json!({ "ended": "failed" }) };
        settled(&bench.agent, &granted, end).await;
        let id = granted.1["operation_id"].as_str().unwrap().to_owned();
        if id != "c-0" {
            ids.push(id);
        }
    }
    let (gateway, agent, _, _sandbox, _kept) = enforced(bench).await;
    for id in [&ids[0], &ids[60], &ids[118]] {
        let told = own(&agent, id, "0000000000009999").await;
        assert_eq!(told.1["receipt"]["body"], "the last", "{id}: {:#}", told.1);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_nobody_decides_to_send_again_what_was_sent_beside_it() {
    let bench = observing().await;
    let first = own(&bench.agent, "c-1", "0000000000000001").await;
    settled(&bench.agent, &first, json!({ "ended": "failed" })).await;
    let beside = own(&bench.agent, "c-1", "0000000000000002").await;
    settled(&bench.agent, &beside, json!({ "ended": "failed" })).await;
    let spare = beside.1["operation_id"].as_str().unwrap();
    for (id, other) in [("c-1", spare), (spare, "c-1")] {
        let again = json!({ "choice": "dispatch_again", "reason": "risk_accepted", "evidence": "it is only a report" });
        let refused = bench.operator.decide(id, again).await;
        refused.is(409, "earlier_unresolved");
        assert!(refused.text.contains(other), "{}", refused.text);
        let choices = bench.operator.get(&format!("/v1/operations/{id}/decisions")).await.json();
        let again =
            choices["choices"].as_array().unwrap().iter().find(|one| one["choice"] == "dispatch_again").unwrap();
        assert_eq!(again["legal"], false, "{choices:#}");
    }
}

/// A vendor's client that used its key for two orders: the one is uncertain, the other was done under the same key.
#[tokio::test]
async fn after_leaving_two_intentions_under_one_key_are_each_told_of_their_own() {
    let bench = observing().await;
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    bench.agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(200, "executed");
    let (gateway, agent, _, sandbox, _kept) = enforced(bench).await;
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let told = agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"]["title"], "Scanner", "{told:#}");
    agent.call("create_ticket", "t-1", ticket("Plotter")).await.is(422, "conflict");
    assert_eq!(tickets(&sandbox).await, 2);
    gateway.stop().await;
}

#[tokio::test]
async fn after_leaving_what_nobody_approved_is_not_offered_to_be_sent_again() {
    let bench = observing().await;
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("approved_ticket", "a-1", ticket("Printer")).await.is(409, "unknown");
    let (gateway, _, operator, _sandbox, _kept) = enforced(bench).await;
    let choices = operator.get("/v1/operations/a-1/decisions").await.json();
    let again = choices["choices"].as_array().unwrap().iter().find(|one| one["choice"] == "dispatch_again").unwrap();
    assert_eq!(again["legal"], false, "{choices:#}");
    let again = json!({ "choice": "dispatch_again", "reason": "risk_accepted", "evidence": "it is only a report" });
    operator.decide("a-1", again).await.is(409, "approval_void");
    gateway.stop().await;
}

/// What was enforced before may be sent again under its contract, and then something else goes out under the same key.
#[tokio::test]
async fn after_leaving_no_key_is_redriven_beside_a_call_that_was_lost_under_it() {
    let bench = Bench::with_contract("", SandboxContract::default()).await;
    bench.fault(json!({ "match": { "path": "/tickets", "times": 99 }, "fault": "lose_reply_after_commit" })).await;
    let call = bench.agent.call_request("keyed_ticket", "t-1", ticket("Printer")).header("prefer", "wait=0");
    bench.agent.send(call).await;
    // Between two attempts of its one call, so that more are left to it.
    bench.operator.until_state("t-1", "unknown").await;
    let Bench { gateway, sandbox, agent: _, operator: _, folder: _folder, ground } = bench;
    let token = gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    gateway.stop().await;
    let start = async |head: &str| {
        let gateway = gateway_of(ground.home.clone(), Bench::tools(head, &sandbox), Limits::default());
        let gateway = gateway.start().await.unwrap();
        let agent = Client::to(gateway.address, Some(&token));
        (gateway, agent)
    };
    let (observing, agent) = start("observe = true\n").await;
    agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    observing.stop().await;
    let auditor = Client::to(sandbox.address(), None);
    auditor.delete("/admin/faults").await;
    let (enforcing, agent) = start("").await;
    let told = agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    assert_eq!(told["operation_id"], "t-1", "{told:#}");
    enforcing.stop().await;
}

#[tokio::test]
async fn after_leaving_no_approval_releases_what_was_lost_beside_it() {
    let bench = Bench::start().await;
    bench.agent.call("approved_ticket", "a-1", ticket("Printer")).await.is(409, "approval_required");
    bench.fault(json!({ "match": { "path": "/tickets", "nth": 1 }, "fault": "lose_reply_after_commit" })).await;
    let Bench { gateway, sandbox, agent: _, operator: _, folder: _folder, ground } = bench;
    let tokens = gateway.first_tokens.as_ref().unwrap();
    let (agent, operator) = (tokens.agent.reveal().to_owned(), tokens.operator.reveal().to_owned());
    gateway.stop().await;
    let start = async |head: &str| {
        let tools = Bench::tools(head, &sandbox);
        gateway_of(ground.home.clone(), tools, Limits::default()).start().await.unwrap()
    };
    let observing = start("observe = true\n").await;
    let client = Client::to(observing.address, Some(&agent));
    client.call("approved_ticket", "a-1", ticket("Printer")).await.is(409, "unknown");
    observing.stop().await;
    let enforcing = start("").await;
    let operator = Client::to(enforcing.address, Some(&operator));
    let approve = json!({ "decision": "approve" });
    operator.post("/v1/operations/a-1/approval", approve).await.is(409, "earlier_unresolved");
    enforcing.stop().await;
}
