//! Secrets that stood in a host's configuration: each goes into a file of its own, since the configuration holds none.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::plan::{Plan, Setting};
use crate::exit::{Exit, Failure};

/// The folder beside the configuration.
pub(super) const FOLDER: &str = "onceward-secrets";

/// Writes the secrets that have to be kept; says into which files.
pub(super) fn keep(plan: &Plan, folder: &Path) -> Result<Vec<String>, Failure> {
    let mut kept = Vec::new();
    for setting in plan.settings() {
        let Setting::Secret { file, value } = setting else { continue };
        let path = folder.join(file);
        let failed = |error: std::io::Error| {
            let what = format!("the secret file {} cannot be written: {error}", path.display());
            Failure::new(Exit::Failed, what).not("The configuration was not written.")
        };
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
            // Never into a repository by accident.
            fs::write(parent.join(".gitignore"), "*\n").map_err(failed)?;
        }
        write(&path, value.as_bytes()).map_err(failed)?;
        kept.push(file.clone());
    }
    kept.dedup();
    Ok(kept)
}

/// Writes a file that only its owner reads.
pub(super) fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // A file that was there keeps its mode when it is opened.
    out.set_permissions(fs::Permissions::from_mode(0o600))?;
    out.write_all(content)
}
