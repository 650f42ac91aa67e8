//! What a write makes, and where it carries its name, its key and its marker.

use axum::http::{Method, StatusCode};
use onceward_core::contract::{Contract, Locator, LookupKind, Match};
use onceward_core::pointer::Pointer;
use serde_json::{Map, Value, json};

use super::draft::put;
use super::requests::{Asked, Caller};
use super::stripe;
use super::versions::Holdings;
use crate::sandbox::problem::Answer;
use crate::sandbox::resource::DECLINED_AMOUNT;
use crate::sandbox::store::{Naming, SPOKEN_ID, SPOKEN_THING};

/// A thing that is to be.
#[derive(Debug)]
pub(super) struct NewThing {
    /// As the store keeps it.
    pub(super) fields: Map<String, Value>,
    /// How it gets its name; nothing for a change of a thing that has one.
    pub(super) naming: Option<Naming>,
    pub(super) declined: bool,
}

/// Whose objects they are: of one vendor in detail, of all others as the contract describes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    StripeForms,
    Any,
}

impl Vendor {
    pub(super) fn of(family: &Contract) -> Self {
        match family.id.as_str() {
            "stripe.v1" => Self::StripeForms,
            _ => Self::Any,
        }
    }

    /// What a creation is answered with.
    pub(super) fn created_status(self, family: &Contract) -> StatusCode {
        match self {
            Self::StripeForms => StatusCode::OK,
            Self::Any if family.execution.accept_is_effect => StatusCode::ACCEPTED,
            Self::Any if family.id.starts_with("stripe.") => StatusCode::OK,
            Self::Any => StatusCode::CREATED,
        }
    }
}

/// What the request asks for, if it can be carried out.
///
/// # Errors
/// The refusal: nothing is done, and nothing is remembered under the key.
pub(super) fn asked_for(
    asked: &Asked<'_>,
    caller: &Caller,
    key: Option<&str>,
    parameters: &Value,
    held: &Holdings,
    at_us: i64,
) -> Result<NewThing, Answer> {
    let vendor = Vendor::of(asked.family);
    if let Some((id, action)) = existing(&asked.collection, held) {
        return Ok(change(asked, held, &id, action.as_deref(), parameters));
    }
    if asked.parts.method == Method::DELETE {
        return Err(Answer::not_found(&asked.collection));
    }
    let (thing, prefix) = match vendor {
        Vendor::StripeForms => {
            let made = stripe::object(&asked.collection, parameters, held, at_us, caller.is_live())?;
            (made, stripe::named(&asked.collection).1)
        }
        Vendor::Any => (plain(asked, parameters, key), prefix(&asked.collection)),
    };
    let declined = match vendor {
        Vendor::StripeForms => stripe::is_declined(&thing),
        Vendor::Any => has_declined_amount(parameters),
    };
    let fields = Map::from_iter([(SPOKEN_ID.to_owned(), Value::Null), (SPOKEN_THING.to_owned(), thing.into())]);
    Ok(NewThing { fields, naming: Some(Naming { prefix, places: name_places(asked.family) }), declined })
}

/// The thing that a path names, and what is to be done with it: `/v1/payment_intents/pi_1001/cancel`.
fn existing(path: &str, held: &Holdings) -> Option<(String, Option<String>)> {
    let (before, last) = path.rsplit_once('/')?;
    if held.newest(last).is_some() {
        return Some((last.to_owned(), None));
    }
    let id = before.rsplit_once('/')?.1;
    held.newest(id).map(|_| (id.to_owned(), Some(last.to_owned())))
}

fn change(asked: &Asked<'_>, held: &Holdings, id: &str, action: Option<&str>, parameters: &Value) -> NewThing {
    let now = held.newest(id).map_or(&Value::Null, |effect| effect.thing());
    let thing = if asked.parts.method == Method::DELETE {
        let mut thing = now.clone();
        put_member(&mut thing, "deleted", true.into());
        thing
    } else {
        stripe::changed(now, parameters, action)
    };
    let fields = Map::from_iter([(SPOKEN_ID.to_owned(), id.into()), (SPOKEN_THING.to_owned(), thing)]);
    NewThing { fields, naming: None, declined: false }
}

fn put_member(thing: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = thing {
        members.insert(name.to_owned(), value);
    }
}

