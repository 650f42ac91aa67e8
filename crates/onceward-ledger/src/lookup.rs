//! Asking what became of an operation, and recording what the answer says: evidence, never a verdict of ours.
//!
//! A question is about the attempts that were known when it was asked. What it says is recorded about each of these by name, so
//! that it can never speak of one that was made since.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::contract::{Contract, LookupKind, LookupRequest, Meaning, Seen};
use onceward_core::event::{About, Cause, Event, NoEffect, Observation, Source, Verdict};
use onceward_core::evidence::{
    Absence, AbsenceCase, Candidate, ChildProcess, Completeness, Presence, Reading, ScopeEquality, absence, pointed_at,
    presence, read_lookup,
};
use onceward_core::key::{AttemptNumber, OutboundKey, ToolName};
use onceward_core::operation::Operation;
use onceward_core::receipt::{Answer, Receipt, Rejection};
use onceward_core::state::{Finding, State, Uncertain};
use onceward_core::time::Timestamp;
use serde_json::json;

use crate::authorize::{Authorized, Lookup, Reporting};
use crate::destination::{Asked, Destination, Question};
use crate::directory::Known;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::store::{Applied, Expects, Step};

/// What a lookup came to, in one word. The words are labels of a metric and part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// The effect was found: the operation has succeeded.
    Found,
    /// The accepted work was refused in the end: nothing happened.
    Refused,
    /// An effect was found that should not be there: a disagreement.
    OtherEffect,
    /// Things were found that may be it; a person decides.
    Candidates,
    /// It is proved that nothing happened: the operation may be dispatched again.
    ProvedAbsent,
    /// Nothing was found, which counts; more such answers are needed.
    AbsentSoFar,
    /// Nothing was found, and nothing follows from it.
    SaysNothing,
    /// No answer came that can be read.
    NoAnswer,
    /// There is nothing to ask.
    NoWay,
}

impl Said {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Refused => "refused",
            Self::OtherEffect => "other_effect",
            Self::Candidates => "candidates",
            Self::ProvedAbsent => "proved_absent",
            Self::AbsentSoFar => "absent_so_far",
            Self::SaysNothing => "says_nothing",
            Self::NoAnswer => "no_answer",
            Self::NoWay => "no_way",
        }
    }
}

/// A lookup that was carried out.
#[derive(Clone, Debug)]
pub struct LookedUp {
    /// What it came to.
    pub said: Said,
    /// The operation as it stands afterwards.
    pub operation: Operation,
    /// What was asked and answered, in words for a person; it is in the journal, too.
    pub note: String,
}

/// What an application found when it looked for the effect of its own function.
#[derive(Clone, Debug)]
pub struct Report {
    /// How long ago it asked: what happened since may be missing from the answer.
    pub asked_ago: Duration,
    /// What the answer shows.
    pub found: Vec<Candidate>,
    /// Whether everything was seen.
    pub completeness: Completeness,
    /// What was asked and answered, in words.
    pub note: Option<String>,
}

impl Ledger {
    /// Asks the destination now what became of an unknown operation, and records what follows from the answer. Nothing is
    /// written at the destination; whether the operation may be dispatched again is the rules' to say.
    ///
    /// # Errors
    /// [`LedgerError::Illegal`] where the operation is not unknown; [`LedgerError::NotFound`] where its tool is not configured
    /// in this process.
    pub async fn look_up(&self, _allowed: &Authorized<Lookup>, operation: &Operation) -> Result<LookedUp, LedgerError> {
        let State::Unknown(_) = &operation.state else {
            return Err(LedgerError::Illegal(onceward_core::step::Refusal::NoSuchAttempt));
        };
        let known = self.inner.directory.get().and_then(|directory| directory.known(&operation.binding.tool));
        let Some(known) = known else { return Err(LedgerError::NotFound) };
        self.inner.ask(operation, &known).await
    }

    /// Unknown operations of an application's own functions whose effect it may look for by now, of tools that the caller may
    /// look up, oldest first; where `tools` names some, of those only.
    ///
    /// # Errors
    /// [`LedgerError::Store`].
    pub async fn due_lookups(
        &self,
        grant: &crate::authorize::Grant,
        tools: &[ToolName],
        limit: u32,
    ) -> Result<Vec<Operation>, LedgerError> {
        // The longest due first; what is another tenant's, or a destination's, does not count.
        let mut due = self.inner.store.due(self.inner.clock.now(), limits::DUE_READ).await?;
        due.retain(|operation| is_own_function(operation) && grant.to_lookup(operation).is_ok());
        due.retain(|operation| tools.is_empty() || tools.contains(&operation.binding.tool));
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(due)
    }

