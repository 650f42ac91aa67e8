//! What will be written: destinations and MCP servers as they become tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

/// A configuration in the making.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) servers: Vec<Server>,
    pub(super) apis: Vec<Api>,
    pub(super) observe: bool,
    /// What a person should know.
    pub(super) notes: Vec<String>,
    /// What the host's own configuration becomes.
    pub(super) host: Host,
}

/// Who will call.
#[derive(Debug, Default)]
pub(super) enum Host {
    /// An MCP host; the member of its configuration that lists servers, and in which file.
    Mcp { member: &'static str, file: String },
    /// Whatever speaks HTTP.
    #[default]
    Http,
}

/// An MCP server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) reach: Reach,
    /// Names of tools that plainly read.
    pub(super) reads: Vec<String>,
    /// Tools that may read: by their name, or by what they say of themselves.
    pub(super) maybe_reads: Vec<String>,
    /// Put before each name, where another server has a tool of that name.
    pub(super) prefix: String,
    /// The built-in set of its refusals.
    pub(super) refusals: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Reach {
    Command { words: Vec<String>, env: BTreeMap<String, Setting>, cwd: Option<String> },
    Url { url: String, bearer: Option<Setting>, headers: BTreeMap<String, Setting> },
}

/// A value as the host had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Plain(String),
    /// A variable of the environment.
    Variable(String),
    /// A secret that goes into a file of this name.
    Secret {
        file: String,
        value: String,
    },
}

impl Setting {
    fn text(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Variable(name) => format!("env:{name}"),
            Self::Secret { file, .. } => format!("file:{file}"),
        }
    }
}

/// An HTTP API.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) contract: &'static str,
    pub(super) auth: Option<Table>,
    /// The variable that the credential is read from.
    pub(super) variable: Option<String>,
    pub(super) tools: Vec<(String, Table)>,
}

impl Plan {
    /// Every value that a server is given.
    pub(super) fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.servers.iter().flat_map(Server::settings)
    }

    /// Variables that are named and not set here.
    pub(super) fn missing_variables(&self) -> Vec<String> {
        let of_apis = self.apis.iter().filter_map(|api| api.variable.clone());
        let mut names: Vec<String> = self
            .servers
            .iter()
            .flat_map(Server::missing_variables)
            .chain(of_apis.filter(|name| std::env::var_os(name).is_none()))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The file.
    pub(super) fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Written by `onceward init`. docs/configuration.md has every field; `onceward check` says what a lost reply becomes.\n\
             version = 1\nledger = \"sqlite:onceward.db\"\ntenant = \"main\"\n",
        );
        if self.observe {
            text.push_str("observe = true                  # records and forwards, blocks nothing; take the line out to enforce\n");
        }
        for server in &self.servers {
            server.write(&mut text);
        }
        for api in &self.apis {
            api.write(&mut text);
        }
        if self.servers.is_empty() && self.apis.is_empty() {
            text.push_str("\n# No tools here: an application's own functions need none (docs/http.md, claims).\n");
        }
        text
    }

    /// What is left to do, in the order of doing.
    pub(super) fn next_steps(&self, output: &Path) -> String {
        let output = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
        let program = program();
        let serve = format!("{program} serve --config {}", output.display());
        match &self.host {
            Host::Mcp { member, file } if file.ends_with("claude_desktop_config.json") => {
                let output = output.display();
                format!(
                    "1. This host starts its servers itself. Make a token for it:\n     \
                     {program} token create --config {output} --tenant main --principal claude --role agent\n\
                     2. In {file}, put this in the place of the servers:\n     \
                     {{ \"{member}\": {{ \"onceward\": {{ \"command\": \"{program}\", \
                     \"args\": [\"serve\", \"--stdio\", \"--config\", \"{output}\"],\n         \
                     \"env\": {{ \"ONCEWARD_TOKEN\": \"ow_agent_…\" }} }} }} }}\n\
                     3. Start the host again. It is the only one that may use this ledger; several hosts share a gateway over HTTP."
                )
            }
            Host::Mcp { member, file } => {
                let entry = format!(
                    "{{ \"{member}\": {{ \"onceward\": {{ \"type\": \"http\", \"url\": \"http://127.0.0.1:7070/mcp\",\n         \
                     \"headers\": {{ \"Authorization\": \"Bearer ow_agent_…\" }} }} }} }}"
                );
                format!(
                    "1. Start the gateway; its first start prints an agent's token, once:\n     {serve}\n\
                     2. In {file}, put this in the place of the servers:\n     {entry}\n\
                     3. Start the host again. Its tools have the names that they had, but for what a note above says."
                )
            }
            Host::Http => format!(
                "1. Start the gateway; its first start prints an agent's token, once:\n     {serve}\n\
                 2. Call tools with POST http://127.0.0.1:7070/v1/tools/NAME/calls, the token as a bearer, and an Idempotency-Key that\n   \
                 you chose before the call; or from Python and TypeScript with the client `onceward`."
            ),
        }
    }
}

