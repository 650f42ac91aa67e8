//! What an agent cannot do, tried over every route and every tool name: it creates no identity by its words, settles nothing
//! that it does not hold, approves nothing and decides nothing.

use std::collections::BTreeMap;

use onceward_core::decision::{ChoiceKind, Reason};
use onceward_gateway::auth::Role;
use onceward_gateway::http::OPENAPI;
use reqwest::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, Client, ticket};

/// The operations that are there before the agent tries anything: one in each state that somebody could be tempted to move.
const UNKNOWN: &str = "u-1";
const PROPOSED: &str = "p-1";
const CLAIMED: &str = "c-1";
const DONE: &str = "s-1";
const STANDING: [&str; 4] = [UNKNOWN, PROPOSED, CLAIMED, DONE];

/// What a model would like to be called.
const CHOSEN: &str = "chosen-by-the-model";

struct World {
    bench: Bench,
    /// A credential that the agent would like to revoke.
    other_credential: String,
}

impl World {
    async fn start() -> Self {
        let bench = Bench::start().await;
        let (other_credential, application) = bench.credential("acme", "application", Role::Agent, "*").await;
        bench.agent.call("create_ticket", DONE, ticket("Scanner")).await.is(200, "executed");
        bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
        bench.agent.call("create_ticket", UNKNOWN, ticket("Printer")).await.is(409, "unknown");
        bench.agent.call("approved_ticket", PROPOSED, ticket("Server")).await.is(409, "approval_required");
        let claim =
            json!({ "tool": "own_function", "operation_id": CLAIMED, "arguments": {}, "settle_within_ms": 600_000 });
        assert_eq!(application.post("/v1/claims", claim).await.status, 201);
        Self { bench, other_credential }
    }

    /// Every operation by id: its state and its version, which grows with whatever happens to it.
    async fn operations(&self) -> BTreeMap<String, (String, u64)> {
        let page = self.bench.operator.get("/v1/operations?limit=200").await.json();
        assert!(page["next_cursor"].is_null(), "more than a page");
        let row = |row: &Value| {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            (text("operation_id"), (text("state"), row["version"].as_u64().unwrap()))
        };
        page["operations"].as_array().unwrap().iter().map(row).collect()
    }
}

/// Bodies that would do it, were they an operator's.
fn bodies(path: &str, version: u64) -> Vec<Value> {
    match path {
        "/v1/operations/{id}/approval" => {
            vec![json!({ "decision": "approve" }), json!({ "decision": "decline", "expected": version })]
        }
        "/v1/operations/{id}/decisions" => ChoiceKind::ALL.iter().map(|choice| decision(*choice, version)).collect(),
        "/v1/operations/{id}/purge" => vec![json!({ "scope": "arguments" }), json!({ "scope": "everything" })],
        "/v1/claims/{id}/dispatching" => vec![json!({ "attempt": 1, "secret": "x.y" })],
        "/v1/claims/{id}/heartbeat" => vec![json!({ "attempt": 1, "secret": "x.y", "settle_within_ms": 1000 })],
        "/v1/claims/{id}/settlement" => ["done", "refused", "nothing_sent", "failed"]
            .map(|ended| json!({ "attempt": 1, "secret": "x.y", "ended": ended }))
            .into(),
        "/v1/credentials" => {
            ["operator", "application"].map(|role| json!({ "principal": "me", "role": role, "tools": ["*"] })).into()
        }
        _ => vec![json!({})],
    }
}

fn decision(choice: ChoiceKind, version: u64) -> Value {
    let reason = Reason::ALL.iter().find(|reason| reason.carries(choice)).unwrap();
    let mut body = json!({ "choice": choice, "reason": reason, "evidence": "I am sure", "expected": version });
    match choice {
        ChoiceKind::ConfirmedDone | ChoiceKind::Refused => body["receipt"] = json!({ "status": 200, "body": {} }),
        ChoiceKind::SupersededBy => body["superseded_by"] = CHOSEN.into(),
        ChoiceKind::ConfirmedNotDone | ChoiceKind::DispatchAgain | ChoiceKind::Wait | ChoiceKind::Acknowledge => {}
    }
    body
}

