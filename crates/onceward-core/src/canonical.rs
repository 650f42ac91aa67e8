//! Strict JSON and its canonical form: one text for one meaning, or a refusal that names the place.
//!
//! Two calls are compared by the bytes of their arguments' canonical form, so everything that two readers could
//! understand differently (a key given twice, an integer past 2^53 − 1, half a surrogate pair) is refused here,
//! before an operation exists. The rules are those of I-JSON (RFC 7493) for duplicate names, surrogates and
//! integers; the text is that of RFC 8785.

mod strict;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::limits::{ARGUMENTS_BYTES_MAX, JSON_DEPTH_MAX, JSON_NUMBER_MAX};
use crate::pointer::{Place, Pointer};

/// Reads strict JSON from bytes that nobody has parsed yet.
///
/// # Errors
/// See [`JsonProblem`]. Nothing was sent and no operation exists.
pub fn parse(bytes: &[u8]) -> Result<Canonical, InvalidJson> {
    if bytes.len() > ARGUMENTS_BYTES_MAX {
        return Err(InvalidJson::too_large(bytes.len()));
    }
    Canonical::of_strict(strict::read_bytes(bytes)?)
}

/// A JSON document in canonical form: its text (RFC 8785) and the value that a reader of that text sees.
///
/// The value is made from the text, not from what arrived: members are in canonical order, `1.0` and `1e0` are the
/// integer 1, `-0` is 0. So what is dispatched is exactly what was fingerprinted, and a value read back from the
/// ledger after a restart is the same, byte for byte when written, as the one that was first sent.
#[derive(Clone)]
pub struct Canonical {
    text: String,
    value: Value,
}

impl Canonical {
    /// Checks a value that arrives already parsed, by the rules of [`parse`].
    ///
    /// A key given twice cannot be seen any more in such a value; where the bytes are at hand, use [`parse`].
    ///
    /// # Errors
    /// See [`JsonProblem`].
    pub fn from_value(value: Value) -> Result<Canonical, InvalidJson> {
        Canonical::of_strict(strict::read_value(&value)?)
    }

    /// The arguments of a call that gives none: `{}`.
    pub fn empty_object() -> Canonical {
        Canonical { text: "{}".to_owned(), value: Value::Object(serde_json::Map::new()) }
    }

    /// The same document, if it is an object, as the arguments of a tool must be.
    ///
    /// # Errors
    /// [`JsonProblem::NotAnObject`].
    pub fn require_object(self) -> Result<Canonical, InvalidJson> {
        match self.value {
            Value::Object(_) => Ok(self),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(InvalidJson { place: Place::root(), problem: JsonProblem::NotAnObject })
            }
        }
    }

    /// The canonical text, at most [`ARGUMENTS_BYTES_MAX`] bytes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What a reader of the text sees.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What a reader of the text sees.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The canonical text of what is left once these fields are taken out, as [`Pointer::remove`] does.
    pub fn text_without<'p>(&self, pointers: impl IntoIterator<Item = &'p Pointer>) -> String {
        let mut left = self.value.clone();
        for pointer in pointers {
            pointer.remove(&mut left);
        }
        text_of(&left)
    }

    fn of_strict(value: Value) -> Result<Canonical, InvalidJson> {
        let text = text_of(&value);
        // The canonical text can be longer than what arrived (1e15 has sixteen digits). It must still be readable
        // when it comes back from the ledger, so it is held to the same limit.
        if text.len() > ARGUMENTS_BYTES_MAX {
            return Err(InvalidJson::too_large(text.len()));
        }
        let value = serde_json::from_str(&text).expect("canonical text is JSON");
        Ok(Canonical { text, value })
    }
}

/// Equal texts are equal documents; that is what the canonical form is for.
impl PartialEq for Canonical {
    fn eq(&self, other: &Canonical) -> bool {
        self.text == other.text
    }
}

impl Eq for Canonical {}

/// Shows the size only: arguments may hold what must not reach a log.
impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes)", self.text.len())
    }
}

/// Written as the value itself, not as a string that holds JSON.
impl Serialize for Canonical {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// Read by the strict rules, wherever it stands inside another document.
impl<'de> Deserialize<'de> for Canonical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Canonical, D::Error> {
        let value = strict::read_embedded(deserializer)?;
        Canonical::of_strict(value).map_err(serde::de::Error::custom)
    }
}

/// A document that is refused: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} ({place})")]
pub struct InvalidJson {
    /// The field, as a JSON Pointer; of text that cannot be read, the field that was being read.
    pub place: Place,
    /// What is wrong with it.
    pub problem: JsonProblem,
}