    /// Records what an application found when it looked for the effect of its own function.
    ///
    /// # Errors
    /// [`LedgerError::Illegal`] where the operation is not unknown, or its function is not the application's own.
    pub async fn report_lookup(
        &self,
        allowed: &Authorized<Reporting>,
        operation: &Operation,
        report: Report,
    ) -> Result<LookedUp, LedgerError> {
        let not_so = || LedgerError::Illegal(onceward_core::step::Refusal::NoSuchAttempt);
        let State::Unknown(_) = &operation.state else { return Err(not_so()) };
        let prospect = self.inner.prospect(operation, None).await?.ok_or_else(not_so)?;
        let asked_at = self.inner.clock.now().minus(report.asked_ago);
        let words = report.note.unwrap_or_default();
        let whole = report.completeness == Completeness::Whole;
        let asked = json!({
            "by": allowed.principal(), "asked_at": asked_at, "said": words, "found": report.found.len(), "whole": whole,
        });
        let contract = prospect.contract();
        let sight = Sight { asked_at, attempt: None, candidates: report.found, completeness: report.completeness };
        let looked = self
            .inner
            .conclude(operation, &contract, sight, (ChildProcess::NotOne, ScopeEquality::Same), asked)
            .await?;
        self.inner.metrics.looked_up(&operation.binding.tool, looked.said);
        Ok(looked)
    }
}

/// Whether an application runs the operation's function itself, and looks for its effect.
pub(crate) fn is_own_function(operation: &Operation) -> bool {
    operation.terms.pin.as_ref().is_some_and(|pin| pin.is_own_function())
}

/// What was seen of everything that was asked.
struct Sight {
    asked_at: Timestamp,
    /// Whose key or marker what was found carries, where that is known.
    attempt: Option<AttemptNumber>,
    candidates: Vec<Candidate>,
    completeness: Completeness,
}

/// What follows for the operation, before it is recorded.
struct Conclusion {
    said: Said,
    /// About every uncertain attempt at once, or about each by its name.
    verdict: Told,
    /// Not before then.
    earliest: Option<Timestamp>,
}

enum Told {
    Once(Verdict),
    OfEach(Verdict),
    /// It gives each attempt's own cause back: nothing moves but the next check.
    Nothing,
}

impl Inner {
    /// Carries the lookup of an unknown operation out, and records what it says.
    pub(crate) async fn ask(&self, operation: &Operation, known: &Known) -> Result<LookedUp, LedgerError> {
        let looked = self.ask_here(operation, known).await?;
        self.metrics.looked_up(&operation.binding.tool, looked.said);
        Ok(looked)
    }

