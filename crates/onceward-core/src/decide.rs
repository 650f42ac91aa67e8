//! What a repeated call is told. The one place where a duplicate is decided.

#[cfg(test)]
mod tests;

use crate::canonical::Canonical;
use crate::diff::{self, Differences};
use crate::fingerprint::{FingerprintKeys, UnknownKey};
use crate::key::ToolName;
use crate::operation::Operation;
use crate::state::State;

/// What a call says it wants, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The tool that it calls.
    pub tool: &'a ToolName,
    /// Its arguments.
    pub arguments: &'a Canonical,
}

/// What a call with a key that exists is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The key is bound to another intention. Nothing ran and nothing changed, in whatever state the operation is.
    Conflict(Conflict),
    /// It waits for a person's approval.
    ApprovalRequired,
    /// It may be dispatched: the caller may claim the next attempt.
    Ready,
    /// An attempt is running; the caller may join it.
    InProgress,
    /// An attempt may have had its effect; nobody may dispatch.
    Unknown,
    /// It was done: here is the receipt.
    Replay,
    /// The destination refused it: here is the refusal.
    Rejected,
    /// It will not be done.
    Closed,
    /// It is settled, and retention has erased the answer. The identity stays taken.
    Expired,
}

/// In what a call differs from the operation that holds its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The key belongs to a call of another tool.
    OtherTool,
    /// The arguments differ.
    OtherArguments(Differences),
    /// The arguments differ, and the stored ones were erased, so that it cannot be said in what.
    OtherArgumentsErased,
}

/// Decides what a call with the key of `operation` is told.
///
/// The identity is checked before anything else, in every state: a conflict never depends on where the operation stands
/// (promise 1). The comparison is made under the tool version, the compared fields and the fingerprint key that the
/// operation was made with, so that an upgrade or a key rotation does not turn a repetition into a conflict.
///
/// # Errors
/// [`UnknownKey`] when the fingerprint key of the operation is not configured: nothing can be said, and no dispatch is
/// permitted.
pub fn decide(operation: &Operation, request: Request<'_>, keys: &FingerprintKeys) -> Result<Decision, UnknownKey> {
    if let Some(conflict) = conflict(operation, request, keys)? {
        return Ok(Decision::Conflict(conflict));
    }
    Ok(standing(operation))
}

/// What a call that may see `operation`, and is about the same intention, is told.
#[must_use]
pub fn standing(operation: &Operation) -> Decision {
    if operation.is_expired() {
        return Decision::Expired;
    }
    match &operation.state {
        State::Proposed(_) => Decision::ApprovalRequired,
        State::Approved(_) => Decision::Ready,
        State::Pending(_) => Decision::InProgress,
        State::Unknown(_) => Decision::Unknown,
        State::Succeeded(_) => Decision::Replay,
        State::Rejected(_) => Decision::Rejected,
        State::Closed(_) => Decision::Closed,
    }
}

fn conflict(
    operation: &Operation,
    request: Request<'_>,
    keys: &FingerprintKeys,
) -> Result<Option<Conflict>, UnknownKey> {
    let bound = &operation.binding;
    if bound.tool != *request.tool {
        return Ok(Some(Conflict::OtherTool));
    }
    let fingerprint = keys.fingerprint(
        bound.fingerprint_key,
        bound.tool.as_str(),
        bound.tool_version.as_str(),
        request.arguments,
        &bound.comparison,
    )?;
    if fingerprint == bound.fingerprint {
        return Ok(None);
    }
    Ok(Some(match bound.arguments.present() {
        Some(stored) => Conflict::OtherArguments(diff::diff(stored, request.arguments, &bound.comparison)),
        None => Conflict::OtherArgumentsErased,
    }))
}
