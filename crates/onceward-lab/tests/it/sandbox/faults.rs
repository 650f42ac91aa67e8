//! Each fault: what the caller sees, what has really happened, and what a repetition finds.

use onceward_lab::sandbox::{Fault, SandboxContract};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::{Ask, DEADLINE, Reply, TestSandbox};

/// What a fault does to a ticket under a contract that stores all answers.
struct Case {
    fault: &'static str,
    seen: fn(&Reply),
    effects: i64,
    /// The status of a repetition with the same key, and whether it is an answer given before.
    repeated: (u16, bool),
    effects_after: i64,
}

const fn case(fault: &'static str, seen: fn(&Reply), effects: i64, repeated: (u16, bool), effects_after: i64) -> Case {
    Case { fault, seen, effects, repeated, effects_after }
}

const REPLAYED: (u16, bool) = (201, true);
const EXECUTED: (u16, bool) = (201, false);

fn no_byte(reply: &Reply) {
    assert_eq!(reply.bytes, b"", "not one byte may arrive");
}

fn inside_headers(reply: &Reply) {
    assert_eq!(reply.status(), 201);
    assert!(!reply.text().contains("\r\n\r\n"), "{:?}", reply.text());
}

fn inside_body(reply: &Reply) {
    assert_eq!(reply.status(), 201);
    let promised: usize = reply.header("content-length").expect("a length").parse().expect("a number");
    assert_eq!(reply.body().len(), promised / 2);
}

fn broken_json(reply: &Reply) {
    assert_eq!(reply.status(), 201);
    let promised: usize = reply.header("content-length").expect("a length").parse().expect("a number");
    assert_eq!(reply.body().len(), promised, "as HTTP the answer is complete");
    assert!(serde_json::from_str::<Value>(&reply.body()).is_err(), "as JSON it is not");
}

fn whole(reply: &Reply) {
    assert_eq!((reply.status(), reply.id().as_str()), (201, "T-1001"));
}

const CASES: &[Case] = &[
    case("lose_reply_after_commit", no_byte, 1, REPLAYED, 1),
    case("cut_mid_headers", inside_headers, 1, REPLAYED, 1),
    case("cut_mid_body", inside_body, 1, REPLAYED, 1),
    case("truncated_json", broken_json, 1, REPLAYED, 1),
    case("fail_before_commit", |reply| assert_eq!(reply.status(), 500), 0, EXECUTED, 1),
    case("fail_before_commit;status=503", |reply| assert_eq!(reply.status(), 503), 0, EXECUTED, 1),
    case("cut_before_commit", no_byte, 0, EXECUTED, 1),
    case("error_500_rolled_back", |reply| assert_eq!(reply.status(), 500), 0, (500, true), 0),
    case("error_500_after_commit", |reply| assert_eq!(reply.status(), 500), 1, (500, true), 1),
    case("error_502_after_commit", |reply| assert_eq!(reply.status(), 502), 1, REPLAYED, 1),
    case("error_503_after_commit", |reply| assert_eq!(reply.status(), 503), 1, REPLAYED, 1),
    case("error_504_after_commit", |reply| assert_eq!(reply.status(), 504), 1, REPLAYED, 1),
    case("delay_before_commit;ms=1", whole, 1, REPLAYED, 1),
    case("delay_after_commit;ms=1", whole, 1, REPLAYED, 1),
    case("slow_late_answer;ms=1", whole, 1, REPLAYED, 1),
    case("in_flight_409", |reply| assert_eq!(reply.status(), 409), 0, EXECUTED, 1),
    case("silent_mismatch", whole, 1, REPLAYED, 1),
    case(
        "accepted_202",
        |reply| assert_eq!((reply.status(), &reply.json()["status"]), (202, &json!("accepted"))),
        1,
        (202, true),
        1,
    ),
    case(
        "throttle_429;ms=1500",
        |reply| assert_eq!((reply.status(), reply.header("retry-after").as_deref()), (429, Some("2"))),
        0,
        EXECUTED,
        1,
    ),
    case(
        "redirect_307",
        |reply| assert_eq!((reply.status(), reply.header("location").as_deref()), (307, Some("/tickets"))),
        0,
        EXECUTED,
        1,
    ),
    case("unauthorized_401", |reply| assert_eq!(reply.status(), 401), 0, EXECUTED, 1),
    case(
        "partial_200",
        |reply| assert_eq!((reply.status(), &reply.json()["status"]), (200, &json!("failed"))),
        1,
        (200, true),
        1,
    ),
];

/// How a fault is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    ByHeader,
    ByRule,
}

async fn check(sandbox: &TestSandbox, case: &Case, asked: Asked) {
    sandbox.admin("POST", "/admin/reset", json!({})).await;
    let ticket = Ask::ticket("Printer").key("k-1");
    let first = match asked {
        Asked::ByHeader => ticket.clone().fault(case.fault),
        Asked::ByRule => {
            let rules = json!([{ "match": { "path": "/tickets" }, "fault": case.fault }]);
            sandbox.admin("POST", "/admin/faults", rules).await;
            ticket.clone()
        }
    };
    (case.seen)(&sandbox.send(first).await);
    assert_eq!(sandbox.effects("tickets").await, case.effects, "{}: effects after the first", case.fault);
    let again = sandbox.send(ticket).await;
    assert_eq!((again.status(), again.is_replay()), case.repeated, "{}: the repetition", case.fault);
    assert_eq!(sandbox.effects("tickets").await, case.effects_after, "{}: effects after both", case.fault);
    let log = sandbox.get("/admin/requests").await;
    let fault: Fault = case.fault.parse().expect("a fault");
    assert_eq!(log["requests"][0]["fault"], json!(fault.to_string()), "the log names the fault that was met");
    assert_eq!(log["requests"][1]["fault"], Value::Null);
}

