//! Which tools of the MCP servers plainly read. The servers are asked what they offer; no tool is called.

use std::collections::BTreeMap;
use std::path::Path;

use onceward_core::key::ToolName;
use onceward_destinations::limits::MCP_CONNECT_WITHIN;
use onceward_destinations::secrets::MachineSecrets;
use onceward_gateway::config::Config;
use serde_json::Value;

use super::plan::Plan;

/// Words that a reading tool begins with.
const READING: [&str; 8] = ["get", "list", "search", "read", "find", "describe", "view", "count"];

/// Words with which a tool does more than reading, wherever they stand in its name.
const WRITING: [&str; 28] = [
    "create",
    "update",
    "delete",
    "remove",
    "add",
    "set",
    "write",
    "send",
    "post",
    "put",
    "insert",
    "upsert",
    "edit",
    "move",
    "rename",
    "mark",
    "close",
    "assign",
    "and",
    "or",
    "then",
    "execute",
    "run",
    "sql",
    "sync",
    "subscribe",
    "unsubscribe",
    "replace",
];

/// Whether the servers were asked.
pub(super) enum Asked {
    /// They were not meant to be.
    No,
    /// These things are to be known of it.
    Yes(Vec<String>),
}

impl Asked {
    pub(super) fn notes(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::No => [].iter(),
            Self::Yes(notes) => notes.iter(),
        }
    }
}

/// Asks every server for its tools, and fills in what follows.
pub(super) async fn ask(plan: &mut Plan, folder: &Path) -> Asked {
    let mut notes = Vec::new();
    let mut ready = Plan::default();
    for server in &plan.servers {
        match server.missing_variables().as_slice() {
            [] => ready.servers.push(server.clone()),
            missing => notes.push(format!(
                "the server {:?} was not asked for its tools, so all count as writing: {} is not set",
                server.name,
                missing.join(", ")
            )),
        }
    }
    if ready.servers.is_empty() {
        return Asked::Yes(notes);
    }
    let config = Config::from_toml(&ready.to_toml(), "onceward.toml", folder, &MachineSecrets);
    let config = match config {
        Ok(config) => config,
        Err(mistakes) => {
            let why: Vec<String> = mistakes.iter().map(|mistake| mistake.problem.clone()).collect();
            notes.push(format!(
                "the servers could not be asked for their tools, so all of them count as writing: {}. Correct that and run init once \
                 more with --force, or see `onceward tools list` and write reads = […] yourself",
                why.join("; ")
            ));
            return Asked::Yes(notes);
        }
    };
    eprintln!("asking {} MCP server(s) for their tools; none of them is called", ready.servers.len());
    // Names that clash are told by prefixes below.
    let _clashes = config.catalog.connect(MCP_CONNECT_WITHIN).await;
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    for upstream in config.catalog.upstreams() {
        let Some(server) = plan.servers.iter_mut().find(|server| server.name == upstream.name()) else { continue };
        let status = upstream.status();
        if status.tools.is_none() {
            let why = status.problem.unwrap_or_else(|| "it did not answer in time".to_owned());
            notes.push(format!(
                "the server {:?} could not be asked for its tools, so all count as writing: {why}",
                server.name
            ));
            continue;
        }
        let tools = upstream.tools();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect();
        if names.iter().any(|name| taken.get(*name).is_some_and(|other| *other != server.name)) {
            server.prefix = format!("{}_", server.name);
            notes.push(format!(
                "the server {0:?} has a tool of the name of another server's, so its tools begin with {0}_ from now on",
                server.name
            ));
        } else {
            taken.extend(names.iter().map(|name| ((*name).to_owned(), server.name.clone())));
        }
        for tool in tools.iter() {
            // A name that is no tool's name here is another text that a server sent: it goes nowhere.
            let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| ToolName::parse(name).is_ok())
            else {
                continue;
            };
            // Both must say so: a name alone may mean more, and a hint is the server's word about itself.
            let hint = tool.pointer("/annotations/readOnlyHint").and_then(Value::as_bool);
            match (plainly_reads(name, &server.name), hint) {
                (true, Some(true)) => server.reads.push(name.to_owned()),
                (true, None) | (false, Some(true)) => server.maybe_reads.push(name.to_owned()),
                (true, Some(false)) | (false, None | Some(false)) => {}
            }
        }
    }
    config.catalog.disconnect();
    Asked::Yes(notes)
}

/// Whether a name says that its tool reads and does nothing else.
fn plainly_reads(name: &str, server: &str) -> bool {
    let words = words(name);
    let server = server.to_lowercase();
    let mut rest = words.iter().map(String::as_str).skip_while(|word| *word == server);
    let reading = rest.next().is_some_and(|first| READING.contains(&first));
    reading && !words.iter().any(|word| WRITING.contains(&word.as_str()))
}

/// The words of a name, whether they are set apart by signs or by capitals.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before_lower) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(last) = words.last_mut()
        {
            last.push(c.to_ascii_lowercase());
        }
        before_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_reads_only_when_its_whole_name_says_so() {
        for name in ["get_issue", "search-issues", "listRepos", "jira_get_issue", "read_graph"] {
            assert!(plainly_reads(name, "jira"), "{name}");
        }
        for name in [
            "create_issue",
            "get_or_create_user",
            "fetch_and_archive",
            "listen",
            "getaway",
            "readWriteFile",
            "query_sql",
            "search_and_replace",
            "issue",
            "",
            "send_list",
            "open_pull_request",
            "query_database",
            "fetch",
            "find_replace",
            "list_unsubscribe",
        ] {
            assert!(!plainly_reads(name, "jira"), "{name}");
        }
    }
}
