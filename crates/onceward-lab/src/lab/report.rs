//! What a run of the lab says, to people and to machines.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::expectation::Broken;
use super::findings::Findings;
use super::scenario::Scenario;

/// How one scenario ended.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    /// Which.
    pub name: &'static str,
    /// The sentence about it.
    pub sentence: &'static str,
    /// How it ended.
    pub verdict: Verdict,
}

/// How a scenario ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Every expectation holds.
    Passed(Findings),
    /// At least one expectation does not.
    Broken {
        /// What was found.
        findings: Findings,
        /// Which expectations, and what was found instead.
        broken: Vec<Broken>,
    },
    /// It could not be played to its end.
    Stopped(String),
}

impl ScenarioReport {
    /// Judges findings by the scenario's own expectations.
    pub(crate) fn judge(scenario: &Scenario, findings: Findings) -> Self {
        let broken: Vec<Broken> =
            scenario.expectations.iter().filter_map(|expectation| expectation.check(&findings)).collect();
        let verdict = if broken.is_empty() { Verdict::Passed(findings) } else { Verdict::Broken { findings, broken } };
        Self { name: scenario.name, sentence: scenario.sentence, verdict }
    }

    /// Whether every expectation holds.
    #[must_use]
    pub const fn has_passed(&self) -> bool {
        match self.verdict {
            Verdict::Passed(_) => true,
            Verdict::Broken { .. } | Verdict::Stopped(_) => false,
        }
    }

    fn to_json(&self) -> Value {
        let (findings, broken) = match &self.verdict {
            Verdict::Passed(findings) => (findings.clone(), Vec::new()),
            Verdict::Broken { findings, broken } => {
                (findings.clone(), broken.iter().map(ToString::to_string).collect())
            }
            Verdict::Stopped(why) => (Findings::new(), vec![why.clone()]),
        };
        let findings = findings.with("passed", self.has_passed());
        serde_json::json!(if broken.is_empty() { findings } else { findings.with("broken", broken) })
    }
}

impl fmt::Display for ScenarioReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Passed(findings) => write!(f, "ok      {}: {}", self.name, findings.tell(self.sentence)),
            Verdict::Broken { broken, .. } => {
                write!(f, "BROKEN  {}", self.name)?;
                broken.iter().try_for_each(|broken| write!(f, "\n        {broken}"))
            }
            Verdict::Stopped(why) => {
                write!(f, "STOPPED {}\n        {}", self.name, why.replace('\n', "\n        "))
            }
        }
    }
}

/// Everything a run found: the content of `results.json`.
#[derive(Clone, Debug, Serialize)]
pub struct LabReport {
    /// Whether every scenario passed.
    pub passed: bool,
    /// What ran.
    pub versions: Versions,
    /// Each scenario's findings, by name.
    pub scenarios: Map<String, Value>,
    /// How many there are.
    #[serde(skip)]
    pub count: usize,
    /// The names of those that did not pass.
    #[serde(skip)]
    pub broken: Vec<&'static str>,
}

/// What ran.
#[derive(Clone, Debug, Serialize)]
pub struct Versions {
    /// Onceward.
    pub onceward: &'static str,
    /// The SQLite that is built in.
    pub sqlite: &'static str,
}

impl LabReport {
    /// The sum of these.
    pub(crate) fn of(reports: &[ScenarioReport]) -> Self {
        let broken: Vec<&'static str> =
            reports.iter().filter(|report| !report.has_passed()).map(|report| report.name).collect();
        Self {
            passed: broken.is_empty(),
            versions: Versions { onceward: env!("CARGO_PKG_VERSION"), sqlite: rusqlite::version() },
            scenarios: reports.iter().map(|report| (report.name.to_owned(), report.to_json())).collect(),
            count: reports.len(),
            broken,
        }
    }

    /// The last line of a run.
    #[must_use]
    pub fn last_line(&self) -> String {
        if self.passed {
            format!("PASS: {} scenarios", self.count)
        } else {
            format!("FAIL: {} of {} scenarios: {}", self.broken.len(), self.count, self.broken.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::expectation::Expectation;

    const SCENARIO: Scenario = Scenario {
        name: "one_ticket",
        sentence: "{tickets} ticket",
        expectations: &[Expectation::number("tickets", 1)],
        run: |_| Box::pin(async { Ok(Findings::new()) }),
    };

    fn found(tickets: i64) -> ScenarioReport {
        ScenarioReport::judge(&SCENARIO, Findings::new().with("tickets", tickets))
    }

    #[test]
    fn a_broken_expectation_fails_the_run_and_names_scenario_field_expected_and_found() {
        let report = LabReport::of(&[found(1), found(2)]);
        assert!(!report.passed);
        assert_eq!(report.last_line(), "FAIL: 1 of 2 scenarios: one_ticket");
        let line = found(2).to_string();
        assert!(line.contains("one_ticket") && line.contains("tickets: expected 1, found 2"), "{line}");
        assert_eq!(found(2).to_json()["passed"], false);
        assert_eq!(found(2).to_json()["tickets"], 2, "what was found is in the file, also when it is wrong");
    }

    #[test]
    fn a_scenario_that_could_not_be_played_fails_the_run() {
        let verdict = Verdict::Stopped("no gateway".to_owned());
        let stopped = ScenarioReport { name: "x", sentence: "", verdict };
        assert!(!LabReport::of(std::slice::from_ref(&stopped)).passed);
        assert!(stopped.to_string().contains("no gateway"));
    }

    #[test]
    fn a_run_in_which_all_hold_says_how_many() {
        let report = LabReport::of(&[found(1), found(1)]);
        assert!(report.passed);
        assert_eq!(report.last_line(), "PASS: 2 scenarios");
        assert_eq!(found(1).to_string(), "ok      one_ticket: 1 ticket");
    }
}
