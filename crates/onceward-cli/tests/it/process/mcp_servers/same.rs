//! The same through the gateway as directly: tools, results, resources, prompts, completions, progress, errors.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use super::super::token_on_file;
use super::*;

/// A server itself, asked line by line.
struct Direct {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Direct {
    fn start(command: &[String], variables: &Value) -> Self {
        let variables = variables.as_object().expect("variables").iter();
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .envs(variables.map(|(name, value)| (name, value.as_str().expect("text"))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let (to, from) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let mut direct = Self { child, to, from: BufReader::new(from) };
        let client = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        direct.ask("initialize", &hello);
        direct.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        direct
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.to, "{message}").expect("written");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).expect("a line"), 0, "the server ended");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message.get("id") == Some(&json!(1)) && message.get("method").is_none() {
                return message;
            }
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is asked of each server, in JSON-RPC.
fn requests(name: &str, servers: &Servers) -> Vec<(&'static str, Value)> {
    let call = |tool: &str, arguments: Value| ("tools/call", json!({ "name": tool, "arguments": arguments }));
    let note = format!("{}/note.txt", servers.files);
    match name {
        "everything" => vec![
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({ "uri": "demo://resource/static/document/features.md" })),
            ("resources/read", json!({ "uri": "demo://nothing/there" })),
            ("prompts/list", json!({})),
            ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Basel" } })),
            ("prompts/get", json!({ "name": "nobodys-prompt" })),
            (
                "completion/complete",
                json!({
                    "ref": { "type": "ref/prompt", "name": "completable-prompt" },
                    "argument": { "name": "department", "value": "E" }
                }),
            ),
            call("echo", json!({ "message": "Grüße, 世界" })),
            call("get-structured-content", json!({ "location": "Chicago" })),
            call("get-tiny-image", json!({})),
            call("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
            call("get-resource-links", json!({ "count": 3 })),
            call("get-resource-reference", json!({ "resourceType": "Text", "resourceId": 1 })),
            call("echo", json!({ "message": 7 })),
        ],
        "files" => vec![
            call("read_text_file", json!({ "path": note })),
            call("read_text_file", json!({ "path": "/etc/passwd" })),
            call("list_directory", json!({ "path": servers.files })),
            call("directory_tree", json!({ "path": servers.files })),
            call("list_allowed_directories", json!({})),
        ],
        "memory" => vec![
            call("read_graph", json!({})),
            call("search_nodes", json!({ "query": "nobody" })),
            call("open_nodes", json!({ "names": ["nobody"] })),
        ],
        other => panic!("no requests for {other}"),
    }
}

#[tokio::test]
async fn every_answer_of_the_reference_servers_is_the_same_through_the_gateway_field_by_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let before = Before::start(folder, &servers.sections());
    let mut tools = before.ask("tools/list", &json!({})).await["result"].clone();
    without_ours(&mut tools);
    let mut listed = 0;
    for (name, command, variables) in servers.all() {
        let mut direct = Direct::start(&command, &variables);
        for tool in direct.ask("tools/list", &json!({}))["result"]["tools"].as_array().expect("tools") {
            let through =
                tools["tools"].as_array().expect("tools").iter().find(|through| through["name"] == tool["name"]);
            assert_eq!(through, Some(tool), "{name}");
            listed += 1;
        }
        for (method, params) in requests(name, &servers) {
            let alone = direct.ask(method, &params);
            let mut through = before.ask(method, &params).await;
            if let Some(result) = through.get_mut("result") {
                without_ours(result);
                only_of(&alone["result"], result);
            }
            assert_eq!(through, alone, "{name}: {method} {params}");
        }
    }
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(listed), "nothing else is offered");
}

/// Lists of several servers are one list: what another server has is taken out of it, by name.
fn only_of(alone: &Value, through: &mut Value) {
    for list in ["resources", "resourceTemplates", "prompts"] {
        let (Some(alone), Some(through)) =
            (alone[list].as_array(), through.get_mut(list).and_then(Value::as_array_mut))
        else {
            continue;
        };
        through.retain(|item| alone.iter().any(|own| own["name"] == item["name"]));
    }
}

/// What a plan may ask of each server with the Python clients.
fn plan(name: &str, servers: &Servers) -> Value {
    match name {
        "everything" => json!([
            { "ask": "tools" },
            { "ask": "resources" },
            { "ask": "templates" },
            { "ask": "resource", "uri": "demo://resource/static/document/features.md" },
            { "ask": "prompts" },
            { "ask": "prompt", "name": "args-prompt", "arguments": { "city": "Basel" } },
            { "ask": "prompt", "name": "nobodys-prompt" },
            { "ask": "completion", "prompt": "completable-prompt", "name": "department", "value": "E" },
            { "tool": "get-structured-content", "arguments": { "location": "New York" } },
            { "tool": "get-annotated-message", "arguments": { "messageType": "success", "includeImage": true } },
            { "tool": "trigger-long-running-operation", "arguments": { "duration": 1, "steps": 4 }, "progress": true },
        ]),
        "files" => json!([
            { "ask": "tools" },
            { "tool": "read_text_file", "arguments": { "path": format!("{}/note.txt", servers.files) } },
            { "tool": "read_text_file", "arguments": { "path": "/etc/passwd" } },
        ]),
        "memory" => json!([
            { "ask": "tools" },
            { "tool": "read_graph", "arguments": {} },
        ]),
        other => panic!("no plan for {other}"),
    }
}

