//! What the engine asks of a store. A command is one atomic transition; a store locks rows, lets [`transact`](crate::transact)
//! decide, writes rows and journal, and has no conditions of its own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use onceward_core::event::Event;
use onceward_core::journal::Entry;
use onceward_core::key::{EffectId, Lane, OperationId, OperationKey, OutboundKey, OwnerId, TenantId, ToolName};
use onceward_core::operation::Operation;
use onceward_core::step::Refusal;
use onceward_core::suspicion::Probe;
use onceward_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::credential::{Credential, CredentialHash};
use crate::mark::Mark;
use crate::metrics::histogram::Distribution;
use crate::restore::{Epoch, Position, Restoring};

/// A boxed future, so that the engine can hold any store.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One atomic transition.
#[derive(Clone, Debug)]
pub enum Command {
    /// Inserts an operation, unless its key exists.
    Open(Box<Opening>),
    /// Moves an operation by its events, all or none.
    Step(Box<Step>),
    /// An owner says that it is alive.
    Beat {
        /// Which.
        owner: OwnerId,
        /// What it is.
        kind: OwnerKind,
        /// A counter, one more each time: no clock is compared with another (R12).
        beat: u64,
    },
    /// An owner that is gone, all of whose attempts are recovered, is forgotten.
    ForgetOwner(OwnerId),
    /// Stores a body under its content hash in `onceward_pin`, unless it is there: a contract that operations are made with.
    Pin {
        /// Its content hash.
        hash: String,
        /// Its text.
        body: String,
    },
    /// Stores a credential.
    PutCredential(Box<Credential>),
    /// Revokes a credential by its public id. It is never deleted: the journal names it.
    RevokeCredential {
        /// Its public id.
        id: String,
    },
    /// Records that the ledger was restored, opens the epoch of it, and raises the high-water mark above what it was.
    Restore(Restoring),
    /// Ends every open epoch. [`Applied::NoSuchOperation`] where none is open.
    CloseRestores {
        /// Why, for whoever asks later.
        reason: String,
    },
}

/// What [`Command::Open`] inserts.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The operation as it stands before `events`: `proposed` or `approved`, journal empty.
    pub operation: Operation,
    /// Events applied in the same transaction, a claim as a rule.
    pub events: Vec<Event>,
    /// For the journal.
    pub actor: String,
    /// A call without identity: it is inserted only if no earlier one is suspected (R16).
    pub probe: Option<Probe>,
}

/// What [`Command::Step`] does.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which operation.
    pub key: OperationKey,
    /// In order, all or none.
    pub events: Vec<Event>,
    /// For the journal.
    pub actor: String,
    /// What the operation must still be.
    pub expects: Expects,
}

/// What an operation must still be for a step to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expects {
    /// Whatever it is; the machine alone decides.
    Anything,
    /// This version, which is the number of its last journal entry: whoever decided looked at it, and nothing has happened to
    /// it since.
    Version(u32),
    /// Alone: no other operation that it may be repeating, or that may be repeating it, may have had its effect. Looked at under
    /// the lock under which such ones are opened and claimed, so that of two at once the second sees the first.
    Alone(Box<Probe>),
}

/// What became of a command. All but the first two of each pair changed nothing.
#[derive(Clone, Debug)]
pub enum Applied {
    /// The operation was inserted, and its events applied.
    Opened(Operation),
    /// The key existed; nothing changed. Here it is, to be decided on.
    Existing(Operation),
    /// It may repeat this earlier operation; nothing changed.
    Suspected(Operation),
    /// The operation as it stands after its events.
    Stepped(Operation),
    /// A rule refused an event; nothing changed. The operation as it stands, where it exists.
    Refused {
        /// Which rule.
        refusal: Refusal,
        /// As it stands.
        operation: Operation,
    },
    /// No operation has this key; nothing changed.
    NoSuchOperation,
    /// A command that is not about an operation was done.
    Done,
}

/// Why a command has no result. In none of these cases may anything be dispatched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another writer held the ledger for longer than the wait. Nothing was written; the same command may be tried again.
    #[error("the ledger was busy for longer than the wait; nothing was written")]
    Busy,
    /// The store cannot write (disk full, read-only, closed, unreachable). Nothing was written.
    #[error("the ledger cannot be written: {0}")]
    Unavailable(String),
    /// Whether the command was written is not known. Re-read by key before anything else.
    #[error("it is not known whether the ledger took the record: {0}")]
    CommitUnknown(String),
    /// A row breaks an invariant. It is left as it is.
    #[error("a record of the ledger is broken: {0}")]
    Corrupt(String),
}

/// In which order waiting commands are written (R14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// What is already known to have happened: an answer must never wait behind new work.
    Settle,
    /// Signs of life.
    Beat,
    /// New work, round-robin by tenant.
    Claim,
}

/// What kind of process an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// The one gateway of a SQLite file: whoever holds its instance lock knows that every earlier one is gone (R23).
    Gateway,
    /// A process that embeds the library.
    Library,
}