impl InvalidJson {
    fn too_large(bytes: usize) -> InvalidJson {
        InvalidJson { place: Place::root(), problem: JsonProblem::TooLarge { bytes } }
    }
}

/// Why a document is refused. Each says what to do instead, and none repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// The text breaks JSON's grammar; NaN and Infinity belong here, too.
    #[error("not JSON: {detail}; correct the text (NaN, Infinity, comments and trailing commas are not JSON)")]
    NotJson {
        /// What the reader expected, with line and column.
        detail: String,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8; send the text encoded as UTF-8")]
    NotUtf8,
    /// Something follows the document.
    #[error("bytes follow the end of the JSON document; send one document and nothing after it")]
    TrailingBytes,
    /// An escape names half of a surrogate pair, which is no character.
    #[error("an escape names half of a surrogate pair; send the whole pair, or leave the character out")]
    LoneSurrogate,
    /// One object has this key twice, and readers differ about which one counts.
    #[error("the key is given twice in one object; keep one of the two")]
    DuplicateKey,
    /// A number past ±(2^53 − 1), where neighbours become equal.
    #[error("the number is beyond ±{JSON_NUMBER_MAX}, where different numbers become equal; send it as a string")]
    NumberOutOfRange,
    /// More than [`JSON_DEPTH_MAX`] arrays and objects inside each other.
    #[error("nested more than {JSON_DEPTH_MAX} levels deep; flatten the document")]
    TooDeep,
    /// More than [`ARGUMENTS_BYTES_MAX`] bytes, as sent or in canonical form.
    #[error(
        "{bytes} bytes are more than the {ARGUMENTS_BYTES_MAX} allowed; send a reference to the content instead of the content"
    )]
    TooLarge {
        /// The size found.
        bytes: usize,
    },
    /// The arguments of a tool are an object.
    #[error("the arguments of a tool must be a JSON object; send {{}} for none")]
    NotAnObject,
}

impl JsonProblem {
    /// The name of the problem in answers, logs and the published vectors. Names are only ever added.
    pub fn code(&self) -> &'static str {
        match self {
            JsonProblem::NotJson { .. } => "not_json",
            JsonProblem::NotUtf8 => "not_utf8",
            JsonProblem::TrailingBytes => "trailing_bytes",
            JsonProblem::LoneSurrogate => "lone_surrogate",
            JsonProblem::DuplicateKey => "duplicate_key",
            JsonProblem::NumberOutOfRange => "number_out_of_range",
            JsonProblem::TooDeep => "too_deep",
            JsonProblem::TooLarge { .. } => "too_large",
            JsonProblem::NotAnObject => "not_an_object",
        }
    }
}

