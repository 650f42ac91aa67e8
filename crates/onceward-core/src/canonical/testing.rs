//! Documents for the property tests of the canonical form, the fingerprint and the differences.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use crate::limits::JSON_NUMBER_MAX;
use crate::pointer::Pointer;

/// Any document of a few levels whose numbers are in range.
pub(crate) fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::vec((text(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn number() -> impl Strategy<Value = Number> {
    let bound = JSON_NUMBER_MAX as i64;
    prop_oneof![
        (-bound..=bound).prop_map(Number::from),
        (-1000_i64..1000).prop_map(Number::from),
        any::<f64>()
            .prop_filter("in range", |float| float.abs() <= JSON_NUMBER_MAX as f64)
            .prop_map(|float| Number::from_f64(float).expect("finite")),
    ]
}

/// Short texts, with the characters that sort or escape differently well represented.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab0/~\"\\\\\u{7f}\u{e9}\u{ff61}\u{1f600}\u{0}-\u{1f}]{0,4}", any::<String>(),]
}

/// The document written with its members in another order, and with room between tokens.
pub(crate) fn shuffled_text(value: &Value, seed: u64) -> String {
    match value {
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(|element| shuffled_text(element, next(seed))).collect();
            format!("[ {} ]", elements.join(" , "))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{} :\t{}", Value::from(key.as_str()), shuffled_text(value, next(seed))))
                .collect();
            let mut chance = seed;
            for last in (1..members.len()).rev() {
                chance = next(chance);
                members.swap(last, (chance >> 33) as usize % (last + 1));
            }
            format!("{{ {} }}", members.join(",\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn next(seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Where the leaves stand: every value without values inside it, empty arrays and objects included.
pub(crate) fn leaves(document: &Value) -> Vec<Pointer> {
    places(document)
        .into_iter()
        .filter(|place| match place.get(document) {
            Some(Value::Array(elements)) => elements.is_empty(),
            Some(Value::Object(members)) => members.is_empty(),
            Some(_) => true,
            None => false,
        })
        .collect()
}

/// Where every value stands, the whole document first.
pub(crate) fn places(document: &Value) -> Vec<Pointer> {
    fn collect(value: &Value, at: &[String], into: &mut Vec<Pointer>) {
        into.push(Pointer::from_tokens(at.to_vec()));
        let inner: Vec<(String, &Value)> = match value {
            Value::Array(elements) => elements.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
            Value::Object(members) => members.iter().map(|(key, v)| (key.clone(), v)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
        };
        for (token, value) in inner {
            collect(value, &[at, &[token]].concat(), into);
        }
    }
    let mut into = Vec::new();
    collect(document, &[], &mut into);
    into
}

/// Makes the leaf another value.
pub(crate) fn change(document: &mut Value, leaf: &Pointer) {
    let old = leaf.get(document).expect("a leaf of this document").clone();
    let new = match old {
        Value::Null => Value::Bool(false),
        Value::Bool(true) => Value::Null,
        Value::Bool(false) => Value::Bool(true),
        Value::String(text) => Value::String(text + "x"),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Value::from(1),
            Some(_) | None => Value::from(0),
        },
        Value::Array(_) => Value::Array(vec![Value::Null]),
        Value::Object(_) => Value::Array(vec![]),
    };
    let at = leaf.tokens().iter().fold(document, |at, token| match at {
        Value::Array(elements) => &mut elements[token.parse::<usize>().expect("an index")],
        Value::Object(members) => members.get_mut(token).expect("a member"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => unreachable!("a leaf has no inside"),
    });
    *at = new;
}
