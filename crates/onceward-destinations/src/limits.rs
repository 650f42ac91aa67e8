//! Every maximum of sending and of its configuration, its unit and its reason. Over a limit is a typed answer.

use std::time::Duration;

/// The largest answer that is read, in bytes. It is stored as the receipt and given to a model; a longer one is cut and
/// therefore unreadable, never an empty success.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// How long connecting may take unless the configuration says otherwise: name, TCP and TLS together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a whole answer may take unless the configuration says otherwise.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The longest time that a configuration may give to connecting. The engine lets a first byte leave for ten seconds after
/// its claim, and a connection and the wait for a free place must fit inside.
pub const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(8);

/// The longest time that a configuration may give to an answer. A request that holds a place for longer is a job, whose
/// destination answers 202.
pub const ANSWER_WITHIN_MAX: Duration = Duration::from_secs(3600);

/// Requests in flight to one destination unless the configuration says otherwise.
pub const MAX_IN_FLIGHT: u32 = 64;

/// The most requests in flight to one destination: each holds a socket and up to [`ANSWER_BYTES_MAX`] of answer.
pub const MAX_IN_FLIGHT_MAX: u32 = 4096;

/// How long an idle connection is kept. Node's servers close theirs after five seconds, and a request written into a
/// connection that is being closed is a lost reply, so ours go first.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// The longest path with its query, in bytes. Servers refuse more than 8 KiB, some of them by closing the connection,
/// which reads as a lost reply.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;

/// The longest value of a header that a mapping makes, in bytes, for the same reason.
pub const HEADER_VALUE_BYTES_MAX: usize = 4 * 1024;

/// The largest request body, in bytes: the largest arguments, escaped as a form in the worst case.
pub const BODY_BYTES_MAX: usize = 3 * onceward_core::limits::ARGUMENTS_BYTES_MAX;

/// The longest title, in bytes. It is one line for a person; a longer one ends in "…".
pub const TITLE_BYTES_MAX: usize = 256;

/// The most violations of a schema that an answer names. A model corrects the first few; the rest are counted.
pub const VIOLATIONS_MAX: usize = 8;

/// The longest text about one violation, in bytes. A longer one, which quotes the schema, is replaced by the keyword.
pub const VIOLATION_BYTES_MAX: usize = 256;

/// The longest secret, in bytes. A file that is larger was named by mistake.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;

/// The largest schema or contract file, in bytes.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// How often a read is sent at most. Nothing happens twice by reading, so this is about load alone.
pub const READ_ATTEMPTS_MAX: u32 = 3;

/// The pause before a read is sent again; it doubles.
pub const READ_PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(CONNECT_TIMEOUT.as_millis() <= CONNECT_TIMEOUT_MAX.as_millis());
const _: () = assert!(
    CONNECT_TIMEOUT_MAX.as_millis() < onceward_ledger::limits::SEND_WITHIN.as_millis(),
    "a connection must fit into the time to send"
);
const _: () = assert!(ANSWER_WITHIN.as_millis() <= ANSWER_WITHIN_MAX.as_millis());
const _: () = assert!(MAX_IN_FLIGHT <= MAX_IN_FLIGHT_MAX);
const _: () = assert!(TITLE_BYTES_MAX > "…".len());
