//! JSON Pointers (RFC 6901), parsed once: the fields that are not compared, and the places that answers name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::limits::{JSON_DEPTH_MAX, PLACE_BYTES_MAX, POINTER_BYTES_MAX};

/// A parsed JSON Pointer. The empty pointer names the whole document.
///
/// A pointer is literal: it has no wildcard, and `-` (the element after the last) names nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pointer {
    tokens: Vec<String>,
}

impl Pointer {
    /// The pointer to the whole document.
    pub fn root() -> Pointer {
        Pointer::default()
    }

    /// Parses `/a/b~1c/0`, at most [`POINTER_BYTES_MAX`] bytes and [`JSON_DEPTH_MAX`] steps.
    ///
    /// # Errors
    /// The text does not follow RFC 6901, or is over a limit.
    pub fn parse(text: &str) -> Result<Pointer, InvalidPointer> {
        if text.len() > POINTER_BYTES_MAX {
            return Err(InvalidPointer::TooLong { bytes: text.len() });
        }
        if text.is_empty() {
            return Ok(Pointer::root());
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(InvalidPointer::NoLeadingSlash { text: text.to_owned() });
        };
        let tokens = rest
            .split('/')
            .map(|token| unescape(token).ok_or_else(|| InvalidPointer::BadEscape { text: text.to_owned() }))
            .collect::<Result<Vec<_>, _>>()?;
        if tokens.len() > JSON_DEPTH_MAX {
            return Err(InvalidPointer::TooDeep { steps: tokens.len() });
        }
        Ok(Pointer { tokens })
    }

    pub(crate) fn from_tokens(tokens: Vec<String>) -> Pointer {
        Pointer { tokens }
    }

