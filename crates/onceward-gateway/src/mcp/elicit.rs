//! Asking the person at the host whether a held call is meant as a second one (R19).
//!
//! Off unless it is switched on: some hosts answer such questions themselves. A person's word here stands in for no approver, and
//! releases nothing beside an operation that may have happened: the ledger holds what it makes to that, as it would an approval.
//!
//! A client of the stateless era gets the question as its result and calls again with the answer. What belongs to the question
//! travels with it, sealed: the id of the second one is fixed before anybody answers, so an answer that is sent twice names one
//! operation. A client of the session era is asked while its request is under way.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use onceward_core::canonical::Canonical;
use onceward_core::key::OperationId;
use onceward_core::outcome::{Envelope, NextAction, Outcome};
use onceward_core::time::Timestamp;
use onceward_destinations::tool::{Approval, WithoutIdentity};
use onceward_ledger::authorize::Grant;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::exchange::{CallerEra, Exchange};
use super::limits::ANSWER_COUNTS_FOR;
use super::raw::RawObject;
use super::service::Front;
use crate::app::{Called, ToolCall};
use crate::identity::{Claimed, mint};
use crate::problem::Problem;

/// Where a request of the stateless era says what its client can be asked.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The name of the question, and of the field in which it is answered.
const QUESTION: &str = "make_it_once_more";

/// Whether the person at a host may be asked whether a held call is meant as a second one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elicitation {
    /// Nobody is asked; a second one goes by way of an approval.
    #[default]
    Off,
    /// A host that can ask its person is asked to.
    On,
}

/// What a question is about. It travels through the client and back, sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    /// The id of the second one, if it is wanted.
    second: OperationId,
    /// The operation that the call was held for.
    of: OperationId,
    /// How long an answer counts, in microseconds of the wall clock.
    until: i64,
}

/// What becomes of a held call.
pub(super) enum Held {
    /// It stays held: nobody can be asked, or the person does not want it.
    Stays,
    /// The question is the result.
    Asked,
    /// The person wants it, and this became of it.
    Second(Result<Called, Problem>),
}

impl Front {
    /// Who a call is whose client answers a question of ours: the second one, where the person wants it and the seal is ours.
    pub(super) fn answered(&self, grant: &Grant, call: ToolCall, exchange: &Exchange) -> ToolCall {
        match (&call.identity, self.wanted(grant, &call, exchange.params())) {
            (Claimed::Nothing, Some(About { second, of, .. })) => {
                ToolCall { identity: Claimed::Second { id: second, of }, ..call }
            }
            (_, _) => call,
        }
    }

    /// Asks about a call that was held, if it may be asked about and the client can ask its person.
    pub(super) async fn ask_second(
        &self,
        grant: &Grant,
        call: &ToolCall,
        envelope: &Envelope,
        exchange: &Exchange,
    ) -> Held {
        let Some(of) = self.may_be_asked(grant, call, envelope) else { return Held::Stays };
        let now = self.app.ledger().clock().now();
        let Ok(second) = mint(now) else { return Held::Stays };
        let about = About { second, of, until: now.plus(ANSWER_COUNTS_FOR).as_micros() };
        let params = question(&call.tool, envelope);
        match exchange.era() {
            CallerEra::Modern if asks_forms(exchange.params()["_meta"][CAPABILITIES].get("elicitation")) => {
                // Whoever answers one question with a call that is held again is not asked for ever.
                if exchange.params().get("requestState").is_some() {
                    return Held::Stays;
                }
                exchange.answer_with(RawObject::of(&json!({
                    "resultType": "input_required",
                    "inputRequests": { QUESTION: { "method": "elicitation/create", "params": params } },
                    "requestState": self.sealed(grant, call, &about),
                })));
                Held::Asked
            }
            CallerEra::Legacy if exchange.hears() && asks_forms(exchange.can().get("elicitation")) => {
                let answer = self.questions.ask(exchange, grant, "elicitation/create", &params).await;
                match answer {
                    Ok(answer) if is_yes(&answer) => {
                        let identity = Claimed::Second { id: about.second, of: about.of };
                        Held::Second(self.app.call(grant, ToolCall { identity, ..call.clone() }).await)
                    }
                    Ok(_) => Held::Stays,
                    Err(error) => {
                        tracing::debug!(%error, "the person at the host was not asked");
                        Held::Stays
                    }
                }
            }
            CallerEra::Modern | CallerEra::Legacy => Held::Stays,
        }
    }

