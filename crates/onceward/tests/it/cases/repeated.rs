//! Agents and frameworks that run a step again.

use std::sync::Arc;
use std::time::Duration;

use onceward::call::{Approval, Call};
use onceward::core::canonical;
use onceward::core::key::OperationKey;
use onceward::core::outcome::{Envelope, NextAction, Outcome};
use onceward::core::retry::RetryPolicy;
use onceward::core::step::Refusal;
use onceward::store::{DisagreementOnly, Expects, Filter};
use onceward::{Ledger, LedgerError};
use serde_json::json;
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, World, agent, allowed, call, grant, id, operator, tool, until};

async fn done(ledger: &Ledger, call: Call, destination: &Arc<Scripted>) -> Envelope {
    ledger.execute(&allowed(), call, destination.clone(), PATIENCE).await.unwrap()
}

fn ticket(told: &Envelope) -> serde_json::Value {
    told.answer.as_ref().unwrap().body_json().unwrap()
}

/// A second worker takes a slow step for lost.
#[tokio::test(flavor = "multi_thread")]
async fn r001_a_second_worker_waits_for_the_slow_first_one_and_both_get_its_receipt() {
    let stage = Stage::new();
    let (first, second) = (stage.ledger().await, stage.ledger().await);
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let slow = {
        let helpdesk = helpdesk.clone();
        tokio::spawn(async move { done(&first, call("op-1", "printer"), &helpdesk).await })
    };
    until(&second, "op-1", |operation| operation.state.name() == "pending").await;
    for _ in 0..3 {
        let told = second.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), Duration::ZERO).await.unwrap();
        assert_eq!(told.outcome, Outcome::InProgress);
    }
    let waiting = {
        let (second, helpdesk) = (second.clone(), helpdesk.clone());
        tokio::spawn(async move { done(&second, call("op-1", "printer"), &helpdesk).await })
    };
    released.notify_one();
    let (slow, waiting) = (slow.await.unwrap(), waiting.await.unwrap());
    assert_eq!((slow.outcome, waiting.outcome), (Outcome::Executed, Outcome::Replayed));
    assert_eq!((slow.answer, helpdesk.requests()), (waiting.answer, 1));
}

/// A loop whose every turn starts from the top.
#[tokio::test(flavor = "multi_thread")]
async fn r002_fifty_resumes_of_one_step_are_one_effect_and_forty_nine_replays() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let mut told = Vec::new();
    for _ in 0..50 {
        told.push(done(&ledger, call("op-1", "printer"), &helpdesk).await);
    }
    assert!(told.iter().all(|one| one.answer == told[0].answer && one.as_of == told[0].as_of));
    assert_eq!(told.iter().filter(|one| one.replayed).count(), 49);
    assert_eq!((helpdesk.effects(), told[49].attempts), (1, 1));
}

/// One call of a batch waits for a person, and the whole batch is started again.
#[tokio::test(flavor = "multi_thread")]
async fn r004_a_batch_that_paused_beside_a_finished_write_does_not_write_again() {
    let stage = Stage::new();
    let (mail, helpdesk) = (Scripted::new("none", []), Scripted::new("none", []));
    let ask = || Call { approval: Approval::Required, ..call("ask", "may I?") };
    {
        let ledger = stage.ledger().await;
        assert_eq!(done(&ledger, call("send", "hello"), &mail).await.outcome, Outcome::Executed);
        assert_eq!(done(&ledger, ask(), &helpdesk).await.outcome, Outcome::ApprovalRequired);
    }
    let restarted = stage.ledger().await;
    restarted.approve(&operator(), &id("ask"), Expects::Anything).await.unwrap();
    assert_eq!(done(&restarted, call("send", "hello"), &mail).await.outcome, Outcome::Replayed);
    assert_eq!(done(&restarted, ask(), &helpdesk).await.outcome, Outcome::Executed);
    assert_eq!((mail.requests(), helpdesk.requests()), (1, 1));
}

