//! Every maximum of the rules, its unit and its reason. Over a limit is a typed answer; nothing is cut silently.

use core::time::Duration;

/// The longest operation id, outbound key or effect id, in bytes. Vendors' own keys end at 255 (Stripe, PayPal 108, Square 45),
/// so that a caller's key may be an operation id.
pub const OPERATION_ID_BYTES_MAX: usize = 255;

/// The longest tenant, principal, tool, version, owner or lane name, in bytes: they are index columns and metric labels.
pub const NAME_BYTES_MAX: usize = 128;

/// The most dispatches of one operation over its whole life, decisions of people included. A destination that needs more is
/// broken, and the set of uncertain attempts, which must never be cut, is bounded by it.
pub const ATTEMPTS_MAX: u32 = 64;

/// Disproved attempts that are remembered one by one. Those that left are at most [`ATTEMPTS_MAX`]; the rest is room for the
/// latest that never did.
pub const DISPROVED_MAX: usize = 2 * ATTEMPTS_MAX as usize;

/// The longest text of evidence, reason or cause that a person gives, in bytes. A file is named by its hash instead.
pub const EVIDENCE_BYTES_MAX: usize = 16 * 1024;

/// The longest text of a failed tool that a journal entry keeps, in bytes. A person recognises a refusal by its beginning.
pub const SAID_BYTES_MAX: usize = 4 * 1024;

/// How far ahead a person may put off an automatic check. Keys are forgotten and effects scroll out of lists meanwhile; whoever
/// needs longer says so again.
pub const DECISION_WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

const _: () = assert!(NAME_BYTES_MAX <= OPERATION_ID_BYTES_MAX);
const _: () = assert!(ATTEMPTS_MAX >= 8, "a redrive budget and a person's decisions must both fit");

/// The largest arguments of one call, in bytes, as sent and in canonical form. They are written into the ledger and its
/// backups for every operation; a file is passed by reference instead.
pub const ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;

/// How many arrays and objects may stand inside each other. Readers recurse, so the depth is bounded well below what the
/// smallest stack takes; arguments of tools that people write are below ten.
pub const JSON_DEPTH_MAX: usize = 64;

/// The largest magnitude of a number, 2^53 − 1: past it two different integers become one floating-point number, and two
/// different calls would be taken for one.
pub const JSON_NUMBER_MAX: u64 = (1 << 53) - 1;

/// The longest JSON Pointer that configuration may give, in bytes: it is shown in answers and stored with definitions.
pub const POINTER_BYTES_MAX: usize = 512;

/// The longest place that an answer names, in bytes. Names of members come from callers and may be as long as the
/// arguments; a longer place is named by the nearest field around it.
pub const PLACE_BYTES_MAX: usize = POINTER_BYTES_MAX;

/// The most fields of one tool that are not compared. A tool that needs more should name the object around them.
pub const COMPARISON_POINTERS_MAX: usize = 32;

/// The most differing fields that a conflict names; the rest are counted. A person reads the first few, and the answer
/// goes into a model's context.
pub const DIFFERENCES_MAX: usize = 32;

/// The shortest fingerprint key, in bytes: as long as the hash, so that guessing the key is no easier than the hash.
pub const FINGERPRINT_KEY_BYTES_MIN: usize = 32;

/// The longest fingerprint key, in bytes: one block of SHA-256. HMAC would hash a longer one down to 32 bytes.
pub const FINGERPRINT_KEY_BYTES_MAX: usize = 64;

const _: () = assert!(COMPARISON_POINTERS_MAX <= DIFFERENCES_MAX, "every free-text field that differs can be named");
const _: () = assert!(POINTER_BYTES_MAX <= PLACE_BYTES_MAX, "a configured field can be named in full");
const _: () = assert!(JSON_DEPTH_MAX < 128, "the parser's own limit must not answer first");
const _: () = assert!(FINGERPRINT_KEY_BYTES_MIN <= FINGERPRINT_KEY_BYTES_MAX);

/// How much of a retention horizon counts as passed already when its contract names no margin, as a part: clocks differ,
/// and a request takes time to arrive. A day leaves 23 hours.
pub const HORIZON_MARGIN_PART: u32 = 24;

/// The least margin of a horizon whose contract names none: a minute's horizon cannot be cut by minutes.
pub const HORIZON_MARGIN_MIN: Duration = Duration::from_secs(30);

/// The length of an outbound key in bytes: a UUID's text, which every destination that takes keys has room for. It is also the
/// marker, so a marker field must take as much.
pub const OUTBOUND_KEY_BYTES: usize = 36;

/// The share of a destination's first dispatches that may be tried again, in per cent: enough to ride out single faults, too
/// little to multiply an outage.
pub const RETRY_BUDGET_PERCENT: u32 = 20;

/// Retries per second that a destination has beside its share, so that one with little traffic is retried at all.
pub const RETRY_BUDGET_PER_SECOND: u32 = 10;

/// How long unused budget is kept: the time within which a burst of faults belongs to the traffic before it.
pub const RETRY_BUDGET_WINDOW: Duration = Duration::from_secs(10);

/// The shortest time between two lookups of one operation: a destination that answers at once is not asked in a loop.
pub const LOOKUP_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The pause before the first redrive that no caller waits for, and the longest one. Ten attempts are spread over half an hour:
/// longer than a deployment, shorter than the shortest horizon worth the name.
pub const CHECK_PAUSE_FIRST: Duration = Duration::from_secs(2);
/// See [`CHECK_PAUSE_FIRST`].
pub const CHECK_PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// How long after its latest attempt an operation is still looked up by itself. Destinations that show an effect only after
/// a week do not show it by waiting longer.
pub const LOOKUP_SPAN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How far the wall clock may move against the monotonic one before sweeps stop: more than any correction of a running clock,
/// less than any retention period.
pub const CLOCK_JUMP_MAX: Duration = Duration::from_secs(60);

/// How far in the future an id's time may lie: callers' clocks differ, and an id from next year would be tracked until then.
pub const ID_CLOCK_SKEW_MAX: Duration = Duration::from_secs(5 * 60);
