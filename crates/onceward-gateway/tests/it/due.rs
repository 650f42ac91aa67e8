//! An application looks for the effect of its own function, and says what it found.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, until};

/// Claims, begins and fails a function of the application's own, so that nobody knows whether it had its effect.
async fn lost(bench: &Bench, id: &str, lookup: Value) {
    let claim = json!({ "tool": "import", "operation_id": id, "arguments": { "file": "a.csv" }, "lookup": lookup });
    let granted = bench.agent.post("/v1/claims", claim).await;
    assert_eq!(granted.status, 201, "{}", granted.text);
    let granted = granted.json();
    let held = json!({ "attempt": granted["attempt"], "secret": granted["secret"] });
    let begun = bench.agent.post(&format!("/v1/claims/{id}/dispatching"), held.clone()).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    let mut settled = held;
    settled["ended"] = json!("failed");
    bench.agent.post(&format!("/v1/claims/{id}/settlement"), settled).await.is(409, "unknown");
}

/// What it may look for, once there is something.
async fn due(bench: &Bench, id: &str) -> Value {
    until(&format!("{id} is due"), async || {
        let answer = bench.operator.get("/v1/lookups/due").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let lookups = answer.json()["lookups"].as_array().unwrap().clone();
        lookups.into_iter().find(|lookup| lookup["operation_id"] == id)
    })
    .await
}

async fn report(bench: &Bench, id: &str, report: Value) -> Value {
    let answer = bench.operator.post(&format!("/v1/operations/{id}/lookups"), report).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test]
async fn an_application_that_finds_its_effect_settles_it_and_repetitions_get_the_receipt() {
    let bench = Bench::start().await;
    lost(&bench, "i-1", json!({ "visible_after_ms": 0 })).await;
    let lookup = due(&bench, "i-1").await;
    assert_eq!((&lookup["tool"], &lookup["arguments"]), (&json!("import"), &json!({ "file": "a.csv" })));
    assert_eq!(lookup["outbound_keys"].as_array().unwrap().len(), 1, "{lookup}");
    assert!(lookup["sent_from"].is_string() && lookup["sent_until"].is_string(), "{lookup}");
    for (tools, expected) in [("other", 0), ("other,import", 1), ("", 1)] {
        let listed = bench.operator.get(&format!("/v1/lookups/due?tool={tools}")).await.json();
        assert_eq!(listed["lookups"].as_array().unwrap().len(), expected, "{tools}");
    }
    let found = |parameters: &str| {
        let receipt = json!({ "status": 201, "body": { "rows": 7 } });
        let one = json!({ "by": "outbound_key", "parameters": parameters, "effect_id": "I-9", "receipt": receipt });
        json!({ "found": [one], "asked_ago_ms": 0, "completeness": "whole", "note": "SELECT … FROM imports" })
    };
    let looked = report(&bench, "i-1", found("not_compared")).await;
    assert_eq!((&looked["lookup"]["said"], &looked["operation"]["state"]), (&json!("candidates"), &json!("unknown")));
    let looked = report(&bench, "i-1", found("same")).await;
    assert_eq!((&looked["lookup"]["said"], &looked["operation"]["state"]), (&json!("found"), &json!("succeeded")));
    let again = json!({ "tool": "import", "operation_id": "i-1", "arguments": { "file": "a.csv" } });
    let told = bench.agent.post("/v1/claims", again).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"], json!({ "rows": 7 }));
    let journal = bench.operator.get("/v1/operations/i-1/journal").await.text;
    assert!(journal.contains("SELECT … FROM imports"), "{journal}");
}

/// The reconciler has nobody to ask for it, and must not put off what only its application can look for.
#[tokio::test]
async fn what_is_due_stays_due_until_its_application_has_said_what_it_found() {
    let bench = Bench::start().await;
    lost(&bench, "i-1", json!({ "visible_after_ms": 0 })).await;
    due(&bench, "i-1").await;
    let version = bench.operator.get("/v1/operations/i-1").await.json()["operation"]["version"].clone();
    // sleeps: that nothing happens to it in several rounds of the reconciler is what is tested
    tokio::time::sleep(Duration::from_secs(3)).await;
    due(&bench, "i-1").await;
    assert_eq!(bench.operator.get("/v1/operations/i-1").await.json()["operation"]["version"], version);
    let nothing = json!({ "found": [], "asked_ago_ms": 0, "completeness": "whole" });
    let looked = report(&bench, "i-1", nothing).await;
    assert_eq!(looked["lookup"]["said"], "says_nothing", "without a bound nothing that is not found proves anything");
    let lookups = bench.operator.get("/v1/lookups/due").await.json();
    assert_eq!(lookups["lookups"], json!([]), "it has been looked for just now");
}

#[tokio::test]
async fn a_report_that_leaves_something_out_or_of_somebody_who_may_not_look_is_refused() {
    let bench = Bench::start().await;
    lost(&bench, "i-1", json!({ "visible_after_ms": 0 })).await;
    let path = "/v1/operations/i-1/lookups";
    for incomplete in [
        json!({ "asked_ago_ms": 0, "completeness": "whole" }),
        json!({ "found": [], "completeness": "whole" }),
        json!({ "found": [], "asked_ago_ms": 0 }),
        json!({ "found": [{ "by": "outbound_key" }], "asked_ago_ms": 0, "completeness": "whole" }),
        json!({ "found": [], "asked_ago_ms": 0, "completeness": "whole", "nothing_there": true }),
        json!({ "found": [], "asked_ago_ms": u64::MAX, "completeness": "whole" }),
    ] {
        bench.operator.post(path, incomplete).await.is(400, "invalid_request");
    }
    let nothing = json!({ "found": [], "asked_ago_ms": 0, "completeness": "whole" });
    bench.agent.post(path, nothing.clone()).await.is(403, "denied");
    bench.agent.get("/v1/lookups/due").await.is(403, "denied");
    bench.nobody().get("/v1/lookups/due").await.is(401, "unauthenticated");
    // A destination's own operation is not an application's to report on.
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    bench.agent.call("create_ticket", "t-1", crate::bench::ticket("Printer")).await.is(409, "unknown");
    bench.operator.post("/v1/operations/t-1/lookups", nothing).await.is(409, "illegal_move");
}
