//! A tool as the configuration defines it.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::contract::Contract;
use onceward_core::fingerprint::Comparison;
use onceward_core::key::{OutboundKey, ToolName, ToolVersion};
use onceward_core::pointer::Pointer;
use onceward_core::receipt::Answer;
use onceward_core::retry::RetryPolicy;
use onceward_ledger::destination::Destination;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::amount::AmountPlace;
use crate::http::{HttpDestination, ReadError};
use crate::limits::TITLE_BYTES_MAX;
pub use crate::mapping::Unmappable;
use crate::mcp::{McpTool, UpstreamError, Watcher};
use crate::schema::{Schema, Violations};
use crate::template::Template;

/// A tool.
#[derive(Debug)]
pub struct Tool {
    pub(crate) name: ToolName,
    pub(crate) version: ToolVersion,
    pub(crate) title: Option<Template>,
    pub(crate) description: String,
    pub(crate) schema: Schema,
    pub(crate) effect: Effect,
    pub(crate) comparison: Comparison,
    pub(crate) business_key: Vec<Pointer>,
    pub(crate) without_identity: WithoutIdentity,
    pub(crate) approval: Approval,
    pub(crate) mode: Mode,
    pub(crate) amount: Option<AmountPlace>,
    pub(crate) answer_within: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) annotations: Annotations,
    pub(crate) target: Target,
    pub(crate) warnings: Vec<String>,
}

/// Where a tool's calls go: one of the kinds of destination.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A request that is configured as data.
    Http(Arc<HttpDestination>),
    /// A tool of an MCP server.
    Mcp(Arc<McpTool>),
}

impl Target {
    fn name(&self) -> &str {
        match self {
            Self::Http(http) => http.name(),
            Self::Mcp(mcp) => mcp.upstream().name(),
        }
    }

    fn contract(&self) -> &Contract {
        match self {
            Self::Http(http) => http.contract(),
            Self::Mcp(mcp) => mcp.contract(),
        }
    }

    fn destination(&self) -> Arc<dyn Destination> {
        match self {
            Self::Http(http) => Arc::clone(http) as Arc<dyn Destination>,
            Self::Mcp(mcp) => Arc::clone(mcp) as Arc<dyn Destination>,
        }
    }

    /// Where the key travels, in words.
    pub(crate) fn carrier(&self) -> String {
        match self {
            Self::Http(http) => http.plan().describe(),
            Self::Mcp(mcp) => mcp.plan.describe(),
        }
    }

    /// Whether these arguments can be sent, with that key. Nothing is sent.
    fn rehearse(&self, arguments: &Canonical, key: Option<&OutboundKey>) -> Result<(), Unmappable> {
        match self {
            Self::Http(http) => http.rehearse(arguments, key),
            Self::Mcp(mcp) => mcp.rehearse(arguments, key),
        }
    }

    async fn read(
        &self,
        arguments: &Canonical,
        answer_within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Answer, ReadError> {
        match self {
            // An HTTP destination says nothing before its answer.
            Self::Http(http) => http.read(arguments, answer_within).await,
            Self::Mcp(mcp) => mcp.read(arguments, answer_within, watcher).await,
        }
    }
}

/// Whether a tool changes anything. Everything is a write unless the configuration says that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It passes through and leaves no record.
    Read,
    /// It goes through the ledger.
    Write,
}

/// What happens to a call whose host sends no identity (R16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutIdentity {
    /// It is refused, and told how to send one.
    Refuse,
    /// It runs, and a later one that looks like its repetition is held.
    #[default]
    Hold,
    /// A person allows each.
    Approve,
    /// Trusted code says which calls belong to one run.
    Scope,
}

/// Whether a person must allow each operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// No.
    #[default]
    None,
    /// Yes.
    Required,
}

/// Whether the rules bind the calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They do.
    #[default]
    Enforce,
    /// Its calls are recorded and forwarded, and none is held back, replayed or refused.
    Observe,
}

impl Mode {
    /// What `observe = …` says, else what holds around it.
    pub(crate) const fn of(observe: Option<bool>, around: Self) -> Self {
        match observe {
            Some(true) => Self::Observe,
            Some(false) => Self::Enforce,
            None => around,
        }
    }
}

/// What a host is told about a tool beside its description. Hints for people: no rule reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// A name for people.
    pub title: Option<String>,
    /// Whether it may destroy something.
    pub destructive: Option<bool>,
    /// Whether it reaches beyond a closed set of things.
    pub open_world: Option<bool>,
}

