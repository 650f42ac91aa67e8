//! What a caller is told: one envelope with the same facts on every surface.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::decide::{Conflict, Decision};
use crate::diff::Difference;
use crate::event::NoEffect;
pub use crate::evidence::SettlesBy;
use crate::key::OperationId;
use crate::operation::{Dispatcher, Operation, Pin};
use crate::receipt::Answer;
use crate::sighting::Sighting;
use crate::state::{Closure, ClosureReason, Finding, Hold, State};
use crate::time::Timestamp;

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done by this call.
    Executed,
    /// An earlier call had done it; here is its receipt.
    Replayed,
    /// An earlier attempt was uncertain; a later one, or evidence, established that it was done.
    Recovered,
    /// An attempt is running.
    InProgress,
    /// It may have been done; nobody sends it again before evidence or a person settles it.
    Unknown,
    /// The destination refused it, and nothing happened.
    Rejected,
    /// It will not be done.
    Closed,
    /// The operation id belongs to another intention.
    Conflict,
    /// A person must allow it first.
    ApprovalRequired,
    /// It looks like a repetition of an earlier call, and its host sends no identity.
    PossibleDuplicate,
    /// Surely nothing was sent. Call again with the same identity.
    NotDispatched,
    /// It was settled, and its answer has been erased.
    Expired,
}

impl Outcome {
    /// All of them, in the order of the documents.
    pub const ALL: [Self; 12] = [
        Self::Executed,
        Self::Replayed,
        Self::Recovered,
        Self::InProgress,
        Self::Unknown,
        Self::Rejected,
        Self::Closed,
        Self::Conflict,
        Self::ApprovalRequired,
        Self::PossibleDuplicate,
        Self::NotDispatched,
        Self::Expired,
    ];

    /// The word for it on every surface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::Recovered => "recovered",
            Self::InProgress => "in_progress",
            Self::Unknown => "unknown",
            Self::Rejected => "rejected",
            Self::Closed => "closed",
            Self::Conflict => "conflict",
            Self::ApprovalRequired => "approval_required",
            Self::PossibleDuplicate => "possible_duplicate",
            Self::NotDispatched => "not_dispatched",
            Self::Expired => "expired",
        }
    }

    /// Whether it was done and the receipt is in the answer.
    #[must_use]
    pub const fn is_success(self) -> bool {
        match self {
            Self::Executed | Self::Replayed | Self::Recovered => true,
            Self::InProgress
            | Self::Unknown
            | Self::Rejected
            | Self::Closed
            | Self::Conflict
            | Self::ApprovalRequired
            | Self::PossibleDuplicate
            | Self::NotDispatched
            | Self::Expired => false,
        }
    }
}

/// Whether anything was sent for this operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatched {
    /// Surely not, or surely without effect.
    No,
    /// Yes, and its answer is known.
    Yes,
    /// It may have been.
    Maybe,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSource {
    /// Onceward itself.
    Gateway,
    /// The destination, word for word.
    Destination,
}

/// What the caller should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Nothing.
    None,
    /// Wait, then repeat the same call with the same identity.
    Wait,
    /// Ask for the status of this operation.
    CheckOperationStatus,
    /// Ask a person with the authority.
    AskOperator,
    /// Correct the input, and name it a new operation.
    CorrectInput,
    /// Ask for approval.
    RequestApproval,
}

/// What a caller is told, the same on every surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// How the call ended.
    pub outcome: Outcome,
    /// The operation; `None` only where the call wrote none (a held possible duplicate).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    /// Its state; empty, and left out, where the key belongs to a call of another tool, of which this caller is told nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Whether anything was sent.
    pub dispatched: Dispatched,
    /// Who says so.
    pub source: AnswerSource,
    /// Whether an earlier call had made the answer.
    pub replayed: bool,
    /// When the operation was first seen (RFC 3339); left out like the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_seen_at: String,
    /// When the answer was received (RFC 3339): what was done then, not what is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// What to do now.
    pub next_action: NextAction,
    /// When the next check is scheduled (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_after: Option<String>,
    /// Who settles it, where it is not settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settles_by: Option<SettlesBy>,
    /// One plain sentence or more.
    pub message: String,
    /// The fields that differ, for a conflict; names and kinds, never values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Evidence that contradicts what is recorded, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
    /// In observe mode: what the call would have come to if the rules bound it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// The answer of the destination, where there is one to give. Surfaces render it; it is not part of the JSON envelope.
    #[serde(skip)]
    pub answer: Option<Answer>,
}

/// What a call would have come to, had the rules bound it. It was sent all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// In one word ([`WouldBe::name`](crate::sighting::WouldBe::name)).
    pub would: String,
    /// The operation that it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<OperationId>,
}

