//! Measures Onceward beside raw floors in one run, as ratios. Rounds are interleaved and medians are printed; absolute
//! numbers belong to the machine.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks and makes ids")]

mod client;
mod library;
mod load;
mod process;
mod raw;
mod report;
mod rows;
mod servers;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

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
    /// Callers at once.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    callers: Vec<usize>,
    /// Operations that are already in the file.
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

impl Measure {
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
        None => rows::measure(&arguments.measure).await,
    }
}
