//! The person at the host is asked whether a held call is meant as a second one: in both eras, and never beside an unknown.

use onceward_gateway::mcp::Elicitation;
use onceward_gateway::serve::Gateway;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::pipe::Host;
use super::{Ask, Client, DEADLINE, OURS, World, envelope, http};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const QUESTION: &str = "make_it_once_more";

async fn world() -> World {
    World::start_with(|gateway| Gateway { elicitation: Elicitation::On, ..gateway }).await
}

fn printer() -> Value {
    json!({ "title": "Printer", "body": "It burns." })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { QUESTION: true } })
}

/// A call of a client that can show its person a form.
fn call(client: &Client) -> Ask {
    client.call("create_ticket", printer()).meta(CAPABILITIES, json!({ "elicitation": {} }))
}

/// The same call with an answer to the question.
fn answered(client: &Client, arguments: Value, state: &Value, answer: Value) -> Ask {
    let params = json!({
        "name": "create_ticket", "arguments": arguments, "requestState": state, "inputResponses": { QUESTION: answer },
    });
    client.ask("tools/call", params).meta(CAPABILITIES, json!({ "elicitation": {} }))
}

/// What the client is asked, and what it has to send back.
async fn asked(client: &Client) -> Value {
    let result = call(client).result().await;
    assert_eq!(result["resultType"], "input_required", "{result}");
    let question = &result["inputRequests"][QUESTION];
    assert_eq!(question["method"], "elicitation/create", "{result}");
    assert!(question["params"]["message"].as_str().expect("words").contains("create_ticket"), "{result}");
    assert_eq!(question["params"]["requestedSchema"]["properties"][QUESTION]["default"], false);
    result["requestState"].clone()
}

#[tokio::test]
async fn a_person_who_wants_a_second_one_gets_one_however_often_the_answer_is_sent() {
    let world = world().await;
    let client = world.modern();
    call(&client).result().await;
    let state = asked(&client).await;
    assert_eq!(world.count("tickets").await, 1, "asking sends nothing");
    let second = answered(&client, printer(), &state, yes()).result().await;
    assert_eq!(
        (&second["isError"], &second["_meta"][OURS]["outcome"]),
        (&json!(false), &json!("executed")),
        "{second}"
    );
    for _ in 0..3 {
        let again = answered(&client, printer(), &state, yes()).result().await;
        assert_eq!(again["_meta"][OURS]["outcome"], "replayed", "{again}");
        assert_eq!(again["_meta"][OURS]["operation_id"], second["_meta"][OURS]["operation_id"]);
    }
    assert_eq!(world.count("tickets").await, 2);
    // The next equal call is held again, and asked about anew.
    assert_ne!(asked(&client).await, state);
}

#[tokio::test]
async fn whatever_is_no_persons_yes_to_this_very_call_leaves_it_held() {
    let world = world().await;
    let client = world.modern();
    call(&client).result().await;
    let state = asked(&client).await;
    let text = state.as_str().expect("text");
    let (about, seal) = text.split_once('.').expect("sealed");
    let other_call = json!({ "title": "Scanner", "body": "It burns." });
    client.call("create_ticket", other_call.clone()).result().await;
    let held = [
        answered(&client, printer(), &state, json!({ "action": "decline" })),
        answered(&client, printer(), &state, json!({ "action": "accept", "content": { QUESTION: false } })),
        answered(&client, printer(), &json!("made up"), yes()),
        answered(&client, printer(), &json!(format!("{about}.{}", seal.chars().rev().collect::<String>())), yes()),
        answered(&client, other_call, &state, yes()),
        // A client that can ask nobody is not asked.
        client.call("create_ticket", printer()),
        client.call("create_ticket", printer()).meta(CAPABILITIES, json!({ "elicitation": { "url": {} } })),
    ];
    for ask in held {
        let params = ask.params.clone();
        let result = ask.result().await;
        assert_eq!(envelope(&result)["outcome"], "possible_duplicate", "{params:?}: {result}");
    }
    assert_eq!(world.count("tickets").await, 2);
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_unknown_or_where_it_is_switched_off() {
    let world = world().await;
    let client = world.modern();
    call(&client).result().await;
    let state = asked(&client).await;
    world.fault("/tickets", "lose_reply_after_commit").await;
    let lost = client.call("create_ticket", json!({ "title": "Plotter", "body": "It burns." })).result().await;
    assert_eq!(envelope(&lost)["outcome"], "unknown");
    let result = call(&client).result().await;
    assert_eq!(envelope(&result)["outcome"], "possible_duplicate", "in other words it may be the same wish: {result}");
    let late = answered(&client, printer(), &state, yes()).result().await;
    assert_eq!(envelope(&late)["outcome"], "possible_duplicate", "a yes from before releases nothing: {late}");
    assert_eq!(world.count("tickets").await, 2);

    let off = World::start().await;
    call(&off.modern()).result().await;
    assert_eq!(envelope(&call(&off.modern()).result().await)["outcome"], "possible_duplicate");
    assert_eq!(off.count("tickets").await, 1);
}

/// A client of the session era over HTTP: asked in the stream of its request, it answers in a message of its own.
#[tokio::test]
async fn a_client_of_the_session_era_is_asked_while_its_call_is_under_way() {
    let world = world().await;
    let client = world.client("2025-11-25");
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "hand", "version": "1" },
    });
    let greeting = client.ask("initialize", hello).send().await;
    let session = greeting.head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let session = session.expect("what it can be asked travels in the id");
    let call = || client.call("create_ticket", printer()).header("Mcp-Session-Id", &session);
    call().result().await;
    for (answer, outcome, tickets) in [
        (json!({ "action": "cancel" }), "possible_duplicate", 1),
        (yes(), "executed", 2),
        (json!({ "action": "accept", "content": {} }), "possible_duplicate", 2),
    ] {
        let (address, headers, body) = call().parts();
        let mut head = format!("POST /mcp HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.expect("sent");
        let mut text = String::new();
        let question = tokio::time::timeout(DEADLINE, async {
            loop {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.expect("readable");
                assert_ne!(read, 0, "it ended without a question: {text}");
                text.push_str(std::str::from_utf8(&bytes[..read]).expect("text"));
                let data =
                    text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
                if let Some(question) = data.into_iter().find(|message| message["method"] == "elicitation/create") {
                    return question;
                }
            }
        });
        let question = question.await.expect("asked in time");
        let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        let (_, headers, _) = call().parts();
        let taken = http(address, "POST", "/mcp", &headers, reply.to_string().as_bytes()).await;
        assert_eq!(taken.status, 202, "{}", taken.text);
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut text)).await.expect("in time").expect("text");
        let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().expect("a result");
        let result = serde_json::from_str::<Value>(last).expect("JSON")["result"].clone();
        assert_eq!(result["_meta"][OURS]["outcome"], outcome, "{result}");
        assert_eq!(world.count("tickets").await, tickets);
    }
}

#[tokio::test]
async fn a_host_at_the_other_end_of_a_pipe_is_asked_there() {
    let world = world().await;
    let mut host = Host::attach(&world);
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "hand", "version": "1" },
    });
    host.ask(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello })).await;
    host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
    let params = json!({ "name": "create_ticket", "arguments": printer() });
    let call = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    host.ask(call(1)).await;
    let question = host.ask(call(2)).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let told = host.ask(json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes() })).await;
    assert_eq!((&told["id"], &told["result"]["_meta"][OURS]["outcome"]), (&json!(2), &json!("executed")), "{told}");
    assert_eq!(world.count("tickets").await, 2);
}
