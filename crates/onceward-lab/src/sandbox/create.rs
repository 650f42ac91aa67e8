//! Creating a thing under the contract: what a key finds, what is done, what is remembered.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use onceward_core::contract::Contract;
use serde_json::{Map, Value, json};

use super::clock::span_us;
use super::contract::{InFlight, KeyConstraint, OtherArguments, RepeatedKey, ReplayMarker, SandboxContract};
use super::family::{accepted, partial};
use super::fault::Fault;
use super::in_flight::{AccountKey, Executing};
use super::problem::Answer;
use super::resource::{Kind, Resource};
use super::state::Shared;
use super::store::{Effect, Epoch, KeyRecord, NewEffect, Remember, StoreError};

/// A request to create a thing, read and found possible.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) epoch: Epoch,
    pub(crate) resource: Resource,
    pub(crate) account: String,
    /// The key as it was received, whether the contract knows keys or not.
    pub(crate) received_key: Option<String>,
    /// The key, where the contract knows keys.
    pub(crate) key: Option<AccountKey>,
    pub(crate) marker: Option<String>,
    pub(crate) fields: Map<String, Value>,
    pub(crate) fingerprint: String,
    pub(crate) contract: SandboxContract,
    pub(crate) fault: Option<Fault>,
}

/// Carries the request out, or finds that it has been.
///
/// When this returns, the effect is committed if there is one. The answer is the application's own; faults of the way back
/// are applied to it later.
pub(crate) async fn create(shared: &Shared, creation: &Creation) -> Result<Answer, StoreError> {
    if let Some(failure) = fails_before_commit(creation.fault) {
        if let (Some(key), RepeatedKey::Continues) = (&creation.key, creation.contract.repeated_key) {
            creation.begin(shared, key)?;
        }
        return Ok(failure);
    }
    let Some(key) = &creation.key else {
        return creation.execute(shared).await;
    };
    if let Some(found) = creation.find(shared, key)? {
        return Ok(found);
    }
    let executing = match creation.contract.in_flight {
        InFlight::Unguarded => None,
        InFlight::Waits => Some(shared.in_flight.begin(key).await),
        InFlight::Conflict409 => match shared.in_flight.try_begin(key) {
            Some(executing) => Some(executing),
            None => return Ok(in_flight_problem()),
        },
    };
    creation.execute_under(shared, key, executing).await
}

/// What is answered when the work fails before anything is done.
pub(crate) fn fails_before_commit(fault: Option<Fault>) -> Option<Answer> {
    let status = match fault? {
        Fault::FailBeforeCommit { status } => status,
        // Its bytes will be cut; the status is for the log.
        Fault::CutBeforeCommit => StatusCode::INTERNAL_SERVER_ERROR,
        _ => return None,
    };
    Some(Answer::problem(status, "failed_before_commit", "Nothing has been done."))
}

/// The answer to a key that somebody else executes.
pub(crate) fn in_flight_problem() -> Answer {
    Answer::problem(StatusCode::CONFLICT, "key_in_flight", "Another request with this key is being executed.")
}

impl Creation {
    async fn execute_under(
        &self,
        shared: &Shared,
        key: &AccountKey,
        executing: Option<Executing<'_>>,
    ) -> Result<Answer, StoreError> {
        // Looked up again under the guard: whoever held it has finished by now.
        if let Some(found) = self.find(shared, key)? {
            return Ok(found);
        }
        if let Some(interleaving) = self.contract.interleaving {
            shared.crossing.meet(key, interleaving).await;
        }
        if self.contract.repeated_key == RepeatedKey::Continues {
            self.begin(shared, key)?;
        }
        let answer = match self.execute(shared).await {
            // The constraint let somebody else be first, between our looking and our acting.
            Err(StoreError::KeyTaken) => self.find(shared, key)?.unwrap_or_else(in_flight_problem),
            answered => answered?,
        };
        drop(executing);
        Ok(answer)
    }

    fn begin(&self, shared: &Shared, key: &AccountKey) -> Result<(), StoreError> {
        shared.store.begin(self.epoch, key, &self.fingerprint, shared.clock.now_us())
    }

    /// The answer that the key finds. Nothing for a key that is new, forgotten, or begun and not finished.
    fn find(&self, shared: &Shared, key: &AccountKey) -> Result<Option<Answer>, StoreError> {
        let now_us = shared.clock.now_us();
        let horizon = self.contract.key_horizon_ms.map(|ms| now_us - span_us(ms));
        let Some(record) = shared.store.recognise(self.epoch, key, horizon)? else {
            return Ok(None);
        };
        if record.fingerprint != self.fingerprint
            && self.fault != Some(Fault::SilentMismatch)
            && let Some(status) = mismatch_status(self.contract.other_arguments)
        {
            let detail = "This key was used with other arguments.";
            return Ok(Some(Answer::problem(status, "key_mismatch", detail)));
        }
        let Some(answer) = self.repeated(shared, record, now_us)? else {
            return Ok(None);
        };
        Ok(Some(match &self.contract.replay_marker {
            ReplayMarker::None => answer,
            ReplayMarker::Named(name) => match HeaderName::try_from(name.as_str()) {
                Ok(name) => answer.with_header(name, HeaderValue::from_static("true")),
                Err(_) => answer,
            },
        }))
    }

