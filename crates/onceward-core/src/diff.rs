//! Which fields differ between two documents: what a conflict tells its caller.
//!
//! Only places and kinds are named, never values: a conflict may be read by someone who guesses at another caller's
//! arguments, and it is logged.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::Canonical;
use crate::fingerprint::Comparison;
use crate::limits::DIFFERENCES_MAX;
use crate::pointer::{Place, Pointer};

/// Names every field in which `offered` differs from `stored`, under the comparison that the row was made with.
///
/// No compared difference is named exactly when the fingerprints of the two are equal.
pub fn diff(stored: &Canonical, offered: &Canonical, comparison: &Comparison) -> Differences {
    let mut walk = Walk { comparison, steps: Vec::new(), found: Differences::default() };
    walk.values(stored.value(), offered.value());
    walk.found
}

/// How two documents differ, in the order of the canonical text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Differences {
    /// The first [`DIFFERENCES_MAX`] fields that make it another intention.
    pub compared: Vec<Difference>,
    /// How many more of those there are.
    pub more: u64,
    /// The fields whose first text stands and whose text differs in the offered document.
    pub free_text: Vec<Difference>,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Which field.
    #[serde(flatten)]
    pub place: Place,
    /// How.
    pub kind: DifferenceKind,
}

/// How a field differs, seen from the stored document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Only the offered document has it.
    Added,
    /// Only the stored document has it.
    Removed,
    /// Both have it, with different values.
    Changed,
}

/// How a field takes part.
enum Part {
    Compared,
    FreeText,
    Volatile,
}

#[derive(Clone, Copy)]
enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

impl Step<'_> {
    fn token(self) -> String {
        match self {
            Step::Key(key) => key.to_owned(),
            Step::Index(index) => index.to_string(),
        }
    }

    fn is(self, token: &str) -> bool {
        match self {
            Step::Key(key) => key == token,
            Step::Index(index) => index.to_string() == token,
        }
    }
}

struct Walk<'v> {
    comparison: &'v Comparison,
    steps: Vec<Step<'v>>,
    found: Differences,
}

impl<'v> Walk<'v> {
    fn values(&mut self, stored: &'v Value, offered: &'v Value) {
        match (stored, offered) {
            (Value::Object(stored), Value::Object(offered)) => self.objects(stored, offered),
            (Value::Array(stored), Value::Array(offered)) => self.arrays(stored, offered),
            (stored, offered) if stored == offered => {}
            (_, _) => self.compared(DifferenceKind::Changed),
        }
    }

    fn objects(&mut self, stored: &'v Map<String, Value>, offered: &'v Map<String, Value>) {
        let keys: BTreeSet<CanonicalKey<'v>> = stored.keys().chain(offered.keys()).map(CanonicalKey::of).collect();
        for key in keys {
            self.steps.push(Step::Key(key.text));
            match (stored.get(key.text), offered.get(key.text)) {
                (Some(stored), Some(offered)) => self.both(stored, offered),
                (None, _) => self.one(DifferenceKind::Added),
                (Some(_), None) => self.one(DifferenceKind::Removed),
            }
            self.steps.pop();
        }
    }

    fn arrays(&mut self, stored: &'v [Value], offered: &'v [Value]) {
        for (index, (stored, offered)) in stored.iter().zip(offered).enumerate() {
            self.steps.push(Step::Index(index));
            self.both(stored, offered);
            self.steps.pop();
        }
        // An element that only one has is compared even where its value is not: how many there are counts.
        let kind = match stored.len() < offered.len() {
            true => DifferenceKind::Added,
            false => DifferenceKind::Removed,
        };
        for index in stored.len().min(offered.len())..stored.len().max(offered.len()) {
            self.steps.push(Step::Index(index));
            self.compared(kind);
            self.steps.pop();
        }
    }

    fn both(&mut self, stored: &'v Value, offered: &'v Value) {
        match self.part() {
            Part::Compared => self.values(stored, offered),
            Part::FreeText if stored != offered => self.free_text(DifferenceKind::Changed),
            Part::FreeText | Part::Volatile => {}
        }
    }

    fn one(&mut self, kind: DifferenceKind) {
        match self.part() {
            Part::Compared => self.compared(kind),
            Part::FreeText => self.free_text(kind),
            Part::Volatile => {}
        }
    }

    fn part(&self) -> Part {
        let names = |pointer: &Pointer| {
            pointer.tokens().len() == self.steps.len()
                && pointer.tokens().iter().zip(&self.steps).all(|(token, step)| step.is(token))
        };
        if self.comparison.free_text().iter().any(names) {
            return Part::FreeText;
        }
        match self.comparison.volatile().iter().any(names) {
            true => Part::Volatile,
            false => Part::Compared,
        }
    }

    fn compared(&mut self, kind: DifferenceKind) {
        if self.found.compared.len() == DIFFERENCES_MAX {
            self.found.more += 1;
            return;
        }
        let place = self.place();
        self.found.compared.push(Difference { place, kind });
    }

