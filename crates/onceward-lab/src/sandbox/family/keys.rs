//! Where a contract's key travels, and what a key must look like to be taken.

use axum::http::StatusCode;
use axum::http::request::Parts;
use onceward_core::contract::{CompanionValue, Contract, Encoding, Format, KeyRules, LengthUnit, Place, Required};
use onceward_core::pointer::Pointer;
use serde_json::Value;

use crate::sandbox::problem::Answer;

/// A key where it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) place: Place,
    name: String,
    /// As it was written.
    text: String,
}

impl Sighting {
    /// Without the quotes of a structured string.
    pub(super) fn plain(&self) -> String {
        unquoted(&self.text).unwrap_or(&self.text).to_owned()
    }

    /// Removes the key from what is compared.
    pub(super) fn take_out_of(&self, body: &mut Value, query: &mut Vec<(String, String)>) {
        match self.place {
            Place::Body | Place::Form | Place::Field | Place::Argument => {
                if let Some(at) = pointer(&self.name) {
                    at.remove(body);
                }
            }
            Place::Param => {
                query.retain(|(name, _)| *name != self.name);
                if let Some(at) = pointer(&self.name) {
                    at.remove(body);
                }
            }
            Place::Query => query.retain(|(name, _)| *name != self.name),
            Place::Header | Place::Path | Place::McpMeta | Place::GraphqlDirective | Place::Jwt | Place::SmtpHeader => {
            }
        }
    }
}

/// A field's name, as a JSON Pointer or as forms nest it.
fn pointer(name: &str) -> Option<Pointer> {
    if name.starts_with('/') {
        return Pointer::parse(name).ok();
    }
    Pointer::parse(&format!("/{}", name.replace('[', "/").replace(']', ""))).ok()
}

/// The key, at the first of its places where there is one.
pub(super) fn sighted(rules: &KeyRules, parts: &Parts, query: &[(String, String)], body: &Value) -> Option<Sighting> {
    rules.carriers.iter().find_map(|carrier| {
        let text = text_at(carrier.place, &carrier.name, parts, query, body)?;
        Some(Sighting { place: carrier.place, name: carrier.name.clone(), text })
    })
}

fn text_at(place: Place, name: &str, parts: &Parts, query: &[(String, String)], body: &Value) -> Option<String> {
    let in_query = || query.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let in_body = || match pointer(name)?.get(body)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match place {
        Place::Header => Some(parts.headers.get(name)?.to_str().unwrap_or_default().to_owned()),
        Place::Body | Place::Form | Place::Field | Place::Argument => in_body(),
        Place::Param => in_query().or_else(in_body),
        Place::Query => in_query(),
        Place::Path => {
            let path = parts.uri.path().trim_end_matches('/');
            let (before, last) = path.rsplit_once('/')?;
            (!before.is_empty() && !last.is_empty()).then(|| super::requests::decoded(last))
        }
        // These belong to other protocols.
        Place::McpMeta | Place::GraphqlDirective | Place::Jwt | Place::SmtpHeader => None,
    }
}

/// The key of a write, if the request may be carried out under it; `None` where there is none and none is needed.
///
/// # Errors
/// The refusal. Nothing has been done and nothing is remembered.
pub(super) fn admitted(
    family: &Contract,
    sighting: Option<&Sighting>,
    parts: &Parts,
    query: &[(String, String)],
    body: &Value,
) -> Result<Option<String>, Answer> {
    let refused = |code: &str, detail: String| Answer::problem(StatusCode::BAD_REQUEST, code, detail);
    let Some(rules) = &family.key else { return Ok(None) };
    let Some(sighting) = sighting else {
        return match rules.required {
            Required::Yes => Err(refused("key_required", "This request needs an idempotency key.".to_owned())),
            Required::No | Required::Conditional => Ok(None),
        };
    };
    let key = match rules.encoding {
        Encoding::Raw => sighting.text.as_str(),
        Encoding::SfString => unquoted(&sighting.text)
            .ok_or_else(|| refused("key_malformed", "The key is no structured string in quotes.".to_owned()))?,
    };
    if let Some(wrong) = unfit(rules, key) {
        return Err(refused("key_malformed", wrong));
    }
    for companion in &rules.companions {
        let said = text_at(companion.place, &companion.name, parts, query, body);
        let fits = match (&companion.value, said.as_deref()) {
            (_, None) => false,
            (CompanionValue::FirstSentHttpDate, Some(text)) => http_date_us(text).is_some(),
            (CompanionValue::Text(wanted), Some(text)) => wanted == text,
            (CompanionValue::Made(_), Some(text)) => !text.is_empty(),
        };
        if !fits {
            return Err(refused("companion_malformed", format!("{} is missing or malformed.", companion.name)));
        }
    }
    Ok(Some(key.to_owned()))
}

/// When the client says that it first sent this, where the contract has a companion for it.
pub(super) fn first_sent_us(family: &Contract, parts: &Parts, query: &[(String, String)], body: &Value) -> Option<i64> {
    let companion =
        family.key.as_ref()?.companions.iter().find(|one| one.value == CompanionValue::FirstSentHttpDate)?;
    http_date_us(&text_at(companion.place, &companion.name, parts, query, body)?)
}

fn unfit(rules: &KeyRules, key: &str) -> Option<String> {
    let length = match rules.length_unit {
        LengthUnit::Chars => key.chars().count(),
        LengthUnit::Bytes => key.len(),
    };
    let min = rules.min_length.map_or(1, |min| min as usize);
    let max = rules.max_length.map_or(usize::MAX, |max| max as usize);
    if length < min || length > max {
        return Some(format!("The key has {length} characters; it must have {min} to {max}."));
    }
    let fits = match rules.format {
        Format::Any => true,
        Format::PrintableAscii => key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()),
        Format::Uuid => uuid::Uuid::parse_str(key).is_ok() && key.len() == 36,
        Format::AlnumDashUnderscore => {
            key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        }
    };
    (!fits).then(|| "The key has characters that are not allowed in it.".to_owned())
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// `Sun, 29 Nov 2026 17:00:00 GMT` in microseconds.
fn http_date_us(text: &str) -> Option<i64> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new();
    text.ends_with(" GMT").then(|| parser.parse_timestamp(text).ok().map(jiff::Timestamp::as_microsecond)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> KeyRules {
        toml::from_str(&format!("carriers = [{{ in = \"header\", name = \"Idempotency-Key\" }}]\n{text}")).expect(text)
    }

    #[test]
    fn a_key_is_taken_as_the_contract_describes_it() {
        assert_eq!(unfit(&rules(""), "k"), None);
        for (text, key) in [
            ("min_length = 5", "abcd"),
            ("max_length = 3", "abcd"),
            ("format = \"uuid\"", "abcd"),
            ("format = \"alnum_dash_underscore\"", "a.b"),
            ("format = \"printable_ascii\"", "a\tb"),
        ] {
            assert!(unfit(&rules(text), key).is_some(), "{text}");
        }
        let umlauts = "äöü";
        assert_eq!(unfit(&rules("max_length = 3\nlength_unit = \"chars\""), umlauts), None);
        assert!(unfit(&rules("max_length = 3\nlength_unit = \"bytes\""), umlauts).is_some());
    }

    #[test]
    fn an_http_date_is_read() {
        assert_eq!(http_date_us("Thu, 01 Jan 1970 00:00:01 GMT"), Some(1_000_000));
        assert_eq!(http_date_us("yesterday"), None);
    }
}
