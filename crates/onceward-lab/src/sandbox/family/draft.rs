//! Making an answer that a condition of the contract holds for.

use onceward_core::contract::{Locator, Predicate};
use onceward_core::pointer::Pointer;
use serde_json::{Map, Value};

/// Elements that a place in an answer may make a list long: no contract points further.
const ELEMENTS_MAX: usize = 64;

/// An answer that is being made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

/// Puts a value at a place; objects and lists on the way are made, and what is in the way is replaced.
pub(crate) fn put(document: &mut Value, at: &Pointer, value: Value) {
    put_at(document, at.tokens(), value);
}

/// The same for steps that are no pointer, such as those of a form field. An empty step is the element after the last.
pub(super) fn put_at<T: AsRef<str>>(document: &mut Value, steps: &[T], value: Value) {
    let mut here = document;
    for token in steps {
        here = step(here, token.as_ref());
    }
    *here = value;
}

fn step<'a>(here: &'a mut Value, token: &str) -> &'a mut Value {
    let index = match token {
        "" => here.as_array().map_or(Some(0), |elements| Some(elements.len())),
        digits => digits.parse::<usize>().ok(),
    }
    .filter(|index| *index < ELEMENTS_MAX);
    let fits = match here {
        Value::Object(_) => !token.is_empty(),
        Value::Array(_) => index.is_some(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if !fits {
        *here = if index.is_some() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    }
    match (here, index) {
        (Value::Array(elements), Some(index)) => {
            if elements.len() <= index {
                elements.resize(index + 1, Value::Null);
            }
            &mut elements[index]
        }
        (other, _) => {
            if !other.is_object() {
                *other = Value::Object(Map::new());
            }
            &mut other[token]
        }
    }
}

impl Draft {
    pub(super) fn header(&mut self, name: &str, value: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a text where the contract looks for it.
    pub(super) fn put(&mut self, at: &Locator, text: &str) {
        match at {
            Locator::Header(name) => self.header(name, text),
            Locator::Body(at) => put(&mut self.body, at, text.into()),
        }
    }

    /// Changes the answer until the condition holds for it. `message_at` is where a text for people stands.
    pub(super) fn satisfy(&mut self, condition: &Predicate, message_at: &Pointer) {
        match condition {
            Predicate::Status(statuses) => {
                if !statuses.contains(&self.status)
                    && let Some(first) = statuses.first()
                {
                    self.status = *first;
                }
            }
            Predicate::StatusClass(classes) => {
                if !classes.contains(&(self.status / 100))
                    && let Some(class) = classes.first()
                {
                    self.status = class * 100;
                }
            }
            Predicate::HeaderExists(name) => self.header(name, "true"),
            Predicate::HeaderEquals(wanted) => self.header(&wanted.name, &wanted.value),
            Predicate::HeaderContains(wanted) => {
                if let Some(first) = wanted.texts.first() {
                    self.header(&wanted.name, first);
                }
            }
            Predicate::BodyExists(at) => {
                if at.get(&self.body).is_none() {
                    put(&mut self.body, at, "there".into());
                }
            }
            Predicate::BodyEquals(wanted) => put(&mut self.body, &wanted.at, wanted.value.clone()),
            Predicate::BodyIn(wanted) => {
                if let Some(first) = wanted.values.first() {
                    put(&mut self.body, &wanted.at, first.clone());
                }
            }
            Predicate::BodyTextContains(wanted) => {
                if let Some(first) = wanted.texts.first() {
                    put(&mut self.body, &wanted.at, first.as_str().into());
                }
            }
            Predicate::AnyElement(wanted) => {
                let mut element = Self { status: self.status, headers: Vec::new(), body: Value::Object(Map::new()) };
                element.satisfy(&wanted.is, message_at);
                put(&mut self.body, &wanted.at, Value::Array(vec![element.body]));
            }
            Predicate::TextContains(texts) | Predicate::TextStartsWith(texts) => {
                if let Some(first) = texts.first() {
                    put(&mut self.body, message_at, first.as_str().into());
                }
            }
            Predicate::AnyOf(parts) => {
                if let Some(first) = parts.first() {
                    self.satisfy(first, message_at);
                }
            }
            Predicate::AllOf(parts) => parts.iter().for_each(|part| self.satisfy(part, message_at)),
            Predicate::NoneOf(parts) => parts.iter().for_each(|part| self.contradict(part)),
            Predicate::FewerElements(wanted) => {
                if let Some(Value::Array(elements)) = wanted.at.get(&self.body) {
                    let kept = elements.iter().take(wanted.than.saturating_sub(1) as usize).cloned().collect();
                    put(&mut self.body, &wanted.at, Value::Array(kept));
                }
            }
        }
    }

    /// Changes the answer so that the condition does not hold, where that is a matter of one field.
    pub(super) fn contradict(&mut self, condition: &Predicate) {
        match condition {
            Predicate::BodyEquals(wanted) => {
                let other = match &wanted.value {
                    Value::Bool(value) => Value::Bool(!value),
                    Value::Null => "more".into(),
                    Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Value::Null,
                };
                put(&mut self.body, &wanted.at, other);
            }
            Predicate::BodyExists(at) => {
                at.remove(&mut self.body);
            }
            Predicate::AllOf(parts) => {
                if let Some(first) = parts.first() {
                    self.contradict(first);
                }
            }
            Predicate::AnyOf(parts) => parts.iter().for_each(|part| self.contradict(part)),
            Predicate::HeaderContains(_)
            | Predicate::FewerElements(_)
            | Predicate::NoneOf(_)
            | Predicate::Status(_)
            | Predicate::StatusClass(_)
            | Predicate::HeaderExists(_)
            | Predicate::HeaderEquals(_)
            | Predicate::BodyIn(_)
            | Predicate::BodyTextContains(_)
            | Predicate::AnyElement(_)
            | Predicate::TextContains(_)
            | Predicate::TextStartsWith(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward_core::contract::Seen;
    use serde_json::json;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).expect(text)
    }

    #[test]
    fn a_value_is_put_at_a_place_that_was_not_there() {
        let mut body = json!({ "error": "text" });
        put(&mut body, &pointer("/error/code"), 7.into());
        put(&mut body, &pointer("/list/1/id"), "b".into());
        put_at(&mut body, &["tags", ""], "x".into());
        put_at(&mut body, &["tags", ""], "y".into());
        assert_eq!(body, json!({ "error": { "code": 7 }, "list": [null, { "id": "b" }], "tags": ["x", "y"] }));
    }

    #[test]
    fn every_condition_can_be_made_to_hold_as_the_gateway_would_read_it() {
        let conditions = [
            r#"{"status":[409]}"#,
            r#"{"status_class":[4]}"#,
            r#"{"header_exists":"X-Done"}"#,
            r#"{"header_equals":{"name":"X-State","value":"rejected"}}"#,
            r#"{"body_exists":"/error/code"}"#,
            r#"{"body_equals":{"at":"/error/type","value":"idempotency_error"}}"#,
            r#"{"body_in":{"at":"/errors/0/code","values":[7,8]}}"#,
            r#"{"body_text_contains":{"at":"/error/message","texts":["exists"]}}"#,
            r#"{"any_element":{"at":"/errors","is":{"body_equals":{"at":"/code","value":"DUP"}}}}"#,
            r#"{"text_contains":["already exists"]}"#,
            r#"{"any_of":[{"status":[409]},{"body_exists":"/x"}]}"#,
            r#"{"all_of":[{"status":[422]},{"body_equals":{"at":"/name","value":"X"}}]}"#,
        ];
        for text in conditions {
            let condition: Predicate = serde_json::from_str(text).expect(text);
            let mut draft = Draft { status: 200, headers: Vec::new(), body: json!({}) };
            draft.satisfy(&condition, &pointer("/message"));
            let written = draft.body.to_string();
            let seen =
                Seen { status: Some(draft.status), headers: &draft.headers, body: Some(&draft.body), text: &written };
            assert!(condition.holds(&seen), "{text}: {draft:?}");
        }
    }

    #[test]
    fn a_list_that_is_not_whole_says_so() {
        let whole: Predicate =
            serde_json::from_str(r#"{"body_equals":{"at":"/has_more","value":false}}"#).expect("one");
        let mut draft = Draft { status: 200, headers: Vec::new(), body: json!({}) };
        draft.contradict(&whole);
        assert_eq!(draft.body, json!({ "has_more": true }));
    }
}
