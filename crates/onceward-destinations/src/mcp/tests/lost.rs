//! What is lost after a call was sent is lost: it is never a reason to send the call again.

use std::time::Duration;

use onceward_core::classify::{NoAnswer, Observed};
use onceward_core::event::NotSent;
use serde_json::json;

use super::fake::{Answer, Asked, FakeServer, done, legacy, modern};
use super::{connected, send, send_while, until, write_tool};
use crate::tool::Tool;

fn configuration(server: &FakeServer) -> String {
    format!("[mcp.fake]\nurl = \"{}\"\nreads = [\"get_*\"]\n", server.url())
}

async fn tool_of(server: &FakeServer) -> (crate::catalog::Catalog, std::sync::Arc<Tool>) {
    let catalog = connected(&configuration(server)).await;
    let tool = write_tool(&catalog);
    (catalog, tool)
}

const PATIENCE: Duration = Duration::from_millis(500);

/// R031: the upstream runs the tool, then says that it does not know the session. The gateway opens a new one for what only
/// reads, and the call is sent no second time.
#[tokio::test]
async fn r031_a_lost_session_is_no_reason_to_send_a_call_again() {
    for (status, body) in [
        (404, ""),
        (404, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32600,"message":"Session not found"}}"#),
        (404, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#),
        (410, ""),
        (400, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32600,"message":"No valid session"}}"#),
        (400, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Invalid params"}}"#),
    ] {
        let server = FakeServer::start(move |asked, _| match asked.method() {
            "tools/call" if asked.body["params"]["name"] == "create_ticket" => {
                Answer::Status(status, Vec::new(), body.to_owned())
            }
            "tools/call" => Answer::Result(done()),
            _ => legacy(asked, Some("s-1")),
        });
        let (catalog, tool) = tool_of(&server).await;
        let observed = send(&tool, json!({ "title": "a" }), PATIENCE).await;
        assert_eq!(observed, Observed::McpStreamLost, "{status} {body}");
        // A read goes through all the same, over a new session where the old one is gone.
        let get = crate::testing::tool(&catalog, "get_ticket");
        until("a read", async || get.read(&crate::testing::arguments(json!({}))).await.is_ok()).await;
        let writes =
            server.asked("tools/call").into_iter().filter(|call| call.body["params"]["name"] == "create_ticket");
        assert_eq!(writes.count(), 1, "{status} {body}");
        let sessions = server.asked("initialize").len();
        assert_eq!(sessions, if body.contains("-32602") { 1 } else { 2 }, "{status} {body}");
    }
}

