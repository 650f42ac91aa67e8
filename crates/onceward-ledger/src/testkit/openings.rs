//! Opening operations.

use std::sync::Arc;

use onceward_core::journal;
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::step::Refusal;

use super::sample::{Sample, claim, effect, key, step};
use crate::store::{Applied, Command, Expects, Priority, Step, Store};

pub(super) async fn applied(store: &Arc<dyn Store>, command: Command) -> Applied {
    store.submit(command, Priority::Claim).await.expect("the store takes it")
}

pub(super) async fn opened(store: &Arc<dyn Store>, command: Command) -> Operation {
    match applied(store, command).await {
        Applied::Opened(operation) => operation,
        other => panic!("not opened: {other:?}"),
    }
}

pub(super) async fn stepped(store: &Arc<dyn Store>, command: Command) -> Operation {
    match store.submit(command, Priority::Settle).await.expect("the store takes it") {
        Applied::Stepped(operation) => operation,
        other => panic!("not stepped: {other:?}"),
    }
}

pub(super) async fn verified(store: &Arc<dyn Store>, operation: &Operation) -> usize {
    let entries = store.journal(&operation.key, 0, 1000).await.expect("readable");
    assert_eq!(journal::verify(&entries, operation.journal), Ok(()));
    entries.len()
}

pub(super) async fn a_key_is_opened_once_and_read_back_whole(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    assert_eq!(store.get(&sample.key).await.expect("readable"), None);
    let first = opened(&store, sample.claimed("owner-1")).await;
    assert_eq!(store.get(&sample.key).await.expect("readable"), Some(first.clone()));
    assert!(matches!(&first.state, State::Pending(pending) if pending.attempt.owner.as_str() == "owner-1"));
    let mut changed = sample.clone();
    changed.arguments = r#"{"title":"another"}"#.to_owned();
    for again in [sample.claimed("owner-2"), sample.approved(), changed.claimed("owner-2")] {
        match applied(&store, again).await {
            Applied::Existing(existing) => assert_eq!(existing, first, "the key is bound, whatever is asked"),
            other => panic!("not existing: {other:?}"),
        }
    }
    assert_eq!(verified(&store, &first).await, 2);
}

pub(super) async fn callers_of_one_key_at_once_open_it_once(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let (store, command) = (Arc::clone(&store), sample.claimed(&format!("owner-{n}")));
            tokio::spawn(async move { applied(&store, command).await })
        })
        .collect();
    let mut fresh = Vec::new();
    let mut found = Vec::new();
    for call in calls {
        match call.await.expect("no panic") {
            Applied::Opened(operation) => fresh.push(operation),
            Applied::Existing(operation) => found.push(operation),
            other => panic!("neither opened nor existing: {other:?}"),
        }
    }
    assert_eq!((fresh.len(), found.len()), (1, 15));
    assert!(found.iter().all(|operation| operation == &fresh[0]), "all are told of the one that was opened");
}

pub(super) async fn tenants_never_see_each_other(store: Arc<dyn Store>) {
    let ours = opened(&store, Sample::new("a", "b:k").claimed("owner-1")).await;
    for (tenant, id) in [("b", "b:k"), ("a:b", "k")] {
        let theirs = opened(&store, Sample::new(tenant, id).claimed("owner-1")).await;
        assert_ne!(theirs.key, ours.key);
    }
    let moved = stepped(&store, step(&ours.key, vec![effect(1, "owner-1", "T-1")])).await;
    assert!(moved.is_settled());
    let theirs = store.get(&key("b", "b:k")).await.expect("readable").expect("there");
    assert!(!theirs.is_settled(), "a settle of one tenant moves nothing of another");
}

