//! What a store does of a restore (R22).

use std::sync::Arc;

use onceward_core::event::Cause;
use onceward_core::key::OwnerId;
use onceward_core::limits::ID_CLOCK_SKEW_MAX;
use onceward_core::state::State;
use onceward_core::time::Timestamp;

use super::openings::{applied, opened, stepped, verified};
use super::sample::{Sample, claim, effect, key, lost, now, step};
use crate::clock::SystemClock;
use crate::restore::{self, HighWater, Restoring};
use crate::store::{Applied, Command, OwnerKind, Store};

fn beat(owner: &str, kind: OwnerKind, beat: u64) -> Command {
    Command::Beat { owner: OwnerId::parse(owner).unwrap(), kind, beat }
}

async fn high_water(store: &Arc<dyn Store>) -> HighWater {
    store.position().await.expect("readable").high_water
}

/// An id that was minted by the fastest of clocks just now.
fn young() -> String {
    let milliseconds = now().plus(ID_CLOCK_SKEW_MAX).as_micros() / 1_000;
    let (high, low) = (milliseconds >> 16, milliseconds & 0xffff);
    format!("{high:08x}-{low:04x}-7cc3-98c4-dc0c0c07398f")
}

pub(super) async fn the_high_water_mark_rises_with_the_beats_of_gateways(store: Arc<dyn Store>) {
    let before = high_water(&store).await;
    applied(&store, beat("gateway-1", OwnerKind::Gateway, 1)).await;
    let first = high_water(&store).await;
    applied(&store, beat("library-1", OwnerKind::Library, 1)).await;
    assert_eq!(high_water(&store).await, first, "another process does not hide that the ledger went back");
    applied(&store, beat("gateway-2", OwnerKind::Gateway, 1)).await;
    let second = high_water(&store).await;
    assert_eq!((before.beats, first.beats, second.beats), (0, 1, 2));
    assert!(before.is_behind(&first) && first.is_behind(&second) && !second.is_behind(&first));
}

pub(super) async fn a_restore_makes_everything_unsettled_unknown(store: Arc<dyn Store>) {
    let (approved, proposed) = (Sample::new("acme", "approved"), Sample::new("acme", "proposed"));
    let (pending, unknown) = (Sample::new("acme", "pending"), Sample::new("zeta", "unknown"));
    let done = Sample::new("zeta", "done");
    opened(&store, approved.approved()).await;
    opened(&store, proposed.proposed()).await;
    opened(&store, pending.claimed("owner-1")).await;
    opened(&store, unknown.claimed("owner-1")).await;
    stepped(&store, step(&unknown.key, vec![lost(1, "owner-1", None)])).await;
    opened(&store, done.claimed("owner-1")).await;
    let settled = stepped(&store, step(&done.key, vec![effect(1, "owner-1", "T-1")])).await;
    let reached = HighWater { restores: 3, beats: 40, at: now() };
    let restoring = Restoring { as_of: now(), reached: Some(reached) };
    let restored = restore::restore(&*store, &SystemClock, restoring).await.expect("restored");
    assert_eq!(restored.unknown, 4);
    assert!(!restored.position.is_behind(&reached) && restored.position.restores == 4);
    for key in [&approved.key, &proposed.key, &pending.key, &unknown.key] {
        let operation = store.get(key).await.expect("readable").expect("there");
        match &operation.state {
            State::Unknown(unknown) => assert_eq!(unknown.latest().cause, Cause::Restored, "{key}"),
            other => panic!("{key} is {}", other.name()),
        }
        verified(&store, &operation).await;
    }
    assert_eq!(store.get(&done.key).await.expect("readable"), Some(settled), "a receipt stays what it is");
    let claimed = applied(&store, step(&approved.key, vec![claim(2, "owner-2")])).await;
    assert!(matches!(claimed, Applied::Refused { .. }), "{claimed:?}");
}

pub(super) async fn while_a_restore_is_open_an_older_identity_opens_as_unknown(store: Arc<dyn Store>) {
    let restoring = Restoring { as_of: now(), reached: None };
    restore::restore(&*store, &SystemClock, restoring).await.expect("restored");
    let epoch = store.position().await.expect("readable").epoch.expect("it is open");
    assert_eq!(epoch.as_of, restoring.as_of);
    for command in [
        Sample::new("acme", "order-17").claimed("owner-1"),
        Sample::new("acme", "order-18").approved(),
        Sample::new("acme", "order-19").proposed(),
        // The id may be young: what it stands for need not be.
        Sample::new("acme", &young()).without_identity("mark", "group").claimed("owner-1"),
    ] {
        let operation = opened(&store, command).await;
        assert_eq!(operation.state.name(), "unknown", "{}", operation.key);
        assert_eq!(store.get(&operation.key).await.expect("readable"), Some(operation));
    }
    // Later than the restore by the clock of the store, to the millisecond in which ids are minted.
    let later = Timestamp::from_micros(epoch.restored_at.as_micros() + 2_000);
    while now() < later {
        tokio::task::yield_now().await;
    }
    let survivor = opened(&store, Sample::new("acme", &young()).claimed("owner-1")).await;
    assert_eq!(survivor.state.name(), "pending");
    restore::close(&*store, "reconciled by hand").await.expect("closed");
    assert_eq!(store.position().await.expect("readable").epoch, None);
    assert!(restore::close(&*store, "again").await.is_err(), "there is none to close");
    let after = opened(&store, Sample::new("acme", "order-20").claimed("owner-1")).await;
    assert_eq!(after.state.name(), "pending");
    let known = store.get(&key("acme", "order-17")).await.expect("readable").expect("there");
    assert_eq!(known.state.name(), "unknown", "what was doubted stays in doubt");
}