impl From<&Sighting> for Observed {
    fn from(sighting: &Sighting) -> Self {
        Self { would: sighting.would.name().to_owned(), met: sighting.met.clone() }
    }
}

/// Whether the call that is answered made the attempt that settled the operation, or found it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This call executed it.
    Executor,
    /// This call found the operation.
    Repeater,
}

/// What the caller of `operation` is told.
#[must_use]
pub fn report(operation: &Operation, decision: &Decision, role: Role) -> Envelope {
    let outcome = outcome_of(operation, decision, role);
    let answer = match &operation.state {
        State::Succeeded(success) if outcome.is_success() => success.answer.present().cloned(),
        State::Rejected(refused) if outcome == Outcome::Rejected => refused.answer.present().cloned(),
        State::Succeeded(_)
        | State::Rejected(_)
        | State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Closed(_) => None,
    };
    let (check_after, settles_by) = schedule(operation, outcome);
    let envelope = Envelope {
        outcome,
        operation_id: Some(operation.key.id.clone()),
        state: operation.state.name().to_owned(),
        attempts: operation.history.attempts,
        dispatched: dispatched(operation, outcome),
        source: if answer.is_some() { AnswerSource::Destination } else { AnswerSource::Gateway },
        replayed: role == Role::Repeater && (outcome.is_success() || outcome == Outcome::Rejected),
        first_seen_at: operation.created_at.to_string(),
        as_of: match &operation.state {
            State::Succeeded(success) if outcome.is_success() => Some(success.received_at.to_string()),
            State::Rejected(refused) if outcome == Outcome::Rejected => Some(refused.received_at.to_string()),
            State::Succeeded(_)
            | State::Rejected(_)
            | State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Closed(_) => None,
        },
        next_action: next_action(operation, outcome),
        check_after: check_after.map(|at| at.to_string()),
        settles_by,
        message: message(operation, decision, outcome),
        differences: match decision {
            Decision::Conflict(Conflict::OtherArguments(differences)) => differences.compared.clone(),
            Decision::Conflict(Conflict::OtherTool | Conflict::OtherArgumentsErased)
            | Decision::ApprovalRequired
            | Decision::Ready
            | Decision::InProgress
            | Decision::Unknown
            | Decision::Replay
            | Decision::Rejected
            | Decision::Closed
            | Decision::Expired => Vec::new(),
        },
        disagreement: match outcome {
            // To whom the key does not belong, nothing is said about the operation.
            Outcome::Conflict => None,
            _ => operation.history.disagreement.as_ref().map(|known| known.kind.name().to_owned()),
        },
        observed: match role {
            Role::Executor => operation.terms.sighting.as_ref().map(Observed::from),
            Role::Repeater => None,
        },
        answer,
    };
    match decision {
        Decision::Conflict(Conflict::OtherTool) => {
            Envelope { state: String::new(), attempts: 0, first_seen_at: String::new(), ..envelope }
        }
        Decision::Conflict(Conflict::OtherArguments(_) | Conflict::OtherArgumentsErased)
        | Decision::ApprovalRequired
        | Decision::Ready
        | Decision::InProgress
        | Decision::Unknown
        | Decision::Replay
        | Decision::Rejected
        | Decision::Closed
        | Decision::Expired => envelope,
    }
}

/// Whether the caller of a held call may see the operation that it seems to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// It may: the answer names it and carries its receipt.
    Shown,
    /// It may not: the answer says only that something like it exists.
    Hidden,
}

/// What the caller of a held possible duplicate is told. Nothing was written and nothing was sent.
#[must_use]
pub fn possible_duplicate(earlier: &Operation, visibility: Visibility) -> Envelope {
    let decision = crate::decide::standing(earlier);
    let mut envelope = report(earlier, &decision, Role::Repeater);
    envelope.outcome = Outcome::PossibleDuplicate;
    envelope.replayed = false;
    let seen = earlier.created_at;
    let (settled, next_action) = match decision {
        Decision::Replay => ("It was done, and its receipt is attached", NextAction::RequestApproval),
        Decision::Rejected => ("The destination refused it", NextAction::RequestApproval),
        Decision::Closed | Decision::Expired => ("It is settled", NextAction::RequestApproval),
        Decision::Unknown => ("It may have been done", NextAction::CheckOperationStatus),
        Decision::InProgress => ("It is running", NextAction::CheckOperationStatus),
        Decision::Ready | Decision::ApprovalRequired | Decision::Conflict(_) => {
            ("It is not settled yet", NextAction::CheckOperationStatus)
        }
    };
    envelope.next_action = next_action;
    let way_out = match next_action {
        NextAction::RequestApproval => {
            "If a second one is truly meant, a person must allow it: ask for that with POST /v1/approvals or `onceward approvals \
             request`, and this operation id; or the application sends an operation id of its own for it."
        }
        _ => "Until it is settled nothing like it is sent, whatever anybody approves.",
    };
    if visibility == Visibility::Shown {
        envelope.message = format!(
            "Nothing was sent. This call looks like a repetition of the one made at {seen}, and the host sends no operation \
             identity. {settled}. Do not send it again with other words. {way_out}"
        );
    } else {
        // The same answer whatever became of the earlier call: a caller that may not see it learns only that it exists.
        envelope = Envelope {
            next_action: NextAction::AskOperator,
            operation_id: None,
            state: String::new(),
            attempts: 0,
            dispatched: Dispatched::No,
            source: AnswerSource::Gateway,
            first_seen_at: String::new(),
            as_of: None,
            check_after: None,
            settles_by: None,
            message: "Nothing was sent. This call looks like a repetition of an earlier one, and the host sends no operation \
                      identity. Ask a person, or have the application send an operation id."
                .to_owned(),
            differences: Vec::new(),
            disagreement: None,
            observed: None,
            answer: None,
            ..envelope
        };
    }
    envelope
}

