//! What passes through to upstream servers: resources, prompts, completion, and tools that read.
//!
//! Nothing of it leaves a record: it is asked, and may be asked again. Parameters go on as they came, results come back digit for
//! digit; only what belongs to a connection (revision, capabilities, tokens, cache hints) is each side's own.

use std::sync::{Arc, OnceLock};

use onceward_core::key::OperationKey;
use onceward_destinations::mcp::{About, Era, McpUpstream, Notice, UpstreamError, Watcher};
use onceward_destinations::tool::Tool;
use onceward_ledger::authorize::{Grant, Scope};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::RequestContext;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::exchange::{CallerEra, Exchange};
use super::limits::{HEARD_AHEAD, PAGES_MAX, PASSED_ON_WITHIN, ROUNDS_MAX};
use super::questions::can_be_asked;
use super::raw::RawObject;
use super::service::{Front, exchange_of};
use crate::app::{Called, ToolCall};
use crate::problem::Problem;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const RESERVED: &str = "io.modelcontextprotocol/";

/// What a list of an upstream server is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Resources,
    Templates,
    Prompts,
}

impl List {
    const fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    const fn capability(self) -> &'static str {
        match self {
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    const fn items(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// Whether a result says how long it may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// It does, in the stateless era.
    Hinted,
    /// It does not.
    Unsaid,
}

impl Front {
    /// Lists what the servers have that the caller reaches. The list of one server is passed on page by page; those of several
    /// become one.
    pub(crate) async fn pass_list(&self, list: List, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let exchange = exchange_of(context)?;
        let grant = self.grant_of(context)?;
        let servers = self.able(&grant, list.capability());
        let mut result = match servers.as_slice() {
            [server] => self.ask(&grant, server, list.method(), exchange.params().clone(), exchange).await?,
            servers => self.all_of(&grant, list, servers, exchange).await,
        };
        fit(&mut result, exchange.era(), Keeping::Hinted);
        exchange.answer_with(result);
        Ok(())
    }

    async fn all_of(&self, grant: &Grant, list: List, servers: &[Arc<McpUpstream>], exchange: &Exchange) -> RawObject {
        let mut items: Vec<Box<RawValue>> = Vec::new();
        for server in servers {
            let mut cursor = None;
            for _ in 0..PAGES_MAX {
                let params = cursor.take().map_or_else(|| json!({}), |cursor: Value| json!({ "cursor": cursor }));
                let page = match self.ask(grant, server, list.method(), params, exchange).await {
                    Ok(page) => page,
                    // What one server does not say must not hide what the others have.
                    Err(error) => {
                        tracing::warn!(server = server.name(), %error, method = list.method(), "a list is not complete");
                        break;
                    }
                };
                items.extend(page.items(list.items()));
                cursor = page.get("nextCursor").filter(Value::is_string);
                if cursor.is_none() {
                    break;
                }
            }
        }
        let mut result = RawObject::default();
        result.set_items(list.items(), &items);
        result
    }

    /// Asks for one thing. Which of several servers has it, only they know: they are asked in the order of the configuration,
    /// and the first that has it answers.
    pub(crate) async fn pass_one(
        &self,
        method: &str,
        capability: &str,
        keeping: Keeping,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let exchange = exchange_of(context)?;
        let grant = self.grant_of(context)?;
        let mut answer = Err(nobody(method, exchange.params()));
        for server in self.able(&grant, capability) {
            answer = self.ask(&grant, &server, method, exchange.params().clone(), exchange).await;
            if answer.is_ok() {
                break;
            }
        }
        let mut result = answer?;
        fit(&mut result, exchange.era(), keeping);
        exchange.answer_with(result);
        Ok(())
    }

    /// `logging/setLevel`: what this caller hears from now on. A server of the session era has one level for all that it tells; it is
    /// told the newest wish.
    pub(crate) async fn pass_level(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let exchange = exchange_of(context)?;
        let grant = self.grant_of(context)?;
        let level = exchange.params().get("level").and_then(Value::as_str).filter(|level| severity(level).is_some());
        let level =
            level.ok_or_else(|| ErrorData::invalid_params("level must be one of the levels of syslog", None))?;
        self.levels.set(&grant, level);
        for server in self.able(&grant, "logging") {
            if !is_modern(&server) {
                self.ask(&grant, &server, "logging/setLevel", json!({ "level": level }), exchange).await?;
            }
        }
        Ok(())
    }

    /// A tool that reads, called as its caller called it: what is beside the arguments goes on as well.
    pub(crate) async fn pass_read(
        &self,
        tool: &Tool,
        grant: &Grant,
        exchange: &Exchange,
    ) -> Option<Result<RawObject, ErrorData>> {
        let server = tool.mcp()?.upstream();
        let read = self.in_rounds(grant, server, exchange.params().clone(), exchange, |params, watcher| async move {
            tool.read_through(params, watcher).await
        });
        let mut result = match read.await {
            Ok(result) => result,
            Err(error) => return Some(Err(error)),
        };
        fit(&mut result, exchange.era(), Keeping::Unsaid);
        Some(Ok(result))
    }

    /// A call through the ledger; what the server tells while it carries out this very operation goes to its caller.
    pub(crate) async fn call_heard(
        &self,
        grant: &Grant,
        call: ToolCall,
        exchange: &Exchange,
    ) -> Result<Called, Problem> {
        let server =
            self.app.tool(grant, &call.tool).ok().and_then(|(tool, _)| Some(Arc::clone(tool.mcp()?.upstream())));
        let Some(server) = server.filter(|_| exchange.hears()) else { return self.app.call(grant, call).await };
        // Before the call, so that nothing is missed of it.
        let mut notices = server.subscribe();
        let operation = Arc::new(OnceLock::new());
        let known = Arc::clone(&operation);
        let work = self.app.call_known(grant, call, move |key| drop(known.set(key)));
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                notice = notices.recv() => match notice {
                    Ok(notice) => relay_of(exchange, operation.get(), notice).await,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return work.await,
                },
                called = &mut work => {
                    while let Ok(notice) = notices.try_recv() {
                        relay_of(exchange, operation.get(), notice).await;
                    }
                    return called;
                }
            }
        }
    }

