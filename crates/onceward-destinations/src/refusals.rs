//! What well-known MCP servers answer before they have done anything: their error texts, as data under `contracts/mcp`.
//!
//! A tool's error says nothing about when in its work it failed, so that each counts as a lost reply (row 27) unless its text is
//! known to come before any effect. A set is used only for a server that the configuration says it is of: what a server calls
//! itself is its own word.

use std::collections::BTreeMap;

use onceward_core::contract::Predicate;
use serde::Deserialize;

/// The refusals of one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusals {
    /// Whose they are, when the sources were read, and which: for people, and for the test that they are there.
    #[cfg_attr(not(test), expect(dead_code, reason = "people read it in the file"))]
    about: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "people read it in the file"))]
    read: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "people read it in the file"))]
    sources: Vec<String>,
    /// Of all its tools.
    refused_if: Option<Predicate>,
    /// Of single tools.
    #[serde(default)]
    tool: BTreeMap<String, OfTool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTool {
    refused_if: Predicate,
}

/// There is no set of that name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRefusals {
    #[error("nothing is known of the refusals of {0:?}; there are sets for {known}", known = names())]
    Unknown(String),
    #[error("the refusals of {0:?} are broken: {1}")]
    Broken(String, toml::de::Error),
}

const ANY: &str = include_str!("../../../contracts/mcp/any.toml");

const BUILT_IN: [(&str, &str); 4] = [
    ("atlassian", include_str!("../../../contracts/mcp/atlassian.toml")),
    ("filesystem", include_str!("../../../contracts/mcp/filesystem.toml")),
    ("github", include_str!("../../../contracts/mcp/github.toml")),
    ("memory", include_str!("../../../contracts/mcp/memory.toml")),
];

/// The set of that name.
///
/// # Errors
/// There is none.
pub(crate) fn of(name: &str) -> Result<Refusals, NoRefusals> {
    let (_, text) =
        BUILT_IN.iter().find(|(known, _)| *known == name).ok_or_else(|| NoRefusals::Unknown(name.to_owned()))?;
    toml::from_str(text).map_err(|error| NoRefusals::Broken(name.to_owned(), error))
}

fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

/// What any server that is made with an official SDK answers before a tool's own code runs.
pub(crate) fn before_the_tool() -> Option<Predicate> {
    toml::from_str::<Refusals>(ANY).ok()?.refused_if
}

impl Refusals {
    /// What this tool answers without having done anything.
    pub(crate) fn of_tool(&self, tool: &str) -> Option<Predicate> {
        match (&self.refused_if, self.only_of(tool)) {
            (Some(all), Some(own)) => Some(Predicate::AnyOf(vec![own, all.clone()])),
            (Some(all), None) => Some(all.clone()),
            (None, own) => own,
        }
    }

    /// The part of it that no other tool answers.
    pub(crate) fn only_of(&self, tool: &str) -> Option<Predicate> {
        self.tool.get(tool).map(|of_tool| of_tool.refused_if.clone())
    }
}

#[cfg(test)]
mod tests {
    use onceward_core::contract::Seen;

    use super::*;

    fn refused(set: &Refusals, tool: &str, text: &str) -> bool {
        let seen = Seen { status: None, headers: &[], body: None, text };
        set.of_tool(tool).is_some_and(|refusal| refusal.holds(&seen))
    }

    #[test]
    fn every_set_can_be_read_and_says_where_it_is_from() {
        assert!(before_the_tool().is_some());
        for (name, text) in BUILT_IN.iter().chain([&("any", ANY)]) {
            let set: Refusals = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!set.about.is_empty() && !set.sources.is_empty() && set.read.len() == 10, "{name}");
        }
        assert!(of("nobody").unwrap_err().to_string().contains("filesystem"));
    }

    #[test]
    fn a_refusal_of_one_tool_is_none_of_another() {
        let set = of("filesystem").unwrap();
        assert!(refused(&set, "move_file", "Destination already exists: /a"));
        assert!(!refused(&set, "write_file", "Destination already exists: /a"));
        assert!(refused(&set, "write_file", "Access denied - path outside allowed directories: /etc not in /tmp"));
        assert!(!refused(&set, "write_file", "ENOSPC: no space left on device, write"));

        let github = of("github").unwrap();
        let post = |status: &str| {
            format!("failed to create issue: POST https://api.github.com/repos/a/b/issues: {status} X []")
        };
        assert!(refused(&github, "issue_write", &post("422")) && refused(&github, "create_issue", &post("404")));
        assert!(!refused(&github, "issue_write", &post("502")) && !refused(&github, "add_issue_comment", &post("422")));
        let atlassian = of("atlassian").unwrap();
        let text = "Error calling tool 'create_issue': Cannot create issue in read-only mode.";
        assert!(refused(&atlassian, "jira_create_issue", text));
        assert!(!refused(&atlassian, "jira_create_issue", "Error calling tool 'create_issue': 502 Server Error"));
    }

    #[test]
    fn an_error_after_the_tool_has_run_is_no_refusal() {
        let refusal = before_the_tool().unwrap();
        let holds = |text: &str| refusal.holds(&Seen { status: None, headers: &[], body: None, text });
        assert!(holds("MCP error -32602: Input validation error: Invalid arguments for tool echo: [...]"));
        assert!(holds("Input validation error: 'title' is a required property"));
        assert!(!holds("MCP error -32602: Output validation error: Invalid structured content for tool echo"));
        assert!(!holds("created; Input validation error: label"));
    }
}
