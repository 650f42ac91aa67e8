//! Where a client's key stands in its request, and putting ours there without touching anything else.

use std::fmt;
use std::ops::Range;

use http::HeaderMap;
use http::header::HeaderName;
use onceward_core::contract::{Contract, Encoding, Place};
use onceward_core::pointer::Pointer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{NotTaken, form};
use crate::tool::Unmappable;

/// Where the contract has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySpot {
    /// Nowhere: the destination takes none.
    Nowhere,
    /// In a header, written like this.
    Header(HeaderName, Encoding),
    /// In a JSON body.
    Json(Pointer),
    /// In a form body.
    Form(String),
    /// In the query.
    Query(String),
}

/// The contract's place for a key cannot be found in a request that somebody else made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the contract puts the key where a request that is passed on cannot be changed")]
pub(crate) struct Unfit;

/// What a request consists of while its key is looked for or replaced.
pub(super) struct Parts<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) target: &'a str,
    pub(super) body: &'a [u8],
}

impl KeySpot {
    /// By the contract's first carrier, as everywhere.
    pub(crate) fn of(contract: &Contract) -> Result<Self, Unfit> {
        let Some(rules) = &contract.key else { return Ok(Self::Nowhere) };
        let Some(carrier) = rules.carrier() else { return Ok(Self::Nowhere) };
        match carrier.place {
            Place::Header => carrier.name.parse().map(|name| Self::Header(name, rules.encoding)).map_err(|_| Unfit),
            Place::Body => Pointer::parse(&carrier.name).map(Self::Json).map_err(|_| Unfit),
            Place::Form => Ok(Self::Form(carrier.name.clone())),
            Place::Query => Ok(Self::Query(carrier.name.clone())),
            Place::Path
            | Place::Param
            | Place::Field
            | Place::McpMeta
            | Place::Argument
            | Place::GraphqlDirective
            | Place::Jwt
            | Place::SmtpHeader => Err(Unfit),
        }
    }

    /// The key that the client sent.
    pub(super) fn find(&self, parts: &Parts<'_>) -> Result<Option<String>, NotTaken> {
        Ok(match self {
            Self::Nowhere => None,
            Self::Header(name, encoding) => one_text(parts.headers, name)?.map(|text| match encoding {
                Encoding::Raw => text,
                Encoding::SfString => text
                    .strip_prefix('"')
                    .and_then(|rest| rest.strip_suffix('"'))
                    .map_or_else(|| text.clone(), |inside| inside.replace("\\\"", "\"").replace("\\\\", "\\")),
            }),
            Self::Json(at) => std::str::from_utf8(parts.body).ok().and_then(|text| match found(text, at.tokens()) {
                Found::At(span) => serde_json::from_str::<String>(&text[span]).ok(),
                Found::Absent | Found::Unclear => None,
            }),
            Self::Form(name) => std::str::from_utf8(parts.body).ok().and_then(|text| form::value(text, name)),
            Self::Query(name) => parts.target.split_once('?').and_then(|(_, query)| form::value(query, name)),
        }
        .filter(|key| !key.is_empty()))
    }

    /// The target as it is compared: the key in it makes no other intention.
    pub(super) fn compared_target(&self, target: &str) -> String {
        match (self, target.split_once('?')) {
            (Self::Query(name), Some((path, query))) if form::value(query, name).is_some() => {
                format!("{path}?{}", form::with(query, name, ""))
            }
            (Self::Nowhere | Self::Header(..) | Self::Json(_) | Self::Form(_) | Self::Query(_), _) => target.to_owned(),
        }
    }

    /// Our key in a query.
    pub(super) fn in_target(&self, target: String, key: &str) -> String {
        match self {
            Self::Query(name) => {
                let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                format!("{path}?{}", form::with(query, name, key))
            }
            Self::Nowhere | Self::Header(..) | Self::Json(_) | Self::Form(_) => target,
        }
    }

    /// Whether a request without a body has no room for a key.
    pub(super) const fn needs_body(&self) -> bool {
        match self {
            Self::Json(_) | Self::Form(_) => true,
            Self::Nowhere | Self::Header(..) | Self::Query(_) => false,
        }
    }

    /// Our key in a body; every byte around it stays.
    pub(super) fn in_body(&self, body: Vec<u8>, key: &str) -> Result<Vec<u8>, Unmappable> {
        let no_room = |what: &str| Unmappable::Place {
            message: format!("the destination wants its key in the body, and the body is {what}"),
        };
        match self {
            Self::Json(at) => {
                let text = String::from_utf8(body).map_err(|_| no_room("no text"))?;
                with_member(&text, at, key)
                    .map(String::into_bytes)
                    .ok_or_else(|| no_room("no JSON object with room for it"))
            }
            Self::Form(name) => {
                let text = String::from_utf8(body).map_err(|_| no_room("no text"))?;
                Ok(form::with(&text, name, key).into_bytes())
            }
            Self::Nowhere | Self::Header(..) | Self::Query(_) => Ok(body),
        }
    }
}