fn outcome_of(operation: &Operation, decision: &Decision, role: Role) -> Outcome {
    match decision {
        Decision::Conflict(_) => Outcome::Conflict,
        Decision::ApprovalRequired => Outcome::ApprovalRequired,
        Decision::Ready => Outcome::NotDispatched,
        Decision::InProgress => Outcome::InProgress,
        Decision::Unknown => Outcome::Unknown,
        Decision::Rejected => Outcome::Rejected,
        Decision::Closed => Outcome::Closed,
        Decision::Expired => Outcome::Expired,
        Decision::Replay => match (&operation.state, role) {
            (State::Succeeded(success), Role::Executor) if success.recovered => Outcome::Recovered,
            (_, Role::Executor) => Outcome::Executed,
            (_, Role::Repeater) => Outcome::Replayed,
        },
    }
}

fn dispatched(operation: &Operation, outcome: Outcome) -> Dispatched {
    // About an operation that is not the caller's own nothing is told but that this call sent nothing.
    if outcome == Outcome::Conflict {
        return Dispatched::No;
    }
    match &operation.state {
        State::Proposed(_) | State::Approved(_) => Dispatched::No,
        State::Pending(_) | State::Unknown(_) => Dispatched::Maybe,
        State::Succeeded(_) | State::Rejected(_) => Dispatched::Yes,
        State::Closed(closure) if closure.abandoned.is_empty() => Dispatched::No,
        State::Closed(_) => Dispatched::Maybe,
    }
}

fn schedule(operation: &Operation, outcome: Outcome) -> (Option<Timestamp>, Option<SettlesBy>) {
    match outcome {
        Outcome::Unknown => match &operation.state {
            State::Unknown(unknown) => match unknown.next_check() {
                Some(at) => (Some(at), Some(SettlesBy::Automatic)),
                None => (None, Some(SettlesBy::Person)),
            },
            State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => (None, None),
        },
        Outcome::InProgress => (None, Some(SettlesBy::Automatic)),
        Outcome::NotDispatched if operation.terms.dispatch == Dispatcher::Auto => (None, Some(SettlesBy::Automatic)),
        Outcome::ApprovalRequired => (None, Some(SettlesBy::Person)),
        Outcome::Executed
        | Outcome::Replayed
        | Outcome::Recovered
        | Outcome::Rejected
        | Outcome::Closed
        | Outcome::Conflict
        | Outcome::PossibleDuplicate
        | Outcome::NotDispatched
        | Outcome::Expired => (None, None),
    }
}

fn next_action(operation: &Operation, outcome: Outcome) -> NextAction {
    match outcome {
        Outcome::Executed | Outcome::Replayed | Outcome::Recovered | Outcome::Closed | Outcome::Expired => {
            NextAction::None
        }
        Outcome::InProgress | Outcome::NotDispatched => NextAction::Wait,
        Outcome::Unknown => match &operation.state {
            State::Unknown(unknown) if unknown.next_check().is_some() => NextAction::CheckOperationStatus,
            State::Unknown(_)
            | State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => NextAction::AskOperator,
        },
        Outcome::Rejected => NextAction::CorrectInput,
        Outcome::Conflict => NextAction::CorrectInput,
        Outcome::ApprovalRequired => NextAction::RequestApproval,
        Outcome::PossibleDuplicate => NextAction::AskOperator,
    }
}