    /// The steps from the root, unescaped. A step into an array is its index in decimal.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Whether this names the whole document.
    pub fn is_root(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether `other` names the same field, or one inside it.
    pub fn contains(&self, other: &Pointer) -> bool {
        other.tokens.starts_with(&self.tokens)
    }

    /// The value this names, if the document has it.
    pub fn get<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.tokens.iter().try_fold(document, |at, token| match at {
            Value::Object(members) => members.get(token),
            Value::Array(elements) => elements.get(array_index(token)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Takes out the value this names and returns it; the other values keep their places.
    ///
    /// A member leaves its object. An element of an array leaves `null` behind: were it to leave a gap, its
    /// neighbours would move, and the result of two removals would depend on their order. The whole document has
    /// nothing to be taken out of, so the root takes nothing.
    pub fn remove(&self, document: &mut Value) -> Option<Value> {
        let (last, parents) = self.tokens.split_last()?;
        let parent = parents.iter().try_fold(document, |at, token| match at {
            Value::Object(members) => members.get_mut(token),
            Value::Array(elements) => elements.get_mut(array_index(token)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })?;
        match parent {
            Value::Object(members) => members.shift_remove(last),
            Value::Array(elements) => elements.get_mut(array_index(last)?).map(Value::take),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| write!(f, "/{}", escape(token)))
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer({:?})", self.to_string())
    }
}

impl FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Pointer, InvalidPointer> {
        Pointer::parse(text)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pointer, D::Error> {
        let text = String::deserialize(deserializer)?;
        Pointer::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Why a text is no JSON Pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPointer {
    /// A pointer to anything but the whole document starts with `/`.
    #[error("the JSON Pointer {text:?} must start with \"/\": write \"/{text}\"")]
    NoLeadingSlash {
        /// The text as given.
        text: String,
    },
    /// `~` is written `~0`, and `/` inside a name `~1`.
    #[error("the JSON Pointer {text:?} has a \"~\" that is not part of \"~0\" (for ~) or \"~1\" (for /)")]
    BadEscape {
        /// The text as given.
        text: String,
    },
    /// Longer than [`POINTER_BYTES_MAX`].
    #[error("the JSON Pointer has {bytes} bytes, more than {POINTER_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Deeper than any document that is accepted.
    #[error("the JSON Pointer has {steps} steps, more than the {JSON_DEPTH_MAX} that a document may be deep")]
    TooDeep {
        /// Its steps.
        steps: usize,
    },
}

/// A place in a document, as answers name it: at most [`PLACE_BYTES_MAX`] bytes long.
///
/// Names of members come from the caller and may be as long as the arguments. Instead of cutting such a name, the
/// answer names the nearest enclosing field that fits and says that the place is inside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// This field.
    At(Pointer),
    /// A field somewhere inside this one, whose own pointer is too long to be shown.
    Inside(Pointer),
}

impl Place {
    /// The whole document.
    pub fn root() -> Place {
        Place::At(Pointer::root())
    }

    /// The pointer to the field, or to the nearest enclosing field that fits.
    pub fn pointer(&self) -> &Pointer {
        match self {
            Place::At(pointer) | Place::Inside(pointer) => pointer,
        }
    }

    pub(crate) fn from_tokens(mut tokens: Vec<String>) -> Place {
        let mut bytes = 0;
        let fitting = tokens
            .iter()
            .take_while(|token| {
                bytes += 1 + escape(token).len();
                bytes <= PLACE_BYTES_MAX
            })
            .count();
        if fitting == tokens.len() {
            return Place::At(Pointer::from_tokens(tokens));
        }
        tokens.truncate(fitting);
        Place::Inside(Pointer::from_tokens(tokens))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::At(pointer) if pointer.is_root() => f.write_str("at the top level"),
            Place::At(pointer) => write!(f, "at {pointer}"),
            Place::Inside(pointer) if pointer.is_root() => f.write_str("inside the top level"),
            Place::Inside(pointer) => write!(f, "inside {pointer}"),
        }
    }
}

/// An index as RFC 6901 writes it: decimal, without sign or leading zeros.
fn array_index(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = token.len() > 1 && token.starts_with('0');
    if !digits || leading_zero {
        return None;
    }
    token.parse().ok()
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

fn unescape(token: &str) -> Option<String> {
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(char) = chars.next() {
        match char {
            '~' => match chars.next()? {
                '0' => out.push('~'),
                '1' => out.push('/'),
                _ => return None,
            },
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).expect("a valid pointer")
    }

    #[test]
    fn the_examples_of_rfc_6901_name_their_values() {
        let document = json!({
            "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
        });
        let cases = [
            ("", document.clone()),
            ("/foo", json!(["bar", "baz"])),
            ("/foo/0", json!("bar")),
            ("/", json!(0)),
            ("/a~1b", json!(1)),
            ("/c%d", json!(2)),
            ("/e^f", json!(3)),
            ("/g|h", json!(4)),
            ("/i\\j", json!(5)),
            ("/k\"l", json!(6)),
            ("/ ", json!(7)),
            ("/m~0n", json!(8)),
        ];
        for (text, expected) in cases {
            assert_eq!(pointer(text).get(&document), Some(&expected), "{text}");
            assert_eq!(pointer(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let document = json!({"foo": ["bar"], "s": "text"});
        for text in ["/fo", "/foo/1", "/foo/-", "/foo/00", "/foo/+0", "/foo/", "/foo/0/x", "/s/0"] {
            assert_eq!(pointer(text).get(&document), None, "{text}");
            assert_eq!(pointer(text).remove(&mut document.clone()), None, "{text}");
        }
    }

    #[test]
    fn bad_text_is_refused_with_the_way_out() {
        let error = Pointer::parse("body").expect_err("no slash");
        assert!(error.to_string().contains("write \"/body\""), "{error}");
        for text in ["/a~", "/a~2", "/~~0"] {
            assert!(matches!(Pointer::parse(text), Err(InvalidPointer::BadEscape { .. })), "{text}");
        }
        let long = format!("/{}", "a".repeat(POINTER_BYTES_MAX));
        assert!(matches!(Pointer::parse(&long), Err(InvalidPointer::TooLong { .. })));
        let deep = "/a".repeat(JSON_DEPTH_MAX + 1);
        assert!(matches!(Pointer::parse(&deep), Err(InvalidPointer::TooDeep { .. })));
        assert!(Pointer::parse(&"/a".repeat(JSON_DEPTH_MAX)).is_ok());
        assert!(serde_json::from_str::<Pointer>("\"body\"").is_err());
    }

    #[test]
    fn a_member_leaves_and_its_neighbours_stay_in_order() {
        let mut document = json!({"a": 1, "b": {"x": 2, "y": 3}, "c": 4, "d": 5});
        assert_eq!(pointer("/a").remove(&mut document), Some(json!(1)));
        assert_eq!(pointer("/b/x").remove(&mut document), Some(json!(2)));
        assert_eq!(document.to_string(), r#"{"b":{"y":3},"c":4,"d":5}"#);
    }

    #[test]
    fn an_element_leaves_null_so_that_the_order_of_removals_does_not_matter() {
        let (first, second) = (pointer("/0"), pointer("/1"));
        let mut forwards = json!(["a", "b", "c"]);
        first.remove(&mut forwards);
        second.remove(&mut forwards);
        let mut backwards = json!(["a", "b", "c"]);
        second.remove(&mut backwards);
        first.remove(&mut backwards);
        assert_eq!(forwards, json!([null, null, "c"]));
        assert_eq!(forwards, backwards);
    }

    #[test]
    fn the_root_takes_nothing_out() {
        let mut document = json!({"a": 1});
        assert_eq!(Pointer::root().remove(&mut document), None);
        assert_eq!(document, json!({"a": 1}));
    }

    #[test]
    fn a_place_too_long_to_show_is_named_by_what_encloses_it() {
        let short = Place::from_tokens(vec!["a".into(), "b".into()]);
        assert_eq!(short.to_string(), "at /a/b");
        let exact = Place::from_tokens(vec!["x".repeat(PLACE_BYTES_MAX - 1)]);
        assert!(matches!(exact, Place::At(_)));
        let long = Place::from_tokens(vec!["a".into(), "x".repeat(PLACE_BYTES_MAX), "b".into()]);
        assert_eq!(long, Place::Inside(pointer("/a")));
        assert_eq!(serde_json::to_value(&long).expect("serializes"), json!({"inside": "/a"}));
    }
}
