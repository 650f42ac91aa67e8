//! Every maximum of this store, its unit and its reason.

use std::time::Duration;

/// Connections that write. Two are enough to have one batch on its way while the other is being made; more of them only split
/// the same work into smaller commits.
pub const WRITERS: usize = 3;

/// Connections that read. Statements are pipelined, so that one carries many readers; a second one keeps a long list from
/// holding replays up.
pub const READERS: usize = 2;

/// Commands of one batch. Past a few hundred rows a statement gains nothing more.
pub const BATCH_MAX: usize = 256;

/// How long a claim waits for a lock, a connection or its turn before it is told that the ledger is busy.
pub const WAIT: Duration = Duration::from_secs(5);

/// How long a batch may take from its first statement to the answer to its COMMIT. A database's own limit on statements does not
/// end the wait for a standby, so this one is kept here, and what becomes of the batch is asked on another connection.
pub const BATCH_WITHIN: Duration = Duration::from_secs(8);

/// How long a claim whose commit is unknown is asked about before its caller is told so. Nothing is dispatched either way.
pub const RESOLVE_WITHIN: Duration = Duration::from_secs(10);

/// How long connecting may take.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a read may take.
pub const READ_WITHIN: Duration = Duration::from_secs(5);

/// The first and the longest pause between two tries to connect, or to ask again.
pub const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Connections for local effects: so many run at once, the others wait for [`WAIT`]. An effect holds its connection from its first
/// statement to its commit, and a database of a hundred connections has room for several processes.
pub const LOCALS: usize = 16;

/// How long a local effect may take. Whoever repeats it waits for it, and whatever it has locked is locked until then.
pub const LOCAL_EFFECT: Duration = Duration::from_secs(5);

/// How much longer the server lets a statement of a local effect run, so that the answer to one that is late is ours.
pub const LOCAL_GRACE: Duration = Duration::from_secs(1);

/// Claims that wait in the queue.
pub const QUEUED_CLAIMS_MAX: usize = 4096;

/// Settles and signs of life that wait in the queue: every settle was a claim before, and callers hold several at once.
pub const QUEUED_SETTLES_MAX: usize = 16 * 1024;

/// The most rows of one page of a list, of a journal or of a sweep.
pub const PAGE_MAX: u32 = 1000;

const _: () = assert!(onceward_ledger::limits::BESIDE_MAX < PAGE_MAX, "a cut list must be seen to be one");

/// How long closing waits for what is queued.
pub const CLOSE_WAIT: Duration = Duration::from_secs(10);

const _: () = assert!(QUEUED_SETTLES_MAX >= QUEUED_CLAIMS_MAX, "every claim that is let in can be settled");
const _: () =
    assert!(LOCAL_EFFECT.as_secs() + LOCAL_GRACE.as_secs() >= WAIT.as_secs(), "the wait for a lock is ended as such");
