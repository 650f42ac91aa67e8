//! With a server that is a real child process, which a test can break.

use std::path::Path;
use std::time::Duration;

use onceward_gateway::limits::Limits;
use onceward_gateway::serve::{Running, StartError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Client, catalog, gateway_of, until};

const MORE: &str = r#"
[mcp.pipe.tool.write_and_die]
marker = { at = "/marker" }

[mcp.pipe.tool.write_and_die.lookup]
tool = "get_notes"
items = "/notes"
recognise = [{ at = "/marker" }]
compare = [{ argument = "/title", effect = "/title" }]
consistency = "strong"

[mcp.pipe.tool.die]
marker = { at = "/marker" }

[mcp.pipe.tool.die.contract]
version = 1
in_flight = { bound = "100ms" }
provenance = { confidence = "operated" }

[mcp.pipe.tool.die.lookup]
tool = "get_notes"
items = "/notes"
recognise = [{ at = "/marker" }]
compare = [{ argument = "/title", effect = "/title" }]
consistency = "strong"
absence_is_proof = "after_bound"
absences_required = 1
list_may_be_cut = false

[mcp.pipe.tool.fail]
refused_if = { text_starts_with = ["no such project"] }

[mcp.pipe.tool.write_slowly]
timeout = "100ms"

[mcp.pipe.tool.fail_slowly]
timeout = "100ms"
refused_if = { text_starts_with = ["no such project"] }

[mcp.pipe.tool.write]
title = "Note {/title}"
version = "7"
"#;

struct Stage {
    folder: TempDir,
    gateway: Running,
    agent: Client,
    operator: Client,
}

fn configuration(folder: &Path, command: &str, more: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onceward-destinations/src/mcp/tests/server.py");
    let (script, folder) = (script.display().to_string(), folder.display().to_string());
    format!("[mcp.pipe]\ncommand = [{command:?}, {script:?}, {folder:?}]\nreads = [\"get_*\"]\n{more}")
}

impl Stage {
    async fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::with(&configuration(folder.path(), "python3", more), folder).await
    }

    async fn with(text: &str, folder: TempDir) -> Self {
        let ledger = folder.path().join("onceward.db");
        let gateway = gateway_of(ledger, catalog(text), Limits::default()).start().await.unwrap();
        let tokens = gateway.first_tokens.as_ref().unwrap();
        let agent = Client::to(gateway.address, Some(tokens.agent.reveal()));
        let operator = Client::to(gateway.address, Some(tokens.operator.reveal()));
        Self { folder, gateway, agent, operator }
    }

    fn writes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("writes")).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }
}

fn text_of(body: &Value) -> &Value {
    &body["receipt"]["body"]["content"][0]["text"]
}

#[tokio::test]
async fn a_write_of_an_mcp_server_is_done_once_and_its_result_given_again() {
    let stage = Stage::start(MORE).await;
    let tools = stage.agent.get("/v1/tools").await.json();
    let listed = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "write").unwrap();
    assert_eq!(
        (&listed["effect"], &listed["version"], &listed["destination"]),
        (&json!("write"), &json!("7"), &json!("pipe"))
    );

    let first = stage.agent.call("write", "op-1", json!({ "title": "a" })).await.is(200, "executed");
    assert_eq!(text_of(&first), "done");
    let again = stage.agent.call("write", "op-1", json!({ "title": "a" })).await.is(200, "replayed");
    assert_eq!(again["receipt"], first["receipt"]);
    stage.agent.call("write", "op-1", json!({ "title": "b" })).await.is(422, "conflict");
    assert_eq!(stage.writes(), ["a"]);

    let read = stage.agent.send(stage.agent.call_request("get_notes", "unused", json!({}))).await;
    assert_eq!(read.json()["answer"]["body"]["structuredContent"]["notes"], json!([{ "title": "a" }]));
}

/// The child runs the tool and dies before it answers. Nobody may run it again, and the server's own reading tool settles it.
#[tokio::test]
async fn a_child_that_dies_in_the_middle_leaves_an_unknown_that_its_reading_tool_settles() {
    let stage = Stage::start(MORE).await;
    let told = stage.agent.call("write_and_die", "op-1", json!({ "title": "a" })).await;
    // Settled already where the lookup was faster than the answer.
    assert!([200, 409].contains(&told.status), "{}", told.text);
    let settled = stage.operator.until_state("op-1", "succeeded").await;
    assert_eq!(stage.writes(), ["a"], "{settled}");
    let again = stage.agent.call("write_and_die", "op-1", json!({ "title": "a" })).await.is(200, "replayed");
    assert_eq!(again["receipt"]["body"]["title"], "a");
    assert_eq!(stage.writes(), ["a"]);
}

