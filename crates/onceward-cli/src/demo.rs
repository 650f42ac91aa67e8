//! `onceward demo`: the story in under a minute.

use anyhow::Context as _;
use clap::Args;
use onceward_lab::demo;

use crate::exit::{Exit, Failure};

/// See the problem and the answer in under a minute: a lost reply makes two tickets, and through Onceward one
#[derive(Args, Debug)]
pub(crate) struct Arguments {}

pub(crate) async fn run(Arguments {}: Arguments) -> Result<Exit, Failure> {
    let binary = std::env::current_exe().context("this binary cannot find itself")?;
    let told = demo::play(&binary, |text| say!("{text}")).await?;
    match told {
        demo::Ending::AsTold => Ok(Exit::Done),
        demo::Ending::Otherwise(broken) => {
            let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
            Err(Failure::new(Exit::Failed, format!("the demo went otherwise\n  {}", lines.join("\n  "))))
        }
    }
}
