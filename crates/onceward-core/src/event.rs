//! What can happen to an operation: ten events, and everything learned about an attempt is an [`Observation`].

use serde::{Deserialize, Serialize};

use crate::evidence::RedrivePermit;
use crate::key::{AttemptNumber, Generation, OperationId, OutboundKey, OwnerId, Principal};
use crate::receipt::{Receipt, Rejection};
use crate::time::Timestamp;

/// One atomic move of an operation. [`Operation::step`](crate::operation::Operation::step) places each in each state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A person with the authority allows exactly the stored request.
    Approve {
        /// Who allowed it.
        by: Principal,
    },
    /// An owner takes the next attempt. Durable before the first byte leaves.
    Claim(Claim),
    /// The owner of a claim is about to run it. Durable before it is answered: a claim without this mark has surely not run.
    Begin {
        /// The attempt that begins.
        attempt: AttemptNumber,
        /// Who holds it.
        owner: OwnerId,
    },
    /// The owner of a claim asks for more time to settle it.
    Extend {
        /// The attempt that is still being run.
        attempt: AttemptNumber,
        /// Who holds it.
        owner: OwnerId,
        /// When it must be settled by now.
        settle_by: Timestamp,
    },
    /// Something was learned about an attempt, by whomever and whenever.
    Observe(Observation),
    /// It will not be done.
    Close(CloseReason),
    /// Another operation replaces this one.
    Supersede {
        /// The replacement.
        by: OperationId,
        /// What the decision rests on.
        note: Option<String>,
    },
    /// A person has looked at an unknown operation and decides to wait. Nothing moves but the check that is scheduled.
    Wait {
        /// Who looked.
        by: Principal,
        /// When the next check is due from now on; `None` where none is scheduled.
        next_check: Option<Timestamp>,
        /// What was seen.
        note: Option<String>,
    },
    /// A person has seen the evidence against what is recorded, and lets the record stand. The receipt or the end stays as it
    /// is; what is still to be sent may be sent.
    Acknowledge {
        /// Who saw it.
        by: Principal,
        /// What the decision rests on.
        note: Option<String>,
    },
    /// Payloads go, the identity stays.
    Purge(PurgeScope),
}

impl Event {
    /// The word for it in the journal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Claim(_) => "claim",
            Self::Begin { .. } => "begin",
            Self::Extend { .. } => "extend",
            Self::Observe(_) => "observe",
            Self::Close(_) => "close",
            Self::Supersede { .. } => "supersede",
            Self::Wait { .. } => "wait",
            Self::Acknowledge { .. } => "acknowledge",
            Self::Purge(_) => "purge",
        }
    }
}

/// The terms of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The attempt being taken: one more than the operation has. A stale view fails here.
    pub attempt: AttemptNumber,
    /// Who takes it.
    pub owner: OwnerId,
    /// What permits it.
    pub basis: Basis,
    /// Which outbound key.
    pub generation: Generation,
    /// The key that will be sent, where the destination takes one.
    pub outbound_key: Option<OutboundKey>,
    /// No byte may leave after this (R5).
    pub send_before: Timestamp,
    /// When its owner must have settled it; `None` for an owner that heartbeats for all its claims.
    pub settle_by: Option<Timestamp>,
    /// Whether the dispatch begins with the claim itself, or with a later [`Event::Begin`].
    pub dispatch: DispatchMark,
}

/// When a dispatch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchMark {
    /// With the claim: its owner dispatches as soon as the claim is durable.
    WithClaim,
    /// With a mark of its own, which the owner must see answered before it runs anything.
    Announced,
}

/// What permits a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Nothing may have happened yet: no attempt so far, or every attempt is proved to have had no effect.
    NoEffectSoFar,
    /// The destination's contract recognises the same key, here and now (R6).
    Redrive(RedrivePermit),
}

/// Something learned about one attempt, or about all uncertain ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// About which.
    pub about: About,
    /// What was learned.
    pub verdict: Verdict,
    /// From whom.
    pub source: Source,
    /// When to look again, should the operation be unknown afterwards.
    pub next_check: Option<Timestamp>,
    /// Words for the journal: what was asked and answered, a person's evidence.
    pub note: Option<String>,
}

/// Which attempts an observation speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// This one.
    Attempt(AttemptNumber),
    /// Every attempt that is uncertain when it is recorded. Only a person disproves attempts this way: a lookup was asked
    /// before some of them may have been made, so it names those it speaks of.
    EveryUncertain,
}

