//! The sandbox, asked over real sockets by a client that sees every byte, and counted by its effects.

mod families;
mod faults;
mod keys;
mod process;
mod resources;
mod stripe;

use std::net::SocketAddr;
use std::time::Duration;

use onceward_lab::sandbox::{Faults, Running, Sandbox, SandboxConfig, SandboxContract};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(20);

/// Between two looks at something that must happen.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A sandbox on a free port, with a file that goes when the test does.
struct TestSandbox {
    running: Running,
    _folder: TempDir,
}

impl TestSandbox {
    async fn start(contract: SandboxContract) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let running = Sandbox::start(SandboxConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: folder.path().join("sandbox.db"),
            contract,
            faults: Faults::none(),
        })
        .await
        .expect("the sandbox starts");
        Self { running, _folder: folder }
    }

    async fn send(&self, ask: Ask) -> Reply {
        ask.send(self.running.address()).await
    }

    async fn get(&self, path: &str) -> Value {
        let reply = self.send(Ask::get(path)).await;
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// Pulls one of the auditor's levers.
    async fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        let reply = self.send(Ask::new(method, path).json(&body)).await;
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text());
        reply.json()
    }

    async fn advance_clock(&self, ms: u64) {
        self.admin("POST", "/admin/clock", json!({ "advance_ms": ms })).await;
    }

    /// How many effects there really are.
    async fn effects(&self, resource: &str) -> i64 {
        self.get(&format!("/admin/effects?resource={resource}")).await["count"].as_i64().expect("a count")
    }

    /// Looks at a report of the auditor until it is as wanted, or the deadline has passed.
    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let report = self.get(path).await;
                if wanted(&report) {
                    return report;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("{path} never became as wanted"))
    }
}

/// A request, written byte by byte.
#[derive(Clone)]
struct Ask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// A ticket with this title.
    fn ticket(title: &str) -> Self {
        Self::new("POST", "/tickets").json(&json!({ "title": title, "body": "The printer is on fire." }))
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    fn fault(self, fault: &str) -> Self {
        self.header("Sandbox-Fault", fault)
    }

    fn account(self, account: &str) -> Self {
        self.header("Authorization", &format!("Bearer sandbox-{account}"))
    }

    fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string().into_bytes())
    }

    fn body(mut self, kind: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.header("Content-Type", kind)
    }

    /// Sends the request, and leaves reading the answer to the caller.
    async fn begin(&self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.method,
            self.path,
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let bytes = [head.as_bytes(), &self.body].concat();
        stream.write_all(&bytes).await.expect("sent");
        stream
    }

    async fn send(self, address: SocketAddr) -> Reply {
        let mut stream = self.begin(address).await;
        let mut bytes = Vec::new();
        tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes))
            .await
            .expect("the connection ends")
            .expect("it ends without a reset, so that no byte is lost to us");
        Reply { bytes }
    }
}

/// Every byte that came back.
#[derive(Debug)]
struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn status(&self) -> u16 {
        let text = self.text();
        text.strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no status line in {text:?}"))
    }

    fn header(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (head, _) = text.split_once("\r\n\r\n")?;
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    fn body(&self) -> String {
        self.text().split_once("\r\n\r\n").expect("whole headers").1.to_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body()).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    fn id(&self) -> String {
        self.json()["id"].as_str().unwrap_or_else(|| panic!("no id in {}", self.text())).to_owned()
    }

    fn is_replay(&self) -> bool {
        self.header("Idempotent-Replayed").as_deref() == Some("true")
    }
}
