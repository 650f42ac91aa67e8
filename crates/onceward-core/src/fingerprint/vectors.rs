//! The published vectors, as every other implementation reads them. What they expect was computed by
//! vectors/check.mjs, which shares no code with this crate.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::*;
use crate::canonical::{InvalidJson, parse};
use crate::pointer::Pointer;

const TEXT: &str = include_str!("../../vectors/fingerprint.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    format: u32,
    domain: String,
    vectors: Vec<Vector>,
    pairs: Vec<Pair>,
    refusals: Vec<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    tool: String,
    tool_version: String,
    arguments: String,
    free_text: Vec<Pointer>,
    volatile: Vec<Pointer>,
    key: Option<String>,
    canonical: String,
    fingerprint: Fingerprint,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    left: String,
    right: String,
    same: bool,
}

#[derive(Deserialize)]
struct Refused {
    name: String,
    #[serde(flatten)]
    content: Content,
    code: String,
    place: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Text(String),
    Hex(String),
    Repeat { before: String, unit: String, times: usize, after: String },
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Content::Text(text) => text.clone().into_bytes(),
            Content::Hex(hex) => hex::decode(hex).expect("hex digits"),
            Content::Repeat { before, unit, times, after } => {
                format!("{before}{}{after}", unit.repeat(*times)).into_bytes()
            }
        }
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(TEXT).expect("the vectors are readable")
}

#[test]
fn every_vector_has_its_canonical_text_and_fingerprint() {
    let vectors = vectors();
    assert_eq!(vectors.format, 1);
    assert_eq!(vectors.domain.as_bytes(), FINGERPRINT_DOMAIN);
    assert!(vectors.vectors.len() >= 60);
    for vector in vectors.vectors {
        let name = &vector.name;
        let arguments = parse(vector.arguments.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(arguments.text(), vector.canonical, "{name}");
        let comparison = Comparison::new(vector.free_text, vector.volatile).expect("a valid comparison");
        let (id, keys) = match &vector.key {
            None => (FingerprintKeyId::UNKEYED, FingerprintKeys::unkeyed()),
            Some(hex) => {
                let (id, key) = (FingerprintKeyId(1), FingerprintKey::from_hex(hex).expect("a valid key"));
                (id, FingerprintKeys::new(id, [(id, key)]).expect("valid keys"))
            }
        };
        let fingerprint = keys.fingerprint(id, &vector.tool, &vector.tool_version, &arguments, &comparison);
        assert_eq!(fingerprint, Ok(vector.fingerprint), "{name}");
    }
}

/// R047 and its neighbours: what two spellings are to each other, as the document's table says.
#[test]
fn r047_every_pair_is_equal_or_different_as_published() {
    let of = |text: &str| {
        let arguments = parse(text.as_bytes()).expect("valid");
        let bytes = fingerprint_bytes("t", "1", &arguments, &Comparison::default());
        FingerprintKeys::unkeyed().digest(FingerprintKeyId::UNKEYED, &bytes).expect("unkeyed is always known")
    };
    for pair in vectors().pairs {
        assert_eq!(of(&pair.left) == of(&pair.right), pair.same, "{}", pair.name);
    }
}

#[test]
fn every_refusal_has_its_code_and_place() {
    let refusals = vectors().refusals;
    assert!(refusals.len() >= 25);
    for refused in refusals {
        let found = parse(&refused.content.bytes())
            .map_err(|InvalidJson { place, problem }| (problem.code().to_owned(), place.pointer().to_string()));
        assert_eq!(found, Err((refused.code, refused.place)), "{}", refused.name);
    }
}

#[test]
fn names_of_vectors_are_unique() {
    let vectors = vectors();
    let mut names: Vec<_> = vectors.vectors.iter().map(|vector| vector.name.as_str()).collect();
    names.extend(vectors.pairs.iter().map(|pair| pair.name.as_str()));
    names.extend(vectors.refusals.iter().map(|refused| refused.name.as_str()));
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}