/// The one value of a header.
pub(super) fn one_text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, NotTaken> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (values.next(), value.to_str()) {
        (None, Ok(text)) => Ok(Some(text.trim().to_owned())),
        (Some(_), _) | (None, Err(_)) => Err(NotTaken::Header(name.clone())),
    }
}

/// The text with `key` as the member at `at`, in the place of what stands there or as the first member of its object.
fn with_member(text: &str, at: &Pointer, key: &str) -> Option<String> {
    let value = serde_json::to_string(key).ok()?;
    match found(text, at.tokens()) {
        Found::At(span) => return Some(format!("{}{value}{}", &text[..span.start], &text[span.end..])),
        // Which of two members the destination reads is not known.
        Found::Unclear => return None,
        Found::Absent => {}
    }
    let (last, around) = at.tokens().split_last()?;
    let Found::At(object) = found(text, around) else { return None };
    let inside = text[object.clone()].strip_prefix('{')?;
    let comma = if inside.trim_start().starts_with('}') { "" } else { "," };
    let name = serde_json::to_string(last).ok()?;
    let begin = object.start + 1;
    Some(format!("{}{name}:{value}{comma}{}", &text[..begin], &text[begin..]))
}

/// Where a value stands in a JSON text.
enum Found {
    At(Range<usize>),
    Absent,
    /// The text is no JSON, or has two members of that name.
    Unclear,
}

fn found(text: &str, tokens: &[String]) -> Found {
    let mut start = text.len() - text.trim_start().len();
    let mut value = text.trim();
    for token in tokens {
        let Ok(Members(members)) = serde_json::from_str(value) else { return Found::Unclear };
        let mut named = members.into_iter().filter(|(name, _)| name == token);
        let Some((_, found)) = named.next() else { return Found::Absent };
        if named.next().is_some() {
            return Found::Unclear;
        }
        // The raw value is a piece of the very text that was read.
        start += (found.get().as_ptr() as usize).saturating_sub(value.as_ptr() as usize);
        value = found.get();
    }
    Found::At(start..start + value.len())
}

/// The members of an object with their texts.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<'t>(std::marker::PhantomData<&'t ()>);

        impl<'de: 't, 't> Visitor<'de> for Reader<'t> {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'t>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    #[test]
    fn our_key_takes_the_place_of_the_clients_and_every_other_byte_stays() {
        let body = r#" {"amount": 1.10, "idempotency_key" : "theirs\"", "big":12345678901234567890} "#;
        let placed = with_member(body, &at("/idempotency_key"), "ours").unwrap();
        assert_eq!(placed, body.replace(r#""theirs\"""#, r#""ours""#));
        let nested = r#"{"a":{"b":[1,{"idempotency_key":"no"}],"idempotency_key":"x"}}"#;
        assert_eq!(
            with_member(nested, &at("/a/idempotency_key"), "k").unwrap(),
            nested.replace(r#""idempotency_key":"x""#, r#""idempotency_key":"k""#)
        );
    }

    #[test]
    fn a_body_without_a_key_gets_ours_and_one_without_room_gets_nothing() {
        assert_eq!(with_member(r#"{"a":1}"#, &at("/key"), "k").unwrap(), r#"{"key":"k","a":1}"#);
        assert_eq!(with_member("{ }", &at("/key"), "k").unwrap(), r#"{"key":"k" }"#);
        assert_eq!(with_member("[1]", &at("/key"), "k"), None);
        assert_eq!(with_member(r#"{"a":1}"#, &at("/b/key"), "k"), None);
        assert_eq!(with_member("{broken", &at("/key"), "k"), None);
        assert_eq!(with_member(r#"{"key":"a","key":"b"}"#, &at("/key"), "k"), None, "which of them would be read?");
    }

    #[test]
    fn a_key_in_the_query_makes_no_other_target() {
        let spot = KeySpot::Query("key".to_owned());
        assert_eq!(spot.compared_target("/a?key=1&b=2"), spot.compared_target("/a?key=2&b=2"));
        assert_ne!(spot.compared_target("/a?key=1&b=2"), spot.compared_target("/a?key=1&b=3"));
        assert_eq!(spot.in_target("/a?key=1&b=2".to_owned(), "k"), "/a?key=k&b=2");
        assert_eq!(spot.in_target("/a".to_owned(), "k"), "/a?key=k");
    }
}
