//! What a scenario found: named numbers and texts, in the order in which they are told.

use serde::Serialize;
use serde_json::{Map, Value};

/// The findings of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Findings(Map<String, Value>);

impl Findings {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// And this one.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.insert(field.to_owned(), value.into());
        self
    }

    /// A field; null where there is none.
    #[must_use]
    pub fn get(&self, field: &str) -> Value {
        self.0.get(field).cloned().unwrap_or_default()
    }

    /// The sentence with each `{field}` replaced by what was found.
    #[must_use]
    pub fn tell(&self, sentence: &str) -> String {
        self.0
            .iter()
            .fold(sentence.to_owned(), |text, (field, value)| text.replace(&format!("{{{field}}}"), &plain(value)))
    }
}

/// A value as people write it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_tells_what_was_found() {
        let findings = Findings::new().with("tickets", 2).with("ids", json!(["T-1", "T-2"]));
        assert_eq!(findings.tell("{tickets} tickets: {ids}"), "2 tickets: T-1, T-2");
    }
}
