//! `/v1/operations/{id}/timeline`: what is known of an operation and from whom, put together from its journal: attempts, what
//! was learned about them, what people decided. It repeats no arguments and no answer's body.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::event::{About, Basis, Event, Observation, Source, Verdict};
use onceward_core::journal::Entry;
use onceward_core::operation::Operation;
use serde_json::{Map, Value, json};

use super::answer::json as answer_json;
use super::request::Caller;
use super::views::text;
use crate::app::App;
use crate::limits::{PAGE_MAX, TIMELINE_ENTRIES_MAX};
use crate::problem::Problem;

pub(super) async fn timeline(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (operation, allowed) = app.find(&grant, &id).await?;
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |last| last.seq);
        let page = app.ledger().journal(&allowed, &operation, after, PAGE_MAX).await?;
        let whole = page.len() < usize::try_from(PAGE_MAX).unwrap_or(usize::MAX);
        entries.extend(page);
        if whole || entries.len() >= TIMELINE_ENTRIES_MAX {
            return Ok(answer_json(StatusCode::OK, &view(&operation, &entries, whole)));
        }
    }
}

fn view(operation: &Operation, entries: &[Entry], whole: bool) -> Value {
    let mut attempts = Vec::new();
    let (mut evidence, mut decisions) = (Vec::new(), Vec::new());
    for entry in entries {
        match learned(entry) {
            Some(Learned::Claimed(attempt)) => attempts.push(attempt),
            Some(Learned::Begun(number)) => note_on(&mut attempts, number, "begun_at", text(entry.at).into()),
            Some(Learned::Ended { number, members }) => {
                for (name, value) in members {
                    note_on(&mut attempts, number, &name, value);
                }
            }
            Some(Learned::Evidence(item)) => evidence.push(item),
            Some(Learned::Decision(item)) => decisions.push(item),
            None => {}
        }
    }
    json!({
        "operation_id": operation.key.id,
        "version": operation.journal.seq,
        "title": operation.terms.title,
        "attempts": attempts,
        "evidence": evidence,
        "decisions": decisions,
        "whole": whole,
    })
}

/// What one entry says, in the place where it belongs.
enum Learned {
    Claimed(Value),
    Begun(u32),
    Ended { number: u32, members: Map<String, Value> },
    Evidence(Value),
    Decision(Value),
}

fn note_on(attempts: &mut [Value], number: u32, name: &str, value: Value) {
    let of_this = |attempt: &&mut Value| attempt["attempt"] == number;
    if let Some(members) = attempts.iter_mut().find(of_this).and_then(Value::as_object_mut) {
        members.insert(name.to_owned(), value);
    }
}

fn learned(entry: &Entry) -> Option<Learned> {
    let Some(detail) = &entry.detail else {
        let gone =
            json!({ "seq": entry.seq, "at": text(entry.at), "event": entry.event, "by": entry.actor, "erased": true });
        return Some(Learned::Evidence(gone));
    };
    if entry.event == "observe" {
        return serde_json::from_str(detail).ok().map(|seen| observed(entry, seen));
    }
    let of_person = |what: &str, note: Option<String>| {
        let mut item = json!({ "seq": entry.seq, "at": text(entry.at), "by": entry.actor, "event": what });
        item["words"] = json!(note);
        Learned::Decision(item)
    };
    match serde_json::from_str::<Event>(detail).ok()? {
        Event::Claim(claim) => Some(Learned::Claimed(json!({
            "seq": entry.seq,
            "attempt": claim.attempt.0,
            "claimed_at": text(entry.at),
            "owner": claim.owner,
            "by": entry.actor,
            "basis": match claim.basis {
                Basis::NoEffectSoFar => "no_effect_so_far",
                Basis::Redrive(_) => "redrive",
            },
            "generation": claim.generation,
            "outbound_key": claim.outbound_key,
            "send_before": text(claim.send_before),
        }))),
        Event::Begin { attempt, .. } => Some(Learned::Begun(attempt.0)),
        Event::Approve { .. } => Some(of_person("approve", None)),
        Event::Close(reason) => {
            Some(of_person("close", serde_json::to_value(reason).ok()?.as_str().map(str::to_owned)))
        }
        Event::Supersede { by, note } => Some(of_person("supersede", note.or_else(|| Some(format!("by {by}"))))),
        Event::Wait { note, .. } => Some(of_person("wait", note)),
        Event::Acknowledge { note, .. } => Some(of_person("acknowledge", note)),
        Event::Purge(_) => Some(of_person("purge", None)),
        Event::Extend { .. } | Event::Observe(_) => None,
    }
}

fn observed(entry: &Entry, seen: Observation) -> Learned {
    let about = match seen.about {
        About::Attempt(attempt) => json!(attempt.0),
        About::EveryUncertain => json!("every_uncertain"),
    };
    let (cause, effect_id) = match &seen.verdict {
        Verdict::Lost(cause) => (Some(cause.name()), None),
        Verdict::Effect(receipt) => (None, receipt.effect_id.clone()),
        Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::OtherEffect(_) => (None, None),
    };
    let status = match &seen.verdict {
        Verdict::Effect(receipt) => Some(receipt.answer.status),
        Verdict::Refusal(rejection) => Some(rejection.answer.status),
        Verdict::Lost(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::OtherEffect(_) => None,
    };
    let why = match &seen.verdict {
        Verdict::NotSent(why) => json!(why),
        Verdict::NoEffect(how) => json!(how),
        Verdict::OtherEffect(kind) => json!(kind),
        Verdict::Effect(_) | Verdict::Refusal(_) | Verdict::Lost(_) => Value::Null,
    };
    let what = json!({
        "verdict": seen.verdict.name(), "cause": cause, "why": why, "effect_id": effect_id, "answer_status": status,
    });
    let members = |extra: Value| {
        let mut members = Map::new();
        for part in [what.clone(), extra] {
            members.extend(part.as_object().cloned().unwrap_or_default());
        }
        members.retain(|_, value| !value.is_null());
        members
    };
    let item = |source: &str| {
        Value::Object(members(json!({
            "seq": entry.seq,
            "at": text(entry.at),
            "by": entry.actor,
            "source": source,
            "about": about,
            "next_check": seen.next_check.map(text),
            "words": words(seen.note.as_deref()),
        })))
    };
    match (&seen.source, seen.about) {
        (Source::Owner(_), About::Attempt(attempt)) => {
            let ended = json!({
                "ended_at": text(entry.at),
                "next_check": seen.next_check.map(text),
                "row": words(seen.note.as_deref()),
            });
            Learned::Ended { number: attempt.0, members: members(ended) }
        }
        (Source::Owner(_), About::EveryUncertain) => Learned::Evidence(item("owner")),
        (Source::Recovery { .. }, _) => Learned::Evidence(item("recovery")),
        (Source::LateAnswer, _) => Learned::Evidence(item("late_answer")),
        (Source::Lookup, _) => Learned::Evidence(item("lookup")),
        (Source::Webhook, _) => Learned::Evidence(item("webhook")),
        (Source::Restore, _) => Learned::Evidence(item("restore")),
        (Source::Operator { .. }, _) => Learned::Decision(item("person")),
    }
}

/// The words of an entry without the answer that they may carry: what a destination answered is shown where answers are, to
/// whoever may see them.
fn words(note: Option<&str>) -> Value {
    let note = note.map(|note| note.split_once("; answered:").map_or(note, |(before, _)| before));
    match note.map(serde_json::from_str::<Value>) {
        Some(Ok(parsed @ (Value::Object(_) | Value::Array(_)))) => parsed,
        Some(Ok(_) | Err(_)) | None => json!(note),
    }
}