/// Routes by which something is written, and whether the agent must be refused there. Another route fails the test until it is
/// placed here.
fn forbidden(method: &str, path: &str) -> Option<bool> {
    match (method, path) {
        // What an agent is for: calls and claims in its own name. What their arguments can do is tried below.
        ("post", "/v1/tools/{tool}/calls" | "/v1/operations" | "/v1/claims") => Some(false),
        // It writes nothing.
        ("post", "/v1/tools/{tool}/explanations") => Some(false),
        // Taking back what was not sent, and asking that a person allow a second one: neither settles nor approves.
        ("post", "/v1/operations/{id}/withdrawal" | "/v1/approvals") => Some(false),
        (
            "post",
            "/v1/operations/{id}/lookups"
            | "/v1/operations/{id}/approval"
            | "/v1/operations/{id}/decisions"
            | "/v1/operations/{id}/purge"
            | "/v1/claims/{id}/dispatching"
            | "/v1/claims/{id}/heartbeat"
            | "/v1/claims/{id}/settlement"
            | "/v1/webhooks/{destination}"
            | "/v1/credentials",
        )
        | ("delete", "/v1/credentials/{id}") => Some(true),
        ("get", _) => Some(false),
        (_, _) => None,
    }
}

#[tokio::test]
async fn an_agents_credential_settles_approves_and_decides_nothing_over_any_route() {
    let world = World::start().await;
    let before = world.operations().await;
    assert_eq!(before.keys().map(String::as_str).collect::<Vec<_>>(), [CLAIMED, PROPOSED, DONE, UNKNOWN]);
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "parameters") {
            let must_be_refused = forbidden(method, path);
            let must_be_refused =
                must_be_refused.unwrap_or_else(|| panic!("{method} {path} is not placed in this test"));
            if !must_be_refused {
                continue;
            }
            let ids =
                if path.contains("credentials") { vec![world.other_credential.as_str()] } else { STANDING.to_vec() };
            for id in ids {
                let address = path.replace("{id}", id).replace("{destination}", "strict");
                let version = before.get(id).map_or(1, |(_, version)| *version);
                for body in bodies(path, version) {
                    let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                    let agent = &world.bench.agent;
                    let answer = agent.send(agent.request(verb, &address).json(&body)).await;
                    assert!(
                        (400..500).contains(&answer.status),
                        "{method} {address} {body}: {} {}",
                        answer.status,
                        answer.text
                    );
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 60, "only {tried} were tried");
    // Taking back what may have been sent would settle it.
    for id in [UNKNOWN, CLAIMED, DONE] {
        world.bench.agent.post(&format!("/v1/operations/{id}/withdrawal"), json!({})).await.is(409, "illegal_move");
    }
    assert_eq!(world.operations().await, before, "nothing moved");
    assert_eq!(world.bench.writes().await, 2, "nothing more was sent");

    // The same words from an operator do it: it was the credential that was refused.
    let operator = &world.bench.operator;
    let path = "/v1/operations/{id}/decisions";
    for body in bodies(path, before[UNKNOWN].1).into_iter().filter(|body| body["choice"] == "confirmed_done") {
        let decided = operator.post(&path.replace("{id}", UNKNOWN), body).await;
        assert_eq!(decided.json()["operation"]["state"], "succeeded", "{}", decided.text);
    }
    let allowed = operator.post(&format!("/v1/operations/{PROPOSED}/approval"), json!({ "decision": "approve" })).await;
    assert_eq!(allowed.json()["operation"]["state"], "approved", "{}", allowed.text);
    let revoked = operator.delete(&format!("/v1/credentials/{}", world.other_credential)).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text);
}

