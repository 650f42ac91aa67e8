//! MCP answers, rows 26 and 27.

use serde_json::{Value, json};

use super::facts::AttemptFacts;
use super::http::{Reply, tool_failed};
use super::{Classified, lost, refused};
use crate::contract::{Contract, IsError, Seen};
use crate::event::Cause;
use crate::limits::SAID_BYTES_MAX;
use crate::receipt::Answer;

/// The content type of an answer that is the whole result of an MCP tool.
pub const TOOL_RESULT: &str = "application/vnd.mcp.tool-result+json";

/// What the result of a tool is about: what conditions, pointers to an effect's id and lookups look into.
///
/// That is its structured content; else the first of its texts that is a JSON object or list, which is how most servers without
/// structured content answer; else its texts, as `{"text": …}`.
#[must_use]
pub fn tool_payload(result: &Value) -> Value {
    match result.get("structuredContent") {
        Some(structured) if !structured.is_null() => return structured.clone(),
        Some(_) | None => {}
    }
    texts(result)
        .find_map(|text| serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array()))
        .unwrap_or_else(|| json!({ "text": tool_text(result) }))
}

/// The texts of a tool's result, one a line.
#[must_use]
pub fn tool_text(result: &Value) -> String {
    texts(result).collect::<Vec<_>>().join("\n")
}

fn texts(result: &Value) -> impl Iterator<Item = &str> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter_map(|block| match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text")?.as_str(),
        Some(_) | None => None,
    })
}

/// JSON-RPC's own codes for a request that reached no handler: parse error, invalid request, method not found (an unknown
/// tool among them), invalid params.
const BEFORE_THE_HANDLER: [i64; 4] = [-32700, -32600, -32601, -32602];

/// Row 26.
pub(super) fn error(
    contract: &Contract,
    attempt: &AttemptFacts<'_>,
    code: i64,
    message: &str,
    data: Option<&Value>,
) -> Classified {
    let body = match data {
        Some(data) => json!({ "code": code, "message": message, "data": data }),
        None => json!({ "code": code, "message": message }),
    };
    let answer = Answer::json(&body);
    let seen = Seen { status: None, headers: &[], body: Some(&body), text: message };
    if contract.refused_if.as_ref().is_some_and(|refusal| refusal.holds(&seen)) || BEFORE_THE_HANDLER.contains(&code) {
        return refused(26, answer, attempt);
    }
    Classified { said: Some(bounded(message)), ..lost(contract, 26, Cause::ServerError) }
}

/// Row 27, and rows 8 to 10 for results that are no error.
pub(super) fn result(
    contract: &Contract,
    attempt: &AttemptFacts<'_>,
    is_error: bool,
    answer: &Answer,
    text: &str,
) -> Classified {
    // An answer that was cut for its size is no JSON any more, and then nobody takes it for a receipt.
    let body = answer.body_json().map(|result| tool_payload(&result));
    let readable = body.is_some();
    let seen = Seen { status: None, headers: &answer.headers, body: body.as_ref(), text };
    let reply = Reply { contract, attempt, seen, answer: answer.clone(), readable };
    if let Some(classified) = reply.by_contract() {
        return classified;
    }
    if !is_error {
        return reply.confirmed();
    }
    let refused_by_words = contract.refused_if.as_ref().is_some_and(|refusal| refusal.holds(&seen));
    if refused_by_words || contract.execution.is_error == IsError::Refused {
        return refused(27, answer.clone(), attempt);
    }
    Classified { said: Some(bounded(text)), ..tool_failed(&reply, 27) }
}

/// The beginning of a text, as much of it as a journal entry has room for.
fn bounded(text: &str) -> String {
    let end = (0..=text.len().min(SAID_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_said_that_failed_is_kept_for_a_person_and_bounded() {
        let contract = Contract::promising_nothing("x");
        let attempt = AttemptFacts {
            redrive: false,
            earlier_uncertain: false,
            arguments: None,
            now: crate::time::Timestamp::EPOCH,
        };
        let long = "ü".repeat(SAID_BYTES_MAX);
        let answer = Answer::json(&json!({ "isError": true, "content": [{ "type": "text", "text": long }] }));
        let failed = result(&contract, &attempt, true, &answer, &long);
        assert!(failed.said.is_some_and(|said| said.len() <= SAID_BYTES_MAX && said.starts_with('ü')));
        assert_eq!(error(&contract, &attempt, -32603, "boom", None).said.as_deref(), Some("boom"));
        assert_eq!(error(&contract, &attempt, -32602, "no such tool", None).said, None, "a refusal keeps its answer");
    }

    #[test]
    fn a_result_is_about_its_structured_content_then_its_json_text_then_its_text() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let both = json!({ "content": [text("{\"id\":1}")], "structuredContent": { "id": 2 } });
        assert_eq!(tool_payload(&both), json!({ "id": 2 }));
        let json = json!({ "content": [text("Created:"), text("{\"id\":1}")], "structuredContent": null });
        assert_eq!(tool_payload(&json), json!({ "id": 1 }));
        let plain = json!({ "content": [text("7"), { "type": "image", "data": "" }, text("done")] });
        assert_eq!(tool_payload(&plain), json!({ "text": "7\ndone" }));
        assert_eq!(tool_payload(&json!({})), json!({ "text": "" }));
    }
}
