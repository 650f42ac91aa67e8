//! External effects: what is sent, how often, and what callers are told.

use std::sync::Arc;
use std::time::Duration;

use onceward::core::outcome::{Dispatched, NextAction, Outcome};
use onceward::core::receipt::Answer;
use onceward::decisions::{Choice, Reason};
use onceward::store::Expects;
use serde_json::json;
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, agent, allowed, call, decide, id, operator, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_receipt_of_the_first_call() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let first = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    let again = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((first.outcome, again.outcome), (Outcome::Executed, Outcome::Replayed));
    assert_eq!(first.answer, again.answer);
    assert!(again.replayed && !first.replayed);
    assert_eq!(helpdesk.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_blocks_every_later_call() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
    for _ in 0..5 {
        let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Unknown);
        assert_eq!(told.dispatched, Dispatched::Maybe);
        assert_eq!(told.next_action, NextAction::AskOperator);
        assert!(told.answer.is_none());
    }
    assert_eq!((helpdesk.effects(), helpdesk.requests()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_settles_an_unknown_and_the_next_call_gets_its_receipt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
    drop(ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let choice = Choice::ConfirmedDone { effect_id: None, answer: Answer::json(&json!({"id": "T-1"})) };
    decide(&ledger, &operator(), "op-1", choice, Reason::SeenAtDestination).await.unwrap();
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Replayed);
    assert_eq!(told.answer.unwrap().body_json().unwrap(), json!({"id": "T-1"}));
    assert_eq!(helpdesk.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_calls_can_never_decide() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
    drop(ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    assert!(decide(&ledger, &agent(), "op-1", Choice::DispatchAgain, Reason::NotAtDestination).await.is_err());
    let same_person = crate::stage::grant("acme", "agent", &onceward::authorize::Scope::OPERATOR);
    assert!(decide(&ledger, &same_person, "op-1", Choice::DispatchAgain, Reason::NotAtDestination).await.is_err());
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Unknown, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_arguments_under_one_key_are_a_conflict_in_every_state_and_change_nothing() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let script = [Act::DoneReplyLost, Act::Refuse, Act::DoneWhenReleased("T-3", released.clone())];
    let helpdesk = Scripted::new("none", script);
    drop(ledger.execute(&allowed(), call("unknown", "a"), helpdesk.clone(), PATIENCE).await.unwrap());
    drop(ledger.execute(&allowed(), call("rejected", "a"), helpdesk.clone(), PATIENCE).await.unwrap());
    let pending = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("pending", "a"), helpdesk, PATIENCE).await })
    };
    until(&ledger, "pending", |operation| operation.state.name() == "pending").await;
    for operation in ["unknown", "rejected", "pending"] {
        let told = ledger.execute(&allowed(), call(operation, "b"), helpdesk.clone(), Duration::ZERO).await.unwrap();
        assert_eq!(told.outcome, Outcome::Conflict, "{operation}");
        assert_eq!(told.differences.len(), 1, "{operation} names the field");
        assert!(told.answer.is_none());
    }
    released.notify_one();
    assert_eq!(pending.await.unwrap().unwrap().outcome, Outcome::Executed);
    let told = ledger.execute(&allowed(), call("pending", "b"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Conflict, "succeeded");
    assert_eq!(helpdesk.requests(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn sixteen_calls_at_once_make_one_effect_and_all_get_its_receipt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let other_process = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let ledger = if n % 2 == 0 { ledger.clone() } else { other_process.clone() };
            let helpdesk = helpdesk.clone();
            tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
        })
        .collect();
    let mut executed = 0;
    for told in calls {
        let told = told.await.unwrap().unwrap();
        assert!(told.outcome.is_success(), "{:?}", told.outcome);
        assert_eq!(told.answer.unwrap().body_json().unwrap(), json!({"id": "T-1"}));
        executed += u32::from(told.outcome == Outcome::Executed);
    }
    assert_eq!((helpdesk.effects(), executed), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_changes_nothing() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-9", released.clone())]);
    let caller = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "pending").await;
    caller.abort();
    released.notify_one();
    let settled = until(&ledger, "op-1", |operation| operation.is_settled()).await;
    assert_eq!(settled.state.name(), "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_surely_was_not_sent_is_tried_again_within_the_policy() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::NoConnection, Act::NoConnection]);
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.attempts), (Outcome::Executed, 3));
    let down = Scripted::new("none", vec![Act::NoConnection; 9]);
    let told = ledger.execute(&allowed(), call("op-2", "printer"), down.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.attempts), (Outcome::NotDispatched, 3));
    assert_eq!((told.dispatched, told.next_action), (Dispatched::No, NextAction::Wait));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_recognises_the_key_gets_the_same_key_again() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let payments = Scripted::new("stripe.v1", [Act::DoneReplyLost]);
    drop(ledger.execute(&allowed(), call("op-1", "printer"), payments.clone(), PATIENCE).await.unwrap());
    let keys = payments.keys();
    assert!(keys.len() >= 2, "the reply was lost, so it was sent again");
    assert!(keys.iter().all(|key| *key == keys[0] && !key.is_empty()), "{keys:?}");
    let other = ledger.execute(&allowed(), call("op-2", "printer"), payments.clone(), PATIENCE).await.unwrap();
    assert!(other.outcome.is_success());
    assert_ne!(payments.keys().last(), keys.last(), "another operation has another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_stored_and_replayed_and_its_correction_is_a_new_operation() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::Refuse]);
    let refused = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    let again = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((refused.outcome, again.outcome), (Outcome::Rejected, Outcome::Rejected));
    assert_eq!(refused.answer, again.answer);
    assert_eq!(helpdesk.requests(), 1);
    let mut corrected = call("op-2", "scanner");
    corrected.corrects = Some(id("op-1"));
    let done = ledger.execute(&allowed(), corrected, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(done.outcome, Outcome::Executed);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_arguments_under_two_keys_are_two_operations() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    for operation in ["op-1", "op-2"] {
        let told = ledger.execute(&allowed(), call(operation, "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Executed);
    }
    assert_eq!(helpdesk.effects(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_never_meet_in_one_operation_or_one_outbound_key() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    for tenant in ["acme", "umbrella"] {
        let grant = crate::stage::grant(tenant, "agent", &onceward::authorize::Scope::AGENT);
        let allowed = grant.to_execute(&crate::stage::tool()).unwrap();
        let told = ledger.execute(&allowed, call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Executed);
    }
    let keys = helpdesk.keys();
    assert_eq!(helpdesk.effects(), 2);
    assert_ne!(keys[0], keys[1]);
    let stranger = crate::stage::grant("initech", "agent", &onceward::authorize::Scope::AGENT);
    assert_eq!(ledger.find(&stranger, &id("op-1")).await.unwrap_err(), onceward::LedgerError::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_deadline_nothing_is_sent_any_more() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", vec![Act::NoConnection; 3]);
    let mut short = call("op-1", "printer");
    short.deadline = Some(Duration::from_millis(40));
    drop(ledger.execute(&allowed(), short.clone(), helpdesk.clone(), PATIENCE).await.unwrap());
    let deadline = until(&ledger, "op-1", |_| true).await.terms.deadline.unwrap();
    let patience = tokio::time::Instant::now() + PATIENCE;
    while ledger.clock().now() < deadline {
        assert!(tokio::time::Instant::now() < patience);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = ledger.execute(&allowed(), short, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Closed);
    assert_eq!((told.dispatched, helpdesk.requests()), (Dispatched::No, 0));
}

/// Whoever was just answered calls again before the seat of its attempt is empty: it is told how the operation stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_right_after_an_answer_is_told_where_the_operation_stands() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    for round in 0..100 {
        let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
        let operation = format!("op-{round}");
        for _ in 0..3 {
            let told = ledger.execute(&allowed(), call(&operation, "printer"), helpdesk.clone(), PATIENCE).await;
            assert_eq!(told.unwrap().outcome, Outcome::Unknown, "{operation}");
        }
        assert_eq!(helpdesk.requests(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_never_uses_up_an_identity() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let down = Scripted::new("none", vec![Act::NoConnection; 1_000]);
    for _ in 0..100 {
        let told = ledger.execute(&allowed(), call("op-1", "printer"), down.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::NotDispatched);
    }
    // Another destination, so that no breaker is in the way.
    let other_ledger = stage.ledger().await;
    let up = Scripted::new("none", []);
    let told = other_ledger.execute(&allowed(), call("op-1", "printer"), up.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, up.effects()), (Outcome::Executed, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_for_exactly_what_was_approved() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let mut asked = call("op-1", "printer");
    asked.approval = onceward::call::Approval::Required;
    let told = ledger.execute(&allowed(), asked.clone(), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::ApprovalRequired);
    assert!(ledger.approve(&agent(), &id("op-1"), Expects::Anything).await.is_err(), "whoever calls cannot approve");
    ledger.approve(&operator(), &id("op-1"), Expects::Anything).await.unwrap();
    let elsewhere = Scripted::new("stripe.v1", []);
    let refused = ledger.execute(&allowed(), asked.clone(), elsewhere.clone(), PATIENCE).await.unwrap_err();
    assert_eq!(refused, onceward::LedgerError::ApprovalVoid);
    let mut other_version = asked.clone();
    other_version.tool_version = onceward::core::key::ToolVersion::parse("2").unwrap();
    let refused = ledger.execute(&allowed(), other_version, helpdesk.clone(), PATIENCE).await.unwrap_err();
    assert_eq!(refused, onceward::LedgerError::ApprovalVoid);
    assert_eq!((helpdesk.requests(), elsewhere.requests()), (0, 0));
    let told = ledger.execute(&allowed(), asked, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.effects()), (Outcome::Executed, 1));
}
