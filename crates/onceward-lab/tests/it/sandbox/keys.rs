//! What a repeated key is worth, for each contract a destination can have.

use onceward_lab::sandbox::{
    Accounts, InFlight, Interleaving, KeyConstraint, KeyHeader, OtherArguments, RepeatedKey, SandboxContract,
};
use serde_json::{Value, json};

use super::{Ask, TestSandbox};

fn repeating(repeated_key: RepeatedKey) -> SandboxContract {
    SandboxContract { repeated_key, ..SandboxContract::default() }
}

#[tokio::test]
async fn a_destination_without_keys_does_it_again_and_notes_the_key_it_overlooked() {
    let sandbox = TestSandbox::start(SandboxContract::without_keys()).await;
    for id in ["T-1001", "T-1002"] {
        let reply = sandbox.send(Ask::ticket("Printer").key("k")).await;
        assert_eq!((reply.id().as_str(), reply.is_replay()), (id, false));
    }
    let report = sandbox.get("/admin/effects?resource=tickets").await;
    assert_eq!((&report["count"], &report["requests"]), (&json!(2), &json!(2)));
    let key = json!([{ "account": "default", "idempotency_key": "k", "effects": 2, "requests": 2 }]);
    assert_eq!(report["per_key"], key);
}

#[tokio::test]
async fn a_key_travels_in_the_header_that_the_contract_names() {
    let key_header = KeyHeader::Named("x-request-key".to_owned());
    let sandbox = TestSandbox::start(SandboxContract { key_header, ..SandboxContract::default() }).await;
    for _ in 0..2 {
        assert_eq!(sandbox.send(Ask::ticket("Printer").header("X-Request-Key", "k")).await.id(), "T-1001");
    }
    for id in ["T-1002", "T-1003"] {
        assert_eq!(sandbox.send(Ask::ticket("Printer").key("k")).await.id(), id, "the usual header means nothing here");
    }
}

#[tokio::test]
async fn a_replay_is_the_first_answer_to_the_byte_whatever_has_happened_since() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let first = sandbox.send(Ask::ticket("Printer").key("k")).await;
    assert!(!first.is_replay());
    let closed = sandbox.send(Ask::new("POST", "/tickets/T-1001/close")).await;
    assert_eq!(closed.json()["status"], json!("closed"));
    let again = sandbox.send(Ask::ticket("Printer").key("\"k\"")).await;
    assert!(again.is_replay());
    assert_eq!((again.status(), again.body()), (first.status(), first.body()));
    assert_eq!(sandbox.get("/tickets/T-1001").await["status"], json!("closed"));
}

#[tokio::test]
async fn a_destination_of_current_states_answers_with_the_thing_as_it_is_now() {
    let sandbox = TestSandbox::start(repeating(RepeatedKey::CurrentState)).await;
    sandbox.send(Ask::ticket("Printer").key("k")).await;
    sandbox.send(Ask::new("POST", "/tickets/T-1001/close")).await;
    let again = sandbox.send(Ask::ticket("Printer").key("k")).await;
    assert_eq!((again.status(), &again.json()["status"]), (200, &json!("closed")));
    assert_eq!(sandbox.effects("tickets").await, 1);
}

#[tokio::test]
async fn a_decline_is_stored_where_all_answers_are_and_evaluated_again_where_only_successes_are() {
    let payment = Ask::new("POST", "/payments").json(&json!({ "amount": 4002, "currency": "EUR" })).key("k");
    for (repeated_key, replayed) in [(RepeatedKey::StoresAll, true), (RepeatedKey::StoresSuccesses, false)] {
        let sandbox = TestSandbox::start(repeating(repeated_key)).await;
        assert_eq!(sandbox.send(payment.clone()).await.status(), 402);
        let again = sandbox.send(payment.clone()).await;
        assert_eq!((again.status(), again.is_replay()), (402, replayed), "{repeated_key:?}");
        assert_eq!(sandbox.effects("payments").await, 0);
    }
}

#[tokio::test]
async fn a_refusal_before_execution_does_not_use_the_key_up() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let empty = Ask::new("POST", "/tickets").json(&json!({ "title": "", "body": "x" })).key("k");
    assert_eq!(sandbox.send(empty).await.status(), 422);
    assert_eq!(sandbox.send(Ask::ticket("Printer").key("k")).await.status(), 201);
}

#[tokio::test]
async fn where_only_successes_are_stored_a_500_is_safe_to_repeat_only_if_the_effect_carries_its_key() {
    for (key_constraint, effects) in [(KeyConstraint::Unique, 1), (KeyConstraint::None, 2)] {
        let contract = SandboxContract { key_constraint, ..repeating(RepeatedKey::StoresSuccesses) };
        let sandbox = TestSandbox::start(contract).await;
        let failed = sandbox.send(Ask::ticket("Printer").key("k").fault("error_500_after_commit")).await;
        assert_eq!(failed.status(), 500);
        assert_eq!(sandbox.send(Ask::ticket("Printer").key("k")).await.status(), 201);
        assert_eq!(sandbox.effects("tickets").await, effects, "{key_constraint:?}");
    }
}