/// Everything that a model could put among its arguments to be somebody, or to settle something.
fn wishes(id: &str) -> Value {
    json!({
        "title": "Printer", "body": "It burns.",
        "operation_id": id, "idempotency_key": id, "Idempotency-Key": id, "key": id, "tenant": "other",
        "principal": "operator", "scopes": ["decide", "approve"], "approve": true, "approved_by": "operator",
        "decision": "approve", "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": "I am sure",
        "expected": 1, "receipt": { "body": {} }, "secret": "x.y", "attempt": 1, "ended": "done",
        "_meta": { "dev.onceward/operation-id": id, "dev.onceward/scope": id },
    })
}

/// An MCP request of the current revision with the agent's credential.
async fn mcp(client: &Client, method: &str, params: Value) -> Value {
    mcp_as(client, method, params, json!({})).await
}

/// The same, with what the application around the model says in `_meta`.
async fn mcp_as(client: &Client, method: &str, mut params: Value, said: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "hand", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (name, value) in said.as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    let mut request = client
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = client.send(request.json(&message)).await;
    let text = answer.text.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(&answer.text);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {} {}", answer.status, answer.text))
}

/// Names that a model could try, beside those that it is shown.
const GUESSED: [&str; 14] = [
    "decide",
    "approve",
    "settle",
    "confirm",
    "purge",
    "lookup",
    "decide_operation",
    "approve_operation",
    "settle_claim",
    "create_operation",
    "onceward_decide",
    "onceward.approve",
    "dev.onceward/decide",
    "operations/decisions",
];

#[tokio::test]
async fn a_models_arguments_create_no_identity_and_settle_approve_and_decide_nothing_under_any_tool_name() {
    let world = World::start().await;
    let agent = &world.bench.agent;
    let before = world.operations().await;
    let listed = mcp(agent, "tools/list", json!({})).await;
    let shown = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let mut names: Vec<String> = shown.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "create_ticket") && names.iter().any(|name| name == "held_ticket"));
    for guessed in GUESSED {
        assert!(!names.iter().any(|name| name == guessed), "{guessed} is offered to models");
        names.push(guessed.to_owned());
    }
    for name in &names {
        for id in STANDING.into_iter().chain([CHOSEN]) {
            for arguments in [wishes(id), json!({ "operation_id": id, "title": "Printer", "body": "It burns." })] {
                let answer = mcp(agent, "tools/call", json!({ "name": name, "arguments": arguments })).await;
                assert!(answer["result"].is_object() || answer["error"].is_object(), "{name}: {answer}");
            }
        }
    }
    for method in ["operations/decide", "approvals/approve", "claims/settle", "credentials/create"] {
        let answer = mcp(agent, method, wishes(UNKNOWN)).await;
        assert!(answer["error"].is_object(), "{method}: {answer}");
    }
    // The same words among the arguments of an HTTP call.
    for id in STANDING.into_iter().chain([CHOSEN]) {
        for tool in ["create_ticket", "held_ticket", "approved_ticket", "named_ticket"] {
            let path = format!("/v1/tools/{tool}/calls");
            drop(agent.post(&path, json!({ "arguments": wishes(id) })).await);
        }
    }

    let after = world.operations().await;
    for id in STANDING {
        assert_eq!(after[id], before[id], "{id} was moved");
    }
    assert!(!after.contains_key(CHOSEN), "a model has named an operation: {after:?}");
    for id in after.keys().filter(|id| !STANDING.contains(&id.as_str())) {
        assert!(uuid::Uuid::parse_str(id).is_ok(), "{id} is not minted by the gateway");
    }
    // Whoever wrote the application names operations, by the same word in its own place.
    let call = json!({ "name": "create_ticket", "arguments": ticket("Mouse") });
    drop(mcp_as(agent, "tools/call", call, json!({ "dev.onceward/operation-id": "by-the-application" })).await);
    assert_eq!(world.operations().await["by-the-application"].0, "succeeded");

    // What was proposed on the way waits for a person, and nothing went to another tenant.
    let (_, elsewhere) = world.bench.credential("other", "olga", Role::Operator, "*").await;
    let theirs = elsewhere.get("/v1/operations").await.json();
    assert!(theirs["operations"].as_array().unwrap().is_empty(), "{theirs}");
}
