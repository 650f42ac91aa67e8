//! Moving operations.

use std::sync::Arc;

use onceward_core::event::{About, CloseReason, Event, NotSent, Observation, PurgeScope, Source, Verdict};
use onceward_core::key::{OwnerId, Principal};
use onceward_core::operation::DisagreementKind;
use onceward_core::receipt::{Answer, Rejection};
use onceward_core::state::State;
use onceward_core::step::Refusal;

use super::openings::{applied, opened, stepped, verified};
use super::sample::{Sample, claim, effect, key, lost, now, observed, receipt, step};
use crate::store::{Applied, Command, Expects, Priority, Step, Store};

fn owner(name: &str) -> Source {
    Source::Owner(OwnerId::parse(name).expect("a name"))
}

pub(super) async fn a_settle_is_stored_replayed_and_chained(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1")).await;
    let settled = stepped(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")])).await;
    let State::Succeeded(success) = &settled.state else { panic!("not succeeded: {settled:?}") };
    assert_eq!(success.answer.present().map(|answer| answer.body.clone()), Some(receipt("T-1").answer.body));
    assert_eq!(store.get(&sample.key).await.expect("readable"), Some(settled.clone()));
    match applied(&store, sample.claimed("owner-2")).await {
        Applied::Existing(replayed) => assert_eq!(replayed, settled),
        other => panic!("not existing: {other:?}"),
    }
    assert_eq!(verified(&store, &settled).await, 3);
    let page = store.journal(&sample.key, 1, 1).await.expect("readable");
    assert_eq!(page.iter().map(|entry| (entry.seq, entry.event.as_str())).collect::<Vec<_>>(), [(2, "claim")]);
}

pub(super) async fn a_claim_that_was_lost_settles_nothing(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    let before = opened(&store, sample.claimed("owner-1")).await;
    match applied(&store, step(&sample.key, vec![effect(1, "owner-2", "T-9")])).await {
        Applied::Refused { refusal, operation } => {
            assert_eq!(refusal, Refusal::ClaimLost);
            assert_eq!(operation, before);
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(store.get(&sample.key).await.expect("readable"), Some(before));
    let nowhere = applied(&store, step(&key("acme", "none"), vec![effect(1, "owner-1", "T-1")])).await;
    assert!(matches!(nowhere, Applied::NoSuchOperation));
}

pub(super) async fn events_of_one_step_are_applied_all_or_none(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    let before = opened(&store, sample.claimed("owner-1")).await;
    // The second is refused: the first must not stand.
    let both = vec![observed(1, Verdict::NotSent(NotSent::NoConnection), owner("owner-1")), claim(3, "owner-1")];
    match applied(&store, step(&sample.key, both)).await {
        Applied::Refused { refusal, .. } => assert_eq!(refusal, Refusal::Stale { attempts: 1 }),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(store.get(&sample.key).await.expect("readable"), Some(before));
    let both = vec![observed(1, Verdict::NotSent(NotSent::NoConnection), owner("owner-1")), claim(2, "owner-1")];
    let after = stepped(&store, step(&sample.key, both)).await;
    assert_eq!(after.history.attempts, 2);
    assert_eq!(verified(&store, &after).await, 4);
}

pub(super) async fn a_step_that_was_decided_on_an_older_version_changes_nothing(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    let looked_at = opened(&store, sample.claimed("owner-1")).await;
    let seen = looked_at.journal.seq;
    let moved = stepped(&store, step(&sample.key, vec![lost(1, "owner-1", None)])).await;
    let expecting = |version| {
        let events = vec![Event::Wait { by: Principal::parse("ann").expect("a name"), next_check: None, note: None }];
        let (key, actor) = (sample.key.clone(), "ann".to_owned());
        Command::Step(Box::new(Step { key, events, actor, expects: Expects::Version(version) }))
    };
    match applied(&store, expecting(seen)).await {
        Applied::Refused { refusal, operation } => {
            assert_eq!(refusal, Refusal::Moved { seen, version: moved.journal.seq });
            assert_eq!(operation, moved);
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(store.get(&sample.key).await.expect("readable"), Some(moved.clone()));
    let waits = stepped(&store, expecting(moved.journal.seq)).await;
    assert_eq!((&waits.state, waits.journal.seq), (&moved.state, moved.journal.seq + 1));
    assert_eq!(verified(&store, &waits).await, 4);
}

pub(super) async fn every_state_is_read_back_as_it_was_answered(store: Arc<dyn Store>) {
    let refusal = Rejection {
        answer: Answer { status: 422, headers: Vec::new(), body: b"\xff no such queue".to_vec() },
        received_at: now(),
    };
    let by = Principal::parse("ann").expect("a name");
    let ways: [(&str, Vec<Event>); 8] = [
        ("approved", vec![Event::Approve { by: by.clone() }]),
        ("pending", vec![claim(1, "owner-1")]),
        ("unknown", vec![lost(1, "owner-1", Some(now()))]),
        ("closed", vec![Event::Close(CloseReason::ConfirmedNotDone)]),
        ("approved", Vec::new()),
        ("pending", vec![claim(1, "owner-1")]),
        ("rejected", vec![observed(1, Verdict::Refusal(refusal), owner("owner-1"))]),
        ("rejected", vec![observed(1, Verdict::Effect(receipt("T-7")), Source::LateAnswer)]),
    ];
    let mut sample = Sample::new("acme", "way-1");
    let mut last = opened(&store, sample.proposed()).await;
    assert_eq!(last.state.name(), "proposed");
    assert_eq!(store.get(&sample.key).await.expect("readable").as_ref(), Some(&last));
    for (state, events) in ways {
        if events.is_empty() {
            sample = Sample::new("acme", "way-2");
            last = opened(&store, sample.approved()).await;
        } else {
            last = stepped(&store, step(&sample.key, events)).await;
        }
        assert_eq!(last.state.name(), state);
        assert_eq!(store.get(&sample.key).await.expect("readable").as_ref(), Some(&last));
        verified(&store, &last).await;
    }
    assert_eq!(last.history.disagreement.map(|open| open.kind), Some(DisagreementKind::EffectAfterClose));

    let replaced = Sample::new("acme", "way-3");
    opened(&store, replaced.proposed()).await;
    let by = Sample::new("acme", "way-2").key.id;
    let closed = stepped(&store, step(&replaced.key, vec![Event::Supersede { by, note: None }])).await;
    assert_eq!(store.get(&replaced.key).await.expect("readable"), Some(closed));
}

pub(super) async fn two_operations_with_one_effect_are_a_disagreement(store: Arc<dyn Store>) {
    for id in ["one", "two"] {
        opened(&store, Sample::new("acme", id).claimed("owner-1")).await;
    }
    opened(&store, Sample::new("acme", "three").of_tool("other_tool").claimed("owner-1")).await;
    opened(&store, Sample::new("umbrella", "one").claimed("owner-1")).await;
    let first = stepped(&store, step(&key("acme", "one"), vec![effect(1, "owner-1", "T-1")])).await;
    assert!(!first.history.in_disagreement());
    for (tenant, id, expected) in [("acme", "three", false), ("umbrella", "one", false), ("acme", "two", true)] {
        let settled = stepped(&store, step(&key(tenant, id), vec![effect(1, "owner-1", "T-1")])).await;
        assert!(matches!(settled.state, State::Succeeded(_)), "the receipt is stored all the same");
        assert_eq!(settled.history.in_disagreement(), expected, "{tenant}/{id}");
    }

    // A person who takes somebody else's effect for this one's is told, too.
    let sample = Sample::new("acme", "four");
    opened(&store, sample.claimed("owner-1")).await;
    stepped(&store, step(&sample.key, vec![lost(1, "owner-1", None)])).await;
    let decided = Event::Observe(Observation {
        about: About::EveryUncertain,
        verdict: Verdict::Effect(receipt("T-1")),
        source: Source::Operator { by: Principal::parse("ann").expect("a name") },
        next_check: None,
        note: None,
    });
    let settled = stepped(&store, step(&sample.key, vec![decided])).await;
    assert!(matches!(settled.state, State::Succeeded(_)), "the decision stands");
    assert_eq!(settled.history.disagreement.map(|open| open.kind.name()), Some("shared_effect_id"));
}

pub(super) async fn an_erased_operation_keeps_its_identity(store: Arc<dyn Store>) {
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1")).await;
    stepped(&store, step(&sample.key, vec![effect(1, "owner-1", "T-1")])).await;
    for (scope, expired) in [(PurgeScope::Arguments, false), (PurgeScope::Everything, true)] {
        let erased = stepped(&store, step(&sample.key, vec![Event::Purge(scope)])).await;
        assert!(erased.binding.arguments.present().is_none());
        assert_eq!(erased.is_expired(), expired);
        assert_eq!(store.get(&sample.key).await.expect("readable"), Some(erased.clone()));
        match applied(&store, sample.claimed("owner-2")).await {
            Applied::Existing(existing) => assert_eq!(existing, erased),
            other => panic!("the identity is free: {other:?}"),
        }
    }
}

pub(super) async fn opposite_settles_at_once_leave_one_answer(store: Arc<dyn Store>) {
    for round in 0..8 {
        let sample = Sample::new("acme", &format!("order-{round}"));
        opened(&store, sample.claimed("owner-1")).await;
        let done = store.submit(step(&sample.key, vec![effect(1, "owner-1", &format!("T-{round}"))]), Priority::Settle);
        let gone = store.submit(step(&sample.key, vec![lost(1, "owner-1", None)]), Priority::Settle);
        let (done, gone) = (done.await.expect("taken"), gone.await.expect("taken"));
        let stored = store.get(&sample.key).await.expect("readable").expect("there");
        verified(&store, &stored).await;
        match (&done, &gone) {
            (Applied::Stepped(_), Applied::Refused { refusal: Refusal::ClaimLost, .. }) => {
                assert!(matches!(stored.state, State::Succeeded(_)));
            }
            (Applied::Refused { refusal: Refusal::ClaimLost, .. }, Applied::Stepped(_)) => {
                assert!(matches!(stored.state, State::Unknown(_)));
            }
            other => panic!("both, or none, were told that they settled it: {other:?}"),
        }
    }
}
