//! Starting, stopping, and a ledger that cannot be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onceward_gateway::check::check;
use onceward_gateway::limits::Limits;
use onceward_gateway::quickstart;
use onceward_gateway::serve::StartError;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::bench::{Bench, Client, catalog, gateway_of, ticket, until};

#[tokio::test]
async fn a_gateway_that_starts_again_has_every_receipt_and_makes_no_new_tokens() {
    let bench = Bench::start().await;
    let token = bench.gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    let first = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let ledger_id = bench.agent.get("/readyz").await.json()["ledger"]["id"].clone();
    let (ledger, tools) = (bench.ledger(), Bench::tools("", &bench.sandbox));
    let Bench { gateway, sandbox, folder, .. } = bench;
    gateway.stop().await;
    let again = gateway_of(ledger, tools, Limits::default()).start().await.unwrap();
    assert!(again.first_tokens.is_none());
    let agent = Client::to(again.address, Some(&token));
    let told = agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    assert_eq!(told["receipt"], first["receipt"]);
    assert_eq!(agent.get("/readyz").await.json()["ledger"]["id"], ledger_id);
    drop((sandbox, folder));
}

/// A definition that became stricter since is not what an earlier operation was made with.
#[tokio::test]
async fn a_stricter_schema_turns_no_repetition_into_a_refusal() {
    let bench = Bench::start().await;
    let token = bench.gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    bench.agent.call("named_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let stricter = catalog(&format!(
        "[destination.strict]\nurl = \"http://{}\"\ncontract = \"none\"\n\
         [destination.strict.tool.named_ticket]\nversion = \"2\"\n\
         schema = {{ type = \"object\", required = [\"customer\"] }}\n\
         request = {{ method = \"POST\", path = \"/tickets\", body = \"arguments\" }}\n",
        bench.sandbox.address()
    ));
    let ledger = bench.ledger();
    let Bench { gateway, sandbox, folder, .. } = bench;
    gateway.stop().await;
    let again = gateway_of(ledger, stricter, Limits::default()).start().await.unwrap();
    let agent = Client::to(again.address, Some(&token));
    agent.call("named_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
    agent.call("named_ticket", "t-1", ticket("Scanner")).await.is(422, "conflict");
    agent.call("named_ticket", "t-2", ticket("Printer")).await.is(422, "invalid_arguments");
    drop((sandbox, folder));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_ledger_does_not_start() {
    let bench = Bench::start().await;
    let second = gateway_of(bench.ledger(), Bench::tools("", &bench.sandbox), Limits::default()).start().await;
    assert!(matches!(second, Err(StartError::Locked(_))), "{second:?}");
}

#[tokio::test]
async fn a_gateway_that_stops_lets_what_is_under_way_be_answered() {
    let bench = Bench::start().await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "delay_after_commit;ms=800" })).await;
    let agent = bench.agent.clone();
    let call = tokio::spawn(async move { agent.call("create_ticket", "t-1", ticket("Printer")).await });
    until("the attempt", async || (bench.writes().await == 1).then_some(())).await;
    bench.gateway.stop().await;
    call.await.unwrap().is(200, "executed");
}

