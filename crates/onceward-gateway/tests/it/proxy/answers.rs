//! What a vendor's client is told, and how often the vendor was asked.

use serde_json::json;

use onceward_lab::sandbox::SandboxContract;

use super::{INTENT, INTENTS, Shop, contract, is_stripes, stripe};

#[tokio::test]
async fn a_repetition_gets_the_stored_answer_byte_for_byte() {
    let shop = Shop::stripe().await;
    let first = shop.intent("order-17", INTENT).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert!(first.json()["id"].as_str().unwrap().starts_with("pi_"));
    assert_eq!(first.header("idempotent-replayed"), Some("false"));
    let again = shop.intent("order-17", INTENT).await;
    assert_eq!((again.status, &again.text), (200, &first.text));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    for name in ["content-type", "request-id", "onceward-operation-id"] {
        assert!(first.header(name).is_some(), "{name}: {:?}", first.headers);
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
}

/// R068, R096: what is stored of an answer, and what of a request.
#[tokio::test]
async fn neither_cookies_nor_the_callers_token_nor_the_real_secret_lie_in_what_is_kept() {
    let shop = Shop::stripe().await;
    let request = shop.form(INTENTS, Some("order-17"), INTENT).header("cookie", "session=s3cret");
    shop.client.send(request).await;
    let shown = shop.bench.operator.get("/v1/operations?limit=10").await;
    let id = shown.json()["operations"][0]["operation_id"].as_str().unwrap().to_owned();
    let detail = shop.bench.operator.get(&format!("/v1/operations/{id}")).await.text;
    for secret in [shop.token().as_str(), "s3cret"] {
        assert!(!detail.contains(secret), "{detail}");
        for file in ["onceward.db", "onceward.db-wal"] {
            let bytes = std::fs::read(shop.bench.folder.path().join(file)).unwrap_or_default();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret} in {file}");
        }
    }
    let log = shop.bench.auditor().get("/admin/requests").await.text;
    assert!(!log.contains(&shop.token()), "the caller's token went out");
}

#[tokio::test]
async fn a_lost_reply_is_fetched_with_the_same_key_and_the_client_sees_a_success() {
    let shop = Shop::stripe().await;
    shop.fault(INTENTS, "lose_reply_after_commit").await;
    let answer = shop.intent("order-17", INTENT).await;
    assert_eq!((answer.status, answer.header("onceward-outcome")), (200, Some("recovered")), "{}", answer.text);
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 2));
}

#[tokio::test]
async fn an_unknown_is_stripes_own_error_and_tells_its_clients_to_stop() {
    let shop = Shop::stripe().await;
    shop.fault_often(INTENTS, "lose_reply_after_commit").await;
    let first = shop.intent("order-17", INTENT).await;
    is_stripes(&first, 409, "api_error", "onceward_unknown", "false");
    assert!(first.json()["error"]["message"].as_str().unwrap().contains("may have happened"), "{}", first.text);
    assert_eq!(first.header("onceward-outcome"), Some("unknown"));
    assert_eq!(shop.effects(INTENTS).await, 1);
}

/// A stored 500 is given again under its key for ever: the same key may ask for it, and another key would be a second payment.
#[tokio::test]
async fn a_stored_500_is_an_unknown_however_often_it_is_repeated() {
    let shop = Shop::stripe().await;
    shop.fault(INTENTS, "error_500_after_commit").await;
    is_stripes(&shop.intent("order-17", INTENT).await, 409, "api_error", "onceward_unknown", "false");
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
    for _ in 0..6 {
        is_stripes(&shop.intent("order-17", INTENT).await, 409, "api_error", "onceward_unknown", "false");
    }
    assert_eq!(shop.effects(INTENTS).await, 1);
    let keys: std::collections::BTreeSet<String> = shop.keys().await.into_iter().collect();
    assert_eq!(keys.len(), 1, "one key goes out, whoever repeats: {keys:?}");
}

#[tokio::test]
async fn other_content_under_the_same_key_is_stripes_mismatch_in_every_state_and_sends_nothing() {
    let shop = Shop::stripe().await;
    shop.intent("order-17", INTENT).await;
    shop.fault(INTENTS, "error_500_after_commit").await;
    shop.intent("order-18", INTENT).await;
    for key in ["order-17", "order-18"] {
        let answer = shop.intent(key, "amount=6000&currency=eur").await;
        assert_eq!((answer.status, answer.json()["error"]["type"].as_str()), (400, Some("idempotency_error")));
        assert_eq!(answer.header("stripe-should-retry"), Some("false"));
    }
    let elsewhere = shop.client.send(shop.form("/v1/customers", Some("order-17"), INTENT)).await;
    assert_eq!((elsewhere.status, elsewhere.json()["error"]["type"].as_str()), (400, Some("idempotency_error")));
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (2, 2));
}

