//! The MCP configuration of a host, as several of them write it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::plan::{Host, Plan, Reach, Server, Setting, name_of};
use super::secrets::FOLDER;
use crate::exit::{Exit, Failure};

/// The members under which hosts list their servers.
const MEMBERS: [&str; 2] = ["mcpServers", "servers"];

/// Words within the names of variables, headers and options that hold secrets.
const SECRET_WORDS: [&str; 19] = [
    "TOKEN", "KEY", "SECRET", "PASS", "PWD", "AUTH", "CRED", "COOKIE", "SESSION", "BEARER", "JWT", "DSN", "WEBHOOK",
    "URL", "URI", "CONN", "CERT", "SIGN", "PHRASE",
];

/// The same, where they are a whole word: other names have them within.
const SECRET_WHOLE_WORDS: [&str; 4] = ["PAT", "PW", "PIN", "OTP"];

/// Names of variables and headers that hold none, whatever their value.
const HARMLESS_NAMES: [&str; 18] = [
    "ACCEPT",
    "AWS_REGION",
    "CONTENT-TYPE",
    "DEBUG",
    "ENVIRONMENT",
    "HOST",
    "LANG",
    "LC_ALL",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "MODE",
    "NODE_ENV",
    "PORT",
    "PYTHONUNBUFFERED",
    "REGION",
    "RUST_LOG",
    "TZ",
    "USER-AGENT",
];

/// What hosts fill in by themselves: no variables, and nobody fills them in here.
const HOSTS_OWN: [&str; 9] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "userHome",
    "pathSeparator",
    "cwd",
    "file",
    "fileDirname",
    "CLAUDE_PROJECT_DIR",
    "extensionPath",
];

/// Characters of a value that may stand in the configuration.
const HARMLESS_LENGTH_MAX: usize = 80;

/// Characters of one part of a path from which on it may be a credential, when it has letters and digits.
const RANDOM_LENGTH_MIN: usize = 20;

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
        let table = free_name(name, &plan.servers);
        match server(name, table, entry, &mut plan.notes) {
            Ok(Some(server)) => plan.servers.push(server),
            Ok(None) => {}
            Err(why) => plan.notes.push(format!("the server {name:?} was left out: {why}")),
        }
    }
    if plan.servers.is_empty() {
        return Err(unusable("it lists no MCP server that could stand behind the gateway".to_owned()));
    }
    Ok(plan)
}

/// The name of a server as a table has it, and as its secrets' files do. Two names may be one there.
fn free_name(name: &str, servers: &[Server]) -> String {
    let wanted = name_of(name);
    let is_free = |name: &String| servers.iter().all(|other| other.name != *name);
    let numbered = (2..).map(|n| format!("{wanted}_{n}"));
    std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or(wanted)
}

/// One entry, under the name that it has here. None for one that is the gateway itself.
fn server(name: &str, table: String, entry: &Value, notes: &mut Vec<String>) -> Result<Option<Server>, String> {
    let entry = entry.as_object().ok_or("it is no object")?;
    if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
        return Err("it is switched off there (disabled)".to_owned());
    }
    if name == "onceward" {
        return Ok(None);
    }
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let kind = text("type").or_else(|| text("transport"));
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|field| text(field));
    let reach = match (text("command"), url) {
        (Some(command), _) => {
            let words = match entry.get("args") {
                Some(Value::String(line)) => {
                    shlex::split(line).ok_or("its args are a text whose quotation marks do not match")?
                }
                Some(Value::Array(words)) => {
                    words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), ToOwned::to_owned)).collect()
                }
                Some(_) | None => Vec::new(),
            };
            let words: Vec<String> = std::iter::once(command.to_owned()).chain(words).collect();
            if entry.contains_key("envFile") {
                notes.push(format!(
                    "{name:?} reads an envFile, which is not read here: name each of its variables in env of [mcp.{table}], as env:NAME"
                ));
            }
            if words.iter().any(|word| word.contains("${")) || text("cwd").is_some_and(|cwd| cwd.contains("${")) {
                notes.push(format!(
                    "the command or folder of {name:?} has a ${{…}} that your host filled in; write its value into [mcp.{table}], \
                     or, where it is a secret, give it to the server as a variable in env"
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
                env: settings(&table, entry.get("env").and_then(Value::as_object).unwrap_or(&Map::new()), notes),
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
                    url.split('?').next().unwrap_or_default().rsplit('@').next().unwrap_or_default()
                ));
            }
            if url.split('/').skip(3).any(looks_random) {
                notes.push(format!(
                    "the address of {name:?} has a part that may be a credential, and now stands in the configuration; if it is one, \
                     keep that file as you keep your secrets"
                ));
            }
            let mut written = entry.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
            let bearer = bearer(&table, &written);
            if bearer.is_some() {
                written.retain(|header, _| !header.eq_ignore_ascii_case("authorization"));
            }
            let headers = settings(&table, &written, notes);
            Reach::Url { url: url.to_owned(), bearer, headers }
        }
        (None, None) => return Err("it has neither a command nor a url".to_owned()),
    };
    let about = match &reach {
        Reach::Command { words, .. } => words.join(" "),
        Reach::Url { url, .. } => url.clone(),
    };
    let refusals = KNOWN.iter().find(|(package, _)| names(&about, package)).map(|(_, set)| *set);
    let (reads, maybe_reads) = (Vec::new(), Vec::new());
    Ok(Some(Server { name: table, reach, reads, maybe_reads, prefix: String::new(), refusals }))
}

