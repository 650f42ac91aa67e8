//! What people decide: each choice shown with its consequence first, made on what was looked at, and kept with its evidence.

use onceward_gateway::auth::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, Client, ticket};

/// A ticket whose reply is lost: made, and unknown to everybody.
async fn lost(bench: &Bench, tool: &str, id: &str) {
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call(tool, id, ticket("Printer")).await.is(409, "unknown");
}

async fn choices(client: &Client, id: &str) -> Value {
    let answer = client.get(&format!("/v1/operations/{id}/decisions")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn choice<'a>(choices: &'a Value, name: &str) -> &'a Value {
    let found = choices["choices"].as_array().unwrap().iter().find(|one| one["choice"] == name);
    found.unwrap_or_else(|| panic!("no choice {name} in {choices}"))
}

fn legal(choices: &Value) -> Vec<&str> {
    let offered = choices["choices"].as_array().unwrap().iter().filter(|one| one["legal"] == true);
    offered.map(|one| one["choice"].as_str().unwrap()).collect()
}

async fn decide(client: &Client, id: &str, decision: Value) -> Answer {
    client.decide(id, decision).await
}

fn state(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["operation"]["state"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn every_choice_is_shown_with_its_consequence_before_anybody_takes_one() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let shown = choices(&bench.operator, "t-1").await;
    assert_eq!(
        legal(&shown),
        ["confirmed_done", "confirmed_not_done", "dispatch_again", "refused", "superseded_by", "wait"]
    );
    let again = choice(&shown, "dispatch_again");
    assert_eq!((&again["second_effect"], &again["state"]), (&json!("possible"), &json!("approved")));
    assert!(again["consequence"].as_str().unwrap().contains("second one"), "{again}");
    assert_eq!(choice(&shown, "confirmed_done")["second_effect"], "excluded");
    assert!(choice(&shown, "acknowledge")["because"].is_string());
    assert!(shown["otherwise"].as_str().unwrap().contains("No automatic check"), "{shown}");
    // Looking changes nothing.
    assert_eq!(choices(&bench.operator, "t-1").await["version"], shown["version"]);
    assert_eq!(bench.operator.get("/v1/operations/t-1").await.json()["operation"]["state"], "unknown");

    // A settled operation has no legal choice, and says why.
    bench.agent.call("create_ticket", "t-2", ticket("Scanner")).await.is(200, "executed");
    let settled = choices(&bench.operator, "t-2").await;
    assert_eq!(legal(&settled), Vec::<&str>::new());
    assert!(choice(&settled, "dispatch_again")["because"].as_str().unwrap().contains("settled"), "{settled}");
    assert_eq!(bench.writes().await, 2);
}

#[tokio::test]
async fn r065_a_decision_on_a_row_that_moved_is_refused_and_says_what_happened() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let looked_at = choices(&bench.operator, "t-1").await["version"].clone();
    let (_, other) = bench.credential("acme", "ines", Role::Operator, "*").await;
    let waits = json!({ "choice": "wait", "reason": "still_looking", "evidence": "asked the helpdesk" });
    assert_eq!(state(&decide(&other, "t-1", waits).await), "unknown");
    let stale = json!({
        "choice": "dispatch_again", "reason": "not_at_destination", "evidence": "not in the list", "expected": looked_at,
    });
    let refused = bench.operator.post("/v1/operations/t-1/decisions", stale.clone()).await;
    let body = refused.is(409, "moved");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("wait by principal:ines") && detail.contains("(unknown)"), "{detail}");
    assert_eq!(bench.operator.get("/v1/operations/t-1").await.json()["operation"]["state"], "unknown");
    // Without a version nothing is decided either, and on the one that is there now it is.
    let mut without = stale.clone();
    without.as_object_mut().unwrap().remove("expected");
    bench.operator.post("/v1/operations/t-1/decisions", without).await.is(400, "invalid_request");
    assert_eq!(state(&decide(&bench.operator, "t-1", stale).await), "approved");
    assert_eq!(bench.writes().await, 1, "deciding sends nothing");
}

