//! The words of a contract: every dimension in which destinations differ, each with its least favourable value as default.

use serde::{Deserialize, Serialize};

/// What a destination does when it sees the same key with the same input again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameInput {
    /// It gives the answer that it stored; [`Saved`] says which answers it stores.
    ReplaysStored,
    /// It finishes unfinished work and never repeats finished work.
    #[serde(rename = "reexecutes_failures")]
    Continues,
    /// It does nothing and answers with the thing as it is now.
    ReturnsCurrent,
    /// It does nothing and answers with the thing that exists.
    ReturnsExistingResource,
    /// It refuses, and says where the first effect is.
    RejectsDuplicateWithPointer,
    /// It refuses, and says no more: the effect exists, its receipt must be looked up.
    RejectsDuplicateNoReceipt,
    /// It accepts and drops the repetition silently.
    AcceptedNoEffect,
    /// Not said: it may do it again.
    #[default]
    Undocumented,
}

/// What a destination does when it sees the same key with other input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherInput {
    /// It refuses; [`Mismatch`](super::Mismatch) says how to tell.
    Rejects,
    /// It answers with the first effect and does not say that the input differs.
    ReplaysOriginalSilently,
    /// It does the second thing too.
    ExecutesAsNew,
    /// It accepts and drops it silently.
    AcceptedNoEffect,
    /// Its answer is the same as for the same input.
    Indistinguishable,
    /// Not said.
    #[default]
    Undocumented,
}

/// What a destination does with a key that it is executing right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlight {
    /// It refuses the second request.
    Rejects,
    /// The second request may fail; it does not run.
    SecondMayFail,
    /// Believed to refuse; nobody wrote it down.
    SecondRejectedPresumed,
    /// It waits for a time and may then execute the second request as well.
    WaitsThenMayExecute,
    /// Not said.
    #[default]
    Undocumented,
}

impl InFlight {
    /// Whether the destination's own word excludes that both run.
    #[must_use]
    pub const fn excludes_a_second_effect(self) -> bool {
        match self {
            Self::Rejects | Self::SecondMayFail => true,
            Self::SecondRejectedPresumed | Self::WaitsThenMayExecute | Self::Undocumented => false,
        }
    }
}

/// Whether an answer of some kind is stored under the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// It is stored: a repetition gets it again.
    Stored,
    /// It is not stored: a repetition runs.
    NotStored,
    /// A repetition runs again by design.
    Reexecuted,
    /// Not said.
    #[default]
    Unknown,
}

/// Which answers are stored under a key, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Saved {
    /// Successes.
    #[serde(rename = "2xx")]
    pub success: Kept,
    /// Refusals that came out of the execution.
    #[serde(rename = "4xx_after_execution")]
    pub refused_after_execution: Kept,
    /// Refusals before anything was executed: a missing credential, a malformed request.
    #[serde(rename = "4xx_before_execution")]
    pub refused_before_execution: Kept,
    /// Throttling.
    #[serde(rename = "429")]
    pub throttled: Kept,
    /// Server errors.
    #[serde(rename = "500")]
    pub server_error: Kept,
    /// Shedding.
    #[serde(rename = "503")]
    pub unavailable: Kept,
}

/// What kind of promise the retention horizon of a key is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HorizonKind {
    /// Exactly that long.
    Fixed,
    /// That long or longer.
    AtLeast,
    /// Between `min` and `max`.
    Range,
    /// Set per account; `min` is what this account has.
    Configurable,
    /// The sender says how long; `min` is what is sent.
    ClientChosen,
    /// For ever.
    Indefinite,
    /// As long as the thing exists. Somebody may delete it, so without `min` nothing is promised.
    ResourceLifetime,
    /// The server decides; without `min` nothing is promised.
    ServerDefined,
    /// Not said.
    #[default]
    Undocumented,
}

/// When the horizon begins to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HorizonClock {
    /// When the destination first saw the key.
    FirstRequest,
    /// When it first answered.
    FirstCompletion,
    /// At the time that the sender states in each attempt.
    ClientFirstSent,
    /// When the thing ends.
    ObjectEnd,
    /// Not said.
    #[default]
    Unknown,
}

