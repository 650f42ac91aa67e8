//! What the ledger says, as a tool result.
//!
//! A success is the destination's answer, value for value, with ours beside it in `_meta`. Everything else is `isError: true`
//! with the envelope as structured content and as text: with `false`, clients check structured content against the tool's
//! output schema and throw. The flag makes some hosts tell their model to try again, so nothing relies on the words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onceward_core::canonical::Canonical;
use onceward_core::classify::TOOL_RESULT;
use onceward_core::code::Repeat;
use onceward_core::outcome::{AnswerSource, Dispatched, Envelope, NextAction, Outcome};
use onceward_core::receipt::Answer;
use onceward_destinations::schema::Schema;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents, ResultType};
use serde_json::{Value, json};

use super::exchange::CallerEra;
use super::raw::RawObject;
use super::through::{Keeping, fit};
use crate::http::AnswerView;
use crate::problem::Problem;

/// Where ours stands in the `_meta` of a result.
pub(crate) const META_KEY: &str = "dev.onceward/operation";

/// The tool result of a call that the ledger answered.
pub(crate) fn told(envelope: &Envelope) -> CallToolResult {
    let mut result = match (shape(envelope.outcome), &envelope.answer) {
        (Shape::Envelope, Some(answer)) if envelope.observed.is_some() => read(answer),
        (Shape::Destination, Some(answer)) => passed_on(answer),
        // A success is an answer too where nothing is left to give of it.
        (Shape::Destination, None) => status(envelope),
        (Shape::Envelope, _) => unresolved(&envelope.message, facts(envelope)),
    };
    result.meta = Some(meta(envelope));
    result
}

/// The tool result of a call that the ledger answered, of a tool that may say what its structured content is like.
///
/// A receipt that a lookup found or a person gave is no result of the tool. Where it does not fit, a client would throw it away and
/// see an exception; so it gets the envelope, which says that it was done, with the receipt in it.
pub(crate) fn fitting(envelope: &Envelope, output: Option<&Value>) -> CallToolResult {
    let mut result = told(envelope);
    let misfits = output.is_some_and(|output| !fits(output, result.structured_content.as_ref()));
    if misfits && shape(envelope.outcome) == Shape::Destination {
        let meta = result.meta.take();
        result = unresolved(&envelope.message, facts(envelope));
        result.meta = meta;
    }
    result
}

/// Whether a structured content is what a schema wants. A schema that nobody can read is one that no client checks.
fn fits(output: &Value, content: Option<&Value>) -> bool {
    let Some(content) = content.cloned() else { return false };
    match (Schema::compile(output.clone()), Canonical::from_value(content)) {
        (Ok(schema), Ok(content)) => schema.check(&content).is_ok(),
        (Err(_), _) | (_, Err(_)) => true,
    }
}

/// The result of an MCP server's tool as it was stored, digit for digit, with ours beside it; none for what is told in our words.
///
/// A refusal is the server's own result too, with its `isError`: it is an answer, and the same one on every repetition.
pub(crate) fn stored(envelope: &Envelope, era: CallerEra) -> Option<RawObject> {
    match (shape(envelope.outcome), envelope.outcome) {
        (Shape::Destination, _) | (Shape::Envelope, Outcome::Rejected) => {}
        // What is only observed goes on as the server wrote it.
        (Shape::Envelope, _) if envelope.observed.is_some() => {}
        (Shape::Envelope, _) => return None,
    }
    let mut result = tool_result(envelope.answer.as_ref()?)?;
    let mut beside = result.get("_meta").and_then(|meta| meta.as_object().cloned()).unwrap_or_default();
    beside.extend(meta(envelope).0);
    result.set("_meta", &Value::Object(beside));
    fit(&mut result, era, Keeping::Unsaid);
    Some(result)
}

/// An answer that is the whole result of an MCP server's tool. One that was too large to keep is none.
fn tool_result(answer: &Answer) -> Option<RawObject> {
    let is_one =
        answer.headers.iter().any(|(name, kind)| name.eq_ignore_ascii_case("content-type") && kind == TOOL_RESULT);
    RawObject::read(std::str::from_utf8(&answer.body).ok().filter(|_| is_one)?)
}

/// Whose words a result is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The destination's, and no error.
    Destination,
    /// Ours, and an error.
    Envelope,
}

const fn shape(outcome: Outcome) -> Shape {
    match outcome {
        Outcome::Executed | Outcome::Replayed | Outcome::Recovered => Shape::Destination,
        Outcome::InProgress
        | Outcome::Unknown
        | Outcome::Rejected
        | Outcome::Closed
        | Outcome::Conflict
        | Outcome::ApprovalRequired
        | Outcome::PossibleDuplicate
        | Outcome::NotDispatched
        | Outcome::Expired => Shape::Envelope,
    }
}

/// The tool result of a question about an operation, which was answered whatever the answer is.
pub(crate) fn status(envelope: &Envelope) -> CallToolResult {
    let mut result = unresolved(&envelope.message, facts(envelope));
    result.is_error = Some(false);
    result
}

