//! Both eras over HTTP: how a server is greeted, what its requests carry, and that a result is kept as it came.

use std::time::Duration;

use onceward_core::classify::Observed;
use serde_json::{Value, json};

use super::fake::{Answer, FakeServer, done, legacy, modern};
use super::{connected, offered, send, until, write_tool};
use crate::mcp::Era;
use crate::testing::{arguments, tool};
use crate::tool::Effect;

const PATIENCE: Duration = Duration::from_secs(5);

fn configuration(server: &FakeServer, more: &str) -> String {
    format!("[mcp.fake]\nurl = \"{}\"\nauth = \"env:TOKEN\"\nreads = [\"get_*\"]\n{more}\n", server.url())
}

#[tokio::test]
async fn a_server_of_the_stateless_era_is_told_everything_with_each_request() {
    let server = FakeServer::start(|asked, _| match asked.method() {
        "tools/call" => Answer::Result(done()),
        _ => modern(asked),
    });
    let catalog = connected(&configuration(&server, "headers = { X-Team = \"blue\" }")).await;
    let greeting = catalog.upstreams().next().unwrap().greeting().unwrap();
    assert_eq!((&greeting.era, &greeting.server_info["name"]), (&Era::Modern, &json!("fake")));
    send(&write_tool(&catalog), json!({ "title": "a", "region": "eu" }), PATIENCE).await;
    assert!(server.asked("initialize").is_empty());
    let call = server.asked("tools/call").remove(0);
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "create_ticket"),
        ("mcp-param-region", "eu"),
        ("authorization", &format!("Bearer {}", crate::testing::SECRET)),
        ("x-team", "blue"),
        ("accept", "application/json, text/event-stream"),
    ] {
        assert_eq!(call.header(name), Some(value), "{name} in {}", call.head);
    }
    let meta = &call.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(call.body["params"]["arguments"], json!({ "title": "a", "region": "eu" }));
}

#[tokio::test]
async fn a_server_of_the_session_era_is_greeted_in_its_way_whatever_it_answers_to_the_newer_question() {
    for (status, body) in [
        (200, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found"}}"#),
        (
            400,
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#,
        ),
        (404, ""),
        (405, ""),
    ] {
        let server = FakeServer::start(move |asked, _| match asked.method() {
            "server/discover" => Answer::Status(status, Vec::new(), body.to_owned()),
            "tools/call" => Answer::Result(done()),
            _ => legacy(asked, Some("s-1")),
        });
        let catalog = connected(&configuration(&server, "")).await;
        send(&write_tool(&catalog), json!({ "title": "a", "region": "eu" }), PATIENCE).await;
        let call = server.asked("tools/call").remove(0);
        assert_eq!(call.header("mcp-session-id"), Some("s-1"), "{status}");
        assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"), "{status}");
        assert_eq!((call.header("mcp-method"), call.header("mcp-param-region")), (None, None), "{status}");
        assert_eq!(server.asked("notifications/initialized")[0].header("mcp-session-id"), Some("s-1"), "{status}");
    }
}

#[tokio::test]
async fn a_result_is_kept_digit_for_digit_and_what_it_is_about_can_be_asked() {
    let raw = concat!(
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok","own":1.50}],"#,
        r#""structuredContent":{"n":12345678901234567890123},"isError":false,"own":[1e2]}}"#
    );
    for streamed in [false, true] {
        let server = FakeServer::start(move |asked, _| match (asked.method(), streamed) {
            ("tools/call", false) => Answer::Status(200, Vec::new(), raw.to_owned()),
            ("tools/call", true) => Answer::Stream(format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progress\":1}}}}\n\ndata: {raw}\n\n"
            )),
            _ => modern(asked),
        });
        let catalog = connected(&configuration(&server, "")).await;
        let mut notices = catalog.upstreams().next().unwrap().subscribe();
        let observed = send(&write_tool(&catalog), json!({ "title": "a" }), PATIENCE).await;
        let Observed::McpResult { is_error: false, answer, text } = observed else { panic!("{observed:?}") };
        assert_eq!(text, "ok");
        let expected = raw.split_once("\"result\":").unwrap().1.strip_suffix('}').unwrap();
        assert_eq!(String::from_utf8(answer.body).unwrap(), expected);
        if streamed {
            let notice = notices.try_recv().unwrap();
            assert_eq!(notice.method, "notifications/progress");
            assert!(matches!(notice.about, crate::mcp::About::Operation(key) if key.id.as_str() == "op-1"));
        }
    }
}

