//! One tool of an MCP server as a destination.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use onceward_core::canonical::Canonical;
use onceward_core::classify::{Body, NoAnswer, Observed, TOOL_RESULT, tool_payload, tool_text};
use onceward_core::contract::{Contract, LookupRequest};
use onceward_core::event::NotSent;
use onceward_core::evidence::ChildProcess;
use onceward_core::key::{OutboundKey, ToolName};
use onceward_core::receipt::Answer;
use onceward_core::time::Timestamp;
use onceward_ledger::destination::{Asked, Destination, Dispatch, Question};
use onceward_ledger::store::BoxFuture;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::headers;
use super::link::{Exchanged, Lost, Watcher};
use super::message::Reply;
use super::plan::{Beside, CallPlan};
use super::upstream::{McpUpstream, UpstreamError, WriteCall};
use crate::http::ReadError;
use crate::limits::{ANSWER_BYTES_MAX, MCP_MESSAGE_BYTES_MAX};
use crate::mapping::Unmappable;
use crate::question::tool_arguments;

/// One tool of an MCP server.
#[derive(Debug)]
pub struct McpTool {
    pub(crate) upstream: Arc<McpUpstream>,
    /// Its name here.
    pub(crate) tool: ToolName,
    /// Its name at the server.
    pub(crate) remote: String,
    pub(crate) contract: Contract,
    pub(crate) contract_hash: String,
    pub(crate) plan: CallPlan,
    pub(crate) scope: String,
    /// Its definition as the server gave it.
    pub(crate) definition: Arc<Value>,
}

impl McpTool {
    /// The server that it is a tool of.
    #[must_use]
    pub fn upstream(&self) -> &Arc<McpUpstream> {
        &self.upstream
    }

    /// Its definition as the server gave it, every field.
    #[must_use]
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    /// The argument that is the destination's key: the ledger fills it in, and no caller is shown it.
    #[must_use]
    pub fn key_argument(&self) -> Option<String> {
        self.plan.argument().map(ToString::to_string)
    }

    /// Whether these arguments make a call, with that key. Nothing is sent.
    pub(crate) fn rehearse(&self, arguments: &Canonical, key: Option<&OutboundKey>) -> Result<(), Unmappable> {
        self.call(arguments, key, Timestamp::EPOCH).map(|_| ())
    }

    pub(super) fn call(
        &self,
        arguments: &Canonical,
        key: Option<&OutboundKey>,
        first_claimed_at: Timestamp,
    ) -> Result<(Value, HeaderMap), Unmappable> {
        let mut arguments = arguments.value().clone();
        let Beside { meta, headers } = self.plan.carry(&self.contract, key, first_claimed_at, &mut arguments)?;
        let mut all = self.argument_headers(&arguments);
        all.extend(headers);
        let mut params = json!({ "name": self.remote, "arguments": arguments });
        if !meta.is_empty() {
            params["_meta"] = Value::Object(meta);
        }
        Ok((params, all))
    }

    fn argument_headers(&self, arguments: &Value) -> HeaderMap {
        self.definition.get("inputSchema").map(|schema| headers::params(schema, arguments)).unwrap_or_default()
    }

