//! Lists and sweeps, owners, credentials, pins.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::event::Event;
use onceward_core::key::{OwnerId, Principal, TenantId, ToolName};
use onceward_core::operation::Operation;

use super::openings::{applied, opened, stepped};
use super::sample::{Sample, claim, effect, key, lost, now, step};
use crate::authorize::{Grant, Scope, ToolPattern};
use crate::credential::{Credential, CredentialHash};
use crate::store::{Applied, Command, DisagreementOnly, Filter, OwnerKind, OwnerRow, Priority, Store};

fn ids(operations: &[Operation]) -> Vec<&str> {
    operations.iter().map(|operation| operation.key.id.as_str()).collect()
}

pub(super) async fn sweeps_find_what_is_theirs(store: Arc<dyn Store>) {
    let at = now();
    let later = at.plus(Duration::from_secs(100));
    for (id, holder) in [("one", "owner-1"), ("two", "owner-1"), ("three", "owner-2")] {
        opened(&store, Sample::new("acme", id).claimed(holder)).await;
    }
    let Event::Claim(mut timed) = claim(1, "owner-3") else { unreachable!("a claim is a claim") };
    timed.settle_by = Some(later);
    let opening = Sample::new("acme", "four").opening(vec![Event::Claim(timed)]);
    opened(&store, Command::Open(Box::new(opening))).await;

    let holder = |name: &str| OwnerId::parse(name).expect("a name");
    assert_eq!(ids(&store.held_by(&holder("owner-1"), 10).await.expect("readable")), ["one", "two"]);
    assert_eq!(store.held_by(&holder("owner-1"), 1).await.expect("readable").len(), 1);
    assert!(store.held_by(&holder("owner-9"), 10).await.expect("readable").is_empty());
    assert!(store.overdue(at, 10).await.expect("readable").is_empty());
    assert_eq!(ids(&store.overdue(later, 10).await.expect("readable")), ["four"]);

    let soon = at.plus(Duration::from_secs(5));
    stepped(&store, step(&key("acme", "one"), vec![lost(1, "owner-1", Some(later))])).await;
    stepped(&store, step(&key("acme", "two"), vec![lost(1, "owner-1", Some(soon))])).await;
    stepped(&store, step(&key("acme", "three"), vec![lost(1, "owner-2", None)])).await;
    assert!(store.held_by(&holder("owner-1"), 10).await.expect("readable").is_empty());
    assert!(store.due(at, 10).await.expect("readable").is_empty());
    assert_eq!(ids(&store.due(soon, 10).await.expect("readable")), ["two"]);
    assert_eq!(ids(&store.due(later, 10).await.expect("readable")), ["two", "one"], "the longest due first");
}

pub(super) async fn lists_are_by_tenant_newest_first_and_paged(store: Arc<dyn Store>) {
    for n in 0..5 {
        opened(&store, Sample::new("acme", &format!("n-{n}")).claimed("owner-1")).await;
    }
    opened(&store, Sample::new("acme", "p").of_tool("send_mail").proposed()).await;
    opened(&store, Sample::new("umbrella", "x").claimed("owner-1")).await;
    stepped(&store, step(&key("acme", "n-1"), vec![effect(1, "owner-1", "T-1")])).await;
    stepped(&store, step(&key("acme", "n-2"), vec![effect(1, "owner-1", "T-1")])).await;
    stepped(&store, step(&key("acme", "n-3"), vec![lost(1, "owner-1", None)])).await;

    let all = Filter {
        tenant: TenantId::parse("acme").expect("a name"),
        states: Vec::new(),
        tool: None,
        disagreement_only: DisagreementOnly::No,
        after: None,
        limit: 4,
    };
    let page = store.list(all.clone()).await.expect("readable");
    assert_eq!(ids(&page.operations), ["p", "n-4", "n-3", "n-2"]);
    assert!(page.next.is_some());
    let page = store.list(Filter { after: page.next, ..all.clone() }).await.expect("readable");
    assert_eq!(ids(&page.operations), ["n-1", "n-0"]);
    assert_eq!(page.next, None);

    let list = |filter: Filter| {
        let store = Arc::clone(&store);
        async move { store.list(filter).await.expect("readable").operations }
    };
    let states = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect();
    let unresolved = list(Filter { states: states(&["proposed", "unknown"]), ..all.clone() }).await;
    assert_eq!(ids(&unresolved), ["p", "n-3"]);
    let some = list(Filter { states: states(&["unknown", "succeeded"]), ..all.clone() }).await;
    assert_eq!(ids(&some), ["n-3", "n-2", "n-1"]);
    let tool = ToolName::parse("send_mail").expect("a name");
    assert_eq!(ids(&list(Filter { tool: Some(tool), ..all.clone() }).await), ["p"]);
    let disputed = list(Filter { disagreement_only: DisagreementOnly::Yes, ..all }).await;
    assert_eq!(ids(&disputed), ["n-2"]);
}

