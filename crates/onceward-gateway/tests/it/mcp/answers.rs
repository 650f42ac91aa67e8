//! What a caller is told when it is no plain success.

use serde_json::{Value, json};

use super::{OURS, World, envelope};

#[tokio::test]
async fn a_lost_reply_is_unknown_and_told_the_same_on_every_repetition() {
    let world = World::start().await;
    world.fault("/tickets", "lose_reply_after_commit").await;
    let client = world.modern();
    let first = client.ticket("one").operation("op-1").result().await;
    let unknown = envelope(&first);
    assert_eq!((&unknown["outcome"], &unknown["dispatched"]), (&json!("unknown"), &json!("maybe")));
    assert_eq!((&unknown["state"], &unknown["operation_id"]), (&json!("unknown"), &json!("op-1")));
    let message = unknown["message"].as_str().expect("a message");
    for said in ["may have happened", "Repeating is blocked", "new operation id"] {
        assert!(message.contains(said), "{message}");
    }
    for client in [world.modern(), world.client("2025-11-25")] {
        let again = client.ticket("one").operation("op-1").result().await;
        assert_eq!((&again["content"], &again["structuredContent"]), (&first["content"], &first["structuredContent"]));
    }
    let status = client.status("op-1").await;
    assert_eq!((&status["isError"], &status["structuredContent"]), (&json!(false), unknown));
    assert_eq!(world.count("tickets").await, 1);
}

#[tokio::test]
async fn a_lost_reply_of_a_destination_that_knows_keys_is_recovered_in_the_same_call() {
    let world = World::start().await;
    world.fault("/mail", "lose_reply_after_commit").await;
    let mail = json!({ "to": "a@example.com", "subject": "Hello", "body": "Text" });
    let first = world.modern().call("send_mail", mail.clone()).operation("op-1").result().await;
    assert_eq!(first["_meta"][OURS]["outcome"], "recovered", "{first}");
    assert_eq!(first["_meta"][OURS]["attempts"], 2);
    let again = world.modern().call("send_mail", mail).operation("op-1").result().await;
    assert_eq!(again["_meta"][OURS]["outcome"], "replayed");
    assert_eq!(again["structuredContent"], first["structuredContent"]);
    assert_eq!(world.count("mail").await, 1);
}

/// R071: a refusal that is told again says that it is told again.
#[tokio::test]
async fn r071_a_replayed_refusal_says_so_where_a_model_sees_it() {
    let world = World::start().await;
    let client = world.modern();
    let declined = || client.call("charge_payment", json!({ "amount": 4002, "currency": "EUR" })).operation("op-1");
    let first = declined().result().await;
    let again = declined().result().await;
    for (result, replayed) in [(&first, false), (&again, true)] {
        let told = envelope(result);
        assert_eq!((&told["outcome"], &told["state"]), (&json!("rejected"), &json!("rejected")));
        assert_eq!(told["replayed"], replayed);
        assert_eq!(told["receipt"]["status"], 402);
    }
    assert_eq!(envelope(&first)["first_seen_at"], envelope(&again)["first_seen_at"]);
    assert_eq!(envelope(&first)["receipt"], envelope(&again)["receipt"]);
    assert_eq!(world.effects("payments").await["requests"], 1);
}

/// R071, of a success: the destination's answer is untouched, so the mark stands beside it.
#[tokio::test]
async fn r071_a_replayed_success_says_so_in_its_meta() {
    let world = World::start().await;
    let first = world.modern().ticket("one").operation("op-1").result().await;
    let again = world.modern().ticket("one").operation("op-1").result().await;
    assert_eq!((&again["content"], &again["structuredContent"]), (&first["content"], &first["structuredContent"]));
    let (first, again) = (&first["_meta"][OURS], &again["_meta"][OURS]);
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!((&again["state"], &again["first_seen_at"]), (&json!("succeeded"), &first["first_seen_at"]));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_anything_exists() {
    let world = World::start().await;
    let client = world.modern();
    let refused = client.call("create_ticket", json!({ "title": "no body" })).operation("op-1").result().await;
    let told = envelope(&refused);
    assert_eq!((&told["code"], &told["dispatched"]), (&json!("invalid_arguments"), &json!("no")));
    assert!(told["violations"].is_array(), "{told}");
    assert_eq!(client.ticket("one").operation("op-1").result().await["isError"], false, "the id is still free");
}

#[tokio::test]
async fn a_call_without_identity_of_a_tool_that_wants_one_is_refused() {
    let world = World::start().await;
    let refused = world.modern().call("create_order", json!({ "item": "lamp", "quantity": 1 })).result().await;
    assert_eq!(envelope(&refused)["code"], "identity_required");
    assert_eq!(world.count("orders").await, 0);
}

#[tokio::test]
async fn a_read_passes_through_and_a_failed_one_is_an_error_result() {
    let world = World::start().await;
    let client = world.modern();
    client.ticket("one").operation("op-1").result().await;
    let found = client.call("get_ticket", json!({ "id": "T-1001" })).result().await;
    assert_eq!((&found["isError"], &found["structuredContent"]["title"]), (&json!(false), &json!("one")));
    assert_eq!(client.call("get_ticket", json!({ "id": "T-9999" })).result().await["isError"], true);
}

#[tokio::test]
async fn a_tool_that_is_unknown_is_a_protocol_error() {
    let answer = World::start().await.modern().call("no_such_tool", json!({})).answer().await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn the_status_tool_waits_for_a_running_operation_and_gives_its_receipt() {
    let world = World::start().await;
    world.fault("/tickets", "delay_after_commit;ms=800").await;
    let client = world.modern();
    let call = tokio::spawn(client.ticket("one").operation("op-1").result());
    let running = async { while envelope_of_status(&client.status("op-1").await)["outcome"] != "in_progress" {} };
    tokio::time::timeout(super::DEADLINE, running).await.expect("it runs");
    let waited =
        client.call("check_operation_status", json!({ "operation_id": "op-1", "wait_ms": 10_000 })).result().await;
    let done = call.await.expect("answered");
    assert_eq!(waited["structuredContent"]["state"], "succeeded");
    assert_eq!(waited["structuredContent"]["receipt"]["body"], done["structuredContent"]);
}

fn envelope_of_status(result: &Value) -> &Value {
    &result["structuredContent"]
}

#[tokio::test]
async fn progress_is_told_to_whoever_asked_for_it_and_to_nobody_else() {
    let world = World::start().await;
    for version in ["2025-06-18", super::MODERN] {
        let client = world.client(version);
        world.fault("/tickets", "delay_after_commit;ms=2600").await;
        let asked = client
            .ticket(&format!("asked {version}"))
            .operation(&format!("asked-{version}"))
            .meta("progressToken", "p-1".into());
        let mut messages = asked.send().await.messages();
        let result = messages.pop().expect("a result");
        assert_eq!(result["result"]["isError"], false);
        assert!(!messages.is_empty(), "no progress for {version}");
        for message in &messages {
            assert_eq!(
                (&message["method"], &message["params"]["progressToken"]),
                (&json!("notifications/progress"), &json!("p-1"))
            );
        }
        world.fault("/tickets", "delay_after_commit;ms=2600").await;
        let silent = client.ticket(&format!("silent {version}")).operation(&format!("silent-{version}")).send().await;
        assert_eq!(silent.messages().len(), 1);
    }
}
