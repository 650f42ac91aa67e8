//! A write at a spoken interface: what a key finds, what is done, what is remembered.

use std::time::Duration;

use axum::http::StatusCode;
use onceward_core::contract::{
    AfterExpiry, Contract, HorizonClock, HorizonKind, InFlight, Kept, Match, Meaning, OtherInput, Precondition,
    SameInput,
};
use serde_json::Value;

use super::answers::{self, DUPLICATE, marked, success};
use super::keys;
use super::requests::{Asked, Caller};
use super::things::{self, NewThing, Vendor};
use super::versions::Holdings;
use crate::sandbox::clock::span_us;
use crate::sandbox::create::{application_answer, fails_before_commit, in_flight_problem};
use crate::sandbox::fault::Fault;
use crate::sandbox::in_flight::{AccountKey, Executing};
use crate::sandbox::limits::{HORIZON_UNSAID_MS, LOCK_UNSAID_MS};
use crate::sandbox::problem::Answer;
use crate::sandbox::resource::Kind;
use crate::sandbox::state::Shared;
use crate::sandbox::store::{Effect, KeyRecord, NewEffect, Remember, StoreError};
use crate::sandbox::visit::Visit;

/// A write that was read and found possible.
struct Write<'a> {
    shared: &'a Shared,
    visit: &'a Visit,
    asked: &'a Asked<'a>,
    caller: &'a Caller,
    parameters: &'a Value,
    /// The key in its scope, where one was sent and the interface knows keys.
    key: Option<AccountKey>,
    fingerprint: String,
}

/// Whether a key that was not forgotten still holds.
enum Recognised {
    /// It finds this.
    Found(KeyRecord),
    /// It is new, or was forgotten.
    New,
    /// It is too old, and the interface refuses it rather than to take it for new.
    Expired,
}

/// Carries the request out, or finds that it has been. When this returns, the effect is committed if there is one.
pub(super) async fn write(shared: &Shared, visit: &Visit, asked: &Asked<'_>) -> Result<Answer, StoreError> {
    let (caller, parameters) = match (&asked.caller, &asked.body) {
        (Err(refusal), _) | (_, Err(refusal)) => return Ok((**refusal).clone()),
        (Ok(caller), Ok(parameters)) => (caller, parameters),
    };
    let sighting = asked.sighting.as_ref();
    let key = match keys::admitted(asked.family, sighting, asked.parts, &asked.query, parameters) {
        Ok(key) => key,
        Err(refusal) => return Ok(refusal),
    };
    let write = Write {
        shared,
        visit,
        asked,
        caller,
        parameters,
        key: key.map(|key| asked.scoped(caller, &key)),
        fingerprint: asked.fingerprint(parameters),
    };
    let answer = write.answer().await?;
    Ok(write.with_headers(answer))
}

