//! The MCP configuration of a host, as several of them write it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::plan::{Host, Plan, Reach, Server, Setting, name_of};
use super::secrets::FOLDER;
use crate::exit::{Exit, Failure};

/// The members under which hosts list their servers.
const MEMBERS: [&str; 2] = ["mcpServers", "servers"];

/// Names of variables and headers that hold secrets.
const SECRET_WORDS: [&str; 15] = [
    "TOKEN",
    "KEY",
    "SECRET",
    "PASS",
    "AUTH",
    "CREDENTIAL",
    "COOKIE",
    "BEARER",
    "DSN",
    "WEBHOOK",
    "URL",
    "URI",
    "CONN",
    "CERT",
    "SIGN",
];

/// Packages whose refusals are known.
const KNOWN: [(&str, &str); 5] = [
    ("server-memory", "memory"),
    ("server-filesystem", "filesystem"),
    ("github-mcp-server", "github"),
    ("api.githubcopilot.com/mcp", "github"),
    ("mcp.atlassian.com", "atlassian"),
];

/// Reads a host's configuration.
pub(super) fn plan(text: &str, file: &Path) -> Result<Plan, Failure> {
    let unusable = |what: String| {
        Failure::new(Exit::Failed, format!("{}: {what}", file.display()))
            .not("Nothing was written.")
            .next("Name a host's MCP configuration: JSON with a member mcpServers.")
    };
    // Several hosts take comments and commas at the end.
    let document: Value = jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default())
        .map_err(|error| unusable(format!("this is no JSON, with or without comments: {error}")))?;
    let (member, servers) = MEMBERS
        .iter()
        .find_map(|member| Some((*member, document.get(member)?.as_object()?)))
        .ok_or_else(|| unusable("it has no member mcpServers".to_owned()))?;
    let mut plan = Plan { host: Host::Mcp { member, file: file.display().to_string() }, ..Plan::default() };
    for (name, entry) in servers {
        match server(name, entry, &mut plan.notes) {
            // Two names may be one as a table has it.
            Ok(Some(mut server)) => {
                let wanted = server.name.clone();
                for n in 2.. {
                    if plan.servers.iter().all(|other| other.name != server.name) {
                        break;
                    }
                    server.name = format!("{wanted}_{n}");
                }
                plan.servers.push(server);
            }
            Ok(None) => {}
            Err(why) => plan.notes.push(format!("the server {name:?} was left out: {why}")),
        }
    }
    if plan.servers.is_empty() {
        return Err(unusable("it lists no MCP server that could stand behind the gateway".to_owned()));
    }
    Ok(plan)
}

/// One entry. None for one that is switched off, or is the gateway itself.
fn server(name: &str, entry: &Value, notes: &mut Vec<String>) -> Result<Option<Server>, String> {
    let entry = entry.as_object().ok_or("it is no object")?;
    if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
        return Err("it is switched off there (disabled)".to_owned());
    }
    if name == "onceward" {
        return Ok(None);
    }
    let table = name_of(name);
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let kind = text("type").or_else(|| text("transport"));
    let reach = match (text("command"), text("url").or_else(|| text("serverUrl"))) {
        (Some(command), _) => {
            let words = entry.get("args").and_then(Value::as_array).into_iter().flatten();
            let words: Vec<String> = std::iter::once(command.to_owned())
                .chain(words.map(|word| word.as_str().map_or_else(|| word.to_string(), ToOwned::to_owned)))
                .collect();
            if words.iter().any(|word| word.contains("${")) || text("cwd").is_some_and(|cwd| cwd.contains("${")) {
                notes.push(format!(
                    "the command or folder of {name:?} has a ${{…}} that your host filled in; write its value into [mcp.{table}]"
                ));
            }
            if words.iter().any(|word| looks_secret(word)) {
                notes.push(format!(
                    "the command of {name:?} seems to have a secret in it, which now stands in the configuration; if the server takes \
                     it from a variable, put it into env of [mcp.{table}] as env:NAME"
                ));
            }
            Reach::Command {
                words,
                env: settings(&table, entry.get("env"), notes),
                cwd: text("cwd").map(ToOwned::to_owned),
            }
        }
        (None, Some(_)) if kind == Some("sse") => {
            return Err("it speaks the old SSE transport; use its Streamable HTTP address".to_owned());
        }
        (None, Some(url)) => {
            if url.contains(['?', '@']) || url.contains("${") {
                return Err(format!(
                    "its address has a ?, an @ or a ${{…}} in it ({}); write [mcp.{table}] yourself, with a credential as auth or headers",
                    url.split('?').next().unwrap_or_default()
                ));
            }
            let mut headers = settings(&table, entry.get("headers"), notes);
            let bearer = bearer(&table, entry.get("headers"));
            if bearer.is_some() {
                headers.retain(|header, _| !header.eq_ignore_ascii_case("authorization"));
            }
            Reach::Url { url: url.to_owned(), bearer, headers }
        }
        (None, None) => return Err("it has neither a command nor a url".to_owned()),
    };
    let about = entry.values().map(Value::to_string).collect::<String>();
    let refusals = KNOWN.iter().find(|(package, _)| about.contains(package)).map(|(_, set)| *set);
    let (reads, maybe_reads) = (Vec::new(), Vec::new());
    Ok(Some(Server { name: table, reach, reads, maybe_reads, prefix: String::new(), refusals }))
}

/// `Authorization: Bearer …` is a credential of its own kind.
fn bearer(server: &str, headers: Option<&Value>) -> Option<Setting> {
    let (_, value) = headers?.as_object()?.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    let token = value.as_str()?.strip_prefix("Bearer ")?.trim();
    Some(match variable(token) {
        Some(name) => Setting::Variable(name),
        None => secret(server, "bearer token", token),
    })
}

