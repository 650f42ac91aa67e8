//! One configured MCP server: the connection to it, kept up in the background, and the two ways to use it.
//!
//! A **read** may be sent again, and is, when a connection breaks. A **write** goes out once: whatever is seen of it is handed
//! back, and no failure of a session, a stream or a revision is a reason to send it anew.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use onceward_core::evidence::ChildProcess;
use onceward_core::key::OperationKey;
use onceward_core::time::Timestamp;
use onceward_ledger::clock::Clock;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::children::Children;
use super::connect::supervise;
use super::era::{Conversation, Era, Greeting};
use super::headers;
use super::link::{Exchanged, Late, Lost, MayBeSent, Outgoing, Watcher};
use super::message::{self, Reply, RpcError};
use super::stdio::{Program, StdioLink};
use super::streamable::{Address, HttpLink};
use crate::limits::{MCP_NOTICES_AHEAD, MCP_READ_WITHIN, READ_ATTEMPTS_MAX, READ_PAUSE, SESSION_FRESH};

/// How a server is reached.
#[derive(Debug)]
pub(crate) enum Transport {
    Stdio(Program),
    Http(Box<Address>),
}

/// A configured MCP server. Dropping it ends the connection, and the child that it may have.
#[derive(Debug)]
pub struct McpUpstream {
    shared: Arc<Shared>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

/// What the connection's background work and its users share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) transport: Transport,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) children: Children,
    pub(crate) state: watch::Sender<State>,
    pub(crate) tools: watch::Sender<Option<Arc<Vec<Value>>>>,
    /// The server says that its tools are others now.
    pub(crate) relist: Notify,
    /// How often it could not be connected, or was lost.
    pub(crate) failures: watch::Sender<u32>,
    notices: broadcast::Sender<Notice>,
    ids: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// Whether there is a connection.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// There is none, and why.
    Down(Arc<str>),
    /// There is this one.
    Up(Arc<Connection>),
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) conversation: Conversation,
    pub(crate) greeting: Greeting,
    /// It is of no more use: the next one is made.
    pub(crate) stale: Notify,
    answered_at: Mutex<Duration>,
}

/// What a connection goes over.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Stdio(StdioLink),
    /// Every request finds its own connection at the address.
    Http,
}

/// Something that a server told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it is about, where the protocol says.
    pub about: About,
    /// Its method, such as `notifications/progress`.
    pub method: String,
    /// Its parameters, as they came.
    pub params: Value,
}

/// What a notice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The server, or a request that the protocol does not name.
    Server,
    /// The call that carries out this operation.
    Operation(OperationKey),
}

/// How a server stands, for `/readyz` and for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UpstreamStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How many tools it offered when it was last asked; none when it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
}

/// Why a read of a server has no result. Nothing was written anywhere.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpstreamError {
    /// There is no connection.
    #[error("the MCP server {name} is not connected: {why}")]
    NotConnected {
        /// Its name in the configuration.
        name: String,
        /// Why.
        why: String,
    },
    /// No answer came in time.
    #[error("the MCP server did not answer")]
    NoAnswer,
    /// What came is no answer, or larger than is read.
    #[error("the MCP server's answer cannot be read, or is too large")]
    Unreadable,
    /// It answered with an HTTP status and nothing else.
    #[error("the MCP server answered with status {0}")]
    Status(u16),
    /// It answered with an error of the protocol.
    #[error("the MCP server answered: {0}")]
    Rpc(#[from] RpcError),
    /// A tool is called through the ledger, and not as a read.
    #[error("a tool is not called as a read of its server")]
    NotARead,
}

/// A call of a tool that is sent once.
pub(crate) struct WriteCall<'a> {
    pub(crate) operation: &'a OperationKey,
    pub(crate) claimed_at: Timestamp,
    pub(crate) params: Value,
    pub(crate) headers: HeaderMap,
    pub(crate) time_to_send: &'a (dyn Fn() -> Option<Duration> + Send + Sync),
    pub(crate) may_be_sent: MayBeSent,
    pub(crate) within: Duration,
    /// Who hears of a reply that comes after that.
    pub(crate) late: Option<Late>,
}

