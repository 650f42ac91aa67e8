//! Keeps one server connected: starts it, finds out how it is spoken to, asks for its tools, and begins anew when it is gone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::era::{self, Conversation, Discovered, Era, Greeting};
use super::link::{Exchanged, Lost, Outgoing};
use super::message::{self, Reply};
use super::stdio::{self, Gone, Program, StdioLink};
use super::streamable::{Address, Begun, HttpLink};
use super::upstream::{Connection, Request, Shared, State, Transport, Wire, link};
use crate::limits::{
    CONNECTION_STEADY, ERA_WITHIN, MCP_CONNECT_WITHIN, MCP_PAGES_MAX, MCP_READ_WITHIN, MCP_TOOLS_MAX, RECONNECT_FIRST,
    RECONNECT_MAX,
};

/// How long a stream of a server's own notices may last before it is asked for anew.
const LISTEN_WITHIN: Duration = Duration::from_secs(3600);

/// Connects, again and again, for as long as the task lives.
pub(crate) async fn supervise(shared: Arc<Shared>) {
    let (mut pause, mut first) = (RECONNECT_FIRST, First::Newer);
    loop {
        let began = shared.clock.uptime();
        let why = match &shared.transport {
            Transport::Stdio(program) => live_with_child(&shared, program, &mut first).await,
            Transport::Http(address) => live_over_http(&shared, address).await,
        };
        tracing::warn!(server = shared.name, why, "the MCP server is not connected");
        shared.state.send_replace(State::Down(why.into()));
        shared.failures.send_modify(|failures| *failures = failures.saturating_add(1));
        if shared.clock.uptime().saturating_sub(began) >= CONNECTION_STEADY {
            pause = RECONNECT_FIRST;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// A task that ends with its owner.
struct Helper<T>(JoinHandle<T>);

impl<T> Drop for Helper<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One child from its start to its end. Gives why it is over.
async fn live_with_child(shared: &Arc<Shared>, program: &Program, first: &mut First) -> String {
    let started_at = shared.clock.now();
    shared.children.started(started_at);
    let (link, running) = match stdio::start(program, started_at) {
        Ok(started) => started,
        Err(error) => {
            shared.children.ended(started_at, Gone::Surely);
            return format!("it cannot be started: {error}");
        }
    };
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let own = Arc::clone(shared);
    let serving = tokio::spawn(async move {
        running.serve(&own.name, &|method: &str, params: &Value| own.notice(method, params), ended).await
    });
    let mut serving = Helper(serving);
    let outcome = tokio::select! {
        gone = &mut serving.0 => Err(gone.unwrap_or(Gone::Perhaps)),
        why = converse(shared, greet_child(&link, *first)) => Ok(why),
    };
    let greeted = matches!(&*shared.state.borrow(), State::Up(_));
    let (why, gone) = match outcome {
        Err(gone) => ("its process ended".to_owned(), gone),
        Ok(why) => {
            drop(end);
            (why, (&mut serving.0).await.unwrap_or(Gone::Perhaps))
        }
    };
    shared.children.ended(started_at, gone);
    if !greeted {
        *first = match *first {
            First::Newer => First::Older,
            First::Older => First::Newer,
        };
    }
    why
}

/// One conversation over HTTP from its handshake to its end. Gives why it is over.
async fn live_over_http(shared: &Arc<Shared>, address: &Address) -> String {
    converse(shared, greet_over_http(address)).await
}

/// From a handshake to the end of its connection.
async fn converse(
    shared: &Arc<Shared>,
    greeting: impl Future<Output = Result<(Wire, Conversation, Greeting), String>>,
) -> String {
    let connected = async {
        let (wire, conversation, greeting) = greeting.await?;
        let connection = Arc::new(Connection::new(wire, conversation, greeting, shared.clock.uptime()));
        let tools = tools(shared, &connection).await?;
        Ok::<_, String>((connection, tools))
    };
    let (connection, tools) = match tokio::time::timeout(MCP_CONNECT_WITHIN, connected).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(why)) => return why,
        Err(_) => return format!("it did not answer within {} s", MCP_CONNECT_WITHIN.as_secs()),
    };
    tracing::info!(
        server = shared.name,
        says = %connection.greeting.server_info,
        revision = connection.conversation.version(),
        tools = tools.len(),
        "the MCP server is connected"
    );
    offer(shared, tools);
    shared.state.send_replace(State::Up(Arc::clone(&connection)));
    let _listener = Helper(tokio::spawn(listen(Arc::clone(shared), Arc::clone(&connection))));
    loop {
        tokio::select! {
            () = connection.stale.notified() => {
                return "the server did not know the session any more".to_owned();
            }
            () = shared.relist.notified() => match self::tools(shared, &connection).await {
                Ok(tools) => offer(shared, tools),
                Err(why) => tracing::warn!(server = shared.name, why, "the tools stay as they were"),
            },
        }
    }
}

fn offer(shared: &Shared, tools: Vec<Value>) {
    shared.tools.send_if_modified(|offered| {
        let changed = offered.as_deref() != Some(&tools);
        if changed {
            *offered = Some(Arc::new(tools));
        }
        changed
    });
}

/// All tools, page by page.
async fn tools(shared: &Shared, connection: &Connection) -> Result<Vec<Value>, String> {
    if !connection.greeting.can("tools") {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    let mut params = json!({});
    for _ in 0..MCP_PAGES_MAX {
        let request = Request::plain("tools/list", params);
        let exchanged = shared.exchange(connection, request, Box::new(|| true), MCP_READ_WITHIN).await;
        let page = result(exchanged).map_err(|why| format!("its tools cannot be listed: {why}"))?;
        let page: Value =
            serde_json::from_str(page.get()).map_err(|error| format!("its list of tools is broken: {error}"))?;
        tools.extend(page.get("tools").and_then(Value::as_array).into_iter().flatten().cloned());
        if tools.len() > MCP_TOOLS_MAX {
            return Err(format!("it offers more than {MCP_TOOLS_MAX} tools"));
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return Ok(tools),
        }
    }
    Err(format!("its list of tools has more than {MCP_PAGES_MAX} pages"))
}

/// Hears what the server tells by itself, where it does.
async fn listen(shared: Arc<Shared>, connection: Arc<Connection>) {
    let notices = |method: &str, params: &Value| shared.notice(method, params);
    let mut pause = RECONNECT_FIRST;
    loop {
        let heard = match (&connection.conversation.era, &shared.transport) {
            (Era::Modern, _) => listen_modern(&shared, &connection).await,
            // What a child tells comes with everything else that it writes.
            (Era::Legacy { .. }, Transport::Stdio(_)) => return,
            (Era::Legacy { .. }, Transport::Http(address)) => {
                let link = link(address, &connection.conversation);
                match link.listen(MCP_READ_WITHIN).await {
                    Some(stream) => {
                        link.follow(stream, &notices).await;
                        true
                    }
                    None => false,
                }
            }
        };
        if connection.conversation.session.is_some() {
            // A stream that ended may be the first sign of a server that was restarted.
            let ping = Request::plain("ping", json!({}));
            shared.exchange(&connection, ping, Box::new(|| true), MCP_READ_WITHIN).await;
        }
        if !heard {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// Gives whether it is worth asking again.
async fn listen_modern(shared: &Arc<Shared>, connection: &Connection) -> bool {
    let told = ["tools", "prompts", "resources"].iter().filter(|what| {
        connection.greeting.capabilities.get(**what).and_then(|can| can.get("listChanged")) == Some(&Value::Bool(true))
    });
    let notifications: serde_json::Map<String, Value> =
        told.map(|what| (format!("{what}ListChanged"), Value::Bool(true))).collect();
    if notifications.is_empty() {
        return false;
    }
    let own = Arc::clone(shared);
    let request = Request {
        watcher: Some(Arc::new(move |method: &str, params: &Value| own.notice(method, params))),
        ..Request::plain("subscriptions/listen", json!({ "notifications": notifications }))
    };
    match shared.exchange(connection, request, Box::new(|| true), LISTEN_WITHIN).await {
        Exchanged::Replied(Reply::Result(_)) | Exchanged::Lost(_) => true,
        Exchanged::Replied(Reply::Error(_))
        | Exchanged::Status { .. }
        | Exchanged::TooLate
        | Exchanged::NoConnection => false,
    }
}

/// In which way a child is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Newer,
    /// Some older servers end at a question that they do not know; the next child is not asked it.
    Older,
}

/// Finds out how a child is spoken to. It is asked in the newer way first; one that is silent is asked in both.
async fn greet_child(link: &StdioLink, first: First) -> Result<(Wire, Conversation, Greeting), String> {
    let discover = ask_child(link, 1, "server/discover", era::discover_params());
    tokio::pin!(discover);
    let (mut discovered, waiting) = match first {
        First::Older => (Discovered::Legacy, false),
        First::Newer => match tokio::time::timeout(ERA_WITHIN, &mut discover).await {
            Ok(exchanged) => (read_discovered(exchanged)?, false),
            Err(_) => (Discovered::Legacy, true),
        },
    };
    if discovered == Discovered::Legacy {
        let initialize = ask_child(link, 2, "initialize", era::initialize_params());
        tokio::pin!(initialize);
        let exchanged = match waiting {
            false => initialize.await,
            // The silent one may only have been slow to start: whichever it answers first counts.
            true => tokio::select! {
                exchanged = &mut initialize => exchanged,
                exchanged = &mut discover => match read_discovered(exchanged)? {
                    Discovered::Legacy => initialize.await,
                    other => {
                        discovered = other;
                        Exchanged::TooLate
                    }
                },
            },
        };
        if discovered == Discovered::Legacy {
            let greeting = read_initialized(exchanged)?;
            link.tell(&message::notification("notifications/initialized")).await;
            return Ok((
                Wire::Stdio(link.clone()),
                Conversation { era: greeting.era.clone(), session: None },
                greeting,
            ));
        }
    }
    match discovered {
        Discovered::Modern(greeting) => {
            Ok((Wire::Stdio(link.clone()), Conversation { era: Era::Modern, session: None }, greeting))
        }
        Discovered::Refused(why) => Err(why),
        Discovered::Legacy => Err("it was not greeted".to_owned()),
    }
}

async fn ask_child(link: &StdioLink, id: u64, method: &str, params: Value) -> Exchanged {
    let message = message::request(HANDSHAKE_IDS + id, method, &params);
    link.exchange(Outgoing {
        id: HANDSHAKE_IDS + id,
        message: &message,
        headers: http::HeaderMap::new(),
        may_be_sent: Box::new(|| true),
        within: MCP_CONNECT_WITHIN,
        watcher: None,
        late: None,
    })
    .await
}

/// Ids of handshakes lie past those of all requests, so that a late answer to one is never taken for the other's.
const HANDSHAKE_IDS: u64 = 1 << 52;

/// Finds out how a server behind HTTP is spoken to.
async fn greet_over_http(address: &Address) -> Result<(Wire, Conversation, Greeting), String> {
    let modern = HttpLink { address, version: Some(era::MODERN), session: None };
    let begun = ask_over_http(&modern, "server/discover", era::discover_params(), Headers::Standard).await;
    match read_discovered(begun.exchanged)? {
        Discovered::Modern(greeting) => {
            return Ok((Wire::Http, Conversation { era: Era::Modern, session: None }, greeting));
        }
        Discovered::Refused(why) => return Err(why),
        Discovered::Legacy => {}
    }
    let legacy = HttpLink { address, version: None, session: None };
    let Begun { exchanged, session } =
        ask_over_http(&legacy, "initialize", era::initialize_params(), Headers::None).await;
    let greeting = read_initialized(exchanged)?;
    let conversation = Conversation { era: greeting.era.clone(), session };
    let method = "notifications/initialized";
    link(address, &conversation).tell(&message::notification(method), MCP_READ_WITHIN).await;
    Ok((Wire::Http, conversation, greeting))
}

#[derive(Clone, Copy)]
enum Headers {
    Standard,
    None,
}

async fn ask_over_http(link: &HttpLink<'_>, method: &str, params: Value, headers: Headers) -> Begun {
    let id = HANDSHAKE_IDS + 1;
    let message = message::request(id, method, &params);
    let headers = match headers {
        Headers::Standard => super::headers::standard(method, &params),
        Headers::None => http::HeaderMap::new(),
    };
    link.begin(Outgoing {
        id,
        message: &message,
        headers,
        may_be_sent: Box::new(|| true),
        within: MCP_READ_WITHIN,
        watcher: None,
        late: None,
    })
    .await
}

/// What the answer to the first question says.
///
/// # Errors
/// There is nobody to ask the second one, or nobody who may.
fn read_discovered(exchanged: Exchanged) -> Result<Discovered, String> {
    match exchanged {
        Exchanged::Replied(Reply::Result(result)) => {
            let result =
                serde_json::from_str(result.get()).map_err(|error| format!("its answer is broken: {error}"))?;
            Ok(era::discovered(&result))
        }
        Exchanged::Replied(Reply::Error(error)) => {
            Ok(era::not_discovered(error.code, &error.message, error.data.as_ref()))
        }
        Exchanged::Status { status: 401 | 403, .. } => Err("it refuses the credential".to_owned()),
        Exchanged::Status { status, .. } if status >= 500 => Err(format!("it answers with status {status}")),
        // 400, 404, 405, 406 and the like: it does not know the question.
        Exchanged::Status { .. } => Ok(Discovered::Legacy),
        Exchanged::Lost(Lost::Unreadable) => Ok(Discovered::Legacy),
        Exchanged::NoConnection | Exchanged::TooLate => Err("it could not be reached".to_owned()),
        Exchanged::Lost(Lost::TimedOut) => Err("it did not answer".to_owned()),
        Exchanged::Lost(Lost::WriteFailed | Lost::Ended | Lost::SessionGone) => {
            Err("the connection ended during the handshake".to_owned())
        }
    }
}

fn read_initialized(exchanged: Exchanged) -> Result<Greeting, String> {
    let result = result(exchanged).map_err(|why| format!("the handshake failed: {why}"))?;
    let result = serde_json::from_str(result.get()).map_err(|error| format!("its answer is broken: {error}"))?;
    era::initialized(&result)
}

fn result(exchanged: Exchanged) -> Result<Box<RawValue>, String> {
    match exchanged {
        Exchanged::Replied(Reply::Result(result)) => Ok(result),
        Exchanged::Replied(Reply::Error(error)) => Err(error.to_string()),
        Exchanged::Status { status: 401 | 403, .. } => Err("it refuses the credential".to_owned()),
        Exchanged::Status { status, .. } => Err(format!("it answers with status {status}")),
        Exchanged::NoConnection | Exchanged::TooLate => Err("it could not be reached".to_owned()),
        Exchanged::Lost(why) => Err(match why {
            Lost::TimedOut => "it did not answer",
            Lost::Unreadable => "its answer cannot be read",
            Lost::WriteFailed | Lost::Ended | Lost::SessionGone => "the connection ended",
        }
        .to_owned()),
    }
}
