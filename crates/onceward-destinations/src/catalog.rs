//! All destinations and tools of a configuration, checked as a whole before anything starts.

mod build_auth;
mod build_destination;
mod build_mcp;
mod build_proxy;
mod build_request;
mod build_tool;
mod build_webhook;
mod directory;
mod learn;
mod mcp_server;
mod shelf;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use onceward_core::key::ToolName;

pub use self::learn::{NameClash, ServerStatus};
use self::mcp_server::McpServer;
use self::shelf::Shelf;
use crate::config::{Problems, TextTable, table_of, take};
use crate::error::ConfigError;
use crate::proxy::Proxy;
use crate::secrets::SecretSource;
use crate::tool::{Mode, Tool};
use crate::webhook::Webhook;

/// What a configuration is read with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    /// The folder that relative paths are taken from.
    pub base_dir: &'a Path,
    /// Which credentials may be used.
    pub environment: Environment,
    /// Where secrets are read from.
    pub secrets: &'a dyn SecretSource,
}

/// Which credentials may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// None of a live system, as far as a contract can tell them.
    #[default]
    Dev,
    /// All.
    Production,
}

/// The tools of a configuration.
///
/// All clones are one: what one of them learns of an MCP server, all have.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    shelf: Arc<Shelf>,
    servers: Vec<Arc<McpServer>>,
    proxies: BTreeMap<String, Arc<Proxy>>,
    webhooks: BTreeMap<String, Arc<Webhook>>,
    mode: Mode,
}

impl Catalog {
    /// Reads `[destination.*]` and `[mcp.*]` from the text of a configuration; everything else in it is somebody else's and is
    /// passed over. Files and secrets that it names are read now; nothing is started and nothing is sent. The tools of MCP
    /// servers are there after [`Self::connect`].
    ///
    /// # Errors
    /// Every mistake that was found, in the order of the lines.
    pub fn from_toml(text: &str, surroundings: &Surroundings<'_>) -> Result<Self, Vec<ConfigError>> {
        let (mut problems, mut document) = Problems::parse(surroundings.file, text)?;
        let observe = take(&mut document, "observe").and_then(|written| problems.read(&["observe"], written));
        let mut catalog = Self { mode: Mode::of(observe, Mode::Enforce), ..Self::default() };
        if let Some(destinations) = section(&mut problems, &mut document, &[], "destination") {
            for (name, value) in destinations {
                let name = name.get_ref().to_string();
                let path = ["destination", name.as_str()];
                match table_of(value) {
                    Ok((mut table, _)) => {
                        if let Some(written) = take(&mut table, "webhook")
                            && let Some(webhook) = build_webhook::build(&mut problems, surroundings, &name, written)
                        {
                            catalog.webhooks.insert(name.clone(), Arc::new(webhook));
                        }
                        let offered = build_destination::build(&mut problems, surroundings, &name, table, catalog.mode);
                        for tool in offered.tools {
                            catalog.add(&mut problems, tool);
                        }
                        if let Some(proxy) = offered.proxy {
                            catalog.proxies.insert(name, Arc::new(proxy));
                        }
                    }
                    Err(_) => {
                        problems.add(&path, "a destination is a table", "write [destination.NAME] above its fields")
                    }
                }
            }
        }
        catalog.add_servers(&mut problems, surroundings, &mut document);
        catalog.check_proxies(&mut problems);
        match problems.count() {
            0 => Ok(catalog),
            _ => Err(problems.into_errors()),
        }
    }

    /// Whether the rules bind what says nothing else of itself: an application's own functions, and every tool that is not told apart.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// All tools as they are now, by name.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.shelf.now().values().cloned().collect()
    }

    /// The tool of that name, as it is now. Whoever holds it keeps that definition, also when the catalog learns another.
    #[must_use]
    pub fn tool(&self, name: &ToolName) -> Option<Arc<Tool>> {
        self.shelf.now().get(name).cloned()
    }

    /// The proxies, by the name of their destination.
    pub fn proxies(&self) -> impl Iterator<Item = &Arc<Proxy>> {
        self.proxies.values()
    }

    /// The proxy before the destination of that name.
    #[must_use]
    pub fn proxy(&self, destination: &str) -> Option<&Arc<Proxy>> {
        self.proxies.get(destination)
    }

    /// The proxy whose writes are operations of that tool.
    #[must_use]
    pub fn proxy_of_tool(&self, tool: &ToolName) -> Option<&Arc<Proxy>> {
        self.proxies.values().find(|proxy| proxy.tool() == tool)
    }

    /// The webhook of the destination of that name, if it has one.
    #[must_use]
    pub fn webhook(&self, destination: &str) -> Option<&Arc<Webhook>> {
        self.webhooks.get(destination)
    }

    /// Whether events of this destination may speak of operations of that tool: only of its own.
    #[must_use]
    pub fn speaks_for(&self, destination: &str, tool: &ToolName) -> bool {
        let sends = self.tool(tool).is_some_and(|tool| tool.destination_name() == destination);
        sends || self.proxies.get(destination).is_some_and(|proxy| proxy.tool() == tool)
    }

    /// What two proxies, or a proxy and a tool, cannot share.
    fn check_proxies(&self, problems: &mut Problems<'_>) {
        let mut ports = BTreeMap::new();
        for (name, proxy) in &self.proxies {
            let path = ["destination", name.as_str()];
            if self.tool(proxy.tool()).is_some() {
                let problem = format!("the tool {} has the name under which the proxy's writes are kept", proxy.tool());
                problems.add(&path, problem, "give the tool another name: name = \"…\"");
            }
            // Port 0 is a free one for each.
            let Some(address) = proxy.listen().filter(|address| address.port() != 0) else { continue };
            if let Some(other) = ports.insert(address, name) {
                let problem = format!("{address} is the port of destination {other:?} already");
                problems.add(&[&path[..], &["listen"]].concat(), problem, "give each a port of its own");
            }
        }
    }

    fn add(&mut self, problems: &mut Problems<'_>, built: build_tool::Built) {
        let build_tool::Built { key, tool } = built;
        if let Some(other) = self.tool(&tool.name) {
            problems.add(
                &["destination", tool.destination_name(), "tool", &key],
                format!("the tool {} is already one of destination {:?}", tool.name, other.destination_name()),
                "give one of them another name: name = \"…\"",
            );
            return;
        }
        self.shelf.put(Arc::new(tool));
    }
}

/// The table under `key`, if there is one.
fn section<'t>(
    problems: &mut Problems<'_>,
    table: &mut TextTable<'t>,
    path: &[&str],
    key: &str,
) -> Option<TextTable<'t>> {
    match table_of(take(table, key)?) {
        Ok((section, _)) => Some(section),
        Err(_) => {
            let mut path = path.to_vec();
            path.push(key);
            problems.add(&path, "this is a table", format!("write [{}.NAME] above its fields", path.join(".")));
            None
        }
    }
}
