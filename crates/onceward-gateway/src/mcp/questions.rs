//! What upstream servers ask of callers, and the way an answer takes.
//!
//! A server may need something of whoever calls it: a form filled in, a model's completion, the folders that it may use. In the
//! stateless era it says so in its result and is called again; clients of the session era are asked while their call is under way,
//! in its stream, and answer in a message of their own. Whatever is answered is data for that server. It never settles, approves
//! or identifies an operation here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use onceward_core::key::{Principal, TenantId};
use onceward_ledger::authorize::Grant;
use rmcp::model::ErrorData;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::exchange::Exchange;
use super::limits::{QUESTION_PATIENCE, QUESTIONS_OPEN_MAX};
use super::strict::Reply;

/// What a caller can be asked for, of all that the protocol has.
const KINDS: [&str; 3] = ["elicitation", "sampling", "roots"];

/// With what the id begins that says what a caller can be asked. The id is no session: nothing is kept under it, and any gateway
/// can read it.
const ID_PREFIX: &str = "can.";

/// Who is asked, or answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Who {
    tenant: TenantId,
    principal: Principal,
}

impl Who {
    fn of(grant: &Grant) -> Self {
        Self { tenant: grant.tenant().clone(), principal: grant.principal().clone() }
    }
}

/// The questions that wait for an answer.
#[derive(Clone, Default)]
pub(crate) struct Questions(Arc<Mutex<HashMap<String, Open>>>);

struct Open {
    who: Who,
    answer: oneshot::Sender<Value>,
}

impl Questions {
    /// Asks a caller, in the stream of its request, and waits for the answer.
    ///
    /// # Errors
    /// The caller's own error, or that it did not answer.
    pub(crate) async fn ask(
        &self,
        exchange: &Exchange,
        grant: &Grant,
        method: &str,
        params: &Value,
    ) -> Result<Value, ErrorData> {
        let unanswered = || ErrorData::internal_error(format!("the caller did not answer {method}"), None);
        let id = format!("question-{}", uuid::Uuid::new_v4());
        let (answer, answered) = oneshot::channel();
        {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= QUESTIONS_OPEN_MAX {
                return Err(ErrorData::internal_error("too many questions wait for an answer", None));
            }
            open.insert(id.clone(), Open { who: Who::of(grant), answer });
        }
        let _closed = Close { questions: self, id: &id };
        exchange.tell(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answered = tokio::time::timeout(QUESTION_PATIENCE, answered).await;
        let message = answered.ok().and_then(Result::ok).ok_or_else(unanswered)?;
        match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (_, Some(error)) => Err(serde_json::from_value(error.clone()).unwrap_or_else(|_| unanswered())),
            (None, None) => Err(unanswered()),
        }
    }

    /// Hands an answer to whoever waits for it. Only who was asked can answer.
    pub(crate) fn answer(&self, grant: &Grant, reply: Reply) -> Delivered {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get(&reply.id) {
            Some(question) if question.who == Who::of(grant) => {}
            Some(_) | None => return Delivered::NoSuchQuestion,
        }
        if let Some(question) = open.remove(&reply.id) {
            // Whoever asked may have stopped waiting this moment.
            let _ = question.answer.send(reply.message);
        }
        Delivered::Taken
    }
}

/// Whether an answer had a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Taken,
    NoSuchQuestion,
}

struct Close<'a> {
    questions: &'a Questions,
    id: &'a str,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.questions.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.id);
    }
}

/// What of a client's capabilities lets it be asked.
pub(crate) fn can_be_asked(capabilities: &Value) -> Map<String, Value> {
    let can = KINDS.iter().filter_map(|kind| Some(((*kind).to_owned(), capabilities.get(*kind)?.clone())));
    can.filter(|(_, value)| value.is_object()).collect()
}

/// The id that a client of the session era gets when it can be asked something, and sends with every request after it: what it can
/// be asked, and nothing else.
pub(crate) fn id_of(can: &Map<String, Value>) -> Option<String> {
    let text = Value::Object(can.clone()).to_string();
    (!can.is_empty()).then(|| format!("{ID_PREFIX}{}", URL_SAFE_NO_PAD.encode(text)))
}

/// What the client can be asked that sends this id. One of another server, or one made up, says nothing.
pub(crate) fn of_id(id: &str) -> Map<String, Value> {
    let read = || {
        let text = URL_SAFE_NO_PAD.decode(id.strip_prefix(ID_PREFIX)?).ok()?;
        serde_json::from_slice(&text).ok()
    };
    can_be_asked(&read().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_can_be_asked_travels_in_its_id() {
        let capabilities =
            json!({ "elicitation": { "form": {} }, "roots": { "listChanged": true }, "tasks": {}, "sampling": null });
        let can = can_be_asked(&capabilities);
        assert_eq!(
            Value::Object(can.clone()),
            json!({ "elicitation": { "form": {} }, "roots": { "listChanged": true } })
        );
        assert_eq!(of_id(&id_of(&can).expect("an id")), can);
        assert_eq!(id_of(&Map::new()), None);
        for other in ["", "can.", "can.!", "can.bnVsbA", "7f0c"] {
            assert!(of_id(other).is_empty(), "{other}");
        }
    }
}