impl OwnerKind {
    /// The word in SQL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Library => "library",
        }
    }

    /// From the word in SQL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "gateway" => Some(Self::Gateway),
            "library" => Some(Self::Library),
            _ => None,
        }
    }
}

/// An owner as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRow {
    /// Which.
    pub owner: OwnerId,
    /// What it is.
    pub kind: OwnerKind,
    /// Its latest beat.
    pub beat: u64,
}

/// Which operations a list shows. Newest first.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Whose. There is no list over tenants.
    pub tenant: TenantId,
    /// Only these states; empty for all.
    pub states: Vec<String>,
    /// Only this tool.
    pub tool: Option<ToolName>,
    /// Only those in disagreement.
    pub disagreement_only: DisagreementOnly,
    /// After this position of an earlier page.
    pub after: Option<u64>,
    /// The most rows.
    pub limit: u32,
}

/// Whether a list shows only operations in disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisagreementOnly {
    /// All.
    No,
    /// Only those.
    Yes,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The operations.
    pub operations: Vec<Operation>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

/// An outbox entry that may be sent, as far as a dispatcher looks at it before it takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyRow {
    /// Which.
    pub key: OperationKey,
    /// Its tool.
    pub tool: ToolName,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it last moved.
    pub updated_at: Timestamp,
}

/// Some of the outbox entries that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyPage {
    /// They.
    pub rows: Vec<ReadyRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

/// A durable ledger.
///
/// Claims are read and written on the primary only. Every method may be called from any thread and any runtime.
pub trait Store: Send + Sync + 'static {
    /// Queues a command. It is durable when the reply says so, and not before.
    fn submit(&self, command: Command, priority: Priority) -> Reply;

    /// Reads an operation. Never writes and never takes the write lock.
    ///
    /// # Errors
    /// [`StoreError`]; no dispatch is permitted.
    fn get(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>>;

    /// Reads an operation once it is sure that what is read stays: where a fail-over can take back what this machine has
    /// committed, only after something committed later has reached as far as it must. This, and not [`Store::get`], says what
    /// became of a command whose commit is unknown.
    ///
    /// # Errors
    /// [`StoreError`]; no dispatch is permitted.
    fn confirmed(&self, key: &OperationKey) -> BoxFuture<'_, Result<Option<Operation>, StoreError>> {
        self.get(key)
    }

    /// Reads journal entries after `after`, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn journal(&self, key: &OperationKey, after: u32, limit: u32) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;

    /// Reads a page of operations.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Pending operations that this owner holds.
    ///
    /// # Errors
    /// [`StoreError`].
    fn held_by(&self, owner: &OwnerId, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>>;

    /// Pending operations whose time to settle has passed.
    ///
    /// # Errors
    /// [`StoreError`].
    fn overdue(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>>;

    /// Unknown operations whose next check is due.
    ///
    /// # Errors
    /// [`StoreError`].
    fn due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>>;

    /// Outbox entries that may be sent: approved, and the first unresolved one of their lane where they have one. At most `limit`
    /// entries after that place are looked at, in the order in which they were committed as far as one lane is concerned.
    ///
    /// Whoever is first in a lane stays it until it is settled, since later ones come after it: what this gives may be old, and
    /// still is in order. Which of several dispatchers sends an entry is decided by its claim, and not here.
    ///
    /// # Errors
    /// [`StoreError`].
    fn ready(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<ReadyPage, StoreError>>;

    /// The first unresolved outbox entry of a lane.
    ///
    /// # Errors
    /// [`StoreError`].
    fn lane_head(&self, tenant: &TenantId, lane: &Lane) -> BoxFuture<'_, Result<Option<OperationKey>, StoreError>>;

    /// Operations of this tenant whose suspicion has one of the probe's marks or its group, unresolved or settled within the
    /// hold window: what [`Found::suspects`] would be for it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn suspects(&self, key: &OperationKey, probe: &Probe) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>>;

    /// Every owner that beats or has beaten and is not forgotten; and, as a library with the beat 0, every other one that holds
    /// an attempt which has no time to be settled by, since nothing else would ever find that attempt.
    ///
    /// # Errors
    /// [`StoreError`].
    fn owners(&self) -> BoxFuture<'_, Result<Vec<OwnerRow>, StoreError>>;

    /// The body that was pinned under this content hash.
    ///
    /// # Errors
    /// [`StoreError`].
    fn pinned(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// A credential by the hash of its secret, revoked ones included.
    ///
    /// # Errors
    /// [`StoreError`].
    fn credential(&self, hash: &CredentialHash) -> BoxFuture<'_, Result<Option<Credential>, StoreError>>;

    /// All credentials, revoked ones included.
    ///
    /// # Errors
    /// [`StoreError`].
    fn credentials(&self) -> BoxFuture<'_, Result<Vec<Credential>, StoreError>>;

    /// Operations of any tenant that have this mark, at most `limit` of them ([`marks`](crate::mark::marks)).
    ///
    /// # Errors
    /// [`StoreError`].
    fn marked(&self, mark: &Mark, limit: u32) -> BoxFuture<'_, Result<Vec<OperationKey>, StoreError>>;

    /// Outbound keys of attempts that owners hold, of any tenant; at most `limit` of them.
    ///
    /// # Errors
    /// [`StoreError`].
    fn keys_held(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboundKey>, StoreError>>;

    /// How many operations of all tenants are unresolved. It takes as long as there are such, never as there are operations.
    ///
    /// # Errors
    /// [`StoreError`].
    fn unresolved(&self) -> BoxFuture<'_, Result<Unresolved, StoreError>>;

    /// Operations of any tenant that are not settled, by key, from after this one on.
    ///
    /// # Errors
    /// [`StoreError`].
    fn unsettled(&self, after: Option<&OperationKey>, limit: u32) -> BoxFuture<'_, Result<Vec<Operation>, StoreError>>;

    /// How far the ledger has come, what was restored, and which server holds it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn position(&self) -> BoxFuture<'_, Result<Position, StoreError>>;

    /// How much the writer has to do.
    fn load(&self) -> Load;

    /// The identity of this ledger.
    fn id(&self) -> LedgerId;

    /// Whether the last write succeeded: a recoverer whose own writes fail proves nothing about others (R12).
    fn is_healthy(&self) -> bool;
}

/// Operations that are not settled and wait for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// The unknown ones, one row for each tool and cause.
    pub unknown: Vec<UnknownCount>,
    /// How many wait for approval.
    pub proposed: u64,
    /// How many are contradicted, settled ones among them, and no person has decided on it.
    pub in_disagreement: u64,
}

/// Unknown operations of one tool for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCount {
    /// The tool.
    pub tool: ToolName,
    /// The cause of the latest uncertain attempt, by its word.
    pub cause: String,
    /// How many.
    pub count: u64,
    /// How many of them nothing but a person will move: no check is scheduled.
    pub for_a_person: u64,
    /// When the earliest attempt of the oldest was claimed.
    pub oldest: Timestamp,
}

/// How much a writer has to do, since the store was opened.
#[derive(Clone, Debug)]
pub struct Load {
    /// Commands that wait.
    pub queued: u64,
    /// How long commits took, in microseconds.
    pub commits: Distribution,
    /// How many commands were committed together.
    pub groups: Distribution,
}

/// The identity of a ledger: random, made with the file, and shown in `/readyz`, so that two gateways on two files are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerId(pub String);

/// The pending result of a command: a future that needs no runtime, and can be waited for on a plain thread.
#[must_use = "a command is durable only when its reply says so"]
pub struct Reply {
    receiver: oneshot::Receiver<Result<Applied, StoreError>>,
    look: Option<Look>,
}

/// Somebody who looks at what was done before it is handed on.
type Look = Box<dyn FnOnce(&Applied) + Send>;

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply(…)")
    }
}

