//! What a destination promises about repetitions, as data. Everything unsaid is the least favourable.
//!
//! A contract is one TOML file. [`classify`](mod@crate::classify) reads what an answer means from it, and
//! [`evidence`](crate::evidence) whether an uncertain attempt may be followed by another one. docs/contracts/README.md
//! describes every field for the person who writes one.

mod catalog;
mod dimension;
mod key_rules;
mod lookup;
mod narrower;
mod outlook;
mod parts;
mod predicate;
mod span;
mod validate;
pub mod words;

#[cfg(test)]
mod tests;

use core::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use catalog::built_in;
pub use dimension::{
    AbsenceIsProof, AfterExpiry, Confidence, Consistency, HorizonClock, HorizonKind, InFlight, Kept, LookupKind,
    Mechanism, OtherInput, SameInput, Saved,
};
pub use key_rules::{
    Carrier, Companion, CompanionValue, Encoding, Format, KeyDoesNotFit, KeyRules, LengthUnit, Place, Required, Role,
};
pub use lookup::{ABSENCES_REQUIRED_UNSAID, Compare, Lookup, LookupRequest, Match, Recognise};
pub use outlook::{Becomes, Case, Which};
pub use parts::{
    About, Concurrency, EffectRules, Execution, Horizon, IndeterminateAnswer, IsError, LiveCredential, Locator,
    MarkerField, Meaning, Mismatch, MissingMarker, Precondition, Provenance, ProxyRules, Recognised, Repetition,
    ReplayMarker, ResponseRule, RetryHint, Scope, Source,
};
pub use predicate::{
    AnyElement, BodyTexts, BodyValue, BodyValues, FewerElements, HeaderTexts, HeaderValue, Predicate, Seen, header,
};
pub use span::{InvalidSpan, Span};
pub use validate::ContractError;

/// One family of requests at one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Its name, such as `stripe.v1`.
    pub id: String,
    /// Raised with every change; operations keep the body they were made with.
    pub version: u32,
    /// What an answer says that was refused and did nothing, beside what the statuses say. For MCP tools: which error
    /// texts are refusals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_if: Option<Predicate>,
    /// The least time before a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_retry_delay: Option<Span>,
    /// Words for people; no rule reads them.
    #[serde(default)]
    pub about: About,
    /// Where the key travels; without it the destination takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyRules>,
    /// Within what a key is unique.
    #[serde(default)]
    pub scope: Scope,
    /// The same key with the same input.
    #[serde(default)]
    pub same_input: Repetition,
    /// The same key with other input.
    #[serde(default)]
    pub other_input: Mismatch,
    /// The same key while it is being executed.
    #[serde(default)]
    pub in_flight: Concurrency,
    /// How long a key is recognised.
    #[serde(default)]
    pub horizon: Horizon,
    /// What is known about when an effect happens.
    #[serde(default)]
    pub execution: Execution,
    /// What marks an answer as a repetition (R8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_marker: Option<ReplayMarker>,
    /// The destination's advice whether to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<RetryHint>,
    /// What an unknown looks like to the vendor's own client, through the proxy (R21).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indeterminate: Option<IndeterminateAnswer>,
    /// Where an answer names the effect.
    #[serde(default)]
    pub effect: EffectRules,
    /// A field that carries our marker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<MarkerField>,
    /// How an effect is found after its reply was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<Lookup>,
    /// What answers mean where the general rules do not know; the first that matches decides.
    #[serde(default)]
    pub responses: Vec<ResponseRule>,
    /// What makes the request harmless to repeat without a key (kind I).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,
    /// What of a vendor's client's request matters beside its body, through the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyRules>,
    /// How a credential of the live system is told from one of a test system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_credential: Option<LiveCredential>,
    /// Where all this is from.
    #[serde(default)]
    pub provenance: Provenance,
}

/// What kind of protection a contract gives: the columns of the classification table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The key is recognised, and whatever was answered is stored, server errors included.
    K1,
    /// The key is recognised, but only successes are surely stored.
    K2,
    /// The key is recognised, and unfinished work is continued.
    K3,
    /// No key, but an authoritative lookup.
    L,
    /// Neither.
    N,
    /// Harmless to repeat: declared in the contract with a precondition, never inferred from a method or a hint.
    I,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K1 => "K1",
            Self::K2 => "K2",
            Self::K3 => "K3",
            Self::L => "L",
            Self::N => "N",
            Self::I => "I",
        })
    }
}

impl Contract {
    /// A contract that promises nothing.
    #[must_use]
    pub fn promising_nothing(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            version: 1,
            refused_if: None,
            min_retry_delay: None,
            about: About::default(),
            key: None,
            scope: Scope::default(),
            same_input: Repetition::default(),
            other_input: Mismatch::default(),
            in_flight: Concurrency::default(),
            horizon: Horizon::default(),
            execution: Execution::default(),
            replay_marker: None,
            retry_hint: None,
            indeterminate: None,
            effect: EffectRules::default(),
            marker: None,
            lookup: None,
            responses: Vec::new(),
            precondition: None,
            proxy: None,
            live_credential: None,
            provenance: Provenance::default(),
        }
    }

    /// Reads a contract from TOML.
    ///
    /// # Errors
    /// [`ContractError`] names the place. An unknown field is an error: it may be a promise with a spelling mistake.
    pub fn parse(text: &str) -> Result<Self, ContractError> {
        let contract: Self = toml::from_str(text).map_err(|error| ContractError::from_toml(text, &error))?;
        contract.validate()?;
        Ok(contract)
    }

    /// What protection it gives.
    #[must_use]
    pub fn kind(&self) -> Kind {
        if self.precondition.is_some() {
            return Kind::I;
        }
        if self.key.is_some() {
            match self.same_input.behaviour {
                SameInput::Continues => return Kind::K3,
                SameInput::ReplaysStored if self.same_input.saved.server_error == Kept::Stored => return Kind::K1,
                SameInput::ReplaysStored
                | SameInput::ReturnsCurrent
                | SameInput::ReturnsExistingResource
                | SameInput::RejectsDuplicateWithPointer
                | SameInput::RejectsDuplicateNoReceipt
                | SameInput::AcceptedNoEffect => return Kind::K2,
                SameInput::Undocumented => {}
            }
        }
        if self.finds_a_lost_effect() { Kind::L } else { Kind::N }
    }

    /// Whether an automatic lookup can find an effect whose answer was lost altogether.
    #[must_use]
    pub fn finds_a_lost_effect(&self) -> bool {
        self.lookup
            .as_ref()
            .is_some_and(|lookup| lookup.kind.finds_a_lost_effect() && lookup.request != LookupRequest::Nothing)
    }

    /// The body's name: SHA-256 of its canonical JSON. Operations pin the contract they were made with by it.
    #[must_use]
    pub fn content_hash(&self) -> [u8; 32] {
        // A number past 2^53 inside a predicate has no canonical form; the order of the fields is fixed all the same.
        let canonical =
            serde_json_canonicalizer::to_vec(self).or_else(|_| serde_json::to_vec(self)).unwrap_or_default();
        Sha256::digest(canonical).into()
    }
}