/// A task of three writes is retried as a whole after its third failed.
#[tokio::test(flavor = "multi_thread")]
async fn r005_a_retried_task_sends_only_the_write_that_was_not_done() {
    let stage = Stage::new();
    let crm = Scripted::new("none", []);
    let unreachable = Scripted::new("none", vec![Act::NoConnection; 4]);
    let write = |n: u32| Call {
        retry: RetryPolicy { attempts_max: 2, ..RetryPolicy::default() },
        ..call(&format!("run-7/write-{n}"), &format!("write {n}"))
    };
    {
        let ledger = stage.ledger().await;
        for n in 1..=2 {
            assert_eq!(done(&ledger, write(n), &crm).await.outcome, Outcome::Executed);
        }
        assert_eq!(done(&ledger, write(3), &unreachable).await.outcome, Outcome::NotDispatched);
    }
    let ledger = stage.ledger().await;
    let mut told = Vec::new();
    for n in 1..=3 {
        told.push(done(&ledger, write(n), &crm).await.outcome);
    }
    assert_eq!(told, [Outcome::Replayed, Outcome::Replayed, Outcome::Executed]);
    assert_eq!(crm.requests(), 3);
}

/// The turn fails after the approved call was made, and is played again, approval included.
#[tokio::test(flavor = "multi_thread")]
async fn r008_an_approval_is_used_once_and_its_repetition_gets_the_receipt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let payments = Scripted::new("none", [Act::DoneWhenReleased("P-1", released.clone())]);
    let approved = || Call { approval: Approval::Required, ..call("op-1", "pay 10") };
    assert_eq!(done(&ledger, approved(), &payments).await.outcome, Outcome::ApprovalRequired);
    ledger.approve(&operator(), &id("op-1"), Expects::Anything).await.unwrap();
    let caller = {
        let (ledger, payments) = (ledger.clone(), payments.clone());
        tokio::spawn(async move { done(&ledger, approved(), &payments).await })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "pending").await;
    caller.abort();
    released.notify_one();
    until(&ledger, "op-1", |operation| operation.state.name() == "succeeded").await;
    let again = ledger.approve(&operator(), &id("op-1"), Expects::Anything).await.unwrap_err();
    assert_eq!(again, LedgerError::Illegal(Refusal::NothingToApprove));
    let told = done(&ledger, approved(), &payments).await;
    assert_eq!((told.outcome, ticket(&told)), (Outcome::Replayed, json!({"id": "P-1"})));
    assert_eq!(payments.effects(), 1);
}

/// After the approval another call is made under it.
#[tokio::test(flavor = "multi_thread")]
async fn r009_an_approval_covers_the_arguments_that_were_shown_and_no_others() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let payments = Scripted::new("none", []);
    let pay = |amount: &str| Call { approval: Approval::Required, ..call("op-1", amount) };
    assert_eq!(done(&ledger, pay("ten to alice"), &payments).await.outcome, Outcome::ApprovalRequired);
    for _ in 0..2 {
        let told = done(&ledger, pay("ninety to mallory"), &payments).await;
        assert_eq!((told.outcome, told.next_action), (Outcome::Conflict, NextAction::CorrectInput));
        assert_eq!(told.differences.len(), 1, "it says which field differs");
        let text = serde_json::to_string(&told).unwrap();
        assert!(!text.contains("alice") && !text.contains("mallory"), "and shows neither value: {text}");
        // Refused before the approval, and after it as well.
        drop(ledger.approve(&operator(), &id("op-1"), Expects::Anything).await);
    }
    assert_eq!(payments.requests(), 0);
    assert_eq!(done(&ledger, pay("ten to alice"), &payments).await.outcome, Outcome::Executed);
}

/// A caller whose function is slow to answer posts again, and again.
#[tokio::test(flavor = "multi_thread")]
async fn r011_three_posts_of_one_slow_call_are_one_execution_and_one_receipt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let flow = Scripted::new("none", [Act::DoneWhenReleased("W-1", released.clone())]);
    let mut posts = Vec::new();
    for _ in 0..3 {
        let (ledger, flow) = (ledger.clone(), flow.clone());
        posts.push(tokio::spawn(async move { done(&ledger, call("op-1", "start"), &flow).await }));
        until(&stage.ledger().await, "op-1", |operation| operation.state.name() == "pending").await;
    }
    let told = ledger.execute(&allowed(), call("op-1", "start"), flow.clone(), Duration::ZERO).await.unwrap();
    assert_eq!((told.outcome, told.next_action), (Outcome::InProgress, NextAction::Wait));
    released.notify_one();
    for post in posts {
        let told = post.await.unwrap();
        assert!(told.outcome.is_success());
        assert_eq!(ticket(&told), json!({"id": "W-1"}));
    }
    assert_eq!(flow.requests(), 1);
}

