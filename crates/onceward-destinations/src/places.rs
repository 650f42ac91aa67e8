//! Putting the key and the marker into a JSON body, beside what the caller approved and never over it.

use onceward_core::contract::Match;
use onceward_core::pointer::Pointer;
use serde_json::{Map, Value};

/// Why something cannot be put there. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CannotPlace {
    /// What was approved has a value there already.
    #[error("the request has something at {0} already, where the destination expects our key or marker")]
    Taken(Pointer),
    /// A step of the way is no object.
    #[error("the request has no object around {0}")]
    NoObject(Pointer),
    /// The text with the marker would not fit, and a cut marker finds other things.
    #[error("the text at {at} with our marker has {bytes} bytes, and the destination takes {max}")]
    TooLong { at: Pointer, bytes: usize, max: usize },
}

/// Puts `text` where nothing is yet; objects on the way are made.
pub(crate) fn put(document: &mut Value, at: &Pointer, text: &str) -> Result<(), CannotPlace> {
    let slot = slot(document, at)?;
    match slot {
        Value::Null => {
            *slot = Value::String(text.to_owned());
            Ok(())
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(CannotPlace::Taken(at.clone()))
        }
    }
}

/// Puts the marker into a field: as the field itself, or as one more element of its list, or as one more word of its text.
pub(crate) fn put_marker(
    document: &mut Value,
    at: &Pointer,
    how: Match,
    max: Option<usize>,
    marker: &str,
) -> Result<(), CannotPlace> {
    match how {
        Match::Equals => put(document, at, marker)?,
        Match::Element => {
            let slot = slot(document, at)?;
            match slot {
                Value::Null => *slot = Value::Array(vec![Value::String(marker.to_owned())]),
                Value::Array(elements) => elements.push(Value::String(marker.to_owned())),
                Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                    return Err(CannotPlace::Taken(at.clone()));
                }
            }
        }
        Match::Contains => {
            let slot = slot(document, at)?;
            match slot {
                Value::Null => *slot = Value::String(marker.to_owned()),
                Value::Array(elements) => elements.push(Value::String(marker.to_owned())),
                Value::String(text) => *text = format!("{text} {marker}"),
                Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(CannotPlace::Taken(at.clone())),
            }
        }
    }
    match (at.get(document).and_then(Value::as_str), max) {
        (Some(text), Some(max)) if text.len() > max => {
            Err(CannotPlace::TooLong { at: at.clone(), bytes: text.len(), max })
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

fn slot<'a>(document: &'a mut Value, at: &Pointer) -> Result<&'a mut Value, CannotPlace> {
    let mut here = document;
    for token in at.tokens() {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        here = match here {
            Value::Object(members) => members.entry(token.clone()).or_insert(Value::Null),
            // Into an element that is there; a list that was approved gets no elements on the way.
            Value::Array(elements) => {
                let element = token.parse().ok().and_then(|index: usize| elements.get_mut(index));
                element.ok_or_else(|| CannotPlace::NoObject(at.clone()))?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(CannotPlace::NoObject(at.clone()));
            }
        };
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    #[test]
    fn a_key_is_put_beside_what_was_approved_and_never_over_it() {
        let mut body = json!({ "a": 1 });
        put(&mut body, &at("/metadata/key"), "K").unwrap();
        assert_eq!(body, json!({ "a": 1, "metadata": { "key": "K" } }));
        assert!(matches!(put(&mut body, &at("/a"), "K"), Err(CannotPlace::Taken(_))));
        assert!(matches!(put(&mut body, &at("/a/b"), "K"), Err(CannotPlace::NoObject(_))));
    }

    #[test]
    fn a_marker_that_is_an_element_makes_the_list_that_is_missing() {
        let mut body = json!({ "labels": ["x"], "text": "Hello" });
        put_marker(&mut body, &at("/labels"), Match::Element, None, "M").unwrap();
        put_marker(&mut body, &at("/watchers"), Match::Element, None, "M").unwrap();
        assert!(put_marker(&mut body, &at("/text"), Match::Element, None, "M").is_err(), "a text is no list");
        assert_eq!(body, json!({ "labels": ["x", "M"], "text": "Hello", "watchers": ["M"] }));
    }

    #[test]
    fn a_marker_goes_into_an_element_of_a_list_and_makes_none() {
        let mut body = json!({ "entities": [{ "notes": ["x"] }] });
        put_marker(&mut body, &at("/entities/0/notes"), Match::Contains, None, "M").unwrap();
        assert_eq!(body, json!({ "entities": [{ "notes": ["x", "M"] }] }));
        for nowhere in ["/entities/1/notes", "/entities/x/notes", "/entities/-/notes"] {
            let refused = put_marker(&mut body, &at(nowhere), Match::Contains, None, "M");
            assert!(matches!(refused, Err(CannotPlace::NoObject(_))), "{nowhere}");
        }
    }

    #[test]
    fn a_marker_joins_a_list_or_a_text() {
        let mut body = json!({ "labels": ["x"], "text": "Hello" });
        put_marker(&mut body, &at("/labels"), Match::Contains, None, "M").unwrap();
        put_marker(&mut body, &at("/text"), Match::Contains, Some(7), "M").unwrap();
        assert_eq!(body, json!({ "labels": ["x", "M"], "text": "Hello M" }));
        let refused = put_marker(&mut body, &at("/text"), Match::Contains, Some(8), "M");
        assert!(matches!(refused, Err(CannotPlace::TooLong { bytes: 9, max: 8, .. })));
    }
}
