//! The floor: one writer thread that groups whatever waits into one transaction and answers after its commit. Same file
//! settings and the same unique key as the ledger, and no rules at all.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

/// What the floor writes.
enum Write {
    Claim { id: String, arguments: String },
    Complete { id: String, receipt: String },
    Both { id: String, arguments: String, receipt: String },
}

/// A handle to the writer.
#[derive(Clone)]
pub(crate) struct Raw {
    queue: Sender<(Write, oneshot::Sender<()>)>,
}

/// As many commands as one transaction takes; the ledger's own bound is of the same order.
const GROUP_MAX: usize = 512;

impl Raw {
    /// Opens a new file.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path).context("opening the floor's file")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE operation (
                 number INTEGER PRIMARY KEY,
                 tenant TEXT NOT NULL,
                 operation_id TEXT NOT NULL,
                 state TEXT NOT NULL,
                 arguments TEXT NOT NULL,
                 receipt TEXT,
                 UNIQUE (tenant, operation_id)
             ) STRICT",
        )?;
        let (queue, waiting) = mpsc::channel();
        thread::Builder::new().name("raw-writer".to_owned()).spawn(move || write(&connection, &waiting))?;
        Ok(Self { queue })
    }

    /// Inserts the claim; durable when it returns.
    ///
    /// # Errors
    /// When the writer is gone.
    pub(crate) async fn claim(&self, id: String, arguments: String) -> Result<()> {
        self.submit(Write::Claim { id, arguments }).await
    }

    /// Stores the receipt; durable when it returns.
    ///
    /// # Errors
    /// When the writer is gone.
    pub(crate) async fn complete(&self, id: String, receipt: String) -> Result<()> {
        self.submit(Write::Complete { id, receipt }).await
    }

    /// Both in one transaction, as a local effect would be.
    ///
    /// # Errors
    /// When the writer is gone.
    pub(crate) async fn both(&self, id: String, arguments: String, receipt: String) -> Result<()> {
        self.submit(Write::Both { id, arguments, receipt }).await
    }

    async fn submit(&self, write: Write) -> Result<()> {
        let (done, wait) = oneshot::channel();
        self.queue.send((write, done)).ok().context("the floor's writer is gone")?;
        wait.await.context("the floor's writer failed")
    }
}

fn write(connection: &Connection, waiting: &Receiver<(Write, oneshot::Sender<()>)>) {
    while let Ok(first) = waiting.recv() {
        let group: Vec<_> = std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX - 1)).collect();
        if let Err(error) = commit(connection, &group) {
            eprintln!("the floor's writer stops: {error:#}");
            return;
        }
        for (_, done) in group {
            // A caller that no longer waits is not an error.
            let _ = done.send(());
        }
    }
}

fn commit(connection: &Connection, group: &[(Write, oneshot::Sender<()>)]) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for (write, _) in group {
        match write {
            Write::Claim { id, arguments } => insert(connection, id, arguments)?,
            Write::Complete { id, receipt } => update(connection, id, receipt)?,
            Write::Both { id, arguments, receipt } => {
                insert(connection, id, arguments)?;
                update(connection, id, receipt)?;
            }
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}

fn insert(connection: &Connection, id: &str, arguments: &str) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO operation (tenant, operation_id, state, arguments) VALUES ('bench', ?1, 'pending', ?2)",
        )?
        .execute((id, arguments))?;
    Ok(())
}

fn update(connection: &Connection, id: &str, receipt: &str) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE operation SET state = 'succeeded', receipt = ?2 WHERE tenant = 'bench' AND operation_id = ?1",
        )?
        .execute((id, receipt))?;
    Ok(())
}
