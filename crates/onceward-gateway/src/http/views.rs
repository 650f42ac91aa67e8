//! Operations and journal entries as JSON.

use onceward_core::journal::Entry;
use onceward_core::operation::Operation;
use onceward_core::outcome::Observed;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use serde_json::{Value, json};

/// An operation without its payloads: a row of a list.
pub(super) fn summary(operation: &Operation) -> Value {
    let Operation { key, binding, terms, history, state, created_at, updated_at, settled_at, .. } = operation;
    json!({
        "operation_id": key.id.as_str(),
        "tool": binding.tool.as_str(),
        "tool_version": binding.tool_version.as_str(),
        "title": terms.title,
        "principal": terms.principal.as_str(),
        "state": state.name(),
        "version": operation.journal.seq,
        "proposal": proposal(state),
        "second_of": terms.second_of,
        "observed": terms.sighting.as_ref().map(Observed::from),
        "approved_by": history.approved_by,
        "attempts": history.attempts,
        "next_check": next_check(state).map(text),
        "disagreement": disagreement(operation),
        "created_at": text(*created_at),
        "updated_at": text(*updated_at),
        "settled_at": settled_at.map(text),
    })
}

/// The contradiction that is recorded of an operation, with whether somebody has seen it.
pub(super) fn disagreement(operation: &Operation) -> Option<Value> {
    operation.history.disagreement.as_ref().map(|known| {
        json!({
            "kind": known.kind.name(),
            "first_at": text(known.first_at),
            "count": known.count,
            "acknowledged_at": known.acknowledged_at.map(text),
        })
    })
}

/// An operation with everything that a person needs to judge it.
pub(super) fn detail(operation: &Operation) -> Value {
    let mut view = summary(operation);
    let uncertain: Vec<Value> = operation
        .state
        .uncertain()
        .iter()
        .map(|attempt| {
            json!({
                "attempt": attempt.attempt.0,
                "cause": attempt.cause.name(),
                "outbound_key": attempt.outbound_key.as_ref().map(|key| key.as_str()),
                "claimed_at": text(attempt.claimed_at),
                "send_before": text(attempt.send_before),
                "ended_at": attempt.ended_at.map(text),
                "absences": attempt.absences,
            })
        })
        .collect();
    if let Some(members) = view.as_object_mut() {
        let arguments = operation.binding.arguments.present().map(|arguments| arguments.value().clone());
        members.insert("arguments".to_owned(), arguments.unwrap_or(Value::Null));
        members.insert("uncertain_attempts".to_owned(), uncertain.into());
        members.insert("fingerprint".to_owned(), operation.binding.fingerprint.to_string().into());
        members.insert("effect_id".to_owned(), json!(effect_id(&operation.state)));
        members.insert("corrects".to_owned(), json!(operation.terms.corrects));
        members.insert("deadline".to_owned(), json!(operation.terms.deadline.map(text)));
    }
    view
}

/// An entry of the journal. Its detail is JSON, or gone.
pub(super) fn entry(entry: &Entry) -> Value {
    let detail = entry
        .detail
        .as_ref()
        .map(|detail| serde_json::from_str::<Value>(detail).unwrap_or_else(|_| Value::String(detail.clone())));
    json!({
        "seq": entry.seq,
        "at": text(entry.at),
        "actor": entry.actor,
        "event": entry.event,
        "detail": detail,
        "hash": onceward_core::hex::encode(&entry.hash),
    })
}

/// Why it waits for approval, where it does.
fn proposal(state: &State) -> Option<Value> {
    match state {
        State::Proposed(proposal) => Some(json!({ "reason": proposal.reason })),
        State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}

fn next_check(state: &State) -> Option<Timestamp> {
    match state {
        State::Unknown(unknown) => unknown.next_check(),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}

fn effect_id(state: &State) -> Option<&str> {
    match state {
        State::Succeeded(success) => success.effect_id.as_ref().map(|id| id.as_str()),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}

pub(super) fn text(at: Timestamp) -> String {
    at.to_string()
}
