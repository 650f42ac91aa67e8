//! `/v1/operations/{id}/decisions`: what a person may decide, with the consequence of each choice, and the decision itself.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::decision::{
    Choice, ChoiceKind, Decision, Evidence, FileHash, InvalidDecision, InvalidEvidence, Offer, Offered, Reason,
    SecondEffect,
};
use onceward_core::key::{EffectId, OperationId};
use onceward_core::receipt::Answer;
use onceward_core::time::Timestamp;
use onceward_ledger::LedgerError;
use onceward_ledger::store::Expects;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json as answer_json;
use super::claims::AnswerBody;
use super::moves::{id_of, run};
use super::request::{Body, Caller};
use super::views;
use crate::app::App;
use crate::problem::Problem;

/// Every choice about an operation as it stands. Nothing is written.
pub(super) async fn choices(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (operation, _) = app.find(&grant, &id).await?;
    let allowed = grant.to_decide(&operation).map_err(LedgerError::from)?;
    let choices = app.ledger().choices(&allowed, &operation).await?;
    let reasons: Vec<Value> =
        Reason::ALL.iter().map(|reason| json!({ "reason": reason.name(), "meaning": reason.meaning() })).collect();
    let offers: Vec<Value> = choices.offers.iter().map(offer).collect();
    let body = json!({
        "operation_id": operation.key.id,
        "version": choices.version,
        "state": operation.state.name(),
        "title": operation.terms.title,
        "disagreement": views::disagreement(&operation),
        "otherwise": choices.otherwise,
        "irreversible_at": choices.irreversible_at.map(views::text),
        "choices": offers,
        "reasons": reasons,
    });
    Ok(answer_json(StatusCode::OK, &body))
}

fn offer(offer: &Offer) -> Value {
    let choice = offer.choice.name();
    match &offer.offered {
        Offered::Legal(consequence) => {
            let carried: Vec<_> =
                Reason::ALL.iter().filter(|reason| reason.carries(offer.choice)).map(|reason| reason.name()).collect();
            let (second, until) = match consequence.second_effect {
                SecondEffect::Excluded => ("excluded", None),
                SecondEffect::ExcludedUntil(until) => ("excluded_until", Some(views::text(until))),
                SecondEffect::Possible => ("possible", None),
            };
            json!({
                "choice": choice,
                "legal": true,
                "state": consequence.state,
                "consequence": consequence.words,
                "next_key": consequence.next_key,
                "second_effect": second,
                "second_effect_excluded_until": until,
                "needs": needs(offer.choice),
                "reasons": carried,
            })
        }
        Offered::NotLegal { because } => json!({ "choice": choice, "legal": false, "because": because }),
    }
}

/// The fields that a choice needs beside its evidence.
const fn needs(choice: ChoiceKind) -> &'static [&'static str] {
    match choice {
        ChoiceKind::Refused => &["receipt"],
        ChoiceKind::SupersededBy => &["superseded_by"],
        ChoiceKind::ConfirmedDone
        | ChoiceKind::ConfirmedNotDone
        | ChoiceKind::DispatchAgain
        | ChoiceKind::Wait
        | ChoiceKind::Acknowledge => &[],
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    choice: ChoiceKind,
    reason: Reason,
    evidence: Option<String>,
    evidence_file: Option<String>,
    /// The version of the operation that was looked at.
    expected: u32,
    effect_id: Option<EffectId>,
    receipt: Option<AnswerBody>,
    superseded_by: Option<OperationId>,
    until: Option<String>,
}

impl DecisionBody {
    fn into_decision(self, id: &OperationId, now: Timestamp) -> Result<Decision, Problem> {
        self.only_what_belongs_to_the_choice()?;
        let file = self.evidence_file.as_deref().map(FileHash::parse).transpose()?;
        let evidence = Evidence::new(self.reason, self.evidence.as_deref(), file)?;
        let choice = match self.choice {
            ChoiceKind::ConfirmedDone => {
                let answer = match self.receipt {
                    Some(receipt) => receipt.into_answer()?,
                    None => Answer::json(&json!({ "confirmed_by": "operator", "effect_id": &self.effect_id })),
                };
                Choice::ConfirmedDone { effect_id: self.effect_id, answer }
            }
            ChoiceKind::ConfirmedNotDone => Choice::ConfirmedNotDone,
            ChoiceKind::DispatchAgain => Choice::DispatchAgain,
            ChoiceKind::Refused => Choice::Refused { answer: self.receipt.ok_or_else(no_answer)?.into_answer()? },
            ChoiceKind::SupersededBy => Choice::SupersededBy(self.superseded_by.ok_or_else(no_replacement)?),
            ChoiceKind::Wait => Choice::Wait { until: self.until.as_deref().map(point).transpose()? },
            ChoiceKind::Acknowledge => Choice::Acknowledge,
        };
        Ok(Decision::new(id, choice, evidence, now)?)
    }

    /// A field that the choice would pass over says that something else was meant.
    fn only_what_belongs_to_the_choice(&self) -> Result<(), Problem> {
        let fields = [
            ("effect_id", self.effect_id.is_some(), &[ChoiceKind::ConfirmedDone][..]),
            ("receipt", self.receipt.is_some(), &[ChoiceKind::ConfirmedDone, ChoiceKind::Refused][..]),
            ("superseded_by", self.superseded_by.is_some(), &[ChoiceKind::SupersededBy][..]),
            ("until", self.until.is_some(), &[ChoiceKind::Wait][..]),
        ];
        for (field, given, choices) in fields {
            if given && !choices.contains(&self.choice) {
                let names: Vec<_> = choices.iter().map(|choice| choice.name()).collect();
                return Err(Problem::invalid_request(format!(
                    "{field} belongs to the choice {}; leave it out, or choose that",
                    names.join(" or ")
                )));
            }
        }
        Ok(())
    }
}

fn no_answer() -> Problem {
    Problem::invalid_request(
        "the choice refused stores the destination's answer: receipt = { \"status\": 422, \"body\": … }",
    )
}

fn no_replacement() -> Problem {
    Problem::invalid_request("the choice superseded_by names the replacement: superseded_by = \"operation id\"")
}

fn point(text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(text)
        .ok_or_else(|| Problem::invalid_request("until is a point in time in RFC 3339, such as 2026-01-31T12:00:00Z"))
}

impl From<InvalidEvidence> for Problem {
    fn from(invalid: InvalidEvidence) -> Self {
        Self::invalid_request(invalid.to_string())
    }
}

impl From<InvalidDecision> for Problem {
    fn from(invalid: InvalidDecision) -> Self {
        Self::invalid_request(invalid.to_string())
    }
}

/// Records a decision on the version that was looked at.
pub(super) async fn decide(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(id): Path<String>,
    Body(body): Body<DecisionBody>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    // Who may not decide learns nothing about what would have been accepted.
    let (operation, _) = app.find(&grant, id.as_str()).await?;
    grant.to_decide(&operation).map_err(LedgerError::from)?;
    let expects = Expects::Version(body.expected);
    let decision = body.into_decision(&id, app.ledger().clock().now())?;
    run(&app, grant, |ledger, grant| async move { ledger.decide(&grant, &id, decision, expects).await }).await
}