/// Why arguments cannot be sent. Nothing was claimed and nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArguments {
    /// They do not fit the schema.
    #[error(transparent)]
    Schema(#[from] Violations),
    /// They fit the schema and make no request all the same.
    #[error(transparent)]
    Request(#[from] Unmappable),
}

impl Tool {
    /// Its name, unique among all destinations.
    #[must_use]
    pub const fn name(&self) -> &ToolName {
        &self.name
    }

    /// The version of its definition.
    #[must_use]
    pub const fn version(&self) -> &ToolVersion {
        &self.version
    }

    /// One line for people: what it would do with these arguments. A field that is missing or no text is left out.
    #[must_use]
    pub fn title(&self, arguments: &Canonical) -> String {
        let text = match &self.title {
            Some(template) => template.render_leniently(arguments.value()),
            None => self.name.to_string(),
        };
        one_line(&text)
    }

    /// What it does, in words for a model.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What its arguments look like.
    #[must_use]
    pub const fn schema(&self) -> &Value {
        self.schema.document()
    }

    /// Whether it changes anything.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Which fields make no other intention.
    #[must_use]
    pub const fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// The fields that tell two businesses apart where neither call has an identity (R16).
    #[must_use]
    pub fn business_key(&self) -> &[Pointer] {
        &self.business_key
    }

    /// What happens to a call without identity.
    #[must_use]
    pub const fn without_identity(&self) -> WithoutIdentity {
        self.without_identity
    }

    /// Whether a person must allow each operation.
    #[must_use]
    pub const fn approval(&self) -> Approval {
        self.approval
    }

    /// Whether the rules bind its calls.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Where the amount stands that a call is about, for people.
    #[must_use]
    pub const fn amount(&self) -> Option<&AmountPlace> {
        self.amount.as_ref()
    }

    /// How long a whole answer may take.
    #[must_use]
    pub const fn answer_within(&self) -> Duration {
        self.answer_within
    }

    /// How long after its creation an operation may still be sent.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// How often and how fast it is sent again, where that is permitted.
    #[must_use]
    pub const fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// What a host is told beside the description.
    #[must_use]
    pub const fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// The destination's name in the configuration.
    #[must_use]
    pub fn destination_name(&self) -> &str {
        self.target.name()
    }

    /// What its destination promises, with what the tool adds.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        self.target.contract()
    }

    /// The HTTP destination of a tool that has one.
    #[cfg(test)]
    pub(crate) fn http(&self) -> &Arc<HttpDestination> {
        match &self.target {
            Target::Http(http) => http,
            Target::Mcp(_) => panic!("a tool of an MCP server"),
        }
    }

    /// Where it is sent.
    #[must_use]
    pub fn destination(&self) -> Arc<dyn Destination> {
        self.target.destination()
    }

    /// Checks arguments before anything is claimed: the schema, and that they make a request.
    ///
    /// # Errors
    /// [`InvalidArguments`] names the fields. Nothing was sent, and with the same arguments nothing ever will be.
    pub fn check(&self, arguments: &Canonical) -> Result<(), InvalidArguments> {
        self.schema.check(arguments)?;
        // Keys that the ledger makes all look alike, so that one of them shows whether there is room for any.
        self.target.rehearse(arguments, sample_key().as_ref()).map_err(InvalidArguments::from)
    }

    /// Whether the arguments make a request at all, whatever their schema says. Nothing is sent.
    ///
    /// # Errors
    /// [`Unmappable`] says what is in the way.
    pub fn can_be_sent(&self, arguments: &Canonical) -> Result<(), Unmappable> {
        self.target.rehearse(arguments, sample_key().as_ref())
    }

    /// Sends a read, which leaves no record.
    ///
    /// # Errors
    /// [`ReadError`]. Nothing was written anywhere.
    pub async fn read(&self, arguments: &Canonical) -> Result<Answer, ReadError> {
        self.read_watched(arguments, None).await
    }

    /// The same; `watcher` is told what an MCP server says before its result.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub async fn read_watched(&self, arguments: &Canonical, watcher: Option<Watcher>) -> Result<Answer, ReadError> {
        match self.effect {
            Effect::Read => self.target.read(arguments, self.answer_within, watcher).await,
            Effect::Write => Err(ReadError::NotARead),
        }
    }

    /// Passes a call of an MCP server's tool on with the caller's own parameters. `watcher` is told what the server says meanwhile.
    ///
    /// # Errors
    /// [`UpstreamError`]; also for a tool that writes, which is called through the ledger alone. Nothing was written anywhere.
    pub async fn read_through(&self, params: Value, watcher: Watcher) -> Result<Box<RawValue>, UpstreamError> {
        match (&self.target, self.effect) {
            (Target::Mcp(mcp), Effect::Read) => mcp.pass(params, self.answer_within, Some(watcher)).await,
            (Target::Mcp(_) | Target::Http(_), Effect::Read | Effect::Write) => Err(UpstreamError::NotARead),
        }
    }

    /// The tool of an MCP server that it is, if it is one.
    #[must_use]
    pub fn mcp(&self) -> Option<&Arc<McpTool>> {
        match &self.target {
            Target::Mcp(mcp) => Some(mcp),
            Target::Http(_) => None,
        }
    }
}

/// A key that looks like those of [`onceward_core::outbound`].
pub(crate) fn sample_key() -> Option<OutboundKey> {
    OutboundKey::parse("00000000-0000-8000-8000-000000000000").ok()
}

/// One line: control characters become spaces, and a text that is too long ends in "…".
pub(crate) fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let line = line.trim();
    if line.len() <= TITLE_BYTES_MAX {
        return line.to_owned();
    }
    let end = (0..=TITLE_BYTES_MAX - "…".len()).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_whatever_the_arguments_hold() {
        assert_eq!(one_line("a\nb\u{1b}[31m"), "a b [31m");
        let long = one_line(&"ü".repeat(1000));
        assert!(long.ends_with('…') && long.len() <= TITLE_BYTES_MAX, "{}", long.len());
    }

    #[test]
    fn the_sample_key_is_a_key() {
        assert_eq!(sample_key().map(|key| key.as_str().len()), Some(onceward_core::limits::OUTBOUND_KEY_BYTES));
    }
}
