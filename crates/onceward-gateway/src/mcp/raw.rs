//! A JSON object whose members are kept as they were written.
//!
//! An upstream server's result is passed on digit for digit: a parsed number may come out differently from what came in. What the
//! protocol needs of it is on top, so only the top is taken apart.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of an object in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Reads an object; `None` for anything else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The members of a value; none where it is no object.
    pub(crate) fn of(value: &Value) -> Self {
        Self::read(&value.to_string()).unwrap_or_default()
    }

    /// A member, parsed.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        serde_json::from_str(value.get()).ok()
    }

    /// Whether it has this member.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// The elements of a member that is a list, as they were written; none where it is no list.
    pub(crate) fn items(&self, name: &str) -> Vec<Box<RawValue>> {
        let member = self.0.iter().find(|(key, _)| key == name);
        member.and_then(|(_, value)| serde_json::from_str(value.get()).ok()).unwrap_or_default()
    }

    /// Puts a list in, of elements as they were written.
    pub(crate) fn set_items(&mut self, name: &str, items: &[Box<RawValue>]) {
        let texts: Vec<&str> = items.iter().map(|item| item.get()).collect();
        self.put(name, format!("[{}]", texts.join(",")));
    }

    /// Puts a member in, in the place of the one of that name.
    pub(crate) fn set(&mut self, name: &str, value: &Value) {
        self.put(name, value.to_string());
    }

    fn put(&mut self, name: &str, text: String) {
        let Ok(value) = RawValue::from_string(text) else { return };
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// The object as text.
    pub(crate) fn text(&self) -> String {
        let members = self.0.iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), value.get()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_keep_their_digits_and_their_order() {
        let text = r#"{"b":1.50,"a":{"big":12345678901234567890123,"own":null},"x\"y":[1e2]}"#;
        let mut object = RawObject::read(text).expect("an object");
        assert_eq!(object.text(), text);
        assert_eq!(object.get("b"), Some(json!(1.5)));
        object.set("b", &json!("new"));
        object.set("c", &json!(true));
        object.remove("x\"y");
        assert_eq!(object.text(), r#"{"b":"new","a":{"big":12345678901234567890123,"own":null},"c":true}"#);
        assert!(object.has("c") && !object.has("d"));
    }

    #[test]
    fn what_is_no_object_is_none() {
        assert!(RawObject::read("[1]").is_none() && RawObject::read("7").is_none() && RawObject::read("{").is_none());
    }
}
