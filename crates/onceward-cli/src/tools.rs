//! `onceward tools`: what the MCP servers of a configuration offer, and rules made from what they answered.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use onceward_core::classify::TOOL_RESULT;
use onceward_core::key::ToolName;
use onceward_destinations::limits::MCP_CONNECT_WITHIN;
use onceward_gateway::config::Config;
use serde_json::{Value, json};

use crate::client::{Connection, Gateway, segment};
use crate::decide::{Choice, confirmed, offer};
use crate::exit::{Exit, Failure};
use crate::operations;

/// The tools of MCP servers: list what they offer, and make rules from what they answered
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Connect to the MCP servers of a configuration, and say of every tool what a lost reply becomes. No tool is called
    List {
        /// The configuration
        #[arg(long, default_value = "onceward.toml", value_name = "PATH")]
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say that the error which a tool answered is a refusal: print the rule for the configuration, and settle the operation as refused
    Learn(Learn),
}

#[derive(Args, Debug)]
struct Learn {
    /// The operation id
    id: String,
    /// The words by which the refusal is known from now on, as they begin the tool's answer; the whole first line unless given
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// Why it is known that nothing was done
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    /// The configuration that the rule is for
    #[arg(long, default_value = "onceward.toml", value_name = "PATH")]
    config: PathBuf,
    /// Write the rule at the end of the configuration, where it has no table for this tool yet
    #[arg(long)]
    write: bool,
    /// Do not ask before deciding
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::List { config, json } => list(&config, json).await,
        Command::Learn(learn) => learn.run().await,
    }
}

async fn list(path: &Path, json: bool) -> Result<Exit, Failure> {
    let catalog = read(path)?.catalog;
    let clashes = catalog.connect(MCP_CONNECT_WITHIN).await.err().unwrap_or_default();
    let (lines, servers) = (catalog.explain(), catalog.server_status());
    catalog.disconnect();
    if json {
        let clashes: Vec<String> = clashes.iter().map(ToString::to_string).collect();
        say!("{:#}", json!({ "tools": lines, "mcp_servers": servers, "clashes": clashes }));
    } else {
        for line in &lines {
            say!("{line}");
        }
        for server in &servers {
            let name = &server.upstream.name;
            if let Some(problem) = &server.upstream.problem {
                eprintln!("the MCP server {name:?} is not connected: {problem}");
            }
            for problem in &server.problems {
                eprintln!("the MCP server {name:?}: {problem}");
            }
        }
    }
    let whole = clashes.is_empty() && servers.iter().all(|server| server.upstream.connected);
    Ok(if whole { Exit::Done } else { Exit::Failed })
}

fn read(path: &Path) -> Result<Config, Failure> {
    Config::read(path).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::new(Exit::Failed, format!("the configuration has mistakes\n{}", lines.join("\n")))
            .not("Nothing was connected.")
    })
}

impl Learn {
    async fn run(self) -> Result<Exit, Failure> {
        let gateway = self.connection.open()?;
        let rule = self.rule(&gateway).await?;
        // The rule is shown before anything is decided: whoever decides should see what it will mean for every later call.
        eprintln!("{}\n", rule.text());
        let after = self.settle(&gateway, &rule).await?;
        let written = match self.write {
            true => rule.write(&self.config)?,
            false => false,
        };
        match self.json {
            true => say!("{:#}", json!({ "rule": rule.text(), "written": written, "operation": after })),
            false => {
                operations::print_shown(&after, false);
                match written {
                    true => {
                        say!("The rule stands at the end of {}; it holds from the next start.", self.config.display())
                    }
                    false => say!("Put the rule above into {}; it holds from the next start.", self.config.display()),
                }
            }
        }
        Ok(Exit::Done)
    }

    /// The rule that this operation's answer makes.
    async fn rule(&self, gateway: &Gateway) -> Result<Rule, Failure> {
        let nothing =
            |what: String| Failure::new(Exit::Refused, what).not("Nothing was decided and nothing was written.");
        let id = segment(&self.id);
        let shown = gateway.get(&format!("/v1/operations/{id}")).await?.succeeded()?;
        let tool = shown["operation"]["tool"].as_str().unwrap_or_default().to_owned();
        let said = said(gateway, &id).await?.ok_or_else(|| {
            nothing("no attempt of this operation was answered with an error whose words are kept".to_owned())
                .next("A refusal that was recognised is stored already; a lost reply said nothing. `onceward decide ID` settles it.")
        })?;
        let words = match &self.text {
            Some(words) if said.to_lowercase().starts_with(&words.to_lowercase()) && !words.trim().is_empty() => {
                words.clone()
            }
            Some(_) => return Err(nothing(format!("the answer does not begin with these words; it is: {said}"))),
            None => said.lines().next().unwrap_or_default().to_owned(),
        };
        let tools = gateway.get("/v1/tools").await?.succeeded()?;
        let known = tools["tools"].as_array().into_iter().flatten().find(|known| known["name"] == tool.as_str());
        let server = known
            .and_then(|known| known["destination"].as_str())
            .ok_or_else(|| nothing(format!("the gateway has no tool {tool:?} now, so that its server is not known")))?;
        let name = ToolName::parse(&tool).context("the gateway names a tool that can be none")?;
        let remote = read(&self.config)?.catalog.name_at_server(server, &name).ok_or_else(|| {
            nothing(format!("{} has no MCP server {server:?} with a tool {tool:?}", self.config.display()))
                .next("Name the gateway's configuration with --config.")
        })?;
        Ok(Rule { server: server.to_owned(), tool: remote, words, said })
    }

