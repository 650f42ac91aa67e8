//! One operation as the ledger holds it: what was approved, where it stands, and what is known of its attempts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::event::{OtherEffect, PurgeScope};
use crate::fingerprint::{Comparison, Fingerprint, FingerprintKeyId};
use crate::journal::Head;
use crate::key::{Generation, Lane, OperationId, OperationKey, Principal, ToolName, ToolVersion};
use crate::limits::DISPROVED_MAX;
use crate::receipt::Kept;
use crate::sighting::Sighting;
use crate::state::{Disproved, Finding, Proposal, State};
use crate::suspicion::Suspicion;
use crate::time::Timestamp;

/// One approved (or proposed) intention and everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its durable identity.
    pub key: OperationKey,
    /// What the identity is bound to. Never changes.
    pub binding: Binding,
    /// What its creator asked for. Never changes.
    pub terms: Terms,
    /// What is known of its attempts beside the state.
    pub history: History,
    /// Where it stands.
    pub state: State,
    /// The last journal entry.
    pub journal: Head,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
    /// When it reached a final state.
    pub settled_at: Option<Timestamp>,
}

/// What a key is bound to: one intention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// What is called.
    pub tool: ToolName,
    /// The definition it was made with; a repetition is compared under it, whatever the version is by then.
    pub tool_version: ToolVersion,
    /// Which fields do not take part in the comparison, as that definition said.
    pub comparison: Comparison,
    /// The fingerprint of all this and the arguments.
    pub fingerprint: Fingerprint,
    /// The key it was made with.
    pub fingerprint_key: FingerprintKeyId,
    /// The arguments in canonical form; may be erased, while the fingerprint stays.
    pub arguments: Kept<Arc<Canonical>>,
}

/// What the creator of an operation asked for beside the call itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Who created it.
    pub principal: Principal,
    /// Who dispatches it.
    pub dispatch: Dispatcher,
    /// Where operations of one kind go one after the other.
    pub lane: Option<Lane>,
    /// After this nothing is sent any more. It is no verdict on what was sent before.
    pub deadline: Option<Timestamp>,
    /// The rejected operation that this one corrects.
    pub corrects: Option<OperationId>,
    /// The settled operation that somebody wants done a second time, knowing that it was done (R16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_of: Option<OperationId>,
    /// What was seen of its call in observe mode; `None` where the rules bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sighting: Option<Sighting>,
    /// One line for people: what it would do.
    pub title: Option<String>,
    /// The mark by which a later call without identity is recognised as its possible repetition (R16).
    pub suspicion: Option<Suspicion>,
    /// The destination as it was when the operation was made; `None` where an application runs its own function.
    pub pin: Option<Pin>,
}

/// The destination as an operation was made with it: a redrive under another promise or in another scope is no redrive (R6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Content hash of its contract.
    pub contract: String,
    /// The scope in which it recognises a key (account, mode, region).
    pub scope: String,
    /// Hash of the request as it would be sent, without key, companions and credential; `None` where none can be made. The
    /// same key with another request would be a mismatch there, and an approval is for this request and no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Pin {
    /// The scope of what an application runs itself, under a claim: nobody else sends it or looks for it. No
    /// destination has it: theirs begin with an address.
    pub const OWN_FUNCTION: &str = "application";

    /// Whether it was made for an application's own function.
    #[must_use]
    pub fn is_own_function(&self) -> bool {
        self.scope == Self::OWN_FUNCTION
    }
}

/// Who dispatches an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatcher {
    /// The caller's own call.
    Caller,
    /// A background dispatcher: the operation is an outbox entry.
    Auto,
}

/// What is known of an operation's attempts beside its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Attempts claimed so far.
    pub attempts: u32,
    /// The outbound key in use; 1 before the first claim.
    pub generation: Generation,
    /// Attempts that are proved to have had no effect, in the order they were made.
    pub disproved: Vec<Disproved>,
    /// How many of them never left this machine: they are not counted against the most that an operation may have, or an
    /// outage would use them up.
    #[serde(default)]
    pub never_left: u32,
    /// Who allowed it, where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<Principal>,
    /// Evidence that contradicts what stands; somebody must look.
    pub disagreement: Option<Disagreement>,
    /// An erasure that waits until it is settled (R24).
    pub erasure: Option<PurgeScope>,
    /// Set while it is unknown though nobody is known to have approved it: it was restored from a backup older than that
    /// (R22). What disproves its attempts leads back to `proposed`, never to a dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved: Option<Proposal>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            attempts: 0,
            generation: Generation(1),
            disproved: Vec::new(),
            never_left: 0,
            approved_by: None,
            disagreement: None,
            erasure: None,
            unapproved: None,
        }
    }
}

