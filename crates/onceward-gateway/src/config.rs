//! `onceward.toml`: read whole, and every mistake in it named at once with its line and the way out.

mod home;
mod reader;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use onceward_core::contract::Span;
use onceward_core::key::TenantId;
use onceward_destinations::catalog::{Catalog, Environment, Surroundings};
use onceward_destinations::error::ConfigError;
use onceward_destinations::secrets::{MachineSecrets, SecretSource};
use serde::Deserialize;

use self::reader::Reader;
use crate::home::Home;
use crate::limits::{self, Limits};
use crate::mcp::Elicitation;
use crate::metrics::Access;
use crate::notify::{Notify, NotifyText};

/// The version of the configuration's form that this program reads.
pub const VERSION: i64 = 1;

/// Where the gateway listens unless the configuration says otherwise.
pub const LISTEN: &str = "127.0.0.1:7070";

/// The largest configuration file, in bytes: a person wrote it.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Where the ledger lies.
    pub ledger: Home,
    /// Where the API and the MCP front listen.
    pub listen: SocketAddr,
    /// Which credentials of destinations may be used.
    pub environment: Environment,
    /// For whom tokens are made at the first start of an empty ledger; none are made without it.
    pub tenant: Option<TenantId>,
    /// Limits of the surfaces.
    pub limits: Limits,
    /// Names under which the MCP front answers beside those of this machine.
    pub hosts: Vec<String>,
    /// Origins that browsers may call the MCP front from beside those of this machine.
    pub origins: Vec<String>,
    /// The tools.
    pub catalog: Catalog,
    /// Who may read the metrics.
    pub metrics: Access,
    /// Where people are told that they are needed, if anywhere.
    pub notify: Option<Notify>,
    /// Whether the person at an MCP host may be asked whether a second one is meant.
    pub elicitation: Elicitation,
}

/// `[gateway]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayText {
    body_bytes_max: Option<usize>,
    requests_max: Option<usize>,
    wait_default: Option<Span>,
    wait_max: Option<Span>,
    drain: Option<Span>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    metrics: Access,
    #[serde(default)]
    elicitation: bool,
}

