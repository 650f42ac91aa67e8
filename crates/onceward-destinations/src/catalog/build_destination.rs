//! One `[destination.NAME]`: its address, contract, credential and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use onceward_core::contract::{Contract, ContractError, Span, built_in};
use onceward_core::limits::NAME_BYTES_MAX;
use onceward_ledger::clock::SystemClock;
use reqwest::Url;
use tokio::sync::Semaphore;
use toml::Spanned;
use toml::de::DeValue;

use super::{Surroundings, build_auth, build_proxy, build_tool, section};
use crate::auth::Auth;
use crate::client::{ClientSettings, client};
use crate::config::{DestinationText, Problems, ProxyText, TextTable, table_of, take};
use crate::http::Host;
use crate::limits::{
    ANSWER_WITHIN, ANSWER_WITHIN_MAX, CONNECT_TIMEOUT, CONNECT_TIMEOUT_MAX, FILE_BYTES_MAX, MAX_IN_FLIGHT,
    MAX_IN_FLIGHT_MAX,
};
use crate::proxy::Proxy;
use crate::secrets::Secret;
use crate::tool::Mode;

/// What the tools of one destination are built with.
pub(super) struct Shared {
    pub(super) host: Arc<Host>,
    pub(super) contract: Contract,
    pub(super) answer_within: Duration,
    pub(super) warnings: Vec<String>,
    pub(super) mode: Mode,
}

/// What one destination offers.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) tools: Vec<build_tool::Built>,
    pub(super) proxy: Option<Proxy>,
}

/// Builds a destination's tools and its proxy. Each mistake is recorded, and what does not depend on it is checked all the same.
pub(super) fn build(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    name: &str,
    mut table: TextTable<'_>,
    around: Mode,
) -> Offered {
    let path = ["destination", name];
    let tools = section(problems, &mut table, &path, "tool");
    let contract_text = take(&mut table, "contract");
    let auth_text = take(&mut table, "auth");
    let proxy_path = [&path[..], &["proxy"]].concat();
    let proxy_text = take(&mut table, "proxy");
    let proxy_text: Option<Option<ProxyText>> = proxy_text.map(|text| problems.read(&proxy_path, text));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        problems.add(&path, "the name is not usable", "use letters, digits, '-' and '_'");
    }
    let contract = contract(problems, surroundings, name, contract_text);
    let auth = auth_text.and_then(|text| build_auth::auth(problems, surroundings, &path, text));
    let text: Option<DestinationText> = problems.read(&path, Spanned::new(0..0, DeValue::Table(table)));
    let listen = text.as_ref().and_then(|text| text.listen);
    let shared = match (contract, text) {
        (Some(contract), Some(text)) => {
            build_auth::check_live(problems, surroundings, &path, &contract, auth.as_ref());
            shared(problems, name, text, contract, auth, around)
        }
        (Some(_) | None, Some(_) | None) => None,
    };
    let tools = build_tool::build_all(problems, surroundings, name, shared.as_ref(), tools);
    let proxy_text = match (proxy_text, listen) {
        (Some(text), _) => text,
        // A port of its own is for nothing else.
        (None, Some(_)) => Some(ProxyText::default()),
        (None, None) => None,
    };
    let proxy = proxy_text
        .filter(|text| text.enabled != Some(false))
        .and_then(|text| build_proxy::build(problems, name, shared.as_ref(), listen, text));
    Offered { tools, proxy }
}

