//! Replies, owners and clocks that are lost; and answers that come after all.

use std::sync::Arc;
use std::time::Duration;

use onceward::application::{ClaimAnswer, ClaimRef, Granted};
use onceward::call::Call;
use onceward::core::classify::FunctionEnd;
use onceward::core::contract::Span;
use onceward::core::event::Cause;
use onceward::core::evidence::SettlesBy;
use onceward::core::outcome::{Dispatched, Envelope, NextAction, Outcome};
use onceward::core::receipt::Answer;
use onceward::core::retry::RetryPolicy;
use onceward::core::state::State;
use onceward::decisions::{Choice, Reason};
use onceward::store::{DisagreementOnly, Filter};
use onceward::{Ledger, LedgerError};
use serde_json::json;
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Shifted, Stage, allowed, call, decide, id, operator, until};

const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

async fn done(ledger: &Ledger, operation: &str, destination: &Arc<Scripted>) -> Envelope {
    ledger.execute(&allowed(), call(operation, "printer"), destination.clone(), PATIENCE).await.unwrap()
}

async fn claim(ledger: &Ledger, operation: &str, within: Duration) -> ClaimAnswer {
    ledger.claim(&allowed(), call(operation, "printer"), within).await.unwrap()
}

async fn granted(ledger: &Ledger, operation: &str, within: Duration) -> ClaimRef {
    match claim(ledger, operation, within).await {
        ClaimAnswer::Granted(granted) => {
            let Granted { operation, attempt, secret, .. } = *granted;
            ClaimRef { id: operation.key.id, attempt, secret }
        }
        ClaimAnswer::Answered(envelope) => panic!("not granted: {envelope:?}"),
    }
}

async fn refused(ledger: &Ledger, operation: &str) -> Envelope {
    match claim(ledger, operation, LONG).await {
        ClaimAnswer::Answered(envelope) => *envelope,
        ClaimAnswer::Granted(granted) => panic!("granted: {granted:?}"),
    }
}

fn ticket(name: &str) -> FunctionEnd {
    FunctionEnd::Done { effect_id: None, answer: Answer::json(&json!({"id": name})) }
}

/// A proxy of tools repeats whatever timed out.
#[tokio::test(flavor = "multi_thread")]
async fn r013_a_timeout_after_sending_is_one_attempt_and_a_refused_connection_may_be_tried_again() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let silent = Scripted::new("none", [Act::DoneSilent]);
    let hasty = Call { answer_within: Duration::from_millis(20), ..call("sent", "printer") };
    let told = ledger.execute(&allowed(), hasty, silent.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.attempts, told.dispatched), (Outcome::Unknown, 1, Dispatched::Maybe));
    let down = Scripted::new("none", [Act::NoConnection]);
    let told = done(&ledger, "not-sent", &down).await;
    assert_eq!((told.outcome, told.attempts), (Outcome::Executed, 2));
    assert_eq!((silent.requests(), down.requests()), (1, 1));
}

/// An error from the step that applies says nothing about what it had done.
#[tokio::test(flavor = "multi_thread")]
async fn r023_a_function_that_ends_badly_after_its_mark_is_unknown_and_not_run_again() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    // It answers with an error; it never answers, as after a panic, an exit or a kill.
    let failed = granted(&ledger, "failed", LONG).await;
    ledger.begin_claim(&allowed(), &failed).await.unwrap();
    let told = ledger.settle_claim(&allowed(), &failed, FunctionEnd::Failed).await.unwrap();
    assert_eq!((told.outcome, told.dispatched), (Outcome::Unknown, Dispatched::Maybe));
    let vanished = granted(&ledger, "vanished", Duration::from_secs(1)).await;
    ledger.begin_claim(&allowed(), &vanished).await.unwrap();
    until(&ledger, "vanished", |operation| operation.state.name() == "unknown").await;
    // The task of the engine itself that dies.
    let dies = Scripted::new("none", [Act::DonePanics]);
    drop(ledger.execute(&allowed(), call("panicked", "printer"), dies.clone(), Duration::ZERO).await);
    until(&ledger, "panicked", |operation| operation.state.name() == "unknown").await;
    for operation in ["failed", "vanished", "panicked"] {
        assert_eq!(refused(&ledger, operation).await.outcome, Outcome::Unknown, "{operation}");
    }
    assert_eq!((done(&ledger, "panicked", &dies).await.outcome, dies.effects()), (Outcome::Unknown, 1));
}

