//! `onceward check`: whether a configuration is whole, and what a lost reply becomes.

use std::path::PathBuf;

use clap::Args;
use onceward_gateway::check::check;

use crate::exit::{Exit, Failure};

/// Check a configuration: name every mistake with its line and the way out, and say what a lost reply becomes for each tool
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The configuration
    #[arg(long, default_value = "onceward.toml", value_name = "PATH")]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let report = check(&arguments.config);
    if arguments.json {
        say!("{:#}", report.to_json());
    } else if report.is_whole() {
        say!("{}", report.to_string().trim_end());
    } else {
        eprint!("{report}");
    }
    Ok(if report.is_whole() { Exit::Done } else { Exit::Failed })
}
