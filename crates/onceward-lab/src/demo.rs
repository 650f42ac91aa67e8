//! The story in under a minute: an agent without Onceward makes two tickets, the same agent through it makes one.
//!
//! Everything in it happens, in processes of its own and in a temporary folder: the numbers are counted at the destination.

mod chapters;

use std::path::Path;

use anyhow::Result;

use crate::http::Http;
use crate::lab::{Broken, Expectation, Findings};
use crate::table::Table;
use crate::world::{Configuration, GatewayProcess, Promise, SandboxProcess};

/// How the demo ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every number was as the story tells it.
    AsTold,
    /// These were not.
    Otherwise(Vec<Broken>),
}

/// What the story must have found.
const EXPECTED: &[Expectation] = &[
    Expectation::number("tickets_naive", 2),
    Expectation::number("tickets_through_onceward", 1),
    Expectation::text("first_outcome", "recovered"),
    Expectation::text("second_outcome", "replayed"),
    Expectation::text("other_words_outcome", "conflict"),
    Expectation::text("lost_order_outcome", "unknown"),
    Expectation::text("repeated_order_outcome", "unknown"),
    Expectation::text("order_state_after_restart", "unknown"),
    Expectation::text("decided_order_outcome", "replayed"),
    Expectation::number("orders", 1),
];

const NEXT: &str = "\
What to try next
  onceward serve                         a gateway of your own: it prints its tokens and a first call with curl
  onceward lab --output results.json     every scenario, with effects and answers counted
  onceward contracts list                what is known about destinations
  README.md                              how to put your own tools behind it";

/// Tells the story with processes of `binary`; `tell` gets each part of the text when it has happened.
///
/// # Errors
/// When a process does not start or does not answer; the story then stops in the middle.
pub async fn play(binary: &Path, mut tell: impl FnMut(&str)) -> Result<Ending> {
    let folder = tempfile::tempdir()?;
    let http = Http::new()?;
    let sandbox = SandboxProcess::start(binary, folder.path(), &http).await?;
    let configuration = Configuration::new(sandbox.url(), Promise::RecognisesKeys);
    let gateway = GatewayProcess::start(binary, folder.path(), &configuration, &http).await?;
    tell(&format!(
        "Two processes run, with their files in {}:\n  a helpdesk and shop that lose replies on request  {}\n  \
         a gateway of Onceward before them                 {}\n",
        folder.path().display(),
        sandbox.url(),
        gateway.url()
    ));
    let findings = chapters::without_onceward(&sandbox, Findings::new(), &mut tell).await?;
    let findings = chapters::through_onceward(&sandbox, &gateway, findings, &mut tell).await?;
    let findings = chapters::nobody_knows(&sandbox, gateway, findings, &mut tell).await?;
    let findings = findings
        .with("tickets_naive", sandbox.count_of("tickets", chapters::NAIVE_ACCOUNT).await?)
        .with("tickets_through_onceward", sandbox.count_of("tickets", chapters::GATEWAY_ACCOUNT).await?)
        .with("orders", sandbox.count_of("orders", chapters::GATEWAY_ACCOUNT).await?);
    tell(&format!("{}\n\n{NEXT}", last_table(&findings)));
    let broken: Vec<Broken> = EXPECTED.iter().filter_map(|expected| expected.check(&findings)).collect();
    Ok(if broken.is_empty() { Ending::AsTold } else { Ending::Otherwise(broken) })
}

fn last_table(findings: &Findings) -> String {
    let number = |field: &str| findings.get(field).to_string();
    let mut table = Table::new(&["one lost reply, one repetition", "tickets at the helpdesk"]);
    table.row(&["naive", &number("tickets_naive")]);
    table.row(&["through Onceward", &number("tickets_through_onceward")]);
    table.to_string()
}
