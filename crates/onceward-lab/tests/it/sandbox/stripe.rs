//! Stripe's interface, as far as its own client libraries look at it.

use onceward_core::contract::{Contract, built_in};
use onceward_lab::sandbox::SandboxContract;
use serde_json::{Value, json};

use super::{Ask, Reply, TestSandbox};

pub(super) fn contract(id: &str) -> Contract {
    built_in().expect("contracts").into_iter().find(|contract| contract.id == id).expect(id)
}

async fn stripe() -> TestSandbox {
    TestSandbox::start(SandboxContract::speaking(contract("stripe.v1"))).await
}

const INTENTS: &str = "/v1/payment_intents";

fn form(path: &str, text: &str) -> Ask {
    Ask::new("POST", path)
        .header("Authorization", "Bearer sk_test_acme")
        .body("application/x-www-form-urlencoded", text.as_bytes().to_vec())
}

fn intent(amount: u32) -> Ask {
    form(INTENTS, &format!("amount={amount}&currency=eur&confirm=true&metadata[order]=17"))
}

fn get(path: &str) -> Ask {
    Ask::get(path).header("Authorization", "Bearer sk_test_acme")
}

fn error(reply: &Reply) -> (u16, Value, Value) {
    let body = reply.json();
    (reply.status(), body["error"]["type"].clone(), body["error"]["code"].clone())
}

#[tokio::test]
async fn a_payment_intent_is_made_read_and_given_again() {
    let sandbox = stripe().await;
    let first = sandbox.send(intent(2000).key("k")).await;
    let made = first.json();
    assert_eq!(first.status(), 200);
    assert_eq!(
        (&made["object"], &made["amount"], &made["status"], &made["livemode"], &made["metadata"]),
        (&json!("payment_intent"), &json!(2000), &json!("succeeded"), &json!(false), &json!({ "order": "17" }))
    );
    assert!(first.header("Request-Id").is_some_and(|id| id.starts_with("req_")));
    assert_eq!((first.header("Idempotency-Key").as_deref(), first.header("Idempotent-Replayed")), (Some("k"), None));
    let again = sandbox.send(intent(2000).key("k")).await;
    assert_eq!((again.json(), again.is_replay()), (made.clone(), true));
    assert_eq!(sandbox.send(get(&format!("{INTENTS}/{}", first.id()))).await.json(), made);
    assert_eq!(sandbox.effects(INTENTS).await, 1);
}

#[tokio::test]
async fn a_key_with_other_parameters_or_at_another_endpoint_is_stripes_idempotency_error() {
    let sandbox = stripe().await;
    sandbox.send(intent(2000).key("k")).await;
    for other in [intent(2001), form("/v1/customers", "email=a@b.c")] {
        let reply = sandbox.send(other.key("k")).await;
        assert_eq!(error(&reply), (400, json!("idempotency_error"), Value::Null));
        assert_eq!(reply.header("Stripe-Should-Retry").as_deref(), Some("false"));
    }
    let elsewhere = intent(2001).key("k").header("Stripe-Account", "acct_other");
    assert_eq!(sandbox.send(elsewhere).await.status(), 200, "another account's key is another key");
    assert_eq!(sandbox.effects(INTENTS).await, 2);
}

#[tokio::test]
async fn a_decline_and_a_500_are_given_again_for_ever_and_a_malformed_request_uses_no_key_up() {
    let sandbox = stripe().await;
    let declined = sandbox.send(intent(4002).key("declined")).await;
    assert_eq!(error(&declined), (402, json!("card_error"), json!("card_declined")));
    assert!(sandbox.send(intent(4002).key("declined")).await.is_replay());
    let failed = sandbox.send(intent(2000).key("failed").fault("error_500_rolled_back")).await;
    assert_eq!(error(&failed), (500, json!("api_error"), Value::Null));
    let again = sandbox.send(intent(2000).key("failed")).await;
    assert_eq!((again.status(), again.is_replay()), (500, true));
    let malformed = sandbox.send(form(INTENTS, "currency=eur").key("malformed")).await;
    assert_eq!(error(&malformed), (400, json!("invalid_request_error"), json!("parameter_missing")));
    assert_eq!(malformed.json()["error"]["param"], json!("amount"));
    assert_eq!(sandbox.send(intent(2000).key("malformed")).await.status(), 200);
    assert_eq!(sandbox.effects(INTENTS).await, 1);
}

#[tokio::test]
async fn a_key_under_way_is_answered_as_stripe_does_and_advises_to_try_again() {
    let sandbox = stripe().await;
    let slow = intent(2000).key("k").fault("delay_before_commit;ms=600000");
    let _first = slow.begin(sandbox.running.address()).await;
    sandbox.until("/admin/requests", |log| log["count"] == 1).await;
    let second = sandbox.send(intent(2000).key("k")).await;
    assert_eq!(error(&second), (409, json!("invalid_request_error"), json!("idempotency_key_in_use")));
    assert_eq!(second.header("Stripe-Should-Retry").as_deref(), Some("true"));
    assert_eq!(sandbox.effects(INTENTS).await, 0);
}

