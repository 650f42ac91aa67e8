//! Ids of the transport: never an identity, and never a way to another caller's answer.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::{OURS, World};

/// R025: two calls with one JSON-RPC id at once, one slow and one fast.
#[tokio::test]
async fn r025_two_requests_with_one_id_each_get_their_own_receipt() {
    let world = World::start().await;
    for version in ["2025-06-18", super::MODERN] {
        world.fault("/tickets", "delay_after_commit;ms=400").await;
        let client = world.client(version);
        let slow = tokio::spawn(
            client.ticket(&format!("slow {version}")).operation(&format!("slow-{version}")).id(1).result(),
        );
        // The second goes once the first is at the destination, so that the fault is the first's.
        let path = "/admin/effects?resource=tickets";
        let before = world.count("tickets").await;
        let arrived = async {
            while super::http(world.sandbox.address(), "GET", path, &[], b"").await.json()["count"] == before {}
        };
        tokio::time::timeout(super::DEADLINE, arrived).await.expect("it arrives");
        let fast = client.ticket(&format!("fast {version}")).operation(&format!("fast-{version}")).id(1).result().await;
        let slow = slow.await.expect("answered");
        assert_eq!(fast["structuredContent"]["title"], format!("fast {version}"));
        assert_eq!(slow["structuredContent"]["title"], format!("slow {version}"));
    }
    assert_eq!(world.count("tickets").await, 4);
}

/// R026: a host that numbers every request 1.
#[tokio::test]
async fn r026_a_thousand_requests_with_id_1_are_a_thousand_requests() {
    let world = World::start().await;
    let client = world.client("2025-06-18");
    for number in 0..200 {
        let title = format!("ticket {number}");
        let made = client.ticket(&title).operation(&format!("op-{number}")).id(1).result().await;
        assert_eq!(made["structuredContent"]["title"], title);
        for _ in 0..4 {
            let asked = client.call("check_operation_status", json!({ "operation_id": format!("op-{number}") })).id(1);
            assert_eq!(asked.result().await["structuredContent"]["receipt"]["body"]["title"], title);
        }
    }
    let mut at_once = JoinSet::new();
    for number in 0..50 {
        let client = client.clone();
        at_once.spawn(async move {
            let title = format!("at once {number}");
            let made = client.ticket(&title).operation(&format!("at-once-{number}")).id(1).result().await;
            assert_eq!(made["structuredContent"]["title"], title);
        });
    }
    at_once.join_all().await;
    assert_eq!(world.count("tickets").await, 250);
}

/// R032: a host that gives up, says that it cancels, and calls again.
#[tokio::test]
async fn r032_a_client_that_gives_up_and_calls_again_makes_one_run_and_gets_its_receipt() {
    let world = World::start().await;
    for version in ["2025-06-18", super::MODERN] {
        world.fault("/tickets", "delay_before_commit;ms=3000").await;
        let client = world.client(version);
        let call = |id: i64| client.ticket(version).operation(version).id(id);
        for id in 1..=2 {
            call(id).give_up_after(Duration::from_secs(1)).await;
            let cancelled = client.ask("notifications/cancelled", json!({ "requestId": id, "reason": "timeout" }));
            // A notification has no id; to a server that takes it for a request it would be one that nobody knows.
            let (address, headers, body) = cancelled.parts();
            let mut body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            body.as_object_mut().expect("an object").remove("id");
            let reply = super::http(address, "POST", "/mcp", &headers, body.to_string().as_bytes()).await;
            assert_eq!(reply.status, 202, "{}", reply.text);
        }
        let receipts = [call(3).result().await, call(4).result().await, call(5).result().await];
        for receipt in &receipts {
            assert_eq!(receipt["isError"], false, "{receipt}");
            assert_eq!(receipt["structuredContent"], receipts[0]["structuredContent"]);
            assert_eq!(receipt["_meta"][OURS]["attempts"], 1);
        }
    }
    assert_eq!(world.count("tickets").await, 2);
}
