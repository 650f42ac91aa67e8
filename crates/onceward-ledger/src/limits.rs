//! Every maximum and interval of the engine, with its reason.

use std::time::Duration;

/// How often an owner writes its sign of life. Each is one flush on an idle machine.
pub const BEAT_EVERY: Duration = Duration::from_secs(3);

/// How long an owner's counter must stand still, on the recoverer's own clock, before its attempts are recovered. Five missed
/// beats: a stalled disk is not a death.
pub const SILENCE: Duration = Duration::from_secs(15);

/// How often an owner looks for claims past their time and for its own pending rows that nothing runs.
pub const SWEEP_EVERY: Duration = Duration::from_secs(2);

/// Dispatches under way at once in one process: each may hold an answer that is not durable yet (R14).
pub const DISPATCHES_MAX: usize = 1024;

/// Rows taken by one recovery step, so that recovery never starves callers.
pub const RECOVERY_BATCH: u32 = 64;

/// The first and the longest pause between two looks at a row that another process is running.
pub const POLL_FIRST: Duration = Duration::from_millis(20);
/// See [`POLL_FIRST`].
pub const POLL_MAX: Duration = Duration::from_millis(500);

/// The longest pause between two tries to write an answer that is known in memory. It is tried until it is written.
pub const SETTLE_RETRY_MAX: Duration = Duration::from_secs(2);

/// How long a claim may wait to be sent. Connecting must fit inside it.
pub const SEND_WITHIN: Duration = Duration::from_secs(10);

/// How long an application's claim may stay unsettled without a heartbeat, at the most.
pub const SETTLE_WITHIN_MAX: Duration = Duration::from_secs(15 * 60);

/// How often one call re-reads a row that moved between its look and its claim, before it tells its caller to repeat.
pub const RACES_MAX: u32 = 8;

/// Tenants times destinations whose retry budget is kept in memory. Beyond it nothing is retried by itself.
pub const GOVERNED_MAX: usize = 10_000;

/// The most attempts that one call makes by itself where a reconciler goes on with longer pauses: what is not over by then is
/// longer than anybody waits for.
pub const ATTEMPTS_IN_CALL_MAX: u32 = 5;

/// Rows taken by one round of the reconciler. Each costs a read, a question and a write.
pub const CHECKS_BATCH: u32 = 256;

/// Checks under way at once in one process.
pub const CHECKS_MAX: usize = 32;

/// Checks under way at once for one tenant at one destination, so that a slow one does not take every place.
pub const CHECKS_PER_ROUTE_MAX: usize = 4;

/// How long a check that could not be made now is put off: its tool is not configured here, or too many wait before it.
pub const CHECK_PUT_OFF: Duration = Duration::from_secs(30);

/// Rows that are read at once when an application asks what it may look for: a page of the store.
pub const DUE_READ: u32 = 1000;

/// The longest random addition to the time of a check: operations that an outage left together are not looked at together.
pub const CHECK_JITTER: Duration = Duration::from_secs(10);

/// How often a dispatcher looks at the outbox, at the most. A look at an empty one is a read of an empty index.
pub const OUTBOX_EVERY: Duration = Duration::from_millis(200);

/// Entries of the outbox that are looked at by one read.
pub const OUTBOX_BATCH: u32 = 256;

/// Entries of one tenant in a turn. Processes mix them among each other, so that they seldom meet, and the oldest still go first.
pub const OUTBOX_TURN: usize = 16;

/// Reads of one look at the outbox. What is behind them comes with the next one, where this one ended.
pub const OUTBOX_PAGES: u32 = 16;

/// Entries under way at once in one process: they leave callers most of [`DISPATCHES_MAX`].
pub const DELIVERIES_MAX: usize = 256;

/// Entries under way at once for one tenant at one destination, so that a slow one does not take every place.
pub const DELIVERIES_PER_ROUTE_MAX: usize = 32;

/// Entries of one lane that are sent one behind the other before others get the place.
pub const LANE_RUN_MAX: u32 = 64;

const _: () =
    assert!(DELIVERIES_PER_ROUTE_MAX < DELIVERIES_MAX && DELIVERIES_MAX < DISPATCHES_MAX, "callers come first");

const _: () = assert!(CHECKS_PER_ROUTE_MAX < CHECKS_MAX, "one destination must not take every place");

/// Operations that one mark is looked up for. A key belongs to one; a handle that several have names none of them.
pub const MARKED_MAX: u32 = 8;

/// Calls sent beside one operation in observe mode, or beside those, that are looked at before that one may be sent. Where there are
/// as many it may not. No store gives less at once than is asked for here.
pub const BESIDE_MAX: u32 = 900;

/// The same, looked at while a call is only observed, for what the report says of it: the caller waits for it.
pub const BESIDE_SIGHTED_MAX: u32 = 32;

/// Attempts under way whose keys are compared with that of an event which names nothing uncertain: more than
/// [`DISPATCHES_MAX`], with room for applications' claims. Where there are more, the event is asked for again later.
pub const KEYS_HELD_MAX: u32 = 8 * 1024;

/// Journal entries that are read at once when a delivery is looked for in them.
pub const JOURNAL_READ: u32 = 200;

/// Tools that metrics know by name. A series of each costs a scrape and its store; the rest is counted as one.
pub const METRIC_TOOLS_MAX: usize = 1000;

/// How often unresolved operations are counted for metrics, at the most: a hundred thousand of them take ten milliseconds.
pub const UNRESOLVED_COUNTED_EVERY: Duration = Duration::from_secs(1);

/// Journal entries that the refusal of a stale decision names: enough to see what happened, and one line of an answer.
pub const MOVED_SHOWN: u32 = 8;

/// Rows of one read of the inbox.
pub const INBOX_PAGE: u32 = 200;

/// Unresolved operations that are put in order at once, in memory. A person works through some hundreds; with more than that
/// something else is broken, and the answer says that it is not whole.
pub const INBOX_MAX: usize = 2_000;

const _: () = assert!(SILENCE.as_millis() >= 4 * BEAT_EVERY.as_millis(), "one lost beat must not look like death");

/// How long a second one that somebody asked for may wait for its approval and its call. Whoever approves it has today's wish
/// in mind; past this, an equal call is a call like any other.
pub const SECOND_WITHIN: Duration = Duration::from_secs(24 * 3600);