#[tokio::test]
async fn refunds_belong_to_a_payment_and_customers_are_changed_and_deleted() {
    let sandbox = stripe().await;
    let paid = sandbox.send(intent(2000)).await.id();
    let refund = sandbox.send(form("/v1/refunds", &format!("payment_intent={paid}"))).await.json();
    assert_eq!(
        (&refund["object"], &refund["amount"], &refund["currency"]),
        (&json!("refund"), &json!(2000), &json!("eur"))
    );
    let none = sandbox.send(form("/v1/refunds", "payment_intent=pi_9")).await;
    assert_eq!(error(&none), (404, json!("invalid_request_error"), json!("resource_missing")));
    let customer = sandbox.send(form("/v1/customers", "email=a@b.c&metadata[a]=1")).await.id();
    let path = format!("/v1/customers/{customer}");
    let changed = sandbox.send(form(&path, "name=Ada&metadata[b]=2")).await.json();
    assert_eq!(
        (&changed["email"], &changed["name"], &changed["metadata"]),
        (&json!("a@b.c"), &json!("Ada"), &json!({ "a": "1", "b": "2" }))
    );
    assert_eq!(sandbox.send(get(&path)).await.json(), changed);
    let deleted = Ask::new("DELETE", &path).header("Authorization", "Bearer sk_test_acme");
    assert_eq!(sandbox.send(deleted).await.json()["deleted"], json!(true));
    assert_eq!(sandbox.send(get(&path)).await.status(), 404);
    assert_eq!(sandbox.effects("/v1/customers").await, 1);
    assert_eq!(sandbox.get("/admin/effects").await["count"], json!(5), "changes and ends are effects too");
}

#[tokio::test]
async fn lists_show_at_once_page_by_page_and_search_shows_late() {
    let sandbox = stripe().await;
    for order in 1..=12 {
        sandbox.send(form(INTENTS, &format!("amount=5&currency=eur&metadata[order]={order}"))).await;
    }
    let first = sandbox.send(get(INTENTS)).await.json();
    assert_eq!((&first["object"], &first["has_more"]), (&json!("list"), &json!(true)));
    let page = first["data"].as_array().expect("data");
    assert_eq!((page.len(), &page[0]["metadata"]["order"]), (10, &json!("12")), "ten, the newest first");
    let last = page[9]["id"].as_str().expect("an id");
    let second = sandbox.send(get(&format!("{INTENTS}?limit=100&starting_after={last}"))).await.json();
    assert_eq!((second["data"].as_array().map(Vec::len), &second["has_more"]), (Some(2), &json!(false)));
    let none = sandbox.send(get(&format!("{INTENTS}?created[gt]=4102444800"))).await.json();
    assert_eq!(none["data"], json!([]));
    let search = get(&format!("{INTENTS}/search?query=metadata['order']:'7'"));
    assert_eq!(sandbox.send(search.clone()).await.json()["data"], json!([]), "search is a minute behind");
    sandbox.advance_clock(61_000).await;
    let found = sandbox.send(search).await.json();
    assert_eq!((&found["object"], &found["data"][0]["metadata"]["order"]), (&json!("search_result"), &json!("7")));
    let other = Ask::get(INTENTS).header("Authorization", "Bearer sk_test_other");
    assert_eq!(sandbox.send(other).await.json()["data"], json!([]), "an account sees its own things");
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day_and_the_same_payment_is_made_again() {
    let sandbox = stripe().await;
    let first = sandbox.send(intent(2000).key("k")).await.id();
    sandbox.advance_clock(24 * 60 * 60 * 1000 - 1000).await;
    assert_eq!(sandbox.send(intent(2000).key("k")).await.id(), first);
    sandbox.advance_clock(1000).await;
    let second = sandbox.send(intent(2000).key("k")).await;
    assert!(second.id() != first && !second.is_replay());
    assert_eq!(sandbox.effects(INTENTS).await, 2);
}

#[tokio::test]
async fn faults_of_the_way_back_and_at_the_door_are_met_in_stripes_shape() {
    let sandbox = stripe().await;
    for (fault, status, kind) in [
        ("unauthorized_401", 401, "invalid_request_error"),
        ("throttle_429;ms=1500", 429, "invalid_request_error"),
        ("in_flight_409", 409, "invalid_request_error"),
        ("fail_before_commit;status=503", 503, "api_error"),
        ("error_500_after_commit", 500, "api_error"),
        ("error_502_after_commit", 502, "api_error"),
    ] {
        let reply = sandbox.send(intent(2000).fault(fault)).await;
        assert_eq!((error(&reply).0, error(&reply).1), (status, json!(kind)), "{fault}");
        assert_eq!(reply.header("Content-Type").as_deref(), Some("application/json"));
    }
    assert_eq!(sandbox.effects(INTENTS).await, 2);
    let throttled = sandbox.send(intent(2000).fault("throttle_429;ms=1500")).await;
    assert_eq!(
        (throttled.header("Retry-After").as_deref(), throttled.header("Stripe-Should-Retry").as_deref()),
        (Some("2"), Some("true"))
    );
    let lost = sandbox.send(intent(2000).key("lost").fault("lose_reply_after_commit")).await;
    assert_eq!(lost.bytes, b"");
    assert!(sandbox.send(intent(2000).key("lost")).await.is_replay());
    assert_eq!(sandbox.effects(INTENTS).await, 3);
}
