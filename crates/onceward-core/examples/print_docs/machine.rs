//! The machine as a table and a picture, found out by running it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use onceward_core::event::{Event, Source};
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::step::Refusal;

use crate::header;
use crate::samples::{events, now, operations};

const STATES: [(&str, &str); 7] = [
    ("proposed", "an approver"),
    ("approved", "a caller or the dispatcher"),
    ("pending", "the owner of the attempt, or recovery"),
    ("unknown", "evidence, or a person; age never does"),
    ("succeeded", "nothing"),
    ("rejected", "nothing"),
    ("closed", "nothing"),
];

/// What an event led to, from all samples of one state.
#[derive(Default)]
struct Cell {
    states: BTreeSet<&'static str>,
    contradicts: bool,
    refusals: BTreeSet<String>,
}

impl Cell {
    fn text(&self) -> String {
        let mut parts: Vec<String> = self.states.iter().map(|state| format!("**{state}**")).collect();
        if self.contradicts {
            parts.push("marks a disagreement".to_owned());
        }
        // What is always refused says why; what is refused now and then says so in the text below.
        if self.states.is_empty() {
            parts.extend(self.refusals.iter().cloned());
        }
        parts.join(", ")
    }
}

type Table = BTreeMap<(String, &'static str), Cell>;

fn run(row: impl Fn(&Operation, &Event) -> Option<String>) -> Table {
    let mut table = Table::new();
    for (_, before) in operations() {
        for event in events(&before) {
            let Some(row) = row(&before, &event) else { continue };
            let cell = table.entry((row, before.state.name())).or_default();
            match before.clone().step(&event, now()) {
                Ok(after) => {
                    cell.states.insert(after.state.name());
                    let count =
                        |operation: &Operation| operation.history.disagreement.as_ref().map_or(0, |known| known.count);
                    cell.contradicts |= count(&after) > count(&before);
                }
                Err(refusal) => {
                    cell.refusals.insert(short(&refusal));
                }
            }
        }
    }
    table
}

fn rows(table: &Table) -> BTreeSet<&String> {
    table.keys().map(|(row, _)| row).collect()
}

fn write_table(text: &mut String, first: &str, table: &Table) {
    let names = STATES.map(|(name, _)| name);
    let _ = writeln!(text, "| {first} | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for row in rows(table) {
        let cells = names.map(|name| table.get(&(row.clone(), name)).map_or(String::new(), Cell::text));
        let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// Events that are not observations, by name and, for a close, reason.
fn move_row(_: &Operation, event: &Event) -> Option<String> {
    match event {
        Event::Observe(_) => None,
        Event::Close(reason) => Some(format!("close: {}", word(reason))),
        Event::Purge(scope) => Some(format!("purge: {}", word(scope))),
        Event::Claim(claim) => Some(match claim.basis {
            onceward_core::event::Basis::NoEffectSoFar => "claim".to_owned(),
            onceward_core::event::Basis::Redrive(_) => "claim, redrive".to_owned(),
        }),
        Event::Approve { .. }
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Supersede { .. }
        | Event::Wait { .. }
        | Event::Acknowledge { .. } => Some(event.name().to_owned()),
    }
}

/// Observations by verdict and by who speaks.
fn observation_row(_: &Operation, event: &Event) -> Option<String> {
    let Event::Observe(seen) = event else { return None };
    let who = match &seen.source {
        Source::Owner(_) => "owner",
        Source::Recovery { .. } => "recovery",
        Source::LateAnswer => "late answer",
        Source::Lookup => "lookup",
        Source::Webhook => "webhook",
        Source::Operator { .. } => "person",
        Source::Restore => "restore",
    };
    Some(format!("{}, {who}", seen.verdict.name()))
}

/// The word of a serialised enum without data.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A refusal in a word or two: `ClaimLost` is `claim lost`.
fn short(refusal: &Refusal) -> String {
    let name = format!("{refusal:?}");
    let name = name.split([' ', '{', '(']).next().unwrap_or_default();
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Every refusal that the samples meet, with its sentence.
fn refusals() -> BTreeMap<String, String> {
    let mut met = BTreeMap::new();
    for (_, before) in operations() {
        for event in events(&before) {
            if let Err(refusal) = before.clone().step(&event, now()) {
                met.insert(short(&refusal), refusal.to_string());
            }
        }
    }
    met
}

/// What leads from one state to another, in few words.
fn edges() -> BTreeMap<(&'static str, &'static str), BTreeSet<String>> {
    let mut edges: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (_, before) in operations() {
        for event in events(&before) {
            let Ok(after) = before.clone().step(&event, now()) else { continue };
            if before.state.name() == after.state.name() {
                continue;
            }
            let label = match &event {
                Event::Observe(seen) => seen.verdict.name().replace('_', " "),
                Event::Close(_) => "close".to_owned(),
                Event::Claim(_) if matches!(before.state, State::Unknown(_)) => "redrive".to_owned(),
                Event::Claim(_)
                | Event::Approve { .. }
                | Event::Begin { .. }
                | Event::Extend { .. }
                | Event::Supersede { .. }
                | Event::Wait { .. }
                | Event::Acknowledge { .. }
                | Event::Purge(_) => event.name().to_owned(),
            };
            edges.entry((before.state.name(), after.state.name())).or_default().insert(label);
        }
    }
    edges
}

/// The document.
pub(crate) fn print() -> String {
    let mut text = header("The states of an operation", "state-machine.md");
    text.push_str(
        "Found out by running `Operation::step` over operations in every state and everything that can happen to them. The \
         rules stand in `crates/onceward-core/src/step.rs`, in one match.\n\n```mermaid\nstateDiagram-v2\n    [*] --> \
         proposed\n    [*] --> approved\n",
    );
    for ((from, to), labels) in edges() {
        let labels: Vec<_> = labels.into_iter().collect();
        let _ = writeln!(text, "    {from} --> {to}: {}", labels.join(", "));
    }
    for (name, _) in STATES.iter().filter(|(_, who)| *who == "nothing") {
        let _ = writeln!(text, "    {name} --> [*]");
    }
    text.push_str("```\n\n| state | who moves it |\n|---|---|\n");
    for (name, who) in STATES {
        let _ = writeln!(text, "| `{name}` | {who} |");
    }
    text.push_str(
        "\n## Moves\n\nA cell names in bold every state that the event can lead to. Where it is always refused, the refusal is \
         named. What is refused only now and then (a stale claim, a permit that does not fit, a mark that comes twice, an owner that \
         is not the owner) leaves everything as it is.\n\n",
    );
    write_table(&mut text, "event", &run(move_row));
    text.push_str(
        "## What was learned\n\nEvery verdict, by who speaks of it. An owner and recovery speak of the attempt that is pending; \
         everywhere else their claim is lost, and what they know is recorded as a late answer. `unknown` stays `unknown` while \
         another attempt is uncertain.\n\n",
    );
    write_table(&mut text, "verdict, source", &run(observation_row));
    text.push_str(
        "## Refusals\n\nNothing changes, and a refused claim permits no dispatch.\n\n| refusal | why |\n|---|---|\n",
    );
    for (name, sentence) in refusals() {
        let _ = writeln!(text, "| {name} | {sentence} |");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
