//! The last look at the clock: when the connection asks for the body, which is before it hands over the first byte (R5).
//!
//! A machine that is suspended, or a process that is stopped, between the decision to send and the write would otherwise
//! send when it wakes. A request without a body has no such place; for it the look before the hand-over is the last.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Whether a first byte may still leave.
pub(crate) type MayBeSent = Box<dyn Fn() -> bool + Send + Sync>;

/// Makes the body of `request` ask once more before it is handed over.
pub(crate) fn ask_again(request: &mut reqwest::Request, may_be_sent: MayBeSent) {
    let bytes = request.body().and_then(reqwest::Body::as_bytes).map(Bytes::copy_from_slice);
    if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
        *request.body_mut() = Some(reqwest::Body::wrap(Timed { bytes: Some(bytes), may_be_sent }));
    }
}

struct Timed {
    bytes: Option<Bytes>,
    may_be_sent: MayBeSent,
}

/// The time to send passed after the connection was made.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the time to send has passed")]
struct TooLate;

impl Body for Timed {
    type Data = Bytes;
    type Error = TooLate;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TooLate>>> {
        Poll::Ready(match self.bytes.take() {
            Some(bytes) if (self.may_be_sent)() => Some(Ok(Frame::data(bytes))),
            Some(_) => Some(Err(TooLate)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
