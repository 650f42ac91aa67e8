//! The fingerprint: what makes a repetition the same intention, in 32 bytes.
//!
//! It covers the tool, the tool's version and the canonical arguments without the fields that are not compared, and
//! nothing else: no envelope, no request number, no trace. docs/fingerprint.md lays the bytes out for other languages,
//! and vectors/fingerprint.json holds what every implementation must reproduce.

mod comparison;
mod keys;
#[cfg(test)]
mod vectors;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::comparison::{Comparison, InvalidComparison};
pub use self::keys::{FingerprintKey, FingerprintKeyId, FingerprintKeys, InvalidFingerprintKeys, UnknownKey};
use crate::canonical::Canonical;
use crate::hex;

/// What the fingerprint's bytes start with. Another layout gets another text, so that no two layouts can ever meet.
pub const FINGERPRINT_DOMAIN: &[u8] = b"onceward fingerprint v1\0";

/// The hash that a key is bound to. Equal fingerprints under one key id are one intention.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint that a row holds.
    pub fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// Its bytes, as a row holds them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Sixty-four lower-case hex digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A fingerprint is 64 lower-case hex digits; one spelling, so that texts can be compared, too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 lower-case hex digits")]
pub struct InvalidFingerprint;

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, InvalidFingerprint> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidFingerprint);
        }
        let bytes = hex::decode(text).ok_or(InvalidFingerprint)?;
        bytes.try_into().map(Fingerprint).map_err(|_| InvalidFingerprint)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The bytes that are hashed: the domain, then tool, version and what is compared of the arguments, each after its