/// Each attempt has its time, and together they outlive everybody.
#[tokio::test(flavor = "multi_thread")]
async fn r040_no_attempt_begins_after_the_deadline_however_many_are_left() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let hangs = Scripted::new("stripe.v1", vec![Act::DoneSilent; 64]);
    let (deadline, answer_within) = (Duration::from_millis(600), Duration::from_millis(50));
    let patient = RetryPolicy { attempts_max: 64, cap: Span::milliseconds(50), ..RetryPolicy::default() };
    let pay = Call { deadline: Some(deadline), answer_within, retry: patient, ..call("op-1", "pay") };
    let told = ledger.execute(&allowed(), pay.clone(), hangs.clone(), PATIENCE).await.unwrap();
    assert_eq!(told.outcome, Outcome::Unknown);
    let operation = until(&ledger, "op-1", |operation| operation.state.name() == "unknown").await;
    let deadline = operation.terms.deadline.unwrap();
    let journal = ledger.store().journal(&operation.key, 0, 1000).await.unwrap();
    let claims: Vec<_> = journal.iter().filter(|entry| entry.event == "claim").map(|entry| entry.at).collect();
    assert!(claims.len() > 1 && claims.iter().all(|at| *at < deadline), "{claims:?}");
    // What ran last had begun before the deadline, and had one answer's time.
    let settled = operation.updated_at.since(deadline);
    assert!(settled < answer_within + Duration::from_secs(1), "{settled:?} past the deadline");
    let sent = hangs.requests();
    while ledger.clock().now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for ledger in [stage.ledger().await, stage.ledger().await] {
        let told = ledger.execute(&allowed(), pay.clone(), hangs.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Unknown, "a deadline is no verdict on what was sent");
    }
    assert_eq!(hangs.requests(), sent);
}

/// A record of what is in progress is ignored once its time has passed.
#[tokio::test(flavor = "multi_thread")]
async fn r042_an_owner_lost_after_its_dispatch_blocks_a_retry_however_long_ago_it_was() {
    let stage = Stage::new();
    let released = Arc::new(Notify::new());
    let bank = Scripted::new("none", [Act::DoneWhenReleased("W-1", released.clone())]);
    let gone = stage.silent_ledger().await;
    let caller = {
        let (gone, bank) = (gone.clone(), bank.clone());
        tokio::spawn(async move { done(&gone, "op-1", &bank).await })
    };
    until(&gone, "op-1", |operation| operation.state.name() == "pending").await;
    until(&stage.undertaker().await, "op-1", |operation| operation.state.name() == "unknown").await;
    for by in [Duration::ZERO, HOUR, YEARS] {
        let later = stage.ledger_at(Shifted::Ahead(by)).await;
        let told = done(&later, "op-1", &bank).await;
        assert_eq!((told.outcome, told.next_action), (Outcome::Unknown, NextAction::AskOperator), "{by:?}");
    }
    assert_eq!(bank.requests(), 1);
    released.notify_one();
    drop(caller.await.unwrap());
}

/// The lock lives ten seconds and the guarded work sixty.
#[tokio::test(flavor = "multi_thread")]
async fn r048_work_that_outlives_its_claim_is_done_by_nobody_else() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let slow = granted(&ledger, "op-1", Duration::from_secs(1)).await;
    ledger.begin_claim(&allowed(), &slow).await.unwrap();
    until(&ledger, "op-1", |operation| operation.state.name() == "unknown").await;
    for _ in 0..5 {
        assert_eq!(refused(&ledger, "op-1").await.outcome, Outcome::Unknown);
    }
    let told = ledger.settle_claim(&allowed(), &slow, ticket("T-1")).await.unwrap();
    assert_eq!((told.outcome, told.attempts), (Outcome::Recovered, 1));
    assert_eq!(refused(&ledger, "op-1").await.answer, told.answer);
}

/// The old owner wakes up and writes over what belongs to another by then.
#[tokio::test(flavor = "multi_thread")]
async fn r049_a_slow_owner_that_wakes_up_is_refused_and_its_answer_is_evidence() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let a = granted(&ledger, "op-1", Duration::from_millis(60)).await;
    until(&ledger, "op-1", |operation| operation.state.name() == "approved").await;
    let b = granted(&ledger, "op-1", LONG).await;
    assert_eq!(b.attempt.0, a.attempt.0 + 1);
    assert_eq!(ledger.begin_claim(&allowed(), &a).await.unwrap_err(), LedgerError::ClaimLost, "A may run nothing");
    assert_eq!(ledger.extend_claim(&allowed(), &a, LONG).await.unwrap_err(), LedgerError::ClaimLost);
    ledger.begin_claim(&allowed(), &b).await.unwrap();
    let told = ledger.settle_claim(&allowed(), &b, ticket("B-1")).await.unwrap();
    assert_eq!(told.outcome, Outcome::Executed);
    // A ran it all the same, without its mark: the receipt stays B's, and people are told.
    let told = ledger.settle_claim(&allowed(), &a, ticket("A-1")).await.unwrap();
    assert_eq!(told.answer.as_ref().unwrap().body_json().unwrap(), json!({"id": "B-1"}));
    assert!(told.disagreement.is_some(), "{told:?}");
    let operation = until(&ledger, "op-1", |operation| operation.state.name() == "succeeded").await;
    let journal = ledger.store().journal(&operation.key, 0, 100).await.unwrap();
    let recorded = journal.iter().filter_map(|entry| entry.detail.as_ref()).any(|detail| detail.contains("A-1"));
    assert!(recorded, "what A reported is kept");
}

