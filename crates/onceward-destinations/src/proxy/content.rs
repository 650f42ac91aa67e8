//! A body as it is compared: what it says, not how it is written.

use onceward_core::canonical;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::key_spot::KeySpot;
use super::{form, multipart};

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Form,
    Multipart,
    Other,
}

impl Kind {
    /// By the type that its sender gives it.
    pub(super) fn of(media_type: &str) -> Self {
        match media_type {
            "application/json" => Self::Json,
            json if json.ends_with("+json") => Self::Json,
            "application/x-www-form-urlencoded" => Self::Form,
            "multipart/form-data" => Self::Multipart,
            _ => Self::Other,
        }
    }
}

/// The essence of a `Content-Type`, in lower case.
pub(super) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What is compared of a body, without the key that stands in it: a JSON value, the pairs of a form, the parts of an upload, or
/// else the bytes. What says that it is JSON or a form and is not, is compared by its bytes.
pub(super) fn content(content_type: &str, body: &[u8], spot: &KeySpot) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    let media_type = media_type(content_type);
    let read = match Kind::of(&media_type) {
        Kind::Json => canonical::parse(body).ok().map(|document| {
            let mut value = document.into_value();
            if let KeySpot::Json(at) = spot {
                at.remove(&mut value);
            }
            json!({ "json": value })
        }),
        Kind::Form => std::str::from_utf8(body).ok().and_then(form::pairs).map(|mut pairs| {
            if let KeySpot::Form(key) = spot {
                pairs.retain(|(name, _)| name != key);
            }
            json!({ "form": pairs })
        }),
        Kind::Multipart => multipart::parts(content_type, body).map(|parts| json!({ "parts": parts })),
        Kind::Other => None,
    };
    read.unwrap_or_else(|| {
        let digest: [u8; 32] = Sha256::digest(body).into();
        json!({ "bytes": body.len(), "sha256": onceward_core::hex::encode(&digest) })
    })
}