    fn repeated(&self, shared: &Shared, record: KeyRecord, now_us: i64) -> Result<Option<Answer>, StoreError> {
        match self.contract.repeated_key {
            RepeatedKey::StoresAll | RepeatedKey::StoresSuccesses | RepeatedKey::Continues => Ok(record.answer),
            RepeatedKey::CurrentState => match record.effect {
                None => Ok(record.answer),
                Some(sequence) => {
                    let now = shared.store.effect(sequence)?;
                    Ok(now.map(|effect| Answer::ok(effect.view(now_us))))
                }
            },
        }
    }

    /// Does it: a new effect, and what its key will find, in one transaction.
    async fn execute(&self, shared: &Shared) -> Result<Answer, StoreError> {
        if let Some(Fault::DelayBeforeCommit { ms }) = self.fault {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        if self.fault == Some(Fault::Error500RolledBack) {
            let answer = Answer::problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "rolled_back",
                "The work began, failed, and was rolled back.",
            );
            return self.answer_without_effect(shared, answer);
        }
        if self.resource.is_declined(&self.fields) {
            let answer = Answer::problem(StatusCode::PAYMENT_REQUIRED, "card_declined", "The payment was declined.");
            return self.answer_without_effect(shared, answer);
        }
        let at_us = shared.clock.now_us();
        let new = NewEffect {
            resource: Kind::Own(self.resource),
            account: self.account.clone(),
            at_us,
            done_at_us: at_us + span_us(self.done_after_ms()),
            idempotency_key: self.received_key.clone(),
            unique_key: match self.contract.key_constraint {
                KeyConstraint::Unique => self.key.as_ref().map(|key| key.key.clone()),
                KeyConstraint::None => None,
            },
            marker: self.marker.clone(),
            fingerprint: self.fingerprint.clone(),
            fields: self.fields.clone(),
            naming: None,
        };
        let created = |effect: &Effect| Answer::new(self.resource.created_status(), effect.view(at_us));
        let effect = shared.store.create(self.epoch, &new, |effect| {
            let key = self.key.as_ref()?;
            let answer = self.remembered(created(effect))?;
            Some(Remember { key, at_us, fingerprint: &self.fingerprint, answer })
        })?;
        Ok(created(&effect))
    }

    fn done_after_ms(&self) -> u64 {
        let own = match self.resource {
            Resource::Reports => self.contract.report_delay_ms,
            Resource::Tickets | Resource::Orders | Resource::Payments | Resource::Mail => 0,
        };
        match self.fault {
            Some(Fault::Accepted202 { ms }) => own.max(ms),
            _ => own,
        }
    }

    /// What a repetition will find after the effect was made and `created` is its true answer.
    fn remembered(&self, created: Answer) -> Option<Answer> {
        let given = application_answer(self.fault, created.clone(), None);
        match self.contract.repeated_key {
            RepeatedKey::StoresAll => Some(given),
            RepeatedKey::StoresSuccesses if given.status.is_success() => Some(given),
            // The answer was no success and is not stored. Only an effect that carries its key is still found by it.
            RepeatedKey::StoresSuccesses => match self.contract.key_constraint {
                KeyConstraint::Unique => Some(created),
                KeyConstraint::None => None,
            },
            RepeatedKey::Continues | RepeatedKey::CurrentState => Some(created),
        }
    }

    fn answer_without_effect(&self, shared: &Shared, answer: Answer) -> Result<Answer, StoreError> {
        if let (Some(key), RepeatedKey::StoresAll) = (&self.key, self.contract.repeated_key) {
            let remember =
                Remember { key, at_us: shared.clock.now_us(), fingerprint: &self.fingerprint, answer: answer.clone() };
            shared.store.remember(self.epoch, &remember)?;
        }
        Ok(answer)
    }
}

fn mismatch_status(rule: OtherArguments) -> Option<StatusCode> {
    match rule {
        OtherArguments::FirstAnswer => None,
        OtherArguments::Reject400 => Some(StatusCode::BAD_REQUEST),
        OtherArguments::Reject409 => Some(StatusCode::CONFLICT),
        OtherArguments::Reject422 => Some(StatusCode::UNPROCESSABLE_ENTITY),
    }
}

/// What the application itself says when this fault has hit it, where `answer` would have been the truth. This is what a
/// destination that stores answers stores; what a proxy or the network makes of it on the way is not.
pub(crate) fn application_answer(fault: Option<Fault>, answer: Answer, family: Option<&Contract>) -> Answer {
    // A refusal stays one: these faults are of the time after a commit, and there was none.
    if !answer.status.is_success() {
        return answer;
    }
    match (fault, family) {
        (Some(Fault::Error500AfterCommit), _) => Answer::problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Something went wrong; whether anything was done is not known here.",
        ),
        (Some(Fault::Partial200), Some(family)) => partial(family),
        (Some(Fault::Accepted202 { .. }), Some(family)) => accepted(family, &answer),
        (Some(Fault::Partial200), None) => Answer::ok(json!({
            "status": "failed",
            "error": { "code": "partial_failure", "detail": "Some of the work was done." },
        })),
        (Some(Fault::Accepted202 { .. }), None) => {
            Answer::new(StatusCode::ACCEPTED, json!({ "id": answer.body.get("id"), "status": "accepted" }))
        }
        _ => answer,
    }
}
