//! Events that destinations deliver, as evidence about attempts that may have had their effect (R11).
//!
//! An event names an operation by our key, or by the destination's own name of work it has accepted. It can settle what is unknown
//! and contradict what is settled; it frees nothing to run, and never speaks of an attempt that is being made.

use std::collections::BTreeMap;

use onceward_core::contract::Compare;
use onceward_core::event::{About, Event, Observation, Source, Verdict};
use onceward_core::evidence::{Candidate, Compared, Presence, RecognisedBy, compare, presence};
use onceward_core::journal::Entry;
use onceward_core::key::{AttemptNumber, OperationKey, ToolName};
use onceward_core::operation::Operation;
use onceward_core::receipt::{Receipt, Rejection};
use onceward_core::state::{State, Success};
use onceward_core::step::Refusal;
use serde_json::{Value, json};

use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits::{self, KEYS_HELD_MAX, MARKED_MAX};
use crate::mark::{Mark, handle};
use crate::metrics::Delivered;
use crate::store::{Applied, Expects, Step};

/// Proof that an event is the destination's own.
#[derive(Clone, Debug)]
pub struct Authentic {
    destination: String,
}

impl Authentic {
    /// To be called by whoever has verified the event's signature with this destination's secret, and by nobody else.
    #[must_use]
    pub fn verified(destination: &str) -> Self {
        Self { destination: destination.to_owned() }
    }
}

/// What an event says.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The delivery's own id: the same one again changes nothing.
    pub delivery: String,
    /// By what it names an operation.
    pub marks: Vec<Mark>,
    /// What it says of the effect.
    pub says: Says,
    /// The whole event.
    pub event: Value,
    /// Which arguments are compared with which of its fields.
    pub compare: Vec<Compare>,
}

/// What an event says of an effect.
#[derive(Clone, Debug)]
pub enum Says {
    /// It exists.
    Effect(Receipt),
    /// It was refused, and does not exist.
    Refused(Rejection),
}

/// What follows for one operation.
enum Follows {
    /// Nothing: it is known.
    Known,
    /// An attempt is being made.
    Running,
    /// This is recorded.
    Record(AttemptNumber, Verdict),
    /// It may be, and is kept for a person.
    Keep(AttemptNumber),
}

impl Ledger {
    /// Records what an event says about the operation that it names, if that is of a tool that its destination speaks for.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was recorded, and the event should be delivered again.
    pub async fn evidence(
        &self,
        proof: &Authentic,
        heard: &Heard,
        speaks_for: impl Fn(&ToolName) -> bool + Send + Sync,
    ) -> Result<Delivered, LedgerError> {
        for _ in 0..limits::RACES_MAX {
            let (operation, by) = match self.inner.named(&heard.marks, &speaks_for).await? {
                Named::One(operation, by) => (operation, by),
                Named::Running => return Ok(Delivered::Running),
                Named::Nothing => return Ok(Delivered::Unmatched),
                Named::Several => return Ok(Delivered::Ambiguous),
            };
            let recorded = self.inner.heed(proof, heard, &operation, by).await?;
            if let Some(delivered) = recorded {
                tracing::info!(
                    key = %operation.key, destination = proof.destination, result = delivered.name(), "an event was delivered"
                );
                return Ok(delivered);
            }
        }
        Err(LedgerError::Contended)
    }
}

/// Which operation an event is about.
enum Named {
    One(Box<Operation>, NamedBy),
    /// One whose attempt is being made: its key is not marked before that is uncertain.
    Running,
    Nothing,
    Several,
}

/// By which of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Key,
    Handle,
}

impl NamedBy {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Handle => "handle",
        }
    }
}

impl Inner {
    async fn named(
        &self,
        marks: &[Mark],
        speaks_for: &(impl Fn(&ToolName) -> bool + Send + Sync),
    ) -> Result<Named, LedgerError> {
        let mut found = self.marked(marks, speaks_for).await?;
        if found.is_empty() {
            let held = self.store.keys_held(KEYS_HELD_MAX).await?;
            let sent = |mark: &Mark| match mark {
                Mark::Key(key) => held.contains(key),
                Mark::Handle(_) | Mark::Beside(_) => false,
            };
            // Of more attempts than are looked at, it may be any.
            let all_seen = held.len() < usize::try_from(KEYS_HELD_MAX).unwrap_or(usize::MAX);
            if marks.iter().any(sent) || !(all_seen || marks.is_empty()) {
                return Ok(Named::Running);
            }
            // It may have become uncertain between the two looks.
            found = self.marked(marks, speaks_for).await?;
        }
        let mut found = found.into_iter();
        Ok(match (found.next(), found.next()) {
            (None, _) => Named::Nothing,
            (Some((operation, by)), None) => Named::One(Box::new(operation), by),
            (Some(_), Some(_)) => Named::Several,
        })
    }

