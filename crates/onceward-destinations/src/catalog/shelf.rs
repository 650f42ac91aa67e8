//! The tools as they are now. Whoever asks gets what stands there; whoever learns puts a whole new set in its place.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use onceward_core::key::ToolName;
use tokio::sync::watch;

use crate::tool::{Target, Tool};

/// Tools by name.
pub(super) type Tools = BTreeMap<ToolName, Arc<Tool>>;

/// Where the tools stand.
#[derive(Debug)]
pub(super) struct Shelf {
    tools: RwLock<Arc<Tools>>,
    changes: watch::Sender<u64>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { tools: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl Shelf {
    /// The tools as they are now.
    pub(super) fn now(&self) -> Arc<Tools> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number that grows with every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Puts one more tool in.
    pub(super) fn put(&self, tool: Arc<Tool>) {
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut tools).insert(tool.name().clone(), tool);
    }

    /// Puts the tools of a server in the place of those that it had. A name that is somebody else's stays theirs; such names are
    /// given back, each with its owner.
    pub(super) fn replace(&self, server: &str, offered: Vec<Tool>) -> Vec<(ToolName, String)> {
        let mut clashes = Vec::new();
        {
            let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
            let mut next: Tools = tools
                .iter()
                .filter(|(_, tool)| !is_of(tool, server))
                .map(|(n, t)| (n.clone(), Arc::clone(t)))
                .collect();
            for tool in offered {
                match next.get(tool.name()) {
                    Some(other) => clashes.push((tool.name().clone(), other.destination_name().to_owned())),
                    None => {
                        next.insert(tool.name().clone(), Arc::new(tool));
                    }
                }
            }
            *tools = Arc::new(next);
        }
        self.changes.send_modify(|change| *change += 1);
        clashes
    }
}

fn is_of(tool: &Tool, server: &str) -> bool {
    match &tool.target {
        Target::Mcp(mcp) => mcp.upstream().name() == server,
        Target::Http(_) => false,
    }
}
