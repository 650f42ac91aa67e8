//! Codes of answers that are not outcomes: why a call was refused before an operation could answer it, or why the ledger
//! could not. Append only; each has a page under docs/errors/.

/// Whether the same call may be dispatched later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Surely nothing was sent: the same call with the same identity may be made again.
    SameIdentity,
    /// Nothing was sent, and the same call will be refused again.
    AfterCorrection,
    /// It may have been sent: repeat with the same identity only, which finds what became of it.
    SameIdentityOnly,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $repeat:ident;)*) => {
        /// Why a call was refused or could not be answered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Code {
            /// Every code, in the order they were added.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word for it: in problem types (`urn:onceward:problem:<code>`), logs and documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The code of that name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// Whether the same call may be made again.
            #[must_use]
            pub const fn repeat(self) -> Repeat {
                match self { $(Self::$variant => Repeat::$repeat,)* }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

codes! {
    /// The body is not strict JSON; the detail names the place.
    InvalidJson = "invalid_json", AfterCorrection;
    /// The body or the arguments are larger than allowed.
    TooLarge = "too_large", AfterCorrection;
    /// The arguments do not match the tool's schema; the detail names each place.
    InvalidArguments = "invalid_arguments", AfterCorrection;
    /// The request misses a field, or a field is malformed.
    InvalidRequest = "invalid_request", AfterCorrection;
    /// No such tool, or not for this caller.
    UnknownTool = "unknown_tool", AfterCorrection;
    /// The call carries no operation identity, and this tool refuses calls without one.
    IdentityRequired = "identity_required", AfterCorrection;
    /// The call carries two identities that differ.
    IdentityConflict = "identity_conflict", AfterCorrection;
    /// No credential, or not one that is known.
    Unauthenticated = "unauthenticated", AfterCorrection;
    /// The credential does not permit this.
    Denied = "denied", AfterCorrection;
    /// No such operation, or not for this caller.
    NotFound = "not_found", AfterCorrection;
    /// The move is not legal where the operation stands.
    IllegalMove = "illegal_move", AfterCorrection;
    /// The operation was approved under another definition, contract or account; nothing was sent.
    ApprovalVoid = "approval_void", AfterCorrection;
    /// The claim is no longer in these hands; a settlement was recorded as evidence, and nothing may be run.
    ClaimLost = "claim_lost", SameIdentityOnly;
    /// Too many calls at once; nothing was sent.
    Overloaded = "overloaded", SameIdentity;
    /// The ledger was busy for longer than the wait; nothing was sent.
    LedgerBusy = "ledger_busy", SameIdentity;
    /// The ledger cannot be written (disk full, read-only, gone); nothing was sent.
    LedgerUnavailable = "ledger_unavailable", SameIdentity;
    /// It is not known whether the ledger took the record; nothing was sent by this call.
    CommitUnknown = "commit_unknown", SameIdentityOnly;
    /// A record read from the ledger is broken; nothing was sent.
    LedgerCorrupt = "ledger_corrupt", AfterCorrection;
    /// The call took longer than allowed; the work goes on where it had begun.
    Timeout = "timeout", SameIdentityOnly;
    /// The gateway is shutting down; nothing was sent.
    ShuttingDown = "shutting_down", SameIdentity;
    /// A fault of ours; the log has more.
    Internal = "internal", SameIdentityOnly;
    /// The destination did not answer a read; nothing was written anywhere.
    ReadFailed = "read_failed", SameIdentity;
    /// An earlier call that this one may be repeating is not settled; nothing was sent and nothing is released beside it.
    EarlierUnresolved = "earlier_unresolved", AfterCorrection;
    /// Something happened to the operation since it was looked at; nothing was decided.
    Moved = "moved", AfterCorrection;
    /// The tools of an MCP server are not known yet, and this may be one of them; nothing was sent.
    ToolsNotKnown = "tools_not_known", SameIdentity;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_each_has_a_meaning() {
        for (at, one) in Code::ALL.iter().enumerate() {
            assert!(!one.meaning().is_empty());
            assert!(Code::ALL[at + 1..].iter().all(|other| other.name() != one.name()));
        }
    }
}
