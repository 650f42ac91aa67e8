//! How a destination is asked whether an effect exists, and what its answer proves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dimension::{AbsenceIsProof, Consistency, LookupKind};
use super::predicate::Predicate;
use super::span::Span;
use crate::pointer::Pointer;

/// A question to the destination. It is data: whoever asks fills in the placeholders `{marker}`, `{key}`, `{handle}`,
/// `{sent_from}`, `{sent_until}` and `{/pointer/into/the/arguments}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LookupText", into = "LookupText")]
pub struct Lookup {
    /// By what the effect is found.
    pub kind: LookupKind,
    /// The request.
    pub request: LookupRequest,
    /// Where the answer has its list; without it the answer itself is the only item.
    pub items: Option<Pointer>,
    /// Statuses that mean "no such thing", such as 404. Every other failure says nothing.
    pub absent_statuses: Vec<u16>,
    /// By which fields an item is recognised as ours. One that matches is enough.
    pub recognise: Vec<Recognise>,
    /// What is compared with the arguments. Without it an item is never more than a candidate (R11).
    pub compare: Vec<Compare>,
    /// Where an item has its effect id.
    pub effect_id: Option<Pointer>,
    /// How soon the answers show what was written.
    pub consistency: Consistency,
    /// Whether finding nothing proves anything.
    pub absence_is_proof: AbsenceIsProof,
    /// How long after the effect an answer may still miss it.
    pub visibility_delay: Option<Span>,
    /// How many answers in a row must not have it.
    pub absences_required: u32,
    /// Whether the answer may be a part of the list only.
    pub list_may_be_cut: bool,
    /// What shows that the answer is the whole list.
    pub whole_if: Option<Predicate>,
}

/// The request of a lookup. It must not write anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupRequest {
    /// An HTTP request.
    Http {
        /// The method: `GET`, or a `POST` that only reads.
        method: String,
        /// The path, with placeholders.
        path: String,
        /// Query parameters, with placeholders.
        query: BTreeMap<String, String>,
        /// A JSON body, with placeholders in its texts.
        body: Option<Value>,
    },
    /// A call of a reading tool.
    Tool {
        /// The tool.
        tool: String,
        /// Its arguments, with placeholders in its texts.
        args: Map<String, Value>,
    },
    /// The application that ran its own function asks, and reports what it was told.
    Application,
    /// Nothing is sent: the effect shows itself by other means ([`LookupKind::EventStream`], a person).
    Nothing,
}

/// A field by which an item is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recognise {
    /// The field.
    pub at: Pointer,
    /// How our key or marker stands in it.
    #[serde(default)]
    pub how: Match,
}

/// How a key or marker stands in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// The field is the key.
    #[default]
    Equals,
    /// The field is a list that has the key, or a text that contains it as a whole word.
    Contains,
    /// The field is a list that has the key. Unlike with `contains`, one that is missing is made as a list.
    Element,
}

/// An argument and the field of the effect that must have the same value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Where the arguments have it.
    pub argument: Pointer,
    /// Where the effect has it.
    pub effect: Pointer,
}

impl Lookup {
    /// Whether it reads the thing that a refused repetition was pointed at.
    #[must_use]
    pub fn follows_a_pointer(&self) -> bool {
        self.kind == LookupKind::ByKeyViaConflict && self.request != LookupRequest::Nothing
    }

    /// How long after its effect an item is surely shown; `None` when nobody says.
    #[must_use]
    pub fn shown_after(&self) -> Option<Span> {
        match self.consistency {
            Consistency::Strong => Some(self.visibility_delay.unwrap_or(Span::seconds(0))),
            Consistency::StrongPresumed | Consistency::Mixed | Consistency::Eventual | Consistency::Unknown => {
                self.visibility_delay
            }
        }
    }
}

/// The default of `absences_required`: one answer may come from a replica that lags more than its owner believes.
pub const ABSENCES_REQUIRED_UNSAID: u32 = 2;

const fn absences_required_unsaid() -> u32 {
    ABSENCES_REQUIRED_UNSAID
}

const fn yes() -> bool {
    true
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LookupText {
    #[serde(default)]
    kind: Option<LookupKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    query: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<AskedBy>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Pointer>,
    #[serde(default)]
    absent_statuses: Vec<u16>,
    #[serde(default)]
    recognise: Vec<Recognise>,
    #[serde(default)]
    compare: Vec<Compare>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect_id: Option<Pointer>,
    #[serde(default)]
    consistency: Consistency,
    #[serde(default)]
    absence_is_proof: AbsenceIsProof,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility_delay: Option<Span>,
    #[serde(default = "absences_required_unsaid")]
    absences_required: u32,
    #[serde(default = "yes")]
    list_may_be_cut: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whole_if: Option<Predicate>,
}

/// Who asks, where it is not Onceward.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AskedBy {
    Application,
}

impl TryFrom<LookupText> for Lookup {
    type Error = &'static str;
    fn try_from(text: LookupText) -> Result<Self, Self::Error> {
        let request = match (text.path, text.tool, text.asked_by) {
            (Some(_), Some(_), _) => return Err("a lookup has a path or a tool, not both"),
            (Some(_), None, Some(_)) | (None, Some(_), Some(_)) => {
                return Err("a lookup that the application makes has no path and no tool");
            }
            (None, None, Some(AskedBy::Application)) => LookupRequest::Application,
            (Some(path), None, None) => LookupRequest::Http {
                method: text.method.unwrap_or_else(|| "GET".to_owned()),
                path,
                query: text.query,
                body: text.body,
            },
            (None, Some(tool), None) => LookupRequest::Tool { tool, args: text.args },
            (None, None, None) => LookupRequest::Nothing,
        };
        // A lookup that does not say by what it finds is one that looks for our marker: that is what a marker is for.
        let kind = text.kind.unwrap_or(LookupKind::ByInjectedMarker);
        Ok(Self {
            kind,
            request,
            items: text.items,
            absent_statuses: text.absent_statuses,
            recognise: text.recognise,
            compare: text.compare,
            effect_id: text.effect_id,
            consistency: text.consistency,
            absence_is_proof: text.absence_is_proof,
            visibility_delay: text.visibility_delay,
            absences_required: text.absences_required,
            list_may_be_cut: text.list_may_be_cut,
            whole_if: text.whole_if,
        })
    }
}

impl From<Lookup> for LookupText {
    fn from(lookup: Lookup) -> Self {
        let mut text = Self {
            kind: Some(lookup.kind),
            method: None,
            path: None,
            query: BTreeMap::new(),
            body: None,
            tool: None,
            asked_by: None,
            args: Map::new(),
            items: lookup.items,
            absent_statuses: lookup.absent_statuses,
            recognise: lookup.recognise,
            compare: lookup.compare,
            effect_id: lookup.effect_id,
            consistency: lookup.consistency,
            absence_is_proof: lookup.absence_is_proof,
            visibility_delay: lookup.visibility_delay,
            absences_required: lookup.absences_required,
            list_may_be_cut: lookup.list_may_be_cut,
            whole_if: lookup.whole_if,
        };
        match lookup.request {
            LookupRequest::Http { method, path, query, body } => {
                text.method = Some(method);
                text.path = Some(path);
                text.query = query;
                text.body = body;
            }
            LookupRequest::Tool { tool, args } => {
                text.tool = Some(tool);
                text.args = args;
            }
            LookupRequest::Application => text.asked_by = Some(AskedBy::Application),
            LookupRequest::Nothing => {}
        }
        text
    }
}
