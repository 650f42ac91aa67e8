//! MCP answers, rows 26 and 27.

use serde_json::{Value, json};

use super::facts::AttemptFacts;
use super::http::{Reply, tool_failed};
use super::{Classified, lost, refused};
use crate::contract::{Contract, IsError, Seen};
use crate::event::Cause;
use crate::receipt::Answer;

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
    lost(contract, 26, Cause::ServerError)
}

/// Row 27, and rows 8 to 10 for results that are no error.
pub(super) fn result(
    contract: &Contract,
    attempt: &AttemptFacts<'_>,
    is_error: bool,
    answer: &Answer,
    text: &str,
) -> Classified {
    let body = answer.body_json();
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
    tool_failed(&reply, 27)
}
