//! The things the sandbox holds: made, read, listed, changed, refused, and counted by the auditor.

use onceward_lab::sandbox::{Faults, Sandbox, SandboxConfig, SandboxContract, StartError};
use serde_json::{Value, json};

use super::{Ask, TestSandbox};

fn every_resource() -> [(&'static str, &'static str, Value, u16); 5] {
    [
        ("tickets", "T-1001", json!({ "title": "Printer", "body": "It burns." }), 201),
        ("orders", "O-1001", json!({ "item": "Toner", "quantity": 2 }), 201),
        ("payments", "P-1001", json!({ "amount": 1200, "currency": "EUR" }), 201),
        ("mail", "M-1001", json!({ "to": "a@example.org", "subject": "Hello", "body": "Text" }), 201),
        ("reports", "R-1001", json!({ "name": "sales", "parameters": { "year": 2026 } }), 202),
    ]
}

#[tokio::test]
async fn every_resource_is_made_once_read_listed_and_counted() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for (resource, id, fields, status) in every_resource() {
        let make =
            Ask::new("POST", &format!("/{resource}")).json(&fields).key(resource).header("Sandbox-Marker", "m-1");
        let made = sandbox.send(make.clone()).await;
        assert_eq!((made.status(), made.id().as_str()), (status, id), "{resource}");
        assert!(sandbox.send(make).await.is_replay(), "{resource}");
        let read = sandbox.get(&format!("/{resource}/{id}")).await;
        for (name, value) in fields.as_object().expect("fields") {
            assert_eq!(&read[name], value, "{resource}.{name}");
        }
        let listed = sandbox.get(&format!("/{resource}?marker=m-1")).await;
        assert_eq!(listed[resource], json!([read]), "{resource}");
        assert_eq!(sandbox.get(&format!("/{resource}?marker=m-2")).await[resource], json!([]));
        let report = sandbox.get(&format!("/admin/effects?resource={resource}")).await;
        assert_eq!((&report["count"], &report["requests"]), (&json!(1), &json!(2)), "{resource}");
        let effect = &report["effects"][0];
        assert_eq!((&effect["idempotency_key"], &effect["marker"]), (&json!(resource), &json!("m-1")));
        assert_eq!(effect["request_fingerprint"].as_str().map(str::len), Some(64));
    }
    assert_eq!(sandbox.get("/admin/effects").await["count"], json!(5));
}

#[tokio::test]
async fn a_reference_is_a_marker_and_a_header_goes_before_it() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let body = json!({ "title": "a", "body": "b", "reference": "ref-1" });
    let ask = Ask::new("POST", "/tickets").json(&body);
    assert_eq!(sandbox.send(ask.clone()).await.json()["marker"], json!("ref-1"));
    assert_eq!(sandbox.send(ask.header("Sandbox-Marker", "m")).await.json()["marker"], json!("m"));
}

#[tokio::test]
async fn a_new_row_is_missing_from_lists_for_the_visibility_delay_and_nowhere_else() {
    let sandbox =
        TestSandbox::start(SandboxContract { list_visibility_ms: 60_000, ..SandboxContract::default() }).await;
    sandbox.send(Ask::ticket("Printer").header("Sandbox-Marker", "m")).await;
    let list = "/tickets?marker=m";
    assert_eq!(sandbox.get(list).await["tickets"], json!([]));
    assert_eq!(sandbox.get("/tickets/T-1001").await["id"], json!("T-1001"));
    assert_eq!(sandbox.effects("tickets").await, 1);
    sandbox.advance_clock(60_000).await;
    assert_eq!(sandbox.get(list).await["tickets"][0]["id"], json!("T-1001"));
}

#[tokio::test]
async fn a_list_is_cut_at_its_limit_newest_first_and_says_so() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for _ in 0..3 {
        sandbox.send(Ask::ticket("Printer")).await;
    }
    let list = sandbox.get("/tickets?limit=2").await;
    assert_eq!((&list["tickets"][0]["id"], &list["tickets"][1]["id"]), (&json!("T-1003"), &json!("T-1002")));
    assert_eq!(list["has_more"], json!(true));
    assert_eq!(sandbox.get("/tickets?limit=3").await["has_more"], json!(false));
    for query in ["limit=0", "limit=201", "limit=x", "markr=m"] {
        assert_eq!(sandbox.send(Ask::get(&format!("/tickets?{query}"))).await.status(), 400, "{query}");
    }
}

#[tokio::test]
async fn a_report_is_accepted_and_done_when_its_delay_is_over() {
    let sandbox = TestSandbox::start(SandboxContract { report_delay_ms: 5000, ..SandboxContract::default() }).await;
    let accepted = sandbox.send(Ask::new("POST", "/reports").json(&json!({ "name": "sales" }))).await;
    assert_eq!((accepted.status(), &accepted.json()["status"]), (202, &json!("processing")));
    sandbox.advance_clock(5000).await;
    assert_eq!(sandbox.get("/reports/R-1001").await["status"], json!("done"));
}

