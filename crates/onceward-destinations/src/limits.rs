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

/// The most parts of a multipart body that are compared one by one; one with more is compared by its bytes. Uploads have two or
/// three.
pub const PROXY_PARTS_MAX: usize = 64;

/// The most patterns of one proxy, for reads and for keys each: they are looked at for every request.
pub const PROXY_PATTERNS_MAX: usize = 64;

/// How much earlier and later than the attempts themselves a lookup's window is: clocks differ, and a wider window only shows
/// more.
pub const LOOKUP_SLACK: Duration = Duration::from_secs(5 * 60);

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

/// The largest message of an MCP server that is read, in bytes. A read may bring more than a receipt keeps: an image, a page
/// of a list.
pub const MCP_MESSAGE_BYTES_MAX: usize = 4 * ANSWER_BYTES_MAX;

/// The longest line of a child's errors that is logged in one piece, in bytes.
pub const MCP_LOG_LINE_BYTES_MAX: usize = 4 * 1024;

/// Lines that wait to be written to a child. Each holds a request; more wait in their own calls.
pub const MCP_WRITES_AHEAD: usize = 64;

/// Notices of a server that wait for whoever listens. They are about progress and lists: a listener that falls behind loses
/// the oldest and nothing else.
pub const MCP_NOTICES_AHEAD: usize = 256;

/// Calls of one child that were given up and whose answers are still listened for. Beyond them the oldest one's answer is only
/// logged, and its operation waits for other evidence.
pub const MCP_LATE_MAX: usize = 1024;

/// How long a server's child may take to be gone after it was killed. Only one that hangs in the system takes longer.
pub const CHILD_EXIT_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether what a child started is gone, too, within [`CHILD_EXIT_PATIENCE`].
pub const CHILD_LOOKS: u32 = 50;

/// How long what a child wrote before it ended is read. It lies in the pipe already, unless a grandchild holds the pipe open.
pub const CHILD_DRAIN: Duration = Duration::from_secs(1);

/// Attempts of which it is remembered to which child they were handed. Of one that is forgotten it counts that any child may have
/// got it, which is the safe side.
pub const HANDED_MAX: usize = 4096;

/// How often a stream that broke is taken up again where the server keeps what it sent. It is reading on, not a second call.
pub const RESUMES_MAX: u32 = 3;

/// The pause before a stream is taken up again; it grows with each.
pub const RESUME_PAUSE: Duration = Duration::from_millis(200);

/// How long a server may take to answer the question of which era it is, before it is asked in the older way as well: some
/// old servers never answer what they do not know.
pub const ERA_WITHIN: Duration = Duration::from_secs(3);

/// How long connecting to an MCP server may take altogether, with its handshake and its list of tools. A server that is
/// started by npx or uvx may be downloaded first.
pub const MCP_CONNECT_WITHIN: Duration = Duration::from_secs(90);

/// How long the start of a gateway waits for its MCP servers. One that is later is served as soon as it is there.
pub const MCP_START_WITHIN: Duration = Duration::from_secs(15);

/// How long one read of the connection itself may take: a list, a ping, the handshake of a server that runs.
pub const MCP_READ_WITHIN: Duration = Duration::from_secs(15);

/// The pause before a server that could not be connected is tried again; it doubles.
pub const RECONNECT_FIRST: Duration = Duration::from_millis(500);

/// The longest such pause: a server that is mended is back within this time.
pub const RECONNECT_MAX: Duration = Duration::from_secs(30);

/// How long a connection must have lasted to count as one that works, so that the next pause is short again.
pub const CONNECTION_STEADY: Duration = Duration::from_secs(10);

/// After how long without an answer a session is asked whether it is still known before a write goes into it: a server that was
/// restarted would answer the write itself with a lost session, and nobody could tell whether it ran.
pub const SESSION_FRESH: Duration = Duration::from_secs(5);

/// The most tools that one server may offer. A model that is shown more finds none.
pub const MCP_TOOLS_MAX: usize = 1024;

/// The most pages of one list. A server that gives a next page for ever would be read for ever.
pub const MCP_PAGES_MAX: usize = 64;

/// The most patterns in `reads` of one server: they are looked at for each tool that it offers.
pub const MCP_READS_MAX: usize = 256;

/// How long a notice may take from its first byte to its answer. Its receiver has only to take it.
pub const NOTICE_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of the key that notices are signed with: what Standard Webhooks asks for.
pub const NOTICE_SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

const _: () = assert!(MCP_START_WITHIN.as_millis() < MCP_CONNECT_WITHIN.as_millis());
const _: () = assert!(RECONNECT_FIRST.as_millis() < RECONNECT_MAX.as_millis());
/// How far the time of an event's signature may be from ours, unless the configuration says otherwise: what Standard Webhooks and
/// Stripe recommend.
pub const WEBHOOK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The furthest that a configuration may set. Within it a recorded event could be played again.
pub const WEBHOOK_TOLERANCE_MAX: Duration = Duration::from_secs(60 * 60);

/// Secrets of one webhook: one in use, and others while it is exchanged.
pub const WEBHOOK_SECRETS_MAX: usize = 4;

/// The shortest secret, in bytes: shorter ones can be guessed from one event. Stripe's and Svix' own are longer.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

/// Signatures of one event that are looked at: a sender that exchanges its secret sends two.
pub const WEBHOOK_SIGNATURES_MAX: usize = 8;

/// Names of operations in one event. One event is about one effect; a text may mention a few more.
pub const WEBHOOK_MARKS_MAX: usize = 16;

const _: () = assert!(CONNECT_TIMEOUT.as_millis() <= CONNECT_TIMEOUT_MAX.as_millis());
const _: () = assert!(
    CONNECT_TIMEOUT_MAX.as_millis() < onceward_ledger::limits::SEND_WITHIN.as_millis(),
    "a connection must fit into the time to send"
);
const _: () = assert!(ANSWER_WITHIN.as_millis() <= ANSWER_WITHIN_MAX.as_millis());
const _: () = assert!(MAX_IN_FLIGHT <= MAX_IN_FLIGHT_MAX);
const _: () = assert!(TITLE_BYTES_MAX > "…".len());

/// The most digits by which an amount in the smallest unit is shifted: no currency has more than four, and some ledgers count in
/// millionths.
pub const AMOUNT_DIGITS_MAX: u32 = 9;

/// The longest name of a currency: three letters, and a little more where people count points or tokens.
pub const CURRENCY_CHARS_MAX: usize = 12;
