//! What a person may decide about an operation that nobody else settles, on what it must rest, and which events it is.
//!
//! The ledger shows each choice with its [consequence](offers) before anybody takes it. A decision is one step: its events are
//! applied together or not at all, to the version of the row that was looked at.

mod consequence;

#[cfg(test)]
mod tests;

use core::fmt;

use serde::{Deserialize, Serialize};

pub use consequence::{
    Consequence, DecisionCase, KeyUse, NextKey, Offer, Offered, Runs, SecondEffect, irreversible_at, offers,
    without_a_decision,
};

use crate::event::{About, CloseReason, Event, NoEffect, Observation, Source, Verdict};
use crate::hex;
use crate::key::{EffectId, OperationId, Principal};
use crate::limits::{DECISION_WAIT_MAX, EVIDENCE_BYTES_MAX};
use crate::operation::Operation;
use crate::receipt::{Answer, Receipt, Rejection};
use crate::state::State;
use crate::time::Timestamp;

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It was done: repetitions get this receipt.
    ConfirmedDone {
        /// The destination's name of the effect.
        effect_id: Option<EffectId>,
        /// What to give to whoever repeats the call.
        answer: Answer,
    },
    /// It was not done, and stays so.
    ConfirmedNotDone,
    /// It was not done, and may be dispatched again.
    DispatchAgain,
    /// What the destination answered is a refusal: nothing happened, and repetitions get this answer.
    Refused {
        /// The destination's answer.
        answer: Answer,
    },
    /// Another operation replaces it; whether it was done is not established.
    SupersededBy(OperationId),
    /// Nothing is decided yet; somebody has looked.
    Wait {
        /// Until when an automatic check, where one is scheduled, is put off.
        until: Option<Timestamp>,
    },
    /// The evidence against what is recorded was seen, and the record stands.
    Acknowledge,
}

/// A choice without what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceKind {
    /// See [`Choice::ConfirmedDone`].
    ConfirmedDone,
    /// See [`Choice::ConfirmedNotDone`].
    ConfirmedNotDone,
    /// See [`Choice::DispatchAgain`].
    DispatchAgain,
    /// See [`Choice::Refused`].
    Refused,
    /// See [`Choice::SupersededBy`].
    SupersededBy,
    /// See [`Choice::Wait`].
    Wait,
    /// See [`Choice::Acknowledge`].
    Acknowledge,
}

impl ChoiceKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::ConfirmedDone,
        Self::ConfirmedNotDone,
        Self::DispatchAgain,
        Self::Refused,
        Self::SupersededBy,
        Self::Wait,
        Self::Acknowledge,
    ];

    /// The word for it on the command line and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfirmedDone => "confirmed_done",
            Self::ConfirmedNotDone => "confirmed_not_done",
            Self::DispatchAgain => "dispatch_again",
            Self::Refused => "refused",
            Self::SupersededBy => "superseded_by",
            Self::Wait => "wait",
            Self::Acknowledge => "acknowledge",
        }
    }
}

