//! Hosts that send no identity (R16).

use std::sync::Arc;

use onceward::call::{Approval, Call, Identity};
use onceward::core::canonical::Canonical;
use onceward::core::key::OperationId;
use onceward::core::outcome::Outcome;
use onceward::core::pointer::Pointer;
use onceward::store::Expects;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, allowed, call, operator};

fn held(minted: &str, arguments: Value, business_key: &[&str]) -> Call {
    Call {
        identity: Identity::Held {
            minted: OperationId::parse(minted).unwrap(),
            business_key: business_key.iter().map(|field| Pointer::parse(field).unwrap()).collect(),
        },
        arguments: Arc::new(Canonical::from_value(arguments).unwrap()),
        ..call(minted, "")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_call_without_identity_is_held_and_sees_the_receipt_of_the_first() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let first = held("m-1", json!({"title": "printer", "customer": "c1"}), &[]);
    let told = ledger.execute(&allowed(), first, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Executed);
    let again = held("m-2", json!({"customer": "c1", "title": "printer"}), &[]);
    let held_back = ledger.execute(&allowed(), again, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(held_back.outcome, Outcome::PossibleDuplicate);
    assert_eq!((held_back.operation_id, held_back.answer), (told.operation_id, told.answer));
    assert_eq!(helpdesk.requests(), 1);
    let other = held("m-3", json!({"title": "scanner", "customer": "c1"}), &[]);
    let told = ledger.execute(&allowed(), other, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Executed, "the first is settled, so another call is another call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rephrased_call_is_held_while_the_first_is_unknown_unless_its_business_key_differs() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
    let key = ["/customer"];
    let first = held("m-1", json!({"title": "printer", "customer": "c1"}), &key);
    let told = ledger.execute(&allowed(), first, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Unknown);
    let rephrased = held("m-2", json!({"title": "the printer is broken", "customer": "c1"}), &key);
    let told = ledger.execute(&allowed(), rephrased, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::PossibleDuplicate, 1));
    let other_customer = held("m-3", json!({"title": "printer", "customer": "c2"}), &key);
    let told = ledger.execute(&allowed(), other_customer, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Executed, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_equal_calls_without_identity_at_once_make_one_effect() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let calls: Vec<_> = (0..8)
        .map(|n| {
            let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
            let call = held(&format!("m-{n}"), json!({"title": "printer"}), &[]);
            tokio::spawn(async move { ledger.execute(&allowed(), call, helpdesk, PATIENCE).await.unwrap() })
        })
        .collect();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while calls.iter().filter(|call| call.is_finished()).count() < 7 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    released.notify_one();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap().outcome);
    }
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Executed).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::PossibleDuplicate).count(), 7);
    assert_eq!(helpdesk.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_identity_goes_on_with_what_could_not_be_sent_or_was_approved() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", vec![Act::NoConnection; 3]);
    let first = held("m-1", json!({"title": "printer"}), &[]);
    let told = ledger.execute(&allowed(), first, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::NotDispatched);
    let again = held("m-2", json!({"title": "printer"}), &[]);
    let told = ledger.execute(&allowed(), again, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.operation_id.unwrap().as_str()), (Outcome::Executed, "m-1"));
    let asked = Call { approval: Approval::Required, ..held("m-3", json!({"title": "scanner"}), &[]) };
    let told = ledger.execute(&allowed(), asked.clone(), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::ApprovalRequired);
    ledger.approve(&operator(), &OperationId::parse("m-3").unwrap(), Expects::Anything).await.unwrap();
    let repeated = Call { identity: held("m-4", json!({}), &[]).identity, ..asked };
    let told = ledger.execute(&allowed(), repeated, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.operation_id.unwrap().as_str()), (Outcome::Executed, "m-3"));
    assert_eq!(helpdesk.effects(), 2);
}