/// A thing as the contract describes it: the parameters, and what the lookup looks at.
fn plain(asked: &Asked<'_>, parameters: &Value, key: Option<&str>) -> Map<String, Value> {
    let mut thing = parameters.clone();
    if let Some(sighting) = &asked.sighting {
        sighting.take_out_of(&mut thing, &mut Vec::new());
    }
    // Who answers `{"ticket": {…}}` often wants to be asked in the same way.
    let enveloped = at_steps(envelope(asked.family)).get(&thing).filter(|inner| inner.is_object()).cloned();
    if let Some(inner) = enveloped {
        thing = inner;
    }
    put_member(&mut thing, "status", "done".into());
    if let Some(lookup) = &asked.family.lookup {
        let ours = match lookup.kind {
            LookupKind::ByInjectedMarker => asked.marker.as_deref().or(key),
            LookupKind::ByKey
            | LookupKind::ByKeyViaConflict
            | LookupKind::ByClientReference
            | LookupKind::ListScan
            | LookupKind::ByProviderIdOnly
            | LookupKind::EventStream
            | LookupKind::CancelByKey
            | LookupKind::AsyncHandle
            | LookupKind::None => key.or(asked.marker.as_deref()),
        };
        for recognise in &lookup.recognise {
            let at = in_thing(asked.family, &recognise.at);
            if let (None, Some(ours)) = (at.get(&thing), ours) {
                let value = match recognise.how {
                    Match::Equals => json!(ours),
                    Match::Contains | Match::Element => json!([ours]),
                };
                put(&mut thing, &at, value);
            }
        }
        for compare in &lookup.compare {
            let at = in_thing(asked.family, &compare.effect);
            if let (None, Some(said)) = (at.get(&thing), compare.argument.get(parameters)) {
                put(&mut thing, &at, said.clone());
            }
        }
    }
    match thing {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Where in the thing its name stands: where the answer has it, and where a list has it.
fn name_places(family: &Contract) -> Vec<Pointer> {
    let in_answer = match &family.effect.id {
        Some(Locator::Body(at)) => at.tokens().last().map(String::as_str),
        Some(Locator::Header(_)) | None => None,
    };
    let in_list = family.lookup.as_ref().and_then(|lookup| lookup.effect_id.as_ref()).map(|at| in_thing(family, at));
    let in_answer = at_steps(&[in_answer.unwrap_or("id").to_owned()]);
    let mut places: Vec<Pointer> = std::iter::once(in_answer).chain(in_list).collect();
    places.retain(|place| !place.is_root());
    places.dedup();
    places
}

/// The steps from an answer to the thing in it.
pub(super) fn envelope(family: &Contract) -> &[String] {
    match &family.effect.id {
        Some(Locator::Body(at)) => at.tokens().split_last().map_or(&[], |(_, parents)| parents),
        Some(Locator::Header(_)) | None => &[],
    }
}

/// A place in an item of a lookup as a place in the thing: a list has the things themselves, and a lookup of one thing has
/// it in its envelope.
pub(super) fn in_thing(family: &Contract, at: &Pointer) -> Pointer {
    let enveloped = family.lookup.as_ref().is_some_and(|lookup| lookup.items.is_none());
    match at.tokens().strip_prefix(envelope(family)) {
        Some(rest) if enveloped && !rest.is_empty() => at_steps(rest),
        Some(_) | None => at.clone(),
    }
}

fn at_steps(steps: &[String]) -> Pointer {
    let text: String = steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
    Pointer::parse(&text).unwrap_or_default()
}

/// What ids of this collection begin with.
fn prefix(collection: &str) -> String {
    let last = collection.rsplit('/').next().unwrap_or_default();
    let letters: String = last.chars().filter(char::is_ascii_alphabetic).take(3).collect();
    format!("{}_", if letters.is_empty() { "id".to_owned() } else { letters.to_ascii_lowercase() })
}

/// Whether an amount anywhere among the parameters is the one that is always declined.
fn has_declined_amount(parameters: &Value) -> bool {
    match parameters {
        Value::Object(members) => members.iter().any(|(name, value)| {
            (name == "amount" && value.as_u64() == Some(DECLINED_AMOUNT)) || has_declined_amount(value)
        }),
        Value::Array(elements) => elements.iter().any(has_declined_amount),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
