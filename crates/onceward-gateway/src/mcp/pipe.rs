//! MCP over a pipe: one JSON message a line, read by the strict rules before the protocol library sees it.
//!
//! Request ids are replaced by numbers of our own on the way in and put back on the way out. Some hosts give every request
//! the same id; two at once would share one place in the library's tables, and one of them would never be answered.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_ledger::authorize::Grant;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::exchange::{Exchange, write_line};
use super::limits::{MESSAGE_BYTES_MAX, PIPE_AHEAD};
use super::questions::{Delivered, can_be_asked};
use super::service::Front;
use super::strict::{self, Message, Refused, Size};

/// The two ends of a pipe as a transport.
pub(crate) struct Pipe {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    out: Out,
    ids: Ids,
}

type Out = Arc<tokio::sync::Mutex<dyn AsyncWrite + Send + Unpin>>;

impl Pipe {
    /// Starts reading lines. Ends with the input.
    pub(crate) fn open(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        peer: Peer,
    ) -> Self {
        let out: Out = Arc::new(tokio::sync::Mutex::new(output));
        let ids = Ids::default();
        let (sender, messages) = mpsc::channel(PIPE_AHEAD);
        // A task of its own: the library drops a pending read whenever it has something to send.
        tokio::spawn(read_lines(BufReader::new(input), Arc::clone(&out), ids.clone(), sender, peer));
        Self { messages, out, ids }
    }
}

impl Transport<RoleServer> for Pipe {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = self.ids.outward(message);
        let out = Arc::clone(&self.out);
        async move { write_line(&out, line?.into_bytes()).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.messages.close();
        self.out.lock().await.flush().await
    }
}

async fn read_lines<R: AsyncRead + Unpin>(
    mut input: BufReader<R>,
    out: Out,
    ids: Ids,
    sender: mpsc::Sender<ClientJsonRpcMessage>,
    mut peer: Peer,
) {
    loop {
        let line = match next_line(&mut input).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the pipe cannot be read any more");
                return;
            }
        };
        let taken = match &line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
            Line::Whole(bytes) => take(bytes, &out, &mut peer),
            Line::TooLong => Err(Box::new(Refused::too_large())),
        };
        match taken {
            Ok(Some((mut message, exchange))) => {
                ids.inward(&mut message, exchange);
                if sender.send(message).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(refused) => {
                if let Err(error) = write_line(&out, refused.to_json().to_string().into_bytes()).await {
                    tracing::warn!(%error, "the pipe cannot be written any more");
                    return;
                }
            }
        }
    }
}

/// Who is at the other end.
pub(crate) struct Peer {
    grant: Arc<Grant>,
    front: Front,
    /// What it can be asked, as its handshake said.
    can: Map<String, Value>,
    /// Tells it what servers tell by themselves; only one of the session era hears without asking.
    telling: Option<JoinHandle<()>>,
}

impl Peer {
    pub(crate) fn new(grant: Arc<Grant>, front: Front) -> Self {
        Self { grant, front, can: Map::new(), telling: None }
    }

    fn is_ready(&mut self, out: &Out) {
        if self.telling.is_some() || self.front.servers().is_empty() {
            return;
        }
        let (mut notices, out) = (self.front.notices_for(&self.grant), Arc::clone(out));
        self.telling = Some(tokio::spawn(async move {
            while write_line(&out, notices.next().await.to_string().into_bytes()).await.is_ok() {}
        }));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(telling) = &self.telling {
            telling.abort();
        }
    }
}

type Taken = (ClientJsonRpcMessage, Option<Exchange>);

/// Reads a line; nothing goes on of one that answers a question.
fn take(bytes: &[u8], out: &Out, peer: &mut Peer) -> Result<Option<Taken>, Box<Refused>> {
    let read = strict::read(bytes)?;
    let mut message: ClientJsonRpcMessage = serde_json::from_slice(bytes).map_err(|_| {
        let error = ErrorData::invalid_request("this is no message of the protocol", None);
        Box::new(Refused { id: None, error, size: Size::Fits })
    })?;
    Ok(match read {
        Message::Request(request) => {
            if request.method == "initialize" {
                peer.can = can_be_asked(&request.params["capabilities"]);
            }
            let exchange = Exchange::piped(request, peer.can.clone(), Arc::clone(out));
            message.insert_extension(exchange.clone());
            Some((message, Some(exchange)))
        }
        Message::Reply(reply) => match peer.front.questions.answer(&peer.grant, reply) {
            Delivered::Taken => None,
            Delivered::NoSuchQuestion => Some((message, None)),
        },
        Message::Notification(method) => {
            if method == "notifications/initialized" {
                peer.is_ready(out);
            }
            Some((message, None))
        }
    })
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line without its end; of one that is too long only that it was.
async fn next_line<R: AsyncRead + Unpin>(input: &mut BufReader<R>) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            // What stands before the end without a line end is half a message.
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        too_long |= line.len() + part.len() > MESSAGE_BYTES_MAX;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}

/// Which of our numbers stands for which id of the peer.
#[derive(Clone, Default)]
struct Ids(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: i64,
    under_way: HashMap<i64, UnderWay>,
}

struct UnderWay {
    theirs: RequestId,
    exchange: Option<Exchange>,
}

impl Ids {
    fn inward(&self, message: &mut ClientJsonRpcMessage, exchange: Option<Exchange>) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => {
                table.last += 1;
                let ours = table.last;
                let theirs = std::mem::replace(&mut request.id, NumberOrString::Number(ours));
                table.under_way.insert(ours, UnderWay { theirs, exchange });
            }
            JsonRpcMessage::Notification(notification) => {
                let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification else {
                    return;
                };
                let id = cancelled.params.request_id.as_ref();
                let mut meant = table.under_way.iter().filter(|(_, request)| Some(&request.theirs) == id);
                // Where two requests of one id are under way nobody can say which is meant, and both go on.
                cancelled.params.request_id = match (meant.next(), meant.next()) {
                    (Some((ours, _)), None) => Some(NumberOrString::Number(*ours)),
                    (Some(_), Some(_)) | (None, _) => None,
                };
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// The message under the id that its request came with, and with the result that was set for it.
    fn outward(&self, mut message: ServerJsonRpcMessage) -> io::Result<String> {
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else { return Ok(serde_json::to_string(&message)?) };
        let NumberOrString::Number(ours) = id else { return Err(io::Error::other("an answer to no request")) };
        let answered = self.0.lock().unwrap_or_else(PoisonError::into_inner).under_way.remove(ours);
        let UnderWay { theirs, exchange } = answered.ok_or_else(|| io::Error::other("an answer to no request"))?;
        *id = theirs;
        Ok(match exchange {
            Some(exchange) => exchange.complete(&serde_json::to_value(&message)?),
            None => serde_json::to_string(&message)?,
        })
    }
}