/// Two gateways whose clocks are ten minutes apart.
#[tokio::test(flavor = "multi_thread")]
async fn r061_a_wall_clock_that_is_wrong_takes_no_running_attempt_over() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let caller = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { done(&ledger, "op-1", &helpdesk).await })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "pending").await;
    for clock in [Shifted::Ahead(HOUR / 6), Shifted::Behind(HOUR / 6)] {
        let other = stage.ledger_at(clock).await;
        // Long enough for it to see every owner twice: it beats itself, and sweeps between.
        let since = beats(&other).await;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while beats(&other).await < since + 25 {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let told = other.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), Duration::ZERO).await.unwrap();
        assert_eq!(told.outcome, Outcome::InProgress);
    }
    released.notify_one();
    assert_eq!(caller.await.unwrap().outcome, Outcome::Executed);
    assert_eq!(helpdesk.requests(), 1);
}

async fn beats(ledger: &Ledger) -> u64 {
    let owners = ledger.store().owners().await.unwrap();
    owners.into_iter().find(|row| row.owner == *ledger.owner()).unwrap().beat
}

/// The service dies, and its mark of being in flight outlives it.
#[tokio::test(flavor = "multi_thread")]
async fn r064_a_claim_that_died_before_its_mark_is_free_and_one_after_it_has_a_way_out() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    drop(granted(&ledger, "before", Duration::from_millis(50)).await);
    until(&ledger, "before", |operation| operation.state.name() == "approved").await;
    let again = granted(&ledger, "before", LONG).await;
    ledger.begin_claim(&allowed(), &again).await.unwrap();
    assert_eq!(ledger.settle_claim(&allowed(), &again, ticket("T-1")).await.unwrap().outcome, Outcome::Executed);
    let marked = granted(&ledger, "after", Duration::from_secs(1)).await;
    ledger.begin_claim(&allowed(), &marked).await.unwrap();
    until(&ledger, "after", |operation| operation.state.name() == "unknown").await;
    assert_eq!(refused(&ledger, "after").await.settles_by, Some(SettlesBy::Person));
    decide(&ledger, &operator(), "after", Choice::DispatchAgain, Reason::NotAtDestination).await.unwrap();
    drop(granted(&ledger, "after", LONG).await);
}

/// Writes are stuck in progress after an outage, and there is no verb to free them.
#[tokio::test(flavor = "multi_thread")]
async fn r065_what_an_outage_left_is_listed_with_its_age_and_settled_by_a_decision() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", vec![Act::DoneReplyLost; 2]);
    for operation in ["happened", "did-not"] {
        assert_eq!(done(&ledger, operation, &helpdesk).await.outcome, Outcome::Unknown);
    }
    let operator = operator();
    let filter = Filter {
        tenant: operator.tenant().clone(),
        states: vec!["unknown".to_owned()],
        tool: None,
        disagreement_only: DisagreementOnly::No,
        after: None,
        limit: 10,
    };
    let listed = ledger.list(&operator, filter.clone()).await.unwrap().operations;
    assert_eq!(listed.len(), 2);
    for operation in &listed {
        let State::Unknown(unknown) = &operation.state else { panic!("{operation:?}") };
        assert!(unknown.latest().claimed_at >= operation.created_at && unknown.latest().cause == Cause::ReplyLost);
    }
    let receipt = Answer::json(&json!({"id": "T-1"}));
    let choice = Choice::ConfirmedDone { effect_id: None, answer: receipt.clone() };
    decide(&ledger, &operator, "happened", choice, Reason::SeenAtDestination).await.unwrap();
    decide(&ledger, &operator, "did-not", Choice::DispatchAgain, Reason::NotAtDestination).await.unwrap();
    let told = done(&ledger, "happened", &helpdesk).await;
    assert_eq!((told.outcome, told.answer), (Outcome::Replayed, Some(receipt)));
    for ledger in [&ledger, &stage.ledger().await] {
        let told = done(ledger, "did-not", &helpdesk).await;
        assert!(told.outcome.is_success(), "{told:?}");
    }
    assert_eq!(helpdesk.requests(), 3, "dispatched one time more");
    assert!(ledger.list(&operator, filter).await.unwrap().operations.is_empty());
}

