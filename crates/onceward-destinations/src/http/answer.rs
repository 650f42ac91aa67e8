//! What came back, or how it came that nothing did.

use std::error::Error;
use std::io::ErrorKind;

use onceward_core::classify::{Body, NoAnswer, Observed};
use onceward_core::event::NotSent;

use crate::limits::ANSWER_BYTES_MAX;

/// Reads the answer to its end, or until it is larger than is kept.
pub(super) async fn read(mut response: reqwest::Response) -> Observed {
    let status = response.status().as_u16();
    // A value that is not text has no place in a receipt.
    let headers = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    let mut bytes = Vec::new();
    let body = loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= ANSWER_BYTES_MAX => bytes.extend_from_slice(&chunk),
            // Too large, ended early, or out of time: the status stands, and nobody may take the rest for empty.
            Ok(Some(_)) | Err(_) => break Body::Cut(bytes),
            Ok(None) => break Body::Whole(bytes),
        }
    };
    Observed::Http { status, headers, body }
}

/// What it means that the client has no answer.
///
/// Only a connection that was never made says "not sent". Every other kind, and every kind that a later version of the
/// client brings, may have been sent.
pub(crate) fn unanswered(error: &reqwest::Error) -> Observed {
    if error.is_connect() {
        return Observed::NotSent(NotSent::NoConnection);
    }
    if error.is_timeout() {
        return Observed::NoAnswer(NoAnswer::TimedOut);
    }
    match io_kind(error) {
        Some(ErrorKind::BrokenPipe | ErrorKind::WriteZero) => Observed::WriteFailed,
        Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted) => Observed::NoAnswer(NoAnswer::Reset),
        Some(ErrorKind::TimedOut) => Observed::NoAnswer(NoAnswer::TimedOut),
        Some(_) | None => Observed::NoAnswer(NoAnswer::Eof),
    }
}

fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    std::iter::successors(error.source(), |&error| error.source())
        .find_map(|error| error.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind)
}

/// The error with its causes, for the log.
pub(crate) fn chain(error: &dyn Error) -> String {
    let causes: Vec<String> =
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    causes.join(": ")
}
