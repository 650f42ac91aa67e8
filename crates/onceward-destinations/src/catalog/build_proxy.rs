//! `listen` and `[destination.NAME.proxy]`: what a vendor's own client finds there.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::HeaderName;
use onceward_core::contract::{Contract, Locator};
use onceward_core::fingerprint::Comparison;
use onceward_core::key::{TenantId, ToolName, ToolVersion};
use onceward_core::pointer::Pointer;

use super::build_destination::{Shared, contract_mistake, patience};
use super::{build_request, build_tool};
use crate::carrier::CarrierPlan;
use crate::config::{Problems, ProxyText};
use crate::http::HttpDestination;
use crate::limits::{ANSWER_WITHIN_MAX, PROXY_PATTERNS_MAX};
use crate::proxy::{AsTheyCame, Glob, KeySpot, Proxy, ReadRule, SENT, WhoseKey};

/// What passes through unless the configuration says otherwise.
const READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Headers that never go on, whoever names them: they belong to one connection, or carry a credential.
const STAY_BEHIND: [&str; 15] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "accept-encoding",
];

/// The proxy of one destination. Without `shared` it is only checked.
pub(super) fn build(
    problems: &mut Problems<'_>,
    destination: &str,
    shared: Option<&Shared>,
    listen: Option<SocketAddr>,
    text: ProxyText,
) -> Option<Proxy> {
    let path = ["destination", destination, "proxy"];
    let before = problems.count();
    let reads = reads(problems, &path, text.reads.as_deref());
    let tool = build_tool::recorded(
        problems,
        &path,
        ToolName::parse(&format!("{destination}.proxy")),
        "give the destination a shorter name",
    );
    let version = ToolVersion::parse(text.version.as_deref().unwrap_or("1"));
    let version = build_tool::recorded(problems, &[&path[..], &["version"]].concat(), version, "write version = \"1\"");
    let tenant = text.tenant.as_deref().map(TenantId::parse);
    let tenant = match tenant {
        Some(parsed) => build_tool::recorded(problems, &[&path[..], &["tenant"]].concat(), parsed, ""),
        None => None,
    };
    if text.key == WhoseKey::Caller && text.tenant.is_none() {
        problems.add(
            &[&path[..], &["key"]].concat(),
            "where the caller's own key goes out, two tenants could meet in one account",
            "write tenant = \"…\" for the one that may use it, or key = \"ours\"",
        );
    }
    let retry = build_tool::retry(problems, &path, &text.retry);
    let shared = shared?;
    let contract = contract(problems, &path, shared.contract.clone(), &text)?;
    let identity = identity(problems, &path, &contract, &text.identity);
    let rules = contract.proxy.clone().unwrap_or_default();
    let scope_headers =
        headers(problems, &path, "scope_headers", [&rules.scope[..], &text.scope_headers].concat(), shared);
    let pinned = [&rules.pinned[..], &text.pinned_headers].concat();
    let pinned_headers = headers(problems, &path, "pinned_headers", pinned, shared);
    let (plan, spot) = places(problems, &path, &contract)?;
    build_tool::check_key(problems, &path, &contract, crate::tool::Effect::Write);
    let answer_within =
        patience(problems, &[&path[..], &["timeout"]].concat(), text.timeout, shared.answer_within, ANSWER_WITHIN_MAX);
    let deadline = text.deadline.map(|deadline| deadline.duration());
    build_tool::check_deadline(problems, &path, &contract, deadline);
    build_tool::check_retries(problems, &path, &contract, deadline, &retry, answer_within);
    let pointer = |name: &str| Pointer::parse(&format!("/{name}")).ok();
    let comparison = Comparison::new(Vec::new(), pointer(SENT).into_iter().collect());
    let comparison = build_tool::recorded(problems, &path, comparison, "")?;
    let (tool, version) = (tool?, version?);
    let requests = AsTheyCame { spot: spot.clone(), key: text.key };
    let destination = HttpDestination::new(Arc::clone(&shared.host), tool.clone(), contract, plan, requests.into());
    let proxy = Proxy {
        tool,
        version,
        destination: Arc::new(destination),
        listen,
        reads,
        identity,
        without_identity: text.without_identity.unwrap_or_default(),
        approval: text.approval,
        mode: shared.mode,
        amount: build_tool::amount(problems, &path, text.amount.as_ref()),
        tenant,
        comparison,
        business_key: ["method", "target"].into_iter().filter_map(pointer).collect(),
        spot,
        scope_headers,
        pinned_headers,
        answer_within,
        deadline,
        retry,
        warnings: shared.warnings.clone(),
    };
    (problems.count() == before).then_some(proxy)
}

