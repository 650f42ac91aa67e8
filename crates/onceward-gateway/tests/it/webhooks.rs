//! Events that a destination delivers: what they settle, what they contradict, and what they cannot do.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use onceward_core::contract::Compare;
use onceward_core::key::{EffectId, OutboundKey};
use onceward_core::pointer::Pointer;
use onceward_core::receipt::Receipt;
use onceward_gateway::limits::Limits;
use onceward_gateway::serve::Running;
use onceward_ledger::clock::{Clock as _, SystemClock};
use onceward_ledger::evidence::{Authentic, Heard, Says};
use onceward_ledger::mark::Mark;
use onceward_ledger::metrics::Delivered;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::Notify;

use crate::bench::{Answer, Client, catalog, gateway_of, until};

const SECRET: &[u8] = b"a secret of more than sixteen bytes";

const SHOP: &str = r#"
[destination.shop]
url = "SHOP"
contract = { version = 1, key = { carriers = [{ in = "header", name = "Idempotency-Key" }] }, effect = { id = { body = "/id" } } }
account = "test"
[destination.shop.tool.order]
request = { method = "POST", path = "/orders", body = "arguments" }
[destination.shop.webhook]
kind = "standard"
secrets = ["file:SECRET"]
effect_if = { body_equals = { at = "/type", value = "order.created" } }
refused_if = { body_equals = { at = "/type", value = "order.refused" } }
recognise = [{ at = "/data/reference" }]
handle = "/data/job"
compare = [{ argument = "/item", effect = "/data/item" }]
effect_id = "/data/id"
answer = "/data"

[destination.other]
url = "SHOP"
contract = "none"
[destination.other.tool.mail]
request = { method = "POST", path = "/orders", body = "arguments" }
[destination.other.webhook]
kind = "standard"
secrets = ["file:SECRET"]
effect_if = { body_exists = "/type" }
recognise = [{ at = "/data/reference" }]
compare = [{ argument = "/item", effect = "/data/item" }]
"#;

/// A shop that has the effect and answers as it is told, and remembers the keys it was sent.
#[derive(Clone, Default)]
struct Shop {
    keys: Arc<Mutex<Vec<String>>>,
    release: Arc<Notify>,
}

