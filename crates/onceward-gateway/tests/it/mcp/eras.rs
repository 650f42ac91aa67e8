//! Old and new clients at one address.

use serde_json::{Value, json};

use super::{MODERN, OURS, World};

const LEGACY: [&str; 2] = ["2025-06-18", "2025-11-25"];

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_client_of_the_session_era_is_served_without_a_session() {
    let world = World::start().await;
    for version in LEGACY {
        let client = world.client(version);
        let hello =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "hand", "version": "1" } });
        let reply = client.ask("initialize", hello).send().await;
        assert!(!reply.head.to_ascii_lowercase().contains("mcp-session-id"), "{}", reply.head);
        let result = &reply.json()["result"];
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["capabilities"]["extensions"], json!({ "dev.onceward/operations": {} }));

        let list = client.ask("tools/list", json!({})).result().await;
        assert!(names(&list).contains(&"create_ticket"), "{list}");
        let result =
            client.ticket(version).operation(version).header("Mcp-Session-Id", "of-another-server").result().await;
        assert_eq!(result["isError"], false);
        assert!(result.get("resultType").is_none(), "{result}");
    }
    assert_eq!(world.count("tickets").await, 2);
}

#[tokio::test]
async fn a_client_of_the_stateless_era_gets_complete_results_with_hints_for_lists() {
    let world = World::start().await;
    let client = world.modern();
    let found = client.ask("server/discover", json!({})).result().await;
    assert!(found["supportedVersions"].as_array().expect("versions").contains(&json!(MODERN)), "{found}");
    assert_eq!(found["capabilities"]["extensions"]["dev.onceward/operations"], json!({}));

    let list = client.ask("tools/list", json!({})).result().await;
    assert_eq!((&list["resultType"], &list["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(list["ttlMs"].is_u64());

    for result in [
        client.ticket("one").operation("op-1").result().await,
        client.call("create_order", json!({ "item": "x", "quantity": 1 })).result().await,
        client.call("get_ticket", json!({ "id": "T-1001" })).result().await,
        client.status("op-1").await,
    ] {
        assert_eq!(result["resultType"], "complete", "{result}");
    }
}

#[tokio::test]
async fn write_tools_get_a_handle_and_reads_do_not() {
    let world = World::start().await;
    let list = world.modern().ask("tools/list", json!({})).result().await;
    let tool = |name: &str| {
        list["tools"].as_array().expect("tools").iter().find(|tool| tool["name"] == name).expect("listed").clone()
    };
    assert_eq!(tool("create_ticket")["inputSchema"]["properties"]["operation_id"]["type"], "string");
    assert_eq!(tool("create_ticket")["inputSchema"]["required"], json!(["title", "body"]));
    assert_eq!(tool("create_ticket")["annotations"]["readOnlyHint"], false);
    assert!(tool("get_ticket")["inputSchema"]["properties"].get("operation_id").is_none());
    assert_eq!(tool("get_ticket")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("check_operation_status")["annotations"]["readOnlyHint"], true);
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let world = World::start().await;
    let reply = world.modern().ticket("one").operation("op-1").header("Mcp-Name", "send_mail").send().await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert_eq!(world.count("tickets").await, 0);
}

#[tokio::test]
async fn a_success_is_the_destinations_answer_with_ours_beside_it() {
    let world = World::start().await;
    for client in [world.modern(), world.client(LEGACY[0])] {
        let result = client.ticket(client.version).operation(client.version).result().await;
        let row =
            world.effects("tickets").await["effects"].as_array().and_then(|rows| rows.last().cloned()).expect("a row");
        let ticket = &result["structuredContent"];
        assert_eq!(ticket["id"], row["id"], "{result}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(&serde_json::from_str::<Value>(text).expect("JSON"), ticket);
        assert!(
            ticket.get("outcome").is_none() && ticket.get("operation_id").is_none(),
            "ours is not mixed in: {ticket}"
        );
        let ours = &result["_meta"][OURS];
        assert_eq!((&ours["outcome"], &ours["state"]), (&json!("executed"), &json!("succeeded")));
        assert_eq!((&ours["operation_id"], &ours["attempts"]), (&json!(client.version), &json!(1)));
        assert_eq!(ours["replayed"], false);
    }
}
