//! A configured MCP server, and the tools that are made of what it offers and of what the configuration says of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onceward_core::contract::{Contract, IsError, Predicate};
use onceward_core::fingerprint::Comparison;
use onceward_core::hex;
use onceward_core::key::{ToolName, ToolVersion};
use onceward_core::pointer::Pointer;
use onceward_core::retry::RetryPolicy;
use onceward_ledger::authorize::ToolPattern;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::amount::AmountPlace;
use crate::explain::{self, ToolLine};
use crate::mcp::{CallPlan, McpTool, McpUpstream, Over};
use crate::refusals::Refusals;
use crate::schema::Schema;
use crate::template::Template;
use crate::tool::{Annotations, Approval, Effect, Mode, Target, Tool, WithoutIdentity};

/// A server and what the configuration says of its tools.
#[derive(Debug)]
pub(super) struct McpServer {
    pub(super) upstream: Arc<McpUpstream>,
    usual: Usual,
    /// For every tool that the configuration does not name.
    others: ToolPolicy,
    /// By the tool's name at the server.
    policies: BTreeMap<String, ToolPolicy>,
    /// What is wrong with what it offers, for people.
    problems: Mutex<Vec<String>>,
    learner: Mutex<Option<JoinHandle<()>>>,
}

/// What holds for all tools of a server that do not say otherwise.
#[derive(Debug)]
pub(super) struct Usual {
    pub(super) over: Over,
    pub(super) reads: Vec<ToolPattern>,
    pub(super) prefix: String,
    pub(super) scope: String,
    pub(super) answer_within: Duration,
    pub(super) refusals: Option<Refusals>,
    pub(super) refused_if: Option<Predicate>,
    pub(super) is_error: Option<IsError>,
    pub(super) without_identity: WithoutIdentity,
    pub(super) approval: Approval,
    pub(super) mode: Mode,
    pub(super) warnings: Vec<String>,
}

/// What is known of a tool before its server is asked.
#[derive(Clone, Debug)]
pub(super) struct ToolPolicy {
    pub(super) version: ToolVersion,
    pub(super) title: Option<Template>,
    pub(super) description: Option<String>,
    pub(super) comparison: Comparison,
    pub(super) business_key: Vec<Pointer>,
    pub(super) without_identity: WithoutIdentity,
    pub(super) approval: Approval,
    pub(super) mode: Mode,
    pub(super) amount: Option<AmountPlace>,
    pub(super) answer_within: Duration,
    pub(super) deadline: Option<Duration>,
    pub(super) retry: RetryPolicy,
    pub(super) contract: Contract,
    pub(super) plan: CallPlan,
    pub(super) is_error: IsError,
}

impl Usual {
    /// What a tool of that name does: it writes unless the configuration names it. What the server says about it counts for
    /// nothing.
    pub(super) fn effect_of(&self, remote: &ToolName) -> Effect {
        match self.reads.iter().any(|pattern| pattern.matches(remote)) {
            true => Effect::Read,
            false => Effect::Write,
        }
    }
}

/// What a server's offer came to.
#[derive(Debug, Default)]
pub(super) struct Learned {
    pub(super) tools: Vec<Tool>,
    pub(super) problems: Vec<String>,
}

impl McpServer {
    pub(super) fn new(
        upstream: Arc<McpUpstream>,
        usual: Usual,
        others: ToolPolicy,
        policies: BTreeMap<String, ToolPolicy>,
    ) -> Self {
        Self { upstream, usual, others, policies, problems: Mutex::default(), learner: Mutex::default() }
    }

    /// Makes tools of what the server offers. What cannot be one is named and left out.
    pub(super) fn learn(&self, definitions: &[Value]) -> Learned {
        let mut learned = Learned::default();
        let mut seen = std::collections::BTreeSet::new();
        for definition in definitions {
            let remote = definition.get("name").and_then(Value::as_str).unwrap_or_default();
            if !seen.insert(remote.to_owned()) {
                learned.problems.push(format!("it offers two tools of the name {remote:?}; the first one counts"));
                continue;
            }
            match self.tool(remote, definition) {
                Ok(tool) => learned.tools.push(tool),
                Err(why) => learned.problems.push(format!("its tool {remote:?} is left out: {why}")),
            }
        }
        for named in self.policies.keys().filter(|name| !seen.contains(*name)) {
            learned.problems.push(format!("the configuration names its tool {named:?}, which it does not offer"));
        }
        learned
    }