#[tokio::test]
async fn an_error_of_the_server_a_cut_stream_and_a_closed_connection_are_lost_and_sent_once() {
    let text = |text: &str| Answer::Stream(text.to_owned());
    let status = |status: u16| Answer::Status(status, Vec::new(), String::new());
    let rpc = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"of a proxy"}}"#;
    for answer in [
        status(500),
        status(502),
        status(504),
        status(307),
        status(303),
        Answer::Status(502, Vec::new(), rpc.to_owned()),
        Answer::Status(200, Vec::new(), "{\"jsonrpc\":\"2.0\",\"id\":1".to_owned()),
        Answer::Status(200, Vec::new(), r#"{"jsonrpc":"2.0","id":999,"result":{}}"#.to_owned()),
        Answer::Status(
            200,
            Vec::new(),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#.to_owned(),
        ),
        Answer::Status(202, Vec::new(), String::new()),
        text(""),
        text("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n"),
        text("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n"),
        Answer::Close,
        Answer::Result(json!({ "resultType": "input_required", "inputRequests": {} })),
        Answer::Result(json!([])),
    ] {
        for stateless in [false, true] {
            let answer = answer.clone();
            let shown = format!("{answer:?} {stateless}");
            let server = FakeServer::start(move |asked, _| match (asked.method(), stateless) {
                ("tools/call", _) => answer.clone(),
                (_, true) => modern(asked),
                (_, false) => legacy(asked, Some("s-1")),
            });
            let (_catalog, tool) = tool_of(&server).await;
            let observed = send(&tool, json!({ "title": "a" }), PATIENCE).await;
            assert_eq!(observed, Observed::McpStreamLost, "{shown}");
            assert_eq!(server.calls(), 1, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_lost() {
    let server = FakeServer::start(|asked, _| match asked.method() {
        "tools/call" => Answer::Hang,
        _ => modern(asked),
    });
    let (_catalog, tool) = tool_of(&server).await;
    // sleeps: the time that an answer may take is what is tested.
    let observed = send(&tool, json!({ "title": "a" }), Duration::from_millis(100)).await;
    assert_eq!(observed, Observed::NoAnswer(NoAnswer::TimedOut));
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn what_was_never_handed_over_is_not_sent() {
    let server = FakeServer::start(|asked, _| match asked.method() {
        "tools/call" => Answer::Result(done()),
        _ => modern(asked),
    });
    let (_catalog, tool) = tool_of(&server).await;
    let late = send_while(&tool, json!({ "title": "a" }), PATIENCE, || false).await;
    assert_eq!(late, Observed::NotSent(NotSent::TooLate));
    drop(server);
    let gone = send(&tool, json!({ "title": "a" }), PATIENCE).await;
    assert_eq!(gone, Observed::NotSent(NotSent::NoConnection));
}

/// A refused credential, a limit and a server that sheds load are judged by the contract, as over HTTP.
#[tokio::test]
async fn statuses_that_come_before_any_work_are_left_to_the_contract() {
    for status in [401, 403, 429, 503] {
        let server = FakeServer::start(move |asked, _| match asked.method() {
            "tools/call" => Answer::Status(status, Vec::new(), String::new()),
            _ => modern(asked),
        });
        let (_catalog, tool) = tool_of(&server).await;
        let observed = send(&tool, json!({ "title": "a" }), PATIENCE).await;
        assert!(matches!(observed, Observed::Http { status: seen, .. } if seen == status), "{observed:?}");
        assert_eq!(server.calls(), 1);
    }
}

/// R035: the stream breaks before the result; to read on where it broke is no second call.
#[tokio::test]
async fn r035_a_stream_that_broke_is_read_on_and_the_call_is_not_sent_again() {
    let resumed = |asked: &Asked| asked.verb == "GET" && asked.header("last-event-id").is_some();
    let server = FakeServer::start(move |asked, _| match asked.method() {
        "tools/call" => {
            Answer::Stream("id: e-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".to_owned())
        }
        _ if resumed(asked) => {
            assert_eq!(asked.header("last-event-id"), Some("e-1"));
            // The first request of a session's own ids; the fake knows no better than the protocol: it is the call's id.
            Answer::Stream(format!("data: {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}}\n\n", done()))
        }
        _ => legacy(asked, Some("s-1")),
    });
    let (_catalog, tool) = tool_of(&server).await;
    let observed = send(&tool, json!({ "title": "a" }), Duration::from_secs(5)).await;
    assert!(matches!(observed, Observed::McpResult { is_error: false, .. }), "{observed:?}");
    assert_eq!(server.calls(), 1);
}

/// A clock that a test can move on.
#[derive(Default)]
struct Moved(std::sync::Mutex<Duration>);

impl onceward_ledger::clock::Clock for Moved {
    fn now(&self) -> onceward_core::time::Timestamp {
        onceward_core::time::Timestamp::EPOCH
    }
    fn uptime(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// A server that was restarted would answer the write itself with a lost session, and nobody could tell whether it ran.
#[tokio::test]
async fn a_session_that_was_silent_is_asked_whether_it_is_still_known_before_a_write_goes_into_it() {
    use crate::mcp::{Address, McpUpstream, Transport};
    let server = FakeServer::start(|asked, before| match (asked.method(), asked.header("mcp-session-id")) {
        ("initialize", _) => legacy(asked, Some(if before == 0 { "s-1" } else { "s-2" })),
        ("ping" | "tools/call", Some("s-1")) => Answer::Status(404, Vec::new(), String::new()),
        ("tools/call", _) => Answer::Result(done()),
        _ => legacy(asked, None),
    });
    let clock = std::sync::Arc::new(Moved::default());
    let settings = crate::client::ClientSettings {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 4,
        clock: std::sync::Arc::new(onceward_ledger::clock::SystemClock),
    };
    let address = Address {
        url: server.url().parse().unwrap(),
        auth: None,
        headers: http::HeaderMap::new(),
        client: crate::client::client(settings).unwrap(),
        connect_timeout: Duration::from_secs(5),
        in_flight: tokio::sync::Semaphore::new(4),
    };
    let upstream = McpUpstream::new("fake", Transport::Http(Box::new(address)), std::sync::Arc::clone(&clock) as _);
    upstream.connect();
    until("the first session", async || upstream.greeting().is_some()).await;
    *clock.0.lock().unwrap() = crate::limits::SESSION_FRESH;
    let exchanged = super::call_once(&upstream, json!({ "name": "create_ticket", "arguments": {} })).await;
    assert!(matches!(exchanged, super::super::link::Exchanged::Replied(_)), "{exchanged:?}");
    let sessions: Vec<_> =
        server.asked("tools/call").iter().map(|call| call.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(sessions, [Some("s-2".to_owned())]);
}
