//! What one command does to one operation: pure, and the same for every store.

use onceward_core::event::{About, Event, Observation, OtherEffect, Source, Verdict};
use onceward_core::journal::{self, Entry, Receipts, Salt};
use onceward_core::key::EffectId;
use onceward_core::operation::Operation;
use onceward_core::sighting::Sighting;
use onceward_core::state::State;
use onceward_core::step::Refusal;
use onceward_core::suspicion;
use onceward_core::time::Timestamp;

use crate::restore;
use crate::store::{Applied, Expects, Found, Opening, Step, Wants};

/// What a store has to write for a command, and what it answers once that is durable.
#[derive(Debug)]
pub struct Transacted {
    /// What to write; `None` when nothing changes.
    pub write: Option<Write>,
    /// The answer.
    pub answer: Applied,
}

/// A row to insert or to replace, and the journal entries that go with it.
#[derive(Debug)]
pub struct Write {
    /// Whether the row is new.
    pub row: Row,
    /// The operation as it stands afterwards.
    pub operation: Operation,
    /// Its new entries, in order.
    pub entries: Vec<Entry>,
    /// Which earlier details go with an erasure.
    pub details: Details,
}

/// What becomes of the details of earlier journal entries. Their commitments stay, so that the chain stays whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// They stay.
    Stay,
    /// Those before this entry go, with their salts: they quote arguments and answers.
    EraseBefore {
        /// The first entry that keeps its detail.
        seq: u32,
    },
}

/// Whether a row is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Insert it.
    New,
    /// Replace it.
    Known,
}

/// What a store must look up before [`open`].
#[must_use]
pub fn opening_wants(opening: &Opening) -> Wants<'_> {
    Wants { key: &opening.operation.key, suspects: opening.probe.as_ref(), effect: None }
}

/// What a store must look up before [`step`].
#[must_use]
pub fn step_wants(step: &Step) -> Wants<'_> {
    let suspects = match &step.expects {
        Expects::Alone(probe) => Some(&**probe),
        Expects::Anything | Expects::Version(_) => None,
    };
    Wants { key: &step.key, suspects, effect: step.events.iter().find_map(effect_id) }
}

fn effect_id(event: &Event) -> Option<&EffectId> {
    match event {
        Event::Observe(Observation { verdict: Verdict::Effect(receipt), .. }) => receipt.effect_id.as_ref(),
        Event::Observe(_)
        | Event::Approve { .. }
        | Event::Claim(_)
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Close(_)
        | Event::Supersede { .. }
        | Event::Wait { .. }
        | Event::Acknowledge { .. }
        | Event::Purge(_) => None,
    }
}

/// Inserts an operation unless its key exists, or an earlier one is suspected. While a restore is open, one that may be older than
/// it is inserted as `unknown`, and none of its events happens.
#[must_use]
pub fn open(found: Found, opening: Opening, at: Timestamp, salt: impl FnMut() -> Salt) -> Transacted {
    let Opening { operation, events, actor, probe } = opening;
    if let Some(existing) = found.operation {
        return unchanged(Applied::Existing(existing));
    }
    if let Some(probe) = &probe
        && let Some(earlier) = suspicion::suspect(probe, &found.suspects, at)
    {
        return unchanged(Applied::Suspected(earlier.clone()));
    }
    // What may have been sent before a restore is not sent again, whoever asks and whatever for (R22).
    let events = restore::instead(found.epoch.as_ref(), &operation, at).unwrap_or(events);
    let before = operation.clone();
    let mut salt = salt;
    let detail = serde_json::json!({
        "state": operation.state.name(),
        "tool": operation.binding.tool,
        "tool_version": operation.binding.tool_version,
        "fingerprint": operation.binding.fingerprint,
        "title": operation.terms.title,
    });
    let opened = journal::append(operation.journal, at, &actor, "open", detail.to_string(), salt());
    let operation = Operation { journal: opened.head(), ..operation };
    match advance(operation, &events, &actor, at, &mut salt) {
        Ok((operation, mut entries)) => {
            entries.insert(0, opened);
            Transacted {
                answer: Applied::Opened(operation.clone()),
                write: Some(Write { row: Row::New, operation, entries, details: Details::Stay }),
            }
        }
        Err(refusal) => unchanged(Applied::Refused { refusal, operation: before }),
    }
}

