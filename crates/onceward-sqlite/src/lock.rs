//! The instance lock of a gateway (R23): whoever holds it knows that every earlier gateway on this file is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::secret::beside;

/// Held for as long as it lives. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
#[must_use = "the lock is held for as long as this value lives"]
pub struct InstanceLock {
    _file: File,
    path: PathBuf,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Locked {
    /// Another gateway has it.
    #[error("another gateway{} uses this ledger (it holds {path}); one file, one gateway", by(.pid))]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// The other process, where it wrote its number.
        pid: Option<u32>,
    },
    /// The lock's file cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn by(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(", process {pid},")).unwrap_or_default()
}

impl InstanceLock {
    /// Takes the lock of the ledger at `database`, without waiting.
    ///
    /// # Errors
    /// [`Locked`] says who has it.
    pub fn acquire(database: &Path) -> Result<Self, Locked> {
        // The file itself, by whatever name it is reached: a link must not lead to a second lock.
        let real = std::fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let path = beside(&real, ".lock");
        let failed = |source: io::Error| Locked::File { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(Locked::Held { path, pid });
            }
            Err(error) => return Err(failed(error.into())),
        }
        // The file itself stays for ever: were it removed, two gateways could hold locks on two files of one name.
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file, path })
    }

    /// The lock's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
