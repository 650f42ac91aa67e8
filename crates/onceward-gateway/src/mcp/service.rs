//! The protocol's methods: who asks, which tools there are, a call, a status.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use onceward_core::canonical::Canonical;
use onceward_core::code::Code;
use onceward_core::key::ToolName;
use onceward_core::outcome::Outcome;
use onceward_destinations::tool::{Effect, Tool};
use onceward_ledger::authorize::{Grant, Scope};
#[allow(deprecated, reason = "callers of the session era set it")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourcesCapability,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool as Listed, ToolsCapability,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::answer;
use super::elicit::Held;
use super::exchange::Exchange;
use super::identity::{Carriers, gather};
use super::levels::Levels;
use super::limits::{PROGRESS_EVERY, TOOLS_TTL_MS, WAIT_MAX};
use super::listen::{Watched, can_tell_of_changes};
use super::listing::{STATUS_TOOL, handle, in_order, listed, output_schema, shown, status_tool};
use super::questions::Questions;
use super::raw::RawObject;
use super::through::{Keeping, List, fit};
use crate::app::{App, Called, ToolCall};
use crate::problem::Problem;

/// The extension by which a host learns that operations have identities here.
const EXTENSION: &str = "dev.onceward/operations";

const INSTRUCTIONS: &str = "Tools that write go through a ledger of operations. A result with isError true says in its text whether \
                            anything was sent. When it says that the write may have happened, do not call the tool again with other \
                            words or another id: ask check_operation_status with the operation_id that it names, or tell a person.";

/// The server, of whoever is let in.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) app: App,
    caller: Caller,
    pub(crate) questions: Questions,
    pub(crate) levels: Levels,
    pub(crate) watched: Watched,
    /// Told when a caller watches one more resource.
    pub(crate) watching: Arc<Notify>,
}

/// Whose calls these are.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Of one credential, from the first message to the last: a pipe.
    Fixed(Arc<Grant>),
    /// Of whoever the request's own credential says: HTTP.
    OfEachRequest,
}

/// The grant that a request was let in with. Put there by the gate, and by nothing else.
#[derive(Clone)]
pub(crate) struct LetIn(pub(crate) Arc<Grant>);

impl Front {
    pub(crate) fn new(app: App, caller: Caller) -> Self {
        Self {
            app,
            caller,
            questions: Questions::default(),
            levels: Levels::default(),
            watched: Watched::default(),
            watching: Arc::default(),
        }
    }