    async fn ask_here(&self, operation: &Operation, known: &Known) -> Result<LookedUp, LedgerError> {
        let prospect = self.prospect(operation, Some(&known.destination)).await?;
        let Some((contract, scope)) = prospect.map(|prospect| (prospect.contract(), prospect.parts().2)) else {
            return Ok(no_way(operation, "the operation names no destination that could be asked"));
        };
        let Some(lookup) = contract.lookup.clone().filter(|lookup| can_be_asked(&lookup.request)) else {
            return Ok(no_way(operation, "the contract has no question that could be asked here"));
        };
        let Some(arguments) = operation.binding.arguments.present() else {
            return Ok(no_way(operation, "the arguments are erased"));
        };
        let uncertain = operation.state.uncertain();
        let keys = keys_of(operation);
        let accepted = uncertain.iter().rev().find_map(|one| match &one.cause {
            Cause::Accepted { handle } => handle.clone(),
            _ => None,
        });
        // What was pointed at is taken for ours when it is read, so nothing else may stand in its place.
        let handle = match lookup.kind == LookupKind::ByKeyViaConflict {
            true => pointed_at(uncertain).map(ToOwned::to_owned),
            false => accepted,
        };
        if lookup.kind == LookupKind::AsyncHandle && handle.is_none() {
            return Ok(no_way(operation, "the destination gave no name for the work that it accepted"));
        }
        if lookup.kind == LookupKind::ByKeyViaConflict && handle.is_none() {
            return Ok(no_way(operation, "the destination has pointed at nothing that could be read"));
        }
        // Asked once for each key, because a destination finds only what carries the one it was asked for.
        let questions: Vec<Option<OutboundKey>> =
            if keys.is_empty() { vec![None] } else { keys.iter().cloned().map(Some).collect() };
        let asked_at = self.clock.now();
        let mut sight = Sight { asked_at, attempt: None, candidates: Vec::new(), completeness: Completeness::Whole };
        let mut answers = Vec::new();
        for key in questions {
            let question = Question {
                tool: operation.binding.tool.clone(),
                lookup: lookup.clone(),
                key,
                handle: handle.clone(),
                arguments: Arc::clone(arguments),
                sent_from: first_left(operation).unwrap_or(asked_at),
                sent_until: uncertain.iter().map(|one| one.send_before).max().unwrap_or(asked_at),
                answer_within: known.answer_within,
            };
            match known.destination.ask(question).await {
                Asked::Answered(answer) => answers.push(answer),
                Asked::NoAnswer(why) => return self.no_answer(operation, Said::NoAnswer, &why).await,
                Asked::NoWay => return Ok(no_way(operation, "the destination cannot be asked this")),
            }
        }
        let now = self.clock.now();
        for answer in &answers {
            if lookup.kind == LookupKind::AsyncHandle
                && let Some(meaning) = meaning(&contract, answer)
            {
                match meaning {
                    Meaning::Refused => return self.accepted_was_refused(operation, answer, now).await,
                    Meaning::Accepted | Meaning::InFlight | Meaning::Partial | Meaning::Uncertain => {
                        return self.no_answer(operation, Said::SaysNothing, "the accepted work is not done yet").await;
                    }
                    Meaning::Confirmed
                    | Meaning::TurnedAway
                    | Meaning::CredentialRefused
                    | Meaning::KeyMismatch
                    | Meaning::AlreadyExists => {}
                }
            }
            match read_lookup(&contract, answer, &keys, arguments.value(), now) {
                Reading::Found { candidates, completeness } => {
                    sight.candidates.extend(candidates);
                    if completeness == Completeness::Cut {
                        sight.completeness = Completeness::Cut;
                    }
                }
                Reading::Unreadable => {
                    let why = format!("an answer with status {} is none to the question", answer.status);
                    return self.no_answer(operation, Said::NoAnswer, &why).await;
                }
            }
        }
        let asked = json!({
            "asked": question_in_words(&lookup.request),
            "asked_at": asked_at,
            "answered": answers.iter().map(|answer| json!({ "status": answer.status, "bytes": answer.body.len() }))
                .collect::<Vec<_>>(),
        });
        let child = child(&*known.destination, uncertain);
        sight.attempt = attempt_of(operation, &contract, &sight.candidates, &answers, arguments.value(), now);
        self.conclude(operation, &contract, sight, (child, scope), asked).await
    }

    /// What follows from what was seen, recorded.
    async fn conclude(
        &self,
        operation: &Operation,
        contract: &Contract,
        sight: Sight,
        place: (ChildProcess, ScopeEquality),
        asked: serde_json::Value,
    ) -> Result<LookedUp, LedgerError> {
        let found = found_in_words(&sight.candidates);
        let about = sight.attempt.map_or(About::EveryUncertain, About::Attempt);
        let conclusion = concluded(operation, contract, sight, place);
        let note = json!({ "lookup": conclusion.said.name(), "about": asked, "found": found }).to_string();
        self.told(operation, about, conclusion, note).await
    }

    /// A question without an answer that says anything. The next one is asked later, and the journal has this one.
    async fn no_answer(&self, operation: &Operation, said: Said, why: &str) -> Result<LookedUp, LedgerError> {
        let note = json!({ "lookup": said.name(), "why": why }).to_string();
        self.told(operation, About::EveryUncertain, Conclusion { said, verdict: Told::Nothing, earliest: None }, note)
            .await
    }

    async fn accepted_was_refused(
        &self,
        operation: &Operation,
        answer: &Answer,
        now: Timestamp,
    ) -> Result<LookedUp, LedgerError> {
        let note = json!({ "lookup": Said::Refused.name(), "answered": { "status": answer.status } }).to_string();
        let verdict = Verdict::Refusal(Rejection { answer: answer.clone(), received_at: now });
        let conclusion = Conclusion { said: Said::Refused, verdict: Told::OfEach(verdict), earliest: None };
        self.told(operation, About::EveryUncertain, conclusion, note).await
    }