    async fn marked(
        &self,
        marks: &[Mark],
        speaks_for: &(impl Fn(&ToolName) -> bool + Send + Sync),
    ) -> Result<Vec<(Operation, NamedBy)>, LedgerError> {
        let mut keys: BTreeMap<OperationKey, NamedBy> = BTreeMap::new();
        for mark in marks {
            for key in self.store.marked(mark, MARKED_MAX).await? {
                match mark {
                    // Our own name says more than theirs.
                    Mark::Key(_) => drop(keys.insert(key, NamedBy::Key)),
                    // No destination speaks of what we sent beside what.
                    Mark::Beside(_) => {}
                    Mark::Handle(_) => drop(keys.entry(key).or_insert(NamedBy::Handle)),
                }
            }
        }
        let mut operations = Vec::new();
        for (key, by) in keys {
            let operation = self.look(&key).await?.filter(|operation| speaks_for(&operation.binding.tool));
            operations.extend(operation.map(|operation| (operation, by)));
        }
        Ok(operations)
    }

    /// Records what follows; nothing when the operation moved meanwhile and is to be looked at again.
    async fn heed(
        &self,
        proof: &Authentic,
        heard: &Heard,
        operation: &Operation,
        by: NamedBy,
    ) -> Result<Option<Delivered>, LedgerError> {
        let actor = format!("webhook:{}", proof.destination);
        let compared = compared(heard, operation, by);
        let (attempt, verdict) = match follows(heard, operation, compared) {
            Follows::Known => return Ok(Some(Delivered::Known)),
            Follows::Running => return Ok(Some(Delivered::Running)),
            Follows::Record(attempt, verdict) => (attempt, Some(verdict)),
            Follows::Keep(attempt) => (attempt, None),
        };
        if self.has_heard(operation, &actor, &heard.delivery).await? {
            return Ok(Some(Delivered::Known));
        }
        let (next_check, cause) = match &operation.state {
            State::Unknown(unknown) => {
                let one = unknown.attempts().iter().find(|one| one.attempt == attempt).unwrap_or(unknown.latest());
                (unknown.next_check(), Some(one.cause.clone()))
            }
            State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => (None, None),
        };
        let kept = verdict.is_none();
        // What may be it moves nothing: it is written down with the cause that stands.
        let Some(verdict) = verdict.or(cause.map(Verdict::Lost)) else { return Ok(Some(Delivered::Candidate)) };
        let note = json!({
            "webhook": proof.destination,
            "delivery": heard.delivery,
            "says": heard.says.name(),
            "effect_id": heard.says.receipt().and_then(|receipt| receipt.effect_id.as_ref()),
            "named_by": by.name(),
            "parameters": word(compared),
        });
        let seen = Observation {
            about: About::Attempt(attempt),
            verdict,
            source: Source::Webhook,
            next_check,
            note: Some(note.to_string()),
        };
        let step = Step {
            key: operation.key.clone(),
            events: vec![Event::Observe(seen)],
            actor,
            // Two deliveries of one event at once are one: the second sees the first in the journal.
            expects: Expects::Version(operation.journal.seq),
        };
        let count = |operation: &Operation| operation.history.disagreement.as_ref().map_or(0, |known| known.count);
        match self.step(step).await? {
            Applied::Stepped(_) if kept => Ok(Some(Delivered::Candidate)),
            Applied::Stepped(after) if count(&after) > count(operation) => Ok(Some(Delivered::Disputed)),
            Applied::Stepped(_) => Ok(Some(Delivered::Settled)),
            Applied::Refused { refusal: Refusal::Moved { .. }, .. } => Ok(None),
            Applied::Refused { refusal: Refusal::AttemptInFlight, .. } => Ok(Some(Delivered::Running)),
            Applied::Refused { refusal, .. } => {
                tracing::error!(key = %operation.key, %refusal, "what an event says could not be recorded");
                Err(LedgerError::Illegal(refusal))
            }
            Applied::NoSuchOperation => Err(LedgerError::NotFound),
            Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_) | Applied::Done => {
                Err(LedgerError::Contended)
            }
        }
    }

    /// Whether this delivery is in the operation's journal already.
    async fn has_heard(&self, operation: &Operation, actor: &str, delivery: &str) -> Result<bool, LedgerError> {
        let mut after = 0;
        loop {
            let entries = self.store.journal(&operation.key, after, limits::JOURNAL_READ).await?;
            let Some(last) = entries.last().map(|entry| entry.seq) else { return Ok(false) };
            if entries.iter().any(|entry| entry.actor == actor && is_of(entry, delivery)) {
                return Ok(true);
            }
            after = last;
        }
    }
}

/// Whether the entry's words name this delivery. Erased words name none.
fn is_of(entry: &Entry, delivery: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let Some(detail) = entry.detail.as_deref().and_then(read) else { return false };
    detail["note"].as_str().and_then(read).is_some_and(|note| note["delivery"] == delivery)
}

