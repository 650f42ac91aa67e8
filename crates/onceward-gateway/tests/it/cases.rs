//! Failures that others have had in public, as tests that carry their id; docs/cases.md says which test holds which.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use onceward_gateway::auth::Role;
use onceward_gateway::limits::Limits;
use onceward_gateway::serve::Running;
use serde_json::json;

use crate::bench::{Answer, Bench, Client, catalog, gateway_of, ticket};

/// What a caller can compare of a refusal: everything but the name of the exchange.
fn comparable(answer: &Answer) -> (u16, String, Vec<String>) {
    let named = answer.headers.iter().filter(|(name, _)| !["date", "onceward-trace"].contains(&name.as_str()));
    let mut headers: Vec<String> = named.map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.sort();
    (answer.status, answer.text.clone(), headers)
}

/// A wrong code is replayed when the right one is sent, and one route's answer is given on another.
#[tokio::test]
async fn r050_a_refused_input_is_not_kept_and_another_tool_gets_no_receipt() {
    let bench = Bench::start().await;
    for _ in 0..2 {
        bench.agent.call("create_ticket", "t-1", json!({ "title": "Printer" })).await.is(422, "invalid_arguments");
    }
    bench.agent.get("/v1/operations/t-1").await.is(404, "not_found");
    let done = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let other = bench.agent.call("create_order", "t-1", json!({ "item": "toner", "quantity": 1 })).await;
    other.is(422, "conflict");
    assert!(!other.text.contains(done["receipt"]["body"]["id"].as_str().unwrap()), "{}", other.text);
    assert_eq!(bench.writes().await, 1);
}

/// Who has not logged in is a user like all the others who have not.
#[tokio::test]
async fn r051_without_a_credential_there_is_no_tenant_and_no_row() {
    let bench = Bench::start().await;
    for stranger in [bench.nobody(), Client::to(bench.gateway.address, Some("ow_agent_nobody"))] {
        stranger.call("create_ticket", "t-1", ticket("Printer")).await.is(401, "unauthenticated");
        stranger.get("/v1/operations/t-1").await.is(401, "unauthenticated");
        let claim = json!({ "tool": "create_ticket", "operation_id": "t-1", "arguments": ticket("Printer") });
        stranger.post("/v1/claims", claim).await.is(401, "unauthenticated");
    }
    assert_eq!(bench.ground.operations(), 0);
    assert_eq!(bench.writes().await, 0);
    bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert_eq!(bench.ground.operations(), 1);
}

/// The gate stands in the handler, which a replay does not reach.
#[tokio::test]
async fn r075_a_revoked_credential_sees_no_receipt_and_cannot_tell_whether_there_is_one() {
    let bench = Bench::start().await;
    let (id, agent) = bench.credential("acme", "temp", Role::Agent, "*").await;
    let done = agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    bench.operator.delete(&format!("/v1/credentials/{id}")).await;
    let existing = agent.call("create_ticket", "t-1", ticket("Printer")).await;
    existing.is(401, "unauthenticated");
    assert_eq!(comparable(&existing), comparable(&agent.call("create_ticket", "t-2", ticket("Printer")).await));
    let (existing, missing) =
        (agent.get("/v1/operations/t-1/receipt").await, agent.get("/v1/operations/t-2/receipt").await);
    assert_eq!(comparable(&existing), comparable(&missing));
    let (_, again) = bench.credential("acme", "temp", Role::Agent, "*").await;
    let replayed = again.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(replayed["receipt"], done["receipt"]);
    assert_eq!(bench.writes().await, 1);
}

/// A gateway before a destination that answers with more than it should.
struct Careless {
    gateway: Running,
    token: String,
    folder: tempfile::TempDir,
    text: String,
}

impl Careless {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[destination.careless]\nurl = \"http://{}\"\ncontract = \"none\"\nauth = {{ bearer = \"file:{}\" }}\n\
             [destination.careless.tool.make]\nrequest = {{ method = \"POST\", path = \"/things\", body = \"arguments\" }}\n",
            careless().await,
            folder.path().join("token").display(),
        );
        std::fs::write(folder.path().join("token"), "s3cret-sent\n").unwrap();
        let gateway = start(folder.path(), &text).await;
        let token = gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
        Self { gateway, token, folder, text }
    }

    async fn make(&self) -> serde_json::Value {
        let agent = Client::to(self.gateway.address, Some(&self.token));
        let told = agent.call("make", "m-1", json!({ "name": "visible" })).await;
        assert_eq!(told.status, 200, "{}", told.text);
        told.json()
    }
}

async fn start(folder: &Path, text: &str) -> Running {
    std::fs::create_dir_all(folder.join("ledger")).unwrap();
    let ledger = folder.join("ledger/onceward.db");
    gateway_of(ledger, catalog(text), Limits::default()).start().await.unwrap()
}

async fn careless() -> SocketAddr {
    async fn answer(headers: HeaderMap) -> impl IntoResponse {
        assert_eq!(headers["authorization"], "Bearer s3cret-sent", "it was really sent");
        let answered = [
            ("location", "/things/7"),
            ("etag", "\"v1\""),
            ("link", "</things>; rel=collection"),
            ("set-cookie", "session=s3cret-cookie"),
            ("authorization", "Bearer s3cret-answered"),
            ("www-authenticate", "s3cret-challenge"),
            ("x-ratelimit-remaining", "s3cret-limit"),
        ];
        (StatusCode::CREATED, answered, axum::Json(json!({ "id": 7 })))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/things", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The replay never worked: it was written to one store and read from another, and 201 became 200.
#[tokio::test]
async fn r066_a_created_thing_is_replayed_as_created_by_the_next_gateway() {
    let first = Careless::start().await;
    let executed = first.make().await;
    let Careless { gateway, token, folder, text } = first;
    gateway.stop().await;
    let next = Careless { gateway: start(folder.path(), &text).await, token, folder, text };
    let replayed = next.make().await;
    assert_eq!((&executed["outcome"], &replayed["outcome"]), (&json!("executed"), &json!("replayed")));
    assert_eq!(
        (&replayed["receipt"]["status"], &replayed["receipt"]["headers"]["location"]),
        (&json!(201), &json!("/things/7"))
    );
    assert_eq!(executed["receipt"], replayed["receipt"]);
}

/// Only status, body and type were kept.
#[tokio::test]
async fn r068_what_names_the_thing_is_kept_and_what_speaks_of_the_exchange_is_not() {
    let careless = Careless::start().await;
    for _ in 0..2 {
        let told = careless.make().await;
        let headers = told["receipt"]["headers"].as_object().unwrap();
        let mut names: Vec<&str> = headers.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "etag", "link", "location"]);
    }
}

/// The hash left the secrets out, and the stored answer did not.
#[tokio::test]
async fn r096_no_credential_of_a_call_or_of_a_header_lies_in_the_files() {
    let careless = Careless::start().await;
    careless.make().await;
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(careless.folder.path().join("ledger")).unwrap() {
        bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
    }
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("visible"), "the scan sees what is stored");
    assert!(!has("s3cret"), "a credential of the destination lies in the ledger's files");
    assert!(!has(&careless.token), "a token of the gateway lies in the ledger's files");
}
