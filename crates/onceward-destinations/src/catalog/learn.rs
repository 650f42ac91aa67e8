//! Connecting the MCP servers of a catalog, and learning their tools now and whenever they change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use onceward_core::key::ToolName;
use serde_json::Value;
use tokio::sync::watch;

use super::mcp_server::{Learned, McpServer};
use super::shelf::Shelf;
use super::{Catalog, Surroundings, build_mcp, section};
use crate::config::{Problems, TextTable, table_of};
use crate::explain::ToolLine;
use crate::mcp::{McpUpstream, UpstreamStatus};

/// How an MCP server and its tools stand.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ServerStatus {
    /// The connection.
    #[serde(flatten)]
    pub upstream: UpstreamStatus,
    /// What is wrong with what it offers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Two tools of one name. A call of it could mean either, so nothing is started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool {tool} of the MCP server {server:?} has the name of one of {other:?}; write prefix = \"…\" in [mcp.{server}], or give \
     the other one another name"
)]
pub struct NameClash {
    /// The name.
    pub tool: ToolName,
    /// The server that offers it.
    pub server: String,
    /// Whose it is already.
    pub other: String,
}

impl Catalog {
    /// Reads `[mcp.*]`.
    pub(super) fn add_servers(
        &mut self,
        problems: &mut Problems<'_>,
        surroundings: &Surroundings<'_>,
        document: &mut TextTable<'_>,
    ) {
        let Some(servers) = section(problems, document, &[], "mcp") else { return };
        for (name, value) in servers {
            let name = name.get_ref().to_string();
            match table_of(value) {
                Ok((table, _)) => {
                    self.servers
                        .extend(build_mcp::build(problems, surroundings, &name, table, self.mode).map(Arc::new));
                }
                Err(_) => problems.add(&["mcp", &name], "a server is a table", "write [mcp.NAME] above its fields"),
            }
        }
    }

    /// The MCP servers.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<McpUpstream>> {
        self.servers.iter().map(|server| &server.upstream)
    }

    /// How the MCP servers stand.
    #[must_use]
    pub fn server_status(&self) -> Vec<ServerStatus> {
        let status =
            |server: &Arc<McpServer>| ServerStatus { upstream: server.upstream.status(), problems: server.problems() };
        self.servers.iter().map(status).collect()
    }

    /// A number that grows whenever the tools change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shelf.changes()
    }

    /// Connects the MCP servers, on the current runtime, and waits until each has said which tools it has, has failed, or `within`
    /// is over. Whichever is late, or comes back later, is learned in the background, and so is every change.
    ///
    /// # Errors
    /// Two tools have one name. The servers stay connected until the catalog is dropped.
    pub async fn connect(&self, within: Duration) -> Result<(), Vec<NameClash>> {
        let mut clashes = Vec::new();
        // Each is listened to before it is asked, so that no offer comes unheard.
        let mut offers: Vec<_> = self.servers.iter().map(|server| server.upstream.offered()).collect();
        for server in &self.servers {
            server.upstream.connect();
        }
        let settled = async {
            for server in &self.servers {
                server.upstream.settled().await;
            }
        };
        if tokio::time::timeout(within, settled).await.is_err() {
            tracing::warn!("an MCP server is late; its tools are served as soon as they are known");
        }
        for (server, offered) in self.servers.iter().zip(&mut offers) {
            if offered.borrow_and_update().is_some() {
                clashes.extend(learn(&self.shelf, server));
            }
        }
        for (server, offered) in self.servers.iter().zip(offers) {
            let (shelf, of) = (Arc::downgrade(&self.shelf), Arc::downgrade(server));
            server.learn_by(|| tokio::spawn(keep_learning(shelf, of, offered)));
        }
        match clashes.is_empty() {
            true => Ok(()),
            false => Err(clashes),
        }
    }

    /// The server that may have a tool of that name, and whose tools were never learned.
    #[must_use]
    pub fn unasked_server_of(&self, name: &ToolName) -> Option<&str> {
        self.servers.iter().find(|server| server.may_have(name)).map(|server| server.upstream.name())
    }

    /// The same, where the configuration has a policy for a tool of that name. An application's own function may have any name,
    /// and goes on while a server without policies is down.
    #[must_use]
    pub fn unasked_policy_of(&self, name: &ToolName) -> Option<&str> {
        let bound = |server: &&Arc<McpServer>| server.may_have(name) && server.has_policy_for(name);
        self.servers.iter().find(bound).map(|server| server.upstream.name())
    }

    /// The name at its server of a tool that is called so here; none where there is no such server, or the name has not its prefix.
    #[must_use]
    pub fn name_at_server(&self, server: &str, name: &ToolName) -> Option<String> {
        let server = self.servers.iter().find(|known| known.upstream.name() == server)?;
        server.without_prefix(name).map(ToOwned::to_owned)
    }

    /// Ends the connections to the MCP servers, and the children that they may be.
    pub fn disconnect(&self) {
        for server in &self.servers {
            server.upstream.disconnect();
        }
    }

    /// What is known of tools before their servers are asked: those that the configuration names, and all others of each server.
    pub(crate) fn expected(&self) -> Vec<ToolLine> {
        let unasked = self.servers.iter().filter(|server| server.upstream.status().tools.is_none());
        unasked.flat_map(|server| server.expected()).collect()
    }
}

/// Puts what a server offers on the shelf.
fn learn(shelf: &Shelf, server: &McpServer) -> Vec<NameClash> {
    let Learned { tools, mut problems } = server.learn(&server.upstream.tools());
    for tool in &tools {
        for warning in &tool.warnings {
            tracing::warn!(tool = %tool.name(), warning, "look at this tool");
        }
    }
    let name = server.upstream.name();
    let clashes: Vec<NameClash> = shelf
        .replace(name, tools)
        .into_iter()
        .map(|(tool, other)| NameClash { tool, server: name.to_owned(), other })
        .collect();
    problems.extend(clashes.iter().map(ToString::to_string));
    server.set_problems(problems);
    clashes
}

async fn keep_learning(
    shelf: Weak<Shelf>,
    server: Weak<McpServer>,
    mut offered: watch::Receiver<Option<Arc<Vec<Value>>>>,
) {
    while offered.changed().await.is_ok() {
        let (Some(shelf), Some(server)) = (shelf.upgrade(), server.upgrade()) else { return };
        if offered.borrow_and_update().is_some() {
            learn(&shelf, &server);
        }
    }
}
