//! HTTP answers, rows 8 to 25.

use core::time::Duration;

use serde_json::Value;

use super::facts::{AttemptFacts, Body};
use super::{Classified, Next, after_lost, ask, classified, disagrees, http_date, lost, refused, settled, turned_away};
use crate::contract::{Contract, Kind, Lookup, Meaning, MissingMarker, ReplayMarker, SameInput, Seen, header};
use crate::event::{Cause, NoEffect, OtherEffect, Verdict};
use crate::evidence::Compared;
use crate::key::EffectId;
use crate::receipt::{Answer, Receipt};

/// An answer while it is being classified.
pub(super) struct Reply<'a> {
    pub(super) contract: &'a Contract,
    pub(super) attempt: &'a AttemptFacts<'a>,
    pub(super) seen: Seen<'a>,
    /// What is kept of it.
    pub(super) answer: Answer,
    /// Whether all of it arrived and can be read.
    pub(super) readable: bool,
}

pub(super) fn classify(
    contract: &Contract,
    attempt: &AttemptFacts<'_>,
    status: u16,
    headers: &[(String, String)],
    body: &Body,
) -> Classified {
    let bytes = body.bytes();
    let json: Option<Value> = serde_json::from_slice(bytes).ok();
    let text = String::from_utf8_lossy(bytes);
    let says_json = header(headers, "content-type").is_some_and(is_json);
    let readable = match body {
        Body::Whole(bytes) => !says_json || json.is_some() || bytes.is_empty(),
        Body::Cut(_) => false,
    };
    let reply = Reply {
        contract,
        attempt,
        seen: Seen { status: Some(status), headers, body: json.as_ref(), text: &text },
        answer: Answer { status, headers: kept_headers(contract, headers), body: bytes.to_vec() },
        readable,
    };
    advised(&reply, reply.by_contract().unwrap_or_else(|| reply.by_status(status)))
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The headers of an answer that are kept and replayed.
///
/// An allow-list: a cookie or credential that is not named here cannot leak into a replay for somebody else, and dates
/// and rate limits would be lies by then.
#[must_use]
pub fn kept_headers(contract: &Contract, headers: &[(String, String)]) -> Vec<(String, String)> {
    const ALWAYS: [&str; 4] = ["content-type", "etag", "link", "location"];
    const NEVER: [&str; 6] =
        ["set-cookie", "authorization", "proxy-authenticate", "www-authenticate", "date", "retry-after"];
    let named = |name: &str, list: &[&str]| list.iter().any(|candidate| candidate.eq_ignore_ascii_case(name));
    let by_contract =
        |name: &str| contract.effect.keep_headers.iter().any(|candidate| candidate.eq_ignore_ascii_case(name));
    headers
        .iter()
        .filter(|(name, _)| named(name, &ALWAYS) || (by_contract(name) && !named(name, &NEVER)))
        .cloned()
        .collect()
}

impl Reply<'_> {
    /// What the contract says about such an answer, if it says anything.
    pub(super) fn by_contract(&self) -> Option<Classified> {
        let contract = self.contract;
        if let Some(rule) = contract.responses.iter().find(|rule| rule.when.holds(&self.seen)) {
            return Some(self.meaning(rule.is));
        }
        let status = self.seen.status.unwrap_or_default();
        // A success that happens to contain the words of a refusal was still a success.
        let failed = self.seen.status.is_some_and(|status| !(200..=299).contains(&status));
        if failed && contract.refused_if.as_ref().is_some_and(|refusal| refusal.holds(&self.seen)) {
            return Some(refused(13, self.answer.clone(), self.attempt));
        }
        if contract.same_input.duplicate.as_ref().is_some_and(|duplicate| duplicate.holds(&self.seen)) {
            return Some(self.meaning(Meaning::AlreadyExists));
        }
        if contract.other_input.statuses.contains(&status) {
            // Without words of its own the status is ambiguous: a first attempt has no other input to differ from.
            let mismatch = match &contract.other_input.when {
                Some(when) => when.holds(&self.seen),
                None => self.attempt.repeats(),
            };
            if mismatch {
                return Some(self.meaning(Meaning::KeyMismatch));
            }
        }
        let in_flight = &contract.in_flight;
        if in_flight.statuses.contains(&status) && in_flight.when.as_ref().is_none_or(|when| when.holds(&self.seen)) {
            return Some(self.meaning(Meaning::InFlight));
        }
        None
    }

    fn meaning(&self, meaning: Meaning) -> Classified {
        match meaning {
            Meaning::Confirmed => self.confirmed(),
            Meaning::Refused => refused(13, self.answer.clone(), self.attempt),
            Meaning::TurnedAway => turned_away(21, self.patience()),
            Meaning::CredentialRefused => credential_refused(),
            Meaning::Accepted => self.accepted(),
            Meaning::InFlight => self.in_flight(),
            Meaning::KeyMismatch => disagrees(18, OtherEffect::KeyMismatch, None),
            Meaning::AlreadyExists => self.already_exists(),
            Meaning::Partial => self.partial(),
            Meaning::Uncertain => lost(self.contract, 0, Cause::ServerError),
        }
    }

    fn by_status(&self, status: u16) -> Classified {
        let contract = self.contract;
        let execution = &contract.execution;
        let listed = execution.refused_before_effect.contains(&status);
        match status {
            202 if !execution.accept_is_effect => self.accepted(),
            200..=299 => self.confirmed(),
            300..=399 => lost(contract, 12, Cause::ReplyLost),
            401 | 403 => self.credential(listed),
            402 => refused(15, self.answer.clone(), self.attempt),
            400 | 404 | 405 | 406 | 411 | 413 | 415 => self.malformed(listed),
            408 => lost(contract, 19, Cause::ReplyLost),
            409 if listed => refused(16, self.answer.clone(), self.attempt),
            409 => self.in_flight(),
            412 => self.precondition_failed(listed),
            425 => turned_away(19, self.patience()),
            429 if execution.limiter_before_work => turned_away(21, self.patience()),
            429 => self.lost_patiently(21),
            400..=499 if listed => refused(13, self.answer.clone(), self.attempt),
            500 => self.server_error(22),
            501 | 505 => refused(25, self.answer.clone(), self.attempt),
            502 | 504 => self.lost_patiently(23),
            503 if execution.shed_before_work => turned_away(24, self.patience()),
            503 => self.lost_patiently(24),
            _ => lost(contract, 0, Cause::ServerError),
        }
    }

    /// Rows 8 and 9, and R8.
    pub(super) fn confirmed(&self) -> Classified {
        let Some(receipt) = self.receipt() else {
            return self.unreadable();
        };
        if let Some(arguments) = self.attempt.arguments
            && let Some(body) = self.seen.body
            && crate::evidence::compare(&self.contract.effect.correlate, arguments, body) == Compared::Different
        {
            return disagrees(8, OtherEffect::OtherParameters, Some(receipt));
        }
        match &self.contract.replay_marker {
            Some(marker)
                if self.attempt.redrive
                    && marker.missing == MissingMarker::Disagreement
                    && !marked(marker, &self.seen) =>
            {
                disagrees(8, OtherEffect::ReplayMarkerMissing, Some(receipt))
            }
            Some(_) | None => settled(8, Verdict::Effect(receipt)),
        }
    }

    /// The receipt, if the answer is whole, can be read, and names the effect where the contract says it does.
    fn receipt(&self) -> Option<Receipt> {
        if !self.readable {
            return None;
        }
        let effect_id = match &self.contract.effect.id {
            Some(place) => Some(EffectId::parse(&place.text(&self.seen)?).ok()?),
            None => None,
        };
        Some(Receipt { effect_id, answer: self.answer.clone(), received_at: self.attempt.now })
    }

    /// Row 9: a success was on its way, so it is stored wherever successes are.
    fn unreadable(&self) -> Classified {
        let then = match self.contract.kind() {
            Kind::K1 | Kind::K2 | Kind::K3 => Next::RetrySameKey { not_before: None },
            // Re-reading says more than repeating.
            Kind::L | Kind::N | Kind::I => ask(self.contract),
        };
        classified(9, Verdict::Lost(Cause::ReplyUnreadable), then)
    }

    /// Row 10.
    fn partial(&self) -> Classified {
        let then = match self.contract.kind() {
            Kind::K3 => Next::RetrySameKey { not_before: self.patience() },
            // Never a blanket repetition: what was done would be done again.
            Kind::K1 | Kind::K2 | Kind::L | Kind::N | Kind::I => ask(self.contract),
        };
        classified(10, Verdict::Lost(Cause::ServerError), then)
    }

    /// Row 11.
    fn accepted(&self) -> Classified {
        let handle = match &self.contract.effect.handle {
            Some(place) => place.text(&self.seen),
            None => self.seen.header("location").map(ToOwned::to_owned),
        };
        let then = match &self.contract.lookup {
            Some(_) => Next::Poll,
            None => Next::Operator,
        };
        classified(11, Verdict::Lost(Cause::Accepted { handle }), then)
    }

    /// Row 13.
    fn malformed(&self, listed: bool) -> Classified {
        match self.contract.kind() {
            Kind::N if !listed => lost(self.contract, 13, Cause::ReplyLost),
            Kind::K1 | Kind::K2 | Kind::K3 | Kind::L | Kind::N | Kind::I => {
                refused(13, self.answer.clone(), self.attempt)
            }
        }
    }

    /// Row 14.
    fn credential(&self, listed: bool) -> Classified {
        match self.contract.kind() {
            Kind::K1 | Kind::K2 | Kind::K3 | Kind::I => credential_refused(),
            Kind::L | Kind::N if listed => credential_refused(),
            Kind::L | Kind::N => lost(self.contract, 14, Cause::ReplyLost),
        }
    }

    /// Row 16.
    fn in_flight(&self) -> Classified {
        let then = match self.contract.kind() {
            Kind::K1 | Kind::K2 | Kind::K3 => Next::Wait { not_before: self.patience() },
            Kind::L | Kind::N | Kind::I => ask(self.contract),
        };
        classified(16, Verdict::Lost(Cause::InFlightElsewhere), then)
    }

    /// Row 17: something exists. It is ours only if an earlier attempt may have made it (R11), and then it is read and
    /// compared before anybody is told.
    fn already_exists(&self) -> Classified {
        if !self.attempt.repeats() {
            return refused(17, self.answer.clone(), self.attempt);
        }
        let existing = self.contract.same_input.existing.as_ref();
        let handle = existing.and_then(|place| place.text(&self.seen)).filter(|handle| !handle.is_empty());
        let by_pointer = handle.is_some() && self.contract.lookup.as_ref().is_some_and(Lookup::follows_a_pointer);
        let then = match ask(self.contract) {
            Next::LookupAfter(_) => Next::LookupAfter(Duration::ZERO),
            _ if by_pointer => Next::LookupAfter(Duration::ZERO),
            other => other,
        };
        classified(17, Verdict::Lost(Cause::AlreadyExists { handle }), then)
    }

    /// Row 20.
    fn precondition_failed(&self, listed: bool) -> Classified {
        let kind = self.contract.kind();
        if !self.attempt.repeats() && (listed || kind == Kind::I) {
            return refused(20, self.answer.clone(), self.attempt);
        }
        // Repeating would be answered the same: the horizon has passed, or the thing has changed, perhaps by us.
        classified(20, Verdict::Lost(Cause::ReplyLost), ask(self.contract))
    }

    /// Row 22.
    fn server_error(&self, row: u8) -> Classified {
        let then = match self.contract.kind() {
            // The stored answer of the repetition would be this same error, for ever.
            Kind::K1 => ask(self.contract),
            Kind::K2 | Kind::K3 | Kind::L | Kind::N | Kind::I => after_lost(self.contract, self.patience()),
        };
        classified(row, Verdict::Lost(Cause::ServerError), then)
    }

    fn lost_patiently(&self, row: u8) -> Classified {
        classified(row, Verdict::Lost(Cause::ServerError), after_lost(self.contract, self.patience()))
    }

    /// How long the destination wishes us to wait, or the contract does.
    fn patience(&self) -> Option<Duration> {
        let name = self.contract.in_flight.retry_after_header.as_deref().unwrap_or("retry-after");
        let asked = self
            .seen
            .header(name)
            .or_else(|| self.seen.header("retry-after"))
            .and_then(|value| http_date::retry_after(value, self.attempt.now));
        asked.max(self.contract.min_retry_delay.map(crate::contract::Span::duration))
    }
}

