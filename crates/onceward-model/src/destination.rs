//! The destination: what it promises in its contract, and what it does. It keeps its promises; nothing more.

use std::sync::Arc;

use onceward_core::contract::{Contract, ContractError};
use onceward_core::evidence::{Candidate, Compared, RecognisedBy};
use onceward_core::key::EffectId;
use onceward_core::receipt::{Answer, Receipt};
use onceward_core::time::Timestamp;

/// How long a tick is, in seconds: longer than the least pause and the least margin of the rules.
pub const TICK: u64 = 100;

/// How many ticks the destination recognises a key, from the first request that it sees.
pub const HORIZON: u8 = 4;

/// The point in time at which a tick begins.
#[must_use]
pub fn tick(number: u8) -> Timestamp {
    Timestamp::from_micros(i64::from(number) * 1_000_000 * i64::try_from(TICK).unwrap_or(i64::MAX))
}

/// What kind of destination it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It recognises a repeated key until its horizon ends.
    Key,
    /// It can be asked whether the effect exists.
    Lookup,
    /// It offers neither.
    Nothing,
}

impl Kind {
    /// Its contract, as its owner would have written it.
    ///
    /// # Errors
    /// The text is not a contract: a fault of this model.
    pub fn contract(self) -> Result<Arc<Contract>, ContractError> {
        let rest = match self {
            Self::Key => {
                r#"
                [key]
                carriers = [{ in = "header", name = "Idempotency-Key" }]
                [same_input]
                behaviour = "replays_stored"
                saved = { 2xx = "stored", 500 = "stored" }
                [in_flight]
                behaviour = "rejects"
                statuses = [409]
                [horizon]
                kind = "fixed"
                min = "400s"
                clock = "first_request"
                after_expiry = "reexecutes"
                margin = "200s"
                "#
            }
            // An effect happens one tick after the last moment to send at the latest, and is shown one tick later.
            Self::Lookup => {
                r#"
                [marker]
                at = "/note"
                max_length = 100
                [in_flight]
                bound = "100s"
                [lookup]
                kind = "by_injected_marker"
                method = "GET"
                path = "/things"
                items = "/data"
                recognise = [{ at = "/note" }]
                compare = [{ argument = "/text", effect = "/text" }]
                effect_id = "/id"
                consistency = "eventual"
                visibility_delay = "100s"
                absence_is_proof = "after_bound"
                absences_required = 1
                list_may_be_cut = false
                "#
            }
            Self::Nothing => "",
        };
        Contract::parse(&format!(
            "id = \"model\"\nversion = 1\n{rest}\n[provenance]\nconfidence = \"operated\"\nread = \"2026-11-29\"\n"
        ))
        .map(Arc::new)
    }
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sent {
    /// The attempt that sent it; 0 where no claim was made.
    pub attempt: u32,
    /// It arrives in this tick at the latest, or never.
    pub arrives_by: u8,
}

/// An effect at the destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Effect {
    /// Since when a lookup shows it.
    pub shown_from: u8,
}

/// What the destination knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Destination {
    /// What it has done for this operation, in order. The place in the list is the effect's name.
    pub effects: Vec<Effect>,
    /// The key's stored answer: which effect, and until when it is known.
    pub remembered: Option<(u8, u8)>,
}

impl Destination {
    /// Executes a request, or recognises its key, and names the effect that it answers with.
    pub fn execute(&mut self, kind: Kind, now: u8) -> u8 {
        match (kind, self.remembered) {
            (Kind::Key, Some((effect, until))) if now < until => effect,
            (Kind::Key | Kind::Lookup | Kind::Nothing, _) => {
                let effect = u8::try_from(self.effects.len()).unwrap_or(u8::MAX);
                self.effects.push(Effect { shown_from: now + 1 });
                self.remembered = Some((effect, now + HORIZON));
                effect
            }
        }
    }

    /// What a lookup shows: the effects that carry our marker, and a thing of somebody else that has the same text.
    #[must_use]
    pub fn list(&self, now: u8) -> Vec<Shown> {
        let ours = (0u8..).zip(&self.effects).filter(|(_, effect)| effect.shown_from <= now);
        std::iter::once(Shown::Lookalike).chain(ours.map(|(effect, _)| Shown::Ours(effect))).collect()
    }
}

/// An item of a lookup's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// It has our marker.
    Ours(u8),
    /// It has the same text, and no marker.
    Lookalike,
}

/// The name of the thing that is not ours.
pub const LOOKALIKE: u8 = 99;

impl Shown {
    /// The item as the rules of evidence take it.
    ///
    /// # Errors
    /// The name of the effect is none: a fault of this model.
    #[must_use]
    pub fn candidate(self, now: u8) -> Candidate {
        let (by, effect) = match self {
            Self::Ours(effect) => (RecognisedBy::OurMarker, effect),
            Self::Lookalike => (RecognisedBy::Resemblance, LOOKALIKE),
        };
        Candidate { by, parameters: Compared::Same, receipt: receipt(effect, now) }
    }
}

/// The receipt that names an effect.
#[must_use]
pub fn receipt(effect: u8, now: u8) -> Receipt {
    Receipt {
        effect_id: EffectId::parse(&format!("T-{effect}")).ok(),
        answer: Answer { status: 201, headers: Vec::new(), body: Vec::new() },
        received_at: tick(now),
    }
}

/// The effect that a receipt names.
#[must_use]
pub fn effect_of(id: Option<&EffectId>) -> Option<u8> {
    id?.as_str().strip_prefix("T-")?.parse().ok()
}
