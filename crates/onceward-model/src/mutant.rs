//! Mistakes that real systems of this kind have made, planted one at a time. A checker that does not find them proves
//! nothing.

/// One planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// A claim whose owner is gone is free again, as an expired lease would be.
    LeaseExpiresIntoAClaim,
    /// Whoever has the key gets on, whatever its arguments are.
    FingerprintIgnored,
    /// The receipt of another operation is stored.
    ReceiptSwapped,
    /// The request leaves before the claim is durable.
    ClaimAfterDispatch,
    /// Erasing the payloads erases the row.
    PurgeFrees,
    /// A settlement that finds its claim lost is thrown away.
    LateAnswerDropped,
    /// What the latest attempt turned out to be is taken for what all of them are.
    UncertainAttemptForgotten,
    /// A second entrance dispatches without asking the ledger.
    SecondPathWithoutGuard,
    /// A stored receipt is given to whoever has the key.
    ReplayWithoutAuthorization,
    /// Something that looks like the effect is taken for it.
    PresenceWithoutMarker,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::LeaseExpiresIntoAClaim,
        Self::FingerprintIgnored,
        Self::ReceiptSwapped,
        Self::ClaimAfterDispatch,
        Self::PurgeFrees,
        Self::LateAnswerDropped,
        Self::UncertainAttemptForgotten,
        Self::SecondPathWithoutGuard,
        Self::ReplayWithoutAuthorization,
        Self::PresenceWithoutMarker,
    ];
}
