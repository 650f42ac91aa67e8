//! Which earlier operation holds a call without identity, for every state and manner.

use super::*;
use crate::event::{CloseReason, Event, PurgeScope};
use crate::key::OperationId;
use crate::samples::{approved, now, operations, second};

fn mark(byte: u8) -> Fingerprint {
    Fingerprint::from_bytes([byte; 32])
}

fn suspicion(own: u8, group: u8, business: Option<u8>) -> Suspicion {
    Suspicion { mark: mark(own), group: mark(group), business: business.map(mark) }
}

fn probe(manner: Manner) -> Probe {
    Probe { suspicion: suspicion(1, 2, None), other_marks: vec![mark(9)], manner }
}

fn with(operation: &Operation, theirs: Suspicion) -> Operation {
    let mut operation = operation.clone();
    operation.terms.suspicion = Some(theirs);
    operation
}

const MANNERS: [Manner; 3] = [Manner::Sent, Manner::Proposed, Manner::Second];

fn holds(manner: Manner, earlier: &Operation, at: Timestamp) -> bool {
    suspect(&probe(manner), std::slice::from_ref(earlier), at).is_some()
}

#[test]
fn an_equal_call_is_held_while_the_first_is_unresolved_however_it_comes_in() {
    for (name, operation) in operations().into_iter().filter(|(_, operation)| !operation.is_settled()) {
        for manner in MANNERS {
            for own in [1, 9] {
                assert!(holds(manner, &with(&operation, suspicion(own, 3, None)), second(9_000)), "{name}, {manner:?}");
            }
        }
    }
}

#[test]
fn what_is_settled_holds_an_equal_call_for_the_window_unless_a_second_one_is_meant() {
    for (name, operation) in operations().into_iter().filter(|(_, operation)| operation.is_settled()) {
        let earlier = with(&operation, suspicion(1, 2, None));
        let settled = earlier.settled_at.unwrap();
        let end = settled.plus(HOLD_WINDOW);
        let let_go = never_wanted(&earlier.state);
        for manner in [Manner::Sent, Manner::Proposed] {
            assert_eq!(holds(manner, &earlier, settled), !let_go, "{name}");
            assert_eq!(holds(manner, &earlier, end.minus(Duration::from_micros(1))), !let_go, "{name}");
            assert!(!holds(manner, &earlier, end), "{name}");
        }
        assert!(!holds(Manner::Second, &earlier, settled), "{name}");
    }
}

#[test]
fn what_its_caller_let_go_before_anything_was_sent_holds_nothing() {
    for (reason, lets_go) in [
        (CloseReason::Withdrawn, true),
        (CloseReason::DeadlinePassed, true),
        (CloseReason::Declined, false),
        (CloseReason::ConfirmedNotDone, false),
    ] {
        let closed = approved().step(&Event::Close(reason), now()).unwrap();
        let erased = closed.clone().step(&Event::Purge(PurgeScope::Everything), now()).unwrap();
        let replaced = Event::Supersede { by: OperationId::parse("other").unwrap(), note: None };
        for closed in [closed, erased] {
            assert_eq!(holds(Manner::Sent, &with(&closed, suspicion(1, 2, None)), now()), !lets_go, "{reason:?}");
        }
        let replaced = approved().step(&replaced, now()).unwrap();
        assert!(holds(Manner::Sent, &with(&replaced, suspicion(1, 2, None)), now()));
    }
}

#[test]
fn a_rephrased_call_is_held_by_what_is_unresolved_and_by_nothing_that_is_settled() {
    for (name, operation) in operations() {
        let earlier = with(&operation, suspicion(5, 2, None));
        let risky = may_have_happened(&operation.state);
        assert_eq!(holds(Manner::Sent, &earlier, now()), !operation.is_settled(), "{name}");
        // Where a person sees it first, or has said what is meant, only what may have happened is in its way.
        assert_eq!(holds(Manner::Proposed, &earlier, now()), risky, "{name}");
        assert_eq!(holds(Manner::Second, &earlier, now()), risky, "{name}");
        let others = with(&operation, suspicion(5, 6, None));
        assert!(!holds(Manner::Sent, &others, now()), "another principal's, {name}");
    }
}

#[test]
fn two_business_keys_that_differ_are_two_businesses() {
    let lost = operations().into_iter().find(|(_, operation)| matches!(operation.state, State::Unknown(_))).unwrap().1;
    let rephrased = |ours: Option<u8>, theirs: Option<u8>| {
        let probe = Probe { suspicion: suspicion(1, 2, ours), other_marks: Vec::new(), manner: Manner::Sent };
        suspect(&probe, &[with(&lost, suspicion(5, 2, theirs))], now()).is_some()
    };
    assert!(!rephrased(Some(7), Some(8)));
    for (ours, theirs) in [(Some(7), Some(7)), (Some(7), None), (None, Some(7)), (None, None)] {
        assert!(rephrased(ours, theirs), "{ours:?} {theirs:?}");
    }
}

#[test]
fn of_several_the_one_that_may_have_happened_is_named_before_one_that_waits_and_one_that_is_settled() {
    let all = operations();
    let find =
        |wanted: fn(&State) -> bool| all.iter().find(|(_, operation)| wanted(&operation.state)).unwrap().1.clone();
    let settled = with(&find(|state| matches!(state, State::Succeeded(_))), suspicion(1, 2, None));
    let waiting = with(&find(|state| matches!(state, State::Approved(_))), suspicion(1, 2, None));
    let rephrased = with(&find(|state| matches!(state, State::Unknown(_))), suspicion(5, 2, None));
    let both = [settled.clone(), waiting.clone()];
    assert_eq!(suspect(&probe(Manner::Sent), &both, now()), Some(&waiting), "it is gone on with");
    let all = [settled, waiting.clone(), rephrased.clone()];
    assert_eq!(suspect(&probe(Manner::Sent), &all, now()), Some(&rephrased), "and never beside an unknown");
    assert_eq!(unresolved_beside(&suspicion(1, 2, None), &all), Some(&rephrased));
    assert_eq!(unresolved_beside(&suspicion(1, 2, None), &all[..2]), None);
    assert_eq!(unresolved_beside(&suspicion(1, 6, None), &all), None);
}
