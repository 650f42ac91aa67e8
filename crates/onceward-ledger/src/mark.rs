//! By what an event of a destination names an operation: our outbound key, which is also the marker, or the destination's own
//! name of work that it has accepted.

use std::collections::BTreeSet;

use onceward_core::event::Cause;
use onceward_core::key::{OperationKey, OutboundKey};
use onceward_core::operation::Operation;
use sha2::{Digest, Sha256};

/// One such name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// The outbound key of one or more attempts.
    Key(OutboundKey),
    /// What the destination called the work it accepted.
    Handle(String),
    /// The operation beside which it was sent in observe mode.
    Beside(OperationKey),
}

impl Mark {
    /// What a store keeps of it: a hash, since a handle may be of any length and is not ours to repeat.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        match self {
            Self::Key(key) => {
                hash.update(b"onceward mark key v1\0");
                hash.update(key.as_str());
            }
            Self::Handle(handle) => {
                hash.update(b"onceward mark handle v1\0");
                hash.update(handle);
            }
            Self::Beside(key) => {
                hash.update(b"onceward mark beside v1\0");
                // No tenant's name has a line break in it.
                hash.update(key.tenant.as_str());
                hash.update(b"\n");
                hash.update(key.id.as_str());
            }
        }
        hash.finalize().into()
    }
}

/// By what this operation must be found from now on: the keys of its attempts that are or were uncertain, or that are disproved,
/// the handles of accepted work, and what it was sent beside in observe mode. None for an operation that was claimed and then succeeded,
/// so that it pays nothing.
///
/// A store adds them in the transaction that writes the operation, and keeps those it has.
#[must_use]
pub fn marks(operation: &Operation) -> BTreeSet<Mark> {
    let mut marks = BTreeSet::new();
    for one in operation.state.uncertain() {
        marks.extend(one.outbound_key.clone().map(Mark::Key));
        marks.extend(handle(&one.cause).map(|handle| Mark::Handle(handle.to_owned())));
    }
    let met = operation.terms.sighting.as_ref().and_then(|sighting| sighting.met.clone());
    marks.extend(met.map(|id| Mark::Beside(OperationKey { tenant: operation.key.tenant.clone(), id })));
    marks.extend(operation.history.disproved.iter().filter_map(|one| one.outbound_key.clone().map(Mark::Key)));
    marks
}

/// What the destination called the work that it accepted, where the cause says so.
pub(crate) fn handle(cause: &Cause) -> Option<&str> {
    match cause {
        Cause::Accepted { handle } => handle.as_deref(),
        // What is pointed at may be somebody else's.
        Cause::AlreadyExists { .. }
        | Cause::ReplyLost
        | Cause::ReplyUnreadable
        | Cause::ServerError
        | Cause::InFlightElsewhere
        | Cause::OwnerLost
        | Cause::SettleOverdue
        | Cause::KeyMismatch
        | Cause::FunctionFailed
        | Cause::AbsentOnce
        | Cause::Restored => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_a_handle_of_one_text_are_two_marks() {
        let key = Mark::Key(OutboundKey::parse("job-1").unwrap());
        assert_ne!(key.digest(), Mark::Handle("job-1".to_owned()).digest());
    }
}
