//! Processes that are measured: started on loopback, their processor time read from the kernel, ended by their own handle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A server process that says `listening on <address>` on its first matching line.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Server {
    /// Starts it and waits until it says where it listens.
    ///
    /// # Errors
    /// When it does not start, or ends before it says so.
    pub(crate) fn start(program: &Path, arguments: &[&str], marker: &str) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines.next().context("the server ended before it listened")??;
            if let Some((_, rest)) = line.split_once(marker) {
                let address = rest.trim().trim_start_matches("http://");
                break address.split(['/', ' ', ',']).next().unwrap_or(address).to_owned();
            }
        };
        // Whatever else it prints must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        ensure!(address.starts_with("127.0.0.1:"), "it listens on {address}, not on loopback");
        Ok(Self { child, address })
    }

    /// Processor seconds that it has used so far, and its resident memory in MiB.
    ///
    /// # Errors
    /// When the kernel's files cannot be read.
    pub(crate) fn usage(&self) -> Result<(f64, f64)> {
        let folder = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{folder}/status"))?;
        let resident: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .context("no resident size")?
            .parse()?;
        Ok((processor_seconds(&self.child.id().to_string())?, resident / 1024.0))
    }
}

/// Processor seconds that a process has used so far; `self` is this one.
///
/// # Errors
/// When there is no such process.
pub(crate) fn processor_seconds(pid: &str) -> Result<f64> {
    Ok(ticks(pid)?[..2].iter().sum::<f64>() / 100.0)
}

/// The same, with that of its children that have ended.
///
/// # Errors
/// When there is no such process.
pub(crate) fn processor_seconds_with_ended(pid: &str) -> Result<f64> {
    Ok(ticks(pid)?.iter().sum::<f64>() / 100.0)
}

/// Its own in user and in kernel mode, then those of its ended children.
fn ticks(pid: &str) -> Result<[f64; 4]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<_> = stat.rsplit_once(')').context("no command name")?.1.split_whitespace().collect();
    ensure!(fields.len() > 14, "{stat}");
    Ok([fields[11].parse()?, fields[12].parse()?, fields[13].parse()?, fields[14].parse()?])
}

/// Bytes that this process has had written to disks so far.
///
/// # Errors
/// When the kernel does not say.
pub(crate) fn bytes_written() -> Result<f64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:")).context("no count of bytes")?;
    Ok(line.trim().parse()?)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
