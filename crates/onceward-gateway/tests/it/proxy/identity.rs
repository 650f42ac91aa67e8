//! Which operation a request of a vendor's client is (R20).

use onceward_gateway::auth::Role;
use reqwest::Method;

use super::{INTENT, INTENTS, Shop, contract, is_stripes, stripe};
use crate::bench::Client;
use onceward_lab::sandbox::SandboxContract;

/// Keys as Stripe's clients make them up.
const INVENTED: [&str; 2] =
    ["0b2f6f8e-8a3e-4a3c-9b53-6f8a0c1d2e3f", "stripe-node-retry-7c9e6679-7425-40de-944b-e07fc1f90ae7"];

#[tokio::test]
async fn a_clients_own_retry_joins_the_first_and_a_second_call_is_held() {
    let shop = Shop::stripe().await;
    let first = shop.intent(INVENTED[0], INTENT).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let retried = shop.intent(INVENTED[0], INTENT).await;
    assert_eq!((&retried.text, retried.header("idempotent-replayed")), (&first.text, Some("true")));
    let second = shop.intent(INVENTED[1], INTENT).await;
    is_stripes(&second, 409, "api_error", "onceward_possible_duplicate", "false");
    assert!(!second.text.contains("\"object\""), "a held call must not read as done: {}", second.text);
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
    let other = shop.intent(INVENTED[1], "amount=5001&currency=eur").await;
    assert_eq!(other.status, 200, "another one after the first was settled: {}", other.text);
}

#[tokio::test]
async fn after_a_lost_reply_a_call_under_a_new_invented_key_sends_nothing() {
    let shop = Shop::stripe().await;
    shop.fault(INTENTS, "error_500_after_commit").await;
    is_stripes(&shop.intent(INVENTED[0], INTENT).await, 409, "api_error", "onceward_unknown", "false");
    for body in [INTENT, "amount=5000&currency=eur&description=again"] {
        is_stripes(&shop.intent(INVENTED[1], body).await, 409, "api_error", "onceward_possible_duplicate", "false");
    }
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
    let elsewhere = shop.client.send(shop.form("/v1/customers", None, "email=a@b.example")).await;
    assert_eq!(elsewhere.status, 200, "another address is another business: {}", elsewhere.text);
}

#[tokio::test]
async fn equal_writes_under_two_keys_of_the_application_are_two() {
    let shop = Shop::stripe().await;
    for key in ["order-17", "order-18"] {
        assert_eq!(shop.intent(key, INTENT).await.status, 200);
    }
    assert_eq!(shop.effects(INTENTS).await, 2);
}

#[tokio::test]
async fn a_registered_operation_goes_before_an_invented_key_and_must_agree_with_a_chosen_one() {
    let shop = Shop::stripe().await;
    let send = async |id: &str, key: &str| {
        shop.client.send(shop.form(INTENTS, Some(key), INTENT).header("onceward-operation-id", id)).await
    };
    let first = send("checkout-9", INVENTED[0]).await;
    assert_eq!((first.status, first.header("onceward-operation-id")), (200, Some("checkout-9")));
    let again = send("checkout-9", INVENTED[1]).await;
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&first.text, Some("true")));
    let torn = send("checkout-10", "order-17").await;
    is_stripes(&torn, 422, "api_error", "onceward_identity_conflict", "false");
    assert_eq!(shop.effects(INTENTS).await, 1);
}

#[tokio::test]
async fn the_same_key_in_another_sub_account_is_another_operation() {
    let shop = Shop::stripe().await;
    for account in ["acct_a", "acct_b"] {
        let request = shop.form(INTENTS, Some("order-17"), INTENT).header("stripe-account", account);
        assert_eq!(shop.client.send(request).await.header("idempotent-replayed"), Some("false"), "{account}");
    }
    assert_eq!(shop.effects(INTENTS).await, 2);
}

#[tokio::test]
async fn two_tenants_with_one_key_behind_one_account_make_two_effects() {
    let shop = Shop::stripe().await;
    let (_, theirs) = shop.bench.credential("globex", "app", Role::Agent, "stripe.*").await;
    let first = shop.intent("order-17", INTENT).await;
    let request = theirs
        .request(Method::POST, "/proxy/stripe/v1/payment_intents")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("idempotency-key", "order-17")
        .body(INTENT);
    let other = theirs.send(request).await;
    assert_eq!(other.status, 200, "{}", other.text);
    assert_ne!(other.json()["id"], first.json()["id"], "another tenant's payment was given");
    assert_eq!(shop.effects(INTENTS).await, 2);
}

