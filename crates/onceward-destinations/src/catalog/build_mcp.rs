//! One `[mcp.NAME]`: a server, what is known of its tools before it is asked, and how the two become tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use onceward_core::contract::{Contract, IsError, LookupRequest, Predicate, Span};
use onceward_core::key::{ToolName, ToolVersion};
use onceward_core::limits::NAME_BYTES_MAX;
use onceward_ledger::authorize::ToolPattern;
use onceward_ledger::clock::SystemClock;
use tokio::sync::Semaphore;
use toml::Spanned;
use toml::de::DeValue;

use super::build_destination::{base_url, is_loopback, patience, scope, written_contract};
use super::build_tool::{Additions, amount, check_deadline, check_key, check_retries, contract, recorded, retry};
use super::mcp_server::{McpServer, ToolPolicy, Usual};
use super::{Surroundings, build_auth, section};
use crate::auth::Auth;
use crate::client::{ClientSettings, client};
use crate::config::{McpText, McpToolText, Problems, TextTable, table_of, take};
use crate::limits::{
    ANSWER_WITHIN, ANSWER_WITHIN_MAX, CONNECT_TIMEOUT, CONNECT_TIMEOUT_MAX, MAX_IN_FLIGHT, MAX_IN_FLIGHT_MAX,
    MCP_READS_MAX,
};
use crate::mcp::{Address, CallPlan, McpUpstream, Over, Program, Setting, Transport};
use crate::refusals;
use crate::secrets::Secret;
use crate::template::Template;
use crate::tool::{Effect, Mode};

/// Headers of which a value in the file itself would be a secret in the file.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

/// Headers that are made for each request.
const OWN_HEADERS: [&str; 8] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
];

/// Builds a server. Nothing is started and nothing is sent.
pub(super) fn build(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    name: &str,
    mut table: TextTable<'_>,
    around: Mode,
) -> Option<McpServer> {
    let before = problems.count();
    let path = ["mcp", name];
    let tools = section(problems, &mut table, &path, "tool");
    let contract_text = take(&mut table, "contract");
    let auth_text = take(&mut table, "auth");
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        problems.add(&path, "the name is not usable", "use letters, digits, '-' and '_'");
    }
    let auth = auth_text.and_then(|text| auth(problems, surroundings, &path, text));
    let server_contract = match contract_text {
        Some(text) => written_contract(problems, surroundings, &[&path[..], &["contract"]].concat(), name, text),
        None => Some(unsaid(name)),
    };
    let text: McpText = problems.read(&path, Spanned::new(0..0, DeValue::Table(table)))?;
    let reads = reads(problems, &path, &text.reads);
    let refusals = match &text.refusals {
        Some(known) => recorded(problems, &[&path[..], &["refusals"]].concat(), refusals::of(known), ""),
        None => None,
    };
    let answer_within =
        patience(problems, &[&path[..], &["timeout"]].concat(), text.timeout, ANSWER_WITHIN, ANSWER_WITHIN_MAX);
    if !text.prefix.is_empty() {
        recorded(
            problems,
            &[&path[..], &["prefix"]].concat(),
            ToolName::parse(&text.prefix),
            "use letters, digits, '-' and '_'",
        );
    }
    let server_contract = server_contract?;
    let mut warnings = Vec::new();
    let (transport, address) = transport(problems, surroundings, &path, &text, auth.as_ref(), &mut warnings)?;
    build_auth::check_live(problems, surroundings, &path, &server_contract, auth.as_ref());
    let scope = scope(problems, &path, &address, (text.account.as_deref(), &text.scope), &server_contract);
    let over = match &transport {
        Transport::Stdio(_) => Over::Stdio,
        Transport::Http(_) => Over::Http,
    };
    let usual = Usual {
        over,
        reads,
        prefix: text.prefix,
        scope,
        answer_within,
        refusals,
        refused_if: text.refused_if,
        is_error: text.is_error,
        without_identity: text.without_identity.unwrap_or_default(),
        approval: text.approval.unwrap_or_default(),
        mode: Mode::of(text.observe, around),
        warnings,
    };
    let others = policy(problems, &path, &server_contract, &usual, None, &McpToolText::default());
    let mut policies = BTreeMap::new();
    for (key, value) in tools.into_iter().flatten() {
        let key = key.get_ref().to_string();
        let path = ["mcp", name, "tool", key.as_str()];
        match table_of(value) {
            Ok((mut table, _)) => {
                let own = match take(&mut table, "contract") {
                    Some(text) => {
                        written_contract(problems, surroundings, &[&path[..], &["contract"]].concat(), name, text)
                    }
                    None => Some(server_contract.clone()),
                };
                let text: Option<McpToolText> = problems.read(&path, Spanned::new(0..0, DeValue::Table(table)));
                if let (Some(own), Some(text)) = (own, text)
                    && let Some(policy) = policy(problems, &path, &own, &usual, Some(&key), &text)
                {
                    policies.insert(key, policy);
                }
            }
            Err(_) => problems.add(&path, "a tool is a table", "write [mcp.NAME.tool.NAME] above its fields"),
        }
    }
    let upstream = McpUpstream::new(name, transport, Arc::new(SystemClock));
    let others = others?;
    (problems.count() == before).then(|| McpServer::new(Arc::new(upstream), usual, others, policies))
}

