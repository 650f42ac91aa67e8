//! A deliberate second one, for a host that sends no identity (R16, R18, R19): asked for, approved by somebody else, used once.

use std::sync::Arc;
use std::time::Duration;

use onceward::approvals::Proposed;
use onceward::authorize::{Grant, Scope};
use onceward::call::{Approval, Call, Identity};
use onceward::core::canonical::Canonical;
use onceward::core::classify::Observed;
use onceward::core::contract::Contract;
use onceward::core::fingerprint::Comparison;
use onceward::core::operation::Operation;
use onceward::core::outcome::{Envelope, NextAction, Outcome};
use onceward::core::pointer::Pointer;
use onceward::core::state::{ProposalReason, State};
use onceward::destination::{Destination, Dispatch};
use onceward::store::{BoxFuture, Expects};
use onceward::{Ledger, LedgerError};
use serde_json::{Value, json};

use crate::stage::{Act, PATIENCE, Scripted, Shifted, Stage, agent, allowed, call, grant, id, operator};

fn printer() -> Value {
    json!({ "title": "printer" })
}

fn held(minted: &str, arguments: Value) -> Call {
    Call {
        identity: Identity::Held { minted: id(minted), business_key: Vec::new() },
        arguments: Arc::new(Canonical::from_value(arguments).unwrap()),
        ..call(minted, "")
    }
}

async fn told(ledger: &Ledger, call: Call, destination: &Arc<Scripted>) -> Envelope {
    ledger.execute(&allowed(), call, destination.clone(), PATIENCE).await.unwrap()
}

async fn ask(
    ledger: &Ledger,
    grant: &Grant,
    of: &str,
    second: &str,
    destination: &Arc<dyn Destination>,
) -> Result<Proposed, LedgerError> {
    let again = ledger.again(grant, &id(of)).await?;
    let arguments = Arc::clone(again.earlier().binding.arguments.present().unwrap());
    let identity = Ledger::second(&again, id(second), Vec::new());
    ledger.propose(&again, Call { identity, arguments, ..call(second, "") }, Some(destination)).await
}