/// The errors of a tool's result are judged like a server error, because nobody says when in its work it failed.
pub(super) fn tool_failed(reply: &Reply<'_>, row: u8) -> Classified {
    reply.server_error(row)
}

fn credential_refused() -> Classified {
    classified(14, Verdict::NoEffect(NoEffect::CredentialRefused), Next::RefreshCredential)
}

fn marked(marker: &ReplayMarker, seen: &Seen<'_>) -> bool {
    marker.at.text(seen).is_some_and(|text| {
        marker.values.is_empty() || marker.values.iter().any(|value| value.eq_ignore_ascii_case(&text))
    })
}

/// Follows the destination's own advice whether to try again. It moves only what happens next, never the verdict.
fn advised(reply: &Reply<'_>, mut classified: Classified) -> Classified {
    let Some(hint) = &reply.contract.retry_hint else {
        return classified;
    };
    let Some(value) = reply.seen.header(&hint.header) else {
        return classified;
    };
    let repeatable = match reply.contract.kind() {
        Kind::K1 | Kind::K2 | Kind::K3 => reply.contract.same_input.behaviour != SameInput::Undocumented,
        Kind::L | Kind::N | Kind::I => false,
    };
    let stop = value.eq_ignore_ascii_case(&hint.stop);
    let again = value.eq_ignore_ascii_case(&hint.again);
    classified.then = match (classified.then, &classified.verdict) {
        (Next::RetrySameKey { .. } | Next::Wait { .. }, Verdict::Lost(_)) if stop => ask(reply.contract),
        (Next::RetrySameKey { .. }, Verdict::NoEffect(_)) if stop => Next::Operator,
        (Next::LookupAfter(_) | Next::Operator, Verdict::Lost(Cause::ServerError)) if again && repeatable => {
            Next::RetrySameKey { not_before: reply.patience() }
        }
        (then, _) => then,
    };
    classified
}