    async fn settle(&self, gateway: &Gateway, rule: &Rule) -> Result<Value, Failure> {
        let path = format!("/v1/operations/{}/decisions", segment(&self.id));
        let choices = gateway.get(&path).await?.succeeded()?;
        let offer = offer(&choices, Choice::Refused)?;
        if !self.yes {
            confirmed(offer)?;
        }
        let result = json!({ "content": [{ "type": "text", "text": rule.said }], "isError": true });
        let decision = json!({
            "choice": "refused",
            "reason": "answer_is_refusal",
            "evidence": self.evidence,
            "expected": choices["version"],
            "receipt": { "status": 200, "headers": { "content-type": TOOL_RESULT }, "body": result },
        });
        gateway.post(&path, &decision).await?.succeeded()
    }
}

/// What the tool said that failed, from the last entry of the journal that has it.
async fn said(gateway: &Gateway, id: &str) -> Result<Option<String>, Failure> {
    let (mut after, mut said) = (0, None);
    loop {
        let page = gateway.get(&format!("/v1/operations/{id}/journal?after={after}")).await?.succeeded()?;
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        let Some(last) = entries.last().and_then(|entry| entry["seq"].as_i64()) else { return Ok(said) };
        after = last;
        for entry in &entries {
            said = said_in(entry).or(said);
        }
    }
}

/// The words of a failed tool in one entry, wherever its detail has them.
fn said_in(entry: &Value) -> Option<String> {
    let note = note_of(entry)?;
    let (_, quoted) = note.split_once("; said: ")?;
    serde_json::from_str(quoted).ok()
}

fn note_of(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => match members.get("note").and_then(Value::as_str) {
            Some(note) => Some(note.to_owned()),
            None => members.values().find_map(note_of),
        },
        Value::Array(elements) => elements.iter().find_map(note_of),
        // A detail is JSON inside a text where it is passed on as it was stored.
        Value::String(text) if text.starts_with('{') => note_of(&serde_json::from_str(text).ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A rule for the configuration.
struct Rule {
    server: String,
    tool: String,
    words: String,
    said: String,
}

impl Rule {
    fn header(&self) -> String {
        format!("[mcp.{}.tool.{}]", key(&self.server), key(&self.tool))
    }

    fn text(&self) -> String {
        format!("{}\nrefused_if = {{ text_starts_with = [{}] }}", self.header(), quoted(&self.words))
    }

    /// Writes it at the end of the file; `false` where the tool has a table there already, which a person extends.
    fn write(&self, path: &Path) -> Result<bool, Failure> {
        let unwritten = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
                .not("The rule was not written. The operation is settled as refused.")
        };
        let before = std::fs::read_to_string(path).map_err(unwritten)?;
        let table: toml::Table = toml::from_str(&before).context("the configuration is no TOML")?;
        let taken = |table: &toml::Table| table.get("mcp")?.get(&self.server)?.get("tool")?.get(&self.tool).map(|_| ());
        if taken(&table).is_some() {
            return Ok(false);
        }
        let after = format!("{}\n\n{}\n", before.trim_end(), self.text());
        // What would not be read is not written.
        let readable: Result<toml::Table, _> = toml::from_str(&after);
        readable.context("the rule makes no TOML")?;
        std::fs::write(path, after).map_err(unwritten)?;
        Ok(true)
    }
}

fn key(text: &str) -> String {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if bare { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(words: &str) -> Rule {
        Rule {
            server: "jira".to_owned(),
            tool: "create.issue".to_owned(),
            words: words.to_owned(),
            said: String::new(),
        }
    }

    #[test]
    fn a_rule_is_toml_whatever_the_tool_said() {
        for words in ["Project does not exist", "a \"quoted\" \\ word", "it's", "ends with }"] {
            let table: toml::Table = toml::from_str(&rule(words).text()).unwrap();
            let refused_if = &table["mcp"]["jira"]["tool"]["create.issue"]["refused_if"];
            assert_eq!(refused_if["text_starts_with"][0].as_str(), Some(words));
        }
    }

    #[test]
    fn a_rule_is_written_once_and_never_over_what_a_person_wrote() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "version = 1\n\n[mcp.jira]\nurl = \"http://127.0.0.1:1\"\n").unwrap();
        assert!(rule("no").write(file.path()).unwrap());
        let once = std::fs::read_to_string(file.path()).unwrap();
        assert!(once.starts_with("version = 1\n") && once.contains("refused_if"), "{once}");
        assert!(!rule("other").write(file.path()).unwrap());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), once);
    }

    #[test]
    fn what_a_tool_said_is_found_in_its_entry() {
        let detail = json!({ "observe": { "note": "row 27; said: \"No such \\\"project\\\"\"" } });
        assert_eq!(said_in(&json!({ "seq": 4, "detail": detail })).as_deref(), Some("No such \"project\""));
        assert_eq!(said_in(&json!({ "seq": 4, "detail": detail.to_string() })).as_deref(), Some("No such \"project\""));
        assert_eq!(said_in(&json!({ "seq": 4, "detail": { "note": "row 5" } })), None);
    }
}