impl Choice {
    /// Which choice it is.
    #[must_use]
    pub const fn kind(&self) -> ChoiceKind {
        match self {
            Self::ConfirmedDone { .. } => ChoiceKind::ConfirmedDone,
            Self::ConfirmedNotDone => ChoiceKind::ConfirmedNotDone,
            Self::DispatchAgain => ChoiceKind::DispatchAgain,
            Self::Refused { .. } => ChoiceKind::Refused,
            Self::SupersededBy(_) => ChoiceKind::SupersededBy,
            Self::Wait { .. } => ChoiceKind::Wait,
            Self::Acknowledge => ChoiceKind::Acknowledge,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The events that it is, for the operation as it stands.
    fn events(self, operation: &Operation, evidence: &Evidence, by: &Principal, at: Timestamp) -> Vec<Event> {
        let note = Some(evidence.note(self.kind()));
        let learned = |verdict, note| {
            Event::Observe(Observation {
                about: About::EveryUncertain,
                verdict,
                source: Source::Operator { by: by.clone() },
                next_check: None,
                note,
            })
        };
        match self {
            Self::ConfirmedDone { effect_id, answer } => {
                vec![learned(Verdict::Effect(Receipt { effect_id, answer, received_at: at }), note)]
            }
            Self::Refused { answer } => {
                vec![learned(Verdict::Refusal(Rejection { answer, received_at: at }), note)]
            }
            Self::DispatchAgain => vec![learned(Verdict::NoEffect(NoEffect::Decided), note)],
            Self::ConfirmedNotDone => {
                vec![learned(Verdict::NoEffect(NoEffect::Decided), note), Event::Close(CloseReason::ConfirmedNotDone)]
            }
            Self::SupersededBy(other) => vec![Event::Supersede { by: other, note }],
            Self::Wait { until } => {
                vec![Event::Wait { by: by.clone(), next_check: put_off(operation, until), note }]
            }
            Self::Acknowledge => vec![Event::Acknowledge { by: by.clone(), note }],
        }
    }
}

/// When the next check is due after a decision to wait. Where none is scheduled, nobody could carry one out.
fn put_off(operation: &Operation, until: Option<Timestamp>) -> Option<Timestamp> {
    match &operation.state {
        State::Unknown(unknown) => unknown.next_check().map(|scheduled| until.unwrap_or(scheduled)),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal for $($choice:ident)|+;)*) => {
        /// On what kind of knowledge a decision rests. The list is closed; the words beside it say the rest.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Reason {
            /// All of them, in the order of the documents.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// Whether knowledge of this kind can carry the choice: what says that nothing was found out confirms nothing.
            #[must_use]
            pub const fn carries(self, choice: ChoiceKind) -> bool {
                match self { $(Self::$variant => matches!(choice, $(ChoiceKind::$choice)|+),)* }
            }
        }
    };
}

reasons! {
    /// The effect was seen at the destination itself.
    SeenAtDestination = "seen_at_destination" for ConfirmedDone | Acknowledge;
    /// It was looked for at the destination itself and is not there.
    NotAtDestination = "not_at_destination" for ConfirmedNotDone | DispatchAgain | Acknowledge;
    /// Whoever runs the destination says so.
    DestinationSays = "destination_says" for
        ConfirmedDone | ConfirmedNotDone | DispatchAgain | Refused | SupersededBy | Wait | Acknowledge;
    /// Whom the effect would have reached says so: a customer, a recipient.
    CounterpartySays = "counterparty_says" for ConfirmedDone | ConfirmedNotDone | DispatchAgain | Wait | Acknowledge;
    /// Logs, statements or exports show it.
    RecordsShow = "records_show" for ConfirmedDone | ConfirmedNotDone | DispatchAgain | Refused | Acknowledge;
    /// The answer that the destination gave says that it did nothing.
    AnswerIsRefusal = "answer_is_refusal" for Refused;
    /// Whatever was done has been undone by hand.
    Undone = "undone" for SupersededBy | Acknowledge;
    /// It is done in another way now.
    Replaced = "replaced" for SupersededBy;
    /// Nothing was found out; a second effect is accepted, or does no harm.
    RiskAccepted = "risk_accepted" for DispatchAgain | SupersededBy | Acknowledge;
    /// Nothing was found out yet.
    StillLooking = "still_looking" for Wait;
}

/// What a decision rests on: the kind of knowledge, and words or a file that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    reason: Reason,
    text: Option<String>,
    file: Option<FileHash>,
}

/// The SHA-256 of a file that is kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHash([u8; 32]);

impl FileHash {
    /// From 64 hex digits, with or without `sha256:` before them.
    ///
    /// # Errors
    /// [`InvalidEvidence::FileHash`].
    pub fn parse(text: &str) -> Result<Self, InvalidEvidence> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        hex::decode(digits).and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(InvalidEvidence::FileHash)
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(&self.0))
    }
}