/// Where a store puts the result of a command.
pub type ReplySender = oneshot::Sender<Result<Applied, StoreError>>;

impl Reply {
    /// A reply and where to put its result.
    pub fn channel() -> (ReplySender, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self { receiver, look: None })
    }

    /// Has `look` see what was done before whoever waits gets it.
    pub(crate) fn and_look(self, look: impl FnOnce(&Applied) + Send + 'static) -> Self {
        Self { look: Some(Box::new(look)), ..self }
    }

    /// Blocks the current thread until the result is there. Not from inside a runtime.
    ///
    /// # Errors
    /// [`StoreError`] says what is known; no dispatch is permitted.
    pub fn wait(mut self) -> Result<Applied, StoreError> {
        let look = self.look.take();
        seen(look, self.receiver.blocking_recv().unwrap_or_else(|_| Err(lost())))
    }
}

impl Future for Reply {
    type Output = Result<Applied, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.receiver).poll(context) {
            Poll::Ready(result) => Poll::Ready(seen(self.look.take(), result.unwrap_or_else(|_| Err(lost())))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn seen(look: Option<Look>, result: Result<Applied, StoreError>) -> Result<Applied, StoreError> {
    if let (Some(look), Ok(applied)) = (look, &result) {
        look(applied);
    }
    result
}

/// A writer that went away without a word may have written.
fn lost() -> StoreError {
    StoreError::CommitUnknown("the writer stopped before it answered".to_owned())
}

/// What a command needs to see before it can be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants<'a> {
    /// This operation, locked.
    pub key: &'a OperationKey,
    /// Operations of this tenant that may be the same intention, locked.
    pub suspects: Option<&'a Probe>,
    /// Any other operation of the tenant with this effect id.
    pub effect: Option<&'a EffectId>,
}

/// What a store found for [`Wants`].
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The operation.
    pub operation: Option<Operation>,
    /// Operations whose suspicion has one of the probe's marks or its group, unresolved or settled within the hold window.
    pub suspects: Vec<Operation>,
    /// An operation of the same tenant and tool with the same effect id.
    pub same_effect: Option<OperationId>,
    /// The latest restore that is open, where an operation may be opened.
    pub epoch: Option<Epoch>,
}
