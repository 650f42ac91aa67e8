//! Every maximum of the sandbox, its unit, and why it is there.

/// Bytes of one request's body. A ticket is a few kilobytes; a test of an oversized body needs a limit to meet.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Connections open at once. More wait in the listener's backlog, so that a benchmark with a leak slows down instead of
/// taking the machine's file descriptors.
pub const CONNECTIONS_MAX: usize = 4096;

/// Fault rules waiting at once. A lab programs a handful for each scenario; a loop that forgets to reset is told so.
pub const FAULT_RULES_MAX: usize = 1000;

/// Milliseconds that one fault may wait. Ten minutes outlasts every client's timeout, and ends with the session that asked.
pub const FAULT_DELAY_MS_MAX: u64 = 600_000;

/// Milliseconds of one horizon, visibility delay or step of the clock: a year, so that microseconds stay far from overflow.
pub const SPAN_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1000;

/// Requests kept in the log. Beyond it the oldest go, and the report says that it no longer begins at the first.
pub const REQUESTS_KEPT_MAX: i64 = 100_000;

/// How often, in requests, the log is trimmed: a delete for each request would cost as much as the request.
pub const REQUESTS_TRIM_EVERY: i64 = 1000;

/// Rows of a list when the caller names no limit.
pub const LIST_ROWS_DEFAULT: usize = 50;

/// Rows of a list at most, as vendors do it: a caller that wants more must notice `has_more`.
pub const LIST_ROWS_MAX: usize = 200;

/// Rows in one answer to the auditor. Counts are always over all of them, and `complete` says when rows were left out.
pub const ADMIN_ROWS_MAX: usize = 10_000;

/// Characters of an idempotency key, as most vendors limit it.
pub const KEY_CHARS_MAX: usize = 255;

/// Characters of one text field.
pub const TEXT_CHARS_MAX: usize = 10_000;

/// Characters of a title, subject or name.
pub const TITLE_CHARS_MAX: usize = 200;

/// Milliseconds for which a spoken interface knows a key when its contract names no length: a day, as most vendors have it.
pub const HORIZON_UNSAID_MS: u64 = 24 * 60 * 60 * 1000;

/// Milliseconds that a second request waits for the first where the contract says that it waits and not how long.
pub const LOCK_UNSAID_MS: u64 = 1000;

/// Callers that one interleaving may bring together.
pub const INTERLEAVING_CALLERS_MAX: usize = 64;

/// Milliseconds that the file may be held by another process before the sandbox gives up.
pub const DATABASE_BUSY_MS: u64 = 5000;

const _: () = assert!(LIST_ROWS_DEFAULT <= LIST_ROWS_MAX);
const _: () = assert!(REQUESTS_TRIM_EVERY <= REQUESTS_KEPT_MAX);
const _: () = assert!(TITLE_CHARS_MAX <= TEXT_CHARS_MAX);
const _: () = assert!(TEXT_CHARS_MAX * 4 < BODY_BYTES_MAX);
