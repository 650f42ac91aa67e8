//! Notices to the operator's own systems: signed, repeated until they are taken, and in nobody's way.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, StatusCode};
use onceward_destinations::notice::NoticeTarget;
use onceward_destinations::secrets::SecretSource;
use onceward_gateway::limits::Limits;
use onceward_gateway::notify::{Event, Notify, Pace};
use onceward_gateway::serve::{Gateway, Running};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::bench::{Bench, gateway_of, ticket, until};

const KEY: [u8; 32] = [7; 32];

/// A secret as it stands in an environment.
struct Given;

impl SecretSource for Given {
    fn variable(&self, _name: &str) -> Option<String> {
        Some(format!("whsec_{}", STANDARD.encode(KEY)))
    }

    fn file(&self, _path: &Path) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// A notice as it arrived.
#[derive(Clone, Debug)]
struct Got {
    id: String,
    body: Value,
    text: String,
}

/// What the receiver does with the next notices: an answer each, and 204 after that; a pause without end is `None`.
type Script = VecDeque<Option<StatusCode>>;

#[derive(Clone, Default)]
struct Receiver {
    got: Arc<Mutex<Vec<Got>>>,
    script: Arc<Mutex<Script>>,
}

impl Receiver {
    async fn start(script: impl IntoIterator<Item = Option<StatusCode>>) -> (Self, SocketAddr) {
        let receiver = Self { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Self::default() };
        let router = Router::new().route("/hook", post(Self::take)).with_state(receiver.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (receiver, address)
    }

    /// Refuses what is not signed as it must be, so that nothing unsigned is ever counted.
    async fn take(State(receiver): State<Self>, headers: HeaderMap, body: Bytes) -> StatusCode {
        let header = |name: &str| headers[name].to_str().unwrap().to_owned();
        let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
        let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
        mac.update(format!("{id}.{at}.").as_bytes());
        mac.update(&body);
        if header("webhook-signature") != format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())) {
            return StatusCode::UNAUTHORIZED;
        }
        let text = String::from_utf8(body.to_vec()).unwrap();
        let got = Got { id, body: serde_json::from_str(&text).unwrap(), text };
        receiver.got.lock().unwrap().push(got);
        let next = receiver.script.lock().unwrap().pop_front();
        match next {
            Some(Some(status)) => status,
            Some(None) => std::future::pending().await,
            None => StatusCode::NO_CONTENT,
        }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// The notices of this type that came so far.
    fn of(&self, event: Event) -> Vec<Got> {
        self.got().into_iter().filter(|got| got.body["type"] == event.name()).collect()
    }
}

fn notify(to: SocketAddr, again: Duration) -> Notify {
    let target = NoticeTarget::new(&format!("http://{to}/hook"), "env:SECRET", Path::new("."), &Given).unwrap();
    let pace = Pace { every: Duration::from_millis(30), settling: Duration::from_millis(50), again };
    Notify { target, events: Event::ALL.to_vec(), pace }
}

async fn bench(to: SocketAddr, again: Duration) -> Bench {
    Bench::with_gateway(Limits::default(), |gateway| Gateway { notify: Some(notify(to, again)), ..gateway }).await
}

async fn call(bench: &Bench, tool: &str, title: &str) -> Value {
    bench.agent.post(&format!("/v1/tools/{tool}/calls"), json!({ "arguments": ticket(title) })).await.json()
}

#[tokio::test]
async fn a_person_is_told_once_that_something_waits_is_unknown_or_is_contradicted() {
    let (receiver, to) = Receiver::start([]).await;
    let bench = bench(to, Duration::from_millis(50)).await;
    let waits = call(&bench, "each_ticket", "Printer").await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "lose_reply_after_commit" })).await;
    let lost = call(&bench, "held_ticket", "Scanner").await;
    assert_eq!(lost["outcome"], "unknown", "{lost}");
    until("the two notices", async || (receiver.got().len() >= 2).then_some(())).await;
    let approval = &receiver.of(Event::ApprovalRequested)[0].body["data"];
    assert_eq!((&approval["operation_id"], &approval["reason"]), (&waits["operation_id"], &json!("tool_policy")));
    assert_eq!((&approval["tenant"], &approval["principal"]), (&json!("acme"), &json!("agent")));
    let unknown = &receiver.of(Event::OperationUnknown)[0].body["data"];
    assert_eq!((&unknown["operation_id"], &unknown["reason"]), (&lost["operation_id"], &json!("reply_lost")));

    // An application reports two effects of one run.
    let claimed =
        bench.agent.post("/v1/claims", json!({ "tool": "own", "operation_id": "c-1", "arguments": {} })).await;
    let (secret, attempt) = (claimed.json()["secret"].clone(), claimed.json()["attempt"].clone());
    let holder = json!({ "attempt": attempt, "secret": secret });
    assert_eq!(bench.agent.post("/v1/claims/c-1/dispatching", holder.clone()).await.status, 200);
    let settled = |effect: &str| json!({ "attempt": attempt, "secret": secret, "ended": "done", "effect_id": effect });
    for effect in ["E-1", "E-2"] {
        assert_eq!(bench.agent.post("/v1/claims/c-1/settlement", settled(effect)).await.status, 200);
    }
    until("the notice of the contradiction", async || receiver.of(Event::OperationDisagreement).pop()).await;
    let told = receiver.of(Event::OperationDisagreement);
    assert_eq!(told[0].body["data"]["operation_id"], "c-1");
    assert_eq!(receiver.got().len(), 3, "each once: {:#?}", receiver.got());
    for got in receiver.got() {
        assert!(!got.text.contains("It burns."), "the arguments stay here: {}", got.text);
        assert!(got.id.starts_with("notice_"), "{}", got.id);
    }
}

