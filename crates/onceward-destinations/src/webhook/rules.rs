//! What an event says, by the rules that the configuration gives: whether there is an effect, and by what it names an operation.

use std::collections::BTreeSet;

use onceward_core::contract::{Compare, Match, Predicate, Recognise, Seen};
use onceward_core::key::{EffectId, OutboundKey};
use onceward_core::limits::{OPERATION_ID_BYTES_MAX, OUTBOUND_KEY_BYTES};
use onceward_core::pointer::Pointer;
use onceward_core::receipt::{Answer, Receipt, Rejection};
use onceward_core::time::Timestamp;
use onceward_ledger::evidence::{Heard, Says};
use onceward_ledger::mark::Mark;
use serde_json::Value;

use super::Kind;
use crate::limits::WEBHOOK_MARKS_MAX;

/// The rules of one destination's events. Every pointer is into the event as it is delivered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Which events say that the effect exists.
    pub(crate) effect_if: Option<Predicate>,
    /// Which say that it was refused.
    pub(crate) refused_if: Option<Predicate>,
    /// Where our key stands.
    pub(crate) recognise: Vec<Recognise>,
    /// Where the destination's name of accepted work stands.
    pub(crate) handle: Option<Pointer>,
    /// What is compared with the arguments.
    pub(crate) compare: Vec<Compare>,
    /// Where the effect's id stands.
    pub(crate) effect_id: Option<Pointer>,
    /// Which part is the receipt; the whole event where nothing is said.
    pub(crate) answer: Option<Pointer>,
}

/// Why an authentic event says nothing that could be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHeard {
    /// It is no JSON, or has no id where its kind has one.
    #[error("the event cannot be read")]
    Unreadable,
    /// No rule speaks of it, or two that contradict each other do.
    #[error("no rule of the webhook speaks of this event")]
    Ignored,
    /// It names nothing by which an operation could be found.
    #[error("the event has nothing at the places that name an operation")]
    NamesNothing,
    /// It names more than one event can be about.
    #[error("the event names more operations than one can be about")]
    NamesTooMuch,
}

impl Rules {
    pub(super) fn read(
        &self,
        kind: Kind,
        delivery: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Heard, NotHeard> {
        let event: Value = serde_json::from_slice(body).map_err(|_| NotHeard::Unreadable)?;
        let delivery = match (delivery, kind) {
            (Some(delivery), _) => delivery.to_owned(),
            (None, Kind::Stripe | Kind::Standard) => id_in(&event).ok_or(NotHeard::Unreadable)?,
        };
        let text = std::str::from_utf8(body).unwrap_or_default();
        let seen = Seen { status: None, headers: &[], body: Some(&event), text };
        let holds = |rule: &Option<Predicate>| rule.as_ref().is_some_and(|rule| rule.holds(&seen));
        let says = match (holds(&self.effect_if), holds(&self.refused_if)) {
            (true, false) => Says::Effect(Receipt {
                effect_id: self.effect_id.as_ref().and_then(|at| effect_id(at.get(&event)?)),
                answer: self.answer(&event, body),
                received_at: now,
            }),
            (false, true) => Says::Refused(Rejection { answer: self.answer(&event, body), received_at: now }),
            (false, false) | (true, true) => return Err(NotHeard::Ignored),
        };
        let marks = self.marks(&event)?;
        Ok(Heard { delivery, marks, says, event, compare: self.compare.clone() })
    }

    fn answer(&self, event: &Value, body: &[u8]) -> Answer {
        match self.answer.as_ref().and_then(|at| at.get(event)) {
            Some(part) => Answer::json(part),
            None => Answer { body: body.to_vec(), ..Answer::json(&Value::Null) },
        }
    }

    fn marks(&self, event: &Value) -> Result<Vec<Mark>, NotHeard> {
        let mut marks = BTreeSet::new();
        for place in &self.recognise {
            if let Some(value) = place.at.get(event) {
                keys(value, place.how, &mut marks);
            }
        }
        if let Some(handle) = self.handle.as_ref().and_then(|at| at.get(event)) {
            marks.extend(text(handle).map(Mark::Handle));
        }
        match marks.len() {
            0 => Err(NotHeard::NamesNothing),
            1..=WEBHOOK_MARKS_MAX => Ok(marks.into_iter().collect()),
            _ => Err(NotHeard::NamesTooMuch),
        }
    }
}

/// What may be one of our keys in a field. Which of them is one, the ledger knows.
fn keys(value: &Value, how: Match, into: &mut BTreeSet<Mark>) {
    let whole = |text: &str| OutboundKey::parse(text).ok().map(Mark::Key);
    match (how, value) {
        (Match::Equals, Value::String(text)) => into.extend(whole(text)),
        (Match::Contains | Match::Element, Value::Array(elements)) => {
            into.extend(elements.iter().filter_map(Value::as_str).filter_map(whole));
        }
        // Inside a longer text only what has the form of a key that the ledger makes can be told from other words.
        (Match::Contains, Value::String(text)) => {
            into.extend(words(text).filter(|word| is_uuid(word)).filter_map(whole))
        }
        (Match::Element, Value::String(_))
        | (
            Match::Equals | Match::Contains | Match::Element,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
        ) => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '-' || char == '_'))
}

fn is_uuid(word: &str) -> bool {
    word.len() == OUTBOUND_KEY_BYTES
        && word.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn effect_id(value: &Value) -> Option<EffectId> {
    EffectId::parse(&text(value)?).ok()
}

/// Stripe's events have their id in the body.
fn id_in(event: &Value) -> Option<String> {
    let id = event.get("id")?.as_str()?;
    let usable = !id.is_empty() && id.len() <= OPERATION_ID_BYTES_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then(|| id.to_owned())
}