    pub(crate) fn grant_of(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Grant>, ErrorData> {
        self.grant(context.extensions.get::<Parts>())
    }

    fn grant(&self, parts: Option<&Parts>) -> Result<Arc<Grant>, ErrorData> {
        match &self.caller {
            Caller::Fixed(grant) => Ok(Arc::clone(grant)),
            Caller::OfEachRequest => parts
                .and_then(|parts| parts.extensions.get::<LetIn>())
                .map(|LetIn(grant)| Arc::clone(grant))
                .ok_or_else(|| ErrorData::internal_error("the request came past its gate without a grant", None)),
        }
    }

    async fn call(&self, name: &str, context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let grant = self.grant(parts)?;
        let exchange = exchange_of(context)?;
        let arguments = exchange.arguments().cloned();
        let arguments = arguments
            .ok_or_else(|| ErrorData::internal_error("the call came past its gate without arguments", None))?;
        if name == STATUS_TOOL {
            return Ok(self.status(&grant, &arguments, exchange).await);
        }
        let tool = match self.app.tool(&grant, name) {
            Ok((tool, _)) => tool,
            // A repetition must not be told that there is no such tool while nobody can know.
            Err(problem) if problem.code == Code::ToolsNotKnown => return Ok(answer::refused(&problem)),
            // Unknown and not permitted are one answer: what one may not call does not exist.
            Err(_) => return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)),
        };
        if tool.effect() == Effect::Read
            && let Some(read) = self.pass_read(&tool, &grant, exchange).await
        {
            exchange.answer_with(read?);
            return Ok(CallToolResult::default());
        }
        match self.tool_call(&tool, arguments, &context.meta.0.0, parts.map(|parts| &parts.headers)) {
            Ok(call) => Ok(self.run(&grant, call, exchange).await),
            Err(problem) => Ok(answer::refused(&problem)),
        }
    }

    /// The call without the handle, which the destination never sees and the fingerprint does not cover.
    fn tool_call(
        &self,
        tool: &Tool,
        arguments: Arc<Canonical>,
        meta: &JsonObject,
        headers: Option<&HeaderMap>,
    ) -> Result<ToolCall, Problem> {
        let mut own = arguments.value().clone();
        let handle = match (handle(tool), own.as_object_mut()) {
            (Some(name), Some(own)) => own.shift_remove(&name),
            (None, _) | (_, None) => None,
        };
        let identity = gather(Carriers { meta, headers, handle: handle.as_ref() }, tool.without_identity()).into();
        let arguments = match handle {
            Some(_) => Canonical::from_value(own)?,
            None => Canonical::clone(&arguments),
        };
        let wait = Some(WAIT_MAX.min(self.app.limits().wait_default));
        Ok(ToolCall { tool: tool.name().to_string(), identity, arguments, wait })
    }

    async fn run(&self, grant: &Grant, call: ToolCall, exchange: &Exchange) -> CallToolResult {
        let call = self.answered(grant, call, exchange);
        let called = match with_progress(exchange, self.call_heard(grant, call.clone(), exchange)).await {
            Ok(Called::Operation(held)) if held.outcome == Outcome::PossibleDuplicate => {
                match self.ask_second(grant, &call, &held, exchange).await {
                    Held::Stays => Ok(Called::Operation(held)),
                    // The question stands in place of a result.
                    Held::Asked => return CallToolResult::default(),
                    Held::Second(called) => called,
                }
            }
            called => called,
        };
        match called {
            Ok(Called::Operation(envelope)) => {
                if let Some(result) = answer::stored(&envelope, exchange.era()) {
                    exchange.answer_with(result);
                }
                let tool = self.app.tool(grant, &call.tool).ok().map(|(tool, _)| tool);
                answer::fitting(&envelope, tool.as_ref().and_then(|tool| output_schema(tool)))
            }
            Ok(Called::Read(read)) => answer::read(&read),
            Err(problem) => answer::refused(&problem),
        }
    }

    async fn status(&self, grant: &Grant, arguments: &Canonical, exchange: &Exchange) -> CallToolResult {
        if !grant.has(Scope::Read) {
            return answer::refused(&Problem::plain(Code::Denied));
        }
        let (id, wait) = match status_arguments(arguments.value()) {
            Ok(asked) => asked,
            Err(problem) => return answer::refused(&problem),
        };
        match with_progress(exchange, self.app.status(grant, id, wait.min(WAIT_MAX))).await {
            Ok(envelope) => answer::status(&envelope),
            Err(problem) => answer::refused(&problem),
        }
    }

    /// What is offered: tools, and what any server behind us can do. Who reaches none of them finds their lists empty.
    fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.extensions = Some([(EXTENSION.to_owned(), JsonObject::new())].into());
        let servers = self.servers();
        if servers.is_empty() {
            return capabilities;
        }
        let can = |capability: &str| {
            servers.iter().any(|server| server.greeting().is_some_and(|greeting| greeting.can(capability)))
        };
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        capabilities.tools = Some(tools);
        if can("resources") {
            let mut resources = ResourcesCapability::default();
            resources.subscribe = servers.iter().any(|server| can_tell_of_changes(server)).then_some(true);
            resources.list_changed = Some(true);
            capabilities.resources = Some(resources);
        }
        if can("prompts") {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            capabilities.prompts = Some(prompts);
        }
        capabilities.completions = can("completions").then(JsonObject::new);
        capabilities.logging = can("logging").then(JsonObject::new);
        capabilities
    }

    fn all_tools(&self, grant: &Grant) -> Vec<Value> {
        let mut tools = self.app.tools_of(grant);
        tools.retain(|tool| grant.has(Scope::Execute) && tool.name().as_str() != STATUS_TOOL);
        // Those of an MCP server in the server's own order, as its clients would see them.
        tools.sort_by_cached_key(|tool| in_order(tool));
        let mut all: Vec<Value> = tools.iter().map(|tool| shown(tool)).collect();
        if grant.has(Scope::Read) {
            all.push(json!(status_tool()));
        }
        all
    }
}