/// What a server promises that says nothing: the refusals of HTTP before it is reached, and nothing about repetitions.
fn unsaid(name: &str) -> Contract {
    let none =
        onceward_core::contract::built_in().ok().and_then(|all| all.into_iter().find(|contract| contract.id == "none"));
    none.unwrap_or_else(|| Contract::promising_nothing(name))
}

/// `auth = "env:NAME"` is a bearer token; a table is as for a destination.
fn auth(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    written: Spanned<DeValue<'_>>,
) -> Option<(Auth, Secret)> {
    let span = written.span();
    let written = match written.into_inner() {
        DeValue::String(text) => {
            let mut table = TextTable::new();
            table
                .insert(Spanned::new(span.clone(), "bearer".into()), Spanned::new(span.clone(), DeValue::String(text)));
            DeValue::Table(table)
        }
        other => other,
    };
    build_auth::auth(problems, surroundings, path, Spanned::new(span, written))
}

fn reads(problems: &mut Problems<'_>, path: &[&str], written: &[String]) -> Vec<ToolPattern> {
    let path = [path, &["reads"]].concat();
    if written.len() > MCP_READS_MAX {
        problems.add(
            &path,
            format!("{} patterns are more than {MCP_READS_MAX}", written.len()),
            "use a `*` at the end of a pattern",
        );
        return Vec::new();
    }
    let way_out = "write a tool's name, or its beginning with a `*` at the end";
    written.iter().filter_map(|text| recorded(problems, &path, ToolPattern::parse(text), way_out)).collect()
}

/// How the server is reached, and its address as the scope names it.
fn transport(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    text: &McpText,
    auth: Option<&(Auth, Secret)>,
    warnings: &mut Vec<String>,
) -> Option<(Transport, String)> {
    let mut only_with = |field: &str, there: bool, with: &str| {
        if there {
            problems.add(&[path, &[field]].concat(), format!("this goes with {with}"), "leave it out");
        }
    };
    match (&text.command, &text.url) {
        (Some(command), None) => {
            only_with("headers", !text.headers.is_empty(), "url");
            only_with("auth", auth.is_some(), "url; a program gets its secrets by env = { … }");
            only_with("connect_timeout", text.connect_timeout.is_some(), "url");
            only_with("max_in_flight", text.max_in_flight.is_some(), "url");
            let program = program(problems, surroundings, path, command, text)?;
            let name = path.last().copied().unwrap_or_default();
            Some((Transport::Stdio(program), format!("stdio:{name}")))
        }
        (None, Some(url)) => {
            only_with("env", !text.env.is_empty(), "command");
            only_with("cwd", text.cwd.is_some(), "command");
            let address = address(problems, surroundings, path, url, text, auth, warnings)?;
            let scope = address.url.as_str().trim_end_matches('/').to_owned();
            Some((Transport::Http(Box::new(address)), scope))
        }
        (Some(_), Some(_)) | (None, None) => {
            let way_out = "write command = [\"npx\", \"…\"] or url = \"https://…\"";
            problems.add(path, "a server is a program or an address", way_out);
            None
        }
    }
}

/// What an MCP host fills in, and nobody here: a server would be started with these very letters. A shell's `${NAME}` is left to it.
fn not_the_hosts(problems: &mut Problems<'_>, path: &[&str], text: &str) {
    const OPENINGS: [&str; 4] = ["${input:", "${env:", "${workspaceFolder", "${userHome"];
    if let Some(opening) = OPENINGS.iter().find(|opening| text.contains(**opening)) {
        problems.add(
            path,
            format!("{opening}…}} is filled in by an MCP host, and by nobody here"),
            "write its value; a secret goes into env, as \"env:NAME\" or \"file:PATH\"",
        );
    }
}