    async fn told(
        &self,
        operation: &Operation,
        about: About,
        conclusion: Conclusion,
        note: String,
    ) -> Result<LookedUp, LedgerError> {
        let seen = |about, verdict, next_check| Observation {
            about,
            verdict,
            source: Source::Lookup,
            next_check,
            note: Some(note.clone()),
        };
        let uncertain = operation.state.uncertain();
        // What was found is evidence whatever has happened meanwhile. Anything else was concluded from what stood when it was asked.
        let expects = match conclusion.verdict {
            Told::Once(_) => Expects::Anything,
            Told::OfEach(_) | Told::Nothing => Expects::Version(operation.journal.seq),
        };
        let mut observations: Vec<Observation> = match conclusion.verdict {
            Told::Once(verdict) => vec![seen(about, verdict, None)],
            Told::OfEach(verdict) => {
                uncertain.iter().map(|one| seen(About::Attempt(one.attempt), verdict.clone(), None)).collect()
            }
            Told::Nothing => uncertain
                .last()
                .map(|one| seen(About::Attempt(one.attempt), Verdict::Lost(one.cause.clone()), None))
                .into_iter()
                .collect(),
        };
        let next = self.check_after_all(operation, &observations).await?;
        let next = next.map(|next| conclusion.earliest.map_or(next, |earliest| next.max(earliest)));
        for observation in &mut observations {
            observation.next_check = next;
        }
        let step = Step {
            key: operation.key.clone(),
            events: observations.into_iter().map(Event::Observe).collect(),
            actor: format!("lookup:{}", self.owner),
            expects,
        };
        tracing::info!(key = %operation.key, said = conclusion.said.name(), "a lookup");
        match self.step(step).await? {
            Applied::Stepped(operation) => Ok(LookedUp { said: conclusion.said, operation, note }),
            // It moved meanwhile: what was found is asked for again if it still matters.
            Applied::Refused { operation, .. } => Ok(LookedUp { said: Said::SaysNothing, operation, note }),
            Applied::NoSuchOperation => Err(LedgerError::NotFound),
            Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_) | Applied::Done => {
                Err(LedgerError::Contended)
            }
        }
    }

    /// When the operation is looked at again once all of these are recorded.
    async fn check_after_all(
        &self,
        operation: &Operation,
        observations: &[Observation],
    ) -> Result<Option<Timestamp>, LedgerError> {
        let now = self.clock.now();
        let after = observations
            .iter()
            .try_fold(operation.clone(), |operation, seen| operation.step(&Event::Observe(seen.clone()), now));
        match after {
            Ok(after) => self.next_check(&after, None).await,
            Err(_) => Ok(None),
        }
    }
}

/// Presence first: what was found outweighs what was not.
fn concluded(
    operation: &Operation,
    contract: &Contract,
    sight: Sight,
    (child, scope): (ChildProcess, ScopeEquality),
) -> Conclusion {
    let once = |said, verdict| Conclusion { said, verdict: Told::Once(verdict), earliest: None };
    match presence(&sight.candidates) {
        Presence::Ours(receipt) => once(Said::Found, Verdict::Effect(receipt)),
        Presence::OtherEffect(kind) => once(Said::OtherEffect, Verdict::OtherEffect(kind)),
        Presence::Candidates(_) => Conclusion { said: Said::Candidates, verdict: Told::Nothing, earliest: None },
        Presence::Nothing => {
            let case = AbsenceCase {
                contract,
                uncertain: operation.state.uncertain(),
                asked_at: sight.asked_at,
                completeness: sight.completeness,
                child,
                scope,
            };
            match absence(&case) {
                Absence::Proof => Conclusion {
                    said: Said::ProvedAbsent,
                    verdict: Told::OfEach(Verdict::NoEffect(NoEffect::ProvedAbsent)),
                    earliest: None,
                },
                Absence::Counts { next, .. } => Conclusion {
                    said: Said::AbsentSoFar,
                    verdict: Told::OfEach(Verdict::Lost(Cause::AbsentOnce)),
                    earliest: Some(next),
                },
                Absence::SaysNothing { earliest, .. } => {
                    Conclusion { said: Said::SaysNothing, verdict: Told::Nothing, earliest }
                }
            }
        }
    }
}

fn can_be_asked(request: &LookupRequest) -> bool {
    match request {
        LookupRequest::Http { .. } | LookupRequest::Tool { .. } => true,
        LookupRequest::Application | LookupRequest::Nothing => false,
    }
}

