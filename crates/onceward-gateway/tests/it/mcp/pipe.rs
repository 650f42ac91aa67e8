//! The same front over a pipe.

use std::collections::BTreeMap;

use onceward_core::key::{Principal, TenantId};
use onceward_gateway::auth::{Role, grant_of};
use onceward_gateway::mcp::serve_pipe;
use onceward_ledger::authorize::ToolPattern;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;

use super::{DEADLINE, OPERATION_ID, OURS, World, envelope};

pub(super) struct Host {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    to: WriteHalf<DuplexStream>,
    served: JoinHandle<anyhow::Result<()>>,
}

impl Host {
    pub(super) fn attach(world: &World) -> Self {
        let (ours, theirs) = duplex(64 * 1024);
        let (input, output) = split(theirs);
        let (tenant, principal) = (TenantId::parse("acme").expect("a name"), Principal::parse("host").expect("a name"));
        let grant =
            grant_of(Role::Agent, tenant, principal, vec![ToolPattern::parse("*").expect("all")]).expect("a grant");
        let served = tokio::spawn(serve_pipe(world.gateway.app().clone(), grant, input, output));
        let (from, to) = split(ours);
        Self { lines: BufReader::new(from).lines(), to, served }
    }

    pub(super) async fn write(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.expect("written");
    }

    pub(super) async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.lines.next_line()).await.expect("in time").expect("readable");
        serde_json::from_str(&line.expect("a line")).expect("JSON")
    }

    pub(super) async fn ask(&mut self, message: Value) -> Value {
        self.write(&message.to_string()).await;
        self.read().await
    }

    async fn initialize(&mut self) -> Value {
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "hand", "version": "1" } });
        let answer = self.ask(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello })).await;
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
        answer
    }
}

fn ticket(id: Value, title: &str, operation: &str) -> Value {
    let params = json!({
        "name": "create_ticket",
        "arguments": { "title": title, "body": "It burns." },
        "_meta": { OPERATION_ID: operation },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn a_host_of_the_session_era_lists_calls_and_repeats_over_a_pipe() {
    let world = World::start().await;
    let mut host = Host::attach(&world);
    assert_eq!(host.initialize().await["result"]["serverInfo"]["name"], "onceward");
    let list = host.ask(json!({ "jsonrpc": "2.0", "id": "l", "method": "tools/list" })).await;
    assert_eq!(list["id"], "l");
    assert!(list["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 6), "{list}");
    let first = host.ask(ticket(json!(1), "one", "op-1")).await;
    let again = host.ask(ticket(json!("two"), "one", "op-1")).await;
    assert_eq!((&first["id"], &again["id"]), (&json!(1), &json!("two")));
    assert_eq!(again["result"]["structuredContent"], first["result"]["structuredContent"]);
    assert_eq!(again["result"]["_meta"][OURS]["outcome"], "replayed");
    assert_eq!(world.count("tickets").await, 1);

    host.to.shutdown().await.expect("the host's end");
    tokio::time::timeout(DEADLINE, host.served).await.expect("in time").expect("no panic").expect("in order");
}

#[tokio::test]
async fn a_host_of_the_stateless_era_needs_no_hello() {
    let world = World::start().await;
    let mut host = Host::attach(&world);
    let mut call = ticket(json!(1), "one", "op-1");
    call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    call["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "hand", "version": "1" });
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let made = host.ask(call).await;
    assert_eq!(
        (&made["result"]["resultType"], &made["result"]["isError"]),
        (&json!("complete"), &json!(false)),
        "{made}"
    );
    assert_eq!(world.count("tickets").await, 1);
}

/// R025, over a pipe: the protocol forbids it, hosts do it.
#[tokio::test]
async fn r025_two_requests_with_one_id_are_both_answered() {
    let world = World::start().await;
    let mut host = Host::attach(&world);
    host.initialize().await;
    host.write(&ticket(json!(1), "one", "op-1").to_string()).await;
    host.write(&ticket(json!(1), "two", "op-2").to_string()).await;
    let answers = [host.read().await, host.read().await];
    let by_operation: BTreeMap<_, _> = answers
        .iter()
        .map(|answer| {
            assert_eq!(answer["id"], 1);
            let result = &answer["result"];
            (result["_meta"][OURS]["operation_id"].as_str(), result["structuredContent"]["title"].as_str())
        })
        .collect();
    assert_eq!(by_operation, BTreeMap::from([(Some("op-1"), Some("one")), (Some("op-2"), Some("two"))]));
}

#[tokio::test]
async fn a_line_that_is_not_strict_json_is_answered_and_the_pipe_goes_on() {
    let world = World::start().await;
    let mut host = Host::attach(&world);
    host.initialize().await;
    let twice =
        ticket(json!(5), "one", "op-1").to_string().replace(r#""title":"one""#, r#""title":"one","title":"two""#);
    host.write(&twice).await;
    let refused = host.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(-32700)));
    host.write("nonsense").await;
    assert_eq!(host.read().await["id"], Value::Null);
    host.write(&"x".repeat(1024 * 1024 + 1)).await;
    assert_eq!(host.read().await["error"]["code"], -32600);
    let made = host.ask(ticket(json!(6), "one", "op-1")).await;
    assert_eq!((&made["id"], &made["result"]["isError"]), (&json!(6), &json!(false)));
    assert_eq!(world.count("tickets").await, 1);
}

#[tokio::test]
async fn a_cancelled_request_is_not_answered_and_its_work_goes_on() {
    let world = World::start().await;
    world.fault("/tickets", "delay_before_commit;ms=700").await;
    let mut host = Host::attach(&world);
    host.initialize().await;
    host.write(&ticket(json!(1), "one", "op-1").to_string()).await;
    let status = |id: i64, wait: u64| {
        let arguments = json!({ "operation_id": "op-1", "wait_ms": wait });
        let params = json!({ "name": "check_operation_status", "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    // It must have been claimed before it is cancelled, or there is nothing to go on.
    let mut id = 10;
    while host.ask(status(id, 0)).await["result"]["structuredContent"]["outcome"] != "in_progress" {
        id += 1;
    }
    host.write(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }).to_string(),
    )
    .await;
    let settled = host.ask(status(1000, 10_000)).await;
    assert_eq!((&settled["id"], &settled["result"]["structuredContent"]["state"]), (&json!(1000), &json!("succeeded")));
    assert_eq!(world.count("tickets").await, 1);
}

#[tokio::test]
async fn a_lost_reply_is_told_over_a_pipe_as_over_http() {
    let world = World::start().await;
    world.fault("/tickets", "lose_reply_after_commit").await;
    let mut host = Host::attach(&world);
    host.initialize().await;
    let told = host.ask(ticket(json!(1), "one", "op-1")).await;
    let over_http = world.modern().ticket("one").operation("op-1").result().await;
    assert_eq!(envelope(&told["result"]), envelope(&over_http));
}