/// Whether a text has this name, and not only one that it is a part of.
fn names(text: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(goes_on) && !after.is_some_and(goes_on)
    })
}

/// `Authorization: Bearer …` is a credential of its own kind.
fn bearer(server: &str, headers: &Map<String, Value>) -> Option<Setting> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    let token = value.as_str()?.strip_prefix("Bearer ")?.trim();
    Some(match variable(token) {
        Some(name) => Setting::Variable(name),
        None => secret(server, "bearer token", token),
    })
}

fn settings(server: &str, written: &Map<String, Value>, notes: &mut Vec<String>) -> BTreeMap<String, Setting> {
    written
        .iter()
        .map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let value = usual(&value).unwrap_or(value);
            let setting = match variable(&value) {
                Some(variable) => Setting::Variable(variable),
                None if is_harmless(name, &without_variables(&value)) => Setting::Plain(value.clone()),
                None => secret(server, name, &value),
            };
            let place = match &setting {
                Setting::Plain(_) => Some(format!("[mcp.{server}]")),
                Setting::Secret { file, .. } => Some(file.clone()),
                Setting::Variable(_) => None,
            };
            if let Some(place) = place.filter(|_| value.contains("${")) {
                notes.push(format!(
                    "{name} of {server:?} has a ${{…}} that your host filled in; write its value into {place}"
                ));
            }
            (name.clone(), setting)
        })
        .collect()
}

/// A secret, in a file of its own whatever its name is.
fn secret(server: &str, name: &str, value: &str) -> Setting {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String =
        name.chars().map(|c| if plain(c) { c.to_string() } else { format!("%{:02X}", u32::from(c)) }).collect();
    Setting::Secret { file: format!("{FOLDER}/{server}.{name}"), value: value.to_owned() }
}

/// Whether a word of a command looks like a secret, or like what is followed by one.
fn looks_secret(word: &str) -> bool {
    const BEGINNINGS: [&str; 10] =
        ["ghp_", "github_pat_", "sk-", "sk_", "xoxb-", "glpat-", "Bearer ", "AKIA", "Authorization", "://"];
    let named = word.split_once('=').map(|(name, _)| name).or_else(|| word.starts_with('-').then_some(word));
    named.is_some_and(is_secret) || BEGINNINGS.iter().any(|beginning| word.contains(beginning))
}