#[tokio::test]
async fn every_fault_leaves_the_effects_it_names_and_a_repetition_finds_what_the_contract_says() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for case in CASES {
        check(&sandbox, case, Asked::ByHeader).await;
    }
}

#[tokio::test]
async fn a_fault_programmed_ahead_meets_a_caller_that_sets_no_header() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for case in CASES {
        check(&sandbox, case, Asked::ByRule).await;
    }
}

#[tokio::test]
async fn a_lost_reply_is_logged_as_committed_and_not_delivered() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let reply = sandbox.send(Ask::ticket("Printer").key("k").fault("lose_reply_after_commit")).await;
    assert_eq!(reply.bytes, b"");
    let request = &sandbox.get("/admin/requests").await["requests"][0];
    assert_eq!((&request["status"], &request["delivery"]), (&json!(201), &json!("nothing")));
    assert_eq!(request["idempotency_key"], json!("k"));
}

#[tokio::test]
async fn a_rule_meets_the_request_it_counted_to_and_only_that_one() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let rules = json!([{ "match": { "path": "/tickets", "nth": 2 }, "fault": "fail_before_commit" }]);
    sandbox.admin("POST", "/admin/faults", rules).await;
    let mut answered = Vec::new();
    for _ in 0..3 {
        answered.push(sandbox.send(Ask::ticket("Printer")).await.status());
    }
    assert_eq!(answered, [201, 500, 201]);
    assert_eq!(sandbox.effects("tickets").await, 2);
    assert_eq!(sandbox.get("/admin/faults").await["waiting"], json!([]));
}

#[tokio::test]
async fn a_caller_that_hangs_up_before_the_commit_does_not_stop_it() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let ask = Ask::ticket("Printer").fault("delay_before_commit;ms=100");
    let stream = ask.begin(sandbox.running.address()).await;
    sandbox.until("/admin/requests", |log| log["count"] == 1).await;
    drop(stream);
    sandbox.until("/admin/effects?resource=tickets", |report| report["count"] == 1).await;
}

#[tokio::test]
async fn a_delay_before_the_commit_holds_the_effect_and_one_after_it_holds_only_the_answer() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let address = sandbox.running.address();
    let before = Ask::ticket("Before").fault("delay_before_commit;ms=600000").begin(address).await;
    sandbox.until("/admin/requests", |log| log["count"] == 1).await;
    let after = Ask::ticket("After").fault("delay_after_commit;ms=600000").begin(address).await;
    let report = sandbox.until("/admin/effects?resource=tickets", |report| report["count"] == 1).await;
    assert_eq!(report["effects"][0]["fields"]["title"], json!("After"));
    for stream in [&before, &after] {
        let read = stream.try_read(&mut [0; 1]);
        assert_eq!(read.expect_err("nothing has arrived").kind(), std::io::ErrorKind::WouldBlock);
    }
    let log = sandbox.get("/admin/requests").await;
    assert_eq!(log["requests"][0]["status"], Value::Null, "neither has been answered");
    tokio::time::timeout(DEADLINE, sandbox.running.stop()).await.expect("a stop does not wait for a delay");
}

#[tokio::test]
async fn a_slow_answer_shows_its_headers_long_before_its_body_is_whole() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let ask = Ask::ticket("Printer").fault("slow_late_answer;ms=600000");
    let mut stream = ask.begin(sandbox.running.address()).await;
    let mut reply = Reply { bytes: Vec::new() };
    let half = |reply: &Reply| {
        let length: usize = reply.header("content-length")?.parse().ok()?;
        (reply.body().len() == length / 2).then_some(())
    };
    let reading = async {
        while half(&reply).is_none() {
            assert_ne!(stream.read_buf(&mut reply.bytes).await.expect("open"), 0, "{}", reply.text());
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect("headers and half a body");
    assert_eq!(reply.status(), 201);
    assert_eq!(sandbox.effects("tickets").await, 1);
}

#[tokio::test]
async fn an_accepted_ticket_is_processing_until_its_time_has_come() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let reply = sandbox.send(Ask::ticket("Printer").fault("accepted_202;ms=60000")).await;
    assert_eq!((reply.status(), reply.id().as_str()), (202, "T-1001"));
    assert_eq!(sandbox.get("/tickets/T-1001").await["status"], json!("processing"));
    sandbox.advance_clock(60_000).await;
    assert_eq!(sandbox.get("/tickets/T-1001").await["status"], json!("open"));
}

#[tokio::test]
async fn a_fault_after_the_commit_leaves_a_refusal_as_it_is() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let empty = json!({ "title": "", "body": "x" });
    let reply = sandbox.send(Ask::new("POST", "/tickets").json(&empty).fault("error_500_after_commit")).await;
    assert_eq!(reply.status(), 422);
    assert_eq!(sandbox.effects("tickets").await, 0);
}

#[tokio::test]
async fn a_read_meets_faults_as_well() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    sandbox.send(Ask::ticket("Printer")).await;
    let lost = sandbox.send(Ask::get("/tickets/T-1001").fault("lose_reply_after_commit")).await;
    assert_eq!(lost.bytes, b"");
    assert_eq!(sandbox.send(Ask::get("/tickets").fault("fail_before_commit;status=503")).await.status(), 503);
}

#[tokio::test]
async fn an_unknown_fault_is_refused_and_nothing_is_done() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    assert_eq!(sandbox.send(Ask::ticket("Printer").fault("lose_replies")).await.status(), 400);
    let rules = Ask::new("POST", "/admin/faults").json(&json!([{ "fault": "lose_replies" }]));
    assert_eq!(sandbox.send(rules).await.status(), 400);
    assert_eq!(sandbox.effects("tickets").await, 0);
}
