//! The strict reader: one serde visitor behind every way in, so that bytes, parsed values and embedded documents
//! meet the same rules.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{InvalidJson, JsonProblem};
use crate::limits::{JSON_DEPTH_MAX, JSON_NUMBER_MAX};
use crate::pointer::Place;

/// Reads one document and nothing after it.
pub(super) fn read_bytes(bytes: &[u8]) -> Result<Value, InvalidJson> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read_text(text),
        Err(error) => Err(name_bad_utf8(&bytes[..error.valid_up_to()])),
    }
}

/// Reads a value that was parsed elsewhere.
pub(super) fn read_value(value: &Value) -> Result<Value, InvalidJson> {
    let mut trouble = Trouble::default();
    Strict::top(&mut trouble).deserialize(value).map_err(|error| trouble.into_invalid(&error))
}

/// Reads a document that stands inside another one.
pub(super) fn read_embedded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let mut trouble = Trouble::default();
    Strict::top(&mut trouble).deserialize(deserializer).map_err(|error| match trouble.problem.take() {
        Some(problem) => D::Error::custom(trouble.into_named(problem)),
        None => error,
    })
}

fn read_text(text: &str) -> Result<Value, InvalidJson> {
    let mut trouble = Trouble::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict::top(&mut trouble).deserialize(&mut reader).map_err(|error| trouble.into_invalid(&error))?;
    reader.end().map_err(|_| InvalidJson { place: Place::root(), problem: JsonProblem::TrailingBytes })?;
    Ok(value)
}

/// The text up to the bad byte tells where that byte stands, unless something in it is wrong already.
fn name_bad_utf8(before: &[u8]) -> InvalidJson {
    let before = std::str::from_utf8(before).expect("valid up to here");
    let mut trouble = Trouble::default();
    let mut reader = serde_json::Deserializer::from_str(before);
    match Strict::top(&mut trouble).deserialize(&mut reader) {
        Err(error) if trouble.problem.is_some() || !error.is_eof() => trouble.into_invalid(&error),
        Err(_) => trouble.into_named(JsonProblem::NotUtf8),
        Ok(_) => Trouble::default().into_named(JsonProblem::NotUtf8),
    }
}

/// What was wrong and where. Written only on the way out of a failure, so that a good document pays nothing for it.
#[derive(Default)]
struct Trouble {
    problem: Option<JsonProblem>,
    /// From the failing field outwards.
    path: Vec<String>,
}

impl Trouble {
    /// Remembers the problem; the reader's own error only carries the failure outwards.
    fn stop<E: Error>(&mut self, problem: JsonProblem) -> E {
        self.problem = Some(problem);
        E::custom("refused")
    }

    fn into_invalid(mut self, error: &serde_json::Error) -> InvalidJson {
        let problem = match self.problem.take() {
            Some(problem) => problem,
            None => problem_of(error),
        };
        self.into_named(problem)
    }

    fn into_named(self, problem: JsonProblem) -> InvalidJson {
        InvalidJson { place: Place::from_tokens(self.path.into_iter().rev().collect()), problem }
    }
}

/// Sorts the reader's own refusals for the caller's help. They are recognised by their wording, which the reader
/// does not promise; were it to change, the text would still be refused, only as `not_json`, and the vectors fail.
fn problem_of(error: &serde_json::Error) -> JsonProblem {
    let detail = error.to_string();
    if detail.starts_with("number out of range") {
        return JsonProblem::NumberOutOfRange;
    }
    if detail.starts_with("lone leading surrogate") || detail.starts_with("unexpected end of hex escape") {
        return JsonProblem::LoneSurrogate;
    }
    JsonProblem::NotJson { detail }
}

/// One value being read, `depth` arrays and objects below the top.
struct Strict<'t> {
    trouble: &'t mut Trouble,
    depth: usize,
}

impl<'t> Strict<'t> {
    fn top(trouble: &'t mut Trouble) -> Strict<'t> {
        Strict { trouble, depth: 0 }
    }

    fn inner(&mut self) -> Strict<'_> {
        Strict { trouble: self.trouble, depth: self.depth + 1 }
    }

    fn enter<E: Error>(&mut self) -> Result<(), E> {
        match self.depth < JSON_DEPTH_MAX {
            true => Ok(()),
            false => Err(self.trouble.stop(JsonProblem::TooDeep)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        match number.unsigned_abs() <= JSON_NUMBER_MAX {
            true => Ok(Value::Number(number.into())),
            false => Err(self.trouble.stop(JsonProblem::NumberOutOfRange)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        match number <= JSON_NUMBER_MAX {
            true => Ok(Value::Number(number.into())),
            false => Err(self.trouble.stop(JsonProblem::NumberOutOfRange)),
        }
    }

    /// Integers past 64 bits and `9007199254740993.0` arrive here, already rounded: hence the same limit.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        match Number::from_f64(number) {
            Some(finite) if number.abs() <= JSON_NUMBER_MAX as f64 => Ok(Value::Number(finite)),
            Some(_) | None => Err(self.trouble.stop(JsonProblem::NumberOutOfRange)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut read = Vec::new();
        loop {
            match elements.next_element_seed(self.inner()) {
                Ok(Some(element)) => read.push(element),
                Ok(None) => return Ok(Value::Array(read)),
                Err(error) => {
                    self.trouble.path.push(read.len().to_string());
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut read = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if read.contains_key(&key) {
                self.trouble.path.push(key);
                return Err(self.trouble.stop(JsonProblem::DuplicateKey));
            }
            match members.next_value_seed(self.inner()) {
                Ok(value) => {
                    read.insert(key, value);
                }
                Err(error) => {
                    self.trouble.path.push(key);
                    return Err(error);
                }
            }
        }
        Ok(Value::Object(read))
    }
}
