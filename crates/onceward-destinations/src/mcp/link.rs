//! What both transports have in common: one request goes out once, and something is seen of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::message::Reply;

/// Whether a first byte may still leave.
pub(crate) type MayBeSent = Box<dyn Fn() -> bool + Send + Sync>;

/// Who is told what a server says about one request before it answers: progress, messages of its log.
pub type Watcher = Arc<dyn Fn(&str, &Value) + Send + Sync>;

/// Takes a reply that comes after its request was given up.
pub(crate) type Late = Box<dyn FnOnce(Reply) + Send>;

/// A request on its way out.
pub(crate) struct Outgoing<'a> {
    pub(crate) id: u64,
    pub(crate) message: &'a Value,
    /// What the arguments of a tool repeat in headers, over HTTP.
    pub(crate) headers: http::HeaderMap,
    pub(crate) may_be_sent: MayBeSent,
    pub(crate) within: Duration,
    pub(crate) watcher: Option<Watcher>,
    /// Over HTTP nothing comes late: whoever gives up closes the connection.
    pub(crate) late: Option<Late>,
}

/// What was seen of a request.
#[derive(Clone, Debug)]
pub(crate) enum Exchanged {
    /// Its reply.
    Replied(Reply),
    /// Its time to be sent had passed; not a byte left.
    TooLate,
    /// There was no connection; not a byte left.
    NoConnection,
    /// An HTTP status that is no reply: the body is whatever came with it.
    Status { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// It was sent, and no reply came.
    Lost(Lost),
}

/// How it came that no reply came. The effect may be there in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It could not be written whole.
    WriteFailed,
    /// Time ran out.
    TimedOut,
    /// The stream, the connection or the process ended.
    Ended,
    /// The server does not know the session any more. That does not say whether it ran the request before.
    SessionGone,
    /// What came is no reply, or a larger one than is read.
    Unreadable,
}