#[tokio::test]
async fn a_gateway_has_not_stopped_before_the_last_request_is_answered() {
    let arrived = Arc::new(Notify::new());
    let answer = Arc::new(Notify::new());
    let (arrives, may_answer) = (Arc::clone(&arrived), Arc::clone(&answer));
    let slow = axum::Router::new().route(
        "/slow",
        axum::routing::get(move || async move {
            arrives.notify_one();
            may_answer.notified().await;
            "done"
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!(
        "[destination.slow]\nurl = \"http://{}\"\ncontract = \"none\"\n[destination.slow.tool.look]\nread = true\n\
         request = {{ method = \"GET\", path = \"/slow\" }}\n",
        listener.local_addr().unwrap()
    );
    tokio::spawn(async move { axum::serve(listener, slow).await });
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("onceward.db");
    let gateway = gateway_of(ledger, catalog(&text), Limits::default()).start().await.unwrap();
    let (address, token) = (gateway.address, gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned());
    let agent = Client::to(address, Some(&token));
    let call = tokio::spawn(async move { agent.post("/v1/tools/look/calls", json!({})).await });
    arrived.notified().await;
    let released = AtomicBool::new(false);
    let stopping = async {
        gateway.stop().await;
        assert!(released.load(Ordering::SeqCst), "it stopped while a request was under way");
    };
    let releasing = async {
        until("no new connections", async || TcpStream::connect(address).await.err()).await;
        released.store(true, Ordering::SeqCst);
        answer.notify_one();
    };
    tokio::join!(stopping, releasing);
    assert_eq!(call.await.unwrap().json()["answer"]["body_text"], "done");
}

/// R078
#[tokio::test]
async fn while_the_ledger_is_held_by_another_writer_nothing_is_sent_and_the_same_call_goes_on_later() {
    let bench = Bench::start().await;
    let other = onceward_sqlite::rusqlite::Connection::open(bench.folder.path().join("onceward.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await;
    assert_eq!(busy.status, 503, "{}", busy.text);
    assert_eq!(busy.json()["dispatched"], "no", "{}", busy.text);
    assert_eq!(bench.writes().await, 0);
    other.execute_batch("ROLLBACK").unwrap();
    let told = until("the ledger is free", async || {
        let told = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await;
        (told.status != 503).then_some(told)
    })
    .await;
    told.is(200, "executed");
    assert_eq!(bench.tickets().await, 1);
}

#[tokio::test]
async fn while_the_ledger_is_held_an_observed_call_is_sent_without_a_record() {
    let bench = Bench::with_text("observe = true", Limits::default(), |gateway| gateway).await;
    let other = onceward_sqlite::rusqlite::Connection::open(bench.folder.path().join("onceward.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = bench.agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    assert!(told["message"].as_str().unwrap().contains("no record"), "{told:#}");
    assert_eq!((told.get("operation_id"), bench.tickets().await), (None, 1));
    other.execute_batch("ROLLBACK").unwrap();
    bench.agent.get("/v1/operations/t-1").await.is(404, "not_found");
}

#[tokio::test]
async fn health_readiness_and_the_description_need_no_credential() {
    let bench = Bench::start().await;
    let nobody = bench.nobody();
    assert_eq!(nobody.get("/healthz").await.json()["live"], true);
    let ready = nobody.get("/readyz").await;
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (200, Some(true)));
    assert_eq!(nobody.get("/openapi.json").await.json()["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_quickstart_shows_its_tokens_at_the_first_start_only_and_its_first_call_works() {
    let bench = Bench::start().await;
    let folder = tempfile::tempdir().unwrap();
    let sandbox = format!("http://{}", bench.sandbox.address());
    let any_port = "127.0.0.1:0".parse().unwrap();
    let start = async || quickstart::gateway(folder.path(), any_port, &sandbox).unwrap().start().await.unwrap();
    let first = start().await;
    let text = quickstart::welcome(&first, &sandbox);
    assert!(text.contains("ow_agent_") && text.contains("ow_operator_") && text.contains("/mcp"), "{text}");
    let token = first.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    Client::to(first.address, Some(&token))
        .call("create_ticket", "ticket-1", ticket("Printer"))
        .await
        .is(200, "executed");
    first.stop().await;
    let second = start().await;
    let text = quickstart::welcome(&second, &sandbox);
    assert!(!text.contains(&token) && !text.contains("ow_operator_") && text.contains("token create"), "{text}");
    second.stop().await;
}

#[test]
fn check_names_every_mistake_or_says_what_a_lost_reply_becomes_for_each_tool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("onceward.toml");
    let whole = format!("version = 1\nledger = \"sqlite:onceward.db\"\n\n{}", quickstart::TOOLS);
    std::fs::write(&path, whole.replace("SANDBOX", "http://127.0.0.1:7080")).unwrap();
    let report = check(&path);
    let text = report.to_string();
    assert!(report.is_whole(), "{text}");
    assert!(text.contains("create_ticket") && text.contains("a lost reply"), "{text}");
    assert!(!folder.path().join("onceward.db").exists(), "a check opens nothing");
    std::fs::write(&path, whole.replace("version = 1", "version = 9").replace("SANDBOX", "ftp://x")).unwrap();
    let report = check(&path);
    let text = report.to_string();
    assert!(!report.is_whole() && text.contains(":1:") && text.contains("only http and https"), "{text}");
    let missing = check(&folder.path().join("none.toml"));
    assert!(missing.to_string().contains("cannot be read"));
}