#[tokio::test]
async fn a_decline_is_stored_and_given_again() {
    let shop = Shop::stripe().await;
    let declined = "amount=4002&currency=eur&confirm=true";
    let first = shop.intent("order-17", declined).await;
    assert_eq!((first.status, first.json()["error"]["type"].as_str()), (402, Some("card_error")), "{}", first.text);
    let again = shop.intent("order-17", declined).await;
    assert_eq!((again.status, &again.text, again.header("idempotent-replayed")), (402, &first.text, Some("true")));
    assert_eq!(shop.bench.writes().await, 1);
}

#[tokio::test]
async fn what_surely_was_not_sent_may_be_tried_again_with_the_same_key() {
    let shop = Shop::stripe().await;
    let (address, gateway) = (shop.bench.sandbox.address(), shop.bench.gateway.address);
    assert_ne!(address, gateway);
    let Shop { bench, client } = shop;
    bench.sandbox.stop().await;
    let request = client
        .request(reqwest::Method::POST, INTENTS)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("idempotency-key", "order-17")
        .body(INTENT);
    let answer = client.send(request).await;
    is_stripes(&answer, 503, "api_error", "onceward_not_dispatched", "true");
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_decision_settles_an_unknown_and_the_client_gets_its_receipt() {
    let shop = Shop::stripe().await;
    shop.fault(INTENTS, "error_500_after_commit").await;
    let unknown = shop.intent("order-17", INTENT).await;
    let id = unknown.header("onceward-operation-id").unwrap();
    let decision = json!({
        "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "pi_1 in the dashboard", "effect_id": "pi_1",
        "receipt": { "status": 200, "body": { "id": "pi_1", "object": "payment_intent" } },
    });
    let decided = shop.bench.operator.decide(id, decision).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    let answer = shop.intent("order-17", INTENT).await;
    assert_eq!((answer.status, answer.json()["id"].as_str()), (200, Some("pi_1")), "{}", answer.text);
    assert_eq!(shop.bench.writes().await, 1);
}

/// R111: a 504 may have been forwarded. It is no "not executed", and a client never sees it as one.
#[tokio::test]
async fn r111_a_vendors_504_is_followed_by_its_own_key_and_never_by_a_second_effect() {
    let shop = Shop::stripe().await;
    shop.fault(INTENTS, "error_504_after_commit").await;
    let answer = shop.intent("order-17", INTENT).await;
    assert_eq!((answer.status, answer.header("onceward-outcome")), (200, Some("recovered")), "{}", answer.text);
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 2));
}

/// R014: whatever key the client makes up or chooses, every attempt carries the one that was durable before the first.
#[tokio::test]
async fn r014_every_attempt_of_a_clients_write_carries_one_key_that_is_not_the_clients() {
    let shop = Shop::stripe().await;
    shop.bench.fault(json!({ "match": { "path": INTENTS, "times": 2 }, "fault": "lose_reply_after_commit" })).await;
    assert_eq!(shop.intent("order-17", INTENT).await.status, 200);
    let keys = shop.keys().await;
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys.iter().all(|key| *key == keys[0] && *key != "order-17"), "{keys:?}");
}

/// R112: a client that repeats four times and a gateway that tries twice make six requests, not eight, and none of them is early.
#[tokio::test]
async fn r112_the_retries_of_client_and_gateway_add_up_and_never_multiply() {
    let retry = "retry = { attempts_max = 2, throttle_base = \"10ms\", cap = \"20ms\" }";
    let sandbox = SandboxContract::speaking(contract("stripe.v1"));
    let shop = Shop::with(sandbox, &stripe(&format!("identity = [\"order-*\"]\n{retry}"))).await;
    shop.fault_often(INTENTS, "throttle_429;ms=20").await;
    for _ in 0..4 {
        let answer = shop.intent("order-17", INTENT).await;
        is_stripes(&answer, 503, "api_error", "onceward_not_dispatched", "true");
    }
    let writes = shop.bench.writes().await;
    assert!(writes <= 2 + 3, "{writes} requests");
    assert_eq!(shop.effects(INTENTS).await, 0);
}
