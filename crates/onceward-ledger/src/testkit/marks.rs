//! Marks, and what is counted of unresolved operations.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::event::{Cause, Event, Source, Verdict};
use onceward_core::key::{OperationKey, OutboundKey, OwnerId};
use onceward_core::time::Timestamp;

use super::openings::{opened, stepped};
use super::sample::{Sample, claim, effect, key, lost, now, observed, step};
use crate::mark::Mark;
use crate::store::{Command, Store, UnknownCount};

fn outbound(n: u32) -> OutboundKey {
    OutboundKey::parse(&format!("0b0e0c3a-8c3f-8000-9000-{n:012}")).expect("a name")
}

/// Opens it with a claim that sends the key of this number.
fn sending(id: &str, n: u32) -> Command {
    let Event::Claim(mut claim) = claim(1, "owner-1") else { unreachable!("a claim is a claim") };
    claim.outbound_key = Some(outbound(n));
    Command::Open(Box::new(Sample::new("acme", id).opening(vec![Event::Claim(claim)])))
}

async fn marked(store: &Arc<dyn Store>, mark: &Mark) -> Vec<OperationKey> {
    store.marked(mark, 10).await.expect("readable")
}

pub(super) async fn an_operation_is_found_by_its_key_from_its_first_uncertain_attempt_on(store: Arc<dyn Store>) {
    let owner = || Source::Owner(OwnerId::parse("owner-1").expect("a name"));
    for (id, n) in [("sure", 1), ("lost", 2), ("accepted", 3)] {
        opened(&store, sending(id, n)).await;
    }
    let mut held = store.keys_held(10).await.expect("readable");
    held.sort();
    assert_eq!(held, [outbound(1), outbound(2), outbound(3)]);
    assert_eq!(store.keys_held(1).await.expect("readable").len(), 1);
    assert!(marked(&store, &Mark::Key(outbound(2))).await.is_empty(), "while it is held, its owner knows");

    let accepted = Verdict::Lost(Cause::Accepted { handle: Some("job-3".to_owned()) });
    stepped(&store, step(&key("acme", "sure"), vec![effect(1, "owner-1", "T-1")])).await;
    stepped(&store, step(&key("acme", "lost"), vec![lost(1, "owner-1", None)])).await;
    stepped(&store, step(&key("acme", "accepted"), vec![observed(1, accepted, owner())])).await;
    assert!(store.keys_held(10).await.expect("readable").is_empty());
    assert!(marked(&store, &Mark::Key(outbound(1))).await.is_empty(), "a sure operation pays for no mark");
    assert_eq!(marked(&store, &Mark::Key(outbound(2))).await, [key("acme", "lost")]);
    assert_eq!(marked(&store, &Mark::Handle("job-3".to_owned())).await, [key("acme", "accepted")]);
    assert!(marked(&store, &Mark::Handle(outbound(2).to_string())).await.is_empty(), "a key is no handle");

    // Settled, it is still found: what contradicts its end must not go unnoticed.
    let done = observed(1, Verdict::Effect(super::receipt("T-2")), Source::Lookup);
    stepped(&store, step(&key("acme", "lost"), vec![done])).await;
    assert_eq!(marked(&store, &Mark::Key(outbound(2))).await, [key("acme", "lost")]);
}

pub(super) async fn unknown_operations_are_counted_by_tool_and_cause_with_their_age(store: Arc<dyn Store>) {
    let owner = || Source::Owner(OwnerId::parse("owner-1").expect("a name"));
    let later = now().plus(Duration::from_secs(60));
    let mut since: Vec<Timestamp> = Vec::new();
    for (id, next_check) in [("a", None), ("b", Some(later))] {
        opened(&store, Sample::new("acme", id).claimed("owner-1")).await;
        let unknown = stepped(&store, step(&key("acme", id), vec![lost(1, "owner-1", next_check)])).await;
        since.extend(unknown.state.uncertain().iter().map(|attempt| attempt.claimed_at));
    }
    let other = Sample::new("umbrella", "c").of_tool("send_mail");
    opened(&store, other.claimed("owner-1")).await;
    let error = observed(1, Verdict::Lost(Cause::ServerError), owner());
    let unknown = stepped(&store, step(&other.key, vec![error])).await;
    opened(&store, Sample::new("acme", "p").proposed()).await;
    opened(&store, Sample::new("acme", "running").claimed("owner-1")).await;
    for id in ["one", "two"] {
        opened(&store, Sample::new("acme", id).claimed("owner-1")).await;
        stepped(&store, step(&key("acme", id), vec![effect(1, "owner-1", "T-1")])).await;
    }
    let counted = store.unresolved().await.expect("readable");
    let row = |tool: &str, cause: &str, count, for_a_person, oldest| UnknownCount {
        tool: onceward_core::key::ToolName::parse(tool).expect("a name"),
        cause: cause.to_owned(),
        count,
        for_a_person,
        oldest,
    };
    let mail_since = unknown.state.uncertain()[0].claimed_at;
    assert_eq!(
        counted.unknown,
        [row("create_ticket", "reply_lost", 2, 1, since[0]), row("send_mail", "server_error", 1, 1, mail_since),]
    );
    assert_eq!((counted.proposed, counted.in_disagreement), (1, 1));
    let load = store.load();
    assert!(load.commits.total() > 0 && load.groups.total() == load.commits.total(), "{load:?}");
}