#[tokio::test]
async fn what_a_server_offers_becomes_tools_by_the_configuration_and_not_by_its_hints() {
    let server = FakeServer::start(|asked, _| modern(asked));
    let catalog = connected(&configuration(&server, "prefix = \"jira_\"\nwithout_identity = \"refuse\"")).await;
    let create = tool(&catalog, "jira_create_ticket");
    assert_eq!(create.effect(), Effect::Write, "its readOnlyHint says otherwise, and counts for nothing");
    assert_eq!(create.mcp().unwrap().definition(), &offered()[0]);
    assert_eq!(create.without_identity(), crate::tool::WithoutIdentity::Refuse);
    assert!(create.check(&arguments(json!({}))).unwrap_err().to_string().contains("title"));
    assert_eq!(tool(&catalog, "jira_get_ticket").effect(), Effect::Read);
    assert_eq!(catalog.server_status()[0].upstream.tools, Some(2));
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page_and_again_when_the_server_says_that_it_changed() {
    let server = FakeServer::start(|asked, before| match (asked.verb.as_str(), asked.method()) {
        ("GET", _) if before == 0 => {
            Answer::Stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n".to_owned())
        }
        (_, "tools/list") => {
            let named = |name: &str| json!([{ "name": name, "inputSchema": { "type": "object" } }]);
            match (asked.body["params"]["cursor"].as_str(), before) {
                (None, 0) => Answer::Result(json!({ "tools": named("one"), "nextCursor": "c" })),
                (None, _) => Answer::Result(json!({ "tools": named("three") })),
                (Some(_), _) => Answer::Result(json!({ "tools": named("two") })),
            }
        }
        _ => legacy(asked, Some("s-1")),
    });
    let catalog = connected(&configuration(&server, "")).await;
    let names = || catalog.tools().iter().map(|tool| tool.name().to_string()).collect::<Vec<_>>();
    until("the changed list", async || names() == ["three"]).await;
    assert_eq!(server.asked("tools/list").len(), 3);
}

#[tokio::test]
async fn a_key_and_a_marker_travel_where_the_contract_says_and_nowhere_else() {
    let server = FakeServer::start(|asked, _| match asked.method() {
        "tools/call" => Answer::Result(done()),
        _ => modern(asked),
    });
    let key = crate::tool::sample_key().unwrap();
    let contract = |carrier: &str| {
        format!(
            "[mcp.fake.tool.create_ticket]\nmarker = {{ at = \"/labels\", how = \"contains\" }}\n\
             [mcp.fake.tool.create_ticket.contract]\nversion = 1\nkey = {{ carriers = [{{ {carrier} }}] }}\n"
        )
    };
    for (carrier, at) in [
        ("in = \"argument\", name = \"request_id\"", "/arguments/request_id"),
        ("in = \"mcp_meta\", name = \"com.example/key\"", "/_meta/com.example~1key"),
    ] {
        let catalog = connected(&configuration(&server, &contract(carrier))).await;
        send(&write_tool(&catalog), json!({ "title": "a" }), PATIENCE).await;
        let params: Value = server.asked("tools/call").pop().unwrap().body["params"].clone();
        assert_eq!(params.pointer(at), Some(&json!(key.as_str())), "{params}");
        assert_eq!(params["arguments"]["labels"], json!(key.as_str()));
    }
    let header = connected(&configuration(&server, &contract("in = \"header\", name = \"Idempotency-Key\""))).await;
    send(&write_tool(&header), json!({ "title": "a" }), PATIENCE).await;
    let call = server.asked("tools/call").pop().unwrap();
    assert_eq!(call.header("idempotency-key"), Some(key.as_str()));
    // Without a contract nothing of ours is sent along.
    let plain = connected(&configuration(&server, "")).await;
    send(&write_tool(&plain), json!({ "title": "a" }), PATIENCE).await;
    assert!(!server.asked("tools/call").pop().unwrap().body.to_string().contains(key.as_str()));
}

#[tokio::test]
async fn a_server_that_is_down_leaves_its_tools_unknown_and_is_learned_when_it_is_there() {
    let up = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let switch = std::sync::Arc::clone(&up);
    let server = FakeServer::start(move |asked, _| match switch.load(std::sync::atomic::Ordering::Relaxed) {
        true => modern(asked),
        false => Answer::Status(503, Vec::new(), String::new()),
    });
    let catalog = connected(&configuration(&server, "prefix = \"f_\"")).await;
    let status = &catalog.server_status()[0].upstream;
    assert!(!status.connected && status.problem.as_ref().unwrap().contains("503"), "{status:?}");
    let name = |text: &str| onceward_core::key::ToolName::parse(text).unwrap();
    assert!(catalog.tools().is_empty());
    assert_eq!(catalog.unasked_server_of(&name("f_create_ticket")), Some("fake"));
    assert_eq!(catalog.unasked_server_of(&name("create_ticket")), None, "its name has not the prefix");
    up.store(true, std::sync::atomic::Ordering::Relaxed);
    until("its tools", async || catalog.tool(&name("f_create_ticket")).is_some()).await;
    assert_eq!(catalog.unasked_server_of(&name("f_other")), None);
}
