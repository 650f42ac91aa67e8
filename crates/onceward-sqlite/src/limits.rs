//! Every maximum of this store, its unit and its reason.

use std::time::Duration;

/// How long a claim waits for another process's write lock before it is told `Busy`. A person still waits that long; an
/// agent host's own limit is rarely below it.
pub const WAIT: Duration = Duration::from_secs(5);

/// How long opening waits for other processes that open the same new file: eight of them migrate one after the other.
pub const OPEN_WAIT: Duration = Duration::from_secs(30);

/// Commands of one group. A group's members wait for its slowest page write together, and a commit is one flush however
/// many they are; past a few hundred nothing is gained.
pub const GROUP_MAX: usize = 512;

/// Claims that wait in the queue. At a thousand operations a second that is two seconds of work; more would only wait for
/// its deadline.
pub const QUEUED_CLAIMS_MAX: usize = 2048;

/// Settles and signs of life that wait in the queue. Every settle was a claim before, and callers hold several at once;
/// room is kept for them apart from claims, so that new work never displaces what is already known (R14).
pub const QUEUED_SETTLES_MAX: usize = 16 * 1024;

/// The first and the longest pause between two tries for the write lock. The lock is fair to nobody: short pauses win it.
pub const LOCK_PAUSE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(20));

/// The first and the longest pause between two tries to write again after a failed commit.
pub const MEND_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long closing waits for settles that cannot be written because another process holds the lock.
pub const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Frames in the write-ahead log from which it is copied into the file beside the writer, and then begun anew: 4 MiB.
///
/// A log that is written over where it has been written before is flushed in a third of a millisecond; one that grows makes
/// the file system record its new length with each flush, which took three. So it is kept short.
pub const WAL_COPY_FRAMES: i64 = 1000;

/// What is left of the log's file after it began anew, in bytes.
pub const WAL_KEPT_BYTES: i64 = 64 << 20;

/// Pages in memory of the writer, in KiB: inner pages of the indexes of a million operations and the pages being filled.
pub const WRITER_PAGES_KIB: i64 = 16 * 1024;

/// Pages in memory of each reader, in KiB. Replays are point reads; the operating system holds the rest.
pub const READER_PAGES_KIB: i64 = 2 * 1024;

/// Reading connections, and so the most reads at once. Reads take microseconds; more of them than this wait.
pub const READERS_MAX: usize = 8;

/// How long a read waits for one of them.
pub const READ_WAIT: Duration = Duration::from_secs(5);

/// What is kept free for settles when the file may not grow further, in bytes: claims stop that much earlier, and every
/// attempt under way can still be recorded.
pub const SETTLE_RESERVE_BYTES: u64 = 16 << 20;

/// How often the free space of the disk is looked at.
pub const SPACE_CHECK: Duration = Duration::from_millis(500);

/// The most rows of one page of a list, of a journal or of a sweep.
pub const PAGE_MAX: u32 = 1000;

const _: () = assert!(onceward_ledger::limits::BESIDE_MAX < PAGE_MAX, "a cut list must be seen to be one");

/// Operations kept in memory between their claim and their settle, so that a settle need not parse what the same writer has
/// just written.
pub const RECENT_MAX: usize = 1024;

/// The largest body that is kept so, in bytes: with [`RECENT_MAX`], at most 16 MiB.
pub const RECENT_BODY_BYTES_MAX: usize = 16 * 1024;

/// How long a local effect may take. Every other write of this process waits for it.
pub const LOCAL_EFFECT: Duration = Duration::from_secs(1);

/// After how many steps of SQLite's machine the time of a local effect is looked at: some tens of microseconds.
pub const PROGRESS_STEPS: i32 = 4000;

const _: () = assert!(QUEUED_SETTLES_MAX >= QUEUED_CLAIMS_MAX, "every claim that is let in can be settled");
