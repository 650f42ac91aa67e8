//! How background work finds a tool's destination: a caller brings it along, a redrive and a lookup have only the tool's name.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::key::{ToolName, ToolVersion};
use onceward_core::operation::Operation;
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
    /// The version of its definition, as operations are bound to it.
    pub version: ToolVersion,
    /// Where it is sent.
    pub destination: Arc<dyn Destination>,
    /// How attempts follow each other.
    pub retry: RetryPolicy,
    /// How long a whole answer may take.
    pub answer_within: Duration,
}

impl Known {
    /// Whether a person's approval, where there is one, covers what would be sent now: an approval is for the same definition of
    /// the tool, the same contract, the same account and the same request (R18). What is sent is the stored arguments, so the
    /// request is made of them.
    pub(crate) fn is_as_approved(&self, operation: &Operation) -> bool {
        let Some(pin) = operation.history.approved_by.as_ref().and(operation.terms.pin.as_ref()) else { return true };
        let stored = operation.binding.arguments.present();
        operation.binding.tool_version == self.version
            && pin.scope == self.destination.scope()
            && pin.contract == self.destination.contract_hash()
            && pin.request == stored.and_then(|arguments| self.destination.request_digest(arguments))
    }
}
