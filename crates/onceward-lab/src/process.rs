//! A process of the `onceward` binary, started, announced, and ended as a scenario wants it ended.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::limits::{LOG_BYTES_SHOWN, START_WITHIN};

/// What a server prints when it accepts connections; the address follows.
const ANNOUNCED: &str = "listens on ";

/// A running server process. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `binary arguments…` and waits until it has announced where it listens. What it prints goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not announce itself in time; the error shows the end of its log.
    pub(crate) async fn start<A: AsRef<OsStr>>(binary: &Path, arguments: &[A], log: &Path) -> Result<Self> {
        let file = append(log)?;
        let mut child = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(file.try_clone()?))
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} could not be started", binary.display()))?;
        let output = child.stdout.take().context("a process without output")?;
        let announced = tokio::time::timeout(START_WITHIN, announcement(output, file)).await;
        match announced {
            Ok(Ok(url)) => Ok(Self { child, url }),
            Ok(Err(error)) => Err(error.context(end_of(log))),
            Err(_) => bail!("the process did not say within {START_WITHIN:?} that it listens\n{}", end_of(log)),
        }
    }

    /// `http://` and where it listens, without a slash at the end.
    #[must_use]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// SIGKILL: no handler runs and nothing is flushed, as when the machine's memory ends.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("the process could not be killed")
    }
}

/// Runs `binary arguments…` to its end and gives what it printed.
///
/// # Errors
/// When it cannot be started or ends with anything but 0; the error carries what it wrote.
pub(crate) async fn run<A: AsRef<OsStr>>(binary: &Path, arguments: &[A]) -> Result<String> {
    let output = Command::new(binary)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("{} could not be started", binary.display()))?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("a process printed something that is no text")
}

fn append(log: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(log);
    opened.with_context(|| format!("{} could not be written", log.display()))
}

/// The address that the process announces. Its further output is drained into the log, so that it never blocks on a full
/// pipe.
async fn announcement(output: tokio::process::ChildStdout, mut log: File) -> Result<String> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        writeln!(log, "{line}")?;
        if let Some((_, rest)) = line.split_once(ANNOUNCED) {
            let url = rest.split_whitespace().next().unwrap_or_default().trim_end_matches('/').to_owned();
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    if writeln!(log, "{line}").is_err() {
                        return;
                    }
                }
            });
            return Ok(url);
        }
    }
    bail!("the process ended before it listened")
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_BYTES_SHOWN)..]).into_owned();
    format!("the end of {}:\n{text}", log.display())
}
