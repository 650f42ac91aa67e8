//! The ledger's secret, in a file beside the database: outbound keys are derived from it (R4).
//!
//! It is never in the database, so that a copy of the database alone tells no destination's keys. Without it a restored
//! ledger could not rebuild the keys that destinations know, so a ledger with operations is not opened without it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use onceward_core::hex;
use onceward_core::outbound::LedgerSecret;

use crate::chance;
use crate::error::OpenError;

/// Where the secret of the ledger at `database` lies.
#[must_use]
pub fn secret_path(database: &Path) -> PathBuf {
    beside(database, ".secret")
}

pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The secret, or nothing when its file does not exist.
pub(crate) fn read(database: &Path) -> Result<Option<LedgerSecret>, OpenError> {
    let path = secret_path(database);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::File { path, what: error.to_string() }),
    };
    let failed = |error: io::Error| OpenError::File { path: path.clone(), what: error.to_string() };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(OpenError::SecretExposed { path, mode });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    match hex::decode(text.trim_end()).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => Ok(Some(LedgerSecret::new(bytes))),
        None => Err(OpenError::SecretUnreadable { path }),
    }
}

/// Makes the secret of a new ledger, or reads the one that another process has just made.
///
/// It is written whole under another name and then linked, which fails when the name is taken: no process ever reads half a
/// secret, and none replaces another's.
pub(crate) fn create(database: &Path) -> Result<LedgerSecret, OpenError> {
    if let Some(secret) = read(database)? {
        return Ok(secret);
    }
    let path = secret_path(database);
    let failed = |error: io::Error| OpenError::File { path: path.clone(), what: error.to_string() };
    let draft = beside(&path, &format!(".{}", hex::encode(&chance::bytes::<8>())));
    let made = draft_of_secret(&draft).and_then(|()| match fs::hard_link(&draft, &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    });
    let removed = fs::remove_file(&draft);
    made.and(removed).map_err(failed)?;
    sync_folder(&path).map_err(failed)?;
    read(database)?.ok_or(OpenError::SecretMissing { path })
}

fn draft_of_secret(draft: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    writeln!(file, "{}", hex::encode(&chance::bytes::<32>()))?;
    file.sync_all()
}

/// A new name is durable only once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}