impl Says {
    const fn name(&self) -> &'static str {
        match self {
            Self::Effect(_) => "effect",
            Self::Refused(_) => "refused",
        }
    }

    const fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Effect(receipt) => Some(receipt),
            Self::Refused(_) => None,
        }
    }
}

fn compared(heard: &Heard, operation: &Operation, by: NamedBy) -> Compared {
    // The name that the destination gave to this work in its answer to us belongs to nothing else.
    if by == NamedBy::Handle && heard.compare.is_empty() {
        return Compared::Same;
    }
    match operation.binding.arguments.present() {
        Some(arguments) => compare(&heard.compare, arguments.value(), &heard.event),
        None => Compared::Not,
    }
}

const fn word(compared: Compared) -> &'static str {
    match compared {
        Compared::Same => "same",
        Compared::Different => "different",
        Compared::Not => "not_compared",
    }
}

/// What the event means for the operation as it stands.
fn follows(heard: &Heard, operation: &Operation, compared: Compared) -> Follows {
    let of = spoken_of(heard, operation);
    let latest = of.last().copied().unwrap_or(AttemptNumber(operation.history.attempts));
    match (&operation.state, &heard.says) {
        (State::Pending(_), _) => Follows::Running,
        (State::Succeeded(success), Says::Effect(receipt)) => match same_id(success, receipt) {
            Some(true) => Follows::Known,
            Some(false) => Follows::Record(success.attempt, Verdict::Effect(receipt.clone())),
            // Without an id on both sides nothing can contradict it but other parameters.
            None => match present(receipt, compared) {
                Presence::OtherEffect(kind) => Follows::Record(success.attempt, Verdict::OtherEffect(kind)),
                Presence::Ours(_) | Presence::Candidates(_) | Presence::Nothing => Follows::Known,
            },
        },
        (State::Succeeded(success), Says::Refused(rejection)) => {
            Follows::Record(success.attempt, Verdict::Refusal(rejection.clone()))
        }
        (State::Rejected(_) | State::Closed(_) | State::Proposed(_) | State::Approved(_), Says::Refused(_)) => {
            Follows::Known
        }
        (
            State::Unknown(_) | State::Rejected(_) | State::Closed(_) | State::Proposed(_) | State::Approved(_),
            Says::Effect(receipt),
        ) => match present(receipt, compared) {
            Presence::Ours(receipt) => Follows::Record(latest, Verdict::Effect(receipt)),
            Presence::OtherEffect(kind) => Follows::Record(latest, Verdict::OtherEffect(kind)),
            Presence::Candidates(_) | Presence::Nothing => Follows::Keep(latest),
        },
        // A refusal that several attempts could be meant by excuses none of them.
        (State::Unknown(_), Says::Refused(rejection)) => match (of.as_slice(), compared) {
            ([one], Compared::Same) => Follows::Record(*one, Verdict::Refusal(rejection.clone())),
            (_, Compared::Same | Compared::Different | Compared::Not) => Follows::Keep(latest),
        },
    }
}

/// It is tied to the operation by its key or handle; whether it is its effect is the rules' to say.
fn present(receipt: &Receipt, parameters: Compared) -> Presence {
    presence(&[Candidate { by: RecognisedBy::OurKey, parameters, receipt: receipt.clone() }])
}

/// Which attempts the event can be about: those that sent the key it names, or got the handle; those that are disproved only
/// where none is uncertain.
fn spoken_of(heard: &Heard, operation: &Operation) -> Vec<AttemptNumber> {
    let named = |mark: Mark| heard.marks.contains(&mark);
    let uncertain = operation.state.uncertain();
    let by_mark: Vec<_> = uncertain
        .iter()
        .filter(|one| {
            one.outbound_key.clone().is_some_and(|key| named(Mark::Key(key)))
                || handle(&one.cause).is_some_and(|handle| named(Mark::Handle(handle.to_owned())))
        })
        .map(|one| one.attempt)
        .collect();
    if !by_mark.is_empty() {
        return by_mark;
    }
    // A key that only disproved attempts sent: the event contradicts that, and says nothing of a newer attempt under another key.
    let disproved: Vec<_> = operation
        .history
        .disproved
        .iter()
        .filter(|one| one.outbound_key.clone().is_some_and(|key| named(Mark::Key(key))))
        .map(|one| one.attempt)
        .collect();
    if !disproved.is_empty() {
        return disproved;
    }
    // It has lost the cause that had the handle; which one that was is no longer known.
    uncertain.iter().map(|one| one.attempt).collect()
}

/// Whether both have an effect id, and it is the same.
fn same_id(success: &Success, receipt: &Receipt) -> Option<bool> {
    success.effect_id.as_ref().zip(receipt.effect_id.as_ref()).map(|(mine, theirs)| mine == theirs)
}