/// A destination's answer, value for value.
pub(crate) fn passed_on(answer: &Answer) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.result_type = Some(ResultType::COMPLETE);
    result.is_error = Some(false);
    result.content = match std::str::from_utf8(&answer.body) {
        Ok("") => vec![ContentBlock::text(format!("The destination answered {} without a body.", answer.status))],
        Ok(text) => vec![ContentBlock::text(text)],
        Err(_) => {
            let kind = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let blob = ResourceContents::blob(STANDARD.encode(&answer.body), "onceward:body");
            vec![ContentBlock::resource(match kind {
                Some((_, kind)) => blob.with_mime_type(kind.clone()),
                None => blob,
            })]
        }
    };
    // Only an object: older protocol revisions know no other structured content.
    result.structured_content = answer.body_json().filter(Value::is_object);
    result
}

/// What a destination answered to a read, which leaves no record. Its status is all that tells a failure.
pub(crate) fn read(answer: &Answer) -> CallToolResult {
    let mut result = passed_on(answer);
    result.is_error = Some(!(200..300).contains(&answer.status));
    result
}

/// The tool result of a call that was refused before any operation could answer it.
pub(crate) fn refused(problem: &Problem) -> CallToolResult {
    let next_action = match problem.code.repeat() {
        Repeat::SameIdentity | Repeat::SameIdentityOnly => NextAction::Wait,
        Repeat::AfterCorrection => NextAction::CorrectInput,
    };
    let mut facts = json!({
        "code": problem.code.name(),
        "dispatched": Dispatched::No,
        "source": AnswerSource::Gateway,
        "next_action": next_action,
        "message": problem.detail,
    });
    if !problem.violations.is_empty() {
        facts["violations"] = json!(problem.violations);
    }
    unresolved(&problem.detail, facts)
}

fn unresolved(sentence: &str, facts: Value) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.result_type = Some(ResultType::COMPLETE);
    result.is_error = Some(true);
    result.content = vec![ContentBlock::text(format!("{sentence}\n{facts}"))];
    result.structured_content = Some(facts);
    result
}

/// The envelope, and the receipt where there is one to give.
fn facts(envelope: &Envelope) -> Value {
    let mut facts = json!(envelope);
    if let (Some(answer), Some(object)) = (&envelope.answer, facts.as_object_mut()) {
        object.insert("receipt".to_owned(), json!(AnswerView::of(answer)));
    }
    facts
}

fn meta(envelope: &Envelope) -> MetaObject {
    let mut ours = json!({
        "outcome": envelope.outcome.name(),
        "state": envelope.state,
        "attempts": envelope.attempts,
        "replayed": envelope.replayed,
        "first_seen_at": envelope.first_seen_at,
    });
    for (name, value) in [
        ("operation_id", envelope.operation_id.as_ref().map(|id| json!(id))),
        ("as_of", envelope.as_of.as_ref().map(|at| json!(at))),
        ("disagreement", envelope.disagreement.as_ref().map(|word| json!(word))),
        ("observed", envelope.observed.as_ref().map(|observed| json!(observed))),
    ] {
        if let Some(value) = value {
            ours[name] = value;
        }
    }
    let mut meta = MetaObject::default();
    meta.0.insert(META_KEY.to_owned(), ours);
    meta
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The table of docs/mcp.md.
    fn table() -> String {
        let mut text = String::from("| outcome | `isError` | content |\n|---|---|---|\n");
        for outcome in Outcome::ALL {
            let (error, content) = match shape(outcome) {
                Shape::Destination => ("false", "the destination's"),
                Shape::Envelope => ("true", "the envelope"),
            };
            let _ = writeln!(text, "| `{}` | {error} | {content} |", outcome.name());
        }
        text
    }

    #[test]
    fn the_document_has_the_table_that_the_code_makes() {
        let document = include_str!("../../../../docs/mcp.md");
        assert!(document.contains(&table()), "docs/mcp.md is stale; its table should read:\n{}", table());
    }

    #[test]
    fn nothing_but_a_success_looks_like_one() {
        for outcome in Outcome::ALL {
            assert_eq!(shape(outcome) == Shape::Destination, outcome.is_success(), "{outcome:?}");
        }
    }

    #[test]
    fn a_content_that_is_not_what_the_tool_says_does_not_fit() {
        let output = json!({ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] });
        assert!(fits(&output, Some(&json!({ "id": 7 }))));
        assert!(!fits(&output, Some(&json!({ "name": "Ada" }))));
        assert!(!fits(&output, None), "clients miss it where a schema promises it");
    }

    fn answer(kind: &str, body: &[u8]) -> CallToolResult {
        let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
        passed_on(&Answer { status: 200, headers, body: body.to_vec() })
    }

    #[test]
    fn a_destinations_answer_is_passed_on_value_for_value() {
        let json = json!(answer("application/json", br#"{"b":1.50,"a":{"n":null}}"#));
        assert_eq!(json["content"], json!([{ "type": "text", "text": r#"{"b":1.50,"a":{"n":null}}"# }]));
        assert_eq!(json["structuredContent"].to_string(), r#"{"b":1.5,"a":{"n":null}}"#);

        let list = json!(answer("application/json", b"[1]"));
        assert_eq!((&list["content"][0]["text"], list.get("structuredContent")), (&json!("[1]"), None));

        let bytes = json!(answer("image/png", b"\xff\x00"));
        assert_eq!(bytes["content"][0]["resource"]["blob"], "/wA=");
        assert_eq!(bytes["content"][0]["resource"]["mimeType"], "image/png");
    }
}
