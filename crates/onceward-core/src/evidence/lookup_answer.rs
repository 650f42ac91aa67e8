//! Reads the answer of a lookup: which items are ours, and whether the whole list was seen.

use serde_json::Value;

use super::presence::{Candidate, Compared, RecognisedBy};
use crate::contract::{Compare, Contract, Lookup, LookupKind, Match, Seen};
use crate::key::{EffectId, OutboundKey};
use crate::receipt::{Answer, Receipt};
use crate::time::Timestamp;

/// Whether a lookup showed everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It did.
    Whole,
    /// There may be more.
    Cut,
}

/// What a lookup's answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// These, and whether they are all.
    Found {
        /// What may be the effect. Items that carry another operation's name are not among them.
        candidates: Vec<Candidate>,
        /// Whether the whole list was seen.
        completeness: Completeness,
    },
    /// The answer is not one to the question: it says nothing.
    Unreadable,
}

/// Reads the answer of the contract's lookup.
///
/// `keys` are the outbound keys of every generation of the operation, and `arguments` are those it was approved with.
#[must_use]
pub fn read_lookup(
    contract: &Contract,
    answer: &Answer,
    keys: &[OutboundKey],
    arguments: &Value,
    now: Timestamp,
) -> Reading {
    let Some(lookup) = &contract.lookup else {
        return Reading::Unreadable;
    };
    if lookup.absent_statuses.contains(&answer.status) {
        return Reading::Found { candidates: Vec::new(), completeness: Completeness::Whole };
    }
    if !(200..=299).contains(&answer.status) {
        return Reading::Unreadable;
    }
    let Some(body) = answer.body_json() else {
        return Reading::Unreadable;
    };
    let items: Vec<&Value> = match &lookup.items {
        None => vec![&body],
        Some(at) => match at.get(&body) {
            Some(Value::Array(items)) => items.iter().collect(),
            // A list that is not where it should be is not an empty list.
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) | None => {
                return Reading::Unreadable;
            }
        },
    };
    let candidates = items.into_iter().filter_map(|item| candidate(lookup, item, keys, arguments, now)).collect();
    Reading::Found { candidates, completeness: completeness(lookup, answer, &body) }
}

fn completeness(lookup: &Lookup, answer: &Answer, body: &Value) -> Completeness {
    let seen = Seen { status: Some(answer.status), headers: &answer.headers, body: Some(body), text: "" };
    let whole = !lookup.list_may_be_cut || lookup.whole_if.as_ref().is_some_and(|whole| whole.holds(&seen));
    if whole { Completeness::Whole } else { Completeness::Cut }
}

fn candidate(
    lookup: &Lookup,
    item: &Value,
    keys: &[OutboundKey],
    arguments: &Value,
    now: Timestamp,
) -> Option<Candidate> {
    let parameters = compare(&lookup.compare, arguments, item);
    let by = match recognised(lookup, item, keys) {
        Some(by) => by,
        // Without a name of ours it is worth a person's look only if it resembles what was asked for.
        None if parameters == Compared::Same => RecognisedBy::Resemblance,
        None => return None,
    };
    let effect_id = lookup.effect_id.as_ref().and_then(|at| id_at(at.get(item)?));
    Some(Candidate { by, parameters, receipt: Receipt { effect_id, answer: Answer::json(item), received_at: now } })
}

fn recognised(lookup: &Lookup, item: &Value, keys: &[OutboundKey]) -> Option<RecognisedBy> {
    if lookup.recognise.is_empty() {
        // Asked for by the key itself, by what the destination pointed at for our key, or by the name that it gave to our own
        // work, and the answer is one thing: the destination has recognised it for us.
        let by_destination =
            matches!(lookup.kind, LookupKind::ByKey | LookupKind::ByKeyViaConflict | LookupKind::AsyncHandle);
        return (by_destination && lookup.items.is_none()).then_some(RecognisedBy::OurKey);
    }
    let carries = lookup.recognise.iter().any(|place| {
        place.at.get(item).is_some_and(|value| keys.iter().any(|key| stands_in(value, key.as_str(), place.how)))
    });
    match lookup.kind {
        LookupKind::ByKey | LookupKind::ByKeyViaConflict => carries.then_some(RecognisedBy::OurKey),
        LookupKind::ByClientReference
        | LookupKind::ByInjectedMarker
        | LookupKind::ListScan
        | LookupKind::ByProviderIdOnly
        | LookupKind::EventStream
        | LookupKind::CancelByKey
        | LookupKind::AsyncHandle
        | LookupKind::None => carries.then_some(RecognisedBy::OurMarker),
    }
}

fn stands_in(value: &Value, key: &str, how: Match) -> bool {
    match (how, value) {
        (Match::Equals, Value::String(text)) => text == key,
        (Match::Contains, Value::String(text)) => contains_whole(text, key),
        (Match::Contains | Match::Element, Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(key)),
        (Match::Element, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_))
        | (
            Match::Equals | Match::Contains,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
        ) => false,
    }
}

/// A marker inside a longer run of its own characters is another marker.
fn contains_whole(text: &str, key: &str) -> bool {
    let part_of_a_key = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    !key.is_empty()
        && text
            .match_indices(key)
            .any(|(at, _)| !text[..at].ends_with(part_of_a_key) && !text[at + key.len()..].starts_with(part_of_a_key))
}

/// Compares the pairs that the contract names. A field that the effect lacks differs from one that was asked for.
#[must_use]
pub fn compare(pairs: &[Compare], arguments: &Value, effect: &Value) -> Compared {
    let mut compared = Compared::Not;
    for pair in pairs {
        match (pair.argument.get(arguments), pair.effect.get(effect)) {
            // What was not asked for, the destination may have filled in as it likes.
            (None, Some(_) | None) => {}
            (Some(asked), Some(done)) if same_value(asked, done) => compared = Compared::Same,
            (Some(_), Some(_) | None) => return Compared::Different,
        }
    }
    compared
}

/// Equal as JSON, or a number written as text: destinations give amounts back either way.
fn same_value(asked: &Value, done: &Value) -> bool {
    match (asked, done) {
        (Value::Number(number), Value::String(text)) | (Value::String(text), Value::Number(number)) => {
            number.to_string() == *text
        }
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => asked == done,
    }
}

fn id_at(value: &Value) -> Option<EffectId> {
    match value {
        Value::String(text) => EffectId::parse(text).ok(),
        Value::Number(number) => EffectId::parse(&number.to_string()).ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
