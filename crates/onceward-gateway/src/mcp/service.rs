//! The protocol's methods: who asks, which tools there are, a call, a status.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use onceward_core::canonical::Canonical;
use onceward_core::code::Code;
use onceward_core::key::ToolName;
use onceward_destinations::tool::Tool;
use onceward_ledger::authorize::{Grant, Scope};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool as Listed,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::answer;
use super::exchange::Exchange;
use super::identity::{Carriers, gather};
use super::limits::{PROGRESS_EVERY, TOOLS_TTL_MS, WAIT_MAX};
use super::listing::{STATUS_TOOL, handle, listed, status_tool};
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
    app: App,
    caller: Caller,
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
    pub(crate) const fn new(app: App, caller: Caller) -> Self {
        Self { app, caller }
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
        let Ok((tool, _)) = self.app.tool(&grant, name) else {
            // Unknown and not permitted are one answer: what one may not call does not exist.
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        };
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
        let identity = gather(Carriers { meta, headers, handle: handle.as_ref() }, tool.without_identity())?;
        let arguments = match handle {
            Some(_) => Canonical::from_value(own)?,
            None => Canonical::clone(&arguments),
        };
        let wait = Some(WAIT_MAX.min(self.app.limits().wait_default));
        Ok(ToolCall { tool: tool.name().to_string(), identity, arguments, wait })
    }

    async fn run(&self, grant: &Grant, call: ToolCall, exchange: &Exchange) -> CallToolResult {
        match with_progress(exchange, self.app.call(grant, call)).await {
            Ok(Called::Operation(envelope)) => answer::told(&envelope),
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

    fn all_tools(&self, grant: &Grant) -> Vec<Listed> {
        let mut tools = self.app.tools_of(grant);
        tools.retain(|tool| grant.has(Scope::Execute) && tool.name().as_str() != STATUS_TOOL);
        let mut all: Vec<Listed> = tools.iter().map(|tool| listed(tool)).collect();
        if grant.has(Scope::Read) {
            all.push(status_tool());
        }
        all
    }
}

impl ServerHandler for Front {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.extensions = Some([(EXTENSION.to_owned(), JsonObject::new())].into());
        ServerConfig::new(capabilities)
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
        let grant = self.grant(context.extensions.get::<Parts>())?;
        let mut list = ListToolsResult::with_all_items(self.all_tools(&grant));
        list.ttl_ms = Some(TOOLS_TTL_MS);
        // What is in it depends on the credential.
        list.cache_scope = Some(CacheScope::Private);
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(&request.name, &context).await.map(CallToolResponse::Complete)
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
fn exchange_of(context: &RequestContext<RoleServer>) -> Result<&Exchange, ErrorData> {
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
                exchange.notify("notifications/progress", params).await;
            }
        }
    }
}