#[tokio::test]
async fn two_people_who_decide_at_once_make_one_decision() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let version = choices(&bench.operator, "t-1").await["version"].clone();
    let body = |choice: &str, reason: &str| {
        json!({
            "choice": choice, "reason": reason, "evidence": "looked", "expected": version,
        })
    };
    let path = "/v1/operations/t-1/decisions";
    let (one, other) = tokio::join!(
        bench.operator.post(path, body("confirmed_not_done", "not_at_destination")),
        bench.operator.post(path, body("dispatch_again", "not_at_destination")),
    );
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{}\n{}", one.text, other.text);
    let refused = if one.status == 409 { one } else { other };
    refused.is(409, "moved");
}

#[tokio::test]
async fn r064_after_a_stored_error_another_dispatch_goes_out_under_a_new_key() {
    let bench = Bench::start().await;
    let contract = json!({ "key_header": "idempotency-key", "repeated_key": "stores_all" });
    let set = bench.auditor().send(bench.auditor().request(Method::PUT, "/admin/contract").json(&contract)).await;
    assert_eq!(set.status, 200, "{}", set.text);
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "error_500_rolled_back" })).await;
    bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    let shown = choices(&bench.operator, "t-1").await;
    let again = choice(&shown, "dispatch_again");
    assert_eq!((&again["next_key"]["is"], &again["next_key"]["generation"]), (&json!("new"), &json!(2)));
    let promised = again["next_key"]["key"].as_str().unwrap().to_owned();
    assert!(again["consequence"].as_str().unwrap().contains(&promised), "{again}");
    let decision = json!({ "choice": "dispatch_again", "reason": "not_at_destination", "evidence": "not in the list" });
    assert_eq!(state(&decide(&bench.operator, "t-1", decision).await), "approved");
    bench.agent.call("keyed_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let log = bench.auditor().get("/admin/requests").await.json();
    let keys: Vec<&str> = log["requests"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|request| request["method"] == "POST")
        .map(|request| request["idempotency_key"].as_str().unwrap())
        .collect();
    assert!(keys.len() == 2 && keys[0] != promised && keys[1] == promised, "{keys:?}, promised {promised}");
    assert_eq!(bench.tickets().await, 1);
    // Under the old key the destination would have given its stored error again.
    let old = bench.auditor().request(Method::POST, "/tickets").header("idempotency-key", keys[0]);
    assert_eq!(bench.auditor().send(old.json(&ticket("Printer"))).await.status, 500);
}

#[tokio::test]
async fn an_answer_that_a_person_calls_a_refusal_is_given_to_every_repetition() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let refusal = json!({ "choice": "refused", "reason": "answer_is_refusal", "evidence": "the text says so" });
    decide(&bench.operator, "t-1", refusal.clone()).await.is(400, "invalid_request");
    let mut with_answer = refusal;
    with_answer["receipt"] = json!({ "status": 422, "body": { "error": "no such queue" } });
    assert_eq!(state(&decide(&bench.operator, "t-1", with_answer).await), "rejected");
    let told = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(422, "rejected");
    assert_eq!(told["receipt"]["body"], json!({ "error": "no such queue" }));
    assert_eq!(bench.writes().await, 1);
}