impl Config {
    /// Reads a file, with the environment and the files of this machine for secrets. Nothing is opened and nothing is sent.
    ///
    /// # Errors
    /// Every mistake that was found.
    pub fn read(path: &Path) -> Result<Self, Vec<ConfigError>> {
        let file = path.display().to_string();
        let text = match read_text(path) {
            Ok(text) => text,
            Err(problem) => {
                let way_out = "name a file that can be read, or start without one for the quickstart";
                return Err(vec![at_top(&file, problem, way_out)]);
            }
        };
        let base_dir = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::from_toml(&text, &file, base_dir, &MachineSecrets)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Every mistake that was found, in the order of the lines.
    pub fn from_toml(
        text: &str,
        file: &str,
        base_dir: &Path,
        secrets: &dyn SecretSource,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut reader = Reader::parse(file, text)?;
        version(&mut reader);
        let environment = reader.take::<Environment>("environment").unwrap_or_default();
        let ledger = home::read(&mut reader, base_dir, secrets);
        let single = reader.take::<bool>("single_instance").unwrap_or(false);
        // On a database every gateway knows of the others' calls.
        let single = single || matches!(ledger, Home::Database(_));
        let listen = listen(&mut reader, single);
        let tenant = reader.take::<TenantId>("tenant");
        let gateway: GatewayText = reader.take("gateway").unwrap_or_default();
        let limits = limits(&mut reader, &gateway);
        let notify = notify(&mut reader, base_dir, secrets);
        reader.pass_over("observe");
        reader.pass_over("destination");
        reader.pass_over("mcp");
        reader.refuse_the_rest(&[
            "version",
            "ledger",
            "ledger_secret",
            "ledger_ca",
            "ledger_mark",
            "accept_lossy_failover",
            "listen",
            "environment",
            "single_instance",
            "tenant",
            "gateway",
            "notify",
            "observe",
            "destination",
            "mcp",
        ]);
        let catalog = Catalog::from_toml(text, &Surroundings { file, base_dir, environment, secrets });
        if let Ok(catalog) = &catalog {
            check_proxies(&mut reader, catalog, single);
        }
        let mut errors = reader.into_errors();
        match catalog {
            Ok(catalog) if errors.is_empty() => {
                let GatewayText { hosts, origins, metrics, elicitation, .. } = gateway;
                let elicitation = if elicitation { Elicitation::On } else { Elicitation::Off };
                Ok(Self {
                    ledger,
                    listen,
                    environment,
                    tenant,
                    limits,
                    hosts,
                    origins,
                    catalog,
                    metrics,
                    notify,
                    elicitation,
                })
            }
            Ok(_) => Err(errors),
            Err(more) => {
                errors.extend(more);
                errors.sort_by_key(|error| (error.line, error.column));
                Err(errors)
            }
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("the file cannot be read: {error}"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("the file has {size} bytes, more than the {FILE_BYTES_MAX} that a configuration may have"));
    }
    std::fs::read_to_string(path).map_err(|error| format!("the file cannot be read: {error}"))
}

fn at_top(file: &str, problem: String, way_out: &str) -> ConfigError {
    ConfigError { file: file.to_owned(), line: 1, column: 1, key: String::new(), problem, way_out: way_out.to_owned() }
}

fn version(reader: &mut Reader<'_>) {
    match reader.take_required::<i64>("version", "write version = 1 at the top") {
        Some(VERSION) | None => {}
        Some(other) => reader.add(
            "version",
            format!("version {other} is not known; this program reads version {VERSION}"),
            "write version = 1, or use the program that the file was written for",
        ),
    }
}

fn listen(reader: &mut Reader<'_>, single: bool) -> SocketAddr {
    let default = SocketAddr::from(([127, 0, 0, 1], 7070));
    let listen = reader.take::<SocketAddr>("listen").unwrap_or(default);
    if !listen.ip().is_loopback() && !single {
        // Two gateways on two files know nothing of each other: a call that reaches both is sent twice.
        reader.add(
            "listen",
            format!(
                "{listen} can be reached from other machines, and a SQLite ledger protects only what goes through it"
            ),
            "write single_instance = true if every caller reaches this one gateway, or listen on 127.0.0.1",
        );
    }
    listen
}

fn notify(reader: &mut Reader<'_>, base_dir: &Path, secrets: &dyn SecretSource) -> Option<Notify> {
    match reader.take::<NotifyText>("notify")?.read(base_dir, secrets) {
        Ok(notify) => Some(notify),
        Err(invalid) => {
            reader.add("notify", invalid.to_string(), "write url = \"https://…\" and secret = \"env:NAME\"");
            None
        }
    }
}

/// The ports of proxies are held to the same rule as the gateway's own.
fn check_proxies(reader: &mut Reader<'_>, catalog: &Catalog, single: bool) {
    for proxy in catalog.proxies() {
        if let Some(listen) = proxy.listen().filter(|listen| !listen.ip().is_loopback() && !single) {
            reader.add(
                "destination.listen",
                format!("{listen} of destination {} can be reached from other machines", proxy.name()),
                "write single_instance = true if every caller reaches this one gateway, or listen on 127.0.0.1",
            );
        }
    }
}

fn limits(reader: &mut Reader<'_>, text: &GatewayText) -> Limits {
    let mut limits = Limits::default();
    let span = |span: Option<Span>, default: Duration| span.map_or(default, |span| span.duration());
    limits.wait_max = span(text.wait_max, limits.wait_max);
    limits.wait_default = span(text.wait_default, limits.wait_default.min(limits.wait_max));
    limits.drain = span(text.drain, limits.drain);
    limits.body_bytes_max = text.body_bytes_max.unwrap_or(limits.body_bytes_max);
    limits.requests_max = text.requests_max.unwrap_or(limits.requests_max);
    let mut bound = |holds: bool, key: &str, problem: String, way_out: &str| {
        if !holds {
            reader.add(&format!("gateway.{key}"), problem, way_out);
        }
    };
    bound(
        (1..=limits::BODY_BYTES_MAX).contains(&limits.body_bytes_max),
        "body_bytes_max",
        format!("a body has 1 to {} bytes at the most", limits::BODY_BYTES_MAX),
        "choose a number of that range; a file is passed by reference",
    );
    bound(
        (1..=16 * limits::REQUESTS_MAX).contains(&limits.requests_max),
        "requests_max",
        format!("from 1 to {} requests may be under way", 16 * limits::REQUESTS_MAX),
        "choose a number of that range",
    );
    bound(
        limits.wait_max <= limits::WAIT_MAX,
        "wait_max",
        format!("a call waits at most {} s for its result", limits::WAIT_MAX.as_secs()),
        "choose a shorter time; a caller that is told in_progress asks again",
    );
    bound(
        limits.wait_default <= limits.wait_max,
        "wait_default",
        "it is longer than wait_max".to_owned(),
        "choose a shorter time",
    );
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "version = 1\nledger = \"sqlite:a.db\"\n";

    fn read(text: &str) -> Result<Config, Vec<String>> {
        Config::from_toml(text, "onceward.toml", Path::new("/etc/onceward"), &MachineSecrets)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_least_configuration_has_a_ledger_and_listens_on_loopback() {
        let config = read(MINIMAL).unwrap();
        assert_eq!(config.ledger.to_string(), "/etc/onceward/a.db");
        assert_eq!(config.listen.to_string(), LISTEN);
        assert_eq!(config.limits, Limits::default());
    }

    #[test]
    fn every_mistake_is_named_at_once_with_its_line_and_the_way_out() {
        let text = "version = 2\nledger = \"mysql://x\"\nlisten = \"0.0.0.0:80\"\nretires = 3\n\n\
                    [gateway]\nwait_max = \"2h\"\nbody_bytes_max = 0\n\n[destination.x]\nurl = 3\n";
        let errors = read(text).unwrap_err();
        let found = |line: usize, words: &str| {
            let place = format!("onceward.toml:{line}:");
            assert!(
                errors.iter().any(|error| error.starts_with(&place) && error.contains(words)),
                "{place} {words} is not in {errors:#?}"
            );
        };
        found(1, "write version = 1");
        found(2, "sqlite:onceward.db");
        found(3, "single_instance = true");
        found(4, "retires");
        found(7, "60 s");
        found(8, "body_bytes_max");
        found(11, "url");
    }

    #[test]
    fn a_missing_version_or_ledger_says_what_to_write() {
        let errors = read("").unwrap_err();
        assert!(errors.iter().any(|error| error.contains("version = 1")), "{errors:?}");
        assert!(errors.iter().any(|error| error.contains("sqlite:onceward.db")), "{errors:?}");
    }

    #[test]
    fn beyond_loopback_the_one_gateway_must_be_said() {
        let text = format!("{MINIMAL}listen = \"0.0.0.0:7070\"\n");
        assert!(read(&text).is_err());
        assert!(read(&format!("{text}single_instance = true\n")).is_ok());
    }

    #[test]
    fn notices_need_an_address_and_a_secret_that_is_named_and_not_written() {
        let with = |lines: &str| read(&format!("{MINIMAL}[notify]\n{lines}\n"));
        let mistake = |lines: &str, words: &str| {
            let errors = with(lines).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(words)), "{words}: {errors:?}");
            assert!(!errors.iter().any(|error| error.contains("hunter2")), "{errors:?}");
        };
        mistake("url = \"http://chat.example.com/hunter2\"\nsecret = \"env:X\"", "https");
        mistake("url = \"https://chat.example.com/\"\nsecret = \"hunter2\"", "env:NAME");
        mistake("url = \"https://chat.example.com/\"\nsecret = \"env:ONCEWARD_NO_SUCH\"", "ONCEWARD_NO_SUCH");
        mistake("url = \"https://chat.example.com/\"\nsecret = \"env:X\"\nevents = [\"all\"]", "all");
        mistake("url = \"https://chat.example.com/\"\nsecret = \"env:PATH\"", "openssl rand");
        assert!(read(MINIMAL).unwrap().notify.is_none());
    }

    #[test]
    fn a_proxys_port_beyond_loopback_needs_the_same_word() {
        let text = format!(
            "{MINIMAL}[destination.pay]\nurl = \"http://127.0.0.1:1\"\ncontract = \"none\"\nlisten = \"0.0.0.0:7071\"\n"
        );
        let errors = read(&text).unwrap_err();
        assert!(errors[0].starts_with("onceward.toml:6:") && errors[0].contains("single_instance"), "{errors:?}");
        assert!(read(&format!("single_instance = true\n{text}")).is_ok());
    }

    #[test]
    fn what_is_no_toml_is_named_by_line() {
        let errors = read("version = 1\nledger = \n").unwrap_err();
        assert!(errors[0].starts_with("onceward.toml:2:"), "{errors:?}");
    }
}
