//! The JSON Schema of a tool's arguments: compiled once, asked before a claim is made.

use jsonschema::{PatternOptions, Validator};
use onceward_core::canonical::Canonical;
use onceward_core::pointer::Pointer;
use serde_json::Value;

use crate::limits::{VIOLATION_BYTES_MAX, VIOLATIONS_MAX};

/// What arguments must look like.
#[derive(Clone, Debug)]
pub struct Schema {
    document: Value,
    validator: Validator,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It does not say that arguments are an object.
    #[error("a tool's arguments are an object: write type = \"object\"")]
    NotAnObject,
    /// It is no JSON Schema.
    #[error("{message}")]
    Invalid {
        /// What is wrong, and where in the schema.
        message: String,
    },
}

/// One thing that is wrong with arguments.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The field, as a JSON Pointer; the nearest enclosing one where the pointer itself is too long.
    pub at: Pointer,
    /// What is wrong, in words of the schema. The value is not repeated.
    pub message: String,
}

/// Arguments that a schema does not admit. Nothing was claimed and nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[error("the arguments do not fit the tool's schema: {}", self.first())]
pub struct Violations {
    /// The first ones, at most [`VIOLATIONS_MAX`].
    pub violations: Vec<Violation>,
    /// How many more there are.
    pub more: usize,
}

impl Violations {
    fn first(&self) -> String {
        let mut lines: Vec<String> = self
            .violations
            .iter()
            .map(|violation| match violation.at.is_root() {
                true => format!("at the top level {}", violation.message),
                false => format!("at {} {}", violation.at, violation.message),
            })
            .collect();
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines.join("; ")
    }
}

impl Schema {
    /// Compiles a schema. It is read by itself alone: a reference to another document is refused, not fetched.
    ///
    /// # Errors
    /// [`SchemaError`] says what is wrong with it.
    pub fn compile(document: Value) -> Result<Self, SchemaError> {
        if document.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        // The plain engine takes linear time: a pattern of the configuration meets texts that a model wrote.
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&document)
            .map_err(|error| SchemaError::Invalid { message: error.to_string() })?;
        Ok(Self { document, validator })
    }

    /// A schema that admits every object.
    ///
    /// # Errors
    /// Never in practice; the type says it because the schema goes the way of all others.
    pub fn any_object() -> Result<Self, SchemaError> {
        Self::compile(serde_json::json!({ "type": "object" }))
    }

    /// A schema that is shown and not asked: one of somebody else's server, which checks its arguments itself, and which this
    /// engine cannot compile.
    ///
    /// # Errors
    /// Never in practice, as for [`Self::any_object`].
    pub fn unchecked(document: Value) -> Result<Self, SchemaError> {
        Ok(Self { document, ..Self::any_object()? })
    }

    /// The schema as it was written.
    #[must_use]
    pub const fn document(&self) -> &Value {
        &self.document
    }

    /// Checks arguments.
    ///
    /// # Errors
    /// [`Violations`] names the fields.
    pub fn check(&self, arguments: &Canonical) -> Result<(), Violations> {
        let mut errors = self.validator.iter_errors(arguments.value());
        let violations: Vec<Violation> = errors.by_ref().take(VIOLATIONS_MAX).map(|error| violation(&error)).collect();
        match violations.is_empty() {
            true => Ok(()),
            false => Err(Violations { violations, more: errors.count() }),
        }
    }
}

fn violation(error: &jsonschema::ValidationError<'_>) -> Violation {
    let mut message = error.masked_with("the value").to_string();
    if message.len() > VIOLATION_BYTES_MAX {
        message = format!("the value breaks the schema's \"{}\"", error.kind().keyword());
    }
    Violation { at: nearest(error.instance_path().as_str()), message }
}

/// The pointer, or the longest beginning of it that is a pointer within the limits.
fn nearest(path: &str) -> Pointer {
    let mut path = path;
    loop {
        match (Pointer::parse(path), path.rfind('/')) {
            (Ok(pointer), _) => return pointer,
            (Err(_), Some(cut)) => path = &path[..cut],
            (Err(_), None) => return Pointer::root(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ticket() -> Schema {
        Schema::compile(json!({
            "type": "object", "required": ["title"], "additionalProperties": false,
            "properties": {
                "title": { "type": "string", "maxLength": 5 },
                "tags": { "type": "array", "items": { "enum": ["a", "b"] } },
            },
        }))
        .unwrap()
    }

    fn check(value: Value) -> Result<(), Violations> {
        ticket().check(&Canonical::from_value(value).unwrap())
    }

    #[test]
    fn a_violation_names_its_field_by_pointer() {
        assert_eq!(check(json!({ "title": "ok", "tags": ["a"] })), Ok(()));
        let violations = check(json!({ "title": "ok", "tags": ["a", "x"] })).unwrap_err();
        assert_eq!(violations.violations[0].at.to_string(), "/tags/1");
        assert!(check(json!({})).unwrap_err().to_string().contains("title"));
    }

    #[test]
    fn a_violation_does_not_repeat_the_value() {
        let violations = check(json!({ "title": "s3cret text" })).unwrap_err();
        assert!(!violations.to_string().contains("s3cret"), "{violations}");
        assert!(violations.to_string().contains("/title"), "{violations}");
    }

    #[test]
    fn many_violations_are_counted_and_not_listed() {
        let tags: Vec<u32> = (0..100).collect();
        let violations = check(json!({ "title": "ok", "tags": tags })).unwrap_err();
        assert_eq!(violations.violations.len(), VIOLATIONS_MAX);
        assert_eq!(violations.more, 100 - VIOLATIONS_MAX);
    }

    #[test]
    fn a_schema_that_admits_other_things_than_objects_or_points_outside_is_refused() {
        assert_eq!(Schema::compile(json!({ "type": "array" })).unwrap_err(), SchemaError::NotAnObject);
        assert_eq!(Schema::compile(json!(true)).unwrap_err(), SchemaError::NotAnObject);
        for broken in [
            json!({ "type": "object", "required": "title" }),
            json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:1/schema.json" } } }),
            json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }),
        ] {
            assert!(matches!(Schema::compile(broken.clone()), Err(SchemaError::Invalid { .. })), "{broken}");
        }
    }

    #[test]
    fn a_field_whose_name_is_too_long_is_named_by_what_encloses_it() {
        let long = "x".repeat(2000);
        let violations = check(json!({ "title": "ok", "tags": { &long: 1 } })).unwrap_err();
        assert_eq!(violations.violations[0].at.to_string(), "/tags");
        assert_eq!(nearest(&format!("/tags/{long}")).to_string(), "/tags");
    }
}
