//! Applications that run their own functions: claim, mark, run, settle.

use std::time::Duration;

use onceward::application::{ClaimAnswer, ClaimRef, ClaimSecret, Granted};
use onceward::core::classify::FunctionEnd;
use onceward::core::outcome::{Envelope, Outcome};
use onceward::core::receipt::Answer;
use onceward::{Ledger, LedgerError};
use serde_json::json;

use crate::stage::{Stage, allowed, call, id, until};

const LONG: Duration = Duration::from_secs(60);

async fn granted(ledger: &Ledger, operation: &str, within: Duration) -> Granted {
    match ledger.claim(&allowed(), call(operation, "printer"), within).await.unwrap() {
        ClaimAnswer::Granted(granted) => *granted,
        ClaimAnswer::Answered(envelope) => panic!("not granted: {envelope:?}"),
    }
}

async fn answered(ledger: &Ledger, operation: &str) -> Envelope {
    match ledger.claim(&allowed(), call(operation, "printer"), LONG).await.unwrap() {
        ClaimAnswer::Answered(envelope) => *envelope,
        ClaimAnswer::Granted(granted) => panic!("granted: {granted:?}"),
    }
}

fn claim_of(granted: &Granted) -> ClaimRef {
    ClaimRef { id: granted.operation.key.id.clone(), attempt: granted.attempt, secret: granted.secret.clone() }
}

fn done(ticket: &str) -> FunctionEnd {
    FunctionEnd::Done { effect_id: None, answer: Answer::json(&json!({"id": ticket})) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_marked_run_and_settled_and_its_repetition_gets_the_receipt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let claim = claim_of(&granted(&ledger, "op-1", LONG).await);
    assert_eq!(answered(&ledger, "op-1").await.outcome, Outcome::InProgress);
    ledger.begin_claim(&allowed(), &claim).await.unwrap();
    let told = ledger.settle_claim(&allowed(), &claim, done("T-1")).await.unwrap();
    assert_eq!(told.outcome, Outcome::Executed);
    let again = answered(&ledger, "op-1").await;
    assert_eq!((again.outcome, again.answer), (Outcome::Replayed, told.answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_is_given_once_so_that_a_lost_answer_to_it_permits_no_second_run() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let claim = claim_of(&granted(&ledger, "op-1", LONG).await);
    ledger.begin_claim(&allowed(), &claim).await.unwrap();
    assert!(matches!(ledger.begin_claim(&allowed(), &claim).await, Err(LedgerError::Illegal(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_before_the_mark_is_not_sent_and_after_it_is_unknown() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let early = claim_of(&granted(&ledger, "early", LONG).await);
    let told = ledger.settle_claim(&allowed(), &early, FunctionEnd::Failed).await.unwrap();
    assert_eq!(told.outcome, Outcome::NotDispatched);
    drop(granted(&ledger, "early", LONG).await);
    let late = claim_of(&granted(&ledger, "late", LONG).await);
    ledger.begin_claim(&allowed(), &late).await.unwrap();
    let told = ledger.settle_claim(&allowed(), &late, FunctionEnd::Failed).await.unwrap();
    assert_eq!(told.outcome, Outcome::Unknown);
    assert_eq!(answered(&ledger, "late").await.outcome, Outcome::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_past_its_time_is_unknown_if_marked_and_free_if_not() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let short = Duration::from_millis(60);
    let marked = claim_of(&granted(&ledger, "marked", Duration::from_millis(400)).await);
    ledger.begin_claim(&allowed(), &marked).await.unwrap();
    let unmarked = claim_of(&granted(&ledger, "unmarked", short).await);
    until(&ledger, "marked", |operation| operation.state.name() == "unknown").await;
    until(&ledger, "unmarked", |operation| operation.state.name() == "approved").await;
    // Whoever wakes up after that may run nothing.
    assert_eq!(ledger.begin_claim(&allowed(), &unmarked).await.unwrap_err(), LedgerError::ClaimLost);
    // What it had done is evidence all the same.
    let told = ledger.settle_claim(&allowed(), &marked, done("T-1")).await.unwrap();
    assert!(told.outcome.is_success());
    assert_eq!(answered(&ledger, "marked").await.outcome, Outcome::Replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_keeps_a_claim_from_recovery() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let granted = granted(&ledger, "op-1", Duration::from_secs(5)).await;
    let claim = claim_of(&granted);
    let operation = ledger.extend_claim(&allowed(), &claim, LONG).await.unwrap();
    let onceward::core::state::State::Pending(pending) = operation.state else { panic!("not pending") };
    assert!(pending.attempt.settle_by.unwrap() > granted.settle_by);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_secret_of_the_claim_settles_it() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let mine = claim_of(&granted(&ledger, "mine", LONG).await);
    let other = claim_of(&granted(&ledger, "other", LONG).await);
    let stolen = ClaimRef { secret: other.secret.clone(), ..mine.clone() };
    let guessed = ClaimRef { secret: ClaimSecret::from_text("claim-x.00".to_owned()), ..mine.clone() };
    for wrong in [stolen, guessed] {
        assert_eq!(ledger.settle_claim(&allowed(), &wrong, done("T-9")).await.unwrap_err(), LedgerError::WrongSecret);
    }
    assert_eq!(until(&ledger, "mine", |_| true).await.state.name(), "pending");
    let missing = ClaimRef { id: id("nobody"), ..mine };
    assert_eq!(ledger.settle_claim(&allowed(), &missing, done("T")).await.unwrap_err(), LedgerError::NotFound);
}
