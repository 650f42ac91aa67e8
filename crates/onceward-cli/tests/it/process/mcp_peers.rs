//! Programs of the Node world that MCP tests start: servers, the inspector, the conformance suite. `cargo xtask test` installs them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{Server, run, token_on_file};

/// The folder with the packages.
fn home() -> PathBuf {
    let installed = std::env::var_os("ONCEWARD_NODE_MCP").map(PathBuf::from);
    let home = installed.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/node/mcp"));
    assert!(home.join("node_modules").exists(), "no packages in {}: `cargo xtask test` installs them", home.display());
    home.canonicalize().expect("a path")
}

/// A program of an installed package. The suite and the inspector want a newer Node than a machine may have, so the one that is
/// installed beside them comes first.
pub(super) fn program(name: &str) -> Command {
    let bin = home().join("node_modules/.bin");
    let mut command = Command::new(bin.join(name));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display())).stdin(Stdio::null());
    command
}

/// The command line of an MCP server over a pipe.
pub(super) fn server(name: &str, arguments: &[&str]) -> Vec<String> {
    let home = home();
    let script = home.join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"));
    let words = [home.join("node_modules/.bin/node"), script].map(|path| path.display().to_string());
    words.into_iter().chain(arguments.iter().map(|argument| (*argument).to_owned())).collect()
}

/// A script of ours that serves HTTP; killed when the test ends.
pub(super) struct Script {
    child: Child,
    pub(super) url: String,
}

impl Script {
    pub(super) fn start(name: &str, environment: &[(&str, &str)]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/node/mcp").join(name);
        let mut child = program("node")
            .arg(script)
            .env("NODE_HOME", home())
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let url = line.split_whitespace().last().unwrap_or_else(|| panic!("{name} did not announce itself")).to_owned();
        Self { child, url }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway before MCP servers, with an agent that may call all and an operator.
pub(super) struct Before {
    pub(super) folder: tempfile::TempDir,
    pub(super) gateway: Server,
    pub(super) agent: String,
    pub(super) operator: String,
    /// Agents that may call some tools only, by the patterns that they were asked for with.
    pub(super) limited: Vec<String>,
}

impl Before {
    /// `servers` are sections of the configuration.
    pub(super) fn start(folder: tempfile::TempDir, servers: &str) -> Self {
        Self::start_for(folder, servers, &[])
    }

    /// With an agent more for each pattern of tools.
    pub(super) fn start_for(folder: tempfile::TempDir, servers: &str, limited: &[&str]) -> Self {
        let configuration = format!("version = 1\nledger = \"sqlite:ledger.db\"\n\n{servers}");
        std::fs::write(folder.path().join("onceward.toml"), configuration).expect("written");
        let agent = token_on_file(folder.path(), "agent", "agent");
        let operator = token_on_file(folder.path(), "ines", "operator");
        let limited = limited.iter().map(|tools| {
            let made = [
                "token",
                "create",
                "--ledger",
                "ledger.db",
                "--role",
                "agent",
                "--json",
                "--principal",
                "limited",
                "--tools",
                tools,
            ];
            run(folder.path(), &made).json()["token"].as_str().expect("a token").to_owned()
        });
        let limited = limited.collect();
        let gateway = Server::gateway(folder.path());
        Self { folder, gateway, agent, operator, limited }
    }

    /// Sends one request of the session era, as a client does that sets its own operation ids.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Value {
        self.ask_as(&self.agent, method, params).await
    }

    /// The same as somebody else.
    pub(super) async fn ask_as(&self, token: &str, method: &str, params: &Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(token, &body).send().await.expect("answered").json().await.expect("JSON")
    }

    /// A message of the session era on its way.
    pub(super) fn post(&self, token: &str, message: &Value) -> reqwest::RequestBuilder {
        super::http()
            .post(format!("{}/mcp", self.gateway.url))
            .bearer_auth(token)
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .json(message)
    }

    /// Calls a tool under an operation id.
    pub(super) async fn call(&self, tool: &str, arguments: &Value, operation_id: &str) -> Value {
        let meta = json!({ "dev.onceward/operation-id": operation_id });
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": meta })).await;
        answer["result"].clone()
    }
}

/// A list of words as the configuration has it.
pub(super) fn toml_list(words: &[String]) -> String {
    json!(words).to_string()
}
