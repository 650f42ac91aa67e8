//! Typed predicates over an answer: bounded data instead of an expression language, so that there is no parser to attack.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pointer::Pointer;

/// A condition on an answer, written in TOML as `{ status = [400] }`, `{ all_of = [ … ] }` and so on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    /// The status is one of these.
    Status(Vec<u16>),
    /// The status lies in one of these hundreds: `[4]` is any 4xx.
    StatusClass(Vec<u16>),
    /// A header of this name is there.
    HeaderExists(String),
    /// A header has exactly this value, letter case aside.
    HeaderEquals(HeaderValue),
    /// A header's value contains one of these, letter case aside.
    HeaderContains(HeaderTexts),
    /// The body has something at this place.
    BodyExists(Pointer),
    /// The body has exactly this at that place.
    BodyEquals(BodyValue),
    /// The body has one of these at that place.
    BodyIn(BodyValues),
    /// The body's text at that place contains one of these, letter case aside.
    BodyTextContains(BodyTexts),
    /// Some element of the list at a place satisfies this. Pointers inside are relative to the element.
    AnyElement(AnyElement),
    /// The list at a place has fewer elements than that: a page that is not full is the last one.
    FewerElements(FewerElements),
    /// The answer's text contains one of these, letter case aside.
    TextContains(Vec<String>),
    /// The answer's text begins with one of these, letter case aside. For what is said before any work: in the middle of a text
    /// the same words may be quoted from somewhere else.
    TextStartsWith(Vec<String>),
    /// One of these holds.
    AnyOf(Vec<Predicate>),
    /// All of these hold. An empty list holds never: a condition that was left out must not match everything.
    AllOf(Vec<Predicate>),
    /// None of these holds. An empty list holds never. What is not there does not hold, so this is no way to recognise a
    /// success or a refusal: use it to tell apart what something else has recognised.
    NoneOf(Vec<Predicate>),
}

/// A header and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderValue {
    /// The header's name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A header and texts that may stand in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderTexts {
    /// The header's name.
    pub name: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// A place in the body and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyValue {
    /// The place.
    pub at: Pointer,
    /// The value.
    pub value: Value,
}

/// A place in the body and the values it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyValues {
    /// The place.
    pub at: Pointer,
    /// The values.
    pub values: Vec<Value>,
}

/// A place in the body and texts that may stand in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyTexts {
    /// The place.
    pub at: Pointer,
    /// The texts.
    pub texts: Vec<String>,
}

/// A list in the body and what one of its elements satisfies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnyElement {
    /// The list's place.
    pub at: Pointer,
    /// What one element satisfies.
    pub is: Box<Predicate>,
}

/// A list in the body and how long it would be if there were more of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FewerElements {
    /// The list's place.
    pub at: Pointer,
    /// How many elements a full page has.
    pub than: u32,
}

/// An answer as predicates see it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The status, where the protocol has one.
    pub status: Option<u16>,
    /// The headers.
    pub headers: &'a [(String, String)],
    /// The body, where it is JSON.
    pub body: Option<&'a Value>,
    /// The body as text, where it is text.
    pub text: &'a str,
}

impl Seen<'_> {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.headers, name)
    }
}

/// The first header of that name, letter case aside.
#[must_use]
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

impl Predicate {
    /// Whether it holds for that answer.
    #[must_use]
    pub fn holds(&self, seen: &Seen<'_>) -> bool {
        match self {
            Self::Status(statuses) => seen.status.is_some_and(|status| statuses.contains(&status)),
            Self::StatusClass(classes) => seen.status.is_some_and(|status| classes.contains(&(status / 100))),
            Self::HeaderExists(name) => seen.header(name).is_some(),
            Self::HeaderEquals(wanted) => {
                seen.header(&wanted.name).is_some_and(|value| value.eq_ignore_ascii_case(&wanted.value))
            }
            Self::HeaderContains(wanted) => {
                seen.header(&wanted.name).is_some_and(|value| contains_any(value, &wanted.texts))
            }
            Self::TextContains(texts) => contains_any(seen.text, texts),
            Self::TextStartsWith(texts) => starts_with_any(seen.text, texts),
            Self::BodyExists(_)
            | Self::BodyEquals(_)
            | Self::BodyIn(_)
            | Self::BodyTextContains(_)
            | Self::AnyElement(_)
            | Self::FewerElements(_) => seen.body.is_some_and(|body| self.holds_in(body, seen)),
            Self::AnyOf(parts) => parts.iter().any(|part| part.holds(seen)),
            Self::AllOf(parts) => !parts.is_empty() && parts.iter().all(|part| part.holds(seen)),
            Self::NoneOf(parts) => !parts.is_empty() && !parts.iter().any(|part| part.holds(seen)),
        }
    }

    fn holds_in(&self, body: &Value, seen: &Seen<'_>) -> bool {
        match self {
            Self::BodyExists(at) => at.get(body).is_some(),
            Self::BodyEquals(wanted) => wanted.at.get(body) == Some(&wanted.value),
            Self::BodyIn(wanted) => wanted.at.get(body).is_some_and(|value| wanted.values.contains(value)),
            Self::BodyTextContains(wanted) => {
                wanted.at.get(body).and_then(Value::as_str).is_some_and(|text| contains_any(text, &wanted.texts))
            }
            Self::AnyElement(wanted) => wanted.at.get(body).and_then(Value::as_array).is_some_and(|elements| {
                elements.iter().any(|element| wanted.is.holds(&Seen { body: Some(element), ..*seen }))
            }),
            Self::FewerElements(wanted) => wanted
                .at
                .get(body)
                .and_then(Value::as_array)
                .is_some_and(|elements| elements.len() < wanted.than as usize),
            Self::Status(_)
            | Self::StatusClass(_)
            | Self::HeaderExists(_)
            | Self::HeaderEquals(_)
            | Self::HeaderContains(_)
            | Self::TextContains(_)
            | Self::TextStartsWith(_)
            | Self::AnyOf(_)
            | Self::AllOf(_)
            | Self::NoneOf(_) => self.holds(seen),
        }
    }