async fn order(State(shop): State<Shop>, headers: HeaderMap, axum::Json(body): axum::Json<Value>) -> Response {
    let key = headers.get("idempotency-key").map_or_else(String::new, |key| key.to_str().unwrap().to_owned());
    shop.keys.lock().unwrap().push(key);
    match body["answers"].as_str().unwrap() {
        "done" => (StatusCode::CREATED, axum::Json(json!({ "id": "O-1", "item": body["item"] }))).into_response(),
        "broken" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "accepted" => (StatusCode::ACCEPTED, [("location", "/jobs/7")]).into_response(),
        "slowly broken" => {
            shop.release.notified().await;
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        other => panic!("the shop has no answer {other:?}"),
    }
}

struct Stage {
    gateway: Running,
    shop: Shop,
    agent: Client,
    operator: Client,
    sender: Client,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::default();
        let address = serve(shop.clone()).await;
        let secret = folder.path().join("secret");
        std::fs::write(&secret, format!("whsec_{}\n", STANDARD.encode(SECRET))).unwrap();
        let text = SHOP.replace("SHOP", &format!("http://{address}")).replace("SECRET", &secret.display().to_string());
        let gateway = start(folder.path(), &text).await;
        let tokens = gateway.first_tokens.as_ref().unwrap();
        let agent = Client::to(gateway.address, Some(tokens.agent.reveal()));
        let operator = Client::to(gateway.address, Some(tokens.operator.reveal()));
        let sender = Client::to(gateway.address, None);
        Self { gateway, shop, agent, operator, sender, folder }
    }

    async fn order(&self, id: &str, answers: &str) -> Answer {
        self.agent.call("order", id, json!({ "item": "lamp", "answers": answers })).await
    }

    /// The key that was sent last.
    fn key(&self) -> String {
        self.shop.keys.lock().unwrap().last().cloned().unwrap()
    }

    fn requests(&self) -> usize {
        self.shop.keys.lock().unwrap().len()
    }

    async fn deliver(&self, id: &str, event: &Value) -> Answer {
        self.deliver_to("shop", id, event, SECRET, now()).await
    }

    async fn deliver_to(&self, destination: &str, id: &str, event: &Value, secret: &[u8], at: i64) -> Answer {
        let body = event.to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(format!("{id}.{at}.{body}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let request = self.sender.request(reqwest::Method::POST, &format!("/v1/webhooks/{destination}"));
        let request = request.header("webhook-id", id).header("webhook-timestamp", at);
        self.sender.send(request.header("webhook-signature", signature).body(body)).await
    }

    async fn shown(&self, id: &str) -> Value {
        self.operator.get(&format!("/v1/operations/{id}")).await.json()
    }

    async fn entries(&self, id: &str) -> usize {
        let journal = self.operator.get(&format!("/v1/operations/{id}/journal")).await.json();
        journal["entries"].as_array().unwrap().len()
    }

    async fn count(&self, result: &str) -> f64 {
        let text = self.operator.get("/metrics").await.text;
        let name = format!("onceward_webhooks_total{{destination=\"shop\",result=\"{result}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0.0, |value| value.parse().unwrap())
    }
}

async fn serve(shop: Shop) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/orders", post(order)).with_state(shop);
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

async fn start(folder: &Path, text: &str) -> Running {
    gateway_of(folder.join("onceward.db"), catalog(text), Limits::default()).start().await.unwrap()
}

fn now() -> i64 {
    SystemClock.now().as_micros() / 1_000_000
}

fn created(key: &str, id: &str) -> Value {
    json!({ "type": "order.created", "data": { "reference": key, "id": id, "item": "lamp" } })
}

#[track_caller]
fn says(answer: &Answer, status: u16, result: &str) {
    assert_eq!((answer.status, answer.json()["result"].as_str()), (status, Some(result)), "{}", answer.text);
}

#[tokio::test]
async fn an_event_with_our_key_settles_what_is_unknown_and_repetitions_get_its_receipt() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    says(&stage.deliver("evt-1", &created(&stage.key(), "O-1")).await, 200, "settled");
    let replayed = stage.order("o-1", "broken").await.is(200, "replayed");
    assert_eq!(replayed["receipt"]["body"], json!({ "reference": stage.key(), "id": "O-1", "item": "lamp" }));
    assert_eq!(stage.requests(), 1, "nothing was sent again");
    let journal = stage.operator.get("/v1/operations/o-1/journal").await.text;
    assert!(journal.contains("webhook:shop") && journal.contains("evt-1"), "{journal}");
    assert!((stage.count("settled").await - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn the_same_delivery_again_changes_nothing() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let key = stage.key();
    says(&stage.deliver("evt-1", &created(&key, "O-1")).await, 200, "settled");
    let entries = stage.entries("o-1").await;
    says(&stage.deliver("evt-1", &created(&key, "O-1")).await, 200, "known");
    says(&stage.deliver("evt-2", &created(&key, "O-1")).await, 200, "known");
    // A contradiction is one, however often it is delivered.
    says(&stage.deliver("evt-3", &created(&key, "O-2")).await, 200, "disputed");
    for _ in 0..3 {
        says(&stage.deliver("evt-3", &created(&key, "O-2")).await, 200, "known");
    }
    assert_eq!(stage.entries("o-1").await, entries + 1);
    let shown = stage.shown("o-1").await;
    assert_eq!(shown["operation"]["state"], "succeeded");
    assert_eq!(shown["operation"]["disagreement"]["count"], 1, "{shown}");
}

/// Both have looked before either is written: the second must look again and find the first.
#[tokio::test]
async fn one_event_delivered_twice_at_once_is_recorded_once() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let (ledger, entries) = (stage.gateway.app().ledger(), stage.entries("o-1").await);
    let proof = Authentic::verified("shop");
    let receipt = Receipt {
        effect_id: EffectId::parse("O-1").ok(),
        answer: onceward_core::receipt::Answer::json(&json!({ "id": "O-1" })),
        received_at: SystemClock.now(),
    };
    let heard = Heard {
        delivery: "evt-1".to_owned(),
        marks: vec![Mark::Key(OutboundKey::parse(&stage.key()).unwrap())],
        says: Says::Effect(receipt),
        event: json!({ "item": "chair" }),
        compare: vec![Compare { argument: Pointer::parse("/item").unwrap(), effect: Pointer::parse("/item").unwrap() }],
    };
    let other = onceward_sqlite::rusqlite::Connection::open(stage.folder.path().join("onceward.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut deliveries = [0, 1].map(|_| Box::pin(ledger.evidence(&proof, &heard, |_| true)));
    for delivery in &mut deliveries {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(delivery.as_mut().poll(&mut context).is_pending(), "it has looked and waits to be written");
    }
    other.execute_batch("COMMIT").unwrap();
    let mut results = Vec::new();
    for delivery in deliveries {
        results.push(delivery.await.unwrap());
    }
    assert_eq!(results, [Delivered::Disputed, Delivered::Known]);
    assert_eq!(stage.entries("o-1").await, entries + 1);
    assert_eq!(stage.shown("o-1").await["operation"]["disagreement"]["count"], 1);
}

#[tokio::test]
async fn an_event_that_is_not_the_destinations_is_refused_and_leaves_no_trace() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let (event, entries) = (created(&stage.key(), "O-1"), stage.entries("o-1").await);
    let wrong = b"another secret of sixteen bytes".as_slice();
    stage.deliver_to("shop", "evt-1", &event, wrong, now()).await.is(401, "unauthenticated");
    stage.deliver_to("shop", "evt-1", &event, SECRET, now() - 3600).await.is(401, "unauthenticated");
    stage.sender.post("/v1/webhooks/shop", event.clone()).await.is(401, "unauthenticated");
    stage.agent.post("/v1/webhooks/shop", event.clone()).await.is(401, "unauthenticated");
    stage.deliver_to("nobody", "evt-1", &event, SECRET, now()).await.is(404, "not_found");
    assert_eq!(stage.entries("o-1").await, entries);
    assert_eq!(stage.shown("o-1").await["operation"]["state"], "unknown");
    assert!((stage.count("unauthentic").await - 4.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn another_destination_cannot_speak_of_an_operation_that_is_not_its_own() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let event = created(&stage.key(), "O-1");
    says(&stage.deliver_to("other", "evt-1", &event, SECRET, now()).await, 202, "unmatched");
    assert_eq!(stage.shown("o-1").await["operation"]["state"], "unknown");
}

#[tokio::test]
async fn other_parameters_are_a_disagreement_and_uncompared_ones_are_for_a_person() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let mut event = created(&stage.key(), "O-1");
    event["data"]["item"] = json!("chair");
    says(&stage.deliver("evt-1", &event).await, 200, "disputed");
    let shown = stage.shown("o-1").await;
    assert_eq!(shown["operation"]["state"], "unknown");
    assert_eq!(shown["operation"]["disagreement"]["kind"], "other_parameters", "{shown}");

    // Its arguments have no field that is compared, so nothing says that it is the same order.
    stage.agent.call("order", "o-2", json!({ "answers": "broken" })).await.is(409, "unknown");
    let entries = stage.entries("o-2").await;
    says(&stage.deliver("evt-2", &created(&stage.key(), "O-2")).await, 200, "candidate");
    says(&stage.deliver("evt-2", &created(&stage.key(), "O-2")).await, 200, "known");
    assert_eq!(stage.shown("o-2").await["operation"]["state"], "unknown");
    assert_eq!(stage.entries("o-2").await, entries + 1, "a person finds it in the journal");
}

#[tokio::test]
async fn an_event_about_a_running_attempt_is_asked_for_again_and_settles_it_once_it_is_uncertain() {
    let stage = Stage::start().await;
    let (agent, arguments) = (stage.agent.clone(), json!({ "item": "lamp", "answers": "slowly broken" }));
    let call = tokio::spawn(async move { agent.call("order", "o-1", arguments).await });
    until("the shop is asked", async || (stage.requests() == 1).then_some(())).await;
    let event = created(&stage.key(), "O-1");
    let early = stage.deliver("evt-1", &event).await;
    assert_eq!((early.status, early.header("retry-after")), (503, Some("5")), "{}", early.text);
    stage.shop.release.notify_one();
    call.await.unwrap().is(409, "unknown");
    says(&stage.deliver("evt-1", &event).await, 200, "settled");
    stage.order("o-1", "slowly broken").await.is(200, "replayed");
    assert_eq!(stage.requests(), 1);
}

#[tokio::test]
async fn accepted_work_is_settled_by_its_handle_and_refused_by_it() {
    let stage = Stage::start().await;
    stage.agent.call("order", "o-1", json!({ "answers": "accepted", "item": "lamp" })).await.is(409, "unknown");
    let event = json!({ "type": "order.created", "data": { "job": "/jobs/7", "id": "O-1", "item": "lamp" } });
    says(&stage.deliver("evt-1", &event).await, 200, "settled");
    assert_eq!(stage.shown("o-1").await["operation"]["state"], "succeeded");

    stage.order("o-2", "broken").await.is(409, "unknown");
    let refused =
        json!({ "type": "order.refused", "data": { "reference": stage.key(), "item": "lamp", "why": "sold out" } });
    says(&stage.deliver("evt-2", &refused).await, 200, "settled");
    let told = stage.order("o-2", "broken").await.is(422, "rejected");
    assert_eq!(told["receipt"]["body"]["why"], "sold out");
    assert_eq!(stage.requests(), 2);
}

#[tokio::test]
async fn an_event_against_what_a_person_decided_is_a_disagreement_and_moves_nothing() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let decision = json!({
        "choice": "confirmed_not_done", "reason": "not_at_destination", "evidence": "No order of today in the shop.",
    });
    let decided = stage.operator.decide("o-1", decision).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    says(&stage.deliver("evt-1", &created(&stage.key(), "O-1")).await, 200, "disputed");
    let shown = stage.shown("o-1").await;
    assert_eq!(shown["operation"]["state"], "closed");
    assert_eq!(shown["operation"]["disagreement"]["kind"], "effect_after_close", "{shown}");
}

#[tokio::test]
async fn what_says_nothing_is_taken_and_counted() {
    let stage = Stage::start().await;
    stage.order("o-1", "done").await.is(200, "executed");
    let key = stage.key();
    says(&stage.deliver("evt-1", &json!({ "type": "order.viewed", "data": {} })).await, 202, "ignored");
    says(&stage.deliver("evt-2", &json!({ "type": "order.created", "data": {} })).await, 202, "unmatched");
    says(&stage.deliver("evt-3", &created("somebody-elses", "O-9")).await, 202, "unmatched");
    says(&stage.deliver("evt-4", &created(&key, "O-1")).await, 202, "unmatched");
    assert_eq!(stage.shown("o-1").await["operation"]["state"], "succeeded");
    let large = json!({ "type": "order.created", "data": { "text": "x".repeat(300 * 1024) } });
    stage.deliver("evt-5", &large).await.is(413, "too_large");
    assert!((stage.count("unmatched").await - 3.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn after_a_restart_an_event_still_finds_its_operation() {
    let stage = Stage::start().await;
    stage.order("o-1", "broken").await.is(409, "unknown");
    let Stage { gateway, shop, folder, .. } = stage;
    gateway.stop().await;
    let secret = folder.path().join("secret");
    let text = SHOP.replace("SHOP", "http://127.0.0.1:9").replace("SECRET", &secret.display().to_string());
    let gateway = start(folder.path(), &text).await;
    let (agent, sender) = (Client::to(gateway.address, None), Client::to(gateway.address, None));
    let next = Stage { operator: agent.clone(), agent, sender, gateway, shop, folder };
    says(&next.deliver("evt-1", &created(&next.key(), "O-1")).await, 200, "settled");
    tokio::time::timeout(Duration::from_secs(30), next.gateway.stop()).await.unwrap();
}