#[tokio::test]
async fn a_notice_is_sent_again_under_its_id_until_it_is_taken_and_after_a_restart_once_more() {
    let refused = [Some(StatusCode::SERVICE_UNAVAILABLE), Some(StatusCode::BAD_REQUEST), Some(StatusCode::FOUND)];
    let (receiver, to) = Receiver::start(refused).await;
    let pause = Duration::from_millis(40);
    let bench = bench(to, pause).await;
    let waits = call(&bench, "each_ticket", "Printer").await;
    until("the notice, four times", async || (receiver.got().len() == 4).then_some(())).await;

    let ledger = bench.ledger();
    let Bench { gateway, sandbox, operator, .. } = bench;
    drop(operator);
    gateway.stop().await;
    let tools = Bench::tools("", &sandbox);
    let gateway = gateway_of(ledger, tools, Limits::default());
    let running: Running = Gateway { notify: Some(notify(to, pause)), ..gateway }.start().await.unwrap();
    until("the notice of the next gateway", async || (receiver.got().len() == 5).then_some(())).await;
    let got = receiver.got();
    assert!(got.iter().all(|one| one.id == got[0].id && one.text == got[0].text), "{got:#?}");
    assert_eq!(got[0].body["data"]["operation_id"], waits["operation_id"]);
    running.stop().await;
}

#[tokio::test]
async fn a_receiver_that_never_answers_holds_nothing_up_and_no_end_either() {
    let (receiver, to) = Receiver::start([None, None, None]).await;
    let bench = bench(to, Duration::from_millis(40)).await;
    call(&bench, "each_ticket", "Printer").await;
    until("the notice that is not answered", async || (!receiver.got().is_empty()).then_some(())).await;
    for n in 0..20 {
        let told = bench.agent.call("held_ticket", &format!("t-{n}"), ticket("Scanner")).await;
        told.is(200, "executed");
    }
    let stopped = tokio::time::timeout(Duration::from_secs(5), bench.gateway.stop()).await;
    assert!(stopped.is_ok(), "it waits for no receiver");
}