pub(super) async fn owners_beat_and_are_forgotten_only_without_attempts(store: Arc<dyn Store>) {
    let owner = OwnerId::parse("owner-1").expect("a name");
    for beat in [1, 2] {
        let command = Command::Beat { owner: owner.clone(), kind: OwnerKind::Library, beat };
        let answer = store.submit(command, Priority::Beat).await.expect("taken");
        assert!(matches!(answer, Applied::Done));
    }
    let row = OwnerRow { owner: owner.clone(), kind: OwnerKind::Library, beat: 2 };
    assert_eq!(store.owners().await.expect("readable"), std::slice::from_ref(&row));
    opened(&store, Sample::new("acme", "one").claimed("owner-1")).await;
    applied(&store, Command::ForgetOwner(owner.clone())).await;
    assert_eq!(store.owners().await.expect("readable"), [row], "it still holds an attempt");
    stepped(&store, step(&key("acme", "one"), vec![effect(1, "owner-1", "T-1")])).await;
    applied(&store, Command::ForgetOwner(owner)).await;
    assert!(store.owners().await.expect("readable").is_empty());
}

/// It may have been forgotten while it was stopped, have claimed when it went on, and have ended before its next beat.
pub(super) async fn an_owner_without_a_sign_of_life_is_found_by_what_it_holds(store: Arc<dyn Store>) {
    for id in ["one", "two"] {
        opened(&store, Sample::new("acme", id).claimed("owner-1")).await;
    }
    let row = OwnerRow { owner: OwnerId::parse("owner-1").expect("a name"), kind: OwnerKind::Library, beat: 0 };
    assert_eq!(store.owners().await.expect("readable"), [row]);
    for id in ["one", "two"] {
        stepped(&store, step(&key("acme", id), vec![effect(1, "owner-1", id)])).await;
    }
    assert!(store.owners().await.expect("readable").is_empty());
}

pub(super) async fn credentials_are_found_by_hash_and_stay_when_revoked(store: Arc<dyn Store>) {
    let grant = Grant::new(
        TenantId::parse("acme").expect("a name"),
        Principal::parse("agent-1").expect("a name"),
        vec![ToolPattern::parse("*").expect("a pattern")],
        Scope::AGENT.to_vec(),
    )
    .expect("a grant");
    let credential = Credential {
        id: "cred-1".to_owned(),
        hash: CredentialHash::of("secret"),
        grant,
        created_at: now(),
        revoked_at: None,
    };
    applied(&store, Command::PutCredential(Box::new(credential.clone()))).await;
    assert_eq!(store.credential(&credential.hash).await.expect("readable"), Some(credential.clone()));
    assert_eq!(store.credential(&CredentialHash::of("guess")).await.expect("readable"), None);
    applied(&store, Command::RevokeCredential { id: "cred-1".to_owned() }).await;
    let revoked = store.credential(&credential.hash).await.expect("readable").expect("still there");
    assert!(revoked.revoked_at.is_some());
    // A repeated put, or another revocation, does not undo or move it.
    applied(&store, Command::PutCredential(Box::new(credential))).await;
    applied(&store, Command::RevokeCredential { id: "cred-1".to_owned() }).await;
    assert_eq!(store.credentials().await.expect("readable"), [revoked]);
    let unknown = applied(&store, Command::RevokeCredential { id: "cred-9".to_owned() }).await;
    assert!(matches!(unknown, Applied::NoSuchOperation), "a mistyped id is not taken for a revocation");
}

pub(super) async fn pins_are_stored_once(store: Arc<dyn Store>) {
    assert_eq!(store.pinned("ab12").await.expect("readable"), None);
    for body in ["first", "second"] {
        applied(&store, Command::Pin { hash: "ab12".to_owned(), body: body.to_owned() }).await;
    }
    assert_eq!(store.pinned("ab12").await.expect("readable").as_deref(), Some("first"));
    assert_eq!(store.id(), store.id());
    assert!(store.is_healthy());
}
