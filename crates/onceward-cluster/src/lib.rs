//! PostgreSQL clusters for tests: made with `initdb`, started and killed as processes, gone with the value.
//!
//! No part of the product: tests of the store, the library, the gateway and the lab start real databases with it. A cluster
//! listens on loopback only, at a port that was free, and trusts whoever can reach that.
#![allow(clippy::disallowed_methods, reason = "it waits for real processes with a deadline")]

mod binaries;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::binaries::Binaries;

/// How long a server may take to start, stop or be promoted. Machines are slow when many tests run.
const PATIENCE: Duration = Duration::from_secs(60);

/// The variable in which a test command names a running server, in which each test makes a database of its own.
pub const SERVER_VARIABLE: &str = "ONCEWARD_POSTGRES";

/// A server that runs.
#[derive(Debug)]
pub struct Cluster {
    binaries: Binaries,
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

/// A database of a test's own.
#[derive(Debug)]
pub struct Database {
    url: String,
    // Goes with the database, where it was started for it.
    _own: Option<Cluster>,
}

impl Database {
    /// Makes an empty database: in the server that the test command started, or in one of its own.
    ///
    /// # Errors
    /// The binaries are not there, or a command failed; its output is in the error.
    pub fn make() -> Result<Self> {
        match std::env::var(SERVER_VARIABLE) {
            Ok(server) => {
                let name = fresh_name();
                let binaries = Binaries::find()?;
                binaries.psql(&server, &format!("CREATE DATABASE {name}"))?;
                let (address, _) = server.rsplit_once('/').context("the server's address names no database")?;
                Ok(Self { url: format!("{address}/{name}"), _own: None })
            }
            Err(_) => {
                let cluster = Cluster::start("")?;
                Ok(Self { url: cluster.url(), _own: Some(cluster) })
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL with `psql` and gives what it prints, without headings.
    ///
    /// # Errors
    /// What the server said.
    pub fn sql(&self, text: &str) -> Result<String> {
        Binaries::find()?.psql(&self.url, text)
    }
}

/// Where one of PostgreSQL's own programs is, such as `pgbench`.
///
/// # Errors
/// PostgreSQL's programs are not installed.
pub fn program(name: &str) -> Result<PathBuf> {
    Ok(Binaries::find()?.path(name))
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

impl Cluster {
    /// Makes a cluster and starts it; `settings` are lines of its `postgresql.conf`.
    ///
    /// # Errors
    /// The binaries are not there, or a command failed; its output is in the error.
    pub fn start(settings: &str) -> Result<Self> {
        let binaries = Binaries::find()?;
        let folder = tempfile::Builder::new().prefix("onceward-pg").tempdir()?;
        binaries.give(folder.path())?;
        let data = folder.path().join("data");
        binaries.run(
            binaries
                .command("initdb")
                .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"])
                .arg("-D")
                .arg(&data),
        )?;
        let port = free_port()?;
        let socket = folder.path().display();
        let usual = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{socket}'\nmax_connections = 200\n\
             shared_buffers = '64MB'\nautovacuum_naptime = '5s'\nlog_min_messages = warning\n"
        );
        append(&data.join("postgresql.conf"), &format!("{usual}{settings}\n"))?;
        let mut cluster = Self { binaries, folder, port, process: None };
        cluster.launch()?;
        Ok(cluster)
    }

    /// A standby of this cluster, streaming from it under that name.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn standby(&self, name: &str, settings: &str) -> Result<Self> {
        let binaries = Binaries::find()?;
        let folder = tempfile::Builder::new().prefix("onceward-pg").tempdir()?;
        binaries.give(folder.path())?;
        let data = folder.path().join("data");
        binaries.run(
            binaries
                .command("pg_basebackup")
                .args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream", "-c", "fast", "-R", "-p"])
                .arg(self.port.to_string())
                .arg("-D")
                .arg(&data),
        )?;
        let port = free_port()?;
        let socket = folder.path().display();
        let own = format!(
            "port = {port}\nunix_socket_directories = '{socket}'\nsynchronous_standby_names = ''\n\
             primary_conninfo = 'host=127.0.0.1 port={} user=postgres application_name={name}'\n{settings}\n",
            self.port
        );
        append(&data.join("postgresql.conf"), &own)?;
        // What the backup wrote there would be read after it, and name no application.
        fs::write(data.join("postgresql.auto.conf"), "")?;
        let mut standby = Self { binaries, folder, port, process: None };
        standby.launch()?;
        Ok(standby)
    }

    /// Has it speak TLS to who asks for it, under these names, and gives the certificate to trust, as PEM.
    ///
    /// # Errors
    /// The certificate cannot be made or written, or the server not be told.
    #[cfg(feature = "tls")]
    pub fn offer_tls(&self, names: &[&str]) -> Result<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names)?;
        for (file, content) in [("server.crt", made.cert.pem()), ("server.key", made.signing_key.serialize_pem())] {
            let path = self.data().join(file);
            fs::write(&path, content)?;
            // The server takes no key that others may read.
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            self.binaries.give(&path)?;
        }
        self.configure("ssl = on")?;
        Ok(made.cert.pem())
    }

