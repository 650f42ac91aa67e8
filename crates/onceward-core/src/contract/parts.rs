//! The parts of a contract: one struct for each table of its file.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dimension::{
    AfterExpiry, Confidence, HorizonClock, HorizonKind, InFlight, Mechanism, OtherInput, SameInput, Saved,
};
use super::lookup::{Compare, Match};
use super::predicate::{Predicate, Seen};
use super::span::Span;
use crate::limits::{HORIZON_MARGIN_MIN, HORIZON_MARGIN_PART};
use crate::pointer::Pointer;

/// What the contract is about, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct About {
    /// Whose interface it is.
    pub vendor: String,
    /// Which of its interfaces.
    pub api: String,
    /// Which requests.
    pub endpoints: Vec<String>,
    /// What those requests bring about: `payment`, `email`, `ticket` …
    pub effect_class: Vec<String>,
    /// By what means repetitions are recognised.
    pub mechanisms: Vec<Mechanism>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Within what a key is unique: `account`, `mode`, `region`, `endpoint`, `credential` …
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The dimensions. A redrive needs all of them to be the same as in the first attempt.
    pub dimensions: Vec<String>,
    /// What a reader should know.
    pub notes: Option<String>,
}

/// The same key with the same input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repetition {
    /// What the destination does.
    pub behaviour: SameInput,
    /// Which answers it stores.
    pub saved: Saved,
    /// How an "already exists" is recognised (row 17).
    pub duplicate: Option<Predicate>,
    /// Where such an answer names what exists.
    pub existing: Option<Locator>,
}

/// The same key with other input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mismatch {
    /// What the destination does.
    pub behaviour: OtherInput,
    /// With which statuses it refuses.
    pub statuses: Vec<u16>,
    /// What tells the refusal from others of that status. Without it the status speaks of a mismatch only in a
    /// repetition.
    pub when: Option<Predicate>,
    /// What it compares, in words.
    pub compared: Option<String>,
}

/// The same key while it is being executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Concurrency {
    /// What the destination does.
    pub behaviour: InFlight,
    /// With which statuses it says so.
    pub statuses: Vec<u16>,
    /// What tells this answer from others of that status.
    pub when: Option<Predicate>,
    /// The header that says how long to wait; `Retry-After` unless named.
    pub retry_after_header: Option<String>,
    /// How long a key stays locked when its execution dies.
    pub lock_ttl: Option<Span>,
    /// The longest time from a request's arrival to its effect. Unsaid means that it may happen at any later time.
    pub bound: Option<Span>,
}

/// How long a key is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Horizon {
    /// What kind of promise it is.
    pub kind: HorizonKind,
    /// The shortest it can be.
    pub min: Option<Span>,
    /// The longest it can be.
    pub max: Option<Span>,
    /// When it begins.
    pub clock: HorizonClock,
    /// What happens afterwards.
    pub after_expiry: AfterExpiry,
    /// How long before its end it counts as passed.
    pub margin: Option<Span>,
}

/// How long from the earliest claim on a repetition is surely recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// For that long; the margin is already taken off.
    For(Duration),
    /// Without end.
    Always,
    /// Nothing is promised.
    Never,
}

/// What is known about when an effect happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// Statuses that come before any effect: with them nothing happened, and the request will be refused again.
    pub refused_before_effect: Vec<u16>,
    /// Whether an HTTP/2 REFUSED_STREAM, or a GOAWAY below the stream, is to be believed.
    pub trusts_refused_stream: bool,
    /// Whether 429 comes before any work.
    pub limiter_before_work: bool,
    /// Whether 503 comes before any work.
    pub shed_before_work: bool,
    /// Whether an effect is surely recognised under its key, also when the answer was an error or none came (R7): it is
    /// committed with the key, or is itself what the key is looked for in.
    pub effect_atomic_with_key: bool,
    /// Whether a 202 is the effect: there is nothing more to wait for.
    pub accept_is_effect: bool,
    /// Whether an MCP tool's `isError` means that nothing happened. This is a risk that somebody takes and records.
    pub is_error: IsError,
}

/// What an MCP tool's `isError` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsError {
    /// It may have had its effect all the same.
    #[default]
    Uncertain,
    /// Nothing happened.
    Refused,
}

/// What marks an answer as a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayMarker {
    /// Where.
    pub at: Locator,
    /// Its values; any value will do when there is none.
    #[serde(default)]
    pub values: Vec<String>,
    /// What it means when a redrive is answered with a success and without it.
    #[serde(default)]
    pub missing: MissingMarker,
}

/// What a redrive's success without the replay marker means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingMarker {
    /// The destination did not recognise the key: there may be two effects (R8).
    #[default]
    Disagreement,
    /// The destination gives the marker only now and then; nothing follows.
    SaysNothing,
}

/// The destination's advice whether to try again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryHint {
    /// The header that says it.
    pub header: String,
    /// Its value for "try again with the same key".
    pub again: String,
    /// Its value for "do not".
    pub stop: String,
}

/// What an unknown looks like to the vendor's own client. It must not read as done, or as safe to repeat with a new key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndeterminateAnswer {
    /// The status.
    pub status: u16,
    /// Headers, its stop-retry signal among them.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, with the placeholders `{operation_id}`, `{message}`, `{code}` (the outcome in one word) and `{status}`, each
    /// escaped as inside a JSON text.
    pub body: String,
}

