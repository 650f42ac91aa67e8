//! The bounds of the MCP front, each with its reason.

use std::time::Duration;

use onceward_core::limits::ARGUMENTS_BYTES_MAX;

/// The longest message, in bytes. A tool's arguments are most of it, so that the rest has little room beside the largest.
pub(crate) const MESSAGE_BYTES_MAX: usize = ARGUMENTS_BYTES_MAX;

/// How long a call waits for its result. Below the half minute after which many hosts, and proxies on the way, give up: past
/// it the caller is told what stands, which is worth more than a broken connection.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

/// Between two progress notifications. Hosts that extend their patience on progress count in seconds.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// How long a client may keep the list of tools. It changes with the configuration only, which is read at the start.
pub(crate) const TOOLS_TTL_MS: u64 = 60_000;

/// Messages of a pipe that are read and not yet taken. More wait in the pipe itself.
pub(crate) const PIPE_AHEAD: usize = 16;

/// Messages to a caller before its result (progress, log lines) that are made and not yet taken by its connection. One more
/// holds up whoever makes them, not the memory.
pub(crate) const TOLD_AHEAD: usize = 64;

/// Between two comments on a stream that has nothing to tell, so that proxies on the way do not take it for dead.
pub(crate) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// The largest response of the protocol library that is read to put a result into it, in bytes. It is our own, and bounded by
/// what a destination may answer; this is above that.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// What an upstream server told and its caller has not taken yet; more is dropped, as each is replaced by the next.
pub(crate) const HEARD_AHEAD: usize = 256;

/// Pages of a list that are read of one upstream server. Some servers give the same cursor for ever.
pub(crate) const PAGES_MAX: usize = 100;

/// How often a server may ask its caller something before it answers.
pub(crate) const ROUNDS_MAX: usize = 10;

/// How long a request for a resource, a prompt or a list may take at an upstream server.
pub(crate) const PASSED_ON_WITHIN: Duration = Duration::from_secs(60);

/// How long a caller may take to answer a question of an upstream server. People answer some of them.
pub(crate) const QUESTION_PATIENCE: Duration = Duration::from_secs(120);

/// Questions to callers that wait for an answer at one time. Each holds a request open.
pub(crate) const QUESTIONS_OPEN_MAX: usize = 1024;

/// Callers whose level of logging is kept.
pub(crate) const LEVELS_KEPT_MAX: usize = 4096;

/// Resources that callers of the session era watch, of all principals together.
pub(crate) const WATCHED_MAX: usize = 4096;

/// How long a person's answer counts that travelled through a client of the stateless era. What was wanted then is wanted now.
pub(crate) const ANSWER_COUNTS_FOR: Duration = Duration::from_secs(15 * 60);

const _: () = assert!(WAIT_MAX.as_secs() < 30, "hosts with a patience of half a minute must get an answer");
const _: () = assert!(PROGRESS_EVERY.as_millis() < WAIT_MAX.as_millis());
