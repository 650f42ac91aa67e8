//! What is kept of a destination's answer, and how two answers are compared (R2).

use serde::{Deserialize, Serialize};

use crate::key::EffectId;
use crate::time::Timestamp;

/// A destination's answer as it is kept and given again: allow-listed headers and the body byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The HTTP status, or 200 where the protocol has none (an MCP tool result, an application's own function).
    pub status: u16,
    /// Allow-listed headers in the order they came. Credentials, cookies, dates and rate limits are never among them.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    #[serde(with = "body_text")]
    pub body: Vec<u8>,
}

impl Answer {
    /// A JSON answer with status 200 and no other header.
    #[must_use]
    pub fn json(value: &serde_json::Value) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: value.to_string().into_bytes(),
        }
    }

    /// The body as JSON, where it is JSON.
    #[must_use]
    pub fn body_json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// What was done: the durable proof that an operation succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The destination's name of the effect, where its contract says where to find it.
    pub effect_id: Option<EffectId>,
    /// The answer.
    pub answer: Answer,
    /// When we learned it. The thing itself may have changed since: a receipt says what was done, not what is.
    pub received_at: Timestamp,
}

impl Receipt {
    /// Whether both speak of one effect.
    ///
    /// By effect id when both have one. Otherwise the status and the bytes decide: without an id an equal answer is all
    /// the evidence there can be, and a different one must be looked at by a person.
    #[must_use]
    pub fn same_effect(&self, other: &Self) -> bool {
        match (&self.effect_id, &other.effect_id) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (Some(_) | None, None) | (None, Some(_)) => {
                self.answer.status == other.answer.status && self.answer.body == other.answer.body
            }
        }
    }
}

/// The destination refused: nothing happened, and the same request will be refused again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The refusal as it was answered; replayed the same.
    pub answer: Answer,
    /// When we learned it.
    pub received_at: Timestamp,
}

/// A payload that retention may erase while the identity it belongs to stays (promise 7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept<T> {
    /// It is here.
    Present(T),
    /// It was erased then.
    Erased {
        /// When.
        at: Timestamp,
    },
}

impl<T> Kept<T> {
    /// The payload, unless it was erased.
    pub const fn present(&self) -> Option<&T> {
        match self {
            Self::Present(payload) => Some(payload),
            Self::Erased { .. } => None,
        }
    }
}

/// Bodies are text nearly always: kept as text they stay readable in the file, and bytes that are not text are kept as hex.
mod body_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Body<'a> {
        Text(std::borrow::Cow<'a, str>),
        Hex(std::borrow::Cow<'a, str>),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Body::Text(text.into()),
            Err(_) => Body::Hex(crate::hex::encode(bytes).into()),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        match Body::deserialize(deserializer)? {
            Body::Text(text) => Ok(text.into_owned().into_bytes()),
            Body::Hex(hex) => crate::hex::decode(&hex).ok_or_else(|| D::Error::custom("a body's hex text is broken")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(effect_id: Option<&str>, body: &str) -> Receipt {
        Receipt {
            effect_id: effect_id.map(|id| EffectId::parse(id).unwrap()),
            answer: Answer { status: 201, headers: Vec::new(), body: body.as_bytes().to_vec() },
            received_at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn receipts_are_compared_by_effect_id_and_only_without_one_by_bytes() {
        assert!(receipt(Some("T-1"), "open").same_effect(&receipt(Some("T-1"), "closed")));
        assert!(!receipt(Some("T-1"), "open").same_effect(&receipt(Some("T-2"), "open")));
        assert!(receipt(None, "open").same_effect(&receipt(Some("T-1"), "open")));
        assert!(!receipt(None, "open").same_effect(&receipt(None, "closed")));
    }

    #[test]
    fn a_body_survives_storage_byte_for_byte() {
        for body in [&b""[..], b"{}", b"\xff\x00\xfe", "ß\u{0}".as_bytes()] {
            let answer = Answer { status: 200, headers: Vec::new(), body: body.to_vec() };
            let text = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
        }
    }
}
