//! What travels beside the arguments: the key where the contract says, its companions, and the marker.

use http::header::HeaderName;
use onceward_core::classify::http_date;
use onceward_core::contract::{CompanionValue, Contract, KeyDoesNotFit, Place};
use onceward_core::key::OutboundKey;
use onceward_core::pointer::Pointer;
use onceward_core::time::Timestamp;
use serde_json::Value;

use crate::mapping::Unmappable;
use crate::places::{self, CannotPlace};

/// Where a destination's key, companions and marker go, worked out once from its contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarrierPlan {
    key: Option<Spot>,
    companions: Vec<(Spot, CompanionValue)>,
}

#[derive(Clone, Debug)]
enum Spot {
    Header(HeaderName),
    Body(Pointer),
    Form(String),
    Query(String),
    Path(String),
}

/// Why a contract cannot be kept over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unplaceable {
    /// The place belongs to another protocol.
    #[error("the contract puts {what} into a place of kind {place}, which an HTTP request does not have")]
    Place { what: String, place: String },
    /// The name is no header name or pointer.
    #[error("the contract's place {name:?} for {what} has no usable name")]
    Name { what: String, name: String },
    /// The sender must make it itself.
    #[error("the contract wants {what}: {how}; a destination that is configured as data cannot make it")]
    Made { what: String, how: String },
}

impl CarrierPlan {
    /// The plan for a contract. The first carrier is used and no other.
    pub(crate) fn new(contract: &Contract) -> Result<Self, Unplaceable> {
        let Some(rules) = &contract.key else { return Ok(Self::default()) };
        let key = match rules.carrier() {
            Some(carrier) => Some(spot(carrier.place, &carrier.name, "the key")?),
            None => None,
        };
        let mut companions = Vec::new();
        for companion in &rules.companions {
            let what = format!("the companion {:?}", companion.name);
            match &companion.value {
                CompanionValue::Made(how) => return Err(Unplaceable::Made { what, how: how.clone() }),
                CompanionValue::FirstSentHttpDate | CompanionValue::Text(_) => {}
            }
            companions.push((spot(companion.place, &companion.name, &what)?, companion.value.clone()));
        }
        Ok(Self { key, companions })
    }

    /// The name of the placeholder that the path must have for the key.
    pub(crate) fn path_placeholder(&self) -> Option<&str> {
        match &self.key {
            Some(Spot::Path(name)) => Some(name),
            Some(Spot::Header(_) | Spot::Body(_) | Spot::Form(_) | Spot::Query(_)) | None => None,
        }
    }

    /// Whether something of it goes into the body, which must then be a JSON object.
    pub(crate) fn needs_body(&self) -> bool {
        self.spots().any(|spot| matches!(spot, Spot::Body(_) | Spot::Form(_)))
    }

    /// Whether something of it is a form field.
    pub(crate) fn needs_form(&self) -> bool {
        self.spots().any(|spot| matches!(spot, Spot::Form(_)))
    }

    /// Whether whatever travels beside the key is a header, which can be put onto a request that somebody else made.
    pub(crate) fn companions_are_headers(&self) -> bool {
        self.companions.iter().all(|(spot, _)| matches!(spot, Spot::Header(_)))
    }

    /// The headers that it writes: a mapping must leave them alone.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.spots().filter_map(|spot| match spot {
            Spot::Header(name) => Some(name),
            Spot::Body(_) | Spot::Form(_) | Spot::Query(_) | Spot::Path(_) => None,
        })
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        match &self.key {
            None => "none".to_owned(),
            Some(Spot::Header(name)) => format!("header {name}"),
            Some(Spot::Body(at)) => format!("body {at}"),
            Some(Spot::Form(name)) => format!("form field {name}"),
            Some(Spot::Query(name)) => format!("query parameter {name}"),
            Some(Spot::Path(name)) => format!("path segment {{{name}}}"),
        }
    }

    fn spots(&self) -> impl Iterator<Item = &Spot> {
        self.key.iter().chain(self.companions.iter().map(|(spot, _)| spot))
    }
}

fn spot(place: Place, name: &str, what: &str) -> Result<Spot, Unplaceable> {
    let misnamed = || Unplaceable::Name { what: what.to_owned(), name: name.to_owned() };
    match place {
        Place::Header => name.parse().map(Spot::Header).map_err(|_| misnamed()),
        Place::Body => Pointer::parse(name).map(Spot::Body).map_err(|_| misnamed()),
        Place::Form => Ok(Spot::Form(name.to_owned())),
        Place::Query => Ok(Spot::Query(name.to_owned())),
        Place::Path => Ok(Spot::Path(name.to_owned())),
        Place::Param
        | Place::Field
        | Place::McpMeta
        | Place::Argument
        | Place::GraphqlDirective
        | Place::Jwt
        | Place::SmtpHeader => {
            let place = serde_json::to_value(place).ok().and_then(|word| word.as_str().map(ToOwned::to_owned));
            Err(Unplaceable::Place { what: what.to_owned(), place: place.unwrap_or_default() })
        }
    }
}