/// The reply comes on a pipe that is still open: it settles its operation, with nobody's help.
#[tokio::test]
async fn a_reply_over_a_pipe_that_comes_after_its_time_settles_its_operation() {
    let stage = Stage::start(MORE).await;
    stage.agent.call("write_slowly", "op-1", json!({ "title": "a" })).await.is(409, "unknown");
    stage.operator.until_state("op-1", "succeeded").await;
    let told = stage.agent.call("write_slowly", "op-1", json!({ "title": "a" })).await.is(200, "replayed");
    assert_eq!(text_of(&told), "done");
    assert_eq!(stage.writes(), ["a"]);
    let journal = stage.operator.get("/v1/operations/op-1/journal").await.text;
    assert!(journal.contains("late_answer"), "{journal}");

    let refused = json!({ "text": "No such project: X" });
    stage.agent.call("fail_slowly", "op-2", refused.clone()).await.is(409, "unknown");
    stage.operator.until_state("op-2", "rejected").await;
    stage.agent.call("fail_slowly", "op-2", refused).await.is(422, "rejected");
}

/// The child dies before it does anything. It is gone, its server's list is whole and has nothing of ours: that is proof, and the
/// same call may be sent again.
#[tokio::test]
async fn a_child_that_died_before_it_did_anything_is_proved_absent_once_it_is_gone() {
    let stage = Stage::start(MORE).await;
    stage.agent.call("die", "op-1", json!({ "title": "a" })).await;
    stage.operator.until_state("op-1", "approved").await;
    assert!(stage.writes().is_empty());
}

#[tokio::test]
async fn an_error_of_a_tool_is_unknown_unless_its_words_are_known_to_come_before_the_effect() {
    let stage = Stage::start(MORE).await;
    let refused = json!({ "text": "No such project: X" });
    let first = stage.agent.call("fail", "op-1", refused.clone()).await.is(422, "rejected");
    assert_eq!(first["receipt"]["body"]["isError"], true);
    stage.agent.call("fail", "op-1", refused).await.is(422, "rejected");

    let after = json!({ "text": "created, but: no such project" });
    stage.agent.call("fail", "op-2", after.clone()).await.is(409, "unknown");
    stage.agent.call("fail", "op-2", after).await.is(409, "unknown");
    // What the official SDKs answer before any tool runs needs no word of the configuration.
    stage
        .agent
        .call("fail", "op-3", json!({ "text": "Input validation error: 'x' is required" }))
        .await
        .is(422, "rejected");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_named_and_its_tools_are_told_apart_from_missing_ones() {
    let folder = tempfile::tempdir().unwrap();
    let text = configuration(folder.path(), "onceward-no-such-program", "prefix = \"pipe_\"");
    let stage = Stage::with(&text, folder).await;
    let ready = stage.agent.get("/readyz").await;
    let server = &ready.json()["mcp_servers"][0];
    assert_eq!((ready.status, &server["name"], &server["connected"]), (200, &json!("pipe"), &json!(false)));
    assert!(server["problem"].as_str().unwrap().contains("cannot be started"), "{server}");
    let call = stage.agent.call("pipe_write", "op-1", json!({})).await;
    call.is(503, "tools_not_known");
    stage.agent.call("write", "op-1", json!({})).await.is(404, "unknown_tool");
    let claim = json!({ "tool": "pipe_write", "operation_id": "op-1", "arguments": {} });
    stage.agent.post("/v1/claims", claim).await.is(503, "tools_not_known");
}

#[tokio::test]
async fn two_tools_of_one_name_start_no_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let taken = "[destination.d]\nurl = \"http://127.0.0.1:1\"\ncontract = \"none\"\n\
                 [destination.d.tool.write]\nrequest = { method = \"POST\", path = \"/\" }\n";
    let text = configuration(folder.path(), "python3", taken);
    let error =
        gateway_of(folder.path().join("onceward.db"), catalog(&text), Limits::default()).start().await.unwrap_err();
    let StartError::NameClash(clashes) = &error else { panic!("{error}") };
    assert_eq!(clashes.len(), 1);
    assert!(error.to_string().contains("prefix = ") && error.to_string().contains("write"), "{error}");
}

/// What was under way when the gateway ended is unknown to the next one, and its child is gone.
#[tokio::test]
async fn a_gateway_that_stops_takes_its_servers_along() {
    let stage = Stage::start(MORE).await;
    stage.agent.call("child", "op-1", json!({ "title": "a" })).await.is(200, "executed");
    let pids = ["starts", "children"]
        .map(|name| std::fs::read_to_string(stage.folder.path().join(name)).unwrap().trim().to_owned());
    let Stage { gateway, folder: _folder, .. } = stage;
    tokio::time::timeout(Duration::from_secs(20), gateway.stop()).await.unwrap();
    until("the end of the server and of what it started", async || {
        let gone = |pid: &String| {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
        };
        pids.iter().all(gone).then_some(())
    })
    .await;
}
