//! What a person writes under `[destination.*]`, as types. Unknown fields are mistakes.

mod source;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use onceward_core::contract::{IsError, Locator, Lookup, MarkerField, Predicate, Span};
use onceward_core::pointer::Pointer;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::source::{Problems, TextTable, table_of, take};
use crate::amount::AmountText;
use crate::mapping::Encoding;
use crate::proxy::WhoseKey;
use crate::tool::{Approval, WithoutIdentity};

/// `[destination.NAME]`, without `contract` and `tool`, which are read by themselves so that one mistake hides no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DestinationText {
    pub(crate) url: String,
    pub(crate) account: Option<String>,
    #[serde(default)]
    pub(crate) scope: BTreeMap<String, String>,
    pub(crate) connect_timeout: Option<Span>,
    pub(crate) timeout: Option<Span>,
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) observe: Option<bool>,
}

/// `[destination.NAME.proxy]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProxyText {
    pub(crate) enabled: Option<bool>,
    pub(crate) version: Option<String>,
    pub(crate) reads: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) identity: Vec<String>,
    pub(crate) without_identity: Option<WithoutIdentity>,
    #[serde(default)]
    pub(crate) approval: Approval,
    #[serde(default)]
    pub(crate) key: WhoseKey,
    pub(crate) tenant: Option<String>,
    #[serde(default)]
    pub(crate) scope_headers: Vec<String>,
    #[serde(default)]
    pub(crate) pinned_headers: Vec<String>,
    pub(crate) effect_id: Option<String>,
    pub(crate) amount: Option<AmountText>,
    pub(crate) timeout: Option<Span>,
    pub(crate) deadline: Option<Span>,
    #[serde(default)]
    pub(crate) retry: RetryText,
}

/// `[mcp.NAME]`, without `contract`, `auth` and `tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpText {
    pub(crate) command: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<String>,
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) reads: Vec<String>,
    #[serde(default)]
    pub(crate) prefix: String,
    pub(crate) account: Option<String>,
    #[serde(default)]
    pub(crate) scope: BTreeMap<String, String>,
    pub(crate) connect_timeout: Option<Span>,
    pub(crate) timeout: Option<Span>,
    pub(crate) max_in_flight: Option<u32>,
    /// A built-in set of refusals, by the name of the server that they are of.
    pub(crate) refusals: Option<String>,
    pub(crate) refused_if: Option<Predicate>,
    pub(crate) is_error: Option<IsError>,
    pub(crate) without_identity: Option<WithoutIdentity>,
    pub(crate) approval: Option<Approval>,
    pub(crate) observe: Option<bool>,
}

/// `[mcp.NAME.tool.NAME]`, without `contract`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpToolText {
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) free_text: Vec<Pointer>,
    #[serde(default)]
    pub(crate) volatile: Vec<Pointer>,
    #[serde(default)]
    pub(crate) business_key: Vec<Pointer>,
    pub(crate) without_identity: Option<WithoutIdentity>,
    pub(crate) approval: Option<Approval>,
    pub(crate) observe: Option<bool>,
    pub(crate) amount: Option<AmountText>,
    pub(crate) timeout: Option<Span>,
    pub(crate) deadline: Option<Span>,
    #[serde(default)]
    pub(crate) retry: RetryText,
    pub(crate) refused_if: Option<Predicate>,
    pub(crate) success_if: Option<Predicate>,
    pub(crate) is_error: Option<IsError>,
    pub(crate) effect_id: Option<EffectPlace>,
    pub(crate) marker: Option<MarkerField>,
    pub(crate) lookup: Option<Lookup>,
}

/// `auth = { … }`: one of the three ways.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthText {
    pub(crate) bearer: Option<String>,
    pub(crate) header: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// `[destination.NAME.tool.NAME]`, without `request`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolText {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) schema: Option<Value>,
    pub(crate) schema_file: Option<String>,
    #[serde(default)]
    pub(crate) read: bool,
    #[serde(default)]
    pub(crate) free_text: Vec<Pointer>,
    #[serde(default)]
    pub(crate) volatile: Vec<Pointer>,
    #[serde(default)]
    pub(crate) business_key: Vec<Pointer>,
    pub(crate) without_identity: Option<WithoutIdentity>,
    #[serde(default)]
    pub(crate) approval: Approval,
    pub(crate) observe: Option<bool>,
    pub(crate) amount: Option<AmountText>,
    pub(crate) timeout: Option<Span>,
    pub(crate) deadline: Option<Span>,
    #[serde(default)]
    pub(crate) retry: RetryText,
    pub(crate) refused_if: Option<Predicate>,
    pub(crate) success_if: Option<Predicate>,
    pub(crate) effect_id: Option<EffectPlace>,
    pub(crate) marker: Option<MarkerField>,
    pub(crate) lookup: Option<Lookup>,
    #[serde(default)]
    pub(crate) annotations: AnnotationsText,
}

/// `retry = { … }`; what is left out keeps its usual value.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryText {
    pub(crate) attempts_max: Option<u32>,
    pub(crate) transport_base: Option<Span>,
    pub(crate) throttle_base: Option<Span>,
    pub(crate) cap: Option<Span>,
}

/// `effect_id = "/id"`, or `{ header = "X-Id" }`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a JSON Pointer such as \"/id\", or { header = \"NAME\" }")]
pub(crate) enum EffectPlace {
    Pointer(Pointer),
    Locator(Locator),
}

/// `annotations = { … }`: what a host is told about the tool.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnotationsText {
    pub(crate) title: Option<String>,
    pub(crate) destructive: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

/// `request = { … }`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestText {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<Value>,
    #[serde(default)]
    pub(crate) encoding: Encoding,
    #[serde(default)]
    pub(crate) required: Vec<Pointer>,
}
