//! Every maximum of the command line, its unit, and why it is there.

use std::time::Duration;

/// How long connecting to a gateway may take: it is on this machine or in this network.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long one request may take: longer than the longest wait that a gateway grants, so that its own answer comes first.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(130);

/// The largest file that is read as a contract, in bytes: one is a page of text, and whatever is larger is another file.
pub(crate) const CONTRACT_BYTES_MAX: u64 = 256 * 1024;

/// Rows of a list unless more are asked for: what fits a screen.
pub(crate) const ROWS: u32 = 50;

/// Bytes of a file that are read at once to hash it: a file of evidence may be larger than memory.
pub(crate) const HASHED_AT_ONCE: usize = 64 * 1024;

/// Between two looks of `operations watch`: what a person sees as at once, and no load on a gateway.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Characters of a title in a table, so that a row stays one line.
pub(crate) const TITLE_CHARS: usize = 48;
