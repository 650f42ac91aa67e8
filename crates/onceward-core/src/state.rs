//! The states of an operation, each with the data that only it has. They move in one match ([`crate::step`]).

use serde::{Deserialize, Serialize};

use crate::event::{Cause, CloseReason, NoEffect, NotSent};
use crate::key::{AttemptNumber, EffectId, Generation, OperationId, OutboundKey, OwnerId};
use crate::receipt::{Answer, Kept};
use crate::time::Timestamp;

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Needs approval; nothing was sent. An approver moves it.
    Proposed(Proposal),
    /// May be dispatched: nothing was sent, or every attempt so far is proved to have had no effect. A dispatcher or its
    /// caller moves it.
    Approved(Ready),
    /// An owner holds an attempt, and a dispatch may be under way. Its owner moves it, or recovery.
    Pending(Pending),
    /// One or more attempts may have had their effect. Evidence or a person moves it; age never does.
    Unknown(Unknown),
    /// It was done. Final.
    Succeeded(Success),
    /// The destination refused it and nothing happened. Final; a correction is a new operation.
    Rejected(Refused),
    /// It will not be done. Final.
    Closed(Closure),
}

impl State {
    /// The word for it: in SQL, in every answer and on every surface.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Proposed(_) => "proposed",
            Self::Approved(_) => "approved",
            Self::Pending(_) => "pending",
            Self::Unknown(_) => "unknown",
            Self::Succeeded(_) => "succeeded",
            Self::Rejected(_) => "rejected",
            Self::Closed(_) => "closed",
        }
    }

    /// Whether nothing moves it any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Succeeded(_) | Self::Rejected(_) | Self::Closed(_) => true,
            Self::Proposed(_) | Self::Approved(_) | Self::Pending(_) | Self::Unknown(_) => false,
        }
    }

    /// The attempts that may have had their effect, the running one not among them.
    #[must_use]
    pub fn uncertain(&self) -> &[Uncertain] {
        match self {
            Self::Pending(pending) => &pending.earlier,
            Self::Unknown(unknown) => unknown.attempts(),
            Self::Closed(closure) => &closure.abandoned,
            Self::Proposed(_) | Self::Approved(_) | Self::Succeeded(_) | Self::Rejected(_) => &[],
        }
    }
}

/// Data of [`State::Proposed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Why it needs a person.
    pub reason: ProposalReason,
}

/// Why an operation waits for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalReason {
    /// The tool's policy asks for it.
    ToolPolicy,
    /// It may repeat an earlier call, and its host sends no identity.
    PossibleDuplicate,
}

/// Data of [`State::Approved`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What keeps it from being dispatched right now; a dispatch is still permitted.
    pub hold: Option<Hold>,
}

/// Why an approved operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// The destination refused our credential.
    CredentialRefused,
    /// The destination turned it away, or could not be reached.
    Unreachable,
}

/// Data of [`State::Pending`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The attempt that its owner holds.
    pub attempt: Attempt,
    /// Earlier attempts that may have had their effect; they survive whatever this one turns out to be (R3).
    pub earlier: Vec<Uncertain>,
}

/// One attempt in its owner's hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number.
    pub number: AttemptNumber,
    /// Who holds it.
    pub owner: OwnerId,
    /// Which outbound key it sends.
    pub generation: Generation,
    /// That key.
    pub outbound_key: Option<OutboundKey>,
    /// When the claim was made.
    pub claimed_at: Timestamp,
    /// No byte may leave after this.
    pub send_before: Timestamp,
    /// When its owner must have settled it, for an application's claim.
    pub settle_by: Option<Timestamp>,
    /// When the dispatch began; `None` only for an announced dispatch whose mark has not come: it has surely not run.
    pub begun_at: Option<Timestamp>,
    /// Whether it repeats a key that an earlier attempt may have used.
    pub redrive: bool,
}

