//! Why the engine has no answer. In none of these cases was anything dispatched by the call that got it, but for
//! [`LedgerError::OutOfSight`].

use onceward_core::code::Code;
use onceward_core::fingerprint::UnknownKey;
use onceward_core::key::OperationId;
use onceward_core::step::Refusal;

use crate::authorize::Denied;
use crate::decisions::Since;
use crate::store::StoreError;

/// Why a call has no answer from the ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The fingerprint key that an operation was made with is not configured.
    #[error("the operation was made with a fingerprint key that is not configured; nothing was sent")]
    FingerprintKey(#[from] UnknownKey),
    /// No such operation, or not for this caller: the two look alike.
    #[error("there is no such operation")]
    NotFound,
    /// The caller may not do this.
    #[error("this is not permitted")]
    Denied,
    /// A rule does not allow the move where the operation stands.
    #[error("{0}; nothing changed")]
    Illegal(Refusal),
    /// The claim is no longer in these hands. What its holder knew was recorded as evidence; nothing may be run.
    #[error("the claim is no longer held; what was reported is recorded as evidence, and nothing may be run")]
    ClaimLost,
    /// A settlement came with a secret that is not the claim's.
    #[error("the settlement secret is not the one of this claim; nothing changed")]
    WrongSecret,
    /// The operation was approved under another definition of its tool, another contract or another account; or nobody approved it,
    /// and it was let through in observe mode.
    #[error(
        "the operation was approved under another definition of its tool, another contract or another account, or was let through \
         only because its tool was observed; nothing was sent: withdraw it, and ask for approval of a new operation"
    )]
    ApprovalVoid,
    /// An operation that it may be repeating is not settled, or was sent in its place in observe mode. No approval releases anything
    /// beside it.
    #[error(
        "operation {id} may have done the same already, or has done it in observe mode; nothing was sent and nothing changed. Find out \
         what became of it first"
    )]
    Unresolved {
        /// Which.
        id: OperationId,
    },
    /// It was decided on an older version of the row: something has happened to the operation since.
    #[error("something has happened to the operation since it was looked at; nothing was decided: {0}")]
    Moved(Box<Since>),
    /// An operation has one kind of runner: the one that it was made for, with what that promises about keys and lookups.
    #[error(
        "this operation was made to be run by {made_for}; nothing was sent or granted: go on with it there, or make a new operation"
    )]
    OtherRunner {
        /// By whom.
        made_for: &'static str,
    },
    /// Too much is under way.
    #[error("{what}: at most {most}; nothing was sent, the same call may be made again")]
    Overloaded {
        /// What there is too much of.
        what: &'static str,
        /// The most.
        most: usize,
    },
    /// The row kept moving while this call looked at it.
    #[error("the operation kept moving; nothing was sent by this call, repeat it with the same operation id")]
    Contended,
    /// The attempt was launched, and what became of it cannot be read now. The work goes on.
    #[error(
        "an attempt was launched, and the ledger cannot say now what became of it: it may have had its effect; the same call with the \
         same operation id finds out"
    )]
    OutOfSight,
    /// The engine is stopping.
    #[error("the ledger is shutting down; nothing was sent")]
    ShuttingDown,
}

impl From<Denied> for LedgerError {
    fn from(_: Denied) -> Self {
        Self::Denied
    }
}

impl LedgerError {
    /// The code that surfaces show.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Store(StoreError::Busy) => Code::LedgerBusy,
            Self::Store(StoreError::Unavailable(_)) => Code::LedgerUnavailable,
            Self::Store(StoreError::CommitUnknown(_)) => Code::CommitUnknown,
            Self::Store(StoreError::Corrupt(_)) | Self::FingerprintKey(_) => Code::LedgerCorrupt,
            Self::NotFound => Code::NotFound,
            Self::Denied | Self::WrongSecret => Code::Denied,
            Self::Illegal(_) | Self::OtherRunner { .. } => Code::IllegalMove,
            Self::Moved(_) => Code::Moved,
            Self::ApprovalVoid => Code::ApprovalVoid,
            Self::Unresolved { .. } => Code::EarlierUnresolved,
            Self::ClaimLost => Code::ClaimLost,
            Self::Overloaded { .. } | Self::Contended => Code::Overloaded,
            Self::OutOfSight => Code::Timeout,
            Self::ShuttingDown => Code::ShuttingDown,
        }
    }
}