impl McpUpstream {
    pub(crate) fn new(name: &str, transport: Transport, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            transport,
            clock,
            children: Children::default(),
            state: watch::Sender::new(State::Down("it was not connected yet".into())),
            tools: watch::Sender::new(None),
            relist: Notify::new(),
            failures: watch::Sender::new(0),
            notices: broadcast::Sender::new(MCP_NOTICES_AHEAD),
            ids: AtomicU64::new(1),
        });
        Self { shared, supervisor: Mutex::new(None) }
    }

    /// Begins to connect, in the background of the current runtime, and keeps at it. A second time changes nothing.
    pub(crate) fn connect(&self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        if supervisor.is_none() {
            *supervisor = Some(tokio::spawn(supervise(Arc::clone(&self.shared))));
        }
    }

    /// Ends the connection, and the child that it may have. What was under way is lost.
    pub(crate) fn disconnect(&self) {
        let supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(supervisor) = supervisor {
            supervisor.abort();
            self.shared.state.send_replace(State::Down("the gateway is stopping".into()));
        }
    }

    /// Waits until the server has said which tools it has, or has failed: twice, because some older servers end at the first
    /// question of the newer revision.
    pub(crate) async fn settled(&self) {
        let (mut tools, mut failures) = (self.shared.tools.subscribe(), self.shared.failures.subscribe());
        // Senders live as long as we do, so that neither wait ends before its time.
        tokio::select! {
            _ = tools.wait_for(Option::is_some) => {}
            _ = failures.wait_for(|failures| *failures >= 2) => {}
        }
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the server said of itself at the beginning of the present connection.
    #[must_use]
    pub fn greeting(&self) -> Option<Greeting> {
        match &*self.shared.state.borrow() {
            State::Up(connection) => Some(connection.greeting.clone()),
            State::Down(_) => None,
        }
    }

    /// The tools as the server defines them, each definition as it came; empty while it was never asked.
    #[must_use]
    pub fn tools(&self) -> Arc<Vec<Value>> {
        self.shared.tools.borrow().clone().unwrap_or_default()
    }

    /// The definitions of the tools, whenever they change; `None` until the server was asked.
    pub(crate) fn offered(&self) -> watch::Receiver<Option<Arc<Vec<Value>>>> {
        self.shared.tools.subscribe()
    }

    /// What the server tells from now on: changed lists, changed resources, its log, and the progress of calls that carry out
    /// an operation.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> UpstreamStatus {
        let problem = match &*self.shared.state.borrow() {
            State::Up(_) => None,
            State::Down(why) => Some(why.to_string()),
        };
        UpstreamStatus {
            name: self.shared.name.clone(),
            connected: problem.is_none(),
            problem,
            tools: self.shared.tools.borrow().as_ref().map(|tools| tools.len()),
        }
    }

    /// Asks the server something that changes nothing, and gives its result as it was written. It may be sent more than once.
    /// `watcher` is told what the server says meanwhile.
    ///
    /// # Errors
    /// [`UpstreamError`]. Nothing was written anywhere.
    pub async fn request(
        &self,
        method: &str,
        params: Value,
        within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        match method {
            "tools/call" => Err(UpstreamError::NotARead),
            _ => self.shared.read(method, params, HeaderMap::new(), within, watcher).await,
        }
    }

    /// Calls a tool that only reads.
    pub(crate) async fn call_reading(
        &self,
        params: Value,
        headers: HeaderMap,
        within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        self.shared.read("tools/call", params, headers, within, watcher).await
    }

    /// Calls a tool once.
    pub(crate) async fn call_once(&self, call: WriteCall<'_>) -> Exchanged {
        self.shared.write(call).await
    }

    /// Whether the child that may have got an attempt is gone.
    pub(crate) fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        match &self.shared.transport {
            Transport::Stdio(_) => self.shared.children.of_attempt(claimed_at),
            Transport::Http(_) => ChildProcess::NotOne,
        }
    }
}

impl Drop for McpUpstream {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.get_mut().unwrap_or_else(PoisonError::into_inner) {
            supervisor.abort();
        }
    }
}

