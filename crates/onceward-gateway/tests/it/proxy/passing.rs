//! Reads pass through and leave no record; the proxy answers below its name and on its own port alike.

use reqwest::Method;

use super::{INTENT, INTENTS, Shop, contract, stripe};
use onceward_lab::sandbox::SandboxContract;

#[tokio::test]
async fn a_read_passes_through_and_leaves_no_record() {
    let shop = Shop::stripe().await;
    let made = shop.intent("order-17", INTENT).await.json();
    let path = format!("{INTENTS}/{}", made["id"].as_str().unwrap());
    let read = shop.client.get(&path).await;
    assert_eq!((read.status, read.json()["id"].as_str()), (200, made["id"].as_str()), "{}", read.text);
    let missing = shop.client.get(&format!("{INTENTS}/pi_none")).await;
    assert_eq!((missing.status, missing.json()["error"]["code"].as_str()), (404, Some("resource_missing")));
    let kept = shop.bench.operator.get("/v1/operations?limit=10").await.json();
    assert_eq!(kept["operations"].as_array().unwrap().len(), 1, "{kept}");
}

#[tokio::test]
async fn a_post_that_only_reads_passes_through_where_the_configuration_names_it() {
    let sandbox = SandboxContract::speaking(contract("stripe.v1"));
    let shop = Shop::with(sandbox, &stripe(&format!("reads = [\"GET\", \"POST {INTENTS}/*\"]"))).await;
    shop.client.send(shop.form(&format!("{INTENTS}/pi_none"), None, "x=1")).await;
    let kept = shop.bench.operator.get("/v1/operations?limit=10").await.json();
    assert_eq!(kept["operations"].as_array().unwrap().len(), 0, "{kept}");
}

#[tokio::test]
async fn a_read_that_is_not_answered_says_so_and_may_be_tried_again() {
    let shop = Shop::stripe().await;
    shop.bench
        .fault(serde_json::json!({ "match": { "method": "GET", "path": INTENTS }, "fault": "lose_reply_after_commit" }))
        .await;
    let lost = shop.client.get(INTENTS).await;
    super::is_stripes(&lost, 502, "api_error", "onceward_read_failed", "true");
    assert_eq!(shop.client.get(INTENTS).await.status, 200);
}

#[tokio::test]
async fn the_path_below_the_name_and_the_port_of_its_own_lead_to_the_same_operation() {
    let shop = Shop::stripe().await;
    let own = shop.intent("order-17", INTENT).await;
    let below = shop
        .bench
        .agent
        .request(Method::POST, &format!("/proxy/stripe{INTENTS}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("idempotency-key", "order-17")
        .body(INTENT);
    let below = shop.bench.agent.send(below).await;
    assert_eq!((below.status, &below.text), (200, &own.text));
    assert_eq!(below.header("idempotent-replayed"), Some("true"));
    shop.bench.agent.get("/proxy/nothing/v1/x").await.is(404, "not_found");
    shop.bench.nobody().get("/proxy/nothing/v1/x").await.is(401, "unauthenticated");
    assert_eq!(shop.bench.writes().await, 1);
}

#[tokio::test]
async fn the_token_travels_where_the_vendors_credential_would() {
    let shop = Shop::stripe().await;
    let nobody = shop.bench.nobody();
    let basic = nobody.request(Method::GET, &format!("/proxy/stripe{INTENTS}")).basic_auth(shop.token(), Some(""));
    assert_eq!(nobody.send(basic).await.status, 200);
}
