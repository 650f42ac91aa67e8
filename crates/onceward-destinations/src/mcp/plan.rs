//! Where a call of a tool carries its key and what travels beside it: only where the contract says how.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use onceward_core::classify::http_date;
use onceward_core::contract::{CompanionValue, Contract, Place};
use onceward_core::key::OutboundKey;
use onceward_core::pointer::Pointer;
use onceward_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::mapping::Unmappable;
use crate::places;

/// Where the key and its companions go, worked out once from the contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallPlan {
    key: Option<Spot>,
    companions: Vec<(Spot, CompanionValue)>,
}

#[derive(Clone, Debug)]
enum Spot {
    /// A field of the request's `_meta`.
    Meta(String),
    /// An argument of the tool.
    Argument(Pointer),
    /// A header of its POST.
    Header(HeaderName),
}

/// How the calls of a server travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http,
    Stdio,
}

/// What a call carries beside its arguments.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) meta: Map<String, Value>,
    pub(crate) headers: HeaderMap,
}

impl CallPlan {
    /// The plan for a contract. The first carrier is used and no other.
    ///
    /// # Errors
    /// What a person should know of a contract that a tool's call cannot keep.
    pub(crate) fn new(contract: &Contract, over: Over) -> Result<Self, String> {
        let Some(rules) = &contract.key else { return Ok(Self::default()) };
        let key = match rules.carrier() {
            Some(carrier) => Some(spot(carrier.place, &carrier.name, over)?),
            None => None,
        };
        let companions = rules.companions.iter().map(|companion| match &companion.value {
            CompanionValue::Made(how) => {
                Err(format!("the contract wants {:?}: {how}; a call of a tool cannot make it", companion.name))
            }
            CompanionValue::FirstSentHttpDate | CompanionValue::Text(_) => {
                Ok((spot(companion.place, &companion.name, over)?, companion.value.clone()))
            }
        });
        Ok(Self { key, companions: companions.collect::<Result<_, String>>()? })
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        match &self.key {
            None => "none".to_owned(),
            Some(Spot::Meta(name)) => format!("_meta {name}"),
            Some(Spot::Argument(at)) => format!("argument {at}"),
            Some(Spot::Header(name)) => format!("header {name}"),
        }
    }

    /// The argument that the key is, which a model must not fill in.
    pub(crate) fn argument(&self) -> Option<&Pointer> {
        match &self.key {
            Some(Spot::Argument(at)) => Some(at),
            Some(Spot::Meta(_) | Spot::Header(_)) | None => None,
        }
    }

    /// Puts key, companions and marker where they belong.
    ///
    /// # Errors
    /// Something stands there already, or the key is missing or does not fit. Nothing was sent.
    pub(crate) fn carry(
        &self,
        contract: &Contract,
        key: Option<&OutboundKey>,
        first_claimed_at: Timestamp,
        arguments: &mut Value,
    ) -> Result<Beside, Unmappable> {
        let mut beside = Beside::default();
        if let (Some(spot), Some(rules)) = (&self.key, &contract.key) {
            // Without its key the call would run unprotected, and nobody asked for that.
            let text = rules.written(key.ok_or_else(no_key)?).map_err(|why| place(&why))?;
            put(spot, &text, arguments, &mut beside)?;
        }
        for (spot, value) in &self.companions {
            let text = match value {
                CompanionValue::FirstSentHttpDate => http_date::format(first_claimed_at),
                CompanionValue::Text(text) => text.clone(),
                // The plan refused it.
                CompanionValue::Made(_) => continue,
            };
            put(spot, &text, arguments, &mut beside)?;
        }
        if let Some(field) = &contract.marker {
            let max = field.max_length.and_then(|max| usize::try_from(max).ok());
            places::put_marker(arguments, &field.at, field.how, max, key.ok_or_else(no_key)?.as_str())?;
        }
        Ok(beside)
    }
}

fn put(spot: &Spot, text: &str, arguments: &mut Value, beside: &mut Beside) -> Result<(), Unmappable> {
    match spot {
        Spot::Meta(name) => {
            beside.meta.insert(name.clone(), text.into());
        }
        Spot::Argument(at) => places::put(arguments, at, text)?,
        Spot::Header(name) => {
            let value = HeaderValue::from_str(text).map_err(|_| Unmappable::Header { header: name.to_string() })?;
            beside.headers.insert(name.clone(), value);
        }
    }
    Ok(())
}

fn spot(place: Place, name: &str, over: Over) -> Result<Spot, String> {
    let unusable = || format!("the contract's place {name:?} has no usable name");
    match (place, over) {
        (Place::McpMeta, _) => Ok(Spot::Meta(name.to_owned())),
        (Place::Argument, _) => {
            let pointer = match name.starts_with('/') {
                true => name.to_owned(),
                false => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            };
            Pointer::parse(&pointer).map(Spot::Argument).map_err(|_| unusable())
        }
        (Place::Header, Over::Http) => name.parse().map(Spot::Header).map_err(|_| unusable()),
        (
            Place::Header
            | Place::Body
            | Place::Form
            | Place::Query
            | Place::Path
            | Place::Param
            | Place::Field
            | Place::GraphqlDirective
            | Place::Jwt
            | Place::SmtpHeader,
            _,
        ) => Err(format!("the contract puts {name:?} into a place that a call of a tool does not have")),
    }
}

fn no_key() -> Unmappable {
    Unmappable::Place { message: "the contract has a place for a key, and the dispatch has no key".to_owned() }
}

fn place(why: &dyn std::fmt::Display) -> Unmappable {
    Unmappable::Place { message: why.to_string() }
}