#[tokio::test]
async fn a_destination_that_continues_finishes_what_failed_before_and_after_the_commit() {
    let sandbox = TestSandbox::start(repeating(RepeatedKey::Continues)).await;
    for (key, fault, effects) in [("a", "fail_before_commit", 0), ("b", "error_500_after_commit", 2)] {
        assert_eq!(sandbox.send(Ask::ticket(key).key(key).fault(fault)).await.status(), 500);
        assert_eq!(sandbox.effects("tickets").await, effects, "{fault}");
        assert_eq!(sandbox.send(Ask::ticket("Other").key(key)).await.status(), 422, "the key is bound already");
        assert_eq!(sandbox.send(Ask::ticket(key).key(key)).await.status(), 201, "{fault}");
    }
    assert_eq!(sandbox.effects("tickets").await, 2);
}

#[tokio::test]
async fn other_arguments_under_a_key_are_rejected_as_the_contract_says_or_pass_silently() {
    for (other_arguments, status) in [
        (OtherArguments::Reject400, 400),
        (OtherArguments::Reject409, 409),
        (OtherArguments::Reject422, 422),
        (OtherArguments::FirstAnswer, 201),
    ] {
        let sandbox = TestSandbox::start(SandboxContract { other_arguments, ..SandboxContract::default() }).await;
        sandbox.send(Ask::ticket("Printer").key("k")).await;
        let other = sandbox.send(Ask::ticket("Scanner").key("k")).await;
        assert_eq!(other.status(), status, "{other_arguments:?}");
        if status == 201 {
            assert_eq!(other.json()["title"], json!("Printer"), "the first arguments' answer");
        }
        assert_eq!(sandbox.effects("tickets").await, 1);
    }
}

#[tokio::test]
async fn one_request_can_be_answered_as_by_a_destination_that_does_not_compare() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    sandbox.send(Ask::ticket("Printer").key("k")).await;
    let other = sandbox.send(Ask::ticket("Scanner").key("k").fault("silent_mismatch")).await;
    assert_eq!((other.status(), &other.json()["title"]), (201, &json!("Printer")));
    let settings = "other_arguments=first_answer";
    let other = sandbox.send(Ask::ticket("Scanner").key("k").header("Sandbox-Contract", settings)).await;
    assert_eq!(other.status(), 201);
    assert_eq!(sandbox.effects("tickets").await, 1);
}