    /// One request to one server, with the questions that it has for the caller on the way.
    async fn ask(
        &self,
        grant: &Grant,
        server: &McpUpstream,
        method: &str,
        params: Value,
        exchange: &Exchange,
    ) -> Result<RawObject, ErrorData> {
        self.in_rounds(grant, server, params, exchange, |params, watcher| {
            server.request(method, params, PASSED_ON_WITHIN, Some(watcher))
        })
        .await
    }

    /// Asks, and asks again with the caller's answers for as long as the server needs some and the caller is one that cannot be
    /// told so in a result.
    pub(crate) async fn in_rounds<F>(
        &self,
        grant: &Grant,
        server: &McpUpstream,
        params: Value,
        exchange: &Exchange,
        send: impl Fn(Value, Watcher) -> F,
    ) -> Result<RawObject, ErrorData>
    where
        F: Future<Output = Result<Box<RawValue>, UpstreamError>>,
    {
        let mut params = self.onward(server, params, exchange, grant);
        for _ in 0..ROUNDS_MAX {
            let (watcher, heard) = watcher();
            let raw = relayed(exchange, heard, send(params.clone(), watcher)).await.map_err(error)?;
            let result = RawObject::read(raw.get())
                .ok_or_else(|| ErrorData::internal_error("the MCP server's result is no object", None))?;
            match (exchange.era(), result.get("resultType")) {
                (CallerEra::Legacy, Some(kind)) if kind == "input_required" => {
                    params["inputResponses"] = self.answers(grant, exchange, &result).await?;
                    match result.get("requestState") {
                        Some(state) => params["requestState"] = state,
                        None => drop(params.as_object_mut().map(|params| params.remove("requestState"))),
                    }
                }
                (CallerEra::Legacy | CallerEra::Modern, _) => return Ok(result),
            }
        }
        Err(ErrorData::internal_error("the MCP server asks without an end", None))
    }

