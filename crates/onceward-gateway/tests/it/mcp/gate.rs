//! Who is let in, and with what.

use onceward_core::key::{Principal, TenantId};
use onceward_gateway::auth;
use onceward_ledger::authorize::{Grant, Scope, ToolPattern};
use serde_json::json;

use super::{Client, World, envelope};

impl World {
    /// A client with a credential of its own.
    async fn with(&self, tools: &[&str], scopes: &[Scope]) -> (Client, String) {
        let ledger = self.gateway.app().ledger();
        let patterns = tools.iter().map(|text| ToolPattern::parse(text).expect("a pattern")).collect();
        let (tenant, principal) =
            (TenantId::parse("acme").expect("a name"), Principal::parse("other").expect("a name"));
        let grant = Grant::new(tenant, principal, patterns, scopes.to_vec()).expect("a grant");
        let issued = auth::issue(&**ledger.store(), &**ledger.clock(), grant).await.expect("issued");
        let client = Client { token: Some(issued.reveal().to_owned()), ..self.modern() };
        (client, issued.credential.id)
    }
}

#[tokio::test]
async fn every_request_needs_a_credential_whatever_it_asks() {
    let world = World::start().await;
    for token in [None, Some("ow_agent_guessed".to_owned())] {
        let client = Client { token, ..world.modern() };
        for ask in [
            client.ticket("one").operation("op-1"),
            client.ask("tools/list", json!({})),
            client.ask("server/discover", json!({})),
        ] {
            let reply = ask.send().await;
            assert_eq!(reply.status, 401, "{}", reply.text);
            assert!(reply.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{}", reply.head);
        }
    }
    assert_eq!(world.count("tickets").await, 0);
}

#[tokio::test]
async fn a_revoked_credential_gets_no_replay() {
    let world = World::start().await;
    let (client, id) = world.with(&["*"], &Scope::AGENT).await;
    assert_eq!(client.ticket("one").operation("op-1").result().await["isError"], false);
    let ledger = world.gateway.app().ledger();
    auth::revoke(&**ledger.store(), &TenantId::parse("acme").expect("a name"), &id).await.expect("revoked");
    assert_eq!(client.ticket("one").operation("op-1").send().await.status, 401);
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_and_this_machines_are_not() {
    let world = World::start().await;
    let list = || world.modern().ask("tools/list", json!({}));
    assert_eq!(list().header("Host", "evil.example").send().await.status, 403);
    assert_eq!(list().header("Origin", "https://evil.example").send().await.status, 403);
    assert_eq!(list().header("Origin", "null").send().await.status, 403);
    assert_eq!(list().header("Host", "localhost:7070").send().await.status, 200);
    assert_eq!(list().header("Origin", "http://localhost:6274").send().await.status, 200);
}

#[tokio::test]
async fn arguments_with_a_key_given_twice_are_refused_with_the_place() {
    let world = World::start().await;
    let (address, headers, body) = world.modern().ticket("one").operation("op-1").parts();
    let body = body.replace(r#""title":"one""#, r#""title":"one","title":"two""#);
    let reply = super::http(address, "POST", "/mcp", &headers, body.as_bytes()).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32700)));
    assert_eq!(reply.json()["error"]["data"]["place"], "/params/arguments/title");
    assert_eq!(world.count("tickets").await, 0);
}

#[tokio::test]
async fn what_is_too_large_or_no_message_is_refused() {
    let world = World::start().await;
    let big = "x".repeat(1024 * 1024);
    assert_eq!(world.modern().ticket(&big).operation("op-1").send().await.status, 413);
    let (address, headers, _) = world.modern().ticket("one").parts();
    for body in [&b"[]"[..], b"{", b"\xff", b"NaN"] {
        assert_eq!(super::http(address, "POST", "/mcp", &headers, body).await.status, 400);
    }
    assert_eq!(super::http(address, "GET", "/mcp", &headers, b"").await.status, 405);
    assert_eq!(super::http(address, "DELETE", "/mcp", &headers, b"").await.status, 405);
}

#[tokio::test]
async fn a_caller_sees_and_calls_only_the_tools_of_its_grant() {
    let world = World::start().await;
    let (client, _) = world.with(&["send_*"], &Scope::AGENT).await;
    let list = client.ask("tools/list", json!({})).result().await;
    let names: Vec<_> = list["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, [json!("send_mail"), json!("check_operation_status")]);
    let hidden = client.ticket("one").operation("op-1").answer().await;
    let missing = client.call("no_such_tool", json!({})).operation("op-1").answer().await;
    assert_eq!(hidden["error"]["code"], missing["error"]["code"]);
    assert_eq!(world.count("tickets").await, 0);

    world.modern().ticket("one").operation("op-1").result().await;
    assert_eq!(envelope(&client.status("op-1").await)["code"], "not_found", "not even its status");
}

#[tokio::test]
async fn a_credential_without_the_right_to_read_is_denied_the_status() {
    let world = World::start().await;
    let (client, _) = world.with(&["*"], &[Scope::Execute]).await;
    assert_eq!(envelope(&client.status("op-1").await)["code"], "denied");
    let (operator, _) = world.with(&["*"], &Scope::OPERATOR).await;
    let list = operator.ask("tools/list", json!({})).result().await;
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(1), "an operator calls nothing: {list}");
}
