//! A destination that is listened to while an observed call is forwarded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use onceward_core::canonical::Canonical;
use onceward_core::classify::{Body, Observed as Seen, kept_headers};
use onceward_core::contract::Contract;
use onceward_core::evidence::ChildProcess;
use onceward_core::outcome::{AnswerSource, Envelope};
use onceward_core::receipt::Answer;
use onceward_core::time::Timestamp;

use crate::destination::{Asked, Destination, Dispatch, Question};
use crate::store::BoxFuture;

/// A destination whose answer is kept as it came, also where the rules take it for none.
pub(super) struct Overheard {
    destination: Arc<dyn Destination>,
    answer: Mutex<Option<Answer>>,
    sent: AtomicBool,
}

impl Overheard {
    pub(super) fn at(destination: Arc<dyn Destination>) -> Arc<Self> {
        Arc::new(Self { destination, answer: Mutex::default(), sent: AtomicBool::new(false) })
    }

    /// Whether anything was handed over to the destination, whatever the ledger says afterwards.
    pub(super) fn has_sent(&self) -> bool {
        self.sent.load(Ordering::SeqCst)
    }

    /// The envelope with the answer that came, where it has none.
    pub(super) fn completed(&self, envelope: Envelope) -> Envelope {
        let heard = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (&envelope.answer, heard) {
            (None, Some(answer)) => Envelope { answer: Some(answer), source: AnswerSource::Destination, ..envelope },
            (Some(_), _) | (None, None) => envelope,
        }
    }

    fn hear(&self, seen: &Seen) {
        let answer = match seen {
            Seen::Http { status, headers, body: Body::Whole(body) } => {
                let contract = self.destination.contract();
                let mut kept = kept_headers(contract, headers);
                kept.extend(headers.iter().filter(|(name, _)| tells_when(contract, name)).cloned());
                Answer { status: *status, headers: kept, body: body.clone() }
            }
            Seen::McpResult { answer, .. } => answer.clone(),
            Seen::Http { body: Body::Cut(_), .. }
            | Seen::HeldBack
            | Seen::NotSent(_)
            | Seen::RefusedStream
            | Seen::WriteFailed
            | Seen::NoAnswer(_)
            | Seen::OwnerLost
            | Seen::McpError { .. }
            | Seen::McpStreamLost
            | Seen::Function(_) => return,
        };
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

/// Whether a header says if and when the caller's own client should try again.
fn tells_when(contract: &Contract, name: &str) -> bool {
    let hint = contract.retry_hint.as_ref().is_some_and(|hint| hint.header.eq_ignore_ascii_case(name));
    hint || name.eq_ignore_ascii_case("retry-after")
}

impl Destination for Overheard {
    fn contract(&self) -> &Contract {
        self.destination.contract()
    }

    fn contract_hash(&self) -> String {
        self.destination.contract_hash()
    }

    fn scope(&self) -> &str {
        self.destination.scope()
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            self.sent.store(true, Ordering::SeqCst);
            let seen = self.destination.send(dispatch).await;
            self.hear(&seen);
            seen
        })
    }

    fn request_digest(&self, arguments: &Canonical) -> Option<String> {
        self.destination.request_digest(arguments)
    }

    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        self.destination.ask(question)
    }

    fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        self.destination.child(claimed_at)
    }
}
