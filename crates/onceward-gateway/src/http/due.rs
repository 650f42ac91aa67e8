//! `/v1/lookups/due`: what an application may look for by now, of functions that it runs itself; and what it says it found.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use onceward_core::evidence::{Candidate, Compared, Completeness, RecognisedBy};
use onceward_core::key::{EffectId, ToolName};
use onceward_core::limits::EVIDENCE_BYTES_MAX;
use onceward_core::operation::Operation;
use onceward_core::receipt::{Answer, Receipt};
use onceward_core::time::Timestamp;
use onceward_ledger::authorize::Scope;
use onceward_ledger::lookup::Report;
use onceward_ledger::mark::{Mark, marks};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json as answer_json;
use super::claims::AnswerBody;
use super::request::{Caller, Parameters};
use super::views::text;
use crate::app::App;
use crate::limits::{LOOKUP_FOUND_MAX, OWN_LOOKUP_MAX, PAGE_DEFAULT, PAGE_MAX};
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DueParameters {
    limit: Option<u32>,
    tool: Option<String>,
}

/// Lists them, the longest due first.
pub(super) async fn due(
    State(app): State<App>,
    caller: Caller,
    Parameters(asked): Parameters<DueParameters>,
) -> Result<Response, Problem> {
    let grant = caller.with(Scope::Lookup)?;
    let limit = match asked.limit.unwrap_or(PAGE_DEFAULT) {
        limit @ 1..=PAGE_MAX => limit,
        _ => return Err(Problem::invalid_request(format!("limit is a number from 1 to {PAGE_MAX}"))),
    };
    let tools = asked.tool.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    let tools = tools.map(ToolName::parse).collect::<Result<Vec<_>, _>>()?;
    let due = app.ledger().due_lookups(&grant, &tools, limit).await?;
    let lookups: Vec<Value> = due.iter().map(view).collect();
    Ok(answer_json(StatusCode::OK, &json!({ "lookups": lookups })))
}

/// What there is to look for: everything that its function was given, and when it may have had its effect.
fn view(operation: &Operation) -> Value {
    let uncertain = operation.state.uncertain();
    let keys: Vec<String> = marks(operation)
        .into_iter()
        .filter_map(|mark| match mark {
            Mark::Key(key) => Some(key.as_str().to_owned()),
            Mark::Handle(_) | Mark::Beside(_) => None,
        })
        .collect();
    json!({
        "operation_id": operation.key.id,
        "tool": operation.binding.tool,
        "title": operation.terms.title,
        "arguments": operation.binding.arguments.present().map(|arguments| arguments.value()),
        "outbound_keys": keys,
        "sent_from": uncertain.iter().map(|one| one.claimed_at).min().map(text),
        "sent_until": uncertain.iter().map(|one| one.send_before).max().map(text),
    })
}

/// What an application found. `found` is always there: a list that was left out is not an empty one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportBody {
    found: Vec<FoundBody>,
    asked_ago_ms: u64,
    completeness: CompletenessName,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FoundBody {
    by: ByName,
    parameters: ParametersName,
    effect_id: Option<EffectId>,
    receipt: Option<AnswerBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CompletenessName {
    Whole,
    Cut,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ByName {
    OutboundKey,
    Marker,
    Resemblance,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParametersName {
    Same,
    Different,
    NotCompared,
}

impl ReportBody {
    pub(super) fn read(self, now: Timestamp) -> Result<Report, Problem> {
        if self.found.len() > LOOKUP_FOUND_MAX {
            let most = format!(
                "found has at most {LOOKUP_FOUND_MAX} entries; more than one of them is a disagreement already"
            );
            return Err(Problem::invalid_request(most));
        }
        if self.note.as_ref().is_some_and(|note| note.len() > EVIDENCE_BYTES_MAX) {
            return Err(Problem::invalid_request(format!("note has at most {EVIDENCE_BYTES_MAX} bytes")));
        }
        let asked_ago = Duration::from_millis(self.asked_ago_ms);
        if asked_ago > OWN_LOOKUP_MAX {
            let most = OWN_LOOKUP_MAX.as_millis();
            return Err(Problem::invalid_request(format!("asked_ago_ms is at most {most}; ask again and report that")));
        }
        let found = self.found.into_iter().map(|one| one.read(now)).collect::<Result<_, _>>()?;
        let completeness = match self.completeness {
            CompletenessName::Whole => Completeness::Whole,
            CompletenessName::Cut => Completeness::Cut,
        };
        Ok(Report { asked_ago, found, completeness, note: self.note })
    }
}

impl FoundBody {
    fn read(self, now: Timestamp) -> Result<Candidate, Problem> {
        let answer = match self.receipt {
            Some(receipt) => receipt.into_answer()?,
            None => Answer::json(&json!({ "found_by": "application", "effect_id": &self.effect_id })),
        };
        Ok(Candidate {
            by: match self.by {
                ByName::OutboundKey => RecognisedBy::OurKey,
                ByName::Marker => RecognisedBy::OurMarker,
                ByName::Resemblance => RecognisedBy::Resemblance,
            },
            parameters: match self.parameters {
                ParametersName::Same => Compared::Same,
                ParametersName::Different => Compared::Different,
                ParametersName::NotCompared => Compared::Not,
            },
            receipt: Receipt { effect_id: self.effect_id, answer, received_at: now },
        })
    }
}
