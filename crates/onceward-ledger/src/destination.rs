//! What the engine asks of a destination, and the value without which nothing is sent. Asking needs no such value: a question
//! writes nothing.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::Observed;
use onceward_core::contract::{Contract, Lookup};
use onceward_core::evidence::ChildProcess;
use onceward_core::key::{AttemptNumber, OperationKey, OutboundKey, ToolName};
use onceward_core::receipt::Answer;
use onceward_core::time::Timestamp;

use crate::clock::Clock;
use crate::store::BoxFuture;

/// Where effects happen.
pub trait Destination: Send + Sync + 'static {
    /// What it promises, as configured now.
    fn contract(&self) -> &Contract;

    /// The content hash of that contract, in hex. Asked at every first attempt: whoever is asked often keeps it.
    fn contract_hash(&self) -> String {
        onceward_core::hex::encode(&self.contract().content_hash())
    }

    /// The scope in which it recognises a key (account, mode, region), as one text. A changed secret of the same account
    /// leaves it as it is.
    fn scope(&self) -> &str;

    /// Sends the dispatch and says what was seen, in words that the rules classify. It never sends twice, follows no
    /// redirect, and returns `Observed::NotSent` only if surely no byte was handed over. What comes after it has given up waiting
    /// goes to [`Dispatch::late_answer`].
    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed>;

    /// A hash, in hex, of what would be sent for these arguments apart from key, companions and credential. `None` where no
    /// request can be made of them.
    fn request_digest(&self, arguments: &Canonical) -> Option<String> {
        let _ = arguments;
        None
    }

    /// Asks the destination what became of an attempt, once. It writes nothing there, so it may be asked again.
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        let _ = question;
        Box::pin(std::future::ready(Asked::NoWay))
    }

    /// Whether the destination is a child process, and whether the one that may have got an attempt that was claimed at that
    /// time is gone: as long as it lives it may still be at work, and finding nothing proves nothing (R10).
    fn child(&self, claimed_at: Timestamp) -> ChildProcess {
        let _ = claimed_at;
        ChildProcess::NotOne
    }
}

/// A lookup, as it is to be carried out.
#[derive(Clone, Debug)]
pub struct Question {
    /// Whose attempt it is about.
    pub tool: ToolName,
    /// The request, with placeholders, and how its answer is read.
    pub lookup: Lookup,
    /// The key that the attempt carried, which is its marker as well. An operation whose attempts carried several is asked
    /// about once for each.
    pub key: Option<OutboundKey>,
    /// The destination's name of the work that it accepted.
    pub handle: Option<String>,
    /// What the operation asked for.
    pub arguments: Arc<Canonical>,
    /// When the first uncertain attempt was claimed.
    pub sent_from: Timestamp,
    /// When the last one had surely left.
    pub sent_until: Timestamp,
    /// How long the whole answer may take.
    pub answer_within: Duration,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An answer; [`read_lookup`](onceward_core::evidence::read_lookup) says what it shows.
    Answered(Answer),
    /// None came, or none that can be read. That says nothing about the attempt. The text is for people.
    NoAnswer(String),
    /// The destination has no way to be asked this.
    NoWay,
}

/// Permission to send one attempt, once. Only a claim that is durable makes one; sending spends it.
#[must_use = "a claim that is not dispatched must be settled as not sent"]
pub struct Dispatch {
    pub(crate) key: OperationKey,
    pub(crate) tool: ToolName,
    pub(crate) arguments: Arc<Canonical>,
    pub(crate) attempt: AttemptNumber,
    pub(crate) outbound_key: Option<OutboundKey>,
    pub(crate) claimed_at: Timestamp,
    pub(crate) first_claimed_at: Timestamp,
    pub(crate) send_before: Duration,
    pub(crate) answer_within: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) late: LateAnswer,
}

/// Who is told what a destination says of an attempt after [`Destination::send`] has returned: it is recorded as evidence, whenever
/// it comes. It keeps neither the ledger nor its destinations alive; once they are gone, nothing is recorded.
#[derive(Clone)]
pub struct LateAnswer(Arc<dyn Fn(Observed) + Send + Sync>);

impl LateAnswer {
    pub(crate) fn to(record: impl Fn(Observed) + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }

    /// Where there is no operation to record it of.
    pub(crate) fn to_nobody() -> Self {
        Self::to(|_| {})
    }

    /// Hands it over, and returns at once. It is written down in the background, after what was seen in time.
    pub fn tell(self, observed: Observed) {
        (self.0)(observed);
    }
}

impl Dispatch {
    /// Whose operation, and which.
    #[must_use]
    pub const fn key(&self) -> &OperationKey {
        &self.key
    }

    /// The tool that is called.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Exactly the value that was fingerprinted.
    #[must_use]
    pub fn arguments(&self) -> &Canonical {
        &self.arguments
    }

    /// Which attempt this is.
    #[must_use]
    pub const fn attempt(&self) -> AttemptNumber {
        self.attempt
    }

    /// The key to send, where the contract has a place for one. It is also the marker to put into the effect.
    #[must_use]
    pub const fn outbound_key(&self) -> Option<&OutboundKey> {
        self.outbound_key.as_ref()
    }

    /// When this attempt was claimed: the name by which [`Destination::child`] is asked about it later.
    #[must_use]
    pub const fn claimed_at(&self) -> Timestamp {
        self.claimed_at
    }

    /// When the first attempt of this key was claimed: what a contract's first-sent companion carries, unchanged by repetition.
    #[must_use]
    pub const fn first_claimed_at(&self) -> Timestamp {
        self.first_claimed_at
    }

    /// How long a first byte may still leave; `None` when it is too late and nothing may be sent (R5). Ask as late before
    /// sending as the client allows; connecting must fit inside it.
    #[must_use]
    pub fn time_to_send(&self) -> Option<Duration> {
        self.send_before.checked_sub(self.clock.uptime()).filter(|left| !left.is_zero())
    }

    /// The same question for a place that outlives this value: asked when the first byte is about to be handed over.
    pub fn may_still_be_sent(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (send_before, clock) = (self.send_before, Arc::clone(&self.clock));
        move || clock.uptime() < send_before
    }

    /// Who is told what comes later.
    #[must_use]
    pub fn late_answer(&self) -> LateAnswer {
        self.late.clone()
    }

    /// How long to wait for the whole answer, from the first byte sent. Giving up is a lost reply, never a failure.
    #[must_use]
    pub const fn answer_within(&self) -> Duration {
        self.answer_within
    }
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dispatch({} attempt {})", self.key, self.attempt)
    }
}
