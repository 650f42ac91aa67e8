//! What a scenario is.

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;

use super::expectation::Expectation;
use super::findings::Findings;
use super::stage::Stage;

/// A scenario under way.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<Findings>> + Send + 'a>>;

/// One story with callers, a destination and counts.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name, in reports and for `--only`.
    pub name: &'static str,
    /// What happened, in one plain sentence; `{field}` stands for what was found.
    pub sentence: &'static str,
    /// What the findings must be. Empty would mean that it cannot fail, so a test forbids that.
    pub expectations: &'static [Expectation],
    /// Runs it on a stage of its own.
    pub(crate) run: for<'a> fn(&'a Stage) -> Running<'a>,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scenario({})", self.name)
    }
}
