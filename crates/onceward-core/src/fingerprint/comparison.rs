//! Which fields of a tool's arguments do not make it another intention.

use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::limits::COMPARISON_POINTERS_MAX;
use crate::pointer::Pointer;

/// The fields that take no part in the fingerprint. Everything else does.
///
/// Both kinds are left out the same way ([`Pointer::remove`]); they differ in what a repetition is told. A model that
/// writes the same email again words it differently: with `/body` as free text the first text stands and the answer
/// says that the body differed. Of a volatile field, a trace for example, nobody is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Comparison {
    free_text: Vec<Pointer>,
    volatile: Vec<Pointer>,
}

impl Comparison {
    /// At most [`COMPARISON_POINTERS_MAX`] fields in all; their order does not matter.
    ///
    /// # Errors
    /// The whole document is named, one field lies inside another, or there are too many.
    pub fn new(free_text: Vec<Pointer>, volatile: Vec<Pointer>) -> Result<Comparison, InvalidComparison> {
        let all: Vec<&Pointer> = free_text.iter().chain(&volatile).collect();
        if all.len() > COMPARISON_POINTERS_MAX {
            return Err(InvalidComparison::TooMany { fields: all.len() });
        }
        if all.iter().any(|pointer| pointer.is_root()) {
            return Err(InvalidComparison::WholeDocument);
        }
        for (at, first) in all.iter().enumerate() {
            for second in &all[at + 1..] {
                if first.contains(second) || second.contains(first) {
                    return Err(InvalidComparison::Overlap { first: (*first).clone(), second: (*second).clone() });
                }
            }
        }
        let mut comparison = Comparison { free_text, volatile };
        comparison.free_text.sort();
        comparison.volatile.sort();
        Ok(comparison)
    }

    /// The fields whose first text stands; an answer names those that differed.
    pub fn free_text(&self) -> &[Pointer] {
        &self.free_text
    }

    /// The fields that are ignored.
    pub fn volatile(&self) -> &[Pointer] {
        &self.volatile
    }

    /// The canonical text of what is compared.
    pub fn compared_text(&self, arguments: &Canonical) -> String {
        if self.free_text.is_empty() && self.volatile.is_empty() {
            return arguments.text().to_owned();
        }
        arguments.text_without(self.free_text.iter().chain(&self.volatile))
    }
}

/// Why a tool's comparison is refused when its configuration is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidComparison {
    /// With nothing left to compare, any call would repeat any other.
    #[error(
        "the empty pointer names the whole document, and then nothing would be compared: name a field, like \"/body\""
    )]
    WholeDocument,
    /// The inner one would say nothing, or the opposite.
    #[error("the fields not compared {first} and {second} are the same or lie inside each other: keep one of them")]
    Overlap {
        /// One of the two.
        first: Pointer,
        /// The other one.
        second: Pointer,
    },
    /// More than [`COMPARISON_POINTERS_MAX`].
    #[error("{fields} fields are not compared, more than {COMPARISON_POINTERS_MAX}: name an enclosing field instead")]
    TooMany {
        /// How many were named.
        fields: usize,
    },
}

/// How a comparison is written in configuration and in the definition that a row pins.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    free_text: Vec<Pointer>,
    #[serde(default)]
    volatile: Vec<Pointer>,
}

impl TryFrom<Fields> for Comparison {
    type Error = InvalidComparison;

    fn try_from(fields: Fields) -> Result<Comparison, InvalidComparison> {
        Comparison::new(fields.free_text, fields.volatile)
    }
}

impl From<Comparison> for Fields {
    fn from(comparison: Comparison) -> Fields {
        Fields { free_text: comparison.free_text, volatile: comparison.volatile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(texts: &[&str]) -> Vec<Pointer> {
        texts.iter().map(|text| Pointer::parse(text).expect("valid")).collect()
    }

    #[test]
    fn a_comparison_that_compares_nothing_or_contradicts_itself_is_refused() {
        assert_eq!(Comparison::new(pointers(&[""]), vec![]), Err(InvalidComparison::WholeDocument));
        for (free_text, volatile) in [(["/a"], ["/a"]), (["/a"], ["/a/b"]), (["/a/b/c"], ["/a"])] {
            let refused = Comparison::new(pointers(&free_text), pointers(&volatile));
            assert!(matches!(refused, Err(InvalidComparison::Overlap { .. })), "{free_text:?} {volatile:?}");
        }
        assert!(Comparison::new(pointers(&["/a"]), pointers(&["/ab"])).is_ok());
        let many: Vec<_> = (0..=COMPARISON_POINTERS_MAX).map(|at| format!("/{at}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(matches!(Comparison::new(pointers(&many), vec![]), Err(InvalidComparison::TooMany { .. })));
    }

    #[test]
    fn a_comparison_is_read_from_configuration_by_the_same_rules() {
        let comparison: Comparison = toml::from_str("free_text = [\"/b\", \"/a\"]").expect("valid");
        assert_eq!(comparison.free_text(), pointers(&["/a", "/b"]));
        assert!(toml::from_str::<Comparison>("volatile = [\"\"]").is_err());
        assert!(toml::from_str::<Comparison>("voltaile = [\"/a\"]").is_err());
    }
}