/// Moves an operation by its events, all or none.
#[must_use]
pub fn step(found: Found, step: Step, at: Timestamp, mut salt: impl FnMut() -> Salt) -> Transacted {
    let Some(before) = found.operation else {
        return unchanged(Applied::NoSuchOperation);
    };
    let Step { mut events, actor, expects, .. } = step;
    match expects {
        Expects::Version(seen) if seen != before.journal.seq => {
            let refusal = Refusal::Moved { seen, version: before.journal.seq };
            return unchanged(Applied::Refused { refusal, operation: before });
        }
        Expects::Alone(probe) => {
            let mut others = found.suspects;
            others.retain(|other| other.key != before.key);
            if let Some(other) = suspicion::unresolved_beside(&probe.suspicion, &others) {
                return unchanged(Applied::Suspected(other.clone()));
            }
        }
        Expects::Version(_) | Expects::Anything => {}
    }
    if before.terms.sighting.as_ref().is_some_and(Sighting::is_beside_another) {
        // A destination that recognised its key says the effect of the operation that it was sent beside: no disagreement.
        events.iter_mut().for_each(without_effect_id);
    } else if found.same_effect.is_some()
        && let Some(about) = events.iter().find_map(effect_about)
    {
        // The receipt is stored all the same, also a person's; two operations with one effect are to be looked at (R2).
        events.push(Event::Observe(Observation {
            about,
            verdict: Verdict::OtherEffect(OtherEffect::SharedEffectId),
            source: Source::LateAnswer,
            next_check: None,
            note: found.same_effect.as_ref().map(|other| format!("operation {other} has the same effect id")),
        }));
    }
    match advance(before.clone(), &events, &actor, at, &mut salt) {
        Ok((operation, entries)) => Transacted {
            answer: Applied::Stepped(operation.clone()),
            write: Some(Write { row: Row::Known, details: details(&before, &operation, &events), operation, entries }),
        },
        Err(refusal) => unchanged(Applied::Refused { refusal, operation: before }),
    }
}

/// An erasure that was carried out takes the details with it: of arguments those that quote them, and of everything all.
/// Asked for once more, it takes what has come since.
fn details(before: &Operation, after: &Operation, events: &[Event]) -> Details {
    let erased = |operation: &Operation| (operation.binding.arguments.present().is_none(), operation.is_expired());
    let once_more = after.is_expired() && events.iter().any(|event| matches!(event, Event::Purge(_)));
    if erased(before) != erased(after) || once_more {
        Details::EraseBefore { seq: after.journal.seq }
    } else {
        Details::Stay
    }
}

fn without_effect_id(event: &mut Event) {
    if let Event::Observe(Observation { verdict: Verdict::Effect(receipt), .. }) = event {
        receipt.effect_id = None;
    }
}

fn effect_about(event: &Event) -> Option<About> {
    match event {
        Event::Observe(Observation { verdict: Verdict::Effect(_), about, .. }) => Some(*about),
        Event::Observe(_)
        | Event::Approve { .. }
        | Event::Claim(_)
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Close(_)
        | Event::Supersede { .. }
        | Event::Wait { .. }
        | Event::Acknowledge { .. }
        | Event::Purge(_) => None,
    }
}

fn advance(
    mut operation: Operation,
    events: &[Event],
    actor: &str,
    at: Timestamp,
    salt: &mut impl FnMut() -> Salt,
) -> Result<(Operation, Vec<Entry>), Refusal> {
    let mut entries = Vec::with_capacity(events.len() + 1);
    for event in events {
        let (was_final, was_erased) = (operation.state.is_final(), operation.is_expired());
        operation = operation.step(event, at)?;
        let receipts = match (&operation.state, was_final) {
            _ if was_erased => Receipts::Nowhere,
            (State::Succeeded(_) | State::Rejected(_), false) => Receipts::InRow,
            (
                State::Succeeded(_)
                | State::Rejected(_)
                | State::Closed(_)
                | State::Proposed(_)
                | State::Approved(_)
                | State::Pending(_)
                | State::Unknown(_),
                _,
            ) => Receipts::InJournal,
        };
        let entry =
            journal::append(operation.journal, at, actor, event.name(), journal::detail(event, receipts), salt());
        operation.journal = entry.head();
        entries.push(entry);
    }
    Ok((operation, entries))
}

fn unchanged(answer: Applied) -> Transacted {
    Transacted { write: None, answer }
}