    /// Whether it, or a part of it, holds for every answer or for none: a mistake in a contract.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        match self {
            Self::Status(list) | Self::StatusClass(list) => list.is_empty(),
            Self::TextContains(texts) | Self::TextStartsWith(texts) => matches_anything(texts),
            Self::BodyTextContains(wanted) => matches_anything(&wanted.texts),
            Self::HeaderContains(wanted) => matches_anything(&wanted.texts),
            Self::FewerElements(wanted) => wanted.than == 0,
            Self::BodyIn(wanted) => wanted.values.is_empty(),
            Self::AnyElement(wanted) => wanted.is.is_vacuous(),
            Self::AnyOf(parts) | Self::AllOf(parts) | Self::NoneOf(parts) => {
                parts.is_empty() || parts.iter().any(Self::is_vacuous)
            }
            Self::HeaderExists(_) | Self::HeaderEquals(_) | Self::BodyExists(_) | Self::BodyEquals(_) => false,
        }
    }
}

/// Whether a list of texts holds nothing, or a text that every other one contains.
fn matches_anything(texts: &[String]) -> bool {
    texts.is_empty() || texts.iter().any(|text| text.trim().is_empty())
}

fn contains_any(text: &str, wanted: &[String]) -> bool {
    let text = text.to_lowercase();
    wanted.iter().any(|part| text.contains(&part.to_lowercase()))
}

fn starts_with_any(text: &str, wanted: &[String]) -> bool {
    let text = text.to_lowercase();
    wanted.iter().any(|beginning| text.starts_with(&beginning.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(predicate: &str, status: u16, body: &str) -> bool {
        #[derive(Deserialize)]
        struct Line {
            when: Predicate,
        }
        let line: Line = toml::from_str(&format!("when = {predicate}")).unwrap();
        let json = serde_json::from_str(body).ok();
        let headers = [("X-State".to_owned(), "Rejected".to_owned())];
        line.when.holds(&Seen { status: Some(status), headers: &headers, body: json.as_ref(), text: body })
    }

    #[test]
    fn predicates_read_the_status_the_headers_and_the_body() {
        let body = r#"{"error":{"type":"idempotency_error"},"items":[{"code":1},{"code":2}]}"#;
        assert!(holds("{ status = [400, 409] }", 409, body));
        assert!(holds("{ status_class = [4] }", 451, body));
        assert!(holds("{ header_equals = { name = \"x-state\", value = \"rejected\" } }", 400, body));
        assert!(holds("{ body_equals = { at = \"/error/type\", value = \"idempotency_error\" } }", 400, body));
        assert!(holds("{ body_in = { at = \"/items/0/code\", values = [7, 1] } }", 400, body));
        assert!(holds("{ body_text_contains = { at = \"/error/type\", texts = [\"Idempotency\"] } }", 400, body));
        assert!(holds(
            "{ any_element = { at = \"/items\", is = { body_equals = { at = \"/code\", value = 2 } } } }",
            400,
            body
        ));
        assert!(holds("{ any_of = [{ status = [1] }, { body_exists = \"/items\" }] }", 400, body));
        assert!(!holds("{ all_of = [{ status = [1] }, { body_exists = \"/items\" }] }", 400, body));
    }

    #[test]
    fn the_last_page_of_a_list_is_told_by_its_length_or_by_what_is_missing() {
        assert!(holds("{ fewer_elements = { at = \"\", than = 3 } }", 200, "[1,2]"));
        assert!(!holds("{ fewer_elements = { at = \"\", than = 2 } }", 200, "[1,2]"));
        assert!(!holds("{ fewer_elements = { at = \"/items\", than = 2 } }", 200, "{}"), "no list is not a short one");
        assert!(holds("{ header_contains = { name = \"x-state\", texts = [\"reject\"] } }", 200, "{}"));
        assert!(!holds(
            "{ none_of = [{ header_contains = { name = \"x-state\", texts = [\"reject\"] } }] }",
            200,
            "{}"
        ));
        assert!(holds("{ none_of = [{ header_exists = \"link\" }] }", 200, "{}"));
    }

    #[test]
    fn a_beginning_is_not_found_in_the_middle() {
        assert!(holds("{ text_starts_with = [\"Access denied - \"] }", 400, "access denied - /etc"));
        assert!(!holds("{ text_starts_with = [\"Access denied - \"] }", 400, "Created, then: Access denied - /etc"));
        assert!(!holds("{ text_starts_with = [] }", 400, "x"));
    }

    #[test]
    fn a_condition_that_was_left_out_matches_nothing() {
        assert!(!holds("{ all_of = [] }", 200, "{}"));
        assert!(!holds("{ any_of = [] }", 200, "{}"));
        assert!(!holds("{ none_of = [] }", 200, "{}"));
        assert!(!holds("{ text_contains = [] }", 200, "{}"));
    }

    #[test]
    fn a_body_that_is_not_json_satisfies_no_pointer() {
        assert!(!holds("{ body_exists = \"\" }", 200, "<html>"));
        assert!(holds("{ text_contains = [\"<HTML\"] }", 200, "<html>"));
    }
}