    /// The settled operation that a held call may be asked about: one whose receipt the caller sees, of a tool for which no
    /// approver must be asked.
    fn may_be_asked(&self, grant: &Grant, call: &ToolCall, envelope: &Envelope) -> Option<OperationId> {
        let on = self.app.elicitation() == Elicitation::On;
        let settled = envelope.outcome == Outcome::PossibleDuplicate
            && envelope.next_action == NextAction::RequestApproval
            && envelope.answer.is_some();
        let (tool, _) = self.app.tool(grant, &call.tool).ok()?;
        let nobody_else = tool.without_identity() == WithoutIdentity::Hold && tool.approval() == Approval::None;
        envelope.operation_id.clone().filter(|_| on && settled && nobody_else)
    }

    /// What the person wants, as far as the answer in these parameters is one to a question of ours about this very call.
    fn wanted(&self, grant: &Grant, call: &ToolCall, params: &Value) -> Option<About> {
        if self.app.elicitation() == Elicitation::Off || !is_yes(&params["inputResponses"][QUESTION]) {
            return None;
        }
        let (text, seal) = params["requestState"].as_str()?.split_once('.')?;
        let about: About = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let ours = self.seal(grant, call, &about);
        let theirs = URL_SAFE_NO_PAD.decode(seal).ok()?;
        let counts = self.app.ledger().clock().now() < Timestamp::from_micros(about.until);
        (bool::from(ours.ct_eq(&theirs)) && counts).then_some(about)
    }

    fn sealed(&self, grant: &Grant, call: &ToolCall, about: &About) -> String {
        let text = json!(about).to_string();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(self.seal(grant, call, about)))
    }

    /// For one caller, one tool and one set of arguments: an answer to one question is no answer to another.
    fn seal(&self, grant: &Grant, call: &ToolCall, about: &About) -> [u8; 32] {
        let until = about.until.to_be_bytes();
        self.app.ledger().seal(
            b"onceward elicitation v1\0",
            &[
                grant.tenant().as_str().as_bytes(),
                grant.principal().as_str().as_bytes(),
                call.tool.as_bytes(),
                Canonical::text(&call.arguments).as_bytes(),
                about.second.as_str().as_bytes(),
                about.of.as_str().as_bytes(),
                &until,
            ],
        )
    }
}

/// The question, as every client understands it: one box to tick, empty at first.
fn question(tool: &str, envelope: &Envelope) -> Value {
    let id = envelope.operation_id.as_ref().map(ToString::to_string).unwrap_or_default();
    json!({
        "message": format!(
            "{tool} was made with the same content at {} (operation {id}). The agent asks for it again. Is a second one meant?",
            envelope.first_seen_at
        ),
        "requestedSchema": {
            "type": "object",
            "properties": {
                QUESTION: {
                    "type": "boolean",
                    "title": "Make it once more",
                    "description": "Only if a second one is wanted beside the first.",
                    "default": false
                }
            },
            "required": [QUESTION]
        }
    })
}

/// Only a form that was accepted with the box ticked. A host that accepts by itself ticks nothing.
fn is_yes(answer: &Value) -> bool {
    answer["action"] == "accept" && answer["content"][QUESTION] == true
}

/// Whether a client can show its person a form: it says so, or says nothing of the kinds that it can show.
fn asks_forms(capability: Option<&Value>) -> bool {
    capability.and_then(Value::as_object).is_some_and(|kinds| kinds.is_empty() || kinds.contains_key("form"))
}

const _: () = assert!(ANSWER_COUNTS_FOR.as_secs() <= Duration::from_secs(3600).as_secs());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_accepted_form_with_its_box_ticked_is_a_yes() {
        assert!(is_yes(&json!({ "action": "accept", "content": { QUESTION: true } })));
        for no in [
            json!({ "action": "accept", "content": { QUESTION: false } }),
            json!({ "action": "accept", "content": { QUESTION: "true" } }),
            json!({ "action": "accept", "content": {} }),
            json!({ "action": "accept" }),
            json!({ "action": "decline", "content": { QUESTION: true } }),
            json!({ "action": "cancel" }),
            json!(null),
            json!("yes"),
        ] {
            assert!(!is_yes(&no), "{no}");
        }
    }

    #[test]
    fn a_client_is_asked_only_when_it_can_show_a_form() {
        assert!(asks_forms(Some(&json!({}))) && asks_forms(Some(&json!({ "form": {}, "url": {} }))));
        for no in [None, Some(&json!({ "url": {} })), Some(&json!(null)), Some(&json!(true))] {
            assert!(!asks_forms(no), "{no:?}");
        }
    }
}
