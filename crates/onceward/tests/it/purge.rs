//! Retention: words go, the identity stays (promise 7, R24).

use std::sync::Arc;

use onceward::core::event::PurgeScope;
use onceward::core::outcome::Outcome;
use tokio::sync::Notify;

use crate::stage::{Act, PATIENCE, Scripted, Stage, allowed, call, id, operator, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_operation_says_expired_its_words_are_gone_and_its_journal_is_whole() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let mut titled = call("op-1", "a very particular printer");
    titled.title = Some("Ticket: a very particular printer".to_owned());
    drop(ledger.execute(&allowed(), titled.clone(), helpdesk.clone(), PATIENCE).await.unwrap());
    ledger.purge(&operator(), &id("op-1"), PurgeScope::Everything).await.unwrap();
    let told = ledger.execute(&allowed(), titled, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Expired, 1));
    let other = ledger.execute(&allowed(), call("op-1", "another"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(other.outcome, Outcome::Conflict, "its identity is as bound as ever");
    let purged = until(&ledger, "op-1", |_| true).await;
    let journal = ledger.store().journal(&purged.key, 0, 100).await.unwrap();
    onceward::core::journal::verify(&journal, purged.journal).unwrap();
    let kept = serde_json::to_string(&(&journal, &purged)).unwrap();
    assert!(!kept.contains("particular") && !kept.contains("T-1"), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_of_a_running_operation_waits_until_it_is_settled() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let caller = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "pending").await;
    let waiting = ledger.purge(&operator(), &id("op-1"), PurgeScope::Arguments).await.unwrap();
    assert!(waiting.binding.arguments.present().is_some());
    released.notify_one();
    assert!(caller.await.unwrap().unwrap().outcome.is_success());
    let settled = until(&ledger, "op-1", |operation| operation.is_settled()).await;
    assert!(settled.binding.arguments.present().is_none());
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.requests()), (Outcome::Replayed, 1), "the receipt is still there");
}
