//! `onceward lab`: the scenarios, against real processes.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use onceward_lab::lab::{LabOptions, Store, names, run as run_lab};

use crate::exit::{Exit, Failure};

/// Play every scenario with a real gateway and a real destination, and count effects and answers
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where to write the results, as JSON
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Only this scenario; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// What the ledgers are kept in: sqlite, or postgres://USER@HOST/DATABASE, a server that each scenario makes a database in
    #[arg(long, default_value = "sqlite", hide_default_value = true)]
    store: Store,
    /// Name the scenarios and do nothing else
    #[arg(long)]
    list: bool,
    /// Print the results as JSON instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.list {
        names().for_each(|name| say!("{name}"));
        return Ok(Exit::Done);
    }
    // A path that cannot be written is said now, and not after every scenario has been played.
    if let Some(path) = &arguments.output {
        std::fs::write(path, "").with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let binary = std::env::current_exe().context("this binary cannot find itself")?;
    let options = LabOptions { binary, only: arguments.only, store: arguments.store };
    let lines = !arguments.json;
    let report = run_lab(&options, |report| {
        if lines {
            say!("{report}");
        }
    })
    .await
    .map_err(|unknown| Failure::new(Exit::Usage, unknown.to_string()))?;
    let text = serde_json::to_string_pretty(&report).context("the results could not be written as JSON")?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, format!("{text}\n"))
            .with_context(|| format!("{} could not be written", path.display()))?;
    }
    if arguments.json {
        say!("{text}");
    } else {
        say!("{}", report.last_line());
    }
    Ok(if report.passed { Exit::Done } else { Exit::Failed })
}