#[tokio::test]
async fn somebody_else_closes_cancels_and_refunds_and_the_first_change_stands() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for (resource, id, fields, _) in every_resource() {
        sandbox.send(Ask::new("POST", &format!("/{resource}")).json(&fields)).await;
        let outcomes = match resource {
            "tickets" => [("close", 200, "closed"), ("cancel", 404, "closed")],
            "orders" => [("cancel", 200, "cancelled"), ("cancel", 200, "cancelled")],
            "payments" => [("refund", 200, "refunded"), ("close", 404, "refunded")],
            "mail" => [("close", 404, "sent"), ("cancel", 404, "sent")],
            _ => [("close", 404, "done"), ("cancel", 404, "done")],
        };
        for (verb, status, after) in outcomes {
            let changed = sandbox.send(Ask::new("POST", &format!("/{resource}/{id}/{verb}"))).await;
            assert_eq!(changed.status(), status, "{resource} {verb}");
            assert_eq!(sandbox.get(&format!("/{resource}/{id}")).await["status"], json!(after), "{resource}");
        }
        let report = sandbox.get(&format!("/admin/effects?resource={resource}")).await;
        assert_eq!((&report["count"], &report["requests"]), (&json!(1), &json!(1)), "a change is no effect of its own");
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_a_problem_and_leaves_nothing() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let ticket = |body: &str| Ask::new("POST", "/tickets").body("application/json", body.into());
    let long = format!(r#"{{"title":"{}","body":"b"}}"#, "x".repeat(201));
    let asks = [
        (ticket("{"), 400),
        (ticket("[]"), 400),
        (ticket(r#"{"title":"a"}"#), 400),
        (ticket(r#"{"title":1,"body":"b"}"#), 400),
        (ticket(r#"{"title":"a","body":"b","prio":1}"#), 400),
        (ticket(r#"{"title":"","body":"b"}"#), 422),
        (ticket(&long), 422),
        (Ask::new("POST", "/tickets").body("text/plain", b"{}".to_vec()), 415),
        (ticket(&"x".repeat(1024 * 1024 + 1)), 413),
        (Ask::new("POST", "/orders").json(&json!({ "item": "a", "quantity": 0 })), 422),
        (Ask::new("POST", "/orders").json(&json!({ "item": "a", "quantity": 1.5 })), 400),
        (Ask::new("POST", "/payments").json(&json!({ "amount": 1, "currency": "euro" })), 422),
        (Ask::new("POST", "/mail").json(&json!({ "to": "nobody", "subject": "s", "body": "b" })), 422),
        (Ask::new("POST", "/reports").json(&json!({ "name": "a", "parameters": 1 })), 422),
        (Ask::new("POST", "/cats").json(&json!({})), 404),
        (Ask::get("/tickets/T-1001"), 404),
        (Ask::get("/tickets/T-01001"), 404),
        (Ask::get("/tickets/O-1001"), 404),
    ];
    for (ask, status) in asks {
        let (method, path) = (ask.method.clone(), ask.path.clone());
        let reply = sandbox.send(ask).await;
        assert_eq!(reply.status(), status, "{method} {path}: {}", reply.text());
        assert_eq!(reply.header("content-type").as_deref(), Some("application/problem+json"));
        assert_eq!(reply.json()["status"], json!(status));
    }
    assert_eq!(sandbox.get("/admin/effects").await["count"], json!(0));
}

#[tokio::test]
async fn the_log_tells_every_request_in_order_and_what_it_was_answered() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    sandbox.send(Ask::ticket("Printer").key("k").account("red")).await;
    sandbox.send(Ask::get("/tickets?limit=5")).await;
    sandbox.send(Ask::ticket("Printer").key("k").account("red").fault("throttle_429")).await;
    let log = sandbox.get("/admin/requests").await;
    assert_eq!((&log["count"], &log["complete"]), (&json!(3), &json!(true)));
    let told: Vec<_> = log["requests"]
        .as_array()
        .expect("requests")
        .iter()
        .map(|seen| {
            json!([
                seen["method"],
                seen["path"],
                seen["query"],
                seen["idempotency_key"],
                seen["account"],
                seen["status"]
            ])
        })
        .collect();
    let expected = [
        json!(["POST", "/tickets", null, "k", "red", 201]),
        json!(["GET", "/tickets", "limit=5", null, "default", 200]),
        json!(["POST", "/tickets", null, "k", "red", 429]),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn after_a_reset_nothing_is_left_and_what_was_under_way_writes_nothing() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let late = sandbox.send(Ask::ticket("Late").key("k").fault("delay_before_commit;ms=100"));
    let reset = async {
        sandbox.until("/admin/requests", |log| log["count"] == 1).await;
        sandbox.admin("POST", "/admin/faults", json!([{ "fault": "redirect_307" }])).await;
        sandbox.advance_clock(1000).await;
        sandbox.admin("POST", "/admin/reset", json!({})).await;
    };
    let (late, ()) = tokio::join!(late, reset);
    assert_eq!((late.status(), &late.json()["code"]), (503, &json!("sandbox_reset")));
    assert_eq!(sandbox.get("/admin/effects").await["count"], json!(0));
    assert_eq!(sandbox.get("/admin/requests").await["count"], json!(0));
    assert_eq!(
        sandbox.send(Ask::ticket("Printer").key("k")).await.id(),
        "T-1001",
        "the key is free and so is the number"
    );
}

#[tokio::test]
async fn a_sandbox_that_others_could_reach_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = SandboxConfig {
        listen: "0.0.0.0:0".parse().expect("an address"),
        database: folder.path().join("sandbox.db"),
        contract: SandboxContract::default(),
        faults: Faults::none(),
    };
    let refused = Sandbox::start(config).await.expect_err("not loopback");
    assert!(matches!(refused, StartError::NotLoopback(_)), "{refused}");
    assert!(!folder.path().join("sandbox.db").exists(), "nothing is left behind");
}
