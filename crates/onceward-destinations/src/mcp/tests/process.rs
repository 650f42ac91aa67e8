//! Servers that are child processes: real ones, killed and broken for real.

use std::path::Path;
use std::time::Duration;

use onceward_core::classify::{NoAnswer, Observed};
use onceward_core::event::NotSent;
use onceward_core::evidence::ChildProcess;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::{Clock as _, SystemClock};
use onceward_ledger::destination::Destination as _;
use serde_json::json;
use tempfile::TempDir;

use super::{connected, send, until};
use crate::catalog::Catalog;
use crate::testing::{arguments, tool};

const PATIENCE: Duration = Duration::from_secs(10);

struct Stage {
    folder: TempDir,
    catalog: Catalog,
}

impl Stage {
    async fn start(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mcp/tests/server.py");
        let text = format!(
            "[mcp.pipe]\ncommand = [\"python3\", {:?}, {:?}, {mode:?}]\ncwd = \"/\"\nreads = [\"get_*\"]\n\
             env = {{ OWN = \"plain\", SECRET = \"env:TOKEN\" }}\n",
            script.display().to_string(),
            folder.path().display().to_string(),
        );
        Self { catalog: connected(&text).await, folder }
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    async fn call(&self, name: &str) -> Observed {
        send(&tool(&self.catalog, name), json!({ "title": name }), PATIENCE).await
    }

    fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        tool(&self.catalog, "write").mcp().unwrap().child(claimed_at)
    }
}

