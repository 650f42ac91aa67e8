//! A socket that can be told to break at a byte.
//!
//! A handler cannot cut its own connection: it hands a whole response to the HTTP library, which decides when bytes leave.
//! So the cut is made below the library. The handler arms it, and the socket refuses every byte behind the chosen one; the
//! library gives the connection up, and the peer sees it close.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::sync::locked;

/// Where the answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// After this many bytes of the answer, counted from its first.
    AfterBytes(usize),
    /// After this many bytes of its body.
    AfterBodyBytes(usize),
}

const HEADERS_END: &[u8] = b"\r\n\r\n";

/// How far the answer under way has got.
#[derive(Debug, Default)]
struct Progress {
    armed: Option<Cut>,
    /// How much of the mark between headers and body the last bytes were.
    mark: usize,
}

impl Progress {
    /// How many of these bytes may leave.
    fn allowed(&mut self, bytes: &[u8]) -> usize {
        match self.armed {
            None => bytes.len(),
            Some(Cut::AfterBytes(left)) => {
                let allowed = left.min(bytes.len());
                self.armed = Some(Cut::AfterBytes(left - allowed));
                allowed
            }
            Some(Cut::AfterBodyBytes(after)) => match self.body_begins(bytes) {
                None => bytes.len(),
                Some(start) => {
                    self.armed = Some(Cut::AfterBytes(after));
                    start + self.allowed(&bytes[start..])
                }
            },
        }
    }

    fn body_begins(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            self.mark = match *byte {
                byte if byte == HEADERS_END[self.mark] => self.mark + 1,
                b'\r' => 1,
                _ => 0,
            };
            if self.mark == HEADERS_END.len() {
                return Some(at + 1);
            }
        }
        None
    }
}

/// The handler's end: arms a cut for the answer it is about to give.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scissors(Arc<Mutex<Progress>>);

impl Scissors {
    /// From now on the connection breaks there. It cannot be taken back, and no later request uses this connection.
    pub(crate) fn arm(&self, cut: Cut) {
        *locked(&self.0) = Progress { armed: Some(cut), mark: 0 };
    }
}

/// The connection's end.
pub(crate) struct Wire {
    stream: TcpStream,
    scissors: Scissors,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, scissors: Scissors) -> Self {
        Self { stream, scissors }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Counted only once the socket has room: a refused write is offered again, and must not count twice.
        if self.stream.poll_write_ready(cx)?.is_pending() {
            return Poll::Pending;
        }
        let scissors = self.scissors.clone();
        let mut progress = locked(&scissors.0);
        if progress.armed.is_none() {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let before = (progress.armed, progress.mark);
        let allowed = progress.allowed(bytes);
        if allowed == 0 && !bytes.is_empty() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the sandbox cut this connection")));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, &bytes[..allowed]);
        match written {
            Poll::Ready(Ok(count)) if count < allowed => {
                (progress.armed, progress.mark) = before;
                progress.allowed(&bytes[..count]);
            }
            Poll::Pending => (progress.armed, progress.mark) = before,
            Poll::Ready(Ok(_) | Err(_)) => {}
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\na: b\r\n\r\n{\"id\":1}";

    /// What leaves when the answer is offered in pieces of this size.
    fn leaves(cut: Cut, piece: usize) -> Vec<u8> {
        let mut progress = Progress { armed: Some(cut), mark: 0 };
        let mut out = Vec::new();
        for bytes in ANSWER.chunks(piece) {
            let allowed = progress.allowed(bytes);
            out.extend_from_slice(&bytes[..allowed]);
            if allowed < bytes.len() {
                break;
            }
        }
        out
    }

    #[test]
    fn an_answer_breaks_at_its_byte_however_it_is_written() {
        let body = ANSWER.len() - 8;
        for piece in 1..=ANSWER.len() {
            assert_eq!(leaves(Cut::AfterBytes(0), piece), b"");
            assert_eq!(leaves(Cut::AfterBytes(12), piece), &ANSWER[..12]);
            assert_eq!(leaves(Cut::AfterBodyBytes(0), piece), &ANSWER[..body]);
            assert_eq!(leaves(Cut::AfterBodyBytes(3), piece), &ANSWER[..body + 3]);
        }
    }
}
