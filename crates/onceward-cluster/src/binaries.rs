//! The machine's own PostgreSQL: where its programs are, and as whom they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Where distributions put them; the newest version first.
const FOLDERS: [&str; 2] = ["/usr/lib/postgresql", "/opt/homebrew/opt"];

/// Whom the server runs as where this process is root: it refuses root.
const USER: &str = "postgres";

#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    as_root: bool,
}

impl Binaries {
    pub(crate) fn find() -> Result<Self> {
        let folder = FOLDERS
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
            .map(|version| version.path().join("bin"))
            .filter(|bin| bin.join("initdb").is_file())
            .max()
            .context("PostgreSQL's programs are not installed (Debian: apt-get install postgresql-15)")?;
        let id = Command::new("id").arg("-u").output().context("who runs this cannot be asked")?;
        Ok(Self { folder, as_root: String::from_utf8_lossy(&id.stdout).trim() == "0" })
    }

    /// Where one of its programs is.
    pub(crate) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// One of its programs, run as who may.
    pub(crate) fn command(&self, program: &str) -> Command {
        let path = self.path(program);
        let mut command = if self.as_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        // A folder that everybody may enter, whoever runs this.
        command.current_dir("/");
        command
    }

    /// Makes a folder theirs.
    pub(crate) fn give(&self, folder: &Path) -> Result<()> {
        match self.as_root {
            true => self.run(Command::new("chown").arg("-R").arg(USER).arg(folder)),
            false => Ok(()),
        }
    }

    /// Makes a folder ours again, so that it can be removed.
    pub(crate) fn take_back(&self, folder: &Path) -> Result<()> {
        match self.as_root {
            true => self.run(Command::new("chown").arg("-R").arg("root").arg(folder)),
            false => Ok(()),
        }
    }

    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        self.output(command).map(drop)
    }

    fn output(&self, command: &mut Command) -> Result<String> {
        let done = command.output().with_context(|| format!("{command:?} cannot be run"))?;
        if !done.status.success() {
            bail!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    pub(crate) fn psql(&self, url: &str, sql: &str) -> Result<String> {
        let program = self.folder.join("psql");
        self.output(Command::new(program).args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]))
    }
}