impl Evidence {
    /// Takes a reason with words, a file's hash, or both.
    ///
    /// # Errors
    /// [`InvalidEvidence`]; nothing was decided.
    pub fn new(reason: Reason, text: Option<&str>, file: Option<FileHash>) -> Result<Self, InvalidEvidence> {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        if text.is_none() && file.is_none() {
            return Err(InvalidEvidence::Empty);
        }
        if let Some(length) = text.map(str::len).filter(|length| *length > EVIDENCE_BYTES_MAX) {
            return Err(InvalidEvidence::TooLong { length });
        }
        Ok(Self { reason, text: text.map(str::to_owned), file })
    }

    /// The kind of knowledge.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// What the journal keeps of it: `choice (reason): words; file sha256:…`.
    fn note(&self, choice: ChoiceKind) -> String {
        let words = self.text.clone();
        let file = self.file.map(|file| format!("file {file}"));
        let shown: Vec<String> = [words, file].into_iter().flatten().collect();
        format!("{} ({}): {}", choice.name(), self.reason.name(), shown.join("; "))
    }
}

/// A choice and what it rests on, checked against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    choice: Choice,
    evidence: Evidence,
}

impl Decision {
    /// Takes a choice about the operation `id` and its evidence.
    ///
    /// # Errors
    /// [`InvalidDecision`]; nothing was decided.
    pub fn new(id: &OperationId, choice: Choice, evidence: Evidence, now: Timestamp) -> Result<Self, InvalidDecision> {
        let (kind, reason) = (choice.kind(), evidence.reason);
        if !reason.carries(kind) {
            return Err(InvalidDecision::ReasonDoesNotCarry { choice: kind, reason });
        }
        match &choice {
            Choice::SupersededBy(other) if other == id => return Err(InvalidDecision::ReplacesItself),
            Choice::Wait { until: Some(until) } if *until <= now || *until > now.plus(DECISION_WAIT_MAX) => {
                return Err(InvalidDecision::WaitOutOfRange);
            }
            Choice::SupersededBy(_)
            | Choice::Wait { .. }
            | Choice::ConfirmedDone { .. }
            | Choice::ConfirmedNotDone
            | Choice::DispatchAgain
            | Choice::Refused { .. }
            | Choice::Acknowledge => {}
        }
        Ok(Self { choice, evidence })
    }

    /// What is decided.
    #[must_use]
    pub const fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What it rests on.
    #[must_use]
    pub const fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The events that it is, for the operation as it stands.
    #[must_use]
    pub fn events(self, operation: &Operation, by: &Principal, at: Timestamp) -> Vec<Event> {
        self.choice.events(operation, &self.evidence, by, at)
    }
}

/// Why a choice and its evidence are no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDecision {
    /// Knowledge of this kind says nothing for the choice.
    #[error("{} cannot rest on {}: it is carried by {}", .choice.name(), .reason.name(), carrying(*.choice))]
    ReasonDoesNotCarry {
        /// What was chosen.
        choice: ChoiceKind,
        /// On what.
        reason: Reason,
    },
    /// Closed in favour of itself, it would be closed in favour of nothing.
    #[error("an operation cannot replace itself; name the operation that replaces it")]
    ReplacesItself,
    /// A time that has passed, or one too far away.
    #[error("a decision to wait names a time that lies ahead, by at most {} days", DECISION_WAIT_MAX.as_secs() / 86_400)]
    WaitOutOfRange,
}

/// The reasons that carry a choice, in words.
fn carrying(choice: ChoiceKind) -> String {
    let names: Vec<_> =
        Reason::ALL.iter().filter(|reason| reason.carries(choice)).map(|reason| reason.name()).collect();
    names.join(", ")
}

/// Why something is no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEvidence {
    /// It says nothing.
    #[error("a decision needs evidence: say what was looked at, where, and what was found, or name a file by its hash")]
    Empty,
    /// It is too long.
    #[error("the evidence has {length} bytes; the most is {EVIDENCE_BYTES_MAX}: name a file by its hash instead")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It is no hash of a file.
    #[error("a file is named by its SHA-256: 64 hex digits, with or without sha256: before them")]
    FileHash,
}
