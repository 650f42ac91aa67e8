//! The client against servers that lose sessions, replies and their lives, and count what reached them.

mod eras;
mod fake;
mod lost;
mod process;

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::Observed;
use onceward_core::key::{OperationId, OperationKey, TenantId};
use onceward_core::time::Timestamp;
use onceward_ledger::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::tool::observed;
use super::upstream::WriteCall;
use crate::catalog::Catalog;
use crate::testing::{arguments, catalog, tool};
use crate::tool::Tool;

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(20);

/// A catalog whose servers were asked for their tools.
async fn connected(text: &str) -> Catalog {
    let catalog = catalog(text);
    catalog.connect(DEADLINE).await.unwrap();
    catalog
}

/// Sends one call of a tool as an attempt would.
async fn send(tool: &Tool, value: Value, within: Duration) -> Observed {
    send_while(tool, value, within, || true).await
}

async fn send_while(
    tool: &Tool,
    value: Value,
    within: Duration,
    may_be_sent: impl Fn() -> bool + Send + Sync + 'static,
) -> Observed {
    let mcp = Arc::clone(tool.mcp().unwrap());
    let operation = OperationKey { tenant: TenantId::parse("acme").unwrap(), id: OperationId::parse("op-1").unwrap() };
    let arguments: Canonical = arguments(value);
    let key = crate::tool::sample_key();
    let (params, headers) = mcp.call(&arguments, key.as_ref(), Timestamp::EPOCH).unwrap();
    let call = WriteCall {
        operation: &operation,
        claimed_at: SystemClock.now(),
        params,
        headers,
        time_to_send: &|| Some(Duration::from_secs(10)),
        may_be_sent: Box::new(may_be_sent),
        within,
        late: None,
    };
    observed(mcp.upstream().call_once(call).await)
}

/// Calls a tool once, as an attempt would.
async fn call_once(upstream: &super::McpUpstream, params: Value) -> super::link::Exchanged {
    let operation = OperationKey { tenant: TenantId::parse("acme").unwrap(), id: OperationId::parse("op-1").unwrap() };
    let call = WriteCall {
        operation: &operation,
        claimed_at: SystemClock.now(),
        params,
        headers: http::HeaderMap::new(),
        time_to_send: &|| Some(Duration::from_secs(10)),
        may_be_sent: Box::new(|| true),
        within: Duration::from_secs(5),
        late: None,
    };
    upstream.call_once(call).await
}

/// Looks again and again until it is so.
async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let deadline = DEADLINE;
    let looking = async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(deadline, looking).await.unwrap_or_else(|_| panic!("never came: {what}"));
}

fn write_tool(catalog: &Catalog) -> Arc<Tool> {
    tool(catalog, "create_ticket")
}

/// The tools that the servers of these tests offer.
fn offered() -> Value {
    json!([
        {
            "name": "create_ticket", "title": "Create a ticket", "description": "Opens a ticket.", "x-own": { "kept": 1.0 },
            "inputSchema": { "type": "object", "required": ["title"], "properties": {
                "title": { "type": "string" }, "region": { "type": "string", "x-mcp-header": "Region" } } },
            "outputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true, "destructiveHint": false },
        },
        { "name": "get_ticket", "inputSchema": { "type": "object" } },
    ])
}