fn lives(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie is gone; its parent, which is not ours, has not looked yet.
    state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

#[tokio::test]
async fn a_call_over_a_pipe_is_answered_and_the_child_sees_no_variable_of_ours_but_its_own() {
    let stage = Stage::start("legacy").await;
    let observed = stage.call("write").await;
    assert!(matches!(&observed, Observed::McpResult { is_error: false, text, .. } if text == "done"), "{observed:?}");
    assert_eq!(stage.lines("writes"), ["write"]);
    let environment: serde_json::Value = serde_json::from_str(&stage.lines("environment")[0]).unwrap();
    assert_eq!((&environment["OWN"], &environment["SECRET"]), (&json!("plain"), &json!(crate::testing::SECRET)));
    assert!(environment.get("CARGO_MANIFEST_DIR").is_none() && environment.get("PATH").is_some(), "{environment}");
}

#[tokio::test]
async fn a_call_whose_time_passed_while_it_waited_for_the_pipe_is_not_written() {
    let stage = Stage::start("legacy").await;
    let late = super::send_while(&tool(&stage.catalog, "write"), json!({ "title": "late" }), PATIENCE, || false).await;
    assert_eq!(late, Observed::NotSent(NotSent::TooLate));
    stage.call("write").await;
    assert_eq!(stage.lines("writes"), ["write"]);
}

#[tokio::test]
async fn a_child_that_dies_in_the_middle_of_a_call_leaves_it_lost_and_the_next_child_is_not_told_of_it() {
    let stage = Stage::start("legacy").await;
    let claimed_at = SystemClock.now();
    assert_eq!(stage.call("write_and_die").await, Observed::McpStreamLost);
    until("the next child", async || stage.lines("starts").len() == 2).await;
    until("a call", async || matches!(stage.call("write").await, Observed::McpResult { .. })).await;
    let died = stage.lines("writes").into_iter().filter(|line| line == "write_and_die").count();
    assert_eq!(died, 1);
    // The next child was started within the time in which this attempt could still be sent, so it might have got it.
    assert_eq!(stage.child(claimed_at), ChildProcess::MayLive);
    assert_eq!(
        stage.child(Timestamp::EPOCH),
        ChildProcess::MayLive,
        "a child of an earlier gateway was not seen to end"
    );
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_ended_and_its_call_lost() {
    let stage = Stage::start("legacy").await;
    assert_eq!(stage.call("lost_output").await, Observed::McpStreamLost);
    until("the next child", async || stage.lines("starts").len() == 2).await;
    assert!(!lives(&stage.lines("starts")[0]));
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_lost_and_others_go_on() {
    let stage = Stage::start("legacy").await;
    let hang = tool(&stage.catalog, "write_and_hang");
    let (lost, slow) = tokio::join!(
        // sleeps: the time that an answer may take is what is tested.
        send(&hang, json!({ "title": "a" }), Duration::from_millis(100)),
        stage.call("write_slowly"),
    );
    assert_eq!(lost, Observed::NoAnswer(NoAnswer::TimedOut));
    assert!(matches!(slow, Observed::McpResult { .. }), "{slow:?}");
    assert_eq!(stage.lines("starts").len(), 1);
}

#[tokio::test]
async fn a_server_that_is_silent_at_the_newer_question_or_ends_at_it_is_greeted_in_the_older_way() {
    for mode in ["silent", "exits"] {
        let stage = Stage::start(mode).await;
        assert!(matches!(stage.call("write").await, Observed::McpResult { .. }), "{mode}");
        assert_eq!(stage.lines("starts").len(), 1, "{mode}");
    }
    let stage = Stage::start("modern").await;
    assert!(matches!(stage.call("write").await, Observed::McpResult { .. }));
    assert!(stage.lines("starts").is_empty());
}

#[tokio::test]
async fn what_a_child_started_ends_with_it_when_the_gateway_lets_go() {
    let stage = Stage::start("legacy").await;
    stage.call("child").await;
    let pids = [stage.lines("children"), stage.lines("starts")].concat();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(pid)), "{pids:?}");
    stage.catalog.disconnect();
    until("the end of the child and its child", async || pids.iter().all(|pid| !lives(pid))).await;
    let observed = send(&tool(&stage.catalog, "write"), json!({}), Duration::from_millis(50)).await;
    assert_eq!(observed, Observed::NotSent(NotSent::NoConnection));
}

#[tokio::test]
async fn a_result_that_is_larger_than_a_receipt_is_no_success_that_could_be_read() {
    let stage = Stage::start("legacy").await;
    let Observed::McpResult { answer, .. } = stage.call("huge").await else { panic!("a result") };
    assert!(answer.body.len() == crate::limits::ANSWER_BYTES_MAX && answer.body_json().is_none());
}

#[tokio::test]
async fn progress_of_a_call_is_told_with_its_operation_and_that_of_a_read_to_whoever_reads() {
    let stage = Stage::start("legacy").await;
    let mut notices = stage.catalog.upstreams().next().unwrap().subscribe();
    stage.call("progress").await;
    let notice = notices.try_recv().unwrap();
    assert!(matches!(&notice.about, crate::mcp::About::Operation(key) if key.id.as_str() == "op-1"), "{notice:?}");
}

/// The lookup of a tool asks a reading tool of the same server, and gets what its result is about.
#[tokio::test]
async fn a_lookup_asks_a_reading_tool_with_the_marker() {
    use onceward_core::contract::{Contract, LookupRequest};
    use onceward_ledger::destination::{Asked, Question};
    let stage = Stage::start("legacy").await;
    stage.call("write").await;
    let text = "id = \"x\"\nversion = 1\n[lookup]\ntool = \"get_notes\"\nitems = \"/notes\"\n\
                recognise = [{ at = \"/marker\" }]\nargs = { marker = \"{marker}\" }\n";
    let lookup = Contract::parse(text).unwrap().lookup.unwrap();
    assert!(matches!(&lookup.request, LookupRequest::Tool { tool, .. } if tool == "get_notes"));
    let question = Question {
        tool: onceward_core::key::ToolName::parse("write").unwrap(),
        lookup,
        key: crate::tool::sample_key(),
        handle: None,
        arguments: std::sync::Arc::new(arguments(json!({}))),
        sent_from: Timestamp::EPOCH,
        sent_until: Timestamp::EPOCH,
        answer_within: PATIENCE,
    };
    let asked = tool(&stage.catalog, "write").destination().ask(question).await;
    let Asked::Answered(answer) = asked else { panic!("{asked:?}") };
    assert_eq!((answer.status, answer.body_json()), (200, Some(json!({ "notes": [{ "title": "write" }] }))));
    assert_eq!(stage.lines("writes").len(), 1, "to ask writes nothing");
}