    fn tool(&self, remote: &str, definition: &Value) -> Result<Tool, String> {
        let own = ToolName::parse(remote).map_err(|why| why.to_string())?;
        let name = ToolName::parse(&format!("{}{remote}", self.usual.prefix)).map_err(|why| why.to_string())?;
        let effect = self.usual.effect_of(&own);
        let named = self.policies.get(remote);
        let mut policy = named.unwrap_or(&self.others).clone();
        if named.is_none()
            && effect == Effect::Write
            && let Some(refusal) = self.usual.refusals.as_ref().and_then(|refusals| refusals.only_of(remote))
        {
            let before = policy.contract.refused_if.take();
            policy.contract.refused_if = Some(Predicate::AnyOf(before.into_iter().chain([refusal]).collect()));
        }
        if effect == Effect::Read {
            policy.contract = Contract::promising_nothing(&policy.contract.id);
            policy.plan = CallPlan::default();
        }
        let document =
            definition.get("inputSchema").cloned().unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        let document = filled_in(document, policy.plan.argument());
        let mut warnings = self.usual.warnings.clone();
        let schema = match Schema::compile(document.clone()) {
            Ok(schema) => schema,
            Err(why) => {
                warnings.push(format!("its schema is shown but not checked here: {why}"));
                Schema::unchecked(document).map_err(|why| why.to_string())?
            }
        };
        let text = |field: &str| definition.get(field).and_then(Value::as_str).map(ToOwned::to_owned);
        let description = policy.description.clone().or_else(|| text("description")).unwrap_or_default();
        warnings.extend(explain::mcp_warnings(effect, &description, &schema, policy.plan.argument(), policy.is_error));
        let hints = definition.get("annotations").cloned().unwrap_or_default();
        let hint = |name: &str| hints.get(name).and_then(Value::as_bool);
        let mcp = McpTool {
            upstream: Arc::clone(&self.upstream),
            tool: name.clone(),
            remote: remote.to_owned(),
            contract_hash: hex::encode(&policy.contract.content_hash()),
            contract: policy.contract,
            plan: policy.plan,
            scope: self.usual.scope.clone(),
            definition: Arc::new(definition.clone()),
        };
        Ok(Tool {
            name,
            version: policy.version,
            title: policy.title,
            description,
            schema,
            effect,
            comparison: policy.comparison,
            business_key: policy.business_key,
            without_identity: policy.without_identity,
            approval: policy.approval,
            mode: policy.mode,
            amount: policy.amount,
            answer_within: policy.answer_within,
            deadline: policy.deadline,
            retry: policy.retry,
            annotations: Annotations {
                title: text("title").or_else(|| hints.get("title").and_then(Value::as_str).map(ToOwned::to_owned)),
                destructive: hint("destructiveHint"),
                open_world: hint("openWorldHint"),
            },
            target: Target::Mcp(Arc::new(mcp)),
            warnings,
        })
    }

    /// Whether it may have a tool of that name: its tools were never learned, and the name has its prefix.
    pub(super) fn may_have(&self, name: &ToolName) -> bool {
        self.upstream.status().tools.is_none() && self.without_prefix(name).is_some()
    }

    /// Whether the configuration says something of a tool of that name beside that there may be one.
    pub(super) fn has_policy_for(&self, name: &ToolName) -> bool {
        let named = self.without_prefix(name).is_some_and(|remote| self.policies.contains_key(remote));
        named || !self.usual.prefix.is_empty() || self.usual.approval == Approval::Required
    }

    /// The name at the server, of a tool that it may have.
    pub(super) fn without_prefix<'n>(&self, name: &'n ToolName) -> Option<&'n str> {
        name.as_str().strip_prefix(self.usual.prefix.as_str())
    }

    /// What is known of its tools before it is asked.
    pub(super) fn expected(&self) -> Vec<ToolLine> {
        let named = self.policies.iter().map(|(remote, policy)| {
            let effect = ToolName::parse(remote).map_or(Effect::Write, |name| self.usual.effect_of(&name));
            (format!("{}{remote}", self.usual.prefix), effect, policy)
        });
        let reads = self.usual.reads.iter().filter(|pattern| !self.policies.contains_key(pattern.as_str()));
        let reads =
            reads.map(|pattern| (format!("{}{}", self.usual.prefix, pattern.as_str()), Effect::Read, &self.others));
        let others = std::iter::once((format!("{}*", self.usual.prefix), Effect::Write, &self.others));
        let line = |(tool, effect, policy): (String, Effect, &ToolPolicy)| {
            let policies = (policy.without_identity, policy.approval, policy.mode);
            explain::expected(tool, self.upstream.name(), effect, policies, &policy.contract, policy.plan.describe())
        };
        let mut lines: Vec<ToolLine> = named.chain(reads).chain(others).map(line).collect();
        for line in lines.iter_mut().rev().take(1) {
            line.warnings.extend(self.usual.warnings.iter().cloned());
            line.warnings.extend(explain::is_error_warning(self.others.is_error));
        }
        lines
    }

    /// What is wrong with what it offers.
    pub(super) fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_problems(&self, problems: Vec<String>) {
        for problem in &problems {
            tracing::warn!(server = self.upstream.name(), problem, "the MCP server's tools");
        }
        *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    /// Keeps the task that learns its tools, which ends with it. Whether there was none yet.
    pub(super) fn learn_by(&self, begin: impl FnOnce() -> JoinHandle<()>) {
        let mut learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
        if learner.is_none() {
            *learner = Some(begin());
        }
    }
}

/// The schema that callers' arguments are checked against: the argument that the ledger fills in is not asked of them.
fn filled_in(mut schema: Value, key: Option<&Pointer>) -> Value {
    if let (Some(key), Some(required)) = (key, schema.get_mut("required").and_then(Value::as_array_mut)) {
        required.retain(|name| name.as_str() != key.tokens().first().map(String::as_str));
    }
    schema
}

impl Drop for McpServer {
    fn drop(&mut self) {
        if let Some(learner) = self.learner.get_mut().unwrap_or_else(PoisonError::into_inner) {
            learner.abort();
        }
    }
}
