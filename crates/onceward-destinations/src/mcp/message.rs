//! JSON-RPC, read and written as values. Types of a protocol library know the fields of their day and drop the rest; what a
//! server says is kept here as it came.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A reply to a request of ours.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Its result, digit for digit as it was written.
    Result(Box<RawValue>),
    /// Its error.
    Error(RpcError),
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its data.
    pub data: Option<Value>,
}

/// A message from a server.
#[derive(Clone, Debug)]
pub(crate) enum Incoming {
    /// An answer to the request of that id.
    Reply { id: u64, reply: Reply },
    /// A request of the server's own.
    Request { id: Value, method: String },
    /// Something that it tells.
    Notice { method: String, params: Value },
    /// Nothing that this protocol has: it is passed over.
    Nothing,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorText>,
}

#[derive(Deserialize)]
struct ErrorText {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

/// A request of ours.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Something that we tell.
pub(crate) fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

/// What a server's own request is answered. No capability of a client is declared, so that a ping is all that it may ask.
pub(crate) fn answer_to(id: &Value, method: &str) -> Value {
    match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "the gateway offers nothing to a server" } })
        }
    }
}

/// Reads one message. A batch, which one early revision had, is read message by message.
pub(crate) fn read(text: &[u8]) -> Vec<Incoming> {
    let text = text.trim_ascii();
    if text.first() == Some(&b'[') {
        let parts: Vec<&RawValue> = serde_json::from_slice(text).unwrap_or_default();
        return parts.into_iter().map(|part| read_one(part.get().as_bytes())).collect();
    }
    vec![read_one(text)]
}

fn read_one(text: &[u8]) -> Incoming {
    let Ok(Text { id, method, params, result, error }) = serde_json::from_slice(text) else { return Incoming::Nothing };
    match (id, method) {
        (Some(id), Some(method)) if !id.is_null() => Incoming::Request { id, method },
        (_, Some(method)) => Incoming::Notice { method, params: params.unwrap_or(Value::Null) },
        // An error without our id answers nothing of ours: it may be about another request.
        (Some(id), None) => match (id.as_u64(), result, error) {
            (Some(id), Some(result), None) => Incoming::Reply { id, reply: Reply::Result(result.to_owned()) },
            (Some(id), _, Some(ErrorText { code, message, data })) => {
                Incoming::Reply { id, reply: Reply::Error(RpcError { code, message, data }) }
            }
            (Some(_) | None, _, _) => Incoming::Nothing,
        },
        (None, None) => Incoming::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Incoming {
        read(text.as_bytes()).remove(0)
    }

    #[test]
    fn a_result_is_kept_digit_for_digit() {
        let Incoming::Reply { id: 7, reply: Reply::Result(raw) } =
            one(r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.50,"big":12345678901234567890123,"own":{"x":null}}}"#)
        else {
            panic!("a reply")
        };
        assert_eq!(raw.get(), r#"{"n":1.50,"big":12345678901234567890123,"own":{"x":null}}"#);
    }

    #[test]
    fn what_has_no_id_of_ours_answers_nothing_of_ours() {
        for text in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            "npm notice a new version",
        ] {
            assert!(matches!(one(text), Incoming::Nothing), "{text}");
        }
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let all = read(br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/x"}]"#);
        assert!(matches!(all[0], Incoming::Reply { id: 1, .. }), "{all:?}");
        assert!(matches!(&all[1], Incoming::Notice { method, .. } if method == "notifications/x"), "{all:?}");
    }

    #[test]
    fn a_server_is_offered_nothing_but_an_answer_to_its_ping() {
        assert_eq!(answer_to(&json!("p"), "ping")["result"], json!({}));
        assert_eq!(answer_to(&json!(1), "sampling/createMessage")["error"]["code"], -32601);
    }
}