fn reads(problems: &mut Problems<'_>, path: &[&str], written: Option<&[String]>) -> Vec<ReadRule> {
    let path = [path, &["reads"]].concat();
    let usual: Vec<String> = READS.iter().map(ToString::to_string).collect();
    let written = written.unwrap_or(&usual);
    bounded(problems, &path, written.len());
    let mut rules = Vec::new();
    for text in written {
        match ReadRule::parse(text) {
            Some(rule) => rules.push(rule),
            None => problems.add(
                &path,
                format!("{text:?} names no requests"),
                "write \"GET\", or a method and a path as in \"POST /v1/search/*\"",
            ),
        }
    }
    rules
}

fn identity(problems: &mut Problems<'_>, path: &[&str], contract: &Contract, written: &[String]) -> Vec<Glob> {
    let path = [path, &["identity"]].concat();
    bounded(problems, &path, written.len());
    let globs: Vec<Glob> = written.iter().map(|text| Glob::new(text)).collect();
    let invented = contract.key.as_ref().is_some_and(|rules| rules.sdk_may_invent_key);
    if invented && globs.iter().any(Glob::matches_everything) {
        problems.add(
            &path,
            "that is every key, also those that the vendor's client makes up for each call",
            "write how the keys of your application begin, such as \"order-*\"",
        );
    }
    globs
}

fn bounded(problems: &mut Problems<'_>, path: &[&str], count: usize) {
    if count > PROXY_PATTERNS_MAX {
        problems.add(path, format!("{count} patterns are too many"), format!("write at most {PROXY_PATTERNS_MAX}"));
    }
}

fn headers(
    problems: &mut Problems<'_>,
    path: &[&str],
    field: &str,
    names: Vec<String>,
    shared: &Shared,
) -> Vec<HeaderName> {
    let path = [path, &[field]].concat();
    let mut parsed = Vec::new();
    for name in names {
        let known: Result<HeaderName, _> = name.parse();
        let usable = known.ok().filter(|name| {
            !STAY_BEHIND.contains(&name.as_str())
                && shared.host.auth.as_ref().is_none_or(|auth| auth.name() != name)
                && *name != http::header::CONTENT_TYPE
                && *name != http::header::ACCEPT
        });
        match usable {
            Some(name) if !parsed.contains(&name) => parsed.push(name),
            Some(_) => {}
            None => problems.add(
                &path,
                format!("the header {name:?} cannot be passed on"),
                "leave out what belongs to a connection or carries a credential; Accept and Content-Type go on by themselves",
            ),
        }
    }
    parsed
}

/// The contract as it holds for requests that are passed on: nobody puts a marker into them.
fn contract(problems: &mut Problems<'_>, path: &[&str], contract: Contract, text: &ProxyText) -> Option<Contract> {
    let mut contract = build_request::without_a_marker(contract);
    match text.effect_id.as_deref() {
        Some("none") => contract.effect.id = None,
        Some(at) => match Pointer::parse(at) {
            Ok(at) => contract.effect.id = Some(Locator::Body(at)),
            Err(error) => problems.add(
                &[path, &["effect_id"]].concat(),
                error.to_string(),
                "write a JSON Pointer such as \"/id\", or \"none\" where answers name no effect",
            ),
        },
        None => {}
    }
    match contract.validate() {
        Ok(()) => Some(contract),
        Err(error) => {
            contract_mistake(problems, path, &error, |place| if place == "effect.id" { "effect_id" } else { place });
            None
        }
    }
}

/// Where the key goes, for whoever writes it and for whoever finds it.
fn places(problems: &mut Problems<'_>, path: &[&str], contract: &Contract) -> Option<(CarrierPlan, KeySpot)> {
    let way_out = "leave the proxy out, and configure tools for this destination";
    let plan = match CarrierPlan::new(contract) {
        Ok(plan) if plan.companions_are_headers() => plan,
        Ok(_) => {
            problems.add(path, "the contract wants something beside the key in a body that is passed on", way_out);
            return None;
        }
        Err(error) => {
            problems.add(path, error.to_string(), way_out);
            return None;
        }
    };
    match KeySpot::of(contract) {
        Ok(spot) => Some((plan, spot)),
        Err(error) => {
            problems.add(path, error.to_string(), way_out);
            None
        }
    }
}