/// Headers of a vendor's client that the proxy lets through beside `Accept` and `Content-Type`. Every other one stays behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyRules {
    /// Those that are part of the scope of a key, such as a sub-account: with another value it is another operation.
    pub scope: Vec<String>,
    /// Those that change how a request is read or answered, such as an API version. The first attempt's value goes with every
    /// later one; an upgraded client makes no other operation by it.
    pub pinned: Vec<String>,
}

/// A place in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locator {
    /// In the JSON body.
    Body(Pointer),
    /// A header.
    Header(String),
}

impl Locator {
    /// The text that stands there; a number counts as its digits.
    #[must_use]
    pub fn text(&self, seen: &Seen<'_>) -> Option<String> {
        match self {
            Self::Header(name) => seen.header(name).map(ToOwned::to_owned),
            Self::Body(at) => match at.get(seen.body?)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Number(number) => Some(number.to_string()),
                serde_json::Value::Bool(bool) => Some(bool.to_string()),
                serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
            },
        }
    }
}

/// Where an answer names the effect, and what of it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EffectRules {
    /// The effect's id. A success without it is not understood, and so not believed.
    pub id: Option<Locator>,
    /// The handle of accepted work; the `Location` header unless named.
    pub handle: Option<Locator>,
    /// What a success must repeat of the arguments (row 8).
    pub correlate: Vec<Compare>,
    /// Headers to keep beside `Content-Type`, `ETag`, `Link` and `Location`.
    pub keep_headers: Vec<String>,
}

/// A field of the request that carries our marker into the effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkerField {
    /// Where, in a JSON body or a tool's arguments.
    pub at: Pointer,
    /// How it stands there.
    #[serde(default)]
    pub how: Match,
    /// The longest text the field takes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseRule {
    /// Which answers.
    pub when: Predicate,
    /// What they mean.
    pub is: Meaning,
}

/// What an answer means, whatever its status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// It was done.
    Confirmed,
    /// It was refused and nothing happened.
    Refused,
    /// It was turned away before any work, and would be taken later.
    TurnedAway,
    /// Our credential was refused before any work.
    CredentialRefused,
    /// It will be done later.
    Accepted,
    /// The same key is being executed.
    InFlight,
    /// The key was used with other input.
    KeyMismatch,
    /// The thing exists already.
    AlreadyExists,
    /// A part of it was done.
    Partial,
    /// It may have been done.
    Uncertain,
}

impl Meaning {
    /// Whether it claims less than that the effect is possible: such a claim needs both contracts (R6).
    pub(super) const fn is_favourable(self) -> bool {
        match self {
            Self::Confirmed | Self::Refused | Self::TurnedAway | Self::CredentialRefused => true,
            Self::Accepted
            | Self::InFlight
            | Self::KeyMismatch
            | Self::AlreadyExists
            | Self::Partial
            | Self::Uncertain => false,
        }
    }
}

/// What makes a request harmless to repeat: it changes the thing only if nobody changed it since (R9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// A header of the request, such as `If-Match`.
    Header(String),
    /// A field of the request, such as a version number.
    Field(Pointer),
}

/// How a credential of the live system is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveCredential {
    /// What it begins with.
    pub prefixes: Vec<String>,
}

/// Where a contract is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provenance {
    /// How well it is known.
    pub confidence: Confidence,
    /// How well its parts are known, by the name of the part, where that differs.
    pub parts: BTreeMap<String, Confidence>,
    /// When its sources were read: `YYYY-MM-DD`.
    pub read: Option<String>,
    /// When somebody last tried it at the destination.
    pub verified: Option<String>,
    /// The sources.
    pub sources: Vec<Source>,
}

/// One source of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// How good it is.
    pub kind: Confidence,
    /// Where it stands.
    pub at: String,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Horizon {
    /// How long from the earliest claim on a repetition is surely recognised.
    ///
    /// Every clock that a destination may use begins at or after that claim, so counting from it is never too long.
    #[must_use]
    pub fn recognised(&self) -> Recognised {
        match (self.kind, self.min) {
            (HorizonKind::Indefinite, _) => Recognised::Always,
            (HorizonKind::Undocumented, _)
            | (
                HorizonKind::Fixed
                | HorizonKind::AtLeast
                | HorizonKind::Range
                | HorizonKind::Configurable
                | HorizonKind::ClientChosen
                | HorizonKind::ResourceLifetime
                | HorizonKind::ServerDefined,
                None,
            ) => Recognised::Never,
            (
                HorizonKind::Fixed
                | HorizonKind::AtLeast
                | HorizonKind::Range
                | HorizonKind::Configurable
                | HorizonKind::ClientChosen
                | HorizonKind::ResourceLifetime
                | HorizonKind::ServerDefined,
                Some(min),
            ) => Recognised::For(min.duration().saturating_sub(self.margin_of(min))),
        }
    }

    fn margin_of(&self, min: Span) -> Duration {
        match self.margin {
            Some(margin) => margin.duration(),
            None => (min.duration() / HORIZON_MARGIN_PART).max(HORIZON_MARGIN_MIN),
        }
    }
}

impl LiveCredential {
    /// Whether that credential belongs to the live system.
    #[must_use]
    pub fn recognises(&self, credential: &str) -> bool {
        self.prefixes.iter().any(|prefix| credential.starts_with(prefix.as_str()))
    }
}