fn text_of(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value)
        .expect("a JSON value holds only finite numbers, so it has a canonical text")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn canonical(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(canonical) => canonical.text().to_owned(),
            Err(error) => panic!("{text} refused: {error}"),
        }
    }

    fn refused(bytes: &[u8]) -> (&'static str, String) {
        match parse(bytes) {
            Ok(canonical) => panic!("accepted: {}", canonical.text()),
            Err(error) => (error.problem.code(), error.place.pointer().to_string()),
        }
    }

    #[test]
    fn two_spellings_of_one_meaning_have_one_text() {
        assert_eq!(canonical(" { \"b\" : 1.0 , \"a\" : [ 1e2, -0, 0.0 ] } "), r#"{"a":[100,0,0],"b":1}"#);
        assert_eq!(canonical(r#""\u0041\/\u20ac""#), "\"A/€\"");
    }

    #[test]
    fn the_value_is_what_a_reader_of_the_text_sees() {
        let document = parse(br#"{"z":1.0,"a":-0.0,"m":{"y":1e2,"b":0.5}}"#).expect("valid");
        assert_eq!(document.value().to_string(), r#"{"a":0,"m":{"b":0.5,"y":100},"z":1}"#);
        let reread = parse(document.text().as_bytes()).expect("its own text is valid");
        assert_eq!(document.value().to_string(), reread.value().to_string());
    }

    #[test]
    fn depth_is_bounded_at_the_last_level_allowed() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let (code, place) = refused(nested(JSON_DEPTH_MAX + 1).as_bytes());
        assert_eq!((code, place), ("too_deep", "/0".repeat(JSON_DEPTH_MAX)));
        assert_eq!(refused(nested(100_000).as_bytes()).0, "too_deep");
    }

    #[test]
    fn size_is_bounded_as_sent_and_in_canonical_form() {
        let string = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
        assert!(parse(string(ARGUMENTS_BYTES_MAX).as_bytes()).is_ok());
        assert_eq!(refused(string(ARGUMENTS_BYTES_MAX + 1).as_bytes()).0, "too_large");
        let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
        assert_eq!(canonical(&padded(ARGUMENTS_BYTES_MAX)), "{}");
        assert_eq!(refused(padded(ARGUMENTS_BYTES_MAX + 1).as_bytes()).0, "too_large");
        let growing = format!("[{}1]", "1e15,".repeat(100_000));
        assert!(growing.len() < ARGUMENTS_BYTES_MAX);
        assert_eq!(refused(growing.as_bytes()).0, "too_large");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_where_they_stand() {
        assert_eq!(refused(b"{\"a\":[0,\"\xff\"]}"), ("not_utf8", "/a/1".to_owned()));
        assert_eq!(refused(b"{}\xff"), ("not_utf8", String::new()));
        assert_eq!(refused(b"{\"a\":1,\"a\":\"\xff\"}"), ("duplicate_key", "/a".to_owned()));
    }

    #[test]
    fn a_value_that_arrives_parsed_meets_the_same_rules() {
        let place_of = |value: Value| match Canonical::from_value(value) {
            Ok(canonical) => panic!("accepted: {}", canonical.text()),
            Err(error) => (error.problem.code(), error.place.pointer().to_string()),
        };
        assert_eq!(place_of(json!({"a": [1, u64::MAX]})), ("number_out_of_range", "/a/1".to_owned()));
        assert_eq!(place_of(json!({"a": 1e300})), ("number_out_of_range", "/a".to_owned()));
        assert_eq!(place_of(json!(i64::MIN)), ("number_out_of_range", String::new()));
        let deep = (0..=JSON_DEPTH_MAX).fold(json!(1), |inner, _| json!({ "x": inner }));
        assert_eq!(place_of(deep), ("too_deep", "/x".repeat(JSON_DEPTH_MAX)));
        let fine = Canonical::from_value(json!({"b": 1.0, "a": null})).expect("valid");
        assert_eq!(fine.text(), r#"{"a":null,"b":1}"#);
    }

    #[test]
    fn arguments_inside_another_document_are_read_by_the_same_rules() {
        #[derive(Debug, Deserialize)]
        struct Envelope {
            arguments: Canonical,
        }
        let fine: Envelope = serde_json::from_str(r#"{"arguments":{"b":2.0,"a":1}}"#).expect("valid");
        assert_eq!(fine.arguments.text(), r#"{"a":1,"b":2}"#);
        assert_eq!(serde_json::to_string(&fine.arguments).expect("serializes"), r#"{"a":1,"b":2}"#);
        for (text, place) in
            [(r#"{"arguments":{"x":{"a":1,"a":2}}}"#, "/x/a"), (r#"{"arguments":[9007199254740992]}"#, "/0")]
        {
            let error = serde_json::from_str::<Envelope>(text).expect_err("refused").to_string();
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn only_an_object_can_be_arguments() {
        for text in ["[]", "1", "\"{}\"", "null", "true"] {
            let error = parse(text.as_bytes()).expect("JSON").require_object().expect_err("no object");
            assert_eq!(error.problem, JsonProblem::NotAnObject);
        }
        assert_eq!(parse(b"{}").and_then(Canonical::require_object), Ok(Canonical::empty_object()));
    }

    #[test]
    fn a_refusal_says_what_where_and_what_to_do_and_repeats_no_value() {
        let error = parse(br#"{"order":{"card":"4242","card":"4343"}}"#).expect_err("refused").to_string();
        assert_eq!(error, "the key is given twice in one object; keep one of the two (at /order/card)");
        let document = parse(br#"{"card":"4242"}"#).expect("valid");
        assert_eq!(format!("{document:?}"), "Canonical(15 bytes)");
    }

    proptest! {
        #[test]
        fn the_canonical_text_of_a_canonical_text_is_itself(value in testing::document()) {
            let first = Canonical::from_value(value).expect("in range");
            let second = parse(first.text().as_bytes()).expect("canonical text is strict");
            prop_assert_eq!(first.text(), second.text());
            prop_assert_eq!(first.value().to_string(), second.value().to_string());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn nearly_json_is_refused_or_has_a_stable_text(text in r#"[\[\]{}:,"\\u0-9dDeE.+\-atrufalsn ]{0,40}"#) {
            if let Ok(document) = parse(text.as_bytes()) {
                let again = parse(document.text().as_bytes()).expect("canonical text is strict");
                prop_assert_eq!(document.text(), again.text());
            }
        }
    }
}
