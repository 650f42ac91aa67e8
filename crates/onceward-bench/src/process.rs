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
        let stat = std::fs::read_to_string(format!("{folder}/stat"))?;
        let fields: Vec<_> = stat.rsplit_once(')').context("no command name")?.1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        let status = std::fs::read_to_string(format!("{folder}/status"))?;
        let resident: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .context("no resident size")?
            .parse()?;
        Ok((ticks / 100.0, resident / 1024.0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