#[tokio::test]
async fn a_contradicted_receipt_waits_in_the_inbox_until_somebody_has_seen_it_and_stays_what_it_is() {
    let bench = Bench::start().await;
    // Two operations whose receipts name one effect: a person confirms the second with the first one's id.
    bench.agent.call("create_ticket", "t-1", ticket("Scanner")).await.is(200, "executed");
    lost(&bench, "create_ticket", "t-2").await;
    let decision = json!({
        "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "T-1001 is there", "effect_id": "T-1001",
    });
    assert_eq!(state(&decide(&bench.operator, "t-2", decision).await), "succeeded");
    let inbox = bench.operator.get("/v1/operations?unresolved=true").await.json();
    assert_eq!((&inbox["operations"][0]["operation_id"], &inbox["need_a_person"]), (&json!("t-2"), &json!(1)));
    let shown = choices(&bench.operator, "t-2").await;
    assert_eq!((legal(&shown), &shown["disagreement"]["kind"]), (vec!["acknowledge"], &json!("shared_effect_id")));
    let before = bench.agent.call("create_ticket", "t-2", ticket("Printer")).await.is(200, "replayed");
    let seen = json!({ "choice": "acknowledge", "reason": "undone", "evidence": "T-1002 was closed by hand" });
    assert_eq!(state(&decide(&bench.operator, "t-2", seen.clone()).await), "succeeded");
    decide(&bench.operator, "t-2", seen).await.is(409, "illegal_move");
    let after = bench.agent.call("create_ticket", "t-2", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(before["receipt"], after["receipt"], "what is recorded stays");
    let inbox = bench.operator.get("/v1/operations?unresolved=true").await.json();
    assert_eq!((inbox["operations"].as_array().unwrap().len(), &inbox["more"]), (0, &json!("no")));
    let timeline = bench.operator.get("/v1/operations/t-2/timeline").await.json();
    assert!(timeline["decisions"].to_string().contains("acknowledge (undone): T-1002 was closed"), "{timeline}");
}

#[tokio::test]
async fn a_decision_without_evidence_or_on_a_reason_that_does_not_carry_it_is_refused() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let file = format!("sha256:{}", "ab".repeat(32));
    let refused = [
        json!({ "choice": "confirmed_not_done", "reason": "not_at_destination" }),
        json!({ "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence": "" }),
        json!({ "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence_file": "report.pdf" }),
        json!({ "choice": "confirmed_not_done", "reason": "risk_accepted", "evidence": "never mind" }),
        json!({ "choice": "confirmed_not_done", "reason": "a hunch", "evidence": "x" }),
        json!({ "choice": "superseded_by", "reason": "replaced", "evidence": "x" }),
        json!({ "choice": "superseded_by", "reason": "replaced", "evidence": "x", "superseded_by": "t-1" }),
        json!({ "choice": "wait", "reason": "still_looking", "evidence": "x", "until": "tomorrow" }),
        json!({ "choice": "wait", "reason": "still_looking", "evidence": "x", "until": "2020-01-01T00:00:00Z" }),
        json!({ "choice": "wait", "reason": "still_looking", "evidence": "x", "receipt": { "body": 1 } }),
        json!({ "choice": "do_it_now", "reason": "still_looking", "evidence": "x" }),
    ];
    for decision in refused {
        decide(&bench.operator, "t-1", decision).await.is(400, "invalid_request");
    }
    assert_eq!(bench.operator.get("/v1/operations/t-1").await.json()["operation"]["state"], "unknown");
    let by_file = json!({ "choice": "confirmed_not_done", "reason": "records_show", "evidence_file": file });
    assert_eq!(state(&decide(&bench.operator, "t-1", by_file).await), "closed");
    let journal = bench.operator.get("/v1/operations/t-1/journal").await;
    assert!(journal.text.contains(&file), "{}", journal.text);
}

#[tokio::test]
async fn the_inbox_has_what_needs_a_person_first_then_the_nearest_irreversible_moment_then_the_oldest() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "old").await;
    bench.agent.call("approved_ticket", "proposed", ticket("Scanner")).await.is(409, "approval_required");
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "error_500_rolled_back" })).await;
    bench.agent.call("keyed_ticket", "keyed", ticket("Keyboard")).await.is(409, "unknown");
    bench.agent.call("create_ticket", "done", ticket("Mouse")).await.is(200, "executed");
    let inbox = bench.operator.get("/v1/operations?unresolved=true").await.json();
    let rows = inbox["operations"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["operation_id"].as_str().unwrap()).collect();
    // A key that will be forgotten makes it urgent, though it came last.
    assert_eq!(ids, ["keyed", "old", "proposed"], "{inbox}");
    assert!(rows[0]["irreversible_at"].is_string() && rows[1]["irreversible_at"].is_null(), "{inbox}");
    assert_eq!((&rows[1]["waits_for"], &rows[2]["waits_for"]), (&json!("person"), &json!("approver")));
    assert_eq!((&inbox["need_a_person"], &inbox["by_themselves"]), (&json!(3), &json!(0)));
    let one = bench.operator.get("/v1/operations?unresolved=true&limit=1").await.json();
    assert_eq!((one["operations"].as_array().unwrap().len(), &one["more"]), (1, &json!("not_asked_for")));
    let (_, orders) = bench.credential("acme", "orders", Role::Operator, "create_order").await;
    let theirs = orders.get("/v1/operations?unresolved=true").await.json();
    assert_eq!(theirs["operations"].as_array().unwrap().len(), 0, "what one may not see is not counted: {theirs}");
    assert_eq!(theirs["need_a_person"], 0);
    bench.operator.get("/v1/operations?unresolved=true&state=unknown").await.is(400, "invalid_request");
}

