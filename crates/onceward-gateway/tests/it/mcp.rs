//! The MCP front, asked by a client written by hand: every byte that a test sends, it says.

mod answers;
mod elicit;
mod eras;
mod gate;
mod identity;
mod ids;
mod pipe;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use onceward_core::key::TenantId;
use onceward_destinations::catalog::{Catalog, Environment, Surroundings};
use onceward_destinations::secrets::MachineSecrets;
use onceward_gateway::limits::Limits;
use onceward_gateway::mcp::Reach;
use onceward_gateway::serve::{Gateway, Running};
use onceward_lab::sandbox::{self, Faults, Sandbox, SandboxConfig, SandboxContract};
use onceward_ledger::Intervals;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(30);

/// Where the gateway puts its own words into a result.
const OURS: &str = "dev.onceward/operation";

/// Where an application puts the operation id into a request.
const OPERATION_ID: &str = "dev.onceward/operation-id";

const MODERN: &str = "2026-07-28";

const TOOLS: &str = r#"
[destination.plain]
url = "SANDBOX"
contract = "none"

[destination.plain.tool.create_ticket]
description = "Opens a ticket."
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"
without_identity = "hold"

[destination.plain.tool.create_ticket.schema]
type = "object"
properties = { title = { type = "string" }, body = { type = "string" }, customer = { type = "string" } }
required = ["title", "body"]
additionalProperties = false

[destination.plain.tool.create_order]
description = "Places an order."
request = { method = "POST", path = "/orders", body = "arguments" }
effect_id = "/id"
without_identity = "refuse"
schema = { type = "object", properties = { item = { type = "string" }, quantity = { type = "integer" } }, required = ["item", "quantity"] }

[destination.plain.tool.charge_payment]
description = "Charges a payment."
request = { method = "POST", path = "/payments", body = "arguments" }
effect_id = "/id"
refused_if = { status = [402] }
schema = { type = "object", properties = { amount = { type = "integer" }, currency = { type = "string" } } }

[destination.plain.tool.get_ticket]
read = true
description = "Reads a ticket."
request = { method = "GET", path = "/tickets/{/id}" }
schema = { type = "object", properties = { id = { type = "string" } }, required = ["id"] }

[destination.keyed]
url = "SANDBOX"

