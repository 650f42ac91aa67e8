//! Who reaches what of a server, what a server may ask of whom, and who hears what it tells by itself.

use super::super::mcp_peers::Script;
use super::super::{DEADLINE, http};
use super::*;

fn names(answer: &Value, list: &str) -> Vec<String> {
    let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("no {list}: {answer}")).iter();
    items.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn resources_and_prompts_are_reached_by_whoever_may_call_a_tool_of_their_server_and_by_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let before = Before::start_for(folder, &servers.sections(), &["read_graph", "nothing_here"]);
    let [memory, nobody] = before.limited.as_slice() else { panic!("two tokens") };
    let uri = json!({ "uri": "demo://resource/static/document/features.md" });
    let prompt = json!({ "name": "simple-prompt" });

    assert!(before.ask("resources/read", &uri).await["result"]["contents"].is_array());
    assert!(before.ask("prompts/get", &prompt).await["result"]["messages"].is_array());

    assert_eq!(names(&before.ask_as(memory, "resources/list", &json!({})).await, "resources"), ["knowledge-graph"]);
    assert_eq!(names(&before.ask_as(memory, "prompts/list", &json!({})).await, "prompts"), [""; 0]);
    assert_eq!(names(&before.ask_as(nobody, "resources/list", &json!({})).await, "resources"), [""; 0]);
    for token in [memory, nobody] {
        for (method, params) in [("resources/read", &uri), ("prompts/get", &prompt)] {
            let refused = before.ask_as(token, method, params).await;
            assert!(refused["error"]["code"].is_i64() && refused.get("result").is_none(), "{method}: {refused}");
        }
    }
}

/// The events of a stream, as they come.
struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    fn of(response: reqwest::Response) -> Self {
        assert!(response.status().is_success(), "{response:?}");
        Self { response, text: String::new() }
    }

    /// The next message.
    async fn next(&mut self) -> Value {
        let reading = async {
            loop {
                if let Some((event, rest)) = self.text.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data:")).map(str::to_owned);
                    self.text = rest.to_owned();
                    match data {
                        Some(data) => return serde_json::from_str(&data).expect("JSON"),
                        None => continue,
                    }
                }
                let part = self.response.chunk().await.expect("readable").expect("it goes on");
                self.text.push_str(std::str::from_utf8(&part).expect("text"));
            }
        };
        tokio::time::timeout(DEADLINE, reading).await.expect("a message")
    }
}

fn fixture() -> (Script, Before) {
    let fixture = Script::start("fixture.cjs", &[]);
    let section = format!("[mcp.fixture]\nurl = \"{}\"\nreads = [\"test_*\"]\n", fixture.url);
    let before = Before::start_for(tempfile::tempdir().expect("a folder"), &section, &["*"]);
    (fixture, before)
}

const SESSION: &str = "Mcp-Session-Id";

#[tokio::test]
async fn a_question_of_a_server_is_answered_by_the_caller_it_was_put_to_and_by_nobody_else() {
    let (_fixture, before) = fixture();
    let client = json!({ "name": "t", "version": "1" });
    let hello = |capabilities: Value| {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
    };
    let greeted = before.post(&before.agent, &hello(json!({ "elicitation": {} }))).send().await.expect("answered");
    let id = greeted.headers()[SESSION].clone();
    let silent = before.post(&before.agent, &hello(json!({}))).send().await.expect("answered");
    assert_eq!(silent.headers().get(SESSION), None, "one that can be asked nothing gets no id");

    let params = json!({ "name": "test_elicitation", "arguments": { "message": "Who?" } });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    // Without the id nobody can be asked, and the server is told so.
    let refused: Value = before.post(&before.agent, &call).send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(refused["error"]["code"], -32021, "{refused}");

    let asked = before.post(&before.agent, &call).header(SESSION, &id).send().await.expect("answered");
    let mut events = Events::of(asked);
    let question = events.next().await;
    assert_eq!((&question["method"], &question["params"]["message"]), (&json!("elicitation/create"), &json!("Who?")));
    let content = json!({ "username": "ada", "email": "ada@example.test" });
    let answer =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": content } });
    let foreign = before.post(&before.limited[0], &answer).send().await.expect("answered");
    assert!(foreign.status().is_client_error(), "{foreign:?}");
    let own = before.post(&before.agent, &answer).send().await.expect("answered");
    assert_eq!(own.status(), 202);
    let result = events.next().await;
    assert_eq!(result["id"], 7);
    assert!(result["result"]["content"][0]["text"].to_string().contains("ada@example.test"), "{result}");
    // The question is closed.
    assert!(before.post(&before.agent, &answer).send().await.expect("answered").status().is_client_error());
}

#[tokio::test]
async fn a_client_of_the_session_era_that_listens_hears_that_a_list_has_changed() {
    let (_fixture, before) = fixture();
    let listening = http()
        .get(format!("{}/mcp", before.gateway.url))
        .bearer_auth(&before.agent)
        .header("Accept", "text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    let mut events = Events::of(listening.send().await.expect("answered"));
    let changed = async {
        loop {
            before.ask("tools/call", &json!({ "name": "test_trigger_prompt_change", "arguments": {} })).await;
            // sleeps: the gateway may only now have begun to listen to the server.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let told = tokio::select! {
        told = events.next() => told,
        () = changed => unreachable!("it triggers for ever"),
    };
    assert_eq!(told["method"], "notifications/prompts/list_changed", "{told}");
}
