//! What is counted and measured, and where it can be read: [`Ledger::measured`].
//!
//! The registry is our own: the set of metrics is closed ([`table`]), each label has a closed set of values, and so its size is
//! bounded without upkeep. What is durable is counted where its commit is answered ([`counted`]); what is unresolved is asked of
//! the store when somebody reads.

mod counted;
pub mod histogram;
mod measured;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use onceward_core::key::ToolName;
use onceward_core::outcome::Envelope;

pub(crate) use self::counted::Counting;
use self::histogram::{Distribution, Histogram, TIMES_US};
pub use self::measured::{Reading, Sample};
use self::table::Id;
use crate::application::ClaimAnswer;
use crate::error::LedgerError;
use crate::limits::METRIC_TOOLS_MAX;
use crate::lookup::Said;
use crate::store::Unresolved;

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: Mutex<BTreeMap<(Id, Values), u64>>,
    dispatches: Mutex<BTreeMap<Value, Arc<Histogram>>>,
    tools: RwLock<BTreeSet<ToolName>>,
    /// What was last counted of unresolved operations, and when on the clock that runs on.
    unresolved: Mutex<Option<(Duration, Unresolved)>>,
}

/// The values of a metric's labels, in the order of the table.
type Values = [Value; 2];

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// The metric has no such label.
    Nothing,
    /// A word of ours.
    Word(&'static str),
    /// A tool that is known by name.
    Tool(ToolName),
    /// Another name that the configuration has.
    Named(Arc<str>),
}

impl Value {
    fn as_str(&self) -> &str {
        match self {
            Self::Nothing => "",
            Self::Word(word) => word,
            Self::Tool(tool) => tool.as_str(),
            Self::Named(name) => name,
        }
    }
}

/// The value of `tool` for tools that the configuration does not name: callers choose the names of those.
const OTHER: &str = "other";

/// What became of an event that a destination delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Its signature is not the destination's.
    Unauthentic,
    /// It is no JSON.
    Unreadable,
    /// It says nothing about an effect, or both that there is one and that there is none.
    Ignored,
    /// It names no operation that was ever uncertain.
    Unmatched,
    /// An attempt of its operation is running; it is to be delivered again.
    Running,
    /// It names more than one operation.
    Ambiguous,
    /// It says what is known.
    Known,
    /// It may be the effect; a person decides.
    Candidate,
    /// It contradicts what is known.
    Disputed,
    /// It settled its operation.
    Settled,
}

impl Delivered {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unauthentic => "unauthentic",
            Self::Unreadable => "unreadable",
            Self::Ignored => "ignored",
            Self::Unmatched => "unmatched",
            Self::Running => "running",
            Self::Ambiguous => "ambiguous",
            Self::Known => "known",
            Self::Candidate => "candidate",
            Self::Disputed => "disputed",
            Self::Settled => "settled",
        }
    }
}

impl Metrics {
    /// Names tools whose own name may stand in a label. Every other tool is counted as `other`: whoever calls may choose its name.
    pub fn know_tools(&self, names: impl IntoIterator<Item = ToolName>) {
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if tools.len() < METRIC_TOOLS_MAX {
                tools.insert(name);
            }
        }
    }

    /// Counts what a call was answered.
    pub(crate) fn called(&self, tool: &ToolName, answered: &Result<Envelope, LedgerError>) {
        self.answered(tool, answered.as_ref().ok().map(|envelope| envelope.outcome.name()));
    }

    /// Counts what became of an application's wish to claim.
    pub(crate) fn claimed(&self, tool: &ToolName, answered: &Result<ClaimAnswer, LedgerError>) {
        self.answered(
            tool,
            answered.as_ref().ok().map(|answer| match answer {
                ClaimAnswer::Granted(_) => "granted",
                ClaimAnswer::Answered(envelope) => envelope.outcome.name(),
            }),
        );
    }

    fn answered(&self, tool: &ToolName, outcome: Option<&'static str>) {
        self.count(Id::Calls, [self.tool(tool), Value::Word(outcome.unwrap_or("no_answer"))]);
    }

    /// Counts how long a destination took.
    pub(crate) fn dispatched(&self, tool: &ToolName, took: Duration) {
        let mut dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = dispatches.entry(self.tool(tool)).or_insert_with(|| Arc::new(Histogram::new(TIMES_US)));
        histogram.count_time(took);
    }

    /// Counts a question that a destination was asked.
    pub(crate) fn looked_up(&self, tool: &ToolName, said: Said) {
        self.count(Id::Lookups, [self.tool(tool), Value::Word(said.name())]);
    }

    /// Counts an event that a destination of the configuration delivered.
    pub fn delivered(&self, destination: &str, result: Delivered) {
        self.count(Id::Webhooks, [Value::Named(destination.into()), Value::Word(result.name())]);
    }

    fn tool(&self, tool: &ToolName) -> Value {
        match self.tools.read().unwrap_or_else(PoisonError::into_inner).get(tool) {
            Some(known) => Value::Tool(known.clone()),
            None => Value::Word(OTHER),
        }
    }

    fn count(&self, id: Id, values: Values) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counters.entry((id, values)).or_insert(0);
        *counter = counter.saturating_add(1);
    }

    fn counted(&self) -> Vec<((Id, Values), u64)> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(series, count)| (series.clone(), *count)).collect()
    }

    fn dispatch_times(&self) -> Vec<(Value, Distribution)> {
        let dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        dispatches.iter().map(|(tool, histogram)| (tool.clone(), histogram.read())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_the_configuration_does_not_name_is_another_one_and_adds_no_series() {
        let metrics = Metrics::default();
        let tool = |name: &str| ToolName::parse(name).unwrap();
        metrics.know_tools([tool("create_ticket")]);
        for n in 0..1000 {
            metrics.looked_up(&tool(&format!("made_up_{n}")), Said::NoAnswer);
        }
        metrics.looked_up(&tool("create_ticket"), Said::NoAnswer);
        let counted: Vec<_> =
            metrics.counted().into_iter().map(|((_, values), n)| (values[0].as_str().to_owned(), n)).collect();
        assert_eq!(counted, [("other".to_owned(), 1000), ("create_ticket".to_owned(), 1)]);
    }

    #[test]
    fn only_so_many_tools_are_known_by_name() {
        let metrics = Metrics::default();
        metrics.know_tools((0..2 * METRIC_TOOLS_MAX).map(|n| ToolName::parse(&format!("t{n}")).unwrap()));
        assert_eq!(metrics.tools.read().unwrap().len(), METRIC_TOOLS_MAX);
    }
}
