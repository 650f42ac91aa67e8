//! Measures Onceward beside raw floors in one run, as ratios. Rounds are interleaved and medians are printed; absolute
//! numbers belong to the machine.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks and makes ids")]

mod client;
mod library;
mod load;
mod pgbench;
mod postgres;
mod process;
mod raw;
mod report;
mod rows;
mod servers;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

/// Measures Onceward beside raw floors in one run, as ratios.
#[derive(Parser)]
#[command(name = "onceward-bench")]
struct Arguments {
    #[command(subcommand)]
    server: Option<Server>,
    #[command(flatten)]
    measure: Measure,
}

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Measure {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Interleaved rounds; medians are printed.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Callers at once: 1, 16 and 64 as a rule, on PostgreSQL 256 as well.
    #[arg(long, value_delimiter = ',')]
    callers: Vec<usize>,
    /// Where the ledger is.
    #[arg(long, value_enum, default_value_t = Store::Sqlite)]
    store: Store,
    /// Operations that are already in it; on PostgreSQL the last number counts.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    filled: Vec<u64>,
    /// Where the files lie: on the disk that is to be measured.
    #[arg(long, default_value = "target/bench")]
    folder: PathBuf,
    /// Where the numbers are written as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Only what has this text in its name.
    #[arg(long)]
    only: Option<String>,
    /// The `onceward` binary; beside this one as a rule.
    #[arg(long)]
    onceward: Option<PathBuf>,
}

/// The stores that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Store {
    /// A file.
    Sqlite,
    /// A database in a server that is started for it, beside the same statements by pgbench.
    Postgres,
}

impl Measure {
    fn callers(&self) -> Vec<usize> {
        match (&self.callers[..], self.store) {
            ([], Store::Sqlite) => vec![1, 16, 64],
            ([], Store::Postgres) => vec![1, 16, 64, 256],
            (callers, Store::Sqlite | Store::Postgres) => callers.to_vec(),
        }
    }

    /// Whether this is measured.
    fn wants(&self, what: &str) -> bool {
        self.only.as_ref().is_none_or(|only| what.contains(only.as_str()))
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// Servers that the benchmark starts in processes of their own.
#[derive(Subcommand)]
enum Server {
    /// A destination that does nothing.
    Echo,
    /// HTTP and group commit without rules.
    Bare {
        /// Its file.
        file: PathBuf,
        /// The address of the destination.
        echo: String,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.server {
        Some(Server::Echo) => servers::echo().await,
        Some(Server::Bare { file, echo }) => servers::bare(&file, echo).await,
        None => match arguments.measure.store {
            Store::Sqlite => rows::measure(&arguments.measure).await,
            Store::Postgres => postgres::measure(&arguments.measure).await,
        },
    }
}