fn shared(
    problems: &mut Problems<'_>,
    name: &str,
    text: DestinationText,
    contract: Contract,
    auth: Option<(Auth, Secret)>,
    around: Mode,
) -> Option<Shared> {
    let path = ["destination", name];
    let base = base_url(problems, &path, &text.url);
    let connect_timeout = patience(
        problems,
        &[&path[..], &["connect_timeout"]].concat(),
        text.connect_timeout,
        CONNECT_TIMEOUT,
        CONNECT_TIMEOUT_MAX,
    );
    let answer_within =
        patience(problems, &[&path[..], &["timeout"]].concat(), text.timeout, ANSWER_WITHIN, ANSWER_WITHIN_MAX);
    let in_flight = text.max_in_flight.unwrap_or(MAX_IN_FLIGHT);
    if !(1..=MAX_IN_FLIGHT_MAX).contains(&in_flight) {
        let way_out = format!("write a number from 1 to {MAX_IN_FLIGHT_MAX}");
        problems.add(&[&path[..], &["max_in_flight"]].concat(), "that many cannot be in flight", way_out);
    }
    let base = base?;
    let address = base.as_str().trim_end_matches('/');
    let scope = scope(problems, &path, address, (text.account.as_deref(), &text.scope), &contract);
    let idle_connections = in_flight.clamp(1, MAX_IN_FLIGHT_MAX) as usize;
    let client = match client(ClientSettings { connect_timeout, idle_connections, clock: Arc::new(SystemClock) }) {
        Ok(client) => client,
        Err(error) => {
            problems.add(&path, error.to_string(), "");
            return None;
        }
    };
    let mut warnings = Vec::new();
    if auth.is_some() && base.scheme() == "http" && !is_loopback(&base) {
        warnings.push("the credential travels over plain HTTP, where others can read it; use https".to_owned());
    }
    let host = Arc::new(Host {
        name: name.to_owned(),
        base,
        auth: auth.map(|(auth, _)| auth),
        client,
        connect_timeout,
        in_flight: Semaphore::new(idle_connections),
        scope,
    });
    Some(Shared { host, contract, answer_within, warnings, mode: Mode::of(text.observe, around) })
}

pub(super) fn base_url(problems: &mut Problems<'_>, path: &[&str], text: &str) -> Option<Url> {
    let path = [path, &["url"]].concat();
    let way_out = "write something like \"https://api.example.com/v1\"";
    // The text is not repeated: people put passwords into addresses.
    let Ok(url) = Url::parse(text) else {
        problems.add(&path, "this is no address", way_out);
        return None;
    };
    let problem = match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => "an address has no place for a credential here",
        "http" | "https" if url.query().is_some() || url.fragment().is_some() => "an address ends with its path",
        "http" | "https" if url.has_host() => return Some(url),
        _ => "only http and https are spoken",
    };
    problems.add(&path, problem, way_out);
    None
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A time that was written, or the usual one.
pub(super) fn patience(
    problems: &mut Problems<'_>,
    path: &[&str],
    written: Option<Span>,
    usual: Duration,
    longest: Duration,
) -> Duration {
    let duration = written.map_or(usual, Span::duration);
    if duration.is_zero() || duration > longest {
        problems.add(
            path,
            "the time is out of range",
            format!("write a time from \"1ms\" to \"{}s\"", longest.as_secs()),
        );
    }
    duration
}