pub(super) async fn a_refused_event_leaves_nothing_behind(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    let opening = Command::Open(Box::new(sample.opening(vec![claim(2, "owner-1")])));
    match applied(&store, opening).await {
        Applied::Refused { refusal, .. } => assert_eq!(refusal, Refusal::Stale { attempts: 0 }),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(store.get(&sample.key).await.expect("readable"), None);
    assert!(store.journal(&sample.key, 0, 10).await.expect("readable").is_empty());
    opened(&store, sample.claimed("owner-1")).await;
}

pub(super) async fn a_call_without_identity_is_held_while_an_equal_one_is_near(store: Arc<dyn Store>) {
    let call = |tenant: &str, id: &str, mark: &str, group: &str| {
        Sample::new(tenant, id).without_identity(mark, group).claimed("owner-1")
    };
    let first = opened(&store, call("acme", "minted-1", "mark", "group")).await;
    let held = |applied: Applied| match applied {
        Applied::Suspected(earlier) => earlier.key,
        other => panic!("not suspected: {other:?}"),
    };
    assert_eq!(held(applied(&store, call("acme", "minted-2", "mark", "group")).await), first.key);
    // Rephrased, by the same principal, while the first is unresolved.
    assert_eq!(held(applied(&store, call("acme", "minted-3", "other", "group")).await), first.key);
    assert_eq!(store.get(&key("acme", "minted-2")).await.expect("readable"), None, "the loser writes no row");
    opened(&store, call("acme", "minted-4", "other", "another group")).await;
    opened(&store, call("umbrella", "minted-2", "mark", "group")).await;

    stepped(&store, step(&first.key, vec![effect(1, "owner-1", "T-1")])).await;
    assert_eq!(held(applied(&store, call("acme", "minted-5", "mark", "group")).await), first.key);
    opened(&store, call("acme", "minted-6", "third", "group")).await;
}

pub(super) async fn what_a_call_may_repeat_is_found_by_a_read(store: Arc<dyn Store>) {
    let call = |id: &str, mark: &str, group: &str| Sample::new("acme", id).without_identity(mark, group);
    let equal = opened(&store, call("one", "mark", "another group").claimed("owner-1")).await;
    let rephrased = opened(&store, call("two", "another mark", "group").claimed("owner-1")).await;
    opened(&store, call("three", "third", "third").claimed("owner-1")).await;
    opened(&store, Sample::new("umbrella", "four").without_identity("mark", "group").claimed("owner-1")).await;
    let probe = call("five", "mark", "group").opening(Vec::new()).probe.expect("it has no identity");
    let found = async || {
        let found = store.suspects(&key("acme", "five"), &probe).await.expect("readable");
        let mut ids: Vec<String> = found.iter().map(|operation| operation.key.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(found().await, ["one", "two"]);
    for operation in [&equal, &rephrased] {
        stepped(&store, step(&operation.key, vec![effect(1, "owner-1", operation.key.id.as_str())])).await;
    }
    assert_eq!(found().await, ["one"], "what is settled is near for a while, and only an equal one");
    assert_eq!(store.get(&key("acme", "five")).await.expect("readable"), None);
}

pub(super) async fn equal_calls_without_identity_at_once_are_one_operation(store: Arc<dyn Store>) {
    for round in 0..8 {
        let mark = format!("mark-{round}");
        // All are submitted before any is answered, so that a store may take them together.
        let replies: Vec<_> = (0..40)
            .map(|n| {
                let call = Sample::new("acme", &format!("held-{round}-{n}")).without_identity(&mark, &mark);
                store.submit(call.claimed("owner-1"), Priority::Claim)
            })
            .collect();
        let mut opened = 0;
        for reply in replies {
            match reply.await.expect("the store takes it") {
                Applied::Opened(_) => opened += 1,
                Applied::Suspected(_) => {}
                other => panic!("neither opened nor held: {other:?}"),
            }
        }
        assert_eq!(opened, 1);
    }
}

pub(super) async fn of_two_approved_ones_that_may_be_one_intention_one_is_claimed(store: Arc<dyn Store>) {
    for round in 0..8 {
        // Other words by one principal: each was allowed by a person, and neither may be sent beside the other.
        let group = format!("group-{round}");
        let ready = |n: u32| {
            Sample::new("acme", &format!("second-{round}-{n}")).without_identity(&format!("mark-{round}-{n}"), &group)
        };
        let samples: Vec<_> = (0..8).map(ready).collect();
        for sample in &samples {
            let mut opening = sample.opening(Vec::new());
            opening.probe = None;
            opened(&store, Command::Open(Box::new(opening))).await;
        }
        let replies: Vec<_> = samples
            .iter()
            .map(|sample| {
                let probe = sample.opening(Vec::new()).probe.expect("it has a suspicion");
                let step = Step {
                    key: sample.key.clone(),
                    events: vec![claim(1, "owner-1")],
                    actor: "owner:owner-1".to_owned(),
                    expects: Expects::Alone(Box::new(probe)),
                };
                store.submit(Command::Step(Box::new(step)), Priority::Claim)
            })
            .collect();
        let mut claimed = 0;
        for reply in replies {
            match reply.await.expect("the store takes it") {
                Applied::Stepped(_) => claimed += 1,
                Applied::Suspected(_) => {}
                other => panic!("neither claimed nor held: {other:?}"),
            }
        }
        assert_eq!(claimed, 1);
    }
}
