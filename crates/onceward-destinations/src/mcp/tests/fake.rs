//! An MCP server over plain sockets: a library's server cannot be made to lose a reply.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::offered;

/// A request that reached the server.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) verb: String,
    pub(super) head: String,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// A result of the request.
    Result(Value),
    /// An error of the request.
    Error(i64, &'static str),
    /// A status with headers and a body as they stand.
    Status(u16, Vec<(&'static str, String)>, String),
    /// A stream with these bytes, and then its end.
    Stream(String),
    /// The connection is closed.
    Close,
    /// Nothing follows while the server lives.
    Hang,
}

type Script = Arc<dyn Fn(&Asked, usize) -> Answer + Send + Sync>;

#[derive(Default)]
struct Seen {
    asked: Vec<Asked>,
    held: Vec<TcpStream>,
    stopping: bool,
}

/// A server that answers by a script: the request, and how many of its method came before it.
pub(super) struct FakeServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    pub(super) fn start(script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, script): (Arc<Mutex<Seen>>, Script) = (Arc::default(), Arc::new(script));
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.lock().unwrap().stopping {
                    return;
                }
                let (shared, script) = (Arc::clone(&shared), Arc::clone(&script));
                std::thread::spawn(move || serve(stream.unwrap(), &shared, &script));
            }
        });
        Self { address, seen, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn asked(&self, method: &str) -> Vec<Asked> {
        self.seen.lock().unwrap().asked.iter().filter(|asked| asked.method() == method).cloned().collect()
    }

    /// How many calls of a tool reached it.
    pub(super) fn calls(&self) -> usize {
        self.asked("tools/call").len()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.seen.lock().unwrap().stopping = true;
        drop(TcpStream::connect(self.address));
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<Seen>, script: &Script) {
    let Some(asked) = read(&mut stream) else { return };
    let before = {
        let mut seen = shared.lock().unwrap();
        let before = seen.asked.iter().filter(|one| one.verb == asked.verb && one.method() == asked.method()).count();
        seen.asked.push(asked.clone());
        before
    };
    let id = &asked.body["id"];
    let text = match script(&asked, before) {
        Answer::Result(result) => http(200, &[], &json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()),
        Answer::Error(code, message) => {
            let error = json!({ "code": code, "message": message });
            http(200, &[], &json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
        }
        Answer::Status(status, headers, body) => http(status, &headers, &body.replace("ID", &id.to_string())),
        Answer::Stream(events) => {
            let events = events.replace("ID", &id.to_string());
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
        }
        Answer::Close => return,
        Answer::Hang => {
            shared.lock().unwrap().held.push(stream);
            return;
        }
    };
    let _ = stream.write_all(text.as_bytes());
}

fn http(status: u16, headers: &[(&'static str, String)], body: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            });
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                let verb = head.split(' ').next().unwrap_or_default().to_owned();
                let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
                return Some(Asked { verb, head, body });
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// What a server of the session era answers to everything but calls: `session` as it gives it.
pub(super) fn legacy(asked: &Asked, session: Option<&str>) -> Answer {
    match (asked.verb.as_str(), asked.method()) {
        ("GET" | "DELETE", _) => Answer::Status(405, Vec::new(), String::new()),
        (_, "initialize") => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                                 "serverInfo": { "name": "fake", "version": "1" } });
            let headers = session.map(|session| ("mcp-session-id", session.to_owned())).into_iter().collect();
            Answer::Status(
                200,
                headers,
                json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result }).to_string(),
            )
        }
        (_, "notifications/initialized") => Answer::Status(202, Vec::new(), String::new()),
        (_, "tools/list") => Answer::Result(json!({ "tools": offered() })),
        (_, "ping") => Answer::Result(json!({})),
        _ => Answer::Error(-32601, "Method not found"),
    }
}

/// What a server of the stateless era answers to everything but calls.
pub(super) fn modern(asked: &Asked) -> Answer {
    match asked.method() {
        "server/discover" => Answer::Result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0,
            "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake", "version": "2" } },
        })),
        "tools/list" => Answer::Result(json!({ "resultType": "complete", "tools": offered() })),
        _ => Answer::Error(-32601, "Method not found"),
    }
}

/// The result of a call that did it.
pub(super) fn done() -> Value {
    json!({ "content": [{ "type": "text", "text": "{\"id\":\"T-1\"}" }], "x-own": [1.5, null] })
}
