//! Lost owners, late answers, and tasks that die.

use std::sync::Arc;

use onceward::core::operation::DisagreementKind;
use onceward::core::outcome::Outcome;
use onceward::core::state::State;
use onceward::decisions::{Choice, Reason};
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, allowed, call, decide, operator, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_owner_reads_as_unknown_and_its_late_answer_settles_it() {
    let stage = Stage::new();
    let stopped = stage.silent_ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let caller = {
        let helpdesk = helpdesk.clone();
        tokio::spawn(async move { stopped.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    let undertaker = stage.undertaker().await;
    until(&undertaker, "op-1", |operation| operation.state.name() == "unknown").await;
    let told = undertaker.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Unknown, 1), "nobody sends it again");
    released.notify_one();
    assert!(caller.await.unwrap().unwrap().outcome.is_success());
    let told = undertaker.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Replayed, 1));
}

/// Attempt 1 is taken for lost, a person lets it be sent again, and attempt 1 answers while attempt 2 is under way.
async fn late_answer_of_attempt_one(second_effect: &'static str) -> (onceward::core::operation::Operation, u32) {
    let stage = Stage::new();
    let stopped = stage.silent_ledger().await;
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let script = [Act::DoneWhenReleased("T-1", first.clone()), Act::DoneWhenReleased(second_effect, second.clone())];
    let helpdesk = Scripted::naming_effects(script);
    let caller = {
        let helpdesk = helpdesk.clone();
        tokio::spawn(async move { stopped.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    let undertaker = stage.undertaker().await;
    until(&undertaker, "op-1", |operation| operation.state.name() == "unknown").await;
    decide(&undertaker, &operator(), "op-1", Choice::DispatchAgain, Reason::NotAtDestination).await.unwrap();
    let again = {
        let (ledger, helpdesk) = (undertaker.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    until(
        &undertaker,
        "op-1",
        |operation| matches!(&operation.state, State::Pending(pending) if pending.attempt.number.0 == 2),
    )
    .await;
    first.notify_one();
    let settled = until(&undertaker, "op-1", |operation| operation.is_settled()).await;
    assert!(matches!(&settled.state, State::Succeeded(success) if success.attempt.0 == 1));
    second.notify_one();
    assert!(again.await.unwrap().unwrap().outcome.is_success());
    assert!(caller.await.unwrap().unwrap().outcome.is_success());
    let journal = undertaker.store().journal(&settled.key, 0, 100).await.unwrap();
    let answers = journal.iter().filter(|entry| entry.detail.as_ref().is_some_and(|text| text.contains("\"effect\"")));
    let answers = u32::try_from(answers.count()).unwrap();
    (
        until(&undertaker, "op-1", |operation| operation.journal.seq == u32::try_from(journal.len()).unwrap()).await,
        answers,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_effect_of_both_attempts_is_one_receipt() {
    let (operation, answers) = late_answer_of_attempt_one("T-1").await;
    assert_eq!(answers, 2, "both answers are recorded");
    // The person had established that attempt 1 did nothing, and it did: that is marked, whatever attempt 2 says.
    assert_eq!(operation.history.disagreement.unwrap().kind, DisagreementKind::EffectAfterDisproof);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_effect_of_the_second_attempt_is_a_disagreement() {
    let (operation, answers) = late_answer_of_attempt_one("T-2").await;
    assert_eq!(answers, 2, "both answers are recorded");
    let disagreement = operation.history.disagreement.unwrap();
    assert_eq!((disagreement.kind, disagreement.count), (DisagreementKind::ReceiptsDiffer, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_task_died_becomes_unknown_by_its_own_process() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DonePanics]);
    let caller = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "unknown").await;
    drop(caller.await.unwrap());
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Unknown, 1));
}