async fn row(ledger: &Ledger, operation: &str) -> Operation {
    ledger.find(&agent(), &id(operation)).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deliberate_second_one_that_was_approved_makes_exactly_one_more_effect() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    assert_eq!(told(&ledger, held("m-1", printer()), &helpdesk).await.outcome, Outcome::Executed);
    let held_back = told(&ledger, held("m-2", printer()), &helpdesk).await;
    assert_eq!((held_back.outcome, held_back.next_action), (Outcome::PossibleDuplicate, NextAction::RequestApproval));
    assert!(held_back.message.contains("approvals"), "it says how: {}", held_back.message);

    let destination: Arc<dyn Destination> = helpdesk.clone();
    let asked = ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
    let Proposed::New(proposed) = &asked else { panic!("{asked:?}") };
    assert!(matches!(&proposed.state, State::Proposed(why) if why.reason == ProposalReason::PossibleDuplicate));
    assert_eq!(proposed.terms.second_of, Some(id("m-1")));
    let again = ask(&ledger, &agent(), "m-1", "s-2", &destination).await.unwrap();
    assert!(matches!(&again, Proposed::Already(one) if one.key.id == id("s-1")), "one at a time: {again:?}");
    let waits = told(&ledger, held("m-3", printer()), &helpdesk).await;
    assert_eq!((waits.outcome, waits.operation_id), (Outcome::ApprovalRequired, Some(id("s-1"))));
    assert_eq!(helpdesk.effects(), 1, "asking sends nothing");

    assert_eq!(ledger.approve(&agent(), &id("s-1"), Expects::Anything).await.unwrap_err(), LedgerError::Denied);
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    assert_eq!(helpdesk.effects(), 1, "approving sends nothing");
    let done = told(&ledger, held("m-4", printer()), &helpdesk).await;
    assert_eq!((done.outcome, done.operation_id), (Outcome::Executed, Some(id("s-1"))));
    for n in 5..9 {
        let after = told(&ledger, held(&format!("m-{n}"), printer()), &helpdesk).await;
        assert_eq!((after.outcome, after.operation_id), (Outcome::PossibleDuplicate, Some(id("s-1"))), "used once");
    }
    assert_eq!(helpdesk.effects(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_equal_calls_at_once_one_takes_the_approval() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-0", printer()), &helpdesk).await;
    let destination: Arc<dyn Destination> = helpdesk.clone();
    ask(&ledger, &agent(), "m-0", "s-1", &destination).await.unwrap();
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    let calls = (1..17).map(|n| {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { told(&ledger, held(&format!("m-{n}"), printer()), &helpdesk).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let told = call.await.unwrap();
        assert_eq!(told.operation_id, Some(id("s-1")), "{told:?}");
    }
    assert_eq!(helpdesk.effects(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_released_beside_an_operation_that_may_have_happened() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", [Act::DoneReplyLost]);
    assert_eq!(told(&ledger, held("m-1", printer()), &helpdesk).await.outcome, Outcome::Unknown);
    let destination: Arc<dyn Destination> = helpdesk.clone();
    let refused = ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap_err();
    assert_eq!(refused, LedgerError::Unresolved { id: id("m-1") });
    assert_eq!(ask(&ledger, &operator(), "m-1", "s-1", &destination).await.unwrap_err(), refused);
    assert_eq!(helpdesk.effects(), 1);
}

/// The second one waits for its approval, or is approved and waits for its call, while a call in other words is lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_waits_while_a_call_in_other_words_is_unknown() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-1", printer()), &helpdesk).await;
    let destination: Arc<dyn Destination> = helpdesk.clone();
    ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
    // Of the tool's approvers somebody lets a rephrased one go first, and its reply is lost.
    let lossy = Scripted::new("none", [Act::DoneReplyLost]);
    let rephrased = |minted: &str| Call {
        approval: Approval::Required,
        ..held(minted, json!({ "title": "the printer is broken" }))
    };
    let asked = told(&ledger, rephrased("r-1"), &lossy).await;
    assert_eq!(asked.outcome, Outcome::ApprovalRequired, "what a person sees first is not held by what waits for one");
    ledger.approve(&operator(), &id("r-1"), Expects::Anything).await.unwrap();
    assert_eq!(told(&ledger, rephrased("r-2"), &lossy).await.outcome, Outcome::Unknown);

    let refused = ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap_err();
    assert_eq!(refused, LedgerError::Unresolved { id: id("r-1") });
    assert_eq!(helpdesk.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_second_one_is_not_sent_while_a_call_in_other_words_is_unknown() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-1", printer()), &helpdesk).await;
    let destination: Arc<dyn Destination> = helpdesk.clone();
    ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
    let lossy = Scripted::new("none", [Act::DoneReplyLost]);
    let rephrased = |minted: &str| Call {
        approval: Approval::Required,
        ..held(minted, json!({ "title": "the printer is broken" }))
    };
    told(&ledger, rephrased("r-1"), &lossy).await;
    ledger.approve(&operator(), &id("r-1"), Expects::Anything).await.unwrap();
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    assert_eq!(told(&ledger, rephrased("r-2"), &lossy).await.outcome, Outcome::Unknown);

    let equal = told(&ledger, held("m-2", printer()), &helpdesk).await;
    assert_eq!((equal.outcome, equal.operation_id), (Outcome::PossibleDuplicate, Some(id("r-1"))));
    // By its own name neither: a model's handle, or an application's call under that id.
    let named = Call { arguments: held("x", printer()).arguments, ..call("s-1", "") };
    assert_eq!(told(&ledger, named, &helpdesk).await.outcome, Outcome::PossibleDuplicate);
    assert_eq!(helpdesk.effects(), 1);
}

/// A destination that makes its request of more than the arguments.
struct Requests {
    inner: Arc<Scripted>,
    request: &'static str,
}

impl Destination for Requests {
    fn contract(&self) -> &Contract {
        self.inner.contract()
    }

    fn scope(&self) -> &str {
        self.inner.scope()
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        self.inner.send(dispatch)
    }

    fn request_digest(&self, _arguments: &Canonical) -> Option<String> {
        Some(self.request.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_void_when_the_request_would_be_another_by_now() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-1", printer()), &helpdesk).await;
    let as_shown: Arc<dyn Destination> = Arc::new(Requests { inner: helpdesk.clone(), request: "POST /tickets" });
    let changed: Arc<dyn Destination> = Arc::new(Requests { inner: helpdesk.clone(), request: "POST /payments" });
    ask(&ledger, &agent(), "m-1", "s-1", &as_shown).await.unwrap();
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    let void = ledger.execute(&allowed(), held("m-2", printer()), changed, PATIENCE).await.unwrap_err();
    assert_eq!((void, helpdesk.effects()), (LedgerError::ApprovalVoid, 1));
    // Withdrawn, it holds nothing any more, and the first still does.
    ledger.withdraw(&agent(), &id("s-1")).await.unwrap();
    let after = told(&ledger, held("m-3", printer()), &helpdesk).await;
    assert_eq!((after.outcome, after.operation_id), (Outcome::PossibleDuplicate, Some(id("m-1"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_names_the_version_that_it_looked_at() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-1", printer()), &helpdesk).await;
    let destination: Arc<dyn Destination> = helpdesk.clone();
    let asked = ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
    let seen = asked.operation().journal.seq;
    let moved = ledger.approve(&operator(), &id("s-1"), Expects::Version(seen + 1)).await.unwrap_err();
    assert!(matches!(&moved, LedgerError::Moved(since) if since.seen == seen + 1 && since.version == seen), "{moved}");
    ledger.approve(&operator(), &id("s-1"), Expects::Version(seen)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_approves_asks_in_the_name_of_the_caller_and_a_stranger_not_at_all() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    told(&ledger, held("m-1", printer()), &helpdesk).await;
    let destination: Arc<dyn Destination> = helpdesk.clone();
    for stranger in [grant("umbrella", "agent", &Scope::AGENT), grant("acme", "reader", &[Scope::Read])] {
        assert_eq!(ask(&ledger, &stranger, "m-1", "s-0", &destination).await.unwrap_err(), LedgerError::NotFound);
    }
    ask(&ledger, &operator(), "m-1", "s-1", &destination).await.unwrap();
    assert_eq!(row(&ledger, "s-1").await.terms.principal.as_str(), "agent");
    let journal = ledger.find(&agent(), &id("s-1")).await.unwrap();
    let entries = ledger.journal(&journal.1, &journal.0, 0, 10).await.unwrap();
    assert_eq!(entries[0].actor, "principal:olga", "the journal has who asked");

    // Another agent's equal call does not take what was approved for this one.
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    let other = grant("acme", "second-agent", &Scope::AGENT).to_execute(&crate::stage::tool()).unwrap();
    let told_other = ledger.execute(&other, held("o-1", printer()), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told_other.outcome, helpdesk.effects()), (Outcome::PossibleDuplicate, 1));
    assert_eq!(told(&ledger, held("m-2", printer()), &helpdesk).await.outcome, Outcome::Executed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_call_stays_declined_for_its_host_and_may_be_asked_for_again() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let each = |minted: &str| Call { approval: Approval::Required, ..held(minted, printer()) };
    let first = told(&ledger, each("m-1"), &helpdesk).await;
    assert_eq!(first.outcome, Outcome::ApprovalRequired);
    let repeated = told(&ledger, each("m-2"), &helpdesk).await;
    assert_eq!((repeated.outcome, repeated.operation_id), (Outcome::ApprovalRequired, first.operation_id), "one row");
    ledger.decline(&operator(), &id("m-1"), Expects::Anything).await.unwrap();
    assert_eq!(told(&ledger, each("m-3"), &helpdesk).await.outcome, Outcome::PossibleDuplicate);
    let destination: Arc<dyn Destination> = helpdesk.clone();
    ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
    ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    assert_eq!(told(&ledger, each("m-4"), &helpdesk).await.outcome, Outcome::Executed);
    assert_eq!(told(&ledger, each("m-5"), &helpdesk).await.outcome, Outcome::PossibleDuplicate);
    assert_eq!(helpdesk.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_a_day_ago_is_not_sent_today() {
    let stage = Stage::new();
    let helpdesk = Scripted::new("none", []);
    let destination: Arc<dyn Destination> = helpdesk.clone();
    {
        let ledger = stage.ledger().await;
        told(&ledger, held("m-1", printer()), &helpdesk).await;
        ask(&ledger, &agent(), "m-1", "s-1", &destination).await.unwrap();
        ledger.approve(&operator(), &id("s-1"), Expects::Anything).await.unwrap();
    }
    let tomorrow = stage.ledger_at(Shifted::Ahead(Duration::from_secs(24 * 3600 + 60))).await;
    let late = told(&tomorrow, held("m-2", printer()), &helpdesk).await;
    assert_eq!((late.outcome, helpdesk.effects()), (Outcome::Closed, 1));
    assert_eq!(
        told(&tomorrow, held("m-3", printer()), &helpdesk).await.outcome,
        Outcome::Executed,
        "a call like any other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_tool_does_not_compare_makes_no_other_call() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let helpdesk = Scripted::new("none", []);
    let stamped = |minted: &str, at: u32| Call {
        comparison: Comparison::new(Vec::new(), vec![Pointer::parse("/at").unwrap()]).unwrap(),
        ..held(minted, json!({ "title": "printer", "at": at }))
    };
    assert_eq!(told(&ledger, stamped("m-1", 1), &helpdesk).await.outcome, Outcome::Executed);
    assert_eq!(told(&ledger, stamped("m-2", 2), &helpdesk).await.outcome, Outcome::PossibleDuplicate);
    assert_eq!(helpdesk.effects(), 1);
}