impl Write<'_> {
    fn family(&self) -> &Contract {
        self.asked.family
    }

    async fn answer(&self) -> Result<Answer, StoreError> {
        if let Some(failure) = fails_before_commit(self.visit.fault) {
            self.begin()?;
            return Ok(failure);
        }
        // Malformed requests are turned away before a key is looked at, and the key stays unused.
        let thing = match self.thing()? {
            Ok(thing) => thing,
            Err(refusal) => return Ok(refusal),
        };
        if self.is_expired_by_its_own_word() {
            return Ok(expired(self.family()));
        }
        let Some(key) = &self.key else {
            return self.execute(&thing).await;
        };
        if let Some(found) = self.find(key, &thing)? {
            return Ok(found);
        }
        let executing = match self.family().in_flight.behaviour {
            // Nobody says, so nobody looks.
            InFlight::Undocumented => None,
            InFlight::Rejects | InFlight::SecondMayFail | InFlight::SecondRejectedPresumed => {
                match self.shared.in_flight.try_begin(key) {
                    Some(executing) => Some(executing),
                    None => return Ok(in_flight_problem()),
                }
            }
            InFlight::WaitsThenMayExecute => {
                let patience = self
                    .family()
                    .in_flight
                    .lock_ttl
                    .map_or(Duration::from_millis(LOCK_UNSAID_MS), |ttl| ttl.duration());
                tokio::time::timeout(patience, self.shared.in_flight.begin(key)).await.ok()
            }
        };
        self.execute_under(key, &thing, executing).await
    }

    fn thing(&self) -> Result<Result<NewThing, Answer>, StoreError> {
        let held = Holdings::of(self.shared, &self.visit.account)?;
        let key = self.key.as_ref().map(|key| key.key.as_str());
        let now_us = self.shared.clock.now_us();
        Ok(things::asked_for(self.asked, self.caller, key, self.parameters, &held, now_us))
    }

    /// 412 when the thing is no longer what the caller took it for, at the moment of the commit.
    fn precondition(&self) -> Result<Option<Answer>, StoreError> {
        let Some(precondition) = &self.family().precondition else { return Ok(None) };
        let held = Holdings::of(self.shared, &self.visit.account)?;
        let version = held.writes_at(&self.asked.collection).to_string();
        let said = match precondition {
            Precondition::Header(name) => {
                self.asked.parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            }
            Precondition::Field(at) => {
                at.get(self.parameters).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            }
        };
        let holds = said.is_some_and(|said| said.trim_matches('"') == version);
        let detail = format!("The version is \"{version}\".");
        Ok((!holds).then(|| Answer::problem(StatusCode::PRECONDITION_FAILED, "precondition_failed", detail)))
    }

    async fn execute_under(
        &self,
        key: &AccountKey,
        thing: &NewThing,
        executing: Option<Executing<'_>>,
    ) -> Result<Answer, StoreError> {
        // Looked up again under the guard: whoever held it has finished by now.
        if let Some(found) = self.find(key, thing)? {
            return Ok(found);
        }
        if let Some(interleaving) = self.visit.contract.interleaving {
            self.shared.crossing.meet(key, interleaving).await;
        }
        self.begin()?;
        let answer = match self.execute(thing).await {
            Err(StoreError::KeyTaken) => self.find(key, thing)?.unwrap_or_else(in_flight_problem),
            answered => answered?,
        };
        drop(executing);
        Ok(answer)
    }

    /// An interface that continues unfinished work binds the key to its first input before it begins.
    fn begin(&self) -> Result<(), StoreError> {
        match (&self.key, self.family().same_input.behaviour) {
            (Some(key), SameInput::Continues) => {
                self.shared.store.begin(self.visit.epoch, key, &self.fingerprint, self.shared.clock.now_us())
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// What the key finds: an answer, or nothing for a key under which the work is to be done now.
    fn find(&self, key: &AccountKey, thing: &NewThing) -> Result<Option<Answer>, StoreError> {
        let record = match self.recognise(key)? {
            Recognised::Found(record) => record,
            Recognised::New => return Ok(None),
            Recognised::Expired => return Ok(Some(expired(self.family()))),
        };
        let effect = match record.effect {
            Some(sequence) => self.shared.store.effect(sequence)?,
            None => None,
        };
        if record.fingerprint != self.fingerprint && self.visit.fault != Some(Fault::SilentMismatch) {
            match self.family().other_input.behaviour {
                OtherInput::Rejects => {
                    return Ok(Some(Answer::problem(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        "key_mismatch",
                        "This key was used with other parameters.",
                    )));
                }
                OtherInput::ExecutesAsNew => return self.executes_as_new(thing).map(Some),
                OtherInput::ReplaysOriginalSilently
                | OtherInput::AcceptedNoEffect
                | OtherInput::Indistinguishable
                | OtherInput::Undocumented => {}
            }
        }
        Ok(self.repeated(record, effect.as_ref()))
    }

    fn repeated(&self, record: KeyRecord, effect: Option<&Effect>) -> Option<Answer> {
        let family = self.family();
        let now = |effect: &Effect| success(family, StatusCode::OK, effect);
        match (family.same_input.behaviour, effect) {
            (SameInput::ReplaysStored, _) => record.answer.map(|answer| marked(family, answer)),
            // What finished is shown as it is now, and what did not is done now.
            (SameInput::Continues | SameInput::ReturnsCurrent, Some(effect)) => {
                Some(marked(family, now(&self.newest(effect))))
            }
            (SameInput::ReturnsExistingResource, Some(effect)) => Some(marked(family, now(effect))),
            (SameInput::RejectsDuplicateWithPointer, Some(effect)) => Some(duplicate().saying("existing", effect.id())),
            (SameInput::RejectsDuplicateNoReceipt, Some(_)) => Some(duplicate()),
            (SameInput::AcceptedNoEffect, Some(effect)) => {
                Some(success(family, Vendor::of(family).created_status(family), effect))
            }
            (
                SameInput::Continues
                | SameInput::ReturnsCurrent
                | SameInput::ReturnsExistingResource
                | SameInput::RejectsDuplicateWithPointer
                | SameInput::RejectsDuplicateNoReceipt
                | SameInput::AcceptedNoEffect,
                None,
            )
            | (SameInput::Undocumented, _) => None,
        }
    }

    fn newest(&self, effect: &Effect) -> Effect {
        let newest =
            Holdings::of(self.shared, &self.visit.account).ok().and_then(|held| held.newest(&effect.id()).cloned());
        newest.unwrap_or_else(|| effect.clone())
    }

    fn recognise(&self, key: &AccountKey) -> Result<Recognised, StoreError> {
        let (store, epoch) = (&self.shared.store, self.visit.epoch);
        let Some(record) = store.recognise(epoch, key, None)? else { return Ok(Recognised::New) };
        if self.family().same_input.behaviour == SameInput::Undocumented {
            return Ok(Recognised::New);
        }
        if !self.is_past_its_horizon(&record)? {
            return Ok(Recognised::Found(record));
        }
        match self.family().horizon.after_expiry {
            AfterExpiry::Rejects => Ok(Recognised::Expired),
            AfterExpiry::Reexecutes | AfterExpiry::NotApplicable | AfterExpiry::Unknown => {
                store.recognise(epoch, key, Some(self.shared.clock.now_us()))?;
                Ok(Recognised::New)
            }
        }
    }

    fn is_past_its_horizon(&self, record: &KeyRecord) -> Result<bool, StoreError> {
        let horizon = &self.family().horizon;
        let effect = match record.effect {
            Some(sequence) => self.shared.store.effect(sequence)?,
            None => None,
        };
        if horizon.kind == HorizonKind::ResourceLifetime || horizon.clock == HorizonClock::ObjectEnd {
            let held = Holdings::of(self.shared, &self.visit.account)?;
            return Ok(effect.is_some_and(|effect| held.newest(&effect.id()).is_none()));
        }
        let Some(length_us) = horizon_us(self.family()) else { return Ok(false) };
        let began_us = match (horizon.clock, &effect) {
            (HorizonClock::FirstCompletion, Some(effect)) => effect.created_at_us,
            // Refused by itself, whether the key is known or not: see `is_expired_by_its_own_word`.
            (HorizonClock::ClientFirstSent, _) => return Ok(false),
            (
                HorizonClock::FirstCompletion
                | HorizonClock::FirstRequest
                | HorizonClock::ObjectEnd
                | HorizonClock::Unknown,
                _,
            ) => record.first_used_us,
        };
        Ok(self.shared.clock.now_us() >= began_us.saturating_add(length_us))
    }

    /// Whether the client itself says that it first sent this too long ago.
    fn is_expired_by_its_own_word(&self) -> bool {
        let family = self.family();
        let counts = family.horizon.clock == HorizonClock::ClientFirstSent
            && family.horizon.after_expiry == AfterExpiry::Rejects;
        let sent_us = keys::first_sent_us(family, self.asked.parts, &self.asked.query, self.parameters);
        match (counts, sent_us, horizon_us(family)) {
            (true, Some(sent_us), Some(length_us)) => self.shared.clock.now_us() > sent_us.saturating_add(length_us),
            (_, _, _) => false,
        }
    }

    /// Does it: a new effect, and what its key will find, in one transaction.
    async fn execute(&self, thing: &NewThing) -> Result<Answer, StoreError> {
        if let Some(Fault::DelayBeforeCommit { ms }) = self.visit.fault {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        if self.visit.fault == Some(Fault::Error500RolledBack) {
            let detail = "The work began, failed, and was rolled back.";
            let answer = Answer::problem(StatusCode::INTERNAL_SERVER_ERROR, "rolled_back", detail);
            return self.without_effect(answer, self.family().same_input.saved.server_error);
        }
        if thing.declined {
            let answer = Answer::problem(StatusCode::PAYMENT_REQUIRED, "card_declined", "Your card was declined.");
            return self.without_effect(answer, self.family().same_input.saved.refused_after_execution);
        }
        if let Some(refusal) = self.precondition()? {
            return Ok(refusal);
        }
        if let Some(existing) = self.with_the_same_marker()? {
            return Ok(duplicate().saying("existing", existing));
        }
        let at_us = self.shared.clock.now_us();
        let new = self.new_effect(thing, at_us, self.unique_key());
        let created = |effect: &Effect| self.created(effect);
        let effect = self.shared.store.create(self.visit.epoch, &new, |effect| {
            let key = self.key.as_ref()?;
            let answer = self.remembered(created(effect))?;
            Some(Remember { key, at_us, fingerprint: &self.fingerprint, answer })
        })?;
        Ok(created(&effect))
    }

    /// The thing that has this marker already, where the interface says that a thing "exists already" and the marker stands
    /// in a field of its own: such a field names the thing.
    fn with_the_same_marker(&self) -> Result<Option<String>, StoreError> {
        let family = self.family();
        let unique = family.responses.iter().any(|rule| rule.is == Meaning::AlreadyExists)
            && family.marker.as_ref().is_some_and(|field| field.how == Match::Equals);
        let Some(marker) = self.asked.marker.as_deref().filter(|_| unique) else { return Ok(None) };
        let held = Holdings::of(self.shared, &self.visit.account)?;
        let found =
            held.made_at(&self.asked.collection).into_iter().find(|held| held.made.marker.as_deref() == Some(marker));
        Ok(found.map(|held| held.made.id()))
    }

    fn executes_as_new(&self, thing: &NewThing) -> Result<Answer, StoreError> {
        let new = self.new_effect(thing, self.shared.clock.now_us(), None);
        let effect = self.shared.store.create(self.visit.epoch, &new, |_| None)?;
        Ok(self.created(&effect))
    }

    fn created(&self, effect: &Effect) -> Answer {
        let family = self.family();
        let answer = success(family, Vendor::of(family).created_status(family), effect);
        match family.precondition {
            Some(_) => {
                let version =
                    Holdings::of(self.shared, &self.visit.account).map(|held| held.writes_at(&self.asked.collection));
                answers::with_header(answer, "ETag", &format!("\"{}\"", version.unwrap_or_default()))
            }
            None => answer,
        }
    }

    fn new_effect(&self, thing: &NewThing, at_us: i64, unique_key: Option<String>) -> NewEffect {
        let done_after_ms = match self.visit.fault {
            Some(Fault::Accepted202 { ms }) => ms,
            Some(_) | None => 0,
        };
        NewEffect {
            resource: Kind::Spoken(self.asked.collection.clone()),
            account: self.visit.account.clone(),
            at_us,
            done_at_us: at_us + span_us(done_after_ms),
            idempotency_key: self.visit.received_key.clone(),
            unique_key,
            marker: self.visit.header_marker.clone(),
            fingerprint: self.fingerprint.clone(),
            fields: thing.fields.clone(),
            naming: thing.naming.clone(),
        }
    }

    /// The key that no other effect may carry, where effect and key are one commit or the effect is found by its key.
    fn unique_key(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let carried = match self.family().same_input.behaviour {
            SameInput::ReplaysStored => self.family().execution.effect_atomic_with_key,
            SameInput::Continues
            | SameInput::ReturnsCurrent
            | SameInput::ReturnsExistingResource
            | SameInput::RejectsDuplicateWithPointer
            | SameInput::RejectsDuplicateNoReceipt
            | SameInput::AcceptedNoEffect => true,
            SameInput::Undocumented => false,
        };
        carried.then(|| format!("{}\u{1f}{}", key.account, key.key))
    }

    /// What a repetition will find after the effect was made and `created` is its true answer.
    fn remembered(&self, created: Answer) -> Option<Answer> {
        let family = self.family();
        let given = application_answer(self.visit.fault, created.clone(), Some(family));
        let saved = &family.same_input.saved;
        match family.same_input.behaviour {
            SameInput::ReplaysStored => {
                let kept = match given.status.as_u16() {
                    // Who replays stored answers stores successes, if anything.
                    200..=299 => saved.success != Kept::NotStored,
                    503 => saved.unavailable == Kept::Stored,
                    500..=599 => saved.server_error == Kept::Stored,
                    _ => saved.refused_after_execution == Kept::Stored,
                };
                match (kept, family.execution.effect_atomic_with_key) {
                    (true, _) => Some(given),
                    // The answer was not stored, but the effect is found by the key that it carries.
                    (false, true) => Some(created),
                    (false, false) => None,
                }
            }
            SameInput::Continues
            | SameInput::ReturnsCurrent
            | SameInput::ReturnsExistingResource
            | SameInput::RejectsDuplicateWithPointer
            | SameInput::RejectsDuplicateNoReceipt
            | SameInput::AcceptedNoEffect => Some(created),
            SameInput::Undocumented => None,
        }
    }

    fn without_effect(&self, answer: Answer, kept: Kept) -> Result<Answer, StoreError> {
        if let (Some(key), SameInput::ReplaysStored, Kept::Stored) =
            (&self.key, self.family().same_input.behaviour, kept)
        {
            let at_us = self.shared.clock.now_us();
            let remember = Remember { key, at_us, fingerprint: &self.fingerprint, answer: answer.clone() };
            self.shared.store.remember(self.visit.epoch, &remember)?;
        }
        Ok(answer)
    }

    /// Stripe repeats the key that it saw.
    fn with_headers(&self, answer: Answer) -> Answer {
        match (Vendor::of(self.family()), &self.key) {
            (Vendor::StripeForms, Some(key)) => answers::with_header(answer, "Idempotency-Key", &key.key),
            (Vendor::StripeForms, None) | (Vendor::Any, _) => answer,
        }
    }
}

fn duplicate() -> Answer {
    Answer::problem(StatusCode::CONFLICT, DUPLICATE, "This has been done already.")
}

/// The refusal of a key that is too old: 412 where the interface knows it as a refusal, 400 elsewhere.
fn expired(family: &Contract) -> Answer {
    let status = match family.execution.refused_before_effect.contains(&412) {
        true => StatusCode::PRECONDITION_FAILED,
        false => StatusCode::BAD_REQUEST,
    };
    Answer::problem(status, "key_expired", "This request is outside the window in which it can be repeated.")
}

/// How long a key is known: not a moment longer than promised.
fn horizon_us(family: &Contract) -> Option<i64> {
    let horizon = &family.horizon;
    let ms = |span: onceward_core::contract::Span| u64::try_from(span.duration().as_millis()).unwrap_or(u64::MAX);
    match (horizon.kind, horizon.min) {
        (HorizonKind::Indefinite | HorizonKind::ResourceLifetime, None) => None,
        (_, Some(min)) => Some(span_us(ms(min))),
        (_, None) => Some(span_us(HORIZON_UNSAID_MS)),
    }
}
