//! Room for settles: claims stop while there is still space to record what every claim under way will turn out to be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::limits;

/// Watches the file's own limit and the disk.
#[derive(Debug)]
pub(crate) struct Space {
    path: PathBuf,
    pages_max: Option<i64>,
    pages_reserved: i64,
    reserve_bytes: u64,
    looked_at: Option<Duration>,
    disk_has_room: bool,
}

impl Space {
    /// For a file that may grow to `bytes_max`, of which `reserve_bytes` are for settles.
    pub(crate) fn new(
        connection: &Connection,
        path: &Path,
        bytes_max: Option<u64>,
        reserve_bytes: u64,
    ) -> rusqlite::Result<Self> {
        let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX) / page_bytes;
        let pages_max = bytes_max.map(pages);
        if let Some(most) = pages_max {
            connection.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            pages_max,
            pages_reserved: pages(reserve_bytes),
            reserve_bytes,
            looked_at: None,
            disk_has_room: true,
        })
    }

    /// Whether new work may be written, or only what is already known.
    pub(crate) fn has_room_for_claims(&mut self, connection: &Connection, now: Duration) -> rusqlite::Result<bool> {
        if self.looked_at.is_none_or(|at| now.saturating_sub(at) >= limits::SPACE_CHECK) {
            self.looked_at = Some(now);
            // A disk that cannot be asked is judged by its writes.
            self.disk_has_room = rustix::fs::statvfs(&self.path)
                .map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= self.reserve_bytes);
        }
        let file_has_room = match self.pages_max {
            None => true,
            Some(most) => {
                let count = |pragma: &str| connection.prepare_cached(pragma)?.query_row([], |row| row.get::<_, i64>(0));
                let used = count("PRAGMA page_count")? - count("PRAGMA freelist_count")?;
                used + self.pages_reserved <= most
            }
        };
        Ok(self.disk_has_room && file_has_room)
    }
}
