//! Schemas of an OpenAPI description, as JSON Schema has them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The most schemas that one tool carries along: a description in which everything names everything is not copied into each tool.
const DEFINITIONS_MAX: usize = 200;

/// The schema of a tool's arguments in the making.
#[derive(Default)]
pub(super) struct Schema {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Schema {
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        schema: &Value,
        description: Option<&str>,
        required: bool,
    ) -> Result<(), String> {
        let mut schema = modern(schema.clone());
        if let (Some(members), Some(description)) = (schema.as_object_mut(), description) {
            members.entry("description").or_insert_with(|| description.into());
        }
        if self.properties.insert(name.to_owned(), schema).is_some() {
            return Err(format!("two of its parameters are called {name:?}"));
        }
        if required {
            self.required.push(name.to_owned());
        }
        Ok(())
    }

    /// The schema with every other one that it names.
    pub(super) fn whole(self, document: &Value) -> Result<Value, String> {
        let mut schema = json!({ "type": "object", "properties": self.properties });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if let Some(place) = foreign(&schema) {
            return Err(format!("its schema names {place:?}, which lies in another file"));
        }
        let mut definitions = Map::new();
        let mut wanted = names(&schema);
        while let Some(name) = wanted.pop_first() {
            if definitions.contains_key(&name) {
                continue;
            }
            if definitions.len() == DEFINITIONS_MAX {
                return Err(format!("its schema names more than {DEFINITIONS_MAX} others"));
            }
            let found =
                document["components"]["schemas"].get(&name).ok_or_else(|| format!("there is no schema {name:?}"))?;
            let found = modern(found.clone());
            if let Some(place) = foreign(&found) {
                return Err(format!("the schema {name:?} names {place:?}, which lies in another file"));
            }
            wanted.extend(names(&found));
            definitions.insert(name, found);
        }
        if !definitions.is_empty() {
            schema["$defs"] = definitions.into();
        }
        Ok(schema)
    }
}

const SCHEMAS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

/// A reference that leads out of the description.
fn foreign(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(members) => members.iter().find_map(|(key, value)| match value.as_str() {
            Some(place) if key == "$ref" && !place.starts_with('#') => Some(place),
            Some(_) => None,
            None => foreign(value),
        }),
        Value::Array(elements) => elements.iter().find_map(foreign),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Whether a value of this schema has parts.
pub(super) fn is_list(schema: &Value) -> bool {
    ["array", "object"].iter().any(|kind| schema["type"] == *kind)
}

/// The schemas that a schema names.
fn names(schema: &Value) -> BTreeSet<String> {
    match schema {
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match value.as_str().and_then(|text| text.strip_prefix(DEFINITIONS)) {
                Some(name) if key == "$ref" => BTreeSet::from([name.to_owned()]),
                Some(_) | None => names(value),
            })
            .collect(),
        Value::Array(elements) => elements.iter().flat_map(names).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeSet::new(),
    }
}

/// A schema as JSON Schema has it: OpenAPI 3.0 writes null and exclusive bounds in its own way, and examples are left out.
fn modern(schema: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            for noise in ["example", "examples", "xml", "externalDocs", "discriminator", "deprecated", "default"] {
                members.remove(noise);
            }
            if members.remove("nullable") == Some(true.into())
                && let Some(kind) = members.get("type").cloned()
                && kind.is_string()
            {
                members.insert("type".to_owned(), json!([kind, "null"]));
            }
            for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
                match members.get(exclusive) {
                    Some(Value::Bool(true)) => {
                        let number = members.remove(bound);
                        members.remove(exclusive);
                        members.extend(number.map(|number| (exclusive.to_owned(), number)));
                    }
                    Some(Value::Bool(false)) => drop(members.remove(exclusive)),
                    Some(_) | None => {}
                }
            }
            // What only answers have is demanded of nobody.
            let read_only: Vec<String> = members
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .filter(|(_, member)| member["readOnly"] == true)
                .map(|(name, _)| name.clone())
                .collect();
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.retain(|name| !read_only.iter().any(|only| name == only.as_str()));
            }
            if let Some(Value::String(place)) = members.get_mut("$ref") {
                *place = place.replace(SCHEMAS, DEFINITIONS);
            }
            members.into_iter().map(|(key, value)| (key, modern(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(elements) => elements.into_iter().map(modern).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