#[tokio::test]
async fn a_token_that_may_not_use_the_destination_learns_nothing_of_it() {
    let shop = Shop::stripe().await;
    shop.intent("order-17", INTENT).await;
    let (_, elsewhere) = shop.bench.credential("acme", "mailer", Role::Agent, "mail.*").await;
    let ask = async |client: &Client, method: Method| {
        client
            .send(client.request(method, "/proxy/stripe/v1/payment_intents").header("idempotency-key", "order-17"))
            .await
    };
    for method in [Method::GET, Method::POST] {
        is_stripes(&ask(&elsewhere, method.clone()).await, 404, "api_error", "onceward_unknown_tool", "false");
        is_stripes(
            &ask(&shop.bench.operator, method.clone()).await,
            404,
            "api_error",
            "onceward_unknown_tool",
            "false",
        );
        is_stripes(&ask(&shop.bench.nobody(), method).await, 401, "api_error", "onceward_unauthenticated", "false");
    }
    assert_eq!(shop.bench.writes().await, 1);
}

#[tokio::test]
async fn without_identity_a_write_is_refused_where_the_configuration_says_so() {
    let sandbox = SandboxContract::speaking(contract("stripe.v1"));
    let shop = Shop::with(sandbox, &stripe("identity = [\"order-*\"]\nwithout_identity = \"refuse\"")).await;
    let refused = shop.intent(INVENTED[0], INTENT).await;
    is_stripes(&refused, 400, "api_error", "onceward_identity_required", "false");
    assert_eq!(shop.intent("order-17", INTENT).await.status, 200);
    assert_eq!(shop.bench.writes().await, 1);
}

#[tokio::test]
async fn an_approved_write_is_sent_once_when_its_client_comes_again() {
    let sandbox = SandboxContract::speaking(contract("stripe.v1"));
    let shop = Shop::with(sandbox, &stripe("identity = [\"order-*\"]\napproval = \"required\"")).await;
    let waits = shop.intent("order-17", INTENT).await;
    is_stripes(&waits, 409, "api_error", "onceward_approval_required", "false");
    assert_eq!(shop.bench.writes().await, 0);
    let id = waits.header("onceward-operation-id").unwrap();
    let path = format!("/v1/operations/{id}/approval");
    let body = serde_json::json!({ "decision": "approve" });
    let approved = shop.bench.operator.post(&path, body).await;
    assert_eq!(approved.status, 200, "{}", approved.text);
    assert_eq!(shop.intent("order-17", INTENT).await.status, 200);
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
}

#[tokio::test]
async fn the_writes_of_a_proxy_take_no_claims_and_no_calls_beside_it() {
    let shop = Shop::stripe().await;
    let claim = serde_json::json!({ "tool": "stripe.proxy", "operation_id": "c-1", "arguments": {} });
    shop.bench.agent.post("/v1/claims", claim).await.is(400, "invalid_request");
    shop.bench.agent.call("stripe.proxy", "c-1", serde_json::json!({})).await.is(404, "unknown_tool");
}

/// A vendor's client invents a key for each call, so no key of its own says that a second one is meant: a person does.
#[tokio::test]
async fn a_second_write_that_a_person_approved_is_sent_for_the_clients_next_invented_key() {
    let shop = Shop::stripe().await;
    assert_eq!(shop.intent(INVENTED[0], INTENT).await.status, 200);
    let held = shop.intent(INVENTED[1], INTENT).await;
    is_stripes(&held, 409, "api_error", "onceward_possible_duplicate", "false");
    let first = held.header("onceward-operation-id").expect("the one that it looks like").to_owned();
    let asked = shop.bench.agent.post("/v1/approvals", serde_json::json!({ "operation_id": first })).await;
    assert_eq!(asked.status, 201, "{}", asked.text);
    let second = asked.json()["operation"]["operation_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/operations/{second}/approval");
    shop.bench.operator.post(&path, serde_json::json!({ "decision": "approve" })).await;
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (1, 1));
    let done = shop.intent("6a1d7f52-0b1c-4f0e-8f3e-2f4f7a9b8c7d", INTENT).await;
    assert_eq!((done.status, done.header("onceward-operation-id")), (200, Some(second.as_str())), "{}", done.text);
    let after = shop.intent("f3b8a7c1-5d2e-4c6b-9a0f-1e2d3c4b5a69", INTENT).await;
    is_stripes(&after, 409, "api_error", "onceward_possible_duplicate", "false");
    assert_eq!((shop.effects(INTENTS).await, shop.bench.writes().await), (2, 2));
}

/// Where the client's own key is what the vendor sees, two tenants that choose the same would meet: so one may come.
#[tokio::test]
async fn the_callers_own_key_goes_out_for_one_tenant_and_no_other_may_come() {
    let own = "identity = [\"order-*\"]\nkey = \"caller\"\ntenant = \"acme\"";
    let shop = Shop::with(SandboxContract::speaking(contract("stripe.v1")), &stripe(own)).await;
    assert_eq!(shop.intent("order-17", INTENT).await.status, 200);
    assert_eq!(shop.keys().await, ["order-17"]);
    let (_, theirs) = shop.bench.credential("globex", "app", Role::Agent, "*").await;
    let request =
        theirs.request(Method::POST, "/proxy/stripe/v1/payment_intents").header("idempotency-key", "order-17");
    is_stripes(&theirs.send(request.body(INTENT)).await, 404, "api_error", "onceward_unknown_tool", "false");
    assert_eq!(shop.bench.writes().await, 1);
}