    async fn answers(&self, grant: &Grant, exchange: &Exchange, result: &RawObject) -> Result<Value, ErrorData> {
        let mut answers = Map::new();
        let requests =
            result.get("inputRequests").and_then(|requests| requests.as_object().cloned()).unwrap_or_default();
        for (key, request) in requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
            answers.insert(key, self.questions.ask(exchange, grant, method, &params).await?);
        }
        Ok(Value::Object(answers))
    }

    /// The parameters for a server: what is between the caller and us stays here.
    fn onward(&self, server: &McpUpstream, mut params: Value, exchange: &Exchange, grant: &Grant) -> Value {
        let caller = exchange.params().get("_meta").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut meta: Map<String, Value> = caller
            .iter()
            .filter(|(key, _)| {
                !key.starts_with(RESERVED) && !key.starts_with("dev.onceward/") && *key != "progressToken"
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if is_modern(server) {
            let can = match exchange.era() {
                CallerEra::Modern => can_be_asked(caller.get(CAPABILITIES).unwrap_or(&Value::Null)),
                CallerEra::Legacy => exchange.can().clone(),
            };
            meta.insert(CAPABILITIES.to_owned(), Value::Object(can));
            let level = match exchange.era() {
                CallerEra::Modern => caller.get(LOG_LEVEL).cloned(),
                CallerEra::Legacy if exchange.hears() => Some(self.levels.of(grant).into()),
                CallerEra::Legacy => None,
            };
            if let Some(level) = level {
                meta.insert(LOG_LEVEL.to_owned(), level);
            }
        }
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
            if !meta.is_empty() {
                params.insert("_meta".to_owned(), Value::Object(meta));
            }
        }
        params
    }

    /// The servers that the caller reaches: those of the tools that it may call.
    pub(crate) fn upstreams_of(&self, grant: &Grant) -> Vec<Arc<McpUpstream>> {
        match grant.has(Scope::Execute) {
            true => servers_of(&self.app.tools_of(grant)),
            false => Vec::new(),
        }
    }

    /// All that there are.
    pub(crate) fn servers(&self) -> Vec<Arc<McpUpstream>> {
        servers_of(&self.app.catalog().tools())
    }

    /// Those of them that can do this.
    pub(crate) fn able(&self, grant: &Grant, capability: &str) -> Vec<Arc<McpUpstream>> {
        let mut servers = self.upstreams_of(grant);
        servers.retain(|server| server.greeting().is_some_and(|greeting| greeting.can(capability)));
        servers
    }
}

fn servers_of(tools: &[Arc<Tool>]) -> Vec<Arc<McpUpstream>> {
    let mut servers: Vec<Arc<McpUpstream>> = Vec::new();
    for server in tools.iter().filter_map(|tool| tool.mcp()).map(|tool| tool.upstream()) {
        if !servers.iter().any(|known| known.name() == server.name()) {
            servers.push(Arc::clone(server));
        }
    }
    servers
}

fn is_modern(server: &McpUpstream) -> bool {
    server.greeting().is_some_and(|greeting| greeting.era == Era::Modern)
}

/// What a server tells while it works, on its way to the caller.
type Heard = mpsc::Receiver<(String, Value)>;

fn watcher() -> (Watcher, Heard) {
    let (sender, heard) = mpsc::channel(HEARD_AHEAD);
    let watcher: Watcher = Arc::new(move |method: &str, params: &Value| {
        // A server that tells more than its caller takes is not waited for: it is a log, or a number that the next one replaces.
        let _ = sender.try_send((method.to_owned(), params.clone()));
    });
    (watcher, heard)
}

async fn relayed<T>(exchange: &Exchange, mut heard: Heard, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            Some((method, params)) = heard.recv() => relay(exchange, &method, params).await,
            done = &mut work => {
                while let Ok((method, params)) = heard.try_recv() {
                    relay(exchange, &method, params).await;
                }
                return done;
            }
        }
    }
}

async fn relay_of(exchange: &Exchange, operation: Option<&OperationKey>, notice: Notice) {
    match notice.about {
        About::Operation(key) if Some(&key) == operation => relay(exchange, &notice.method, notice.params).await,
        // Of another caller's work, perhaps.
        About::Operation(_) | About::Server => {}
    }
}

/// Tells the caller what a server told, where it wants to hear it.
pub(crate) async fn relay(exchange: &Exchange, method: &str, mut params: Value) {
    match (method, exchange.progress_token()) {
        ("notifications/progress", Some(token)) => {
            params["progressToken"] = token.clone();
            exchange.heard_progress(params).await;
        }
        ("notifications/message", _) if hears_of(exchange, &params) => exchange.notify(method, params).await,
        (_, _) => {}
    }
}

/// Whether a caller wants to hear a message of a log. One of the stateless era says from which level on; without a word it wants
/// none. To one of the session era the server itself has been told.
fn hears_of(exchange: &Exchange, message: &Value) -> bool {
    let asked = exchange.params().pointer("/_meta").and_then(|meta| meta.get(LOG_LEVEL)).and_then(Value::as_str);
    match exchange.era() {
        CallerEra::Legacy => true,
        CallerEra::Modern => {
            let level = message.get("level").and_then(Value::as_str).and_then(severity);
            asked.and_then(severity).is_some_and(|asked| level.is_some_and(|level| level >= asked))
        }
    }
}

