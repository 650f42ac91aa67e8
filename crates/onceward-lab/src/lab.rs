//! The scenarios: each runs real callers against a real gateway process and a real sandbox process, and counts both what the
//! destination holds and what the callers were told.
//!
//! A scenario gives findings, and beside it stands what they must be, as data ([`Scenario::expectations`]). Nothing else
//! decides whether it passed.

mod expectation;
mod findings;
mod report;
mod run;
mod scenario;
mod scenarios;
mod stage;

pub use expectation::{Broken, Expectation, Is};
pub use findings::Findings;
pub use report::{LabReport, ScenarioReport, Verdict};
pub use run::{LabOptions, UnknownScenario, names, run};
pub use scenario::Scenario;

pub use crate::world::{InvalidStore, ServerAddress, Store};

pub(crate) use stage::until;
