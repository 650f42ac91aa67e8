//! The machine as it is: every reachable world, for each kind of destination.

use onceward_core::event::DispatchMark;
use onceward_model::bounds;
use onceward_model::destination::Kind;
use onceward_model::model::Life;
use stateright::{Checker, HasDiscoveries, Model};

fn explore(kind: Kind, dispatch: DispatchMark) {
    let life = Life::new(kind, dispatch, bounds::of_this_run(kind, dispatch), None).unwrap();
    let checker = life.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{kind:?}, {dispatch:?}: {} worlds, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn a_destination_that_recognises_keys_never_has_two_effects() {
    explore(Kind::Key, DispatchMark::WithClaim);
}

#[test]
fn a_destination_that_can_be_asked_never_has_two_effects() {
    explore(Kind::Lookup, DispatchMark::WithClaim);
}

#[test]
fn an_application_that_announces_its_runs_never_has_two_effects() {
    explore(Kind::Lookup, DispatchMark::Announced);
}

#[test]
fn a_destination_that_offers_nothing_never_has_two_effects() {
    explore(Kind::Nothing, DispatchMark::WithClaim);
}
