//! From an operation's arguments back to the client's request: its bytes, with our key in the place of the client's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use onceward_core::canonical::Canonical;
use serde_json::Value;

use super::SENT;
use super::key_spot::KeySpot;
use crate::carrier::Carried;
use crate::limits::HEADER_VALUE_BYTES_MAX;
use crate::mapping::Rendered;
use crate::tool::Unmappable;

/// Whose key goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhoseKey {
    /// Ours: no two tenants behind one account can meet (R4).
    #[default]
    Ours,
    /// The client's own, where it sent one: the destination serves one tenant.
    Caller,
}

/// How arguments that hold a request become it again.
#[derive(Clone, Debug)]
pub(crate) struct AsTheyCame {
    pub(crate) spot: KeySpot,
    pub(crate) key: WhoseKey,
}

impl AsTheyCame {
    /// The request. What is compared is not looked at: the bytes that leave are those that came.
    pub(crate) fn render(&self, arguments: &Canonical, carried: &Carried<'_>) -> Result<Rendered, Unmappable> {
        let held = Held(arguments.value());
        let sent = held.part(SENT)?;
        let method: Method = held.text("method")?.parse().map_err(|_| broken("method"))?;
        let mut headers = HeaderMap::new();
        let kept = [held.0.get("headers"), held.0.get("conditions"), sent.0.get("headers")];
        for named in kept.into_iter().flatten() {
            for (name, value) in named.as_object().into_iter().flatten() {
                let name: HeaderName = name.parse().map_err(|_| broken("headers"))?;
                let value = value.as_str().ok_or_else(|| broken("headers"))?;
                headers.insert(name.clone(), header_value(&name, value)?);
            }
        }
        for (name, text) in carried.headers() {
            headers.insert(name.clone(), header_value(name, text)?);
        }
        let mut target = sent.text("target")?.to_owned();
        let mut body = match sent.0.get("body") {
            Some(Value::String(text)) => Some(STANDARD.decode(text).map_err(|_| broken("body"))?),
            Some(_) => return Err(broken("body")),
            None => None,
        };
        match (self.key, sent.0.get("key").and_then(Value::as_str)) {
            (WhoseKey::Caller, Some(key)) => {
                if let KeySpot::Header(name, _) = &self.spot {
                    headers.insert(name.clone(), header_value(name, key)?);
                }
            }
            (WhoseKey::Ours, _) | (WhoseKey::Caller, None) => {
                if let Some(key) = carried.key() {
                    target = self.spot.in_target(target, key);
                    body = match body {
                        Some(body) => Some(self.spot.in_body(body, key)?),
                        None if self.spot.needs_body() => Some(self.spot.in_body(Vec::new(), key)?),
                        None => None,
                    };
                }
            }
        }
        Ok(Rendered { method, target, headers, body })
    }

    /// The key that an attempt carried, where it was the client's own: a lookup asks for that one.
    pub(crate) fn callers_key<'a>(&self, arguments: &'a Canonical) -> Option<&'a str> {
        match self.key {
            WhoseKey::Caller => arguments.value().get(SENT)?.get("key")?.as_str(),
            WhoseKey::Ours => None,
        }
    }
}

/// Arguments as they were stored. That a part is missing means that somebody else made them.
struct Held<'a>(&'a Value);

impl<'a> Held<'a> {
    fn part(&self, name: &str) -> Result<Held<'a>, Unmappable> {
        self.0.get(name).map(Held).ok_or_else(|| broken(name))
    }

    fn text(&self, name: &str) -> Result<&'a str, Unmappable> {
        self.0.get(name).and_then(Value::as_str).ok_or_else(|| broken(name))
    }
}

fn broken(part: &str) -> Unmappable {
    Unmappable::Body { message: format!("the arguments hold no request that came through the proxy ({part})") }
}

fn header_value(name: &HeaderName, text: &str) -> Result<HeaderValue, Unmappable> {
    let sound =
        text.len() <= HEADER_VALUE_BYTES_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match (sound, HeaderValue::from_str(text)) {
        (true, Ok(value)) => Ok(value),
        (true | false, _) => Err(Unmappable::Header { header: name.to_string() }),
    }
}
