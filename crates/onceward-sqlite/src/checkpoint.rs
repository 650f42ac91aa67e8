//! The write-ahead log is copied into the file by a thread of its own, so that no commit waits for the copy.
//!
//! A log that is written without pause would never be copied to its end, and so never begin anew. So after each copy the
//! writer itself copies what little was added meanwhile, between two groups; the next group writes at the log's beginning.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::{connect, limits};

/// What writer and copier tell each other.
#[derive(Debug)]
pub(crate) struct Log {
    /// Frames in the log after the latest commit.
    frames: AtomicI64,
    /// Frames that are copied.
    copied: AtomicI64,
    /// Whether the writer should copy the rest.
    restart: AtomicBool,
    wanted: Mutex<Wanted>,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Copy,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Copier,
    Writer,
}

impl Log {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            frames: AtomicI64::new(0),
            copied: AtomicI64::new(0),
            restart: AtomicBool::new(false),
            wanted: Mutex::new(Wanted::Nothing),
            wake: Condvar::new(),
        })
    }

    /// Counts frames from now on; SQLite calls in at each commit of this connection.
    pub(crate) fn watch(self: &Arc<Self>, writer: &mut Connection) -> rusqlite::Result<()> {
        let log = Arc::clone(self);
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames| {
            log.frames.store(i64::from(frames), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// After a commit: has the log copied when it is worth it.
    pub(crate) fn committed(&self, writer: &Connection) {
        let frames = self.frames.load(Ordering::Relaxed);
        let copied = self.copied.load(Ordering::Relaxed);
        // Fewer frames than were copied: the log has begun anew.
        let copied = if frames < copied { 0 } else { copied };
        if self.restart.swap(false, Ordering::Relaxed) {
            self.copy(writer, By::Writer);
        } else if frames - copied >= limits::WAL_COPY_FRAMES {
            self.ask(Wanted::Copy);
        }
    }

    fn ask(&self, what: Wanted) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if *wanted == Wanted::Nothing || what == Wanted::Stop {
            *wanted = what;
            self.wake.notify_one();
        }
    }

    /// Copies what no reader still needs; waits for nobody.
    fn copy(&self, connection: &Connection, by: By) {
        let counted = connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        match counted {
            Ok((frames, copied)) => {
                self.copied.store(copied, Ordering::Relaxed);
                if by == By::Copier && frames >= limits::WAL_COPY_FRAMES {
                    self.restart.store(true, Ordering::Relaxed);
                }
            }
            // The log only grows until the next try; a disk that fails shows itself at the next commit.
            Err(error) => tracing::warn!(%error, "the write-ahead log was not copied"),
        }
    }
}

/// The copying thread.
#[derive(Debug)]
pub(crate) struct Copier {
    log: Arc<Log>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    pub(crate) fn start(path: &Path, log: Arc<Log>) -> std::io::Result<Self> {
        let path: PathBuf = path.to_owned();
        let shared = Arc::clone(&log);
        let thread = std::thread::Builder::new().name("onceward-wal".to_owned()).spawn(move || run(&path, &shared))?;
        Ok(Self { log, thread: Some(thread) })
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.log.ask(Wanted::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that copies the write-ahead log has panicked");
        }
    }
}

fn run(path: &Path, log: &Log) {
    let mut connection = None;
    loop {
        {
            let mut wanted = log.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            while *wanted == Wanted::Nothing {
                wanted = log.wake.wait(wanted).unwrap_or_else(PoisonError::into_inner);
            }
            if *wanted == Wanted::Stop {
                return;
            }
        }
        if connection.is_none() {
            connection = connect::bare(path).ok();
        }
        if let Some(connection) = &connection {
            log.copy(connection, By::Copier);
        }
        let mut wanted = log.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if *wanted == Wanted::Copy {
            *wanted = Wanted::Nothing;
        }
    }
}