impl ServerHandler for Front {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(self.capabilities())
            .with_server_info(Implementation::new("onceward", env!("CARGO_PKG_VERSION")).with_title("Onceward"))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let grant = self.grant_of(&context)?;
        let exchange = exchange_of(&context)?;
        // What is in it depends on the credential.
        let list = json!({ "tools": self.all_tools(&grant), "ttlMs": TOOLS_TTL_MS, "cacheScope": "private" });
        let mut list = RawObject::of(&list);
        fit(&mut list, exchange.era(), Keeping::Hinted);
        exchange.answer_with(list);
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(&request.name, &context).await.map(CallToolResponse::Complete)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.pass_list(List::Resources, &context).await.map(|()| ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.pass_list(List::Templates, &context).await.map(|()| ListResourceTemplatesResult::default())
    }

    async fn read_resource(
        &self,
        _asked: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.pass_one("resources/read", "resources", Keeping::Hinted, &context).await?;
        Ok(ReadResourceResponse::Complete(ReadResourceResult::new(Vec::new())))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.pass_list(List::Prompts, &context).await.map(|()| ListPromptsResult::default())
    }

    async fn get_prompt(
        &self,
        _asked: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.pass_one("prompts/get", "prompts", Keeping::Unsaid, &context).await?;
        Ok(GetPromptResponse::Complete(GetPromptResult::new(Vec::new())))
    }

    async fn complete(
        &self,
        _asked: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.pass_one("completion/complete", "completions", Keeping::Unsaid, &context).await?;
        Ok(CompleteResult::default())
    }

    #[allow(deprecated, reason = "callers of the session era set it")]
    async fn set_level(
        &self,
        _asked: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.pass_level(&context).await
    }

    #[allow(deprecated, reason = "callers of the session era subscribe this way")]
    async fn subscribe(
        &self,
        asked: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watch(&asked.uri, &context)
    }

    #[allow(deprecated, reason = "callers of the session era subscribe this way")]
    async fn unsubscribe(
        &self,
        asked: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.unwatch(&asked.uri, &context)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.relay_notices(context).await
    }

    /// Without it the library would not compare the headers that mirror arguments with the arguments.
    fn get_tool(&self, name: &str) -> Option<Listed> {
        if name == STATUS_TOOL {
            return Some(status_tool());
        }
        let name = ToolName::parse(name).ok()?;
        self.app.catalog().tool(&name).map(|tool| listed(&tool))
    }
}

/// The request beside what the library made of it: over HTTP the gate put it beside the request, over a pipe beside the message.
pub(crate) fn exchange_of(context: &RequestContext<RoleServer>) -> Result<&Exchange, ErrorData> {
    context
        .extensions
        .get::<Parts>()
        .and_then(|parts| parts.extensions.get::<Exchange>())
        .or_else(|| context.extensions.get::<Exchange>())
        .ok_or_else(|| ErrorData::internal_error("the request came past its gate", None))
}

fn status_arguments(arguments: &Value) -> Result<(&str, Duration), Problem> {
    let id = arguments.get("operation_id").and_then(Value::as_str);
    let id = id.ok_or_else(|| Problem::new(Code::InvalidArguments, "operation_id must be a string"))?;
    let wait = match arguments.get("wait_ms") {
        None | Some(Value::Null) => 0,
        Some(wait) => wait.as_u64().ok_or_else(|| {
            Problem::new(Code::InvalidArguments, "wait_ms must be a whole number of milliseconds, 0 or more")
        })?,
    };
    Ok((id, Duration::from_millis(wait)))
}

/// Waits for the work, telling a host that asked for it that there is still some. Whether it listens changes nothing.
async fn with_progress<T>(exchange: &Exchange, work: impl Future<Output = T>) -> T {
    let Some(token) = exchange.progress_token() else { return work.await };
    tokio::pin!(work);
    let mut beats = 0_u32;
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(PROGRESS_EVERY) => {
                beats += 1;
                let params = json!({ "progressToken": token, "progress": beats, "message": "waiting for the destination" });
                // One whose server tells how far it is needs no word of ours.
                if !exchange.has_heard_progress() {
                    exchange.progress(params).await;
                }
            }
        }
    }
}
