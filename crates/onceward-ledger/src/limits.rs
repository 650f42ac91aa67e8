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

const _: () = assert!(SILENCE.as_millis() >= 4 * BEAT_EVERY.as_millis(), "one lost beat must not look like death");