    /// Bounded by the number of free-text fields, which is never above [`DIFFERENCES_MAX`].
    fn free_text(&mut self, kind: DifferenceKind) {
        let place = self.place();
        self.found.free_text.push(Difference { place, kind });
    }

    fn place(&self) -> Place {
        Place::from_tokens(self.steps.iter().map(|step| step.token()).collect())
    }
}

/// A key in the order of the canonical text: by UTF-16 code units, not by code points.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CanonicalKey<'v> {
    units: Vec<u16>,
    text: &'v str,
}

impl<'v> CanonicalKey<'v> {
    fn of(text: &'v String) -> CanonicalKey<'v> {
        CanonicalKey { units: text.encode_utf16().collect(), text }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn comparison(free_text: &[&str], volatile: &[&str]) -> Comparison {
        let parse = |texts: &[&str]| texts.iter().map(|text| Pointer::parse(text).expect("valid")).collect();
        Comparison::new(parse(free_text), parse(volatile)).expect("valid")
    }

    fn check(stored: Value, offered: Value, comparison: &Comparison, compared: &[&str], free_text: &[&str]) {
        let canonical = |value| Canonical::from_value(value).expect("valid");
        let found = diff(&canonical(stored), &canonical(offered), comparison);
        let shown = |differences: &[Difference]| {
            differences
                .iter()
                .map(|difference| format!("{:?} {}", difference.kind, difference.place.pointer()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&found.compared), compared);
        assert_eq!(shown(&found.free_text), free_text);
    }

    #[test]
    fn each_field_that_differs_is_named_and_no_other() {
        check(
            json!({"a": 1, "b": {"c": [1, 2, {"d": 3}], "e": 0}, "f": "x", "same": [1]}),
            json!({"a": "1", "b": {"c": [1, 3, {"d": 4}], "g": 0}, "f": "x", "same": [1.0]}),
            &Comparison::default(),
            &["Changed /a", "Changed /b/c/1", "Changed /b/c/2/d", "Removed /b/e", "Added /b/g"],
            &[],
        );
    }

    #[test]
    fn a_longer_or_shorter_array_names_its_extra_elements() {
        let none = Comparison::default();
        check(json!([1]), json!([1, 2, 3]), &none, &["Added /1", "Added /2"], &[]);
        check(json!([1, 2]), json!([2]), &none, &["Changed /0", "Removed /1"], &[]);
    }

    #[test]
    fn another_type_is_one_change_of_the_whole_field() {
        let none = Comparison::default();
        check(json!({"a": {"b": 1}}), json!({"a": [1]}), &none, &["Changed /a"], &[]);
        check(json!(null), json!(false), &none, &["Changed "], &[]);
    }

    #[test]
    fn free_text_stands_apart_and_volatile_fields_are_silent() {
        let comparison = comparison(&["/body", "/note"], &["/trace"]);
        check(
            json!({"to": "a", "body": {"text": "x"}, "trace": 1, "note": "n"}),
            json!({"to": "b", "body": {"text": "y"}, "extra": 1}),
            &comparison,
            &["Added /extra", "Changed /to"],
            &["Changed /body", "Removed /note"],
        );
    }

    #[test]
    fn an_element_that_is_not_compared_still_counts() {
        let comparison = comparison(&["/list/0"], &["/list/1"]);
        check(json!({"list": [1, 2]}), json!({"list": [3, 4]}), &comparison, &[], &["Changed /list/0"]);
        check(json!({"list": [1]}), json!({"list": [1, 4]}), &comparison, &["Added /list/1"], &[]);
        check(json!({"list": []}), json!({"list": [1]}), &comparison, &["Added /list/0"], &[]);
    }

    #[test]
    fn the_list_is_bounded_and_says_how_many_more_there_are() {
        let wide = |value: u64| json!({"free": value, "list": vec![value; DIFFERENCES_MAX + 5]});
        let canonical = |value| Canonical::from_value(value).expect("valid");
        let found = diff(&canonical(wide(1)), &canonical(wide(2)), &comparison(&["/free"], &[]));
        assert_eq!(found.compared.len(), DIFFERENCES_MAX);
        assert_eq!(found.more, 5);
        assert_eq!(found.free_text.len(), 1);
    }

    #[test]
    fn the_order_is_that_of_the_canonical_text() {
        check(
            json!({}),
            json!({"\u{ff61}": 1, "\u{1f600}": 1, "b": 1, "a": 1}),
            &Comparison::default(),
            &["Added /a", "Added /b", "Added /\u{1f600}", "Added /\u{ff61}"],
            &[],
        );
    }

    #[test]
    fn an_answer_holds_places_and_kinds_and_no_value() {
        let canonical = |value| Canonical::from_value(value).expect("valid");
        let found =
            diff(&canonical(json!({"card": "4242"})), &canonical(json!({"card": "4343"})), &Comparison::default());
        let written = serde_json::to_value(&found).expect("serializes");
        assert_eq!(written, json!({"compared": [{"at": "/card", "kind": "changed"}], "more": 0, "free_text": []}));
        assert_eq!(serde_json::from_value::<Differences>(written).expect("reads"), found);
    }
}