/// Whether a value may stand in the configuration: only what is plainly none of the host's secrets, by its name or by its form. What
/// looks like a reference of ours is a text of the host's, and would be taken for one.
fn is_harmless(name: &str, value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./~ ,".contains(c);
    let is_path = ["/", "./", "../", "~/"].iter().any(|beginning| value.starts_with(beginning));
    let is_number = value.len() <= 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_switch = ["true", "false", "on", "off", "yes", "no"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let is_known = HARMLESS_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    !is_secret(name)
        && !looks_secret(value)
        && value.len() <= HARMLESS_LENGTH_MAX
        && value.chars().all(plain)
        && !value.split('/').any(looks_random)
        && (is_path || is_number || is_switch || is_known)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    let whole = name.split(['_', '-', '.']).any(|word| SECRET_WHOLE_WORDS.contains(&word));
    whole || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether one part of a path or an address is of the kind that nobody chose.
fn looks_random(part: &str) -> bool {
    part.chars().count() >= RANDOM_LENGTH_MIN
        && part.bytes().any(|byte| byte.is_ascii_digit())
        && part.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// What stands for a whole text, `${NAME:-this}`, where the variable is not set here.
fn usual(text: &str) -> Option<String> {
    let (_, usual) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(":-")?;
    let name = variable(text)?;
    std::env::var_os(name).is_none().then(|| usual.to_owned())
}

/// A text without what the host fills in.
fn without_variables(text: &str) -> String {
    let mut rest = text;
    let mut without = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        without.push_str(before);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    without + rest
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
    if HOSTS_OWN.contains(&name) {
        return None;
    }
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
            r#"auth = "file:onceward-secrets/Jira_Cloud.bearer%20token""#,
            r#"headers = { X-Team = "file:onceward-secrets/Jira_Cloud.X-Team" }"#,
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
    fn only_what_is_plainly_no_secret_stands_in_the_configuration() {
        for (name, value) in [
            ("LOG_LEVEL", "debug"),
            ("MEMORY_FILE_PATH", "/var/notes.json"),
            ("DATA", "/notes.json"),
            ("RETRIES", "3"),
            ("VERBOSE", "true"),
        ] {
            assert!(is_harmless(name, value), "{name} = {value}");
        }
        for (name, value) in [
            ("TEAM", "hunter2"),
            ("LOG_LEVEL", "env:HOME"),
            ("DB_PW", "1234"),
            ("USER_PIN", "1234"),
            ("APP_CREDS", "/a"),
            ("SESSION_ID", "7"),
            ("JWT", "/a"),
            ("FOLDER", "/T024F/B024G/a8Xk2mQ9sPz71LwTqV0d"),
            ("ACCOUNT", "12345678"),
        ] {
            assert!(!is_harmless(name, value), "{name} = {value}");
        }
        for word in ["API_KEY=abc", "--api-key", "-p=1", "--token=x", "PGPASSWORD=x", "ghp_abc"] {
            assert_eq!(looks_secret(word), word != "-p=1", "{word}");
        }
    }

    #[test]
    fn two_servers_whose_names_are_one_here_keep_their_secrets_apart() {
        let text = r#"{ "mcpServers": {
            "my server": { "command": "a", "env": { "API_KEY": "one" } },
            "my_server": { "command": "observer-memory", "env": { "API_KEY": "two", "DATA": "${HOME}/x.json", "TEAM": "a${B}" } }
        } }"#;
        let plan = plan(text, Path::new(".mcp.json")).unwrap();
        let mut files: Vec<_> = plan
            .settings()
            .filter_map(|setting| match setting {
                Setting::Secret { file, value } => Some((file.as_str(), value.as_str())),
                Setting::Plain(_) | Setting::Variable(_) => None,
            })
            .collect();
        files.sort_unstable();
        assert_eq!(
            files,
            [
                ("onceward-secrets/my_server.API_KEY", "one"),
                ("onceward-secrets/my_server_2.API_KEY", "two"),
                ("onceward-secrets/my_server_2.TEAM", "a${B}"),
            ]
        );
        assert!(
            plan.notes.iter().any(|note| note.contains("DATA") && note.contains("[mcp.my_server_2]")),
            "{:?}",
            plan.notes
        );
        assert!(plan.notes.iter().any(|note| note.contains("TEAM") && note.contains(".TEAM")), "{:?}", plan.notes);
        assert!(!plan.to_toml().contains("refusals = \"memory\""), "another package has a name that ends alike");
    }

    #[test]
    fn what_a_host_fills_in_is_named_and_nothing_of_it_gets_lost_without_a_word() {
        let text = r#"{ "mcpServers": {
            "a": { "command": "npx", "args": "-y 'a server'", "envFile": "${workspaceFolder}/.env",
                   "env": { "REGION": "${ONCEWARD_NOT_SET:-eu-west-1}", "BASE": "${workspaceFolder}" } },
            "b": { "httpUrl": "https://b.example/mcp", "headers": { "Authorization": "Bearer ${input:b-token}" } },
            "c": { "url": "https://me:hunter2@c.example/mcp" }
        } }"#;
        let plan = plan(text, Path::new("settings.json")).unwrap();
        let written = plan.to_toml();
        for line in [
            r#"command = ["npx", "-y", "a server"]"#,
            r#"REGION = "eu-west-1""#,
            r#"url = "https://b.example/mcp""#,
            r#"auth = "env:B_TOKEN""#,
        ] {
            assert!(written.contains(line), "{line} is not in\n{written}");
        }
        let notes = plan.notes.join("\n");
        assert!(notes.contains("envFile") && notes.contains("BASE") && notes.contains("\"c\""), "{notes}");
        assert!(!notes.contains("hunter2") && !notes.contains("Authorization of"), "{notes}");
        assert_eq!(plan.missing_variables(), ["B_TOKEN"]);
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