fn settings(server: &str, written: Option<&Value>, notes: &mut Vec<String>) -> BTreeMap<String, Setting> {
    let empty = Map::new();
    let written = written.and_then(Value::as_object).unwrap_or(&empty);
    written
        .iter()
        .map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let setting = match variable(&value) {
                Some(variable) => Setting::Variable(variable),
                None if is_harmless(name, &value) => Setting::Plain(value),
                None => secret(server, name, &value),
            };
            if let Setting::Plain(text) = &setting
                && text.contains("${")
            {
                notes.push(format!("{name} of {server:?} has a ${{…}} that your host filled in; write its value"));
            }
            (name.clone(), setting)
        })
        .collect()
}

fn secret(server: &str, name: &str, value: &str) -> Setting {
    // A space is in no name of a variable or header, so that a bearer token has a file of its own.
    Setting::Secret { file: format!("{FOLDER}/{server}.{}", name.replace([' ', '/'], "-")), value: value.to_owned() }
}

/// Whether a word of a command looks like a secret, or like what is followed by one.
fn looks_secret(word: &str) -> bool {
    const BEGINNINGS: [&str; 10] =
        ["ghp_", "github_pat_", "sk-", "sk_", "xoxb-", "glpat-", "Bearer ", "AKIA", "Authorization", "://"];
    let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
    let option = option.is_some_and(|option| is_secret(option.split('=').next().unwrap_or(option)));
    option || BEGINNINGS.iter().any(|beginning| word.contains(beginning))
}

/// Whether a value may stand in the configuration: short, of plain characters, under a name that promises nothing. What looks like a
/// reference of ours is a text of the host's, and would be taken for one.
fn is_harmless(name: &str, value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./ ,".contains(c);
    !is_secret(name) && !looks_secret(value) && value.len() <= 80 && value.chars().all(plain)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    // A personal access token is named by a word that PATH begins with.
    let pat = name.split(['_', '-']).any(|word| word == "PAT");
    pat || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The variable that a whole text stands for: `${NAME}`, `${env:NAME}`, `${NAME:-default}`, `${input:name}`. An input of a host's is no
/// variable yet; it becomes one of its name as variables are written.
fn variable(text: &str) -> Option<String> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    let (inside, input) = match inside.strip_prefix("input:") {
        Some(input) => (input, true),
        None => (inside.strip_prefix("env:").unwrap_or(inside), false),
    };
    let name = inside.split(":-").next().unwrap_or(inside);
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || (input && c == b'-');
    if name.is_empty() || !name.bytes().all(fits) {
        return None;
    }
    Some(if input { name.replace('-', "_").to_uppercase() } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> String {
        plan(text, Path::new(".mcp.json")).unwrap().to_toml()
    }

    #[test]
    fn servers_over_a_pipe_and_over_http_become_tables_and_no_secret_is_written() {
        let text = r#"{
          // a comment, as some hosts allow
          "mcpServers": {
            "notes": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"],
                       "env": { "MEMORY_FILE_PATH": "/var/notes.json", "API_KEY": "hunter2", "OTHER": "${NOTES_OTHER}" } },
            "Jira Cloud": { "type": "http", "url": "https://mcp.atlassian.com/v1",
                            "headers": { "Authorization": "Bearer hunter3", "X-Team": "a" } },
            "linear": { "url": "https://mcp.linear.app/mcp", "headers": { "Authorization": "Bearer ${LINEAR_TOKEN}" } },
            "off": { "command": "x", "disabled": true },
            "onceward": { "url": "http://127.0.0.1:7070/mcp" }
          } }"#;
        let written = toml(text);
        for line in [
            "[mcp.notes]",
            r#"command = ["npx", "-y", "@modelcontextprotocol/server-memory"]"#,
            r#"refusals = "memory""#,
            r#"API_KEY = "file:onceward-secrets/notes.API_KEY""#,
            r#"MEMORY_FILE_PATH = "/var/notes.json""#,
            r#"OTHER = "env:NOTES_OTHER""#,
            "[mcp.Jira_Cloud]",
            r#"auth = "file:onceward-secrets/Jira_Cloud.bearer-token""#,
            r#"headers = { X-Team = "a" }"#,
            r#"refusals = "atlassian""#,
            r#"auth = "env:LINEAR_TOKEN""#,
            "reads = []",
        ] {
            assert!(written.contains(line), "{line} is not in\n{written}");
        }
        assert!(
            !written.contains("hunter") && !written.contains("[mcp.off]") && !written.contains("[mcp.onceward]"),
            "{written}"
        );
    }

    #[test]
    fn a_server_that_cannot_stand_behind_the_gateway_is_named_and_left_out() {
        let text =
            r#"{ "servers": { "old": { "type": "sse", "url": "https://a.example/sse" }, "new": { "command": "b" } } }"#;
        let plan = plan(text, Path::new("mcp.json")).unwrap();
        assert_eq!(plan.servers.len(), 1);
        assert!(plan.notes[0].contains("\"old\"") && plan.notes[0].contains("SSE"), "{:?}", plan.notes);
        assert!(plan.next_steps(Path::new("onceward.toml")).contains("\"servers\""));
    }

    #[test]
    fn what_is_no_hosts_configuration_says_so_and_writes_nothing() {
        for text in ["", "[]", r#"{"mcpServers":{}}"#] {
            let failure = super::plan(text, Path::new("x.json")).unwrap_err();
            assert!(failure.to_string().contains("x.json"), "{failure}");
        }
    }
}