#[tokio::test]
async fn the_order_of_fields_is_no_other_argument_and_the_resource_is() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let ask = |path: &str, text: &str| Ask::new("POST", path).body("application/json", text.into()).key("k");
    assert_eq!(sandbox.send(ask("/tickets", r#"{"title":"a","body":"b"}"#)).await.status(), 201);
    assert!(sandbox.send(ask("/tickets", r#"{ "body": "b", "title": "a" }"#)).await.is_replay());
    assert_eq!(sandbox.send(ask("/reports", r#"{"name":"a"}"#)).await.status(), 422);
}

#[tokio::test]
async fn a_key_under_way_is_a_conflict_where_the_contract_says_so() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let slow = Ask::ticket("Printer").key("k").fault("delay_before_commit;ms=600000");
    let _first = slow.begin(sandbox.running.address()).await;
    sandbox.until("/admin/requests", |log| log["count"] == 1).await;
    let second = sandbox.send(Ask::ticket("Printer").key("k")).await;
    assert_eq!((second.status(), &second.json()["code"]), (409, &json!("key_in_flight")));
    assert_eq!(sandbox.effects("tickets").await, 0);
    assert_eq!(sandbox.send(Ask::ticket("Printer").key("other")).await.status(), 201, "another key is not held up");
}

#[tokio::test]
async fn a_key_under_way_is_waited_for_where_the_contract_says_so() {
    for key_constraint in [KeyConstraint::Unique, KeyConstraint::None] {
        let contract = SandboxContract { in_flight: InFlight::Waits, key_constraint, ..SandboxContract::default() };
        let sandbox = TestSandbox::start(contract).await;
        let slow = sandbox.send(Ask::ticket("Printer").key("k").fault("delay_before_commit;ms=100"));
        let second = async {
            sandbox.until("/admin/requests", |log| log["count"] == 1).await;
            sandbox.send(Ask::ticket("Printer").key("k")).await
        };
        let (first, second) = tokio::join!(slow, second);
        assert_eq!((first.id(), first.is_replay()), (second.id(), false));
        assert!(second.is_replay());
        assert_eq!(sandbox.effects("tickets").await, 1);
    }
}

#[tokio::test]
async fn a_key_past_its_horizon_is_forgotten_and_executes_again() {
    let day = 24 * 60 * 60 * 1000;
    let sandbox = TestSandbox::start(SandboxContract { key_horizon_ms: Some(day), ..SandboxContract::default() }).await;
    let ticket = Ask::ticket("Printer").key("k");
    sandbox.send(ticket.clone()).await;
    sandbox.advance_clock(day - 60_000).await;
    assert!(
        sandbox.send(ticket.clone()).await.is_replay(),
        "a replay does not renew the key, and is given until the end"
    );
    sandbox.advance_clock(60_000).await;
    let forgotten = sandbox.send(ticket.clone()).await;
    assert_eq!((forgotten.id().as_str(), forgotten.is_replay()), ("T-1002", false));
    assert_eq!(sandbox.send(ticket).await.id(), "T-1002");
    assert_eq!(sandbox.effects("tickets").await, 2);
}

#[tokio::test]
async fn two_callers_who_both_see_the_key_absent_make_two_rows_without_the_constraint_and_one_with_it() {
    for (key_constraint, effects) in [(KeyConstraint::None, 2), (KeyConstraint::Unique, 1)] {
        let contract = SandboxContract {
            key_constraint,
            in_flight: InFlight::Unguarded,
            interleaving: Some(Interleaving { callers: 2, wait_ms_max: 20_000 }),
            ..SandboxContract::default()
        };
        let sandbox = TestSandbox::start(contract).await;
        let ticket = || sandbox.send(Ask::ticket("Printer").key("k"));
        let (one, other) = tokio::join!(ticket(), ticket());
        assert_eq!((one.status(), other.status()), (201, 201));
        assert_eq!(one.id() == other.id(), effects == 1, "{key_constraint:?}");
        assert_eq!(sandbox.effects("tickets").await, effects, "{key_constraint:?}");
        let again = sandbox.send(Ask::ticket("Printer").key("k")).await;
        assert_eq!((again.is_replay(), again.id().as_str()), (true, "T-1001"), "the first answer stands");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_callers_of_one_key_make_one_row() {
    // Without the constraint, so that only waiting for the first protects the other fifteen.
    let key_constraint = KeyConstraint::None;
    let contract = SandboxContract { in_flight: InFlight::Waits, key_constraint, ..SandboxContract::default() };
    let sandbox = TestSandbox::start(contract).await;
    let calls = (0..16).map(|_| sandbox.send(Ask::ticket("Printer").key("k")));
    let replies = futures_util::future::join_all(calls).await;
    assert!(replies.iter().all(|reply| reply.id() == "T-1001"));
    assert_eq!(replies.iter().filter(|reply| !reply.is_replay()).count(), 1);
    assert_eq!(sandbox.effects("tickets").await, 1);
}

#[tokio::test]
async fn the_same_key_of_two_accounts_is_two_keys_and_neither_sees_the_others_ticket() {
    let contract = SandboxContract { accounts: Accounts::BearerRequired, ..SandboxContract::default() };
    let sandbox = TestSandbox::start(contract).await;
    assert_eq!(sandbox.send(Ask::ticket("Printer").key("k")).await.status(), 401);
    let token = Ask::ticket("Printer").key("k").header("Authorization", "Bearer someone");
    assert_eq!(sandbox.send(token).await.status(), 401);
    for (account, id) in [("red", "T-1001"), ("blue", "T-1002")] {
        let reply = sandbox.send(Ask::ticket("Printer").key("k").account(account)).await;
        assert_eq!((reply.id().as_str(), reply.is_replay()), (id, false));
    }
    assert_eq!(sandbox.send(Ask::get("/tickets/T-1001").account("blue")).await.status(), 404);
    assert_eq!(sandbox.send(Ask::get("/tickets/T-1001").account("red")).await.status(), 200);
    let close = Ask::new("POST", "/tickets/T-1001/close").account("blue");
    assert_eq!(sandbox.send(close).await.status(), 404);
    let listed = sandbox.send(Ask::get("/tickets").account("blue")).await.json();
    assert_eq!(listed["tickets"].as_array().map(Vec::len), Some(1));
    let red = sandbox.get("/admin/effects?account=red").await;
    assert_eq!((&red["count"], &red["requests"]), (&json!(1), &json!(1)));
    let per_key = json!([{ "account": "red", "idempotency_key": "k", "effects": 1, "requests": 1 }]);
    assert_eq!(red["per_key"], per_key);
}

#[tokio::test]
async fn a_malformed_key_is_refused_before_anything_is_done() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    for key in ["", "two words", &"k".repeat(256)] {
        let reply = sandbox.send(Ask::ticket("Printer").key(key)).await;
        assert_eq!((reply.status(), &reply.json()["code"]), (400, &json!("key_malformed")), "{key:?}");
    }
    assert_eq!(sandbox.effects("tickets").await, 0);
}

#[tokio::test]
async fn the_contract_of_a_running_sandbox_is_changed_and_a_reset_restores_it() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let changed = sandbox.admin("PUT", "/admin/contract", json!({ "key_header": "none" })).await;
    assert_eq!((&changed["key_header"], &changed["repeated_key"]), (&json!("none"), &json!("stores_all")));
    sandbox.send(Ask::ticket("Printer").key("k")).await;
    assert!(!sandbox.send(Ask::ticket("Printer").key("k")).await.is_replay());
    let refused = Ask::new("PUT", "/admin/contract").json(&json!({ "key_headr": "none" }));
    assert_eq!(sandbox.send(refused).await.status(), 400);
    sandbox.admin("POST", "/admin/reset", Value::Null).await;
    assert_eq!(sandbox.get("/admin/contract").await["key_header"], json!("idempotency-key"));
}
