//! Possible repetitions from hosts that send no identity (R16).
//!
//! Equal arguments are a reason to ask, never proof: two equal calls may be meant. So a suspicion holds a call back, and
//! only a person, or trusted configuration, says what it was.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::operation::Operation;
use crate::time::Timestamp;

/// How long after an earlier call was settled an equal one without identity is still held. Agents repeat themselves within
/// minutes: a model's retry, a framework's, a person's "did it work?".
pub const HOLD_WINDOW: Duration = Duration::from_secs(10 * 60);

/// The marks by which a later call without identity is compared with this one. Keyed hashes, so that they tell nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// Over tenant, tool and canonical arguments; no version, so that an upgrade does not free a repetition.
    pub mark: Fingerprint,
    /// Over tenant, tool and principal: a rephrased repetition has other arguments.
    pub group: Fingerprint,
    /// Over the tool's declared business-key fields, where it declares any.
    pub business: Option<Fingerprint>,
}

/// A call without identity as it is compared: its marks under every live fingerprint key, the current one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What its own operation would carry.
    pub suspicion: Suspicion,
    /// The same mark under every other live key.
    pub other_marks: Vec<Fingerprint>,
}

/// The earlier operation that a call without identity may be repeating, or nothing.
///
/// Equal arguments are held while the earlier one is unresolved and for [`HOLD_WINDOW`] after it was settled. Other
/// arguments for the same tool by the same principal are held only while the earlier one is unresolved, unless both name
/// different business keys.
#[must_use]
pub fn suspect<'a>(probe: &Probe, candidates: &'a [Operation], now: Timestamp) -> Option<&'a Operation> {
    candidates.iter().find(|earlier| {
        let Some(theirs) = &earlier.terms.suspicion else { return false };
        let equal = theirs.mark == probe.suspicion.mark || probe.other_marks.contains(&theirs.mark);
        match earlier.settled_at {
            Some(settled) => equal && now.since(settled) < HOLD_WINDOW,
            None => equal || (theirs.group == probe.suspicion.group && !different_business(theirs, &probe.suspicion)),
        }
    })
}

fn different_business(one: &Suspicion, other: &Suspicion) -> bool {
    match (&one.business, &other.business) {
        (Some(one), Some(other)) => one != other,
        (None | Some(_), None) | (None, Some(_)) => false,
    }
}