/// An attempt that may have had its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncertain {
    /// Its number.
    pub attempt: AttemptNumber,
    /// Which outbound key it sent.
    pub generation: Generation,
    /// That key.
    pub outbound_key: Option<OutboundKey>,
    /// When it was claimed: the earliest moment at which the destination may have seen it.
    pub claimed_at: Timestamp,
    /// The latest moment at which its first byte may have left.
    pub send_before: Timestamp,
    /// When its connection ended, where that was seen. A lost owner leaves it open.
    pub ended_at: Option<Timestamp>,
    /// Why it is uncertain.
    pub cause: Cause,
    /// How many authoritative lookups did not find it.
    pub absences: u32,
    /// When the latest of them was recorded: another one counts only as long after it as an answer may lag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_at: Option<Timestamp>,
}

/// Data of [`State::Unknown`]: never without an uncertain attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UnknownParts", into = "UnknownParts")]
pub struct Unknown {
    attempts: Vec<Uncertain>,
    next_check: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct UnknownParts {
    attempts: Vec<Uncertain>,
    next_check: Option<Timestamp>,
}

impl From<Unknown> for UnknownParts {
    fn from(unknown: Unknown) -> Self {
        Self { attempts: unknown.attempts, next_check: unknown.next_check }
    }
}

impl TryFrom<UnknownParts> for Unknown {
    type Error = &'static str;
    fn try_from(parts: UnknownParts) -> Result<Self, Self::Error> {
        Self::new(parts.attempts, parts.next_check).ok_or("an unknown operation without an uncertain attempt")
    }
}

impl Unknown {
    /// The uncertain attempts, or nothing when there is none: then the operation is not unknown.
    #[must_use]
    pub fn new(attempts: Vec<Uncertain>, next_check: Option<Timestamp>) -> Option<Self> {
        if attempts.is_empty() { None } else { Some(Self { attempts, next_check }) }
    }

    /// At least one, in the order they were made.
    #[must_use]
    pub fn attempts(&self) -> &[Uncertain] {
        &self.attempts
    }

    /// The latest uncertain attempt; its cause is the one shown first.
    #[must_use]
    pub fn latest(&self) -> &Uncertain {
        &self.attempts[self.attempts.len() - 1]
    }

    /// When the next automatic check is due; `None` when nothing but a person will move it.
    #[must_use]
    pub const fn next_check(&self) -> Option<Timestamp> {
        self.next_check
    }
}

/// Data of [`State::Succeeded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    /// Which attempt had the effect.
    pub attempt: AttemptNumber,
    /// The destination's name of the effect; it outlives the answer.
    pub effect_id: Option<EffectId>,
    /// When we learned it.
    pub received_at: Timestamp,
    /// Whether an attempt had been uncertain before it was known.
    pub recovered: bool,
    /// What the destination answered.
    pub answer: Kept<Answer>,
}

/// Data of [`State::Rejected`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Which attempt was refused.
    pub attempt: AttemptNumber,
    /// When we learned it.
    pub received_at: Timestamp,
    /// What the destination answered.
    pub answer: Kept<Answer>,
}

/// Data of [`State::Closed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closure {
    /// Why.
    pub reason: ClosureReason,
    /// Attempts that were still uncertain when it was closed: abandoned, not disproved.
    pub abandoned: Vec<Uncertain>,
}

/// Why an operation was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosureReason {
    /// It will not be done.
    Close(CloseReason),
    /// This one replaces it.
    SupersededBy(OperationId),
}

/// An attempt that is proved to have had no effect. Kept so that a later contradiction is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disproved {
    /// Its number.
    pub attempt: AttemptNumber,
    /// Which outbound key it used.
    pub generation: Generation,
    /// That key; lookups search all.
    pub outbound_key: Option<OutboundKey>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// The latest moment at which its first byte may have left.
    pub send_before: Timestamp,
    /// Who held it, where it went from their hands straight to this finding: the same claim, asked for once more, is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerId>,
    /// What is known.
    pub finding: Finding,
    /// Why it had been uncertain before that was known; `None` where it never was. It says what the destination may have
    /// stored under the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// How an attempt is known to have had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It never left.
    NotSent(NotSent),
    /// It left and did nothing.
    NoEffect(NoEffect),
    /// It was refused.
    Refused,
}
