//! R11: when something that was found is the effect of this operation.

use crate::event::OtherEffect;
use crate::receipt::Receipt;

/// By what a found effect is tied to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecognisedBy {
    /// The destination found it under our key.
    OurKey,
    /// It carries our marker.
    OurMarker,
    /// It looks alike. That proves nothing: somebody else may have wanted the same.
    Resemblance,
}

/// Whether a found effect has the parameters that the operation asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All that are compared are equal.
    Same,
    /// One differs.
    Different,
    /// Nothing could be compared.
    Not,
}

/// Something that a lookup found, or that a destination's event speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// By what it is tied to the operation.
    pub by: RecognisedBy,
    /// Whether it has the operation's parameters.
    pub parameters: Compared,
    /// What it is.
    pub receipt: Receipt,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing. Whether that proves anything is [`absence`](super::absence)'s to say.
    Nothing,
    /// The effect of this operation.
    Ours(Receipt),
    /// Things that may be it; a person decides.
    Candidates(Vec<Receipt>),
    /// An effect that should not be there; a disagreement.
    OtherEffect(OtherEffect),
}

/// What it means that these were found.
#[must_use]
pub fn presence(found: &[Candidate]) -> Presence {
    let mut ours: Vec<&Candidate> = Vec::new();
    for candidate in found.iter().filter(|candidate| carries_our_name(candidate)) {
        // A list may show one thing twice; without an id two entries are two things.
        let id = candidate.receipt.effect_id.as_ref();
        if id.is_none() || !ours.iter().any(|known| known.receipt.effect_id.as_ref() == id) {
            ours.push(candidate);
        }
    }
    match ours.as_slice() {
        [] if found.is_empty() => Presence::Nothing,
        [] => Presence::Candidates(found.iter().map(|candidate| candidate.receipt.clone()).collect()),
        [one] => match one.parameters {
            Compared::Same => Presence::Ours(one.receipt.clone()),
            Compared::Different => Presence::OtherEffect(OtherEffect::OtherParameters),
            Compared::Not => Presence::Candidates(vec![one.receipt.clone()]),
        },
        [_, _, ..] => Presence::OtherEffect(OtherEffect::MoreThanOne),
    }
}

const fn carries_our_name(candidate: &Candidate) -> bool {
    match candidate.by {
        RecognisedBy::OurKey | RecognisedBy::OurMarker => true,
        RecognisedBy::Resemblance => false,
    }
}
