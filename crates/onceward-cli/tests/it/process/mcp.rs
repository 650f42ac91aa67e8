//! The MCP front across the death of its gateway.

use serde_json::{Value, json};

use super::{Server, TICKET, ask, break_next_ticket, configuration, http, tickets, token_on_file};

const OPERATION_ID: &str = "dev.onceward/operation-id";

/// Sends one message of the session era and gives the answer's result, or nothing where no answer came.
async fn message(gateway: &str, token: &str, method: &str, params: Value) -> Option<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = http()
        .post(format!("{gateway}/mcp"))
        .bearer_auth(token)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-06-18")
        .json(&body);
    let answer: Value = request.send().await.ok()?.json().await.ok()?;
    Some(answer["result"].clone())
}

async fn create(gateway: &str, token: &str) -> Option<Value> {
    let arguments: Value = serde_json::from_str(TICKET).expect("JSON");
    let params = json!({ "name": "create_ticket", "arguments": arguments, "_meta": { OPERATION_ID: "op-1" } });
    message(gateway, token, "tools/call", params).await
}

#[tokio::test]
async fn a_client_goes_on_after_its_gateway_was_killed_and_its_write_is_unknown_until_a_person_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sandbox = Server::sandbox(folder);
    std::fs::write(folder.join("onceward.toml"), configuration(&sandbox.url)).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let operator = token_on_file(folder, "ines", "operator");
    let gateway = Server::gateway(folder);
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let info = message(&gateway.url, &agent, "initialize", hello).await.expect("answered");
    assert_eq!(info["serverInfo"]["name"], "onceward");

    break_next_ticket(&sandbox.url, "delay_after_commit;ms=600000").await;
    let waiting = tokio::spawn({
        let (url, agent) = (gateway.url.clone(), agent.clone());
        async move { create(&url, &agent).await }
    });
    let committed = async { while tickets(&sandbox.url).await.0 == 0 {} };
    tokio::time::timeout(super::DEADLINE, committed).await.expect("the ticket is made");
    let address = gateway.url.trim_start_matches("http://").to_owned();
    gateway.kill();
    assert_eq!(waiting.await.expect("no panic"), None, "the reply is lost");

    // At the same address, so that the client need not learn anything.
    let arguments = ["serve", "--config", "onceward.toml", "--listen", &address];
    let gateway = Server::start(folder, &arguments, "The gateway listens on");
    let unknown = create(&gateway.url, &agent).await.expect("answered, without a new hello");
    assert_eq!(
        (&unknown["isError"], &unknown["structuredContent"]["outcome"]),
        (&json!(true), &json!("unknown")),
        "{unknown}"
    );
    assert_eq!(create(&gateway.url, &agent).await.expect("answered"), unknown, "told the same again");
    assert_eq!(tickets(&sandbox.url).await, (1, 1));

    let found = ["--effect-id", "T-1001", "--receipt", r#"{"id":"T-1001"}"#, "--evidence", "found T-1001"];
    let why = ["--reason", "seen_at_destination", "--yes"];
    let decision = [&["decide", "op-1", "--choice", "confirmed_done"][..], &found, &why].concat();
    assert_eq!(ask(folder, &gateway, &operator, &decision).code, 0);
    let receipt = create(&gateway.url, &agent).await.expect("answered");
    assert_eq!(
        (&receipt["isError"], &receipt["structuredContent"]["id"]),
        (&json!(false), &json!("T-1001")),
        "{receipt}"
    );
    assert_eq!(tickets(&sandbox.url).await, (1, 1), "the whole story has one ticket and one request");
}
