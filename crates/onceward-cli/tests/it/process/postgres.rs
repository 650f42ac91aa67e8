//! Gateway processes that share one ledger on PostgreSQL.

mod crowd;
mod encrypted;
mod lab;
mod lost;
mod together;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onceward_destinations::client::{ClientSettings, client, install_tls_provider};
use onceward_ledger::clock::SystemClock;
use serde_json::{Value, json};

use super::{Server, get, run};

/// How long a test waits for what must happen. An owner is missed after 15 s of silence, on a machine that does other things too.
const WITHIN: Duration = Duration::from_secs(60);

/// What the ledger's outbound keys are made with, the same for every gateway.
const SECRET: &str = "5ec0de5ec0de5ec0de5ec0de5ec0de5ec0de5ec0de5ec0de5ec0de5ec0de5ec0";

/// Writes what every gateway of a test is started with: a helpdesk that promises nothing, and one that recognises its keys.
fn configure(folder: &Path, database: &str, sandbox: &str) {
    let text = format!(
        r#"version = 1
ledger = "{database}"
ledger_secret = "file:ledger.secret"

[destination.helpdesk]
url = "{sandbox}"
contract = "none"

[destination.helpdesk.tool.create_ticket]
retry = {{ attempts_max = 1 }}
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
effect_id = "/id"

[destination.keyed]
url = "{sandbox}"

[destination.keyed.contract]
version = 1
key = {{ carriers = [{{ in = "header", name = "Idempotency-Key" }}] }}
same_input = {{ behaviour = "replays_stored", saved = {{ 2xx = "stored", 500 = "stored" }} }}
in_flight = {{ behaviour = "rejects", statuses = [409] }}
horizon = {{ kind = "at_least", min = "24h", clock = "first_request" }}
execution = {{ refused_before_effect = [400, 404], effect_atomic_with_key = true }}
provenance = {{ confidence = "operated" }}

[destination.keyed.tool.keyed_ticket]
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
effect_id = "/id"
"#
    );
    std::fs::write(folder.join("onceward.toml"), text).expect("written");
    std::fs::write(folder.join("ledger.secret"), SECRET).expect("written");
}

/// Makes a token in the database itself, whoever else is using it.
fn token(folder: &Path, principal: &str, role: &str) -> String {
    let made = run(
        folder,
        &["token", "create", "--config", "onceward.toml", "--principal", principal, "--role", role, "--json"],
    );
    assert_eq!(made.code, 0, "{made:?}");
    made.json()["token"].as_str().expect("a token").to_owned()
}

/// Sends a process a signal by its name.
fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &server.child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// An agent at one gateway.
#[derive(Clone)]
struct Agent {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Agent {
    fn at(gateway: &Server, token: &str) -> Self {
        install_tls_provider();
        let settings = ClientSettings { connect_timeout: WITHIN, idle_connections: 64, clock: Arc::new(SystemClock) };
        Self { http: client(settings).expect("a client"), url: gateway.url.clone(), token: token.to_owned() }
    }

    async fn call(&self, tool: &str, id: &str) -> reqwest::Result<Value> {
        let body = json!({ "arguments": { "title": format!("Printer {id}"), "body": "It burns." } });
        let request = self.http.post(format!("{}/v1/tools/{tool}/calls", self.url)).json(&body);
        request.header("idempotency-key", id).bearer_auth(&self.token).send().await?.json().await
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.http.get(format!("{}/v1/operations/{path}", self.url)).bearer_auth(&self.token);
        request.send().await.expect("answered").json().await.expect("JSON")
    }

    async fn state(&self, id: &str) -> String {
        self.get(id).await["operation"]["state"].as_str().unwrap_or("none").to_owned()
    }
}

/// Looks again and again until there is what is looked for.
#[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WITHIN;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many tickets there are, and how many requests tried to make one.
async fn audit(sandbox: &Server) -> (i64, i64) {
    let audit = get(format!("{}/admin/effects?resource=tickets", sandbox.url)).await;
    (audit["count"].as_i64().expect("a count"), audit["requests"].as_i64().expect("a count"))
}
