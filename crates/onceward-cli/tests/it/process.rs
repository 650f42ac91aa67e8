//! Starts the binary that cargo has just built, and asks it.

mod check;
mod conformance;
mod cookbook;
mod decide;
mod demo;
mod families;
mod fingerprints;
mod frameworks;
mod init;
mod kill;
mod lab;
mod mcp;
mod mcp_peers;
mod mcp_servers;
mod packages;
mod postgres;
mod python_clients;
mod restore;
mod serve;
mod stdio;
mod stripe;
mod token;
mod tools;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use onceward_destinations::client::{ClientSettings, client, install_tls_provider};
use onceward_ledger::clock::SystemClock;
use serde_json::{Value, json};

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(20);

/// The binary in this folder, without what the developer's own shell says about gateways.
fn onceward(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    command.current_dir(folder).stdin(Stdio::null());
    for name in ["ONCEWARD_URL", "ONCEWARD_TOKEN", "ONCEWARD_TOKEN_FILE", "ONCEWARD_LOG"] {
        command.env_remove(name);
    }
    command
}

/// What a finished command said.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Said {
    Said::of(&onceward(folder).args(arguments).output().expect("it runs"))
}

/// A server process; killed when the test ends.
struct Server {
    child: Child,
    url: String,
    /// Everything that it printed until it was ready and silent.
    welcome: String,
}

impl Server {
    /// Starts a server and reads what it prints, up to the line that begins with `last`.
    fn start(folder: &Path, arguments: &[&str], last: &str) -> Self {
        let mut child = onceward(folder)
            .args(arguments)
            .env("ONCEWARD_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut welcome = String::new();
        for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
            let line = line.expect("text");
            welcome.push_str(&line);
            welcome.push('\n');
            if line.starts_with(last) {
                break;
            }
        }
        let url = welcome
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .unwrap_or_else(|| panic!("it did not announce itself: {welcome:?}"))
            .to_owned();
        Self { child, url, welcome }
    }

    fn sandbox(folder: &Path) -> Self {
        Self::start(folder, &["sandbox", "--listen", "127.0.0.1:0", "--db", "sandbox.db"], "The sandbox listens on")
    }

    fn gateway(folder: &Path) -> Self {
        Self::start(
            folder,
            &["serve", "--listen", "127.0.0.1:0", "--config", "onceward.toml"],
            "The gateway listens on",
        )
    }

    /// A word of the welcome that begins like this.
    fn word(&self, beginning: &str) -> String {
        self.welcome
            .split(|c: char| c.is_whitespace() || c == '\'')
            .find(|word| word.starts_with(beginning))
            .unwrap_or_else(|| panic!("no {beginning}… in {}", self.welcome))
            .to_owned()
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// SIGTERM, as a service manager sends it.
    fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("gone").code().expect("it ended by itself")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway's configuration before this sandbox, which promises nothing.
fn configuration(sandbox: &str) -> String {
    format!(
        r#"version = 1
ledger = "sqlite:ledger.db"

[destination.helpdesk]
url = "{sandbox}"
contract = "none"

[destination.helpdesk.tool.create_ticket]
description = "Opens a helpdesk ticket."
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
effect_id = "/id"
schema = {{ type = "object", required = ["title", "body"] }}
"#
    )
}

const TICKET: &str = r#"{"title":"Printer on fire","body":"It burns."}"#;

/// Makes a token on the file of a gateway that does not run.
fn token_on_file(folder: &Path, principal: &str, role: &str) -> String {
    let made =
        run(folder, &["token", "create", "--ledger", "ledger.db", "--principal", principal, "--role", role, "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    made.json()["token"].as_str().expect("a token").to_owned()
}

/// A command to a gateway, as whoever holds this token.
fn ask(folder: &Path, gateway: &Server, token: &str, arguments: &[&str]) -> Said {
    let output = onceward(folder)
        .args(arguments)
        .env("ONCEWARD_URL", &gateway.url)
        .env("ONCEWARD_TOKEN", token)
        .output()
        .expect("it runs");
    Said::of(&output)
}

fn call(folder: &Path, gateway: &Server, token: &str, id: &str) -> Said {
    let arguments = ["call", "create_ticket", "--operation-id", id, "--arguments", TICKET, "--json"];
    ask(folder, gateway, token, &arguments)
}

/// A client for what the command line does not do.
fn http() -> reqwest::Client {
    install_tls_provider();
    client(ClientSettings { connect_timeout: DEADLINE, idle_connections: 1, clock: Arc::new(SystemClock) })
        .expect("a client")
}

async fn get(url: String) -> Value {
    http().get(url).send().await.expect("answered").json().await.expect("JSON")
}

/// Lets this go wrong with the next request to make a ticket.
async fn break_next_ticket(sandbox: &str, fault: &str) {
    let rules = json!([{ "match": { "path": "/tickets" }, "fault": fault }]);
    let answer = http().post(format!("{sandbox}/admin/faults")).json(&rules).send().await.expect("answered");
    assert!(answer.status().is_success());
}

/// How many tickets there are, and how many requests tried to make one.
async fn tickets(sandbox: &str) -> (i64, i64) {
    let audit = get(format!("{sandbox}/admin/effects?resource=tickets")).await;
    (audit["count"].as_i64().expect("a count"), audit["requests"].as_i64().expect("a count"))
}
