//! What `onceward check` says of each tool: its key, its lookup, and what a lost reply becomes.

use std::fmt;
use std::time::Duration;

use onceward_core::contract::{Contract, IsError, LookupRequest};
use onceward_core::event::Cause;
use onceward_core::evidence::{NextCheck, RedriveCase, ScopeEquality, may_redrive, next_check};
use onceward_core::key::{AttemptNumber, Generation};
use onceward_core::pointer::Pointer;
use onceward_core::state::Uncertain;
use onceward_core::time::Timestamp;
use serde::Serialize;

use crate::catalog::Catalog;
use crate::mapping::{BodyMapping, Mapping};
use crate::proxy::Proxy;
use crate::schema::Schema;
use crate::tool::{Approval, Effect, Mode, Tool, WithoutIdentity, sample_key};

/// One tool, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolLine {
    /// The tool.
    pub tool: String,
    /// Its destination.
    pub destination: String,
    /// The id of the destination's contract.
    pub contract: String,
    /// Whether it reads or writes.
    pub effect: Effect,
    /// Where its operation ids come from.
    pub key: String,
    /// Where the key that the destination sees travels.
    pub carrier: String,
    /// How an effect is found after its reply was lost.
    pub lookup: String,
    /// What a lost reply becomes.
    pub lost_reply: String,
    /// Whether the rules bind its calls, or only watch them.
    pub mode: Mode,
    /// What somebody should look at.
    pub warnings: Vec<String>,
}

impl fmt::Display for ToolLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.effect {
            Effect::Read => write!(f, "{} ({}): reads, passes through", self.tool, self.destination)?,
            Effect::Write => write!(
                f,
                "{} ({}, {}): {}key {}; sent as {}; lookup {}; a lost reply: {}",
                self.tool,
                self.destination,
                self.contract,
                match self.mode {
                    Mode::Enforce => "",
                    Mode::Observe => "only observed, nothing is blocked; enforced it would be: ",
                },
                self.key,
                self.carrier,
                self.lookup,
                self.lost_reply
            )?,
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  warning: {warning}"))
    }
}

impl Catalog {
    /// One line per tool, by name.
    #[must_use]
    pub fn explain(&self) -> Vec<ToolLine> {
        let mut lines: Vec<ToolLine> = self.tools().iter().map(|tool| line(tool)).collect();
        lines.extend(self.proxies().map(|proxy| proxy_line(proxy)));
        lines.extend(self.expected());
        lines.sort_by(|one, other| one.tool.cmp(&other.tool));
        lines
    }
}

fn line(tool: &Tool) -> ToolLine {
    let contract = tool.contract();
    let none = || "none".to_owned();
    let (key, carrier, lookup, lost) = match tool.effect() {
        Effect::Read => (none(), none(), none(), "it is read again".to_owned()),
        Effect::Write => (
            key(tool.without_identity(), tool.approval()),
            tool.target.carrier(),
            lookup(contract),
            lost_reply(contract),
        ),
    };
    ToolLine {
        tool: tool.name().to_string(),
        destination: tool.destination_name().to_owned(),
        contract: tool.contract().id.clone(),
        effect: tool.effect(),
        key,
        carrier,
        lookup,
        lost_reply: lost,
        mode: tool.mode(),
        warnings: tool.warnings.clone(),
    }
}

fn proxy_line(proxy: &Proxy) -> ToolLine {
    let contract = proxy.contract();
    ToolLine {
        tool: proxy.tool().to_string(),
        destination: proxy.name().to_owned(),
        contract: contract.id.clone(),
        effect: Effect::Write,
        key: format!("the client's key where it is the application's own ({})", without(proxy.without_identity())),
        carrier: proxy.destination.plan().describe(),
        lookup: lookup(contract),
        lost_reply: lost_reply(contract),
        mode: proxy.mode(),
        warnings: proxy.warnings.clone(),
    }
}

/// A tool of an MCP server that was not asked yet: what the configuration alone says of it.
pub(crate) fn expected(
    tool: String,
    server: &str,
    effect: Effect,
    (identity, approval, mode): (WithoutIdentity, Approval, Mode),
    contract: &Contract,
    carrier: String,
) -> ToolLine {
    let none = || "none".to_owned();
    let (key, carrier, lookup, lost_reply) = match effect {
        Effect::Read => (none(), none(), none(), "it is read again".to_owned()),
        Effect::Write => (key(identity, approval), carrier, lookup(contract), lost_reply(contract)),
    };
    ToolLine {
        tool,
        destination: server.to_owned(),
        contract: contract.id.clone(),
        effect,
        key,
        carrier,
        lookup,
        lost_reply,
        mode,
        warnings: Vec::new(),
    }
}

fn key(identity: WithoutIdentity, approval: Approval) -> String {
    let without = without(identity);
    match approval {
        Approval::None => format!("the caller's operation id ({without})"),
        Approval::Required => format!("the caller's operation id ({without}; a person approves each)"),
    }
}

fn without(policy: WithoutIdentity) -> &'static str {
    match policy {
        WithoutIdentity::Refuse => "a call without one is refused",
        WithoutIdentity::Hold => "without one, a repetition is held",
        WithoutIdentity::Approve => "a call without one waits for approval",
        WithoutIdentity::Scope => "without one, the run's scope decides",
    }
}