/// A key that is promised for a day, and a retry a minute before and after its end.
#[tokio::test(flavor = "multi_thread")]
async fn r086_past_the_horizon_less_its_margin_the_same_key_is_not_sent_again() {
    // 24 hours by the contract, of which its margin takes one.
    let minute = Duration::from_secs(60);
    for (age, requests) in [(23 * HOUR - minute, 2), (23 * HOUR + minute, 1), (24 * HOUR + minute, 1), (YEARS, 1)] {
        let stage = Stage::new();
        let once = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
        let payments = Scripted::new("stripe.v1", [Act::DoneReplyLost]);
        let pay = Call { retry: once, ..call("op-1", "pay") };
        let told = stage.ledger().await.execute(&allowed(), pay.clone(), payments.clone(), PATIENCE).await.unwrap();
        assert_eq!((told.outcome, payments.requests()), (Outcome::Unknown, 1));
        let again = Call { retry: RetryPolicy::default(), ..pay };
        let later = stage.ledger_at(Shifted::Ahead(age)).await;
        let told = later.execute(&allowed(), again, payments.clone(), PATIENCE).await.unwrap();
        assert_eq!(payments.requests(), requests, "{age:?}: {told:?}");
        if requests == 1 {
            assert_eq!(told.outcome, Outcome::Unknown);
        } else {
            assert_eq!(payments.keys()[0], payments.keys()[1]);
        }
    }
}

/// The caller's time is two seconds, the provider's three, and every dashboard is green.
#[tokio::test(flavor = "multi_thread")]
async fn r115_an_answer_after_the_deadline_is_recorded_and_settles_its_attempt() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let provider = Scripted::new("none", [Act::DoneWhenReleased("P-1", released.clone())]);
    let hasty = Call { deadline: Some(Duration::from_millis(50)), ..call("hasty-caller", "pay") };
    let told = ledger.execute(&allowed(), hasty.clone(), provider.clone(), Duration::from_millis(60)).await.unwrap();
    assert_eq!((told.outcome, told.dispatched), (Outcome::InProgress, Dispatched::Maybe));
    released.notify_one();
    until(&ledger, "hasty-caller", |operation| operation.state.name() == "succeeded").await;
    let told = ledger.execute(&allowed(), hasty, provider.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, provider.requests()), (Outcome::Replayed, 1));
    // Given up already: it shows since when it is uncertain, and the late report settles it.
    let late = granted(&ledger, "late-function", Duration::from_secs(1)).await;
    ledger.begin_claim(&allowed(), &late).await.unwrap();
    let operation = until(&ledger, "late-function", |operation| operation.state.name() == "unknown").await;
    let State::Unknown(unknown) = &operation.state else { panic!("{operation:?}") };
    assert_eq!(unknown.latest().cause, Cause::SettleOverdue);
    let told = ledger.settle_claim(&allowed(), &late, ticket("P-2")).await.unwrap();
    assert_eq!((told.outcome, told.attempts), (Outcome::Recovered, 1));
}

/// What the destination named itself, in the reply that was lost, cannot be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn r118_without_key_and_lookup_an_unknown_waits_for_a_person_who_sees_what_was_asked() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let gateway = Scripted::new("none", [Act::DoneReplyLost]);
    let asked = Call { title: Some("Route for billing".to_owned()), ..call("op-1", "billing") };
    let told = ledger.execute(&allowed(), asked, gateway.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.settles_by), (Outcome::Unknown, Some(SettlesBy::Person)));
    assert_eq!((told.next_action, told.check_after), (NextAction::AskOperator, None), "no check is promised");
    let (operation, _) = ledger.find(&operator(), &id("op-1")).await.unwrap();
    assert_eq!(operation.terms.title.as_deref(), Some("Route for billing"));
    assert_eq!(operation.binding.arguments.present().unwrap().text(), r#"{"title":"billing"}"#);
    let choice = Choice::ConfirmedDone { effect_id: None, answer: Answer::json(&json!({"id": "route-88"})) };
    decide(&ledger, &operator(), "op-1", choice, Reason::SeenAtDestination).await.unwrap();
    assert_eq!(gateway.requests(), 1);
}