fn program(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    command: &[String],
    text: &McpText,
) -> Option<Program> {
    if command.first().is_none_or(String::is_empty) {
        problems.add(&[path, &["command"]].concat(), "the command is empty", "write command = [\"npx\", \"…\"]");
        return None;
    }
    for (field, text) in command.iter().map(|word| ("command", word)).chain(text.cwd.iter().map(|cwd| ("cwd", cwd))) {
        not_the_hosts(problems, &[path, &[field]].concat(), text);
    }
    let mut env = Vec::new();
    for (name, value) in &text.env {
        let path = [path, &["env", name.as_str()]].concat();
        not_the_hosts(problems, &path, value);
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.add(&path, "this is no name of a variable", "");
        }
        env.extend(setting(problems, surroundings, &path, value).map(|value| (name.clone(), value)));
    }
    let cwd =
        text.cwd.as_deref().map_or_else(|| surroundings.base_dir.to_owned(), |cwd| surroundings.base_dir.join(cwd));
    let cwd = if cwd.as_os_str().is_empty() { Path::new(".").to_owned() } else { cwd };
    Some(Program { command: command.to_vec(), env, cwd })
}

fn address(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    url: &str,
    text: &McpText,
    auth: Option<&(Auth, Secret)>,
    warnings: &mut Vec<String>,
) -> Option<Address> {
    let url = base_url(problems, path, url);
    let connect_timeout = patience(
        problems,
        &[path, &["connect_timeout"]].concat(),
        text.connect_timeout,
        CONNECT_TIMEOUT,
        CONNECT_TIMEOUT_MAX,
    );
    let in_flight = text.max_in_flight.unwrap_or(MAX_IN_FLIGHT);
    if !(1..=MAX_IN_FLIGHT_MAX).contains(&in_flight) {
        let way_out = format!("write a number from 1 to {MAX_IN_FLIGHT_MAX}");
        problems.add(&[path, &["max_in_flight"]].concat(), "that many cannot be in flight", way_out);
    }
    let headers = headers(problems, surroundings, path, &text.headers);
    let url = url?;
    if auth.is_some() && url.scheme() == "http" && !is_loopback(&url) {
        warnings.push("the credential travels over plain HTTP, where others can read it; use https".to_owned());
    }
    let in_flight = in_flight.clamp(1, MAX_IN_FLIGHT_MAX) as usize;
    let settings = ClientSettings { connect_timeout, idle_connections: in_flight, clock: Arc::new(SystemClock) };
    let client = recorded(problems, path, client(settings), "")?;
    let auth = auth.map(|(auth, _)| auth.clone());
    Some(Address { url, auth, headers, client, connect_timeout, in_flight: Semaphore::new(in_flight) })
}

fn headers(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    written: &BTreeMap<String, String>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, text) in written {
        let path = [path, &["headers", name.as_str()]].concat();
        let Some(parsed) =
            recorded(problems, &path, name.parse::<HeaderName>().map_err(|_| "this is no header name"), "")
        else {
            continue;
        };
        if OWN_HEADERS.contains(&parsed.as_str()) {
            problems.add(&path, "this header is made for each request", "leave it out");
            continue;
        }
        not_the_hosts(problems, &path, text);
        let Some(setting) = setting(problems, surroundings, &path, text) else { continue };
        if SECRET_HEADERS.contains(&parsed.as_str()) && matches!(setting, Setting::Plain(_)) {
            problems.add(
                &path,
                "a credential does not stand in the configuration",
                "write \"env:NAME\" or \"file:PATH\"",
            );
            continue;
        }
        match HeaderValue::from_str(setting.expose()) {
            Ok(mut value) => {
                value.set_sensitive(matches!(setting, Setting::Secret(_)));
                headers.insert(parsed, value);
            }
            Err(_) => problems.add(
                &path,
                "the value has a character that no header carries",
                "write one line of visible ASCII",
            ),
        }
    }
    headers
}

fn setting(problems: &mut Problems<'_>, surroundings: &Surroundings<'_>, path: &[&str], text: &str) -> Option<Setting> {
    recorded(problems, path, Setting::read(text, surroundings.base_dir, surroundings.secrets), "")
}