#[tokio::test]
async fn r118_a_lookup_that_somebody_asks_for_finds_the_effect_and_the_timeline_says_what_was_asked() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("found_ticket", "t-1", ticket("Printer")).await.is(409, "unknown");
    bench.agent.post("/v1/operations/t-1/lookups", json!({})).await.is(403, "denied");
    let looked = bench.operator.post("/v1/operations/t-1/lookups", json!({})).await;
    let body = looked.json();
    // The reconciler may have been faster; then there is nothing left to ask.
    match looked.status {
        200 => {
            assert_eq!((&body["lookup"]["said"], &body["operation"]["state"]), (&json!("found"), &json!("succeeded")))
        }
        _ => drop(looked.is(409, "illegal_move")),
    }
    bench.operator.until_state("t-1", "succeeded").await;
    let told = bench.agent.call("found_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert!(told["receipt"]["body"].to_string().contains("T-1001"), "{told}");
    assert_eq!((bench.tickets().await, bench.writes().await), (1, 1));
    let timeline = bench.operator.get("/v1/operations/t-1/timeline").await;
    let body = timeline.json();
    assert_eq!(
        (&body["attempts"][0]["verdict"], &body["attempts"][0]["cause"]),
        (&json!("lost"), &json!("reply_lost"))
    );
    let found = body["evidence"].as_array().unwrap().iter().find(|one| one["verdict"] == "effect");
    let found = found.unwrap_or_else(|| panic!("no evidence of the effect: {body}"));
    assert_eq!((&found["source"], &found["effect_id"]), (&json!("lookup"), &json!("T-1001")));
    assert!(found["words"]["about"]["asked"].as_str().unwrap().starts_with("GET /tickets"), "{found}");
    assert!(!timeline.text.contains("It burns"), "neither arguments nor answers are repeated: {}", timeline.text);
}

#[tokio::test]
async fn a_timeline_tells_attempts_evidence_and_decisions_apart_and_repeats_no_words_of_the_call() {
    let bench = Bench::start().await;
    lost(&bench, "create_ticket", "t-1").await;
    let nobody = bench.operator.post("/v1/operations/t-1/lookups", json!({})).await;
    assert_eq!((nobody.status, &nobody.json()["lookup"]["said"]), (200, &json!("no_way")), "{}", nobody.text);
    let again = json!({ "choice": "dispatch_again", "reason": "risk_accepted", "evidence": "it is only a ticket" });
    assert_eq!(state(&decide(&bench.operator, "t-1", again).await), "approved");
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let timeline = bench.operator.get("/v1/operations/t-1/timeline").await;
    let body = timeline.json();
    let attempts = body["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{body}");
    for (attempt, verdict) in attempts.iter().zip(["lost", "effect"]) {
        assert_eq!((&attempt["verdict"], &attempt["generation"]), (&json!(verdict), &json!(1)), "{body}");
        for field in ["claimed_at", "send_before", "ended_at", "owner", "outbound_key"] {
            assert!(attempt[field].is_string(), "{field}: {body}");
        }
    }
    let decision = &body["decisions"][0];
    assert_eq!(decision["by"], "principal:operator");
    assert_eq!(decision["words"], "dispatch_again (risk_accepted): it is only a ticket");
    assert_eq!(body["whole"], true);
    assert!(!timeline.text.contains("It burns"), "{}", timeline.text);
    // Erasing takes its words, too.
    bench.operator.post("/v1/operations/t-1/purge", json!({ "scope": "everything" })).await;
    let erased = bench.operator.get("/v1/operations/t-1/timeline").await;
    assert!(!erased.text.contains("only a ticket") && erased.text.contains("erased"), "{}", erased.text);
}
