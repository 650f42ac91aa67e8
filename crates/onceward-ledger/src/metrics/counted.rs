//! Counts what became durable: a store that passes everything on and looks at what is answered.

use std::sync::Arc;

use onceward_core::event::{Basis, CloseReason, Event, Observation, Source, Verdict};
use onceward_core::journal::Entry;
use onceward_core::key::{Lane, OperationKey, OutboundKey, OwnerId, TenantId};
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;

use super::table::Id;
use super::{Metrics, Value};
use crate::credential::{Credential, CredentialHash};
use crate::mark::Mark;
use crate::restore::Position;
use crate::store::{
    Applied, BoxFuture, Command, Filter, LedgerId, Load, OwnerRow, Page, Priority, ReadyPage, Reply, Store, StoreError,
    Unresolved,
};

/// A store whose commands are counted. One whose answer nobody waits for is not.
pub(crate) struct Counting {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Counting {
    pub(crate) fn over(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }
}

/// What there will be to count of a command, should it be done. Words alone: answers may be large.
enum Expected {
    Moves { moves: Vec<Move>, choice: Option<&'static str> },
    OwnerForgotten,
}

/// One event of a command, as far as it is counted.
enum Move {
    Claimed { basis: &'static str },
    Observed { source: &'static str, verdict: &'static str, is_effect: bool },
    Approval { decision: &'static str },
}

impl Expected {
    fn of(command: &Command) -> Option<Self> {
        let events = match command {
            Command::Open(opening) => &opening.events,
            Command::Step(step) => &step.events,
            Command::ForgetOwner(_) => return Some(Self::OwnerForgotten),
            Command::Beat { .. }
            | Command::Pin { .. }
            | Command::PutCredential(_)
            | Command::RevokeCredential { .. }
            | Command::Restore(_)
            | Command::CloseRestores { .. } => return None,
        };
        Some(Self::Moves { moves: events.iter().filter_map(Move::of).collect(), choice: choice(events) })
    }

    fn count(self, metrics: &Metrics, applied: &Applied) {
        match (self, applied) {
            (Self::Moves { moves, choice }, Applied::Opened(operation) | Applied::Stepped(operation)) => {
                moved(metrics, &moves, choice, operation);
            }
            (Self::OwnerForgotten, Applied::Done) => {
                metrics.count(Id::OwnersRecovered, [Value::Nothing, Value::Nothing]);
            }
            (Self::Moves { .. }, Applied::Existing(_) | Applied::Suspected(_) | Applied::Done)
            | (Self::OwnerForgotten, Applied::Opened(_) | Applied::Existing(_) | Applied::Suspected(_))
            | (Self::OwnerForgotten, Applied::Stepped(_))
            | (_, Applied::Refused { .. } | Applied::NoSuchOperation) => {}
        }
    }
}

impl Move {
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Claim(claim) => Some(Self::Claimed {
                basis: match claim.basis {
                    Basis::NoEffectSoFar => "no_effect_so_far",
                    Basis::Redrive(_) => "redrive",
                },
            }),
            Event::Observe(seen) => Some(Self::Observed {
                source: source(&seen.source),
                verdict: seen.verdict.name(),
                is_effect: matches!(seen.verdict, Verdict::Effect(_)),
            }),
            Event::Approve { .. } => Some(Self::Approval { decision: "approve" }),
            Event::Close(CloseReason::Declined) => Some(Self::Approval { decision: "decline" }),
            Event::Begin { .. }
            | Event::Extend { .. }
            | Event::Close(_)
            | Event::Supersede { .. }
            | Event::Wait { .. }
            | Event::Acknowledge { .. }
            | Event::Purge(_) => None,
        }
    }
}

fn moved(metrics: &Metrics, moves: &[Move], choice: Option<&'static str>, operation: &Operation) {
    let tool = || metrics.tool(&operation.binding.tool);
    let done_now = matches!(operation.state, State::Succeeded(_)) && operation.settled_at == Some(operation.updated_at);
    for one in moves {
        match one {
            Move::Claimed { basis } => metrics.count(Id::Attempts, [tool(), Value::Word(basis)]),
            Move::Observed { source, verdict, is_effect } => {
                metrics.count(Id::Observations, [Value::Word(source), Value::Word(verdict)]);
                if *is_effect && done_now {
                    metrics.count(Id::Receipts, [tool(), Value::Word(source)]);
                }
            }
            Move::Approval { decision } => metrics.count(Id::Approvals, [tool(), Value::Word(decision)]),
        }
    }
    if let Some(choice) = choice {
        metrics.count(Id::Decisions, [tool(), Value::Word(choice)]);
    }
    if let Some(disagreement) = &operation.history.disagreement
        && disagreement.first_at == operation.updated_at
    {
        metrics.count(Id::Disagreements, [tool(), Value::Word(disagreement.kind.name())]);
    }
}

/// What a person decided, by the events that it became.
fn choice(events: &[Event]) -> Option<&'static str> {
    let closes = events.iter().any(|event| matches!(event, Event::Close(CloseReason::ConfirmedNotDone)));
    events.iter().find_map(|event| match event {
        Event::Observe(Observation { source: Source::Operator { .. }, verdict, .. }) => match verdict {
            Verdict::Effect(_) => Some("confirmed_done"),
            Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_) if closes => Some("confirmed_not_done"),
            Verdict::Refusal(_) => Some("refused"),
            Verdict::NotSent(_) | Verdict::NoEffect(_) => Some("dispatch_again"),
            Verdict::Lost(_) | Verdict::OtherEffect(_) => None,
        },
        Event::Supersede { .. } => Some("superseded_by"),
        Event::Wait { .. } => Some("wait"),
        Event::Acknowledge { .. } => Some("acknowledge"),
        Event::Observe(_)
        | Event::Approve { .. }
        | Event::Claim(_)
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Close(_)
        | Event::Purge(_) => None,
    })
}