    /// The address of its database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Runs SQL with `psql` and gives what it prints, without headings.
    ///
    /// # Errors
    /// What the server said.
    pub fn sql(&self, text: &str) -> Result<String> {
        self.binaries.psql(&self.url(), text)
    }

    /// Ends the whole server at once, as a lost machine would: nothing is written any more.
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        // Its children end by themselves when they see that their postmaster is gone; they write nothing of a client's then.
        for pid in children(process.id()) {
            signal(&pid, "KILL")?;
        }
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Stops the server, or lets it go on.
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn pause(&self, name: &str) -> Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        let mut pids = children(process.id());
        pids.push(process.id().to_string());
        pids.iter().try_for_each(|pid| signal(pid, name))
    }

    /// Starts a server that was killed or stopped.
    ///
    /// # Errors
    /// It did not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.launch()
    }

    /// Makes a standby the primary.
    ///
    /// # Errors
    /// It was not promoted in time.
    pub fn promote(&self) -> Result<()> {
        self.binaries.run(self.binaries.command("pg_ctl").args(["promote", "-w", "-D"]).arg(self.data()))
    }

    /// Appends lines to its configuration and has them read.
    ///
    /// # Errors
    /// The file cannot be written, or the server not be told.
    pub fn configure(&self, lines: &str) -> Result<()> {
        append(&self.data().join("postgresql.conf"), &format!("{lines}\n"))?;
        self.binaries.run(self.binaries.command("pg_ctl").args(["reload", "-D"]).arg(self.data()))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn launch(&mut self) -> Result<()> {
        let log = fs::File::create(self.folder.path().join(format!("log-{}", fresh_name())))?;
        // A killed server leaves the file by which another would be kept out.
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
        let mut server = self.binaries.command("postgres");
        server.arg("-D").arg(self.data()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(server.spawn().context("the server cannot be started")?);
        self.await_ready()
    }

    fn await_ready(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.sql("SELECT 1").is_ok() {
                return Ok(());
            }
            if let Some(process) = &mut self.process
                && let Some(status) = process.try_wait()?
            {
                bail!("the server ended with {status}:\n{}", self.log());
            }
            if Instant::now() > until {
                bail!("the server did not start within {} s:\n{}", PATIENCE.as_secs(), self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        let files = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-"));
        logs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing is left to do with an error of a server that goes with its files.
        let _ = self.pause("CONT");
        let _ = self.kill();
        let _ = self.binaries.take_back(self.folder.path());
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(path)?;
    // Written in place, so that the file stays its owner's.
    fs::write(path, format!("{before}{text}"))?;
    Ok(())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn children(parent: u32) -> Vec<String> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(ToOwned::to_owned).collect()
}

fn signal(pid: &str, name: &str) -> Result<()> {
    // One that has just ended by itself is as good as signalled.
    Command::new("kill").args([&format!("-{name}"), pid]).stderr(Stdio::null()).status()?;
    Ok(())
}
