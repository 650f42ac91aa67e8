//! Which call is which operation.

use serde_json::{Value, json};

use super::{Client, OURS, World, envelope, http};

fn mail() -> Value {
    json!({ "to": "a@example.com", "subject": "Hello", "body": "Text" })
}

/// R015: whichever way an operation id arrives, the destination sees its own key, and one mail is sent.
#[tokio::test]
async fn r015_each_carrier_of_an_identity_reaches_the_destination_as_one_key() {
    let world = World::start().await;
    let client = world.modern();
    let by_meta = client.call("send_mail", mail()).operation("op-1").result().await;
    let by_header = client.call("send_mail", mail()).header("Idempotency-Key", "\"op-1\"").result().await;
    let mut with_handle = mail();
    with_handle["operation_id"] = "op-1".into();
    let by_handle = client.call("send_mail", with_handle).result().await;
    assert_eq!(by_meta["_meta"][OURS]["replayed"], false);
    for repetition in [by_header, by_handle] {
        assert_eq!(repetition["structuredContent"], by_meta["structuredContent"]);
        assert_eq!(repetition["_meta"][OURS]["outcome"], "replayed");
    }
    let sent = world.effects("mail").await;
    assert_eq!(sent["count"], 1);
    let mail = &sent["effects"][0];
    assert!(mail["idempotency_key"].is_string(), "the destination got a key: {mail}");
    assert!(mail["fields"].get("operation_id").is_none(), "the handle is ours: {mail}");
}

#[tokio::test]
async fn a_handle_never_creates_an_operation() {
    let world = World::start().await;
    let client = world.modern();
    let order = json!({ "item": "lamp", "quantity": 1, "operation_id": "made-up" });
    let refused = client.call("create_order", order.clone()).result().await;
    assert_eq!(envelope(&refused)["code"], "identity_required");
    assert_eq!(world.count("orders").await, 0);
    assert_eq!(envelope(&client.status("made-up").await)["code"], "not_found");

    // Once the application has made the operation, the same handle finds it.
    client.call("create_order", json!({ "item": "lamp", "quantity": 1 })).operation("made-up").result().await;
    let found = client.call("create_order", order).result().await;
    assert_eq!(found["_meta"][OURS]["outcome"], "replayed");
    let changed = json!({ "item": "lamp", "quantity": 2, "operation_id": "made-up" });
    assert_eq!(envelope(&client.call("create_order", changed).result().await)["outcome"], "conflict");
    assert_eq!(world.count("orders").await, 1);
}

/// An agent that takes over names the operation that it found. To run that anew would be the second effect.
#[tokio::test]
async fn a_handle_of_another_callers_operation_or_of_another_tools_runs_nothing() {
    let world = World::start().await;
    world.fault("/tickets", "lose_reply_after_commit").await;
    let lost = world.modern().ticket("one").operation("op-1").result().await;
    assert_eq!(envelope(&lost)["outcome"], "unknown");

    let operator = world.gateway.first_tokens.as_ref().expect("an empty ledger gets tokens").operator.reveal();
    let headers = [("Authorization".to_owned(), format!("Bearer {operator}"))];
    let second = json!({ "principal": "second", "role": "agent", "tools": ["*"] }).to_string();
    let made = http(world.gateway.address, "POST", "/v1/credentials", &headers, second.as_bytes()).await.json();
    let token = made["token"].as_str().map(str::to_owned);
    let other = Client { token, ..world.modern() };
    let repeated = json!({ "title": "one", "body": "Text", "operation_id": "op-1" });
    for (client, tool) in [(&other, "create_ticket"), (&world.modern(), "charge_payment")] {
        let refused = client.call(tool, repeated.clone()).result().await;
        assert_eq!(envelope(&refused)["code"], "identity_conflict", "{tool}: {refused}");
    }
    assert_eq!((world.count("tickets").await, world.count("payments").await), (1, 0));
}

#[tokio::test]
async fn two_identities_of_one_call_must_be_equal() {
    let world = World::start().await;
    let client = world.modern();
    let differing = client.ticket("one").operation("op-1").header("Idempotency-Key", "op-2").result().await;
    assert_eq!(envelope(&differing)["code"], "identity_conflict");
    let agreeing = client.ticket("one").operation("op-1").header("Idempotency-Key", "op-1").result().await;
    assert_eq!(agreeing["isError"], false);
    assert_eq!(world.count("tickets").await, 1);
}

/// R006: a model's own id of a call is another one each time it is made.
#[tokio::test]
async fn r006_three_tool_call_ids_of_one_operation_make_one_effect() {
    let world = World::start().await;
    for call_id in ["call_a", "call_b", "call_c"] {
        let result =
            world.modern().ticket("refund").operation("op-1").meta("openai/toolCallId", call_id.into()).result().await;
        assert_eq!(result["isError"], false);
    }
    assert_eq!(world.count("tickets").await, 1);
}

/// R029: what surrounds the arguments is no part of the intention; the arguments are.
#[tokio::test]
async fn r029_a_new_envelope_is_the_same_operation_and_a_changed_argument_is_not() {
    let world = World::start().await;
    let client = world.modern();
    let first = client.ticket("one").operation("op-1").id("a").meta("progressToken", 1.into()).result().await;
    let trace = json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let again =
        client.ticket("one").operation("op-1").id(77).meta("progressToken", "p".into()).meta("traceparent", trace);
    assert_eq!(again.result().await["structuredContent"], first["structuredContent"]);

    let changed = client.ticket("two").operation("op-1").result().await;
    let conflict = envelope(&changed);
    assert_eq!(conflict["outcome"], "conflict");
    assert_eq!(conflict["differences"], json!([{ "at": "/title", "kind": "changed" }]));
    assert_eq!(world.count("tickets").await, 1);
}

#[tokio::test]
async fn a_repetition_from_a_host_without_identity_is_held_and_sees_the_receipt() {
    let world = World::start().await;
    let client = world.modern();
    let first = client.ticket("one").result().await;
    assert_eq!(first["isError"], false, "{first}");
    let again = client.ticket("one").result().await;
    let held = envelope(&again);
    assert_eq!((&held["outcome"], &held["dispatched"]), (&json!("possible_duplicate"), &json!("yes")));
    assert_eq!(held["receipt"]["body"], first["structuredContent"]);
    assert_eq!(held["operation_id"], first["_meta"][OURS]["operation_id"]);
    assert_eq!(client.ticket("one").result().await["structuredContent"], again["structuredContent"]);
    assert_eq!(world.count("tickets").await, 1);
}
