//! When an unknown operation is looked at again, and by whom it settles. A message never promises a check that this does
//! not schedule.

use serde::{Deserialize, Serialize};

use super::absence::pause;
use super::redrive::{NoRedrive, RedriveCase, may_redrive};
use crate::classify::Next;
use crate::contract::{Contract, LookupKind, LookupRequest};
use crate::event::Cause;
use crate::limits::LOOKUP_SPAN_MAX;
use crate::state::Uncertain;
use crate::time::Timestamp;

/// Who settles an unknown operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettlesBy {
    /// A check that is scheduled.
    Automatic,
    /// A person; nothing is scheduled.
    Person,
}

/// The next thing that is done about an unknown operation without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextCheck {
    /// The same key is sent again, not before then.
    Redrive {
        /// When.
        at: Timestamp,
    },
    /// The destination is asked, not before then.
    Lookup {
        /// When.
        at: Timestamp,
    },
    /// Nothing: a person settles it.
    Person,
}

impl NextCheck {
    /// When, unless a person settles it.
    #[must_use]
    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::Redrive { at } | Self::Lookup { at } => Some(at),
            Self::Person => None,
        }
    }

    /// Who settles it.
    #[must_use]
    pub const fn settles_by(self) -> SettlesBy {
        match self {
            Self::Redrive { .. } | Self::Lookup { .. } => SettlesBy::Automatic,
            Self::Person => SettlesBy::Person,
        }
    }
}

/// What comes next: the same key if that is permitted or soon will be, else a question, else a person.
///
/// Questions grow rarer with the age of the latest attempt and end after [`LOOKUP_SPAN_MAX`]: an effect that has not shown
/// itself by then will be found by a person or not at all.
#[must_use]
pub fn next_check(case: &RedriveCase<'_>) -> NextCheck {
    let contract = case.pinned.narrower(case.current);
    let lookup = lookup_at(&contract, case);
    match may_redrive(case) {
        Ok(_) => NextCheck::Redrive { at: case.now },
        // Asking needs no permission, so it goes first where the other must wait for the same or longer.
        Err(NoRedrive::InFlight { until }) => match lookup {
            Some(at) if at <= until => NextCheck::Lookup { at },
            Some(_) | None => NextCheck::Redrive { at: until },
        },
        Err(
            NoRedrive::NothingUncertain
            | NoRedrive::KeyNotPlaced
            | NoRedrive::NotRecognised
            | NoRedrive::OnlySuccessesStored
            | NoRedrive::HorizonUnsaid
            | NoRedrive::HorizonPassed { .. }
            | NoRedrive::ClockWentBack { .. }
            | NoRedrive::InFlightUnsaid
            | NoRedrive::OtherScope
            | NoRedrive::ScopeUnprovable
            | NoRedrive::GenerationsMixed
            | NoRedrive::Hearsay
            | NoRedrive::KeyMismatch
            | NoRedrive::Accepted
            | NoRedrive::AlreadyExists,
        ) => lookup.map_or(NextCheck::Person, |at| NextCheck::Lookup { at }),
    }
}

/// What comes after an answer: its advice, as far as it is permitted.
///
/// An answer knows more than its cause does: a stored server error is not worth repeating, though the key is recognised.
#[must_use]
pub fn next_check_after(advice: Next, case: &RedriveCase<'_>) -> NextCheck {
    match advice {
        Next::RetrySameKey { not_before } | Next::Wait { not_before } => {
            let earliest = case.now.plus(not_before.unwrap_or_default());
            match next_check(case) {
                NextCheck::Redrive { at } => NextCheck::Redrive { at: at.max(earliest) },
                NextCheck::Lookup { at } => NextCheck::Lookup { at },
                NextCheck::Person => NextCheck::Person,
            }
        }
        Next::Poll | Next::LookupAfter(_) => {
            let contract = case.pinned.narrower(case.current);
            lookup_at(&contract, case).map_or(NextCheck::Person, |at| NextCheck::Lookup { at })
        }
        Next::Settle | Next::Operator | Next::RefreshCredential => NextCheck::Person,
    }
}

/// What comes next where the same key is not sent again by itself, for want of attempts or because redrives are stopped: a
/// question, else a person.
#[must_use]
pub fn next_lookup(case: &RedriveCase<'_>) -> NextCheck {
    let contract = case.pinned.narrower(case.current);
    lookup_at(&contract, case).map_or(NextCheck::Person, |at| NextCheck::Lookup { at })
}

/// What the destination said exists when it refused a repetition, if it said that.
#[must_use]
pub fn pointed_at(uncertain: &[Uncertain]) -> Option<&str> {
    uncertain.iter().rev().find_map(|attempt| match &attempt.cause {
        Cause::AlreadyExists { handle } => handle.as_deref(),
        Cause::ReplyLost
        | Cause::ReplyUnreadable
        | Cause::ServerError
        | Cause::Accepted { .. }
        | Cause::InFlightElsewhere
        | Cause::OwnerLost
        | Cause::SettleOverdue
        | Cause::KeyMismatch
        | Cause::FunctionFailed
        | Cause::AbsentOnce
        | Cause::Restored => None,
    })
}

/// When a lookup can next show something.
fn lookup_at(contract: &Contract, case: &RedriveCase<'_>) -> Option<Timestamp> {
    let lookup = contract.lookup.as_ref()?;
    let latest = case.uncertain.iter().max_by_key(|attempt| attempt.attempt)?;
    if lookup.request == LookupRequest::Nothing {
        return None;
    }
    // A question by a handle needs one: that of accepted work, or of what a refused repetition was pointed at.
    let by_handle = match lookup.kind {
        LookupKind::AsyncHandle => matches!(&latest.cause, Cause::Accepted { handle: Some(_) }),
        LookupKind::ByKeyViaConflict => pointed_at(case.uncertain).is_some(),
        LookupKind::ByKey
        | LookupKind::ByClientReference
        | LookupKind::ByInjectedMarker
        | LookupKind::ListScan
        | LookupKind::ByProviderIdOnly
        | LookupKind::EventStream
        | LookupKind::CancelByKey
        | LookupKind::None => false,
    };
    let answers = lookup.kind.finds_a_lost_effect() || by_handle;
    if !answers || latest.cause == Cause::KeyMismatch {
        return None;
    }
    let sent = latest.ended_at.unwrap_or(latest.claimed_at);
    let age = case.now.since(sent);
    if age >= LOOKUP_SPAN_MAX {
        return None;
    }
    let first = sent.plus(pause(lookup));
    if case.now < first {
        return Some(first);
    }
    Some(case.now.plus((age / 2).max(pause(lookup))))
}
