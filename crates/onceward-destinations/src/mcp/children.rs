//! Which child processes a server has had, and whether the one that may have got an attempt is gone (R10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use onceward_core::evidence::ChildProcess;
use onceward_core::time::Timestamp;
use onceward_ledger::limits::SEND_WITHIN;

use super::stdio::Gone;
use crate::limits::HANDED_MAX;

/// The children of one server since this process began.
#[derive(Debug, Default)]
pub(crate) struct Children {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the first of ours was started.
    first: Option<Timestamp>,
    /// When those were started that are not surely gone.
    may_live: Vec<Timestamp>,
    /// Which children attempts were handed to, by the time of their claim: those that a store claims together share it. The oldest
    /// are forgotten first.
    handed: BTreeMap<Timestamp, BTreeSet<Timestamp>>,
}

impl Children {
    /// A child is about to be started.
    pub(crate) fn started(&self, at: Timestamp) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.first.get_or_insert(at);
        seen.may_live.push(at);
    }

    /// The child that was started then has ended.
    pub(crate) fn ended(&self, started_at: Timestamp, gone: Gone) {
        match gone {
            Gone::Surely => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(at) = seen.may_live.iter().position(|at| *at == started_at) {
                    seen.may_live.remove(at);
                }
            }
            // It stays among those that may live, for as long as this process does.
            Gone::Perhaps => {}
        }
    }

    /// An attempt that was claimed then is about to be handed to the child that was started then.
    pub(crate) fn handed(&self, claimed_at: Timestamp, started_at: Timestamp) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.handed.entry(claimed_at).or_default().insert(started_at);
        if seen.handed.len() > HANDED_MAX {
            seen.handed.pop_first();
        }
    }

    /// What is known of the child that may have got an attempt that was claimed then.
    pub(crate) fn of_attempt(&self, claimed_at: Timestamp) -> ChildProcess {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(children) = seen.handed.get(&claimed_at) {
            return match children.iter().any(|child| seen.may_live.contains(child)) {
                true => ChildProcess::MayLive,
                false => ChildProcess::Gone,
            };
        }
        // A child of an earlier gateway: it ended with its pipe, or did not. Nobody here has seen it end.
        if seen.first.is_none_or(|first| first > claimed_at) {
            return ChildProcess::MayLive;
        }
        // One that was started after the last moment to send has never got it.
        let last = claimed_at.plus(SEND_WITHIN);
        match seen.may_live.iter().any(|started| *started <= last) {
            true => ChildProcess::MayLive,
            false => ChildProcess::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_child_is_gone_when_every_one_that_could_have_got_the_attempt_is() {
        let children = Children::default();
        assert_eq!(
            children.of_attempt(at(100)),
            ChildProcess::MayLive,
            "nothing is known of an earlier gateway's child"
        );
        children.started(at(100));
        assert_eq!(children.of_attempt(at(50)), ChildProcess::MayLive, "it may have been an earlier gateway's");
        assert_eq!(children.of_attempt(at(105)), ChildProcess::MayLive);
        children.ended(at(100), Gone::Surely);
        assert_eq!(children.of_attempt(at(105)), ChildProcess::Gone);
        // The next child could still have been handed an attempt of second 105, but not one of second 100.
        children.started(at(112));
        assert_eq!(children.of_attempt(at(105)), ChildProcess::MayLive);
        assert_eq!(children.of_attempt(at(100)), ChildProcess::Gone);
    }

    #[test]
    fn an_attempt_that_was_handed_over_is_asked_about_by_its_own_child_alone() {
        let children = Children::default();
        children.started(at(100));
        children.handed(at(105), at(100));
        children.ended(at(100), Gone::Surely);
        children.started(at(106));
        assert_eq!(children.of_attempt(at(105)), ChildProcess::Gone);
        assert_eq!(children.of_attempt(at(104)), ChildProcess::MayLive, "of this one nothing was noted");
        for claimed in 0..i64::try_from(HANDED_MAX).unwrap() {
            children.handed(at(1000 + claimed), at(106));
        }
        assert_eq!(children.of_attempt(at(105)), ChildProcess::MayLive, "what is forgotten is not known");
    }

    #[test]
    fn of_attempts_that_were_claimed_together_each_child_must_be_gone() {
        let children = Children::default();
        children.started(at(100));
        children.handed(at(105), at(100));
        children.ended(at(100), Gone::Perhaps);
        children.started(at(106));
        children.handed(at(105), at(106));
        children.ended(at(106), Gone::Surely);
        assert_eq!(children.of_attempt(at(105)), ChildProcess::MayLive, "the first of them may live");
    }

    #[test]
    fn a_child_that_was_not_seen_to_end_may_live() {
        let children = Children::default();
        children.started(at(100));
        children.ended(at(100), Gone::Perhaps);
        assert_eq!(children.of_attempt(at(105)), ChildProcess::MayLive);
    }
}