    /// Calls a tool that only reads, and gives its whole result. `watcher` is told what the server says meanwhile.
    pub(crate) async fn read(
        &self,
        arguments: &Canonical,
        answer_within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Answer, ReadError> {
        let params = json!({ "name": self.remote, "arguments": arguments.value() });
        let headers = self.argument_headers(arguments.value());
        let result = self.upstream.call_reading(params, headers, answer_within, watcher).await?;
        Ok(answer_of(&result, MCP_MESSAGE_BYTES_MAX))
    }

    /// Calls a tool that only reads with a caller's own parameters, what is beside the arguments too, and gives its result as it was
    /// written.
    pub(crate) async fn pass(
        &self,
        mut params: Value,
        answer_within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        let headers = self.argument_headers(params.get("arguments").unwrap_or(&Value::Null));
        params["name"] = Value::from(self.remote.as_str());
        self.upstream.call_reading(params, headers, answer_within, watcher).await
    }

    async fn ask_once(&self, question: &Question) -> Asked {
        let LookupRequest::Tool { tool, args } = &question.lookup.request else { return Asked::NoWay };
        let arguments = match tool_arguments(args, question) {
            Ok(arguments) => Value::Object(arguments),
            Err(why) => return Asked::NoAnswer(why.to_string()),
        };
        let schema = self.upstream.tools().iter().find(|offered| offered["name"] == **tool).cloned();
        let headers = schema
            .as_ref()
            .and_then(|offered| offered.get("inputSchema"))
            .map(|schema| headers::params(schema, &arguments))
            .unwrap_or_default();
        let params = json!({ "name": tool, "arguments": arguments });
        match self.upstream.call_reading(params, headers, question.answer_within, None).await {
            Ok(result) => match serde_json::from_str::<Value>(result.get()) {
                Ok(result) => Asked::Answered(shown(&result)),
                Err(error) => Asked::NoAnswer(format!("the answer is broken: {error}")),
            },
            Err(error) => Asked::NoAnswer(error.to_string()),
        }
    }
}

/// A lookup's result as the rules read it.
fn shown(result: &Value) -> Answer {
    let mut answer = Answer::json(&tool_payload(result));
    if is_error(result) {
        answer.status = 500;
    }
    answer
}

/// A whole result as it is kept: digit for digit, or cut where it is larger than is kept, and then it is no JSON any more.
fn answer_of(result: &RawValue, bytes_max: usize) -> Answer {
    let text = result.get().as_bytes();
    Answer {
        status: 200,
        headers: vec![("content-type".to_owned(), TOOL_RESULT.to_owned())],
        body: text[..text.len().min(bytes_max)].to_vec(),
    }
}

fn is_error(result: &Value) -> bool {
    result.get("isError") == Some(&Value::Bool(true))
}

/// What was seen of a call, in words that the rules classify.
pub(super) fn observed(exchanged: Exchanged) -> Observed {
    match exchanged {
        Exchanged::Replied(Reply::Result(result)) => result_seen(&result),
        Exchanged::Replied(Reply::Error(error)) => {
            Observed::McpError { code: error.code, message: error.message, data: error.data }
        }
        Exchanged::TooLate => Observed::NotSent(NotSent::TooLate),
        Exchanged::NoConnection => Observed::NotSent(NotSent::NoConnection),
        // These are given before a request is looked at, where the contract says so. No other status is believed: the tool may
        // have run before somebody on the way gave it.
        Exchanged::Status { status: status @ (401 | 403 | 429 | 503), headers, body } => {
            Observed::Http { status, headers, body: Body::Whole(body) }
        }
        Exchanged::Status { .. } => Observed::McpStreamLost,
        Exchanged::Lost(Lost::WriteFailed) => Observed::WriteFailed,
        Exchanged::Lost(Lost::TimedOut) => Observed::NoAnswer(NoAnswer::TimedOut),
        Exchanged::Lost(Lost::Ended | Lost::SessionGone | Lost::Unreadable) => Observed::McpStreamLost,
    }
}

fn result_seen(raw: &RawValue) -> Observed {
    let Ok(result) = serde_json::from_str::<Value>(raw.get()) else { return Observed::McpStreamLost };
    let complete = match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => result.is_object(),
        // It wants to be asked again with more, or is a task: no word about what it has done so far.
        Some(_) => false,
    };
    match complete {
        true => Observed::McpResult {
            is_error: is_error(&result),
            text: tool_text(&result),
            answer: answer_of(raw, ANSWER_BYTES_MAX),
        },
        false => Observed::McpStreamLost,
    }
}

impl Destination for McpTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn contract_hash(&self) -> String {
        self.contract_hash.clone()
    }

    fn scope(&self) -> &str {
        &self.scope
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async move {
            if *dispatch.tool() != self.tool {
                tracing::error!(tool = %self.tool, dispatched = %dispatch.tool(), "a dispatch came to another tool");
                return Observed::HeldBack;
            }
            let call = self.call(dispatch.arguments(), dispatch.outbound_key(), dispatch.first_claimed_at());
            let (params, headers) = match call {
                Ok(call) => call,
                Err(why) => {
                    tracing::warn!(tool = %self.tool, %why, "nothing was sent");
                    return Observed::HeldBack;
                }
            };
            let late = dispatch.late_answer();
            let call = WriteCall {
                operation: dispatch.key(),
                claimed_at: dispatch.claimed_at(),
                params,
                headers,
                time_to_send: &|| dispatch.time_to_send(),
                may_be_sent: Box::new(dispatch.may_still_be_sent()),
                within: dispatch.answer_within(),
                late: Some(Box::new(move |reply| late.tell(observed(Exchanged::Replied(reply))))),
            };
            observed(self.upstream.call_once(call).await)
        })
    }

    fn request_digest(&self, arguments: &Canonical) -> Option<String> {
        let mut digest = Sha256::new();
        // Each part with its length, so that no two calls make one text.
        for part in [self.upstream.name().as_bytes(), self.remote.as_bytes(), arguments.text().as_bytes()] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Some(onceward_core::hex::encode(&digest.finalize()))
    }

    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        Box::pin(async move { self.ask_once(&question).await })
    }

    fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        self.upstream.child(claimed_at)
    }
}

impl From<UpstreamError> for ReadError {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::NotConnected { .. } => Self::NoConnection,
            UpstreamError::NoAnswer => Self::NoAnswer,
            UpstreamError::Unreadable => Self::Unreadable,
            UpstreamError::Status(_) => Self::NoAnswer,
            UpstreamError::Rpc(error) => Self::Protocol(error),
            UpstreamError::NotARead => Self::NotARead,
        }
    }
}
