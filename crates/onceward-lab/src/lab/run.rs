//! Runs scenarios, one after the other: each has two processes and counts, and they should not wait for each other's disk.

use std::path::PathBuf;

use anyhow::Result;

use super::report::{LabReport, ScenarioReport, Verdict};
use super::scenario::Scenario;
use super::scenarios::ALL;
use super::stage::Stage;
use crate::limits::SCENARIO_WITHIN;
use crate::world::Store;

/// What a run is started with.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// The `onceward` binary whose processes are played with.
    pub binary: PathBuf,
    /// Only these scenarios; all when it is empty.
    pub only: Vec<String>,
    /// What the gateways' ledgers are kept in.
    pub store: Store,
}

/// A name that no scenario has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scenario {name:?}; there are: {}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownScenario {
    /// The name.
    pub name: String,
}

/// The names of all scenarios, in their order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|scenario| scenario.name)
}

/// Runs the scenarios and tells of each when it has ended.
///
/// # Errors
/// [`UnknownScenario`]; nothing was run. A scenario that breaks is no error but part of the report.
pub async fn run(options: &LabOptions, mut told: impl FnMut(&ScenarioReport)) -> Result<LabReport, UnknownScenario> {
    if let Some(name) = options.only.iter().find(|name| !names().any(|known| known == *name)) {
        return Err(UnknownScenario { name: name.clone() });
    }
    let chosen =
        ALL.iter().filter(|scenario| options.only.is_empty() || options.only.iter().any(|name| name == scenario.name));
    let mut reports = Vec::new();
    for scenario in chosen {
        let report = play(options, scenario).await;
        told(&report);
        reports.push(report);
    }
    Ok(LabReport::of(&reports))
}

async fn play(options: &LabOptions, scenario: &Scenario) -> ScenarioReport {
    let stopped = |why: String| ScenarioReport {
        name: scenario.name,
        sentence: scenario.sentence,
        verdict: Verdict::Stopped(why),
    };
    let stage = match Stage::new(options).await {
        Ok(stage) => stage,
        Err(error) => return stopped(format!("{error:#}")),
    };
    let played = tokio::time::timeout(SCENARIO_WITHIN, (scenario.run)(&stage)).await;
    if let Err(error) = stage.clear().await {
        return stopped(format!("it was played, and could not be cleared away: {error:#}"));
    }
    match played {
        Ok(Ok(findings)) => ScenarioReport::judge(scenario, findings),
        Ok(Err(error)) => stopped(format!("{error:#}")),
        Err(_) => stopped(format!("it did not end within {SCENARIO_WITHIN:?}")),
    }
}