fn message(operation: &Operation, decision: &Decision, outcome: Outcome) -> String {
    match outcome {
        Outcome::Executed => "It was done.".to_owned(),
        Outcome::Replayed => match &operation.state {
            State::Succeeded(success) => format!(
                "It had been done already at {}; this is the receipt of that time, and nothing was sent now.",
                success.received_at
            ),
            _ => "It had been done already; nothing was sent now.".to_owned(),
        },
        Outcome::Recovered => "It was done: an earlier attempt was uncertain, and its success is established now.".to_owned(),
        Outcome::InProgress => {
            "An attempt is running. Nothing more was sent; repeat the same call with the same operation id to get its result."
                .to_owned()
        }
        Outcome::Unknown => unknown_message(operation),
        Outcome::Rejected => {
            "The destination refused it, and nothing happened. The same call will be refused again; a corrected one is a new \
             operation with a new operation id."
                .to_owned()
        }
        Outcome::Closed => closed_message(operation),
        Outcome::Conflict => match decision {
            Decision::Conflict(Conflict::OtherTool) => {
                "Nothing was sent: this operation id belongs to a call of another tool. Use a new operation id for a new \
                 intention. A header that is the same for every call of a client does this too."
                    .to_owned()
            }
            _ => "Nothing was sent: this operation id belongs to a call with other arguments. Repeat the original arguments to get \
                  its result, or use a new operation id for a new intention. A header that is the same for every call of a \
                  client does this too."
                .to_owned(),
        },
        Outcome::ApprovalRequired => {
            "Nothing was sent: a person must approve this operation first. Repeat the same call afterwards, with the same \
             operation id where it has one."
                .to_owned()
        }
        Outcome::PossibleDuplicate => "Nothing was sent: this call looks like a repetition.".to_owned(),
        Outcome::NotDispatched => not_dispatched_message(operation),
        Outcome::Expired => {
            "It was settled, and its answer has been erased. The operation id stays taken; nothing was sent."
                .to_owned()
        }
    }
}

fn unknown_message(operation: &Operation) -> String {
    let State::Unknown(unknown) = &operation.state else {
        return "It may have been done. Nothing more was sent.".to_owned();
    };
    let latest = unknown.latest();
    let is_own = operation.terms.pin.as_ref().is_some_and(Pin::is_own_function);
    let until = match unknown.next_check() {
        Some(at) if is_own => {
            format!(
                "From {at} on its application is to look for it (run_due_lookups, runDueLookups); what that does not settle, a person must."
            )
        }
        Some(at) => format!("The next automatic check is at {at}; what checks do not settle, a person must."),
        None => "A person must settle it; no automatic check is scheduled.".to_owned(),
    };
    format!(
        "The write may have happened: it was sent at {} and its result is not known ({}). Repeating is blocked, unless \
         the destination is known to recognise the same key; neither a new \
         operation id nor changed arguments is the way. Tell nobody that it succeeded or that it failed. {until}",
        latest.claimed_at,
        latest.cause.name()
    )
}

fn closed_message(operation: &Operation) -> String {
    let State::Closed(Closure { reason, abandoned }) = &operation.state else {
        return "It will not be done.".to_owned();
    };
    let why = match reason {
        ClosureReason::Close(reason) => match reason {
            crate::event::CloseReason::Declined => "its approval was declined".to_owned(),
            crate::event::CloseReason::Withdrawn => "it was withdrawn before anything was sent".to_owned(),
            crate::event::CloseReason::DeadlinePassed => "its deadline passed before anything was sent".to_owned(),
            crate::event::CloseReason::ConfirmedNotDone => "a person established that it was not done".to_owned(),
        },
        ClosureReason::SupersededBy(other) => format!("operation {other} replaces it"),
    };
    if abandoned.is_empty() {
        format!("It will not be done: {why}.")
    } else {
        format!("It will not be done again: {why}. Whether an earlier attempt had its effect was not established.")
    }
}

fn not_dispatched_message(operation: &Operation) -> String {
    let why = match &operation.state {
        State::Approved(ready) => match ready.hold {
            Some(Hold::CredentialRefused) => "The destination refused our credential",
            Some(Hold::Unreachable) => "The destination could not be reached, or turned the call away",
            None => "It was not dispatched",
        },
        _ => "It was not dispatched",
    };
    match operation.terms.dispatch {
        Dispatcher::Caller => {}
        Dispatcher::Auto => {
            return format!(
                "{why} yet. It is in the outbox: the dispatcher sends it, after what comes before it in its lane where it has one. \
                 Repeating the call sends nothing; it tells how it stands."
            );
        }
    }
    // A person answers for it, who need not know it as surely as a destination that turned it away.
    let decided = operation.history.disproved.iter().any(|one| one.finding == Finding::NoEffect(NoEffect::Decided));
    let what = if decided { "A person decided that it counts as not done" } else { "Surely nothing happened" };
    format!("{why}. {what}. Repeat the same call with the same operation id.")
}
