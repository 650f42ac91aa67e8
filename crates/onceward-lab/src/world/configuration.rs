//! The gateway's configuration for a scenario: the sandbox as two destinations, a helpdesk and a shop, with what they
//! promise and the tools that write to them.

use std::fmt::Write as _;

use super::home::Home;

/// What a destination is said to promise about a repeated key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Nothing. A lost reply waits for a person.
    Nothing,
    /// It recognises its key without end, stores every answer, and commits the key with the effect.
    RecognisesKeys,
    /// Nothing about keys, and that its 503 comes before any work.
    ShedsBeforeWork,
}

/// One setting of every tool, as a line of TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolSetting {
    /// How often one operation is sent, where another attempt is permitted.
    AttemptsMax(u32),
}

/// A configuration of `onceward serve`.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    destination_url: String,
    /// Of the helpdesk.
    promise: Promise,
    settings: Vec<ToolSetting>,
    /// Tables of destinations that stand in place of the helpdesk and the shop.
    tables: Option<String>,
}

/// A tool: its destination, its name, what it is for, its path, and its arguments.
struct ToolText {
    destination: &'static str,
    name: &'static str,
    description: &'static str,
    path: &'static str,
    required: &'static [&'static str],
    properties: &'static str,
}

/// The helpdesk promises what the scenario says; the shop promises nothing, ever.
const TOOLS: [ToolText; 2] = [
    ToolText {
        destination: "helpdesk",
        name: "create_ticket",
        description: "Opens a helpdesk ticket.",
        path: "/tickets",
        required: &["title", "body"],
        properties: r#"{ title = { type = "string", maxLength = 200 }, body = { type = "string" }, customer = { type = "string" } }"#,
    },
    ToolText {
        destination: "shop",
        name: "create_order",
        description: "Places an order.",
        path: "/orders",
        required: &["item", "quantity"],
        properties: r#"{ item = { type = "string" }, quantity = { type = "integer", minimum = 1 }, customer = { type = "string" } }"#,
    },
];

/// The refusals of the sandbox: each comes before anything is done.
const REFUSED: &str = "refused_before_effect = [400, 404, 413, 415]";

impl Configuration {
    /// A gateway before the sandbox at this address.
    #[must_use]
    pub(crate) fn new(destination_url: &str, promise: Promise) -> Self {
        Self { destination_url: destination_url.to_owned(), promise, settings: Vec::new(), tables: None }
    }

    /// A gateway before the destinations that these tables describe.
    #[must_use]
    pub(crate) fn of_tables(tables: String) -> Self {
        Self { tables: Some(tables), ..Self::new("", Promise::Nothing) }
    }

    /// With a setting of every tool.
    #[must_use]
    pub(crate) fn with(mut self, setting: ToolSetting) -> Self {
        self.settings.push(setting);
        self
    }

    /// The text of the file.
    #[must_use]
    pub(crate) fn to_toml(&self, ledger: &Home) -> String {
        let mut text = format!("version = 1\n{}listen = \"127.0.0.1:0\"\n", ledger.to_toml());
        if let Some(tables) = &self.tables {
            text.push_str(tables);
            return text;
        }
        for (destination, promise) in [("helpdesk", self.promise), ("shop", Promise::Nothing)] {
            let _ = write!(text, "\n[destination.{destination}]\nurl = {:?}\n", self.destination_url);
            text.push_str(&promise.to_toml(destination));
            for tool in TOOLS.iter().filter(|tool| tool.destination == destination) {
                text.push_str(&tool.to_toml());
                for setting in &self.settings {
                    text.push_str(&setting.to_toml());
                }
            }
        }
        text
    }
}

impl ToolText {
    fn to_toml(&self) -> String {
        let Self { destination, name, description, path, required, properties } = self;
        format!(
            "\n[destination.{destination}.tool.{name}]\nversion = \"1\"\ndescription = {description:?}\n\
             schema = {{ type = \"object\", required = {required:?}, additionalProperties = false, properties = {properties} }}\n\
             request = {{ method = \"POST\", path = {path:?}, body = \"arguments\" }}\neffect_id = \"/id\"\n"
        )
    }
}

impl ToolSetting {
    fn to_toml(self) -> String {
        match self {
            Self::AttemptsMax(attempts) => format!("retry = {{ attempts_max = {attempts} }}\n"),
        }
    }
}

impl Promise {
    fn to_toml(self, destination: &str) -> String {
        let table = format!("destination.{destination}.contract");
        let open = format!("\n[{table}]\nversion = 1\n");
        let operated = format!("[{table}.provenance]\nconfidence = \"operated\"\n");
        match self {
            Self::Nothing => format!("{open}[{table}.execution]\n{REFUSED}\n{operated}"),
            Self::ShedsBeforeWork => {
                format!("{open}[{table}.execution]\n{REFUSED}\nshed_before_work = true\n{operated}")
            }
            Self::RecognisesKeys => format!(
                "{open}\
                 [{table}.key]\ncarriers = [{{ in = \"header\", name = \"Idempotency-Key\" }}]\nsdk_may_invent_key = false\n\
                 [{table}.same_input]\nbehaviour = \"replays_stored\"\nsaved = {{ 2xx = \"stored\", 500 = \"stored\" }}\n\
                 [{table}.other_input]\nbehaviour = \"rejects\"\nstatuses = [422]\n\
                 [{table}.in_flight]\nbehaviour = \"rejects\"\nstatuses = [409]\n\
                 [{table}.horizon]\nkind = \"indefinite\"\n\
                 [{table}.execution]\n{REFUSED}\neffect_atomic_with_key = true\n\
                 [{table}.replay_marker]\nat = {{ header = \"idempotent-replayed\" }}\nvalues = [\"true\"]\n\
                 {operated}"
            ),
        }
    }
}