impl Shared {
    /// A connection, as soon as there is one.
    async fn connected(&self, within: Duration) -> Result<Arc<Connection>, UpstreamError> {
        let mut state = self.state.subscribe();
        let up = state.wait_for(|state| matches!(state, State::Up(_)));
        match tokio::time::timeout(within, up).await {
            Ok(Ok(state)) => match &*state {
                State::Up(connection) => Ok(Arc::clone(connection)),
                State::Down(why) => Err(self.not_connected(why)),
            },
            Ok(Err(_)) | Err(_) => match &*self.state.borrow() {
                State::Up(connection) => Ok(Arc::clone(connection)),
                State::Down(why) => Err(self.not_connected(why)),
            },
        }
    }

    fn not_connected(&self, why: &str) -> UpstreamError {
        UpstreamError::NotConnected { name: self.name.clone(), why: why.to_owned() }
    }

    async fn read(
        &self,
        method: &str,
        params: Value,
        headers: HeaderMap,
        within: Duration,
        watcher: Option<Watcher>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        let reading = async {
            let mut pause = READ_PAUSE;
            for sent in 1.. {
                let connection = self.connected(within).await?;
                let outgoing = Request {
                    method,
                    params: params.clone(),
                    headers: headers.clone(),
                    watcher: watcher.clone(),
                    late: None,
                };
                let exchanged = self.exchange(&connection, outgoing, Box::new(|| true), within).await;
                let error = match exchanged {
                    Exchanged::Replied(Reply::Result(result)) => return Ok(result),
                    Exchanged::Replied(Reply::Error(error)) => return Err(error.into()),
                    Exchanged::Lost(Lost::Unreadable) => return Err(UpstreamError::Unreadable),
                    Exchanged::Status { status, .. } if status < 500 => return Err(UpstreamError::Status(status)),
                    Exchanged::Status { status, .. } => UpstreamError::Status(status),
                    Exchanged::NoConnection | Exchanged::TooLate => self.not_connected("it could not be reached"),
                    Exchanged::Lost(Lost::WriteFailed | Lost::TimedOut | Lost::Ended | Lost::SessionGone) => {
                        UpstreamError::NoAnswer
                    }
                };
                if sent >= READ_ATTEMPTS_MAX {
                    return Err(error);
                }
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(UpstreamError::NoAnswer)
        };
        tokio::time::timeout(within, reading).await.unwrap_or(Err(UpstreamError::NoAnswer))
    }

    async fn write(&self, call: WriteCall<'_>) -> Exchanged {
        let WriteCall { operation, claimed_at, params, headers, time_to_send, may_be_sent, within, late } = call;
        let connection = loop {
            let Some(patience) = time_to_send() else { return Exchanged::TooLate };
            let Ok(connection) = self.connected(patience).await else { return Exchanged::NoConnection };
            if self.still_knows_us(&connection, time_to_send).await {
                break connection;
            }
        };
        let (notices, about) = (self.notices.clone(), About::Operation(operation.clone()));
        let watcher: Watcher = Arc::new(move |method: &str, params: &Value| {
            // Nobody may be listening, and that is nobody's loss.
            let _ = notices.send(Notice { about: about.clone(), method: method.to_owned(), params: params.clone() });
        });
        let request = Request { method: "tools/call", params, headers, watcher: Some(watcher), late };
        if time_to_send().is_none() {
            return Exchanged::TooLate;
        }
        if let Wire::Stdio(link) = &connection.wire {
            self.children.handed(claimed_at, link.started_at);
        }
        self.exchange(&connection, request, may_be_sent, within).await
    }

    /// Asks a session that was silent for a while whether it is still known, before a write goes into it. A ping does
    /// nothing, so it can be lost without a doubt about anything.
    async fn still_knows_us(
        &self,
        connection: &Connection,
        time_to_send: &(dyn Fn() -> Option<Duration> + Send + Sync),
    ) -> bool {
        let silent = {
            let answered_at = connection.answered_at.lock().unwrap_or_else(PoisonError::into_inner);
            self.clock.uptime().saturating_sub(*answered_at)
        };
        if connection.conversation.session.is_none() || silent < SESSION_FRESH {
            return true;
        }
        let within = MCP_READ_WITHIN.min(time_to_send().unwrap_or_default());
        match self.exchange(connection, Request::plain("ping", json!({})), Box::new(|| true), within).await {
            Exchanged::Lost(Lost::SessionGone) => false,
            // Whatever else it answers is no word about the session; the call itself will tell.
            Exchanged::Replied(_)
            | Exchanged::TooLate
            | Exchanged::NoConnection
            | Exchanged::Status { .. }
            | Exchanged::Lost(Lost::WriteFailed | Lost::TimedOut | Lost::Ended | Lost::Unreadable) => true,
        }
    }

    /// Sends one request over a connection, once.
    pub(crate) async fn exchange(
        &self,
        connection: &Connection,
        request: Request<'_>,
        may_be_sent: MayBeSent,
        within: Duration,
    ) -> Exchanged {
        let Request { method, params, mut headers, watcher, late } = request;
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut params = connection.conversation.params(params);
        if watcher.is_some() {
            ask_for_progress(&mut params, id);
        }
        match connection.conversation.era {
            Era::Modern => headers.extend(headers::standard(method, &params)),
            Era::Legacy { .. } => headers = headers::without_params(headers),
        }
        let message = message::request(id, method, &params);
        let outgoing = Outgoing { id, message: &message, headers, may_be_sent, within, watcher, late };
        let exchanged = match (&connection.wire, &self.transport) {
            (Wire::Stdio(link), _) => link.exchange(outgoing).await,
            (Wire::Http, Transport::Http(address)) => link(address, &connection.conversation).exchange(outgoing).await,
            (Wire::Http, Transport::Stdio(_)) => Exchanged::NoConnection,
        };
        self.note(connection, &exchanged);
        exchanged
    }

    fn note(&self, connection: &Connection, exchanged: &Exchanged) {
        match exchanged {
            Exchanged::Replied(_) => {
                let mut answered_at = connection.answered_at.lock().unwrap_or_else(PoisonError::into_inner);
                *answered_at = self.clock.uptime();
            }
            Exchanged::Lost(Lost::SessionGone) => {
                self.give_up(connection, "the server does not know the session any more")
            }
            Exchanged::TooLate | Exchanged::NoConnection | Exchanged::Status { .. } | Exchanged::Lost(_) => {}
        }
    }

    /// Nobody uses this connection from now on, and the next one is made.
    pub(crate) fn give_up(&self, connection: &Connection, why: &str) {
        self.state.send_if_modified(|state| match state {
            State::Up(current) if std::ptr::eq(&raw const **current, connection) => {
                *state = State::Down(why.into());
                true
            }
            State::Up(_) | State::Down(_) => false,
        });
        connection.stale.notify_one();
    }

    /// Passes on what the server tells by itself.
    pub(crate) fn notice(&self, method: &str, params: &Value) {
        if method == "notifications/tools/list_changed" {
            self.relist.notify_one();
        }
        // Nobody knows whose call it is about, so no caller is told.
        if method == "notifications/message" {
            tracing::info!(server = self.name, level = %params["level"], "{}", params["data"]);
        }
        let _ = self.notices.send(Notice { about: About::Server, method: method.to_owned(), params: params.clone() });
    }
}

/// A request before its connection.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Value,
    pub(crate) headers: HeaderMap,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) late: Option<Late>,
}

impl<'a> Request<'a> {
    pub(crate) fn plain(method: &'a str, params: Value) -> Self {
        Self { method, params, headers: HeaderMap::new(), watcher: None, late: None }
    }
}

impl Connection {
    pub(crate) fn new(wire: Wire, conversation: Conversation, greeting: Greeting, now: Duration) -> Self {
        Self { wire, conversation, greeting, stale: Notify::new(), answered_at: Mutex::new(now) }
    }
}

pub(crate) fn link<'a>(address: &'a Address, conversation: &'a Conversation) -> HttpLink<'a> {
    HttpLink { address, version: Some(conversation.version()), session: conversation.session.as_ref() }
}

/// Puts our id as the token of progress: a token of a caller's own could be another caller's as well.
fn ask_for_progress(params: &mut Value, id: u64) {
    let Some(params) = params.as_object_mut() else { return };
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert("progressToken".to_owned(), id.into());
    }
}
