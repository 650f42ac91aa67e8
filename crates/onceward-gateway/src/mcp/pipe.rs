//! MCP over a pipe: one JSON message a line, read by the strict rules before the protocol library sees it.
//!
//! Request ids are replaced by numbers of our own on the way in and put back on the way out. Some hosts give every request
//! the same id; two at once would share one place in the library's tables, and one of them would never be answered.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::limits::{MESSAGE_BYTES_MAX, PIPE_AHEAD};
use super::strict::{self, Message, Refused, Size};

/// The two ends of a pipe as a transport.
pub(crate) struct Pipe<W> {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    out: Out<W>,
    ids: Ids,
}

type Out<W> = Arc<tokio::sync::Mutex<W>>;

impl<W: AsyncWrite + Send + Unpin + 'static> Pipe<W> {
    /// Starts reading lines. Ends with the input.
    pub(crate) fn open(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Self {
        let out = Arc::new(tokio::sync::Mutex::new(output));
        let ids = Ids::default();
        let (sender, messages) = mpsc::channel(PIPE_AHEAD);
        // A task of its own: the library drops a pending read whenever it has something to send.
        tokio::spawn(read_lines(BufReader::new(input), Arc::clone(&out), ids.clone(), sender));
        Self { messages, out, ids }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Pipe<W> {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = self.ids.outward(message).and_then(|message| Ok(serde_json::to_vec(&message)?));
        let out = Arc::clone(&self.out);
        async move { write_line(&out, line?).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.messages.close();
        self.out.lock().await.flush().await
    }
}

async fn read_lines<R, W>(mut input: BufReader<R>, out: Out<W>, ids: Ids, sender: mpsc::Sender<ClientJsonRpcMessage>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
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
            Line::Whole(bytes) => take(bytes),
            Line::TooLong => Err(Box::new(Refused::too_large())),
        };
        match taken {
            Ok(mut message) => {
                ids.inward(&mut message);
                if sender.send(message).await.is_err() {
                    return;
                }
            }
            Err(refused) => {
                if let Err(error) = write_line(&out, refused.to_json().to_string().into_bytes()).await {
                    tracing::warn!(%error, "the pipe cannot be written any more");
                    return;
                }
            }
        }
    }
}

fn take(bytes: &[u8]) -> Result<ClientJsonRpcMessage, Box<Refused>> {
    let read = strict::read(bytes)?;
    let mut message: ClientJsonRpcMessage = serde_json::from_slice(bytes).map_err(|_| {
        let error = ErrorData::invalid_request("this is no message of the protocol", None);
        Box::new(Refused { id: None, error, size: Size::Fits })
    })?;
    match read {
        Message::ToolCall(arguments) => message.insert_extension(arguments),
        Message::Other => {}
    }
    Ok(message)
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

async fn write_line<W: AsyncWrite + Unpin>(out: &Out<W>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut out = out.lock().await;
    out.write_all(&line).await?;
    out.flush().await
}

/// Which of our numbers stands for which id of the peer.
#[derive(Clone, Default)]
struct Ids(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: i64,
    theirs: HashMap<i64, RequestId>,
}

impl Ids {
    fn inward(&self, message: &mut ClientJsonRpcMessage) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) => {
                table.last += 1;
                let ours = table.last;
                table.theirs.insert(ours, std::mem::replace(&mut request.id, NumberOrString::Number(ours)));
            }
            JsonRpcMessage::Notification(notification) => {
                let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification else {
                    return;
                };
                let mut meant =
                    table.theirs.iter().filter(|(_, theirs)| Some(*theirs) == cancelled.params.request_id.as_ref());
                // Where two requests of one id are under way nobody can say which is meant, and both go on.
                cancelled.params.request_id = match (meant.next(), meant.next()) {
                    (Some((ours, _)), None) => Some(NumberOrString::Number(*ours)),
                    (Some(_), Some(_)) | (None, _) => None,
                };
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    fn outward(&self, mut message: ServerJsonRpcMessage) -> io::Result<ServerJsonRpcMessage> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            let NumberOrString::Number(ours) = id else { return Err(io::Error::other("an answer to no request")) };
            *id = table.theirs.remove(ours).ok_or_else(|| io::Error::other("an answer to no request"))?;
        }
        Ok(message)
    }
}
