//! One request of a caller, beside what the protocol library makes of it.
//!
//! The library's types drop what they do not know, on the way in and on the way out. So a request keeps its parameters as they
//! were read, and may be given a result that is put in place of the library's, value for value. What is to be told to the caller
//! before the result (progress, log messages, questions of an upstream server) goes through here too, unparsed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use onceward_core::canonical::Canonical;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};

use super::limits::TOLD_AHEAD;
use super::raw::RawObject;
use super::strict::Request;

/// Where a request of the stateless era says its revision.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A request under way. All clones are one.
#[derive(Clone)]
pub(crate) struct Exchange {
    inner: Arc<Inner>,
}

struct Inner {
    request: Request,
    /// What a caller of the session era can be asked while its request is under way.
    can: Map<String, Value>,
    result: OnceLock<RawObject>,
    progress: std::sync::Mutex<Option<f64>>,
    heard_progress: AtomicBool,
    to_caller: ToCaller,
}

/// Of which era a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerEra {
    /// Each request says what it is.
    Modern,
    /// There was a handshake before it.
    Legacy,
}

/// The way back to a caller while its request is under way.
enum ToCaller {
    /// There is none: it takes one JSON answer and nothing else.
    None,
    /// The response becomes a stream with the first message.
    Stream(mpsc::Sender<Value>),
    /// The pipe that the request came through.
    Pipe(Arc<Mutex<dyn AsyncWrite + Send + Unpin>>),
}

impl Exchange {
    /// Of a caller that takes one JSON answer. It can be asked nothing.
    pub(crate) fn plain(request: Request) -> Self {
        Self::new(request, Map::new(), ToCaller::None)
    }

    /// Of a caller that takes a stream, and what is to be told to it.
    pub(crate) fn streamed(request: Request, can: Map<String, Value>) -> (Self, mpsc::Receiver<Value>) {
        let (sender, messages) = mpsc::channel(TOLD_AHEAD);
        (Self::new(request, can, ToCaller::Stream(sender)), messages)
    }

    /// Of a caller at the other end of a pipe.
    pub(crate) fn piped(
        request: Request,
        can: Map<String, Value>,
        out: Arc<Mutex<dyn AsyncWrite + Send + Unpin>>,
    ) -> Self {
        Self::new(request, can, ToCaller::Pipe(out))
    }

    fn new(request: Request, can: Map<String, Value>, to_caller: ToCaller) -> Self {
        Self {
            inner: Arc::new(Inner {
                request,
                can,
                result: OnceLock::new(),
                progress: std::sync::Mutex::default(),
                heard_progress: AtomicBool::new(false),
                to_caller,
            }),
        }
    }

    /// Of which era the caller is.
    pub(crate) fn era(&self) -> CallerEra {
        match self.params().get("_meta").and_then(|meta| meta.get(PROTOCOL_VERSION)) {
            Some(_) => CallerEra::Modern,
            None => CallerEra::Legacy,
        }
    }

    /// What a caller of the session era can be asked.
    pub(crate) fn can(&self) -> &Map<String, Value> {
        &self.inner.can
    }

    /// The parameters, as the strict rules read them; an object, empty where the caller sent none.
    pub(crate) fn params(&self) -> &Value {
        &self.inner.request.params
    }

    /// The arguments, where the request calls a tool.
    pub(crate) fn arguments(&self) -> Option<&Arc<Canonical>> {
        self.inner.request.arguments.as_ref()
    }

    /// The token under which the caller wants to hear of progress, where it wants to.
    pub(crate) fn progress_token(&self) -> Option<&Value> {
        self.params().get("_meta")?.get("progressToken").filter(|token| token.is_string() || token.is_u64())
    }

    /// Whether anything can be told to the caller before its result.
    pub(crate) fn hears(&self) -> bool {
        !matches!(self.inner.to_caller, ToCaller::None)
    }

    /// Tells the caller something before its result. Whether it listens changes nothing.
    pub(crate) async fn tell(&self, message: Value) {
        let told = match &self.inner.to_caller {
            ToCaller::None => Ok(()),
            ToCaller::Stream(sender) => sender.send(message).await.map_err(|_| "the caller has hung up".to_owned()),
            ToCaller::Pipe(out) => write_line(out, message.to_string().into_bytes()).await.map_err(|e| e.to_string()),
        };
        if let Err(why) = told {
            tracing::debug!(why, "nobody listens");
        }
    }

    /// Tells the caller a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.tell(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Tells the caller how far the work is. Progress only ever grows: a number that is not above the last one is not told.
    pub(crate) async fn progress(&self, params: Value) {
        {
            let now = params.get("progress").and_then(Value::as_f64);
            let mut told = self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner);
            if now.is_none() || now <= *told {
                return;
            }
            *told = now;
        }
        self.notify("notifications/progress", params).await;
    }

    /// Tells the caller how far a server says that it is.
    pub(crate) async fn heard_progress(&self, params: Value) {
        self.inner.heard_progress.store(true, Ordering::Relaxed);
        self.progress(params).await;
    }

    /// Whether a server has said how far it is.
    pub(crate) fn has_heard_progress(&self) -> bool {
        self.inner.heard_progress.load(Ordering::Relaxed)
    }

    /// The result, digit for digit, in place of what the handler returns. The first one counts.
    pub(crate) fn answer_with(&self, result: RawObject) {
        // A handler answers once; a second one is a fault of ours that must not change what was said.
        let _ = self.inner.result.set(result);
    }

    /// A response of the library as text, with the result in it that was set, if one was.
    pub(crate) fn complete(&self, response: &Value) -> String {
        match (self.inner.result.get(), response.get("result")) {
            (Some(result), Some(_)) => {
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, response["id"], result.text())
            }
            (Some(_) | None, _) => response.to_string(),
        }
    }

    /// Whether a result was set.
    pub(crate) fn is_answered(&self) -> bool {
        self.inner.result.get().is_some()
    }
}

/// Writes a line whole, however many want to write.
pub(crate) async fn write_line(out: &Mutex<dyn AsyncWrite + Send + Unpin>, mut line: Vec<u8>) -> std::io::Result<()> {
    line.push(b'\n');
    let mut out = out.lock().await;
    out.write_all(&line).await?;
    out.flush().await
}