fn lookup(contract: &Contract) -> String {
    let Some(lookup) = &contract.lookup else { return "none".to_owned() };
    match &lookup.request {
        LookupRequest::Http { method, path, .. } => format!("{method} {path}"),
        LookupRequest::Tool { tool, .. } => format!("tool {tool}"),
        LookupRequest::Application => "by the application".to_owned(),
        LookupRequest::Nothing => "named by the contract, without a request".to_owned(),
    }
}

/// What the rules would do if a first attempt's reply were lost now. They are asked, not repeated here.
fn lost_reply(contract: &Contract) -> String {
    let sent = Timestamp::EPOCH;
    let uncertain = [Uncertain {
        attempt: AttemptNumber(1),
        generation: Generation(1),
        outbound_key: contract.key.as_ref().and_then(|_| sample_key()),
        claimed_at: sent,
        send_before: sent,
        ended_at: Some(sent),
        cause: Cause::ReplyLost,
        absences: 0,
        absent_at: None,
    }];
    let case = |now| RedriveCase {
        pinned: contract,
        current: contract,
        scope: ScopeEquality::Same,
        uncertain: &uncertain,
        disproved: &[],
        last_attempt: AttemptNumber(1),
        now,
    };
    match next_check(&case(sent)) {
        NextCheck::Redrive { at } => {
            // The permit is granted once the in-flight bound has passed, and says how long it lasts.
            let until = match may_redrive(&case(at)) {
                Ok(permit) if permit.valid_until().as_micros() == i64::MAX => "without end".to_owned(),
                Ok(permit) => format!("until {}", span(permit.valid_until().since(sent))),
                Err(_) => return "waits for a person".to_owned(),
            };
            match at.since(sent) {
                Duration::ZERO => format!("same-key retry {until}"),
                wait => format!("same-key retry after {}, {until}", span(wait)),
            }
        }
        NextCheck::Lookup { at } => match at.since(sent) {
            Duration::ZERO => "lookup at once".to_owned(),
            wait => format!("lookup after {}", span(wait)),
        },
        NextCheck::Person => "waits for a person".to_owned(),
    }
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        seconds if seconds.is_multiple_of(60) && seconds > 120 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Words in a description that make a model invent a new key for what is a repetition.
const NEW_KEY: [&str; 8] = [
    "new key for every",
    "new key for each",
    "unique key for every",
    "unique key for each",
    "new idempotency key",
    "unique idempotency key",
    "fresh idempotency key",
    "generate a uuid",
];

/// Argument names under which a model would put a key of its own.
const KEY_ARGUMENTS: [&str; 5] = ["idempotency_key", "idempotencykey", "request_id", "requestid", "client_token"];

/// What somebody should look at in a tool of an MCP server. `key` is the argument that the contract fills in.
pub(crate) fn mcp_warnings(
    effect: Effect,
    description: &str,
    schema: &Schema,
    key: Option<&Pointer>,
    is_error: IsError,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if effect == Effect::Read {
        return warnings;
    }
    warnings.extend(new_key_warning(description, schema));
    let properties = schema.document().get("properties").and_then(serde_json::Value::as_object);
    for name in properties.into_iter().flat_map(serde_json::Map::keys) {
        let filled_in = key.is_some_and(|at| at.tokens().first() == Some(name));
        if KEY_ARGUMENTS.contains(&name.to_lowercase().as_str()) && !filled_in {
            warnings.push(format!(
                "its argument {name:?} looks like a key, which a model would invent; if the server recognises it, let the contract \
                 fill it in: key = {{ carriers = [{{ in = \"argument\", name = {name:?} }}] }}"
            ));
        }
    }
    warnings.extend(is_error_warning(is_error));
    warnings
}

/// What is said wherever an error is taken for a refusal: somebody took the risk, and others should see it.
pub(crate) fn is_error_warning(is_error: IsError) -> Option<String> {
    match is_error {
        IsError::Uncertain => None,
        IsError::Refused => Some(
            "is_error = \"refused\": an error that comes after the effect is taken for a refusal, and the call may then be made again"
                .to_owned(),
        ),
    }
}

fn new_key_warning(description: &str, schema: &Schema) -> Option<String> {
    let texts = format!("{description} {}", schema.document()).to_lowercase();
    let words = NEW_KEY.iter().find(|words| texts.contains(**words))?;
    Some(format!("its description says {words:?}: a model that follows it makes each repetition a new operation"))
}

/// What somebody should look at in a tool.
pub(crate) fn warnings(effect: Effect, description: &str, schema: &Schema, mapping: &Mapping) -> Vec<String> {
    let mut warnings = Vec::new();
    if effect == Effect::Read {
        return warnings;
    }
    if mapping.method == http::Method::GET {
        warnings.push("it writes with GET; if it only reads, say read = true".to_owned());
    }
    warnings.extend(new_key_warning(description, schema));
    let properties = schema.document().get("properties").and_then(serde_json::Value::as_object);
    for name in properties.into_iter().flat_map(serde_json::Map::keys) {
        if KEY_ARGUMENTS.contains(&name.to_lowercase().as_str()) {
            warnings.push(format!(
                "its argument {name:?} looks like a key, which a model would invent; leave it to the contract"
            ));
        }
        let sent = match &mapping.body {
            BodyMapping::Arguments => true,
            BodyMapping::None | BodyMapping::Template(_) => {
                mapping.fields().iter().any(|field| field.is_root() || field.tokens().first() == Some(name))
            }
        };
        if !sent {
            warnings.push(format!("its argument {name:?} is never sent"));
        }
    }
    warnings
}