/// The levels of syslog, from the least.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn severity(level: &str) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}

/// Gives a result the members that the caller's era has, and takes out those that it does not.
pub(crate) fn fit(result: &mut RawObject, era: CallerEra, keeping: Keeping) {
    match era {
        CallerEra::Modern => {
            if !result.has("resultType") {
                result.set("resultType", &json!("complete"));
            }
            if keeping == Keeping::Hinted && result.get("resultType") == Some(json!("complete")) {
                if !result.has("ttlMs") {
                    result.set("ttlMs", &json!(0));
                }
                if !result.has("cacheScope") {
                    result.set("cacheScope", &json!("private"));
                }
            }
        }
        CallerEra::Legacy => {
            result.remove("resultType");
            result.remove("ttlMs");
            result.remove("cacheScope");
        }
    }
}

/// A server's failure, as the caller is told it. A refusal of its own is passed on as it is.
pub(crate) fn error(error: UpstreamError) -> ErrorData {
    match error {
        UpstreamError::Rpc(told) => match i32::try_from(told.code) {
            // About the headers and the revision of a request of ours: that is no fault of the caller's.
            Ok(-32022 | -32020) | Err(_) => ErrorData::internal_error(told.message, told.data),
            Ok(code) => ErrorData::new(ErrorCode(code), told.message, told.data),
        },
        UpstreamError::NotConnected { .. }
        | UpstreamError::NoAnswer
        | UpstreamError::Unreadable
        | UpstreamError::Status(_)
        | UpstreamError::NotARead => ErrorData::internal_error(error.to_string(), None),
    }
}

/// The answer where no server that the caller reaches can be asked.
fn nobody(method: &str, params: &Value) -> ErrorData {
    match method {
        "resources/read" => {
            ErrorData::resource_not_found("no such resource", params.get("uri").map(|uri| json!({ "uri": uri })))
        }
        "prompts/get" => ErrorData::invalid_params("no such prompt", None),
        _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::strict::Request;

    fn exchange(params: Value) -> (Exchange, mpsc::Receiver<Value>) {
        Exchange::streamed(Request { method: "tools/call".to_owned(), params, arguments: None }, Map::new())
    }

    #[test]
    fn a_result_has_what_its_callers_era_has_and_nothing_of_the_other() {
        let fitted = |text: &str, era, keeping| {
            let mut result = RawObject::read(text).expect("an object");
            fit(&mut result, era, keeping);
            result.text()
        };
        let old = r#"{"content":[1.50]}"#;
        assert_eq!(fitted(old, CallerEra::Modern, Keeping::Unsaid), r#"{"content":[1.50],"resultType":"complete"}"#);
        let new = r#"{"content":[1.50],"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#;
        assert_eq!(fitted(new, CallerEra::Modern, Keeping::Hinted), new, "what the server says of keeping stands");
        assert_eq!(fitted(new, CallerEra::Legacy, Keeping::Hinted), old);
        let question = r#"{"resultType":"input_required","inputRequests":{}}"#;
        assert_eq!(fitted(question, CallerEra::Modern, Keeping::Hinted), question, "a question is not kept");
    }

    #[tokio::test]
    async fn a_caller_of_the_stateless_era_hears_of_a_log_from_the_level_that_it_names_and_without_one_nothing() {
        let told = |meta: Value, level: &'static str| async move {
            let (exchange, mut messages) = exchange(json!({ "_meta": meta }));
            relay(&exchange, "notifications/message", json!({ "level": level, "data": "x" })).await;
            messages.try_recv().is_ok()
        };
        let modern = |level: &str| json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", LOG_LEVEL: level });
        assert!(told(modern("warning"), "warning").await && told(modern("warning"), "error").await);
        assert!(!told(modern("warning"), "notice").await);
        assert!(!told(json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" }), "emergency").await);
        assert!(told(json!({}), "debug").await, "in the session era the server itself was told");
    }

    #[tokio::test]
    async fn progress_goes_under_the_callers_token_and_only_ever_grows() {
        let (exchange, mut messages) = exchange(json!({ "_meta": { "progressToken": "mine" } }));
        for progress in [1, 1, 0, 3] {
            relay(&exchange, "notifications/progress", json!({ "progressToken": 77, "progress": progress })).await;
        }
        let mut told = Vec::new();
        while let Ok(message) = messages.try_recv() {
            assert_eq!(message["params"]["progressToken"], "mine");
            told.push(message["params"]["progress"].clone());
        }
        assert_eq!(told, [1, 3]);
    }
}