[destination.keyed.contract]
version = 1
[destination.keyed.contract.key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
sdk_may_invent_key = false
[destination.keyed.contract.same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "stored" }
[destination.keyed.contract.in_flight]
behaviour = "rejects"
statuses = [409]
[destination.keyed.contract.horizon]
kind = "indefinite"
[destination.keyed.contract.execution]
refused_before_effect = [400, 401, 403, 404, 413, 415, 422]
effect_atomic_with_key = true
[destination.keyed.contract.provenance]
confidence = "operated"

[destination.keyed.tool.send_mail]
description = "Sends a mail."
request = { method = "POST", path = "/mail", body = "arguments" }
effect_id = "/id"

[destination.keyed.tool.send_mail.schema]
type = "object"
properties = { to = { type = "string" }, subject = { type = "string" }, body = { type = "string" } }
required = ["to", "subject", "body"]
"#;

/// A gateway in front of a sandbox, with an agent's token.
struct World {
    sandbox: sandbox::Running,
    gateway: Running,
    token: String,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        Self::start_with(|gateway| gateway).await
    }

    /// With a gateway that is set up otherwise.
    async fn start_with(set_up: impl FnOnce(Gateway) -> Gateway) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let sandbox = Sandbox::start(SandboxConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: folder.path().join("sandbox.db"),
            contract: SandboxContract::default(),
            faults: Faults::none(),
        })
        .await
        .expect("the sandbox starts");
        let gateway = Gateway {
            ledger: folder.path().join("onceward.db").into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tenant: TenantId::parse("acme").ok(),
            catalog: catalog(&sandbox.base_url()),
            limits: Limits::default(),
            reach: Reach::default(),
            intervals: Intervals::default(),
            metrics: onceward_gateway::metrics::Access::default(),
            notify: None,
            elicitation: onceward_gateway::mcp::Elicitation::Off,
        };
        let gateway = set_up(gateway).start().await.expect("the gateway starts");
        let token = gateway.first_tokens.as_ref().expect("an empty ledger gets tokens").agent.reveal().to_owned();
        Self { sandbox, gateway, token, _folder: folder }
    }

    /// A client of the current protocol revision.
    fn modern(&self) -> Client {
        self.client(MODERN)
    }

    fn client(&self, version: &'static str) -> Client {
        Client { address: self.gateway.address, token: Some(self.token.clone()), version }
    }

    /// Lets the next requests to a path go wrong.
    async fn fault(&self, path: &str, fault: &str) {
        let rules = json!([{ "match": { "path": path, "nth": 1 }, "fault": fault }]);
        let reply = http(self.sandbox.address(), "POST", "/admin/faults", &[], rules.to_string().as_bytes()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    /// What really happened, by the auditor.
    async fn effects(&self, resource: &str) -> Value {
        let path = format!("/admin/effects?resource={resource}");
        http(self.sandbox.address(), "GET", &path, &[], b"").await.json()
    }

    async fn count(&self, resource: &str) -> i64 {
        self.effects(resource).await["count"].as_i64().expect("a count")
    }
}

fn catalog(sandbox: &str) -> Catalog {
    let surroundings = Surroundings {
        file: "test",
        base_dir: Path::new("."),
        environment: Environment::Dev,
        secrets: &MachineSecrets,
    };
    Catalog::from_toml(&TOOLS.replace("SANDBOX", sandbox), &surroundings).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Who asks.
#[derive(Clone)]
struct Client {
    address: SocketAddr,
    token: Option<String>,
    version: &'static str,
}

impl Client {
    /// A request that is not sent yet.
    fn ask(&self, method: &str, params: Value) -> Ask {
        static NEXT: AtomicI64 = AtomicI64::new(1000);
        let params = params.as_object().cloned().expect("an object");
        let id = NEXT.fetch_add(1, Ordering::Relaxed).into();
        Ask { client: self.clone(), method: method.to_owned(), params, id, meta: Map::new(), headers: Vec::new() }
    }

    fn call(&self, tool: &str, arguments: Value) -> Ask {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn ticket(&self, title: &str) -> Ask {
        self.call("create_ticket", json!({ "title": title, "body": "It burns." }))
    }

    async fn status(&self, id: &str) -> Value {
        self.call("check_operation_status", json!({ "operation_id": id })).result().await
    }
}

struct Ask {
    client: Client,
    method: String,
    params: Map<String, Value>,
    id: Value,
    meta: Map<String, Value>,
    headers: Vec<(String, String)>,
}

impl Ask {
    /// Named by the application.
    fn operation(self, id: &str) -> Self {
        self.meta(OPERATION_ID, id.into())
    }

    fn meta(mut self, name: &str, value: Value) -> Self {
        self.meta.insert(name.to_owned(), value);
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn id(mut self, id: impl Into<Value>) -> Self {
        self.id = id.into();
        self
    }

    fn parts(mut self) -> (SocketAddr, Vec<(String, String)>, String) {
        let Client { address, token, version } = self.client;
        let mut headers = vec![
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ];
        headers.extend(token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        if self.method != "initialize" {
            headers.push(("MCP-Protocol-Version".to_owned(), version.to_owned()));
        }
        if version == MODERN {
            headers.push(("Mcp-Method".to_owned(), self.method.clone()));
            if let Some(name) = self.params.get("name").and_then(Value::as_str) {
                headers.push(("Mcp-Name".to_owned(), name.to_owned()));
            }
            for (name, value) in [
                ("protocolVersion", json!(MODERN)),
                ("clientInfo", json!({ "name": "hand", "version": "1" })),
                ("clientCapabilities", json!({})),
            ] {
                self.meta.entry(format!("io.modelcontextprotocol/{name}")).or_insert(value);
            }
        }
        headers.append(&mut self.headers);
        if !self.meta.is_empty() {
            self.params.insert("_meta".to_owned(), self.meta.into());
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params });
        (address, headers, body.to_string())
    }

    async fn send(self) -> Reply {
        let (address, headers, body) = self.parts();
        http(address, "POST", "/mcp", &headers, body.as_bytes()).await
    }

    /// The whole JSON-RPC answer; it must be to this very request.
    async fn answer(self) -> Value {
        let id = self.id.clone();
        let reply = self.send().await;
        let message = reply.messages().pop().unwrap_or_else(|| panic!("{} without a message", reply.status));
        assert_eq!(message["id"], id, "{message}");
        message
    }

    async fn result(self) -> Value {
        let answer = self.answer().await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Sends it, hangs up after a while, and hears nothing.
    async fn give_up_after(self, patience: Duration) {
        let heard = tokio::time::timeout(patience, self.send()).await;
        assert!(
            heard.is_err(),
            "the answer was faster than the client's patience: {:?}",
            heard.map(|reply| reply.text)
        );
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The messages of an answer, whether it is one JSON text or a stream of events.
    fn messages(&self) -> Vec<Value> {
        if !self.head.to_ascii_lowercase().contains("content-type: text/event-stream") {
            return vec![self.json()];
        }
        let data = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .filter(|data| !data.is_empty());
        data.map(|data| serde_json::from_str(data).expect("a message")).collect()
    }
}

/// One request, written byte by byte. In HTTP 1.0, so that a stream of events comes without chunks.
async fn http(address: SocketAddr, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Reply {
    let mut head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name == "Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).await.expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("it ends in order");
        String::from_utf8(bytes).expect("text")
    };
    let text = tokio::time::timeout(DEADLINE, exchange).await.expect("an answer in time");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole head in {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Reply { status, head: head.to_owned(), text: body.to_owned() }
}

/// A result that is no success: the envelope, after a look at how it is told.
fn envelope(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    let envelope = &result["structuredContent"];
    let text = result["content"][0]["text"].as_str().expect("a text");
    let (sentence, json) = text.split_once('\n').expect("a sentence and the JSON");
    assert_eq!(sentence, envelope["message"].as_str().expect("a message"), "{text}");
    assert_eq!(&serde_json::from_str::<Value>(json).expect("JSON"), envelope);
    envelope
}