/// What is known of a tool before its server is asked. `remote` is its name there; none stands for all that are not named.
fn policy(
    problems: &mut Problems<'_>,
    path: &[&str],
    base: &Contract,
    usual: &Usual,
    remote: Option<&str>,
    text: &McpToolText,
) -> Option<ToolPolicy> {
    let before = problems.count();
    let effect = match remote.and_then(|name| ToolName::parse(name).ok()) {
        Some(name) => usual.effect_of(&name),
        None => Effect::Write,
    };
    if effect == Effect::Read && (text.refused_if.is_some() || text.lookup.is_some() || text.marker.is_some()) {
        problems.add(
            path,
            "the tool is named in reads, and leaves nothing to be found or refused",
            "take it out of reads",
        );
    }
    let version = ToolVersion::parse(text.version.as_deref().unwrap_or("1"));
    let version = recorded(problems, &[path, &["version"]].concat(), version, "write version = \"1\"");
    let title = text.title.as_deref().and_then(|title| {
        let way_out = "a placeholder is written {/field}, and a brace {{ or }}";
        recorded(problems, &[path, &["title"]].concat(), Template::parse(title, &[]), way_out)
    });
    let comparison = onceward_core::fingerprint::Comparison::new(text.free_text.clone(), text.volatile.clone());
    let comparison = recorded(problems, &[path, &["free_text"]].concat(), comparison, "");
    let retry = retry(problems, path, &text.retry);
    let mut base = base.clone();
    let is_error = text.is_error.or(usual.is_error);
    base.execution.is_error = is_error.unwrap_or(base.execution.is_error);
    let refused_if = any_of([
        text.refused_if.clone(),
        usual.refused_if.clone(),
        usual.refusals.as_ref().and_then(|refusals| refusals.of_tool(remote.unwrap_or_default())),
        refusals::before_the_tool(),
        base.refused_if.take(),
    ]);
    let additions = Additions {
        effect_id: text.effect_id.as_ref(),
        refused_if: refused_if.as_ref(),
        success_if: text.success_if.as_ref(),
        marker: text.marker.as_ref(),
        lookup: text.lookup.as_ref(),
    };
    let contract = contract(problems, path, &base, &additions, effect)?;
    check_lookup(problems, path, &contract, usual);
    check_deadline(problems, path, &contract, text.deadline.map(Span::duration));
    check_key(problems, path, &contract, effect);
    let way_out = "use a contract whose first carrier is mcp_meta, argument, or, for a url, header";
    let plan =
        recorded(problems, &[&path[..2], &["contract"]].concat(), CallPlan::new(&contract, usual.over), way_out)?;
    let answer_within =
        patience(problems, &[path, &["timeout"]].concat(), text.timeout, usual.answer_within, ANSWER_WITHIN_MAX);
    check_retries(problems, path, &contract, text.deadline.map(Span::duration), &retry, answer_within);
    let policy = ToolPolicy {
        version: version?,
        title,
        description: text.description.clone(),
        comparison: comparison?,
        business_key: text.business_key.clone(),
        without_identity: text.without_identity.unwrap_or(usual.without_identity),
        approval: text.approval.unwrap_or(usual.approval),
        mode: Mode::of(text.observe, usual.mode),
        amount: amount(problems, path, text.amount.as_ref()),
        answer_within,
        deadline: text.deadline.map(Span::duration),
        retry,
        contract,
        plan,
        is_error: is_error.unwrap_or(IsError::Uncertain),
    };
    (problems.count() == before).then_some(policy)
}

fn any_of(predicates: impl IntoIterator<Item = Option<Predicate>>) -> Option<Predicate> {
    let mut all: Vec<Predicate> = predicates.into_iter().flatten().collect();
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(Predicate::AnyOf(all)),
    }
}

/// A lookup asks a reading tool of the same server, and nothing that could write.
fn check_lookup(problems: &mut Problems<'_>, path: &[&str], contract: &Contract, usual: &Usual) {
    let Some(lookup) = &contract.lookup else { return };
    let path = [path, &["lookup"]].concat();
    match &lookup.request {
        LookupRequest::Tool { tool, .. } => {
            let reads = ToolName::parse(tool).is_ok_and(|name| usual.effect_of(&name) == Effect::Read);
            if !reads {
                problems.add(
                    &[&path[..], &["tool"]].concat(),
                    format!("the tool {tool:?} is not named in reads, and a lookup must not write"),
                    format!("add {tool:?} to the reads of this server, if it only reads"),
                );
            }
        }
        LookupRequest::Http { .. } => {
            let way_out = "write lookup = { tool = \"…\", args = { … } }";
            problems.add(&path, "an MCP server is asked by a tool, not by a request", way_out);
        }
        LookupRequest::Application | LookupRequest::Nothing => {}
    }
}
