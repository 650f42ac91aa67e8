//! How background work finds a tool's destination: a caller brings it along, a redrive and a lookup have only the tool's name.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::key::ToolName;
use onceward_core::retry::RetryPolicy;

use crate::destination::Destination;

/// The tools of this process, as they are configured now.
pub trait Directory: Send + Sync + 'static {
    /// What is known of a tool; `None` for one that nobody configured here: its operations wait.
    fn known(&self, tool: &ToolName) -> Option<Known>;
}

/// A tool as background work needs it.
#[derive(Clone)]
pub struct Known {
    /// Where it is sent.
    pub destination: Arc<dyn Destination>,
    /// How attempts follow each other.
    pub retry: RetryPolicy,
    /// How long a whole answer may take.
    pub answer_within: Duration,
}
