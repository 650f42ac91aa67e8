//! What evidence permits: when an uncertain attempt may be followed by another one, and when a lookup settles it.
//!
//! Three ways lead out of `unknown` without a person: the destination recognises the key ([`may_redrive`]), it does not have
//! the effect ([`absence`]), or it has it ([`presence`]). Each needs the destination's own word, and none follows from age.

mod absence;
mod generation;
mod lookup_answer;
mod presence;
mod redrive;
mod schedule;

#[cfg(test)]
mod tests;

pub use absence::{Absence, AbsenceCase, ChildProcess, Silence, absence};
pub use generation::next_generation;
pub use lookup_answer::{Completeness, Reading, compare, read_lookup};
pub use presence::{Candidate, Compared, Presence, RecognisedBy, presence};
pub use redrive::{NoRedrive, RedriveCase, RedrivePermit, ScopeEquality, may_redrive, recognised_until};
pub use schedule::{NextCheck, SettlesBy, next_check, next_check_after, next_lookup, pointed_at};

use core::time::Duration;

use crate::state::Uncertain;
use crate::time::Timestamp;

/// When the destination has surely finished with that attempt, given how long it may take: the later of the last moment at
/// which its first byte may have left and the end of its connection, where that was seen, and that long after it.
fn finished_at(attempt: &Uncertain, bound: Duration) -> Timestamp {
    let quiet = attempt.ended_at.map_or(attempt.send_before, |ended| ended.max(attempt.send_before));
    quiet.plus(bound)
}