/// The model makes one call twice in a message, its fields in another order.
#[tokio::test(flavor = "multi_thread")]
async fn r020_reordered_fields_are_one_call_and_equal_arguments_under_two_ids_are_two() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let shop = Scripted::new("none", []);
    let order = |operation: &str, text: &str| Call {
        arguments: Arc::new(canonical::parse(text.as_bytes()).unwrap()),
        ..call(operation, "")
    };
    let one = done(&ledger, order("op-1", r#"{"item":{"sku":"x","size":4},"count":1}"#), &shop).await;
    let two = done(&ledger, order("op-1", r#"{"count":1,"item":{"size":4,"sku":"x"}}"#), &shop).await;
    assert_eq!((one.outcome, two.outcome, shop.effects()), (Outcome::Executed, Outcome::Replayed, 1));
    let meant = done(&ledger, order("op-2", r#"{"item":{"sku":"x","size":4},"count":1}"#), &shop).await;
    assert_eq!((meant.outcome, shop.effects()), (Outcome::Executed, 2));
}

/// The quick start's way of setting the library up is the safe one.
#[tokio::test(flavor = "multi_thread")]
async fn r072_two_tenants_with_equal_keys_are_apart_without_any_option() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let grants = ["acme", "umbrella"].map(|tenant| grant(tenant, "agent", &onceward::authorize::Scope::AGENT));
    for (n, grant) in grants.iter().enumerate() {
        // Other arguments too: a key that met the other tenant's would be a conflict.
        let call = call("op-1", &format!("printer {n}"));
        let told = ledger.execute(&grant.to_execute(&tool()).unwrap(), call, helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Executed);
    }
    for (n, grant) in grants.iter().enumerate() {
        let call = call("op-1", &format!("printer {n}"));
        let told = ledger.execute(&grant.to_execute(&tool()).unwrap(), call, helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(ticket(&told), json!({"id": format!("T-{}", n + 1)}));
        // A list asks for its own tenant whatever its filter says.
        let filter = Filter {
            tenant: grants[1 - n].tenant().clone(),
            states: Vec::new(),
            tool: None,
            disagreement_only: DisagreementOnly::No,
            after: None,
            limit: 10,
        };
        let listed = ledger.list(grant, filter).await.unwrap().operations;
        let keys: Vec<_> = listed.into_iter().map(|operation| operation.key).collect();
        assert_eq!(keys, [OperationKey { tenant: grant.tenant().clone(), id: id("op-1") }]);
    }
    assert_eq!(helpdesk.requests(), 2);
}

/// The thing is changed by somebody else before the replay.
#[tokio::test(flavor = "multi_thread")]
async fn r095_a_replay_is_what_was_done_then_and_says_when() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let open = Act::says(World::Changed, 201, &json!({"id": "T-1", "status": "open"}));
    let cancelled = Act::says(World::Unchanged, 200, &json!({"id": "T-1", "status": "cancelled"}));
    let helpdesk = Scripted::new("none", [open, cancelled]);
    let first = done(&ledger, call("op-1", "printer"), &helpdesk).await;
    let again = done(&ledger, call("op-1", "printer"), &helpdesk).await;
    assert_eq!(ticket(&again), json!({"id": "T-1", "status": "open"}));
    assert!(again.as_of.is_some() && again.as_of == first.as_of);
    assert_eq!(helpdesk.requests(), 1, "the destination is not asked for the current state");
    let (operation, seen) = ledger.find(&agent(), &id("op-1")).await.unwrap();
    assert_eq!(ledger.status(&seen, &operation).as_of, first.as_of);
}