/// Every key under which the destination may know the operation: those of the attempts that left.
fn keys_of(operation: &Operation) -> Vec<OutboundKey> {
    let uncertain = operation.state.uncertain().iter().filter_map(|one| one.outbound_key.clone());
    let disproved = operation.history.disproved.iter().filter_map(|one| match one.finding {
        Finding::NoEffect(_) | Finding::Refused => one.outbound_key.clone(),
        Finding::NotSent(_) => None,
    });
    let mut keys: Vec<OutboundKey> = Vec::new();
    for key in uncertain.chain(disproved) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// When the first attempt that left was claimed: what carries one of the keys is not older.
fn first_left(operation: &Operation) -> Option<Timestamp> {
    let uncertain = operation.state.uncertain().iter().map(|one| one.claimed_at);
    let disproved = operation.history.disproved.iter().filter_map(|one| match one.finding {
        Finding::NoEffect(_) | Finding::Refused => Some(one.claimed_at),
        Finding::NotSent(_) => None,
    });
    uncertain.chain(disproved).min()
}

/// The attempt under whose key the one thing was found that carries our name: the latest that sent it, an uncertain one before one
/// that was disproved. An effect of a disproved attempt is a contradiction, and says nothing of a newer one under another key.
fn attempt_of(
    operation: &Operation,
    contract: &Contract,
    found: &[Candidate],
    answers: &[Answer],
    arguments: &serde_json::Value,
    now: Timestamp,
) -> Option<AttemptNumber> {
    let Presence::Ours(_) = presence(found) else { return None };
    let carries = |key: &OutboundKey| {
        answers.iter().any(|answer| match read_lookup(contract, answer, std::slice::from_ref(key), arguments, now) {
            Reading::Found { candidates, .. } => matches!(presence(&candidates), Presence::Ours(_)),
            Reading::Unreadable => false,
        })
    };
    // Where the destination recognises by what was asked for, every key reads alike, and the question has told them apart.
    let keys: Vec<OutboundKey> = keys_of(operation).into_iter().filter(|key| carries(key)).collect();
    let [key] = keys.as_slice() else { return None };
    let uncertain = operation.state.uncertain().iter().filter(|one| one.outbound_key.as_ref() == Some(key));
    let disproved = operation.history.disproved.iter().filter(|one| one.outbound_key.as_ref() == Some(key));
    uncertain.map(|one| one.attempt).max().or_else(|| disproved.map(|one| one.attempt).max())
}

/// The child that may still be at work decides.
fn child(destination: &dyn Destination, uncertain: &[Uncertain]) -> ChildProcess {
    let mut worst = ChildProcess::NotOne;
    for one in uncertain {
        match destination.child(one.claimed_at) {
            ChildProcess::MayLive => return ChildProcess::MayLive,
            ChildProcess::Gone => worst = ChildProcess::Gone,
            ChildProcess::NotOne => {}
        }
    }
    worst
}

/// What the contract says of an answer about accepted work.
fn meaning(contract: &Contract, answer: &Answer) -> Option<Meaning> {
    let body = answer.body_json();
    let text = String::from_utf8_lossy(&answer.body);
    let seen = Seen { status: Some(answer.status), headers: &answer.headers, body: body.as_ref(), text: &text };
    contract.responses.iter().find(|rule| rule.when.holds(&seen)).map(|rule| rule.is)
}

/// The question as the contract has it: its placeholders are not filled in, so that the journal repeats no arguments.
fn question_in_words(request: &LookupRequest) -> String {
    match request {
        LookupRequest::Http { method, path, .. } => format!("{method} {path}"),
        LookupRequest::Tool { tool, .. } => format!("tool {tool}"),
        LookupRequest::Application => "the application".to_owned(),
        LookupRequest::Nothing => "nothing".to_owned(),
    }
}

fn found_in_words(candidates: &[Candidate]) -> Vec<serde_json::Value> {
    /// More than a person compares.
    const SHOWN: usize = 16;
    let word = |receipt: &Receipt| receipt.effect_id.as_ref().map(|id| id.as_str().to_owned());
    candidates
        .iter()
        .take(SHOWN)
        .map(|one| {
            json!({
                "effect_id": word(&one.receipt),
                "by": format!("{:?}", one.by),
                "parameters": format!("{:?}", one.parameters),
            })
        })
        .collect()
}

fn no_way(operation: &Operation, why: &str) -> LookedUp {
    LookedUp { said: Said::NoWay, operation: operation.clone(), note: why.to_owned() }
}