/// What is written into one request beside the arguments.
pub(crate) struct Carried<'a> {
    spots: Vec<(&'a Spot, String)>,
    key: Option<String>,
    marker: Option<(&'a Contract, String)>,
}

impl<'a> Carried<'a> {
    /// Nothing: a read, or a check of arguments alone.
    pub(crate) const fn nothing() -> Self {
        Self { spots: Vec::new(), key: None, marker: None }
    }

    /// The key of an attempt, written as the contract says, and what travels with it.
    pub(crate) fn new(
        plan: &'a CarrierPlan,
        contract: &'a Contract,
        key: Option<&OutboundKey>,
        first_claimed_at: Timestamp,
    ) -> Result<Self, NoKey> {
        let mut spots = Vec::new();
        let mut written = None;
        if let (Some(spot), Some(rules)) = (&plan.key, &contract.key) {
            // Without its key the request would run unprotected, and nobody asked for that.
            let text = rules.written(key.ok_or(NoKey::Missing)?)?;
            written = Some(text.clone());
            spots.push((spot, text));
        }
        for (spot, value) in &plan.companions {
            let text = match value {
                CompanionValue::FirstSentHttpDate => http_date::format(first_claimed_at),
                CompanionValue::Text(text) => text.clone(),
                // The plan refused it.
                CompanionValue::Made(_) => continue,
            };
            spots.push((spot, text));
        }
        let marker = match (&contract.marker, key) {
            (Some(_), Some(key)) => Some((contract, key.as_str().to_owned())),
            (Some(_), None) => return Err(NoKey::Missing),
            (None, Some(_) | None) => None,
        };
        Ok(Self { spots, key: written, marker })
    }

    /// The key as it is written, wherever it goes.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&HeaderName, &str)> {
        self.spots.iter().filter_map(|(spot, text)| match spot {
            Spot::Header(name) => Some((name, text.as_str())),
            Spot::Body(_) | Spot::Form(_) | Spot::Query(_) | Spot::Path(_) => None,
        })
    }

    pub(crate) fn query(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spots.iter().filter_map(|(spot, text)| match spot {
            Spot::Query(name) => Some((name.as_str(), text.as_str())),
            Spot::Header(_) | Spot::Body(_) | Spot::Form(_) | Spot::Path(_) => None,
        })
    }

    pub(crate) fn form(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spots.iter().filter_map(|(spot, text)| match spot {
            Spot::Form(name) => Some((name.as_str(), text.as_str())),
            Spot::Header(_) | Spot::Body(_) | Spot::Query(_) | Spot::Path(_) => None,
        })
    }

    pub(crate) fn path_segment(&self, wanted: &str) -> Option<&str> {
        self.spots.iter().find_map(|(spot, text)| match spot {
            Spot::Path(name) if name == wanted => Some(text.as_str()),
            Spot::Header(_) | Spot::Body(_) | Spot::Form(_) | Spot::Query(_) | Spot::Path(_) => None,
        })
    }

    /// Puts what belongs into a body there.
    pub(crate) fn put_into(&self, body: &mut Value) -> Result<(), Unmappable> {
        for (spot, text) in &self.spots {
            match spot {
                Spot::Body(at) => places::put(body, at, text)?,
                Spot::Header(_) | Spot::Form(_) | Spot::Query(_) | Spot::Path(_) => {}
            }
        }
        match &self.marker {
            Some((contract, text)) => Ok(put_marker(contract, body, text)?),
            None => Ok(()),
        }
    }
}

fn put_marker(contract: &Contract, body: &mut Value, text: &str) -> Result<(), CannotPlace> {
    match &contract.marker {
        Some(field) => {
            let max = field.max_length.and_then(|max| usize::try_from(max).ok());
            places::put_marker(body, &field.at, field.how, max, text)
        }
        None => Ok(()),
    }
}

/// Why a request cannot carry its key. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    /// The contract has a place for one, and the dispatch has none.
    #[error("the contract has a place for a key, and the dispatch has no key")]
    Missing,
    /// The destination would refuse or cut it.
    #[error(transparent)]
    DoesNotFit(#[from] KeyDoesNotFit),
}