/// What was learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It had its effect.
    Effect(Receipt),
    /// The destination refused it, and nothing happened.
    Refusal(Rejection),
    /// Not one byte left this machine.
    NotSent(NotSent),
    /// It was sent and surely had no effect: the destination's word, proved absence, or a person's decision.
    NoEffect(NoEffect),
    /// It may have had its effect.
    Lost(Cause),
    /// An effect exists that is not, or not only, the one this operation asked for.
    OtherEffect(OtherEffect),
}

impl Verdict {
    /// The word for it in the journal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Effect(_) => "effect",
            Self::Refusal(_) => "refusal",
            Self::NotSent(_) => "not_sent",
            Self::NoEffect(_) => "no_effect",
            Self::Lost(_) => "lost",
            Self::OtherEffect(_) => "other_effect",
        }
    }
}

impl Cause {
    /// The word for it, in SQL, metrics and answers.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ReplyLost => "reply_lost",
            Self::ReplyUnreadable => "reply_unreadable",
            Self::ServerError => "server_error",
            Self::Accepted { .. } => "accepted",
            Self::InFlightElsewhere => "in_flight_elsewhere",
            Self::AlreadyExists { .. } => "already_exists",
            Self::OwnerLost => "owner_lost",
            Self::SettleOverdue => "settle_overdue",
            Self::KeyMismatch => "key_mismatch",
            Self::FunctionFailed => "function_failed",
            Self::AbsentOnce => "absent_once",
            Self::Restored => "restored",
        }
    }
}

/// Why nothing left this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotSent {
    /// The name did not resolve, nobody listened, the handshake failed or no connection was to be had.
    NoConnection,
    /// The time to send passed before a byte was handed over (R5).
    TooLate,
    /// Its owner was lost, or gave up, before the mark that the dispatch begins.
    NeverBegun,
    /// We refused it ourselves: a budget, a breaker, a kill switch.
    HeldBack,
}

/// How it is known that a sent attempt had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEffect {
    /// The destination turned it away before any work, and would take it later (throttled, shed, credential expired).
    TurnedAway,
    /// The destination's credential was refused; nobody repeats it before that is mended.
    CredentialRefused,
    /// An authoritative lookup after its delay, as often as the contract asks.
    ProvedAbsent,
    /// A person with the authority recorded that it did not happen.
    Decided,
}

/// Why an attempt is uncertain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was sent and no answer came.
    ReplyLost,
    /// An answer came that cannot be read whole.
    ReplyUnreadable,
    /// The destination answered with an error that does not exclude the effect.
    ServerError,
    /// The destination accepted it and will do it later.
    Accepted {
        /// Its name for the accepted work.
        handle: Option<String>,
    },
    /// The destination says that the same key is being executed.
    InFlightElsewhere,
    /// The destination refused a repetition because the thing exists. It is ours if it is what was asked for.
    AlreadyExists {
        /// What it said exists, where it said that.
        handle: Option<String>,
    },
    /// Whoever held it is gone, and the dispatch may have begun.
    OwnerLost,
    /// An application's claim was not settled in time.
    SettleOverdue,
    /// The destination holds other arguments under our key.
    KeyMismatch,
    /// An application says that its function failed, not that nothing happened.
    FunctionFailed,
    /// A lookup did not find it, which is not proof yet.
    AbsentOnce,
    /// The ledger was restored from a backup taken earlier; what came after it is not known.
    Restored,
}

/// An effect that should not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherEffect {
    /// More than one effect carries our key or marker.
    MoreThanOne,
    /// One effect carries our key or marker, with other parameters.
    OtherParameters,
    /// The destination holds other arguments under our key.
    KeyMismatch,
    /// A redrive was answered without the marker that its contract promises for a repetition (R8).
    ReplayMarkerMissing,
    /// Another operation of this ledger has the same effect id (R2).
    SharedEffectId,
}

/// Who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The owner of the attempt, while it holds it.
    Owner(OwnerId),
    /// Recovery, about an owner that is proved to be gone.
    Recovery {
        /// The owner that is gone.
        owner: OwnerId,
    },
    /// An answer that came after its attempt was given up (R1).
    LateAnswer,
    /// An authoritative lookup at the destination.
    Lookup,
    /// An authenticated event from the destination.
    Webhook,
    /// A person's recorded decision.
    Operator {
        /// Who decided.
        by: Principal,
    },
    /// A restore from a backup.
    Restore,
}

/// Why an operation will not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// An approver said no.
    Declined,
    /// Its caller took it back before anything was sent.
    Withdrawn,
    /// Its deadline passed before anything was sent.
    DeadlinePassed,
    /// A person established that it was not done, and wants it to stay so.
    ConfirmedNotDone,
}

/// What a purge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeScope {
    /// The arguments: the receipt can still be replayed.
    Arguments,
    /// Arguments and answer: a repetition is told `expired`.
    Everything,
}
