//! One claim run to its end: the only path to a send, and the one owner of bounded retries.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::classify::{AttemptFacts, Classified, Next, NoAnswer, Observed, classify};
use onceward_core::event::{About, Observation, Source};
use onceward_core::key::AttemptNumber;
use onceward_core::operation::Operation;
use onceward_core::retry::{self, Because, Chance, Retry, Spend};
use onceward_core::state::State;

use crate::claim::{Held, SendWindow};
use crate::destination::Dispatch;
use crate::directory::Known;
use crate::error::LedgerError;
use crate::execute::Claimed;
use crate::governor::Go;
use crate::ledger::Inner;
use crate::limits;

/// What a run needs beside its claim.
pub(crate) struct Run {
    pub(crate) inner: Arc<Inner>,
    pub(crate) tool: Known,
}

impl Run {
    /// Dispatches, settles, and repeats within the policy as long as the rules permit another attempt. Gives the operation
    /// as it stands when no further attempt is made.
    pub(crate) async fn drive(
        &self,
        held: Held,
        operation: Operation,
        window: SendWindow,
    ) -> Result<Operation, LedgerError> {
        let (mut held, mut operation, mut window) = (held, operation, window);
        loop {
            let attempt = held.attempt();
            let classified = self.attempt(&held, &operation, window).await;
            let then = classified.then;
            let mut seen = observation(attempt, classified, Source::Owner(self.inner.owner.clone()));
            // A check that cannot be worked out now is left to a person; the answer itself is never held up by it.
            seen.next_check = self.inner.check_after(&operation, &seen, Some(then)).await.unwrap_or_default();
            operation = self.inner.settle(held, seen).await?;
            match self.another(&operation, attempt, &then).await? {
                Some((next, claimed, opened)) => {
                    held = next;
                    operation = claimed;
                    window = opened;
                }
                None => return Ok(operation),
            }
        }
    }

    /// Sends once and classifies what was seen.
    async fn attempt(&self, held: &Held, operation: &Operation, window: SendWindow) -> Classified {
        let facts = held.standing().facts(operation, self.inner.clock.now());
        let (State::Pending(pending), Some(arguments)) = (&operation.state, operation.binding.arguments.present())
        else {
            return classify(self.tool.destination.contract(), &facts, &Observed::HeldBack);
        };
        let clock = Arc::clone(&self.inner.clock);
        let dispatch = Dispatch {
            late: self.late_answer(held),
            ..held.dispatch(operation, &pending.attempt, Arc::clone(arguments), window, self.tool.answer_within, clock)
        };
        let (tenant, scope) = (&operation.key.tenant, self.tool.destination.scope());
        fail::fail_point!("drive::before_send");
        // A destination keeps its own time; this bound is for one that does not, and reads as a lost reply.
        let bound = limits::SEND_WITHIN + self.tool.answer_within + Duration::from_secs(5);
        let began = self.inner.clock.uptime();
        let sending = self.tool.destination.send(dispatch);
        let observed = match futures_util::future::select(sending, self.inner.runtime.sleep(bound)).await {
            futures_util::future::Either::Left((observed, _)) => observed,
            futures_util::future::Either::Right(_) => Observed::NoAnswer(NoAnswer::TimedOut),
        };
        fail::fail_point!("drive::after_send");
        self.inner.metrics.dispatched(&operation.binding.tool, self.inner.clock.uptime().saturating_sub(began));
        let now = self.inner.clock.now();
        let classified = classify(self.tool.destination.contract(), &AttemptFacts { now, ..facts }, &observed);
        self.inner.governor.note(tenant, scope, &observed, &classified.verdict, now);
        classified
    }

    /// Claims another attempt after a pause, where the rules permit one and the policy has one left.
    async fn another(
        &self,
        operation: &Operation,
        last: AttemptNumber,
        then: &Next,
    ) -> Result<Option<(Held, Operation, SendWindow)>, LedgerError> {
        // Somebody else took it further meanwhile.
        if operation.history.attempts != last.0 || self.inner.is_stopping() {
            return Ok(None);
        }
        // What goes on for longer than a caller waits is the reconciler's.
        if last.0 >= limits::ATTEMPTS_IN_CALL_MAX && self.inner.directory.get().is_some() {
            return Ok(None);
        }
        let (Next::RetrySameKey { not_before } | Next::Wait { not_before }) = then else { return Ok(None) };
        let because = if not_before.is_some() { Because::Throttled } else { Because::Fault };
        let now = self.inner.clock.now();
        let Retry::At(at) = retry::next(
            &self.tool.retry,
            last,
            because,
            *not_before,
            self.inner.chance(),
            now,
            operation.terms.deadline,
        ) else {
            return Ok(None);
        };
        // What may still be at work there costs more than what was turned away.
        let cost = match &operation.state {
            State::Unknown(_) => Spend::AfterTimeout,
            State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_) => Spend::AfterRefusal,
        };
        if !self.inner.governor.spend(&operation.key.tenant, self.tool.destination.scope(), cost, now) {
            tracing::warn!(key = %operation.key, "the retry budget is spent");
            return Ok(None);
        }
        self.inner.runtime.sleep(at.since(now)).await;
        if self.inner.governor.ask(&operation.key.tenant, self.tool.destination.scope(), self.inner.clock.now())
            == Go::HeldBack
        {
            return Ok(None);
        }
        if !self.inner.carried_on_by(operation).await?.is_nothing() {
            return Ok(None);
        }
        let window = SendWindow::open(&*self.inner.clock, limits::SEND_WITHIN);
        let (claim, window) = match &operation.state {
            State::Approved(_) => {
                (self.inner.claim_after_proof(operation, self.tool.destination.contract(), window), window)
            }
            State::Unknown(_) => match self.inner.redrive_permit(operation, &self.tool.destination).await? {
                Some(permit) => self.inner.next_redrive(operation, permit, window),
                None => return Ok(None),
            },
            State::Proposed(_) | State::Pending(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
                return Ok(None);
            }
        };
        let actor = format!("owner:{}", self.inner.owner);
        match self.inner.claim(operation, claim, actor).await {
            Ok(Claimed::Held(held, operation)) => Ok(Some((held, *operation, window))),
            Ok(Claimed::Moved | Claimed::Stays(_)) => Ok(None),
            // The attempt before is settled; that this one could not be claimed changes nothing about it.
            Err(error) => {
                tracing::warn!(key = %operation.key, %error, "another attempt could not be claimed");
                Ok(None)
            }
        }
    }
}

impl Inner {
    pub(crate) fn chance(&self) -> Chance {
        let mut bits = [0; 8];
        // Without randomness the pause is the longest, which is the safe side.
        match getrandom::fill(&mut bits) {
            Ok(()) => Chance::from_bits(u64::from_le_bytes(bits)),
            Err(_) => Chance::from_bits(u64::MAX),
        }
    }
}

/// What was seen of an attempt, as it is recorded.
pub(crate) fn observation(attempt: AttemptNumber, classified: Classified, source: Source) -> Observation {
    let note = match (classified.late_receipt, classified.said) {
        // The verdict has no room for it, and an answer is never dropped.
        (Some(receipt), _) => format!("row {}; answered: {}", classified.row, serde_json::json!(receipt)),
        // A person may know these words for a refusal.
        (None, Some(said)) => format!("row {}; said: {}", classified.row, serde_json::json!(said)),
        (None, None) => format!("row {}", classified.row),
    };
    Observation {
        about: About::Attempt(attempt),
        verdict: classified.verdict,
        source,
        next_check: None,
        note: Some(note),
    }
}