/// What happens to a key after its horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterExpiry {
    /// It is a new key: the effect happens again.
    Reexecutes,
    /// It is refused. The refusal says nothing about the first attempt.
    Rejects,
    /// The key has no end.
    NotApplicable,
    /// Not said; taken as `reexecutes`.
    #[default]
    Unknown,
}

/// How soon the destination's answers to a lookup show what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// At once.
    Strong,
    /// At once, it seems; nobody wrote it down.
    StrongPresumed,
    /// Some of its lists at once, others later.
    Mixed,
    /// Later.
    Eventual,
    /// Not said.
    #[default]
    Unknown,
}

/// Whether finding nothing proves that nothing happened (R10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsenceIsProof {
    /// Never.
    #[default]
    Never,
    /// While the key is still remembered, and after the in-flight bound and the visibility delay.
    WithinHorizon,
    /// After the in-flight bound and the visibility delay.
    AfterBound,
    /// The lookup has no such answer.
    NotApplicable,
}

/// How an effect is found after its reply was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupKind {
    /// By the idempotency key itself.
    ByKey,
    /// A repetition is refused with a pointer to the effect.
    ByKeyViaConflict,
    /// By a reference of ours that the destination has a field for.
    ByClientReference,
    /// By a marker that we put into a text or label.
    ByInjectedMarker,
    /// By reading a list and comparing.
    ListScan,
    /// Only by an id that was in the lost answer: it finds nothing after a lost reply.
    ByProviderIdOnly,
    /// By waiting for the destination's events.
    EventStream,
    /// By cancelling under the key, which settles it and is not a mere question: a person orders it.
    CancelByKey,
    /// By the handle of accepted work.
    AsyncHandle,
    /// Not at all.
    #[default]
    None,
}

impl LookupKind {
    /// Whether an automatic question can find an effect whose answer was lost altogether.
    #[must_use]
    pub const fn finds_a_lost_effect(self) -> bool {
        match self {
            Self::ByKey | Self::ByClientReference | Self::ByInjectedMarker | Self::ListScan => true,
            Self::ByKeyViaConflict
            | Self::ByProviderIdOnly
            | Self::EventStream
            | Self::CancelByKey
            | Self::AsyncHandle
            | Self::None => false,
        }
    }
}

/// How well a contract is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Nobody says.
    #[default]
    Unknown,
    /// Somebody remembers it so.
    Memory,
    /// Sources contradict one another.
    Conflict,
    /// It follows from something that is said.
    Inferred,
    /// Somebody else says that the destination says so.
    Secondary,
    /// From the destination's published interface description or client library.
    #[serde(alias = "sdk_or_spec")]
    SpecOrSdk,
    /// From the destination's own documentation.
    OfficialDoc,
    /// From the destination's source text.
    ServerSource,
    /// Whoever runs the destination wrote the contract.
    Operated,
}

impl Confidence {
    /// Whether it is good enough to let an effect be tried again. A memory is not: being wrong means doing it twice.
    #[must_use]
    pub const fn permits_a_second_dispatch(self) -> bool {
        match self {
            Self::Unknown | Self::Memory | Self::Conflict | Self::Inferred => false,
            Self::Secondary | Self::SpecOrSdk | Self::OfficialDoc | Self::ServerSource | Self::Operated => true,
        }
    }
}

/// By what means a destination recognises a repetition: a word for people and lists; no rule reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// A key, every answer stored.
    KeyReplay,
    /// A key, only successes stored.
    KeyReplaySuccessOnly,
    /// A key, everything but server errors stored.
    #[serde(rename = "key_replay_no_5xx")]
    KeyReplayNo5xx,
    /// A key, failures are executed again.
    KeyReexecuteFailures,
    /// A key, answered with the present state.
    KeyCurrentState,
    /// A key, refused with a pointer to the first effect.
    KeyConflictWithPointer,
    /// A key, refused.
    KeyRejectDuplicate,
    /// A field that may exist only once.
    NaturalKeyUnique,
    /// Equal messages within a time are dropped.
    RepetitionWindow,
    /// A draft that has no effect, and a commit of it.
    TwoPhaseObject,
    /// None.
    None,
}
