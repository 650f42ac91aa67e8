//! The high-water mark outside the database (R22): a small file that a gateway writes after each beat, and reads before it starts.
//!
//! It lags by one beat. It must not be restored together with the ledger: it is what remembers that there was more.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use onceward_ledger::restore::{HighWater, Position, Replication, Server};
use onceward_ledger::store::LedgerId;
use serde::{Deserialize, Serialize};

/// The version of the file's form.
const VERSION: u32 = 1;

/// The largest file that is taken for a mark, in bytes: a mark has a few hundred.
const BYTES_MAX: u64 = 16 * 1024;

/// Tells the files apart that this process writes before it renames them.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Whether a fail-over that may have lost answered records is taken for what the operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossyFailover {
    /// A gateway does not start after one.
    #[default]
    Refused,
    /// It starts, if the ledger is not behind the mark.
    Accepted,
}

/// What a mark says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    version: u32,
    /// Of which ledger it is.
    pub ledger: String,
    /// How far the ledger had come.
    pub high_water: HighWater,
    /// Which server held it.
    pub server: Option<Server>,
}

/// Why a gateway does not start on a ledger. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum WentBack {
    /// It lost what the mark had seen.
    #[error(
        "the ledger has gone back: it was last written at {} (beat {}, restore {}), and {} says that it had come to {} (beat {}, \
         restore {}); what was sent in between, it does not know",
        .found.at, .found.beats, .found.restores, .path.display(), .kept.at, .kept.beats, .kept.restores
    )]
    Behind {
        /// The mark.
        path: PathBuf,
        /// What it says.
        kept: HighWater,
        /// What the ledger says.
        found: HighWater,
    },
    /// It is not the ledger of the mark.
    #[error("this is another ledger ({found}) than the one that was here until {at} ({kept}), as {} says", .path.display())]
    OtherLedger {
        /// The mark.
        path: PathBuf,
        /// Whose it is.
        kept: String,
        /// How far that one had come.
        at: onceward_core::time::Timestamp,
        /// Which ledger is there.
        found: String,
    },
    /// Another server has taken over from one whose commits waited for no standby.
    #[error(
        "another server holds the ledger than the one that {} names (timeline {found}, and it was {kept}), and commits did not wait \
         for a standby: what was answered last may be lost",
        .path.display()
    )]
    LossyFailover {
        /// The mark.
        path: PathBuf,
        /// The timeline that the mark names.
        kept: u32,
        /// The timeline of the server.
        found: u32,
    },
    /// The mark cannot be read.
    #[error("the mark {} cannot be read: {problem}", .path.display())]
    Unreadable {
        /// The mark.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The mark cannot be written.
    #[error("the mark {} cannot be written: {source}", .path.display())]
    Unwritable {
        /// The mark.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Where a ledger's mark is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkFile {
    path: PathBuf,
}

impl MarkFile {
    /// The mark at this path.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The mark beside a ledger's file.
    #[must_use]
    pub fn beside(ledger: &Path) -> Self {
        let mut name = ledger.as_os_str().to_owned();
        name.push(".mark");
        Self { path: name.into() }
    }

    /// What it says; `None` where no gateway has ever kept one.
    ///
    /// # Errors
    /// [`WentBack::Unreadable`].
    pub fn read(&self) -> Result<Option<Mark>, WentBack> {
        let unreadable = |problem: String| WentBack::Unreadable { path: self.path.clone(), problem };
        match std::fs::metadata(&self.path) {
            Ok(found) if found.len() > BYTES_MAX => return Err(unreadable(format!("it has {} bytes", found.len()))),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        }
        let text = std::fs::read_to_string(&self.path).map_err(|error| unreadable(error.to_string()))?;
        let mark: Mark = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        match mark.version {
            VERSION => Ok(Some(mark)),
            other => Err(unreadable(format!("it has version {other}, and this program knows {VERSION}"))),
        }
    }

    /// Keeps how far a ledger has come. Whoever reads sees the old mark or the new one, also after a power cut.
    ///
    /// # Errors
    /// [`WentBack::Unwritable`]; the old one stands.
    pub fn keep(&self, ledger: &LedgerId, position: &Position) -> Result<(), WentBack> {
        let mark = Mark {
            version: VERSION,
            ledger: ledger.0.clone(),
            high_water: position.high_water,
            server: position.server.clone(),
        };
        self.write(&mark).map_err(|source| WentBack::Unwritable { path: self.path.clone(), source })
    }

    fn write(&self, mark: &Mark) -> std::io::Result<()> {
        let mut beside = self.path.as_os_str().to_owned();
        // Gateways of one configuration keep one mark, and one that ends may still keep it beside the one that starts.
        let write = WRITES.fetch_add(1, Ordering::Relaxed);
        beside.push(format!(".new-{}-{write}", std::process::id()));
        let written = (|| {
            let mut file = File::create(&beside)?;
            file.write_all(&serde_json::to_vec(mark)?)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)
        })();
        if written.is_err() {
            // The mark is kept many times an hour, and a full disk is no place for what each of them leaves.
            let _ = std::fs::remove_file(&beside);
        }
        written
    }

    /// Whether the ledger that is there is the one of the mark that was read, and has all that the mark had seen. The mark is to
    /// be read before the ledger is.
    ///
    /// # Errors
    /// [`WentBack`]: nothing may be sent.
    pub fn compare(
        &self,
        mark: Option<&Mark>,
        ledger: &LedgerId,
        position: &Position,
        failover: LossyFailover,
    ) -> Result<(), WentBack> {
        let Some(mark) = mark else { return Ok(()) };
        let path = || self.path.clone();
        let (kept, found) = (mark.high_water, position.high_water);
        if mark.ledger != ledger.0 {
            let (kept, found) = (mark.ledger.clone(), ledger.0.clone());
            return Err(WentBack::OtherLedger { path: path(), kept, at: mark.high_water.at, found });
        }
        if found.is_behind(&kept) {
            return Err(WentBack::Behind { path: path(), kept, found });
        }
        // A restore has accounted for whatever was lost.
        if found.restores > kept.restores {
            return Ok(());
        }
        let (Some(kept), Some(found)) = (&mark.server, &position.server) else { return Ok(()) };
        match (kept.replication, failover) {
            (Replication::Asynchronous, LossyFailover::Refused)
                if kept.system == found.system && kept.timeline != found.timeline =>
            {
                Err(WentBack::LossyFailover { path: path(), kept: kept.timeline, found: found.timeline })
            }
            (
                Replication::Synchronous | Replication::Asynchronous,
                LossyFailover::Refused | LossyFailover::Accepted,
            ) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward_core::time::Timestamp;

    use super::*;

    fn position(restores: u64, beats: u64) -> Position {
        let at = Timestamp::from_micros(1_000_000);
        Position { high_water: HighWater { restores, beats, at }, epoch: None, server: None }
    }

    fn on(timeline: u32, replication: Replication) -> Position {
        let server = Server { system: "7301".to_owned(), timeline, replication };
        Position { server: Some(server), ..position(0, 7) }
    }

    /// What is said of the second after the mark was kept of the first.
    fn checked(kept: &Position, found: &Position, failover: LossyFailover) -> Result<(), WentBack> {
        let folder = tempfile::tempdir().unwrap();
        let mark = MarkFile::beside(&folder.path().join("onceward.db"));
        let ledger = LedgerId("l-1".to_owned());
        mark.compare(mark.read().unwrap().as_ref(), &ledger, kept, failover).unwrap();
        mark.keep(&ledger, kept).unwrap();
        mark.compare(mark.read().unwrap().as_ref(), &ledger, found, failover)
    }

    #[test]
    fn r22_a_ledger_that_is_behind_its_mark_or_another_one_is_refused() {
        let refused = LossyFailover::Refused;
        checked(&position(0, 7), &position(0, 8), refused).unwrap();
        assert!(matches!(checked(&position(0, 7), &position(0, 6), refused), Err(WentBack::Behind { .. })));
        assert!(matches!(checked(&position(1, 7), &position(0, 900), refused), Err(WentBack::Behind { .. })));
        checked(&position(0, 7), &position(1, 2), refused).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mark = MarkFile::at(folder.path().join("mark"));
        mark.keep(&LedgerId("l-1".to_owned()), &position(0, 7)).unwrap();
        let other =
            mark.compare(mark.read().unwrap().as_ref(), &LedgerId("l-2".to_owned()), &position(0, 900), refused);
        assert!(matches!(other, Err(WentBack::OtherLedger { .. })), "{other:?}");
    }

    #[test]
    fn r22_a_fail_over_is_fine_when_commits_waited_for_the_standby_or_the_operator_says_so() {
        use Replication::{Asynchronous, Synchronous};
        checked(&on(1, Synchronous), &on(2, Asynchronous), LossyFailover::Refused).unwrap();
        let lossy = checked(&on(1, Asynchronous), &on(2, Synchronous), LossyFailover::Refused);
        assert!(matches!(lossy, Err(WentBack::LossyFailover { kept: 1, found: 2, .. })), "{lossy:?}");
        checked(&on(1, Asynchronous), &on(2, Synchronous), LossyFailover::Accepted).unwrap();
        checked(&on(1, Asynchronous), &on(1, Asynchronous), LossyFailover::Refused).unwrap();
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        for text in
            ["", "{}", r#"{"version":2,"ledger":"l","high_water":{"restores":0,"beats":1,"at":1},"server":null}"#]
        {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(MarkFile::at(path.clone()).read(), Err(WentBack::Unreadable { .. })), "{text}");
        }
    }

    #[test]
    fn a_mark_that_cannot_be_kept_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.mark");
        std::fs::create_dir(&path).unwrap();
        let kept = MarkFile::at(path).keep(&LedgerId("a".to_owned()), &position(1, 1));
        assert!(matches!(kept, Err(WentBack::Unwritable { .. })), "{kept:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