/// The scope in which the destination recognises a key, as one text.
///
/// It has the address and whatever the configuration names, and nothing of the credential: a rotated token of one account
/// changes nothing. Where a key is recognised only within dimensions that nobody named, equality could not be proved.
pub(super) fn scope(
    problems: &mut Problems<'_>,
    path: &[&str],
    address: &str,
    (account, named): (Option<&str>, &BTreeMap<String, String>),
    contract: &Contract,
) -> String {
    let mut named = named.clone();
    if let Some(account) = account
        && named.insert("account".to_owned(), account.to_owned()).is_some()
    {
        problems.add(
            &[path, &["account"]].concat(),
            "the account is named twice",
            "keep one: account, or scope.account",
        );
    }
    if contract.key.is_some() {
        // The endpoint is part of each tool's own definition.
        for dimension in contract.scope.dimensions.iter().filter(|dimension| *dimension != "endpoint") {
            if !named.contains_key(dimension) {
                problems.add(
                    path,
                    format!("a key of {} is recognised only within one {dimension}, and none is named", contract.id),
                    match dimension.as_str() {
                        "account" => "write account = \"…\"".to_owned(),
                        other => format!("write scope = {{ {other} = \"…\" }}"),
                    },
                );
            }
        }
    }
    let words = named.iter().map(|(dimension, value)| format!("{dimension}={value:?}"));
    std::iter::once(address.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn contract(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    name: &str,
    written: Option<Spanned<DeValue<'_>>>,
) -> Option<Contract> {
    let path = ["destination", name, "contract"];
    let Some(written) = written else {
        problems.add(
            &path[..2],
            "nothing says what this destination promises about repetitions",
            "write contract = \"none\" if it promises nothing, or the name of its contract",
        );
        return None;
    };
    written_contract(problems, surroundings, &path, name, written)
}

/// A contract that is written as a name, a path or a table.
pub(super) fn written_contract(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    name: &str,
    written: Spanned<DeValue<'_>>,
) -> Option<Contract> {
    if let Some(text) = written.get_ref().as_str() {
        return named_contract(problems, surroundings, path, text);
    }
    match table_of(written) {
        Ok((mut table, span)) => {
            // An inline contract needs no name of its own.
            let at = |value| Spanned::new(span.clone(), value);
            if !table.contains_key("id") {
                table.insert(Spanned::new(span.clone(), "id".into()), at(DeValue::String(name.to_owned().into())));
            }
            let read = match table.contains_key("version") {
                true => problems.read(path, at(DeValue::Table(table))),
                false => {
                    problems.add(
                        path,
                        "the contract has no version",
                        "write version = 1, and raise it with each change",
                    );
                    return None;
                }
            };
            let contract: Contract = read?;
            match contract.validate() {
                Ok(()) => Some(contract),
                Err(error) => {
                    contract_mistake(problems, path, &error, |place| place);
                    None
                }
            }
        }
        Err(_) => {
            problems.add(path, "a contract is a name, a path or a table", "write contract = \"none\"");
            None
        }
    }
}

/// Records a mistake of a contract at its field; `written_as` is the name under which the field stands below `path`.
pub(super) fn contract_mistake(
    problems: &mut Problems<'_>,
    path: &[&str],
    error: &ContractError,
    written_as: impl Fn(&str) -> &str,
) {
    match error {
        ContractError::Field { place, message, .. } => {
            let field: Vec<&str> = written_as(place).split('.').collect();
            problems.add(&[path, &field[..]].concat(), message, "");
        }
        ContractError::Text { .. } => problems.add(path, error.to_string(), ""),
    }
}

fn named_contract(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    text: &str,
) -> Option<Contract> {
    if text.ends_with(".toml") {
        let content = read_file(problems, surroundings, path, text)?;
        return match Contract::parse(&content) {
            Ok(contract) => Some(contract),
            Err(error) => {
                problems.add(path, format!("in {text}: {error}"), "");
                None
            }
        };
    }
    let contracts = match built_in() {
        Ok(contracts) => contracts,
        Err(error) => {
            problems.add(path, error.to_string(), "");
            return None;
        }
    };
    let names: Vec<String> = contracts.iter().map(|contract| contract.id.clone()).collect();
    let found = contracts.into_iter().find(|contract| contract.id == text);
    if found.is_none() {
        let way_out = format!("use one of {}, or the path of a .toml file with your own", names.join(", "));
        problems.add(path, format!("there is no contract {text:?}"), way_out);
    }
    found
}

/// Reads a file that the configuration names.
pub(super) fn read_file(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    name: &str,
) -> Option<String> {
    use std::io::Read as _;
    let mut content = String::new();
    let read = std::fs::File::open(surroundings.base_dir.join(name))
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut content));
    match read {
        Ok(bytes) if bytes <= FILE_BYTES_MAX => Some(content),
        Ok(_) => {
            problems.add(path, format!("{name} has more than {FILE_BYTES_MAX} bytes"), "name a smaller file");
            None
        }
        Err(error) => {
            let way_out = format!("check the path; it is taken from {}", surroundings.base_dir.display());
            problems.add(path, format!("{name} cannot be read ({})", error.kind()), way_out);
            None
        }
    }
}
