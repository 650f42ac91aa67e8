//! `onceward init` from real configurations, with the servers that they name, up to a gateway that serves what was written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::mcp_peers::server;
use super::{Server, ask, run, token_on_file};

/// A host's file with two real servers, of which one has a secret and one does not start.
fn host_file(folder: &Path) {
    let (memory, root) = (server("server-memory", &[]), folder.display().to_string());
    let files = server("server-filesystem", &[&root]);
    let config = json!({ "mcpServers": {
        "memory": { "command": memory[0], "args": memory[1..],
                    "env": { "MEMORY_FILE_PATH": folder.join("memory.jsonl"), "API_KEY": "hunter2" } },
        "files": { "command": files[0], "args": files[1..] },
        "broken": { "command": "onceward-no-such-program" },
    } });
    std::fs::write(folder.join(".mcp.json"), config.to_string()).expect("written");
}

#[test]
fn a_hosts_configuration_becomes_one_that_check_accepts_and_the_gateway_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    host_file(folder);
    let made = run(folder, &["init"]);
    assert_eq!(made.code, 0, "{made:?}");
    println!("{}", made.out);
    let text = std::fs::read_to_string(folder.join("onceward.toml")).expect("written");
    let table: toml::Table = text.parse().expect("TOML");
    let reads = |server: &str| -> Vec<&str> {
        table["mcp"][server]["reads"].as_array().expect("reads").iter().filter_map(toml::Value::as_str).collect()
    };
    assert!(reads("memory").contains(&"read_graph") && reads("memory").contains(&"search_nodes"), "{text}");
    assert!(!reads("memory").iter().any(|name| name.starts_with("create") || name.starts_with("delete")), "{text}");
    assert!(reads("files").contains(&"read_text_file") && !reads("files").contains(&"write_file"), "{text}");
    assert_eq!(reads("broken"), [""; 0], "what could not be asked writes");
    assert_eq!(table["mcp"]["memory"]["refusals"].as_str(), Some("memory"));
    assert!(!text.contains("hunter2"), "{text}");
    let secret = folder.join("onceward-secrets/memory.API_KEY");
    assert_eq!(std::fs::read_to_string(&secret).expect("kept"), "hunter2");
    assert_eq!(secret.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    assert!(made.out.contains("http://127.0.0.1:7070/mcp") && made.out.contains(".mcp.json"), "{}", made.out);
    assert!(made.out.contains("\"broken\"") && made.out.contains("could not be asked"), "{}", made.out);

    let checked = run(folder, &["check"]);
    assert!(
        checked.code == 0 && checked.out.contains("memory_* (memory") || checked.out.contains("* (memory"),
        "{checked:?}"
    );
    let again = run(folder, &["init"]);
    assert!(again.code == 4 && again.err.contains("Nothing was written"), "{again:?}");

    // What was written is served: a write is done once.
    let ledger = text.replace("onceward.db", "ledger.db");
    std::fs::write(folder.join("onceward.toml"), ledger).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let gateway = Server::gateway(folder);
    let arguments =
        json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": ["writes"] }] }).to_string();
    let call = || {
        ask(
            folder,
            &gateway,
            &agent,
            &["call", "create_entities", "--operation-id", "op-1", "--arguments", &arguments, "--json"],
        )
    };
    assert_eq!(call().json()["outcome"], "executed");
    assert_eq!(call().json()["outcome"], "replayed");
}

#[tokio::test]
async fn an_openapi_description_becomes_tools_that_make_one_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sandbox = Server::sandbox(folder);
    let text = |kind: &str| json!({ "type": kind });
    let description = json!({
        "openapi": "3.1.0", "info": { "title": "Helpdesk", "version": "1" }, "servers": [{ "url": "https://helpdesk.example.com" }],
        "paths": { "/tickets": {
            "get": { "operationId": "listTickets", "responses": {} },
            "post": { "operationId": "createTicket", "summary": "Opens a ticket.",
                "requestBody": { "content": { "application/json": { "schema": { "type": "object", "required": ["title", "body"],
                    "properties": { "title": text("string"), "body": text("string") } } } } },
                "responses": { "201": { "content": { "application/json": { "schema": {
                    "type": "object", "properties": { "id": text("string") } } } } } } },
        } },
    });
    std::fs::write(folder.join("helpdesk.json"), description.to_string()).expect("written");
    let made = run(folder, &["init", "--from-openapi", "helpdesk.json", "--url", &sandbox.url]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(run(folder, &["check"]).code, 0);
    let text =
        std::fs::read_to_string(folder.join("onceward.toml")).expect("written").replace("onceward.db", "ledger.db");
    std::fs::write(folder.join("onceward.toml"), text).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let gateway = Server::gateway(folder);
    let arguments = json!({ "title": "Printer", "body": "It burns." }).to_string();
    let call = || -> Value {
        let words = ["call", "createTicket", "--operation-id", "t-1", "--arguments", &arguments, "--json"];
        ask(folder, &gateway, &agent, &words).json()
    };
    super::break_next_ticket(&sandbox.url, "lose_reply_after_commit").await;
    assert_eq!(call()["outcome"], "unknown");
    assert_eq!(call()["outcome"], "unknown");
    assert_eq!(super::tickets(&sandbox.url).await, (1, 1));
}

#[test]
fn without_anything_to_begin_from_it_says_what_to_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let failed = run(folder.path(), &["init"]);
    assert!(
        failed.code == 2 && failed.err.contains("--from-mcp") && failed.err.contains("--from-openapi"),
        "{failed:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing was written");
}
