//! R10: when finding nothing proves that nothing happened.

use serde::{Deserialize, Serialize};

use super::redrive::ScopeEquality;
use super::{Completeness, finished_at};
use crate::contract::{AbsenceIsProof, Contract, Lookup, Recognised};
use crate::event::Cause;
use crate::state::Uncertain;
use crate::time::Timestamp;

/// Whether the destination is a child process, and whether it still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildProcess {
    /// The destination is not a child process.
    NotOne,
    /// It is gone: nothing that it was told can still happen.
    Gone,
    /// It may still be at work.
    MayLive,
}

/// A lookup that searched every key of the operation and found nothing.
#[derive(Clone, Copy, Debug)]
pub struct AbsenceCase<'a> {
    /// The less favourable of the pinned and the current contract.
    pub contract: &'a Contract,
    /// The attempts that may have had their effect.
    pub uncertain: &'a [Uncertain],
    /// When the lookup was *asked*: what happened between question and answer may be missing from it.
    pub asked_at: Timestamp,
    /// Whether the answer was the whole list.
    pub completeness: Completeness,
    /// Whether the destination is a child process.
    pub child: ChildProcess,
    /// Whether the question went to the place where the attempts went: what another account does not have, this one may.
    pub scope: ScopeEquality,
}

/// What an empty answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Nothing happened: every uncertain attempt had no effect.
    Proof,
    /// It counts; more are asked for.
    Counts {
        /// How many there are, this one included.
        so_far: u32,
        /// How many the contract asks for.
        needed: u32,
        /// When to ask again.
        next: Timestamp,
    },
    /// Nothing follows from it (row 31).
    SaysNothing {
        /// Why.
        why: Silence,
        /// When an answer would say something; `None` when never.
        earliest: Option<Timestamp>,
    },
}

/// Why an empty answer says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// No attempt is uncertain.
    NothingUncertain,
    /// The contract does not say that absence is proof.
    NotProof,
    /// The contract is not known well enough.
    Hearsay,
    /// The contract does not bound how long after its request an effect may happen.
    NoBound,
    /// The contract does not say how long an answer may lag.
    NoVisibilityDelay,
    /// The effect may still happen, or not be visible yet.
    TooEarly,
    /// The destination may have forgotten the key by now.
    HorizonPassed,
    /// Only a part of the list was seen.
    CutList,
    /// The destination accepted it and will do it later.
    Accepted,
    /// The destination has something under our key: it is not absent.
    KeyMismatch,
    /// The child process may still be at work.
    ChildMayLive,
    /// Another place was asked than the attempts went to, or nobody can say that it was the same.
    OtherScope,
}

/// What it says that a lookup found nothing.
#[must_use]
pub fn absence(case: &AbsenceCase<'_>) -> Absence {
    let earliest = match may_prove(case) {
        Ok(earliest) => earliest,
        Err(why) => return Absence::SaysNothing { why, earliest: None },
    };
    match case.scope {
        ScopeEquality::Same => {}
        ScopeEquality::Different | ScopeEquality::Unprovable => {
            return Absence::SaysNothing { why: Silence::OtherScope, earliest: None };
        }
    }
    if case.completeness == Completeness::Cut {
        return Absence::SaysNothing { why: Silence::CutList, earliest: Some(earliest) };
    }
    if case.child == ChildProcess::MayLive {
        return Absence::SaysNothing { why: Silence::ChildMayLive, earliest: Some(earliest) };
    }
    if case.asked_at < earliest {
        return Absence::SaysNothing { why: Silence::TooEarly, earliest: Some(earliest) };
    }
    let Some(lookup) = &case.contract.lookup else {
        return Absence::SaysNothing { why: Silence::NotProof, earliest: None };
    };
    // Two answers within the time that an answer may lag are one look at one snapshot.
    let again = case.uncertain.iter().filter_map(|attempt| attempt.absent_at).max().map(|at| at.plus(pause(lookup)));
    if let Some(again) = again.filter(|again| case.asked_at < *again) {
        return Absence::SaysNothing { why: Silence::TooEarly, earliest: Some(again) };
    }
    // The attempt that was missed least often decides: the proof is about all of them.
    let before = case.uncertain.iter().map(|attempt| attempt.absences).min().unwrap_or(0);
    let so_far = before.saturating_add(1);
    if so_far >= lookup.absences_required {
        return Absence::Proof;
    }
    Absence::Counts { so_far, needed: lookup.absences_required, next: case.asked_at.plus(pause(lookup)) }
}

/// The first moment at which an empty answer can count, if there is one.
fn may_prove(case: &AbsenceCase<'_>) -> Result<Timestamp, Silence> {
    let contract = case.contract;
    let lookup = contract.lookup.as_ref().ok_or(Silence::NotProof)?;
    if case.uncertain.is_empty() {
        return Err(Silence::NothingUncertain);
    }
    let within_horizon = match lookup.absence_is_proof {
        AbsenceIsProof::WithinHorizon => true,
        AbsenceIsProof::AfterBound => false,
        AbsenceIsProof::Never | AbsenceIsProof::NotApplicable => return Err(Silence::NotProof),
    };
    if !contract.confidence_in("lookup").permits_a_second_dispatch() {
        return Err(Silence::Hearsay);
    }
    for attempt in case.uncertain {
        match attempt.cause {
            Cause::Accepted { .. } => return Err(Silence::Accepted),
            Cause::KeyMismatch | Cause::AlreadyExists { .. } => return Err(Silence::KeyMismatch),
            Cause::ReplyLost
            | Cause::ReplyUnreadable
            | Cause::ServerError
            | Cause::InFlightElsewhere
            | Cause::OwnerLost
            | Cause::SettleOverdue
            | Cause::FunctionFailed
            | Cause::AbsentOnce
            | Cause::Restored => {}
        }
    }
    let bound = contract.in_flight.bound.ok_or(Silence::NoBound)?.duration();
    let delay = lookup.shown_after().ok_or(Silence::NoVisibilityDelay)?.duration();
    let finished = case.uncertain.iter().map(|attempt| finished_at(attempt, bound)).max();
    let earliest = finished.ok_or(Silence::NothingUncertain)?.plus(delay);
    if within_horizon {
        let first = case.uncertain.iter().map(|attempt| attempt.claimed_at).min().ok_or(Silence::NothingUncertain)?;
        let remembered = match contract.horizon.recognised() {
            Recognised::Always => true,
            Recognised::Never => false,
            Recognised::For(time) => first <= case.asked_at && case.asked_at < first.plus(time),
        };
        if !remembered {
            return Err(Silence::HorizonPassed);
        }
    }
    Ok(earliest)
}

/// How long to wait between two empty answers: as long as an answer may lag, so that both do not read the same snapshot.
pub(super) fn pause(lookup: &Lookup) -> core::time::Duration {
    lookup
        .shown_after()
        .map_or(crate::limits::LOOKUP_PAUSE_MIN, |delay| delay.duration().max(crate::limits::LOOKUP_PAUSE_MIN))
}