impl Server {
    fn settings(&self) -> Box<dyn Iterator<Item = &Setting> + '_> {
        match &self.reach {
            Reach::Command { env, .. } => Box::new(env.values()),
            Reach::Url { bearer, headers, .. } => Box::new(bearer.iter().chain(headers.values())),
        }
    }

    /// Variables that it names and that are not set here.
    pub(super) fn missing_variables(&self) -> Vec<String> {
        let named = self.settings().filter_map(|setting| match setting {
            Setting::Variable(name) => Some(name.clone()),
            Setting::Plain(_) | Setting::Secret { .. } => None,
        });
        named.filter(|name| std::env::var_os(name).is_none()).collect()
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n[mcp.{}]", key(&self.name));
        match &self.reach {
            Reach::Command { words, env, cwd } => {
                let _ = writeln!(text, "command = {}", list(words));
                if !env.is_empty() {
                    let _ = writeln!(text, "env = {}", settings(env));
                }
                if let Some(cwd) = cwd {
                    let _ = writeln!(text, "cwd = {}", Value::from(cwd.as_str()));
                }
            }
            Reach::Url { url, bearer, headers } => {
                let _ = writeln!(text, "url = {}", Value::from(url.as_str()));
                if let Some(bearer) = bearer {
                    let _ = writeln!(text, "auth = {}", Value::from(bearer.text()));
                }
                if !headers.is_empty() {
                    let _ = writeln!(text, "headers = {}", settings(headers));
                }
            }
        }
        if !self.prefix.is_empty() {
            let _ = writeln!(
                text,
                "prefix = {}                 # another server has a tool of one name",
                Value::from(self.prefix.as_str())
            );
        }
        let _ = writeln!(text, "reads = {}                      # everything else is a write", list(&self.reads));
        if !self.maybe_reads.is_empty() {
            let _ = writeln!(
                text,
                "# These may only read; add those of which you know it: {}",
                self.maybe_reads.join(", ")
            );
        }
        if let Some(refusals) = self.refusals {
            let _ = writeln!(text, "refusals = {}", Value::from(refusals));
        }
    }
}

impl Api {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n[destination.{}]", key(&self.name));
        let _ = writeln!(text, "url = {}", Value::from(self.url.as_str()));
        let _ = writeln!(text, "contract = {}", Value::from(self.contract));
        if let Some(auth) = &self.auth {
            let _ = writeln!(text, "auth = {}", Value::Table(auth.clone()));
        }
        for (name, table) in &self.tools {
            let _ = writeln!(text, "\n[destination.{}.tool.{}]", key(&self.name), key(name));
            for (field, value) in table {
                let _ = writeln!(text, "{} = {value}", key(field));
            }
        }
    }
}

fn list(words: &[String]) -> Value {
    Value::Array(words.iter().map(|word| Value::from(word.as_str())).collect())
}

fn settings(settings: &BTreeMap<String, Setting>) -> Value {
    Value::Table(settings.iter().map(|(name, setting)| (name.clone(), Value::from(setting.text()))).collect())
}

/// A key, in quotation marks where it is not bare.
fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if bare { name.to_owned() } else { Value::from(name).to_string() }
}

/// How this program is started again: by its name where a shell finds it, else by where it is.
fn program() -> String {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("onceward").is_file()));
    match std::env::current_exe() {
        Ok(path) if !found => path.display().to_string(),
        Ok(_) | Err(_) => "onceward".to_owned(),
    }
}

/// A name that tables and tools may have, from any text.
pub(super) fn name_of(text: &str) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect();
    let clean = clean.trim_matches('_').chars().take(64).collect::<String>();
    if clean.is_empty() { "api".to_owned() } else { clean }
}