/// length in bytes as a big-endian u64, so that no text can run over into the next.
pub fn fingerprint_bytes(tool: &str, tool_version: &str, arguments: &Canonical, comparison: &Comparison) -> Vec<u8> {
    let compared = comparison.compared_text(arguments);
    let parts = [tool, tool_version, &compared];
    let length = FINGERPRINT_DOMAIN.len() + parts.iter().map(|part| 8 + part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(FINGERPRINT_DOMAIN);
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::canonical::{parse, testing};
    use crate::diff::diff;
    use crate::pointer::{Place, Pointer};

    fn of(tool: &str, version: &str, arguments: &str) -> Fingerprint {
        let arguments = parse(arguments.as_bytes()).expect("valid arguments");
        FingerprintKeys::unkeyed()
            .fingerprint(FingerprintKeyId::UNKEYED, tool, version, &arguments, &Comparison::default())
            .expect("unkeyed is always known")
    }

    fn of_document(arguments: &Canonical, comparison: &Comparison) -> Fingerprint {
        FingerprintKeys::unkeyed()
            .fingerprint(FingerprintKeyId::UNKEYED, "t", "1", arguments, comparison)
            .expect("unkeyed is always known")
    }

    #[test]
    fn tool_version_and_arguments_each_take_part() {
        let base = of("create_ticket", "1", r#"{"a":1}"#);
        assert_ne!(base, of("create_order", "1", r#"{"a":1}"#));
        assert_ne!(base, of("create_ticket", "2", r#"{"a":1}"#));
        assert_ne!(base, of("create_ticket", "1", r#"{"a":2}"#));
        assert_eq!(base, of("create_ticket", "1", r#" { "a" : 1.0 } "#));
    }

    #[test]
    fn a_letter_moved_from_the_tool_to_the_version_is_another_fingerprint() {
        assert_ne!(of("ticket1", "2", "{}"), of("ticket", "12", "{}"));
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let arguments = parse(br#"{"b":1}"#).expect("valid");
        let bytes = fingerprint_bytes("pay", "v2", &arguments, &Comparison::default());
        assert_eq!(
            bytes,
            b"onceward fingerprint v1\0\0\0\0\0\0\0\0\x03pay\0\0\0\0\0\0\0\x02v2\0\0\0\0\0\0\0\x07{\"b\":1}"
        );
    }

    /// R046: one JSON object has many orders of keys, one array has one.
    #[test]
    fn r046_every_order_of_five_nested_keys_is_one_fingerprint_and_arrays_keep_theirs() {
        let members = [r#""a":1"#, r#""b":{"y":[1,2],"x":null}"#, r#""c":"c""#, r#""d":true"#, r#""€":0.5"#];
        let base = of("t", "1", &format!(r#"{{"in":{{{}}}}}"#, members.join(",")));
        let mut seen = 0;
        for order in permutations(members.len()) {
            let permuted: Vec<_> = order.iter().map(|&at| members[at]).collect();
            assert_eq!(of("t", "1", &format!(r#"{{"in":{{{}}}}}"#, permuted.join(","))), base);
            seen += 1;
        }
        assert_eq!(seen, 120);
        assert_ne!(of("t", "1", r#"{"a":[1,2]}"#), of("t", "1", r#"{"a":[2,1]}"#));
    }

    /// R029: only the tool's own arguments are hashed; what a transport wraps around them never is.
    #[test]
    fn r029_a_new_envelope_leaves_the_fingerprint_and_a_new_argument_does_not() {
        let of_envelope = |id: u32, trace: &str, summary: &str| {
            let envelope = serde_json::json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "create_issue", "arguments": {"summary": summary},
                           "_meta": {"progressToken": id, "traceparent": trace}}
            });
            of("create_issue", "1", &envelope["params"]["arguments"].to_string())
        };
        assert_eq!(of_envelope(1, "00-aa", "printer"), of_envelope(2, "00-bb", "printer"));
        assert_ne!(of_envelope(1, "00-aa", "printer"), of_envelope(1, "00-aa", "scanner"));
    }

    #[test]
    fn a_field_that_is_not_compared_may_change_appear_and_vanish() {
        let comparison = Comparison::new(
            vec![Pointer::parse("/body").expect("valid")],
            vec![Pointer::parse("/meta/trace").expect("valid")],
        )
        .expect("valid");
        let of = |text: &str| of_document(&parse(text.as_bytes()).expect("valid"), &comparison);
        let base = of(r#"{"to":"a","body":"Hello","meta":{"trace":1}}"#);
        assert_eq!(base, of(r#"{"to":"a","body":"Hi","meta":{"trace":2}}"#));
        assert_eq!(base, of(r#"{"to":"a","meta":{}}"#));
        assert_ne!(base, of(r#"{"to":"b","body":"Hello","meta":{"trace":1}}"#));
        assert_ne!(base, of(r#"{"to":"a","body":"Hello"}"#), "the enclosing object is compared");
    }

    #[test]
    fn a_fingerprint_has_one_spelling() {
        let fingerprint = of("t", "1", "{}");
        let text = fingerprint.to_string();
        assert_eq!(text.parse(), Ok(fingerprint));
        for bad in [text.to_uppercase(), text[2..].to_owned(), format!("{text}00"), "g".repeat(64), String::new()] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(InvalidFingerprint), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_keys_never_matters(value in testing::document(), seed in any::<u64>()) {
            let document = Canonical::from_value(value).expect("in range");
            let shuffled = parse(testing::shuffled_text(document.value(), seed).as_bytes()).expect("valid");
            prop_assert_eq!(document.text(), shuffled.text());
            let comparison = Comparison::default();
            prop_assert_eq!(of_document(&document, &comparison), of_document(&shuffled, &comparison));
        }

        #[test]
        fn changing_any_leaf_changes_the_fingerprint_and_the_difference_names_it(
            value in testing::document(), which in any::<Index>()
        ) {
            let document = Canonical::from_value(value).expect("in range");
            let leaves = testing::leaves(document.value());
            let leaf = which.get(&leaves);
            let mut changed = document.value().clone();
            testing::change(&mut changed, leaf);
            let changed = Canonical::from_value(changed).expect("in range");
            let comparison = Comparison::default();
            prop_assert_ne!(of_document(&document, &comparison), of_document(&changed, &comparison));
            let differences = diff(&document, &changed, &comparison);
            let [difference] = differences.compared.as_slice() else {
                return Err(TestCaseError::fail(format!("not one difference: {differences:?}")));
            };
            match &difference.place {
                // The changed leaf may be an empty array, and what differs is then its first element.
                Place::At(named) => prop_assert!(leaf.contains(named)),
                Place::Inside(around) => prop_assert!(around.contains(leaf)),
            }
        }

        /// The two ways to compare agree: no difference is named exactly where the fingerprints are equal.
        #[test]
        fn fingerprints_are_equal_exactly_where_no_compared_field_differs(
            value in testing::document(), changes in proptest::collection::vec(any::<(Index, bool)>(), 0..4),
            free_text in any::<Index>(), volatile in any::<Index>()
        ) {
            let document = Canonical::from_value(value).expect("in range");
            let places = testing::places(document.value());
            let mut changed = document.value().clone();
            for (which, removed) in changes {
                let leaves = testing::leaves(&changed);
                let leaf = which.get(&leaves).clone();
                match removed {
                    true => drop(leaf.remove(&mut changed)),
                    false => testing::change(&mut changed, &leaf),
                }
            }
            let changed = Canonical::from_value(changed).expect("in range");
            let comparison = match (free_text.get(&places), volatile.get(&places)) {
                (free, other) if free.contains(other) || other.contains(free) => {
                    Comparison::new(vec![], vec![other.clone()])
                }
                (free, other) => Comparison::new(vec![free.clone()], vec![other.clone()]),
            }
            .unwrap_or_default();
            let differences = diff(&document, &changed, &comparison);
            prop_assert_eq!(
                of_document(&document, &comparison) == of_document(&changed, &comparison),
                differences.compared.is_empty()
            );
        }
    }

    fn permutations(count: usize) -> Vec<Vec<usize>> {
        let Some(last) = count.checked_sub(1) else {
            return vec![vec![]];
        };
        permutations(last)
            .into_iter()
            .flat_map(|shorter| {
                (0..=last).map(move |at| {
                    let mut longer = shorter.clone();
                    longer.insert(at, last);
                    longer
                })
            })
            .collect()
    }
}