#[test]
fn both_generations_of_the_python_client_see_the_same_through_the_gateway() {
    std::thread::scope(|scope| {
        for (at, name) in ["everything", "files", "memory"].into_iter().enumerate() {
            scope.spawn(move || python_clients_see_the_same(at, name));
        }
    });
}

/// One server behind a gateway, so that its lists are the whole of what is listed.
fn python_clients_see_the_same(at: usize, name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let (_, command, variables) = &servers.all()[at];
    let section = servers
        .sections()
        .split("[mcp.")
        .find(|section| section.starts_with(name))
        .map(|section| format!("[mcp.{section}"));
    let before = Before::start(folder, &section.expect("its section"));
    let plan = plan(name, &servers);
    let gateway = [("GATEWAY", before.gateway.url.clone()), ("TOKEN", before.agent.clone())];
    for environment in ["mcp1", "mcp2"] {
        let directly = [("COMMAND", json!(command).to_string()), ("COMMAND_ENV", variables.to_string())];
        the_same(environment, &plan, &python(environment, &directly, &plan), &python(environment, &gateway, &plan));
    }
}

/// What a client sees directly, and what it sees through the gateway in the newest revision that it knows.
fn the_same(environment: &str, plan: &Value, alone: &Value, through: &Value) {
    let revision = if environment == "mcp2" { "2026-07-28" } else { "2025-11-25" };
    assert_eq!(through["version"], revision);
    let pairs = alone["seen"].as_array().expect("answers").iter().zip(through["seen"].as_array().expect("answers"));
    for ((alone, through), asked) in pairs.zip(plan.as_array().expect("a plan")) {
        let mut through = through.clone();
        without_ours(&mut through["result"]);
        // How long the gateway's own list may be kept is the gateway's to say.
        if asked["ask"] == "tools" && environment == "mcp2" {
            through["result"]["ttlMs"] = alone["result"]["ttlMs"].clone();
        }
        if through["result"].is_null() {
            through.as_object_mut().expect("an answer").remove("result");
        }
        assert_eq!(&through, alone, "{environment}: {asked}");
    }
}

#[test]
fn a_host_that_starts_the_gateway_over_a_pipe_sees_the_same_of_the_server_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let (_, command, _) = &servers.all()[0];
    let section = format!("[mcp.everything]\ncommand = {}\nreads = {READS}\n", toml_list(command));
    let configuration = folder.path().join("onceward.toml");
    std::fs::write(&configuration, format!("version = 1\nledger = \"sqlite:ledger.db\"\n\n{section}"))
        .expect("written");
    let token = token_on_file(folder.path(), "agent", "agent");
    let gateway = [env!("CARGO_BIN_EXE_onceward"), "serve", "--stdio", "--listen", "127.0.0.1:0", "--config"];
    let gateway =
        gateway.into_iter().map(str::to_owned).chain([configuration.display().to_string()]).collect::<Vec<_>>();
    let plan = plan("everything", &servers);
    for environment in ["mcp1", "mcp2"] {
        let alone = python(environment, &[("COMMAND", json!(command).to_string())], &plan);
        let through = python(environment, &[("COMMAND", json!(gateway).to_string()), ("TOKEN", token.clone())], &plan);
        the_same(environment, &plan, &alone, &through);
    }
}

/// Offered only to a client that can be asked for its roots, as the inspector can and the gateway cannot.
const FOR_ROOTS: &str = "get-roots-list";

#[test]
fn the_inspector_sees_the_same_through_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let note = format!("path={}/note.txt", servers.files);
    let everything = vec![
        vec!["--method", "tools/list"],
        vec!["--method", "tools/call", "--tool-name", "get-structured-content", "--tool-arg", "location=Chicago"],
        vec!["--method", "resources/read", "--uri", "demo://resource/static/document/features.md"],
        vec!["--method", "prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Basel"],
    ];
    let files = vec![
        vec!["--method", "tools/list"],
        vec!["--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", &note],
    ];
    let memory = vec![vec!["--method", "tools/list"], vec!["--method", "tools/call", "--tool-name", "read_graph"]];
    let asked = [("everything", everything), ("files", files), ("memory", memory)];
    let commands = servers.all();
    let before = Before::start(folder, &servers.sections());
    let header = format!("Authorization: Bearer {}", before.agent);
    let url = format!("{}/mcp", before.gateway.url);
    std::thread::scope(|scope| {
        for ((name, requests), (_, command, variables)) in asked.iter().zip(&commands) {
            let (header, url) = (&header, &url);
            scope.spawn(move || {
                for request in requests {
                    let mut target = command.clone();
                    for (name, value) in variables.as_object().expect("variables") {
                        target.extend(["-e".to_owned(), format!("{name}={}", value.as_str().expect("text"))]);
                    }
                    let mut alone = inspector(&target, request);
                    let mut through = inspector(
                        &[url.clone(), "--transport".into(), "http".into()],
                        &[&request[..], &["--header", header]].concat(),
                    );
                    without_ours(&mut through);
                    if request.contains(&"tools/list") {
                        keep(&mut alone, |tool| tool != FOR_ROOTS);
                        let own: Vec<String> = names(&alone);
                        keep(&mut through, |tool| own.iter().any(|name| name == tool));
                    }
                    assert_eq!(through, alone, "{name}: {request:?}");
                }
            });
        }
    });
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn keep(list: &mut Value, kept: impl Fn(&str) -> bool) {
    list["tools"].as_array_mut().expect("tools").retain(|tool| tool["name"].as_str().is_some_and(&kept));
}
