//! The tools of a configuration, for background work that has only their names.

use onceward_core::key::ToolName;
use onceward_ledger::directory::{Directory, Known};

use super::Catalog;
use crate::tool::Effect;

impl Directory for Catalog {
    fn known(&self, tool: &ToolName) -> Option<Known> {
        if let Some(proxy) = self.proxy_of_tool(tool) {
            return Some(Known {
                version: proxy.version().clone(),
                destination: proxy.destination(),
                retry: *proxy.retry(),
                answer_within: proxy.answer_within(),
            });
        }
        let tool = self.tool(tool)?;
        match tool.effect() {
            Effect::Read => None,
            Effect::Write => Some(Known {
                version: tool.version().clone(),
                destination: tool.destination(),
                retry: *tool.retry(),
                answer_within: tool.answer_within(),
            }),
        }
    }
}