const fn source(source: &Source) -> &'static str {
    match source {
        Source::Owner(_) => "owner",
        Source::Recovery { .. } => "recovery",
        Source::LateAnswer => "late_answer",
        Source::Lookup => "lookup",
        Source::Webhook => "webhook",
        Source::Operator { .. } => "operator",
        Source::Restore => "restore",
    }
}

impl Store for Counting {
    fn submit(&self, command: Command, priority: Priority) -> Reply {
        let expected = Expected::of(&command);
        let reply = self.store.submit(command, priority);
        let Some(expected) = expected else { return reply };
        let metrics = Arc::clone(&self.metrics);
        reply.and_look(move |applied| expected.count(&metrics, applied))
    }

    fn get(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        self.store.get(key)
    }

    fn confirmed(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        self.store.confirmed(key)
    }

    fn suspects(&self, key: &OperationKey, probe: &Probe) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        self.store.suspects(key, probe)
    }

    fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        self.store.journal(key, after, limit)
    }

    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.store.list(filter)
    }

    fn held_by(&self, owner: &OwnerId, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        self.store.held_by(owner, limit)
    }

    fn overdue(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        self.store.overdue(now, limit)
    }

    fn due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        self.store.due(now, limit)
    }

    fn ready(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<ReadyPage, StoreError>> {
        self.store.ready(after, limit)
    }

    fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> BoxFuture<'_, Result<Option<OperationKey>, StoreError>> {
        self.store.lane_head(tenant, lane)
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<OwnerRow>, StoreError>> {
        self.store.owners()
    }

    fn pinned(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        self.store.pinned(hash)
    }

    fn credential(&self, hash: &CredentialHash) -> BoxFuture<'_, Result<Option<Credential>, StoreError>> {
        self.store.credential(hash)
    }

    fn credentials(&self) -> BoxFuture<'_, Result<Vec<Credential>, StoreError>> {
        self.store.credentials()
    }

    fn marked(&self, mark: &Mark, limit: u32) -> BoxFuture<'_, Result<Vec<OperationKey>, StoreError>> {
        self.store.marked(mark, limit)
    }

    fn keys_held(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboundKey>, StoreError>> {
        self.store.keys_held(limit)
    }

    fn unresolved(&self) -> BoxFuture<'_, Result<Unresolved, StoreError>> {
        self.store.unresolved()
    }

    fn unsettled(&self, after: Option<&OperationKey>, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>> {
        self.store.unsettled(after, limit)
    }

    fn position(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        self.store.position()
    }

    fn load(&self) -> Load {
        self.store.load()
    }

    fn id(&self) -> LedgerId {
        self.store.id()
    }

    fn is_healthy(&self) -> bool {
        self.store.is_healthy()
    }
}
