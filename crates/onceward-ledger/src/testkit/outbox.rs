//! What the outbox and its dispatcher must do on every store: each function is a promise, and
//! runs the engine over a ledger that a test gives, with a destination that counts.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    reason = "each says by its name what it promises, and panics where it does not hold"
)]

mod stage;

use std::time::Duration;

use onceward_core::outcome::Outcome;
use onceward_core::state::State;

use self::stage::{Act, Play, allowed, call, grant, with_approval};
pub use self::stage::{End, Stage};
use crate::authorize::Scope;
use crate::credential::{Credential, CredentialHash};
use crate::decisions::{Choice, Decision, Evidence, Reason};
use crate::outbox::{Entry, OutboxError};
use crate::store::{Command, Expects, Priority};
use crate::testkit::now;

pub async fn what_is_rolled_back_is_never_sent(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let gone = play.opening(&call("gone", None)).await;
    let kept = play.opening(&call("kept", None)).await;
    play.business(vec![gone], End::RolledBack).await;
    play.business(vec![kept], End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    play.until("kept", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["kept"]);
    assert_eq!(play.find("gone").await, None);
}

pub async fn what_is_committed_is_sent_once_by_two_dispatchers(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let other = play.another().await;
    play.ledger.dispatch_outbox(play.directory());
    other.dispatch_outbox(play.directory());
    let lanes = [None, Some("north"), Some("south")];
    let ids: Vec<String> = (0..60).map(|number| format!("order-{number:02}")).collect();
    for (number, id) in ids.iter().enumerate() {
        let opening = play.opening(&call(id, lanes[number % 3])).await;
        play.business(vec![opening], End::Committed).await;
    }
    for id in &ids {
        play.until(id, |operation| matches!(operation.state, State::Succeeded(_))).await;
    }
    let mut sent = play.requests();
    for lane in [1, 2] {
        let mine: Vec<_> = ids.iter().skip(lane).step_by(3).cloned().collect();
        let of_lane: Vec<_> = sent.iter().filter(|id| mine.contains(id)).cloned().collect();
        assert_eq!(of_lane, mine, "a lane is sent in order, whoever sends");
    }
    sent.sort();
    assert_eq!(sent, ids, "each is sent once");
}

pub async fn what_was_committed_before_a_restart_is_sent_after_it(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let opening = play.opening(&call("order-1", None)).await;
    play.business(vec![opening], End::Committed).await;
    play.ledger.shut_down(Duration::from_secs(5)).await;
    assert_eq!(play.requests(), [""; 0]);
    let next = play.another().await;
    next.dispatch_outbox(play.directory());
    play.until("order-1", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["order-1"]);
}

pub async fn a_lane_is_sent_in_the_order_of_commits(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    // The first one to be made is the last one to be committed.
    let mut openings = Vec::new();
    for id in ["made-first", "made-second", "made-third"] {
        openings.push(play.opening(&call(id, Some("ledger"))).await);
    }
    while let Some(opening) = openings.pop() {
        play.business(vec![opening], End::Committed).await;
    }
    play.ledger.dispatch_outbox(play.directory());
    play.until("made-first", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["made-third", "made-second", "made-first"]);
}

pub async fn a_lane_keeps_its_order_through_retries(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    play.acts("one", &[Act::NoConnection, Act::NoConnection]);
    play.acts("two", &[Act::NoConnection]);
    let mut openings = Vec::new();
    for id in ["one", "two", "three"] {
        openings.push(play.opening(&call(id, Some("lane"))).await);
    }
    play.business(openings, End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    let last = play.until("three", |operation| operation.is_settled()).await;
    assert_eq!(last.history.attempts, 1, "it was not tried before its turn");
    assert_eq!(play.requests(), ["one", "two", "three"]);
    assert_eq!(play.find("one").await.unwrap().history.attempts, 3);
}

pub async fn an_unknown_head_blocks_its_lane_until_somebody_decides(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    play.acts("head", &[Act::ReplyLost]);
    let mut openings = Vec::new();
    for (id, lane) in [("head", "acme"), ("behind", "acme"), ("elsewhere", "other")] {
        openings.push(play.opening(&call(id, Some(lane))).await);
    }
    play.business(openings, End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    let head = play.until("head", |operation| matches!(operation.state, State::Unknown(_))).await;
    play.until("elsewhere", |operation| operation.is_settled()).await;
    // Another one that is sent after all that: the dispatcher has looked at the blocked lane since.
    let later = play.opening(&call("later", None)).await;
    play.business(vec![later], End::Committed).await;
    play.until("later", |operation| operation.is_settled()).await;
    assert!(matches!(play.find("behind").await.unwrap().state, State::Approved(_)));
    assert!(!play.requests().contains(&"behind".to_owned()));

    let evidence = Evidence::new(Reason::NotAtDestination, Some("there is no such order"), None).unwrap();
    let decision = Decision::new(&head.key.id, Choice::ConfirmedNotDone, evidence, now()).unwrap();
    let operator = grant("olga", &Scope::OPERATOR);
    play.ledger.decide(&operator, &head.key.id, decision, Expects::Anything).await.unwrap();
    play.until("behind", |operation| matches!(operation.state, State::Succeeded(_))).await;
    assert_eq!(play.requests().iter().filter(|id| *id == "head").count(), 1, "skipped, and not sent again");
}

pub async fn a_proposed_head_blocks_its_lane_until_it_is_approved(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let head = play.opening(&with_approval(call("head", Some("lane")))).await;
    let behind = play.opening(&call("behind", Some("lane"))).await;
    let free = play.opening(&call("free", None)).await;
    play.business(vec![head, behind, free], End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    play.until("free", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["free"]);
    let operator = grant("olga", &Scope::OPERATOR);
    play.ledger.approve(&operator, &play.key("head").id, Expects::Anything).await.unwrap();
    play.until("behind", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["free", "head", "behind"]);
}

pub async fn an_approval_does_not_cover_another_definition_of_its_tool(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let approved = play.opening(&with_approval(call("approved", None))).await;
    play.business(vec![approved], End::Committed).await;
    let operator = grant("olga", &Scope::OPERATOR);
    play.ledger.approve(&operator, &play.key("approved").id, Expects::Anything).await.unwrap();
    // One that nobody had to approve, later in the order: when it is sent, the other has been looked at.
    let free = play.opening(&call("free", None)).await;
    play.business(vec![free], End::Committed).await;
    play.ledger.dispatch_outbox(play.directory_at("2"));
    play.until("free", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["free"]);
    let as_it_was = play.another().await;
    as_it_was.dispatch_outbox(play.directory_at("1"));
    play.until("approved", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["free", "approved"]);
}

pub async fn r108_an_entry_that_nobody_took_is_not_marked_as_sent(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    // As often as one run of a claim tries.
    play.acts("order-1", &[Act::NoConnection; 3]);
    let opening = play.opening(&call("order-1", None)).await;
    play.business(vec![opening], End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    let refused = play.until("order-1", |operation| operation.history.attempts == 3).await;
    assert!(matches!(refused.state, State::Approved(_) | State::Pending(_)), "{:?}", refused.state);
    assert_eq!(play.requests(), [""; 0]);
    let done = play.until("order-1", |operation| operation.is_settled()).await;
    assert!(matches!(done.state, State::Succeeded(_)));
    assert_eq!((play.requests(), done.history.attempts), (vec!["order-1".to_owned()], 4));
}

pub async fn whoever_may_no_longer_call_is_no_longer_sent_for(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let credential = |id: &str, revoked_at| {
        let hash = CredentialHash::of(id);
        let grant = grant("agent", &Scope::AGENT);
        Command::PutCredential(Box::new(Credential { id: id.to_owned(), hash, grant, created_at: now(), revoked_at }))
    };
    let store = play.ledger.store();
    store.submit(credential("old", Some(now())), Priority::Claim).await.unwrap();
    let opening = play.opening(&call("order-1", None)).await;
    let other = play.opening_by("system", &call("order-2", None)).await;
    play.business(vec![opening, other], End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    play.until("order-2", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["order-2"]);
    store.submit(credential("new", None), Priority::Claim).await.unwrap();
    play.until("order-1", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["order-2", "order-1"]);
}

pub async fn a_repetition_by_its_caller_does_not_jump_the_lane(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let (one, two) = (call("one", Some("lane")), call("two", Some("lane")));
    let openings = vec![play.opening(&one).await, play.opening(&two).await];
    play.business(openings, End::Committed).await;
    let told = play.execute(two.clone()).await;
    assert_eq!((told.outcome, play.requests()), (Outcome::NotDispatched, Vec::new()));
    play.ledger.dispatch_outbox(play.directory());
    play.until("two", |operation| operation.is_settled()).await;
    assert_eq!(play.requests(), ["one", "two"]);
    let told = play.execute(two).await;
    assert_eq!((told.outcome, play.requests().len()), (Outcome::Replayed, 2));
}

pub async fn an_id_is_one_intention_in_the_outbox_too(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let message = call("message-1", None);
    let first = play.business(vec![play.opening(&message).await], End::Committed).await;
    assert!(matches!(first[..], [Entry::Added(_)]));
    let again = play.business(vec![play.opening(&message).await], End::Committed).await;
    let [Entry::Existing(known)] = &again[..] else { panic!("{again:?}") };
    assert_eq!(play.ledger.decided(&allowed(), &message, known).unwrap().outcome, Outcome::NotDispatched);
    let other = stage::about(&message, "something else");
    assert_eq!(play.ledger.decided(&allowed(), &other, known).unwrap().outcome, Outcome::Conflict);
    let told = play.ledger.enqueue(&allowed(), &other, &play.destination()).await.unwrap();
    assert_eq!(told.outcome, Outcome::Conflict);
    let held = stage::without_identity(message.clone());
    let refused = play.ledger.outbox_opening(&allowed(), &held, &play.destination()).await;
    assert_eq!(refused.err(), Some(OutboxError::IdentityRequired));
    let told = play.ledger.enqueue(&allowed(), &call("message-2", None), &play.destination()).await.unwrap();
    assert_eq!((told.outcome, told.state.as_str()), (Outcome::NotDispatched, "approved"));
    play.ledger.dispatch_outbox(play.directory());
    play.until("message-1", |operation| operation.is_settled()).await;
    play.until("message-2", |operation| operation.is_settled()).await;
    assert_eq!(play.requests().len(), 2);
}

pub async fn an_entry_whose_deadline_passed_is_closed_and_frees_its_lane(stage: Box<dyn Stage>) {
    let play = Play::new(stage).await;
    let late = stage::until_then(call("late", Some("lane")), Duration::ZERO);
    let openings = vec![play.opening(&late).await, play.opening(&call("next", Some("lane"))).await];
    play.business(openings, End::Committed).await;
    play.ledger.dispatch_outbox(play.directory());
    play.until("next", |operation| operation.is_settled()).await;
    assert!(matches!(play.find("late").await.unwrap().state, State::Closed(_)));
    assert_eq!(play.requests(), ["next"]);
}
