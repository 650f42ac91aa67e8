//! From a client's request to an operation's arguments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
};
use http::{HeaderMap, HeaderValue};
use onceward_core::canonical::Canonical;
use serde_json::{Map, Value, json};

use super::key_spot::{Parts, one_text};
use super::{Incoming, NotTaken, Proxy, SENT, Taken, content};
use crate::limits::TARGET_BYTES_MAX;
use crate::mapping::Rendered;
use crate::tool::Unmappable;

/// What makes a write conditional. Left behind, it would be another write: one that overwrites what somebody else has changed.
const CONDITIONS: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

/// What makes another request of the one that it stands on. It is neither passed on nor left behind.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// What a write is, with what leaves of it.
pub(super) fn taken(proxy: &Proxy, incoming: &Incoming) -> Result<Taken, NotTaken> {
    let Incoming { method, target, headers, body } = incoming;
    check_target(target)?;
    check_method(headers)?;
    let key = proxy.spot.find(&Parts { headers, target, body })?;
    let content_type = one_text(headers, &CONTENT_TYPE)?;
    let encoding = one_text(headers, &CONTENT_ENCODING)?;
    let mut compared = Map::new();
    compared.insert("method".to_owned(), method.as_str().into());
    compared.insert("target".to_owned(), proxy.spot.compared_target(target).into());
    insert_some(&mut compared, "headers", texts(headers, &proxy.scope_headers)?);
    if let Some(content_type) = &content_type {
        compared.insert("media_type".to_owned(), content::media_type(content_type).into());
    }
    insert_some(&mut compared, "conditions", texts(headers, &CONDITIONS)?);
    if let Some(encoding) = &encoding {
        compared.insert("content_encoding".to_owned(), encoding.as_str().into());
    }
    // What is packed says nothing before it is unpacked, and is compared by its bytes.
    let said = if encoding.is_some() { None } else { content_type.as_deref() };
    match content::content(said.unwrap_or_default(), body, &proxy.spot) {
        Value::Null => {}
        content => {
            compared.insert("content".to_owned(), content);
        }
    }
    let mut sent = Map::new();
    sent.insert("target".to_owned(), target.as_str().into());
    let mut along = texts(headers, &proxy.pinned_headers)?;
    let accept = one_text(headers, &ACCEPT)?;
    for (name, value) in [(&CONTENT_TYPE, content_type), (&CONTENT_ENCODING, encoding), (&ACCEPT, accept)] {
        if let Some(value) = value {
            along.insert(name.to_string(), value.into());
        }
    }
    insert_some(&mut sent, "headers", along);
    if let Some(key) = &key {
        sent.insert("key".to_owned(), key.as_str().into());
    }
    if !body.is_empty() {
        sent.insert("body".to_owned(), STANDARD.encode(body).into());
    }
    compared.insert(SENT.to_owned(), Value::Object(sent));
    Ok(Taken { arguments: Canonical::from_value(Value::Object(compared))?, key })
}

/// A read as it is passed on; nothing of it is kept.
pub(super) fn passed(proxy: &Proxy, incoming: &Incoming) -> Result<Rendered, NotTaken> {
    let Incoming { method, target, headers, body } = incoming;
    check_target(target)?;
    check_method(headers)?;
    let mut along = HeaderMap::new();
    let always = [CONTENT_TYPE, CONTENT_ENCODING, ACCEPT];
    for name in proxy.scope_headers.iter().chain(&proxy.pinned_headers).chain(&always).chain(&CONDITIONS) {
        if let Some(text) = one_text(headers, name)? {
            let value = HeaderValue::from_str(&text).map_err(|_| NotTaken::Header(name.clone()))?;
            along.insert(name.clone(), value);
        }
    }
    let body = (!body.is_empty()).then(|| body.to_vec());
    Ok(Rendered { method: method.clone(), target: target.clone(), headers: along, body })
}

/// A path with a dot segment is resolved on the way and leads elsewhere, also past a rule that names reads by their paths.
fn check_target(target: &str) -> Result<(), NotTaken> {
    if target.len() > TARGET_BYTES_MAX {
        return Err(Unmappable::TargetTooLong { bytes: target.len() }.into());
    }
    let path = target.split('?').next().unwrap_or_default();
    let dots = |segment: &str| {
        matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..") || segment.contains('\\')
    };
    if !path.starts_with('/') || path.starts_with("//") || path.split('/').any(dots) {
        return Err(Unmappable::Path.into());
    }
    Ok(())
}

/// A request whose method is another than it says is no read and no write that anybody could name.
fn check_method(headers: &HeaderMap) -> Result<(), NotTaken> {
    match OVERRIDES.iter().find(|name| headers.contains_key(**name)) {
        Some(name) => Err(NotTaken::Override(name)),
        None => Ok(()),
    }
}

/// Those of these headers that the request has.
fn texts(headers: &HeaderMap, names: &[HeaderName]) -> Result<Map<String, Value>, NotTaken> {
    let mut texts = Map::new();
    for name in names {
        if let Some(text) = one_text(headers, name)? {
            texts.insert(name.to_string(), json!(text));
        }
    }
    Ok(texts)
}

fn insert_some(into: &mut Map<String, Value>, name: &str, members: Map<String, Value>) {
    if !members.is_empty() {
        into.insert(name.to_owned(), Value::Object(members));
    }
}
