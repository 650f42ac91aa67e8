//! Every maximum of the gateway's surfaces, its unit and its reason. Over a limit is a typed answer; nothing is cut silently.

use std::time::Duration;

use onceward_core::limits::ARGUMENTS_BYTES_MAX;

/// The largest request body, in bytes. The arguments of a call are written into the ledger and may not be larger either, so
/// what stands around them has to fit beside them.
pub const BODY_BYTES_MAX: usize = ARGUMENTS_BYTES_MAX;

/// The largest head of a request (request line and headers), in bytes: room for a long bearer token and trace headers, and
/// not for a payload.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;

/// How much of a connection is buffered, in bytes. Above [`HEADER_BYTES_MAX`], so that a head that is a little too large is
/// answered in our words; one far beyond is cut off by the transport.
pub const CONNECTION_BUFFER_BYTES: usize = 64 * 1024;

/// How long a client may take to send the head of a request, and then its body. A connection that trickles holds a place
/// that others need.
pub const READ_WITHIN: Duration = Duration::from_secs(30);

/// The longest body that is too large and is read to its end all the same, so that its sender hears why it was refused.
pub const DISCARDED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How long that may take.
pub const DISCARD_WITHIN: Duration = Duration::from_secs(2);

/// How long a call waits for its result when its caller does not say.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest wait that a caller may ask for. Load balancers give up at 60 s; the work goes on either way.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long one request may take from its head to its answer. Past it the caller is told so, and the work goes on.
pub const REQUEST_WITHIN: Duration = Duration::from_secs(120);

/// Requests under way at once. Each may hold a body and an answer of a mebibyte.
pub const REQUESTS_MAX: usize = 1024;

/// Connections at once. An idle one costs its buffer.
pub const CONNECTIONS_MAX: usize = 4096;

/// How long a failed accept rests: out of descriptors, the next try would fail at once as well.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Rows of a list, and entries of a journal, unless the caller says otherwise.
pub const PAGE_DEFAULT: u32 = 50;

/// The most rows of a list and entries of a journal. An operation has at most a few hundred entries.
pub const PAGE_MAX: u32 = 200;

/// How long an application's claim may stay unsettled unless it says otherwise.
pub const SETTLE_WITHIN_DEFAULT: Duration = Duration::from_secs(60);

/// How long a stopping gateway waits for dispatches to be answered and settled. What is left becomes `unknown`.
pub const DRAIN: Duration = Duration::from_secs(30);

/// After how long a caller that was told "try again" should do so. Short: the ledger's own pauses are behind it.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Things that an application may say it found for one operation. One is the effect; two are a disagreement.
pub const LOOKUP_FOUND_MAX: usize = 32;

/// The largest event that a destination may deliver, in bytes. Standard Webhooks asks for less than 20 KiB; some vendors put whole
/// objects into theirs.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 256 * 1024;

/// After how long an event about a running attempt should be delivered again: most attempts have ended by then.
pub const WEBHOOK_AGAIN: Duration = Duration::from_secs(5);

/// Characters of a credential's random part: 256 bits, so that guessing is no attack and no slow hash is needed.
pub const TOKEN_BYTES: usize = 32;

/// The longest token that is looked at, in bytes. Ours have fewer than a hundred.
pub const TOKEN_TEXT_BYTES_MAX: usize = 256;

/// How often the ledger is looked at for notices. A person does not see the difference, and a look costs a few reads.
pub const NOTICE_LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long an operation must have been unknown without a scheduled check before a person is told: what is to be checked is
/// written down a moment after the loss.
pub const NOTICE_SETTLING: Duration = Duration::from_secs(5);

/// Operations of one tenant that are looked at for one kind of notice, the newest. Who has more of them waiting knows it by now;
/// the others are told of as these are settled.
pub const NOTICES_MAX: usize = 1000;

/// The pause before a notice that did not arrive is sent again; it doubles.
pub const NOTICE_AGAIN_FIRST: Duration = Duration::from_secs(5);

/// The longest such pause. It is sent for as long as its operation waits.
pub const NOTICE_AGAIN_MAX: Duration = Duration::from_secs(10 * 60);

const _: () = assert!(WAIT_MAX.as_millis() < REQUEST_WITHIN.as_millis(), "a caller that waits is answered in time");
const _: () = assert!(WAIT_DEFAULT.as_millis() <= WAIT_MAX.as_millis());
const _: () = assert!(HEADER_BYTES_MAX < CONNECTION_BUFFER_BYTES);
/// Journal entries that a timeline is put together from: more than an operation gets from all attempts, lookups and decisions of
/// its life; only an application's heartbeats can exceed it, and then the answer says so.
pub const TIMELINE_ENTRIES_MAX: usize = 1_000;

const _: () = assert!(PAGE_DEFAULT <= PAGE_MAX);

/// The limits that a configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, in bytes; at most [`BODY_BYTES_MAX`].
    pub body_bytes_max: usize,
    /// Requests under way at once.
    pub requests_max: usize,
    /// How long a call waits for its result when its caller does not say.
    pub wait_default: Duration,
    /// The longest wait that a caller may ask for; at most [`WAIT_MAX`].
    pub wait_max: Duration,
    /// How long a stopping gateway waits for what is under way.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: BODY_BYTES_MAX,
            requests_max: REQUESTS_MAX,
            wait_default: WAIT_DEFAULT,
            wait_max: WAIT_MAX,
            drain: DRAIN,
        }
    }
}

impl Limits {
    /// How long a call waits, given what its caller asked for.
    #[must_use]
    pub fn wait(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.wait_default).min(self.wait_max)
    }
}

/// The longest times that an application may name for looking for the effect of its own function: as long as anything is looked
/// for at all.
pub const OWN_LOOKUP_MAX: Duration = onceward_core::limits::LOOKUP_SPAN_MAX;

/// The most operations that one report of observe mode reads: at some hundred thousand it takes seconds, and whoever has more asks of a
/// shorter time.
pub const REPORT_ROWS_MAX: u64 = 200_000;

/// The most examples of one kind in a report: enough to recognise the host that makes them.
pub const REPORT_EXAMPLES_MAX: usize = 5;

/// How much longer than its destination may take a forwarded write is waited for: connecting, and two commits.
pub const FORWARD_GRACE: Duration = Duration::from_secs(10);