/// Evidence that contradicts what stands. The journal has each piece whole; this is the mark that makes people look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The latest kind.
    pub kind: DisagreementKind,
    /// When the first came.
    pub first_at: Timestamp,
    /// How many came.
    pub count: u32,
    /// When a person last decided with it in view; a dispatch is permitted again only after that.
    pub acknowledged_at: Option<Timestamp>,
}

/// What contradicts what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisagreementKind {
    /// An effect that is not, or not only, the one asked for.
    OtherEffect(OtherEffect),
    /// Two receipts name different effects.
    ReceiptsDiffer,
    /// An attempt that had been proved to have had no effect turns out to have had one.
    EffectAfterDisproof,
    /// An attempt that was said never to have left turns out to have been sent.
    SentAfterAll,
    /// The attempt whose receipt is stored is now said to have had no effect.
    ReceiptDenied,
    /// Effect of an operation that had been refused or closed.
    EffectAfterClose,
}

impl DisagreementKind {
    /// The word for it, as surfaces show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherEffect(OtherEffect::MoreThanOne) => "more_than_one_effect",
            Self::OtherEffect(OtherEffect::OtherParameters) => "other_parameters",
            Self::OtherEffect(OtherEffect::KeyMismatch) => "key_mismatch",
            Self::OtherEffect(OtherEffect::ReplayMarkerMissing) => "replay_marker_missing",
            Self::OtherEffect(OtherEffect::SharedEffectId) => "shared_effect_id",
            Self::ReceiptsDiffer => "receipts_differ",
            Self::EffectAfterDisproof => "effect_after_disproof",
            Self::SentAfterAll => "sent_after_all",
            Self::ReceiptDenied => "receipt_denied",
            Self::EffectAfterClose => "effect_after_close",
        }
    }
}

impl History {
    /// Records a contradiction; the state is the caller's business.
    pub(crate) fn disagree(&mut self, kind: DisagreementKind, at: Timestamp) {
        let earlier = self.disagreement.take();
        self.disagreement = Some(Disagreement {
            kind,
            first_at: earlier.as_ref().map_or(at, |known| known.first_at),
            count: earlier.map_or(0, |known| known.count).saturating_add(1),
            acknowledged_at: None,
        });
    }

    /// A person has decided with the contradiction in view, if there was an open one; says whether there was.
    pub(crate) fn acknowledge(&mut self, at: Timestamp) -> bool {
        let open = self.in_disagreement();
        if let Some(disagreement) = &mut self.disagreement {
            disagreement.acknowledged_at = Some(at);
        }
        open
    }

    /// Remembers an attempt as disproved. Of those that never left only the latest are kept: nobody has anything to say about
    /// the others, and their number is not bounded.
    pub(crate) fn remember(&mut self, one: Disproved) {
        if let Finding::NotSent(_) = one.finding {
            self.never_left = self.never_left.saturating_add(1);
        }
        self.disproved.push(one);
        if self.disproved.len() > DISPROVED_MAX
            && let Some(oldest) = self.disproved.iter().position(|one| matches!(one.finding, Finding::NotSent(_)))
        {
            self.disproved.remove(oldest);
        }
    }

    /// Whether a contradiction is open that no person has decided on.
    #[must_use]
    pub fn in_disagreement(&self) -> bool {
        self.disagreement.as_ref().is_some_and(|known| known.acknowledged_at.is_none())
    }

    /// What is known of a disproved attempt.
    #[must_use]
    pub fn disproved(&self, attempt: crate::key::AttemptNumber) -> Option<&Disproved> {
        self.disproved.iter().find(|known| known.attempt == attempt)
    }
}

impl Operation {
    /// Whether it has reached a final state.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.state.is_final()
    }

    /// Whether any of its payloads were erased so far that a repetition can only be told `expired`.
    #[must_use]
    pub const fn is_expired(&self) -> bool {
        match &self.state {
            State::Succeeded(success) => success.answer.present().is_none(),
            State::Rejected(refused) => refused.answer.present().is_none(),
            State::Closed(_) => self.binding.arguments.present().is_none(),
            State::Proposed(_) | State::Approved(_) | State::Pending(_) | State::Unknown(_) => false,
        }
    }
}
