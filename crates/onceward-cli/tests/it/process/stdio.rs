//! `onceward serve --stdio`: standard output belongs to the protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{configuration, onceward, run, token_on_file};

#[test]
fn a_host_on_the_pipe_sees_the_protocol_and_nothing_else_and_its_end_ends_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("onceward.toml"), configuration("http://127.0.0.1:9")).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let mut child = onceward(folder)
        .args(["serve", "--stdio", "--listen", "127.0.0.1:0"])
        .env("ONCEWARD_TOKEN", agent)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("its input");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let version = "2025-06-18";
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    writeln!(input, "{initialize}").expect("written");
    assert_eq!(next()["id"], 1);
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).expect("written");
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).expect("written");
    let listed = next();
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"create_ticket") && names.contains(&"check_operation_status"), "{names:?}");
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_pipe_without_a_token_is_refused_and_told_what_to_set() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("onceward.toml"), configuration("http://127.0.0.1:9")).expect("written");
    let said = run(folder.path(), &["serve", "--stdio", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("ONCEWARD_TOKEN"), "{}", said.err);
    assert_eq!(said.out, "");
}
