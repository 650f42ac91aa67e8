//! A message read by our own rules, before the protocol library parses it.
//!
//! Its parser keeps the last of two members with one name and rounds what is too large. What was fingerprinted would then not
//! be what the caller sent, so every message is read here first, and the arguments that are dispatched are those read here.

use std::sync::Arc;

use onceward_core::canonical::{Canonical, InvalidJson, JsonProblem, parse};
use rmcp::model::{ErrorData, RequestId};
use serde_json::{Value, json};

use super::limits::MESSAGE_BYTES_MAX;

const TOOL_CALL: &str = "tools/call";

/// A request as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its method.
    pub(crate) method: String,
    /// Its parameters; an object, empty where there are none.
    pub(crate) params: Value,
    /// The arguments, where it calls a tool.
    pub(crate) arguments: Option<Arc<Canonical>>,
}

/// What a message that may go on is.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A request, which is answered.
    Request(Request),
    /// The answer to a question that an upstream server put to the caller.
    Reply(Reply),
    /// A notification, by its method; the library says what is wrong with what is none.
    Notification(String),
}

/// A caller's answer to a question.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Which question.
    pub(crate) id: String,
    /// The whole message.
    pub(crate) message: Value,
}

/// A message that is refused. Nothing was looked up and nothing was sent.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The request that it answers, where that much could be read.
    pub(crate) id: Option<RequestId>,
    /// What is wrong, and where.
    pub(crate) error: ErrorData,
    /// Whether it is only too large.
    pub(crate) size: Size,
}

/// Whether a message was refused for its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Fits,
    TooLarge,
}

impl Refused {
    /// The refusal of a message that was not even read to its end.
    pub(crate) fn too_large() -> Self {
        let problem = JsonProblem::TooLarge { bytes: MESSAGE_BYTES_MAX + 1 };
        Self {
            id: None,
            error: ErrorData::invalid_request(
                format!("the message has more than {MESSAGE_BYTES_MAX} bytes; send a reference to the content instead"),
                Some(json!({ "code": problem.code() })),
            ),
            size: Size::TooLarge,
        }
    }

    fn strict(bytes: &[u8], invalid: &InvalidJson) -> Self {
        let data = Some(json!({ "code": invalid.problem.code(), "place": invalid.place.pointer().to_string() }));
        let size = match invalid.problem {
            JsonProblem::TooLarge { .. } => Size::TooLarge,
            JsonProblem::NotJson { .. }
            | JsonProblem::NotUtf8
            | JsonProblem::TrailingBytes
            | JsonProblem::LoneSurrogate
            | JsonProblem::DuplicateKey
            | JsonProblem::NumberOutOfRange
            | JsonProblem::TooDeep
            | JsonProblem::NotAnObject => Size::Fits,
        };
        Self {
            id: lenient_id(bytes),
            error: ErrorData::parse_error(format!("{invalid}; nothing was sent"), data),
            size,
        }
    }

    fn params(message: &Value, detail: &'static str) -> Self {
        Self { id: id_of(message), error: ErrorData::invalid_params(detail, None), size: Size::Fits }
    }

    /// The refusal as a JSON-RPC message.
    pub(crate) fn to_json(&self) -> Value {
        // A request whose id cannot be read is answered with null: JSON-RPC 2.0 wants the member, and both eras' clients take it.
        json!({ "jsonrpc": "2.0", "id": self.id, "error": self.error })
    }
}

/// Reads a message by the strict rules.
///
/// # Errors
/// [`Refused`], naming the place.
pub(crate) fn read(bytes: &[u8]) -> Result<Message, Box<Refused>> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Box::new(Refused::too_large()));
    }
    let message = parse(bytes).map_err(|invalid| Box::new(Refused::strict(bytes, &invalid)))?;
    let message = message.value();
    if !message.is_object() {
        let error =
            ErrorData::invalid_request("a message is one JSON object; batches are no part of the protocol", None);
        return Err(Box::new(Refused { id: None, error, size: Size::Fits }));
    }
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        return Ok(match message.get("id").and_then(Value::as_str) {
            Some(id) => Message::Reply(Reply { id: id.to_owned(), message: message.clone() }),
            // Nothing of ours asks with another kind of id.
            None => Message::Notification(String::new()),
        });
    };
    if message.get("id").is_none() {
        return Ok(Message::Notification(method.to_owned()));
    }
    let params = message.get("params").filter(|params| params.is_object()).cloned().unwrap_or_else(|| json!({}));
    let arguments = if method == TOOL_CALL { Some(tool_arguments(message, &params)?) } else { None };
    Ok(Message::Request(Request { method: method.to_owned(), params, arguments }))
}

fn tool_arguments(message: &Value, params: &Value) -> Result<Arc<Canonical>, Box<Refused>> {
    if !params.get("name").is_some_and(Value::is_string) {
        return Err(Box::new(Refused::params(message, "params.name must be the name of a tool")));
    }
    Ok(Arc::new(match params.get("arguments") {
        None | Some(Value::Null) => Canonical::empty_object(),
        Some(arguments) => Canonical::from_value(arguments.clone())
            .and_then(Canonical::require_object)
            .map_err(|_| Box::new(Refused::params(message, "params.arguments must be a JSON object")))?,
    }))
}

/// The id of a message that breaks the strict rules, so that its sender finds the answer.
fn lenient_id(bytes: &[u8]) -> Option<RequestId> {
    id_of(&serde_json::from_slice(bytes).ok()?)
}

fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> Result<Message, Box<Refused>> {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        );
        read(text.as_bytes())
    }

    #[test]
    fn the_arguments_are_those_of_the_bytes_in_canonical_form() {
        let arguments = |text| match call(text) {
            Ok(Message::Request(Request { arguments: Some(arguments), .. })) => arguments.text().to_owned(),
            other => panic!("a call: {other:?}"),
        };
        assert_eq!(arguments(r#"{"b":1.0,"a":2}"#), r#"{"a":2,"b":1}"#);
        assert_eq!(arguments("null"), "{}");
    }

    #[test]
    fn a_key_given_twice_is_refused_with_its_place_and_the_id_of_the_request() {
        let refused = call(r#"{"amount":1,"amount":2}"#).unwrap_err();
        assert_eq!(refused.to_json()["id"], 7);
        assert_eq!(refused.to_json()["error"]["code"], -32700);
        assert_eq!(refused.to_json()["error"]["data"]["place"], "/params/arguments/amount");
    }

    #[test]
    fn arguments_that_are_no_object_and_calls_without_a_name_are_invalid_params() {
        assert_eq!(call("[1]").unwrap_err().to_json()["error"]["code"], -32602);
        let nameless = read(br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{}}"#).unwrap_err();
        assert_eq!(nameless.to_json()["error"]["code"], -32602);
        assert_eq!(nameless.to_json()["id"], "a");
    }

    #[test]
    fn what_is_no_object_and_what_is_no_json_is_refused() {
        assert_eq!(read(b"[]").unwrap_err().to_json()["error"]["code"], -32600);
        let broken = read(b"{\"id\":1,").unwrap_err();
        assert_eq!(broken.to_json()["error"]["code"], -32700);
        assert_eq!(broken.to_json()["id"], Value::Null);
        assert_eq!(read(&vec![b' '; MESSAGE_BYTES_MAX + 1]).unwrap_err().size, Size::TooLarge);
    }
}
