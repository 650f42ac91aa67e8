//! `request = { … }`: how arguments become a request.

use std::collections::BTreeMap;

use http::Method;
use http::header::HeaderName;
use onceward_core::contract::Contract;
use serde_json::Value;

use crate::auth::Auth;
use crate::carrier::CarrierPlan;
use crate::config::{Problems, RequestText};
use crate::mapping::{BodyMapping, Encoding, Mapping};
use crate::template::{JsonTemplate, Template};
use crate::tool::Effect;

/// Headers that the client or the mapping itself writes; two of one would let servers disagree about where a request ends.
const OURS: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "content-type", "te", "upgrade", "expect"];

const PLACEHOLDERS: &str = "a placeholder is written {/field}, and a brace {{ or }}";

/// The mapping of a request; mistakes are recorded.
pub(super) fn mapping(
    problems: &mut Problems<'_>,
    path: &[&str],
    text: RequestText,
    effect: Effect,
    plan: &CarrierPlan,
    auth: Option<&Auth>,
) -> Option<Mapping> {
    let before = problems.count();
    let method = method(problems, path, &text.method, effect);
    let target = path_template(problems, path, &text.path, plan);
    let query = query(problems, path, &text.query);
    let headers = headers(problems, path, &text.headers, plan, auth);
    let body = body(problems, path, text.body);
    match (&body, text.encoding) {
        (BodyMapping::None, Encoding::Form) => {
            problems.add(
                &[path, &["encoding"]].concat(),
                "there is no body to write as a form",
                "write body = \"arguments\"",
            );
        }
        (BodyMapping::Template(JsonTemplate::Object(_) | JsonTemplate::Value(_)) | BodyMapping::Arguments, _) => {}
        (BodyMapping::Template(_), Encoding::Form) => {
            problems.add(&[path, &["body"]].concat(), "a form is written from a table", "write body = { … }");
        }
        (BodyMapping::None | BodyMapping::Template(_), Encoding::Json) => {}
    }
    check_room(problems, path, &body, text.encoding, plan);
    match (problems.count() == before, method, target) {
        (true, Some(method), Some(target)) => Some(Mapping {
            method,
            path: target,
            query,
            headers,
            body,
            encoding: text.encoding,
            required: text.required,
        }),
        _ => None,
    }
}

fn method(problems: &mut Problems<'_>, path: &[&str], text: &str, effect: Effect) -> Option<Method> {
    let path = [path, &["method"]].concat();
    let known = match effect {
        Effect::Read => ["GET", "HEAD", "POST"].contains(&text),
        Effect::Write => ["POST", "PUT", "PATCH", "DELETE", "GET"].contains(&text),
    };
    if known {
        return text.parse().ok();
    }
    let way_out = match effect {
        Effect::Read => "a read uses GET, HEAD, or a POST that changes nothing",
        Effect::Write => "use POST, PUT, PATCH or DELETE, in capital letters",
    };
    problems.add(&path, format!("{text:?} is not a method that is used here"), way_out);
    None
}

fn path_template(problems: &mut Problems<'_>, path: &[&str], text: &str, plan: &CarrierPlan) -> Option<Template> {
    let path = [path, &["path"]].concat();
    let clean = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%\\\"<>^`|".contains(&byte));
    if !text.starts_with('/') || !clean {
        let way_out = "begin with '/', and put parameters into query = { … }";
        problems.add(&path, "this is no path", way_out);
        return None;
    }
    let names: Vec<&str> = plan.path_placeholder().into_iter().collect();
    match Template::parse(text, &names) {
        Ok(template) => {
            if let Some(missing) = names.iter().find(|name| !template.names(name)) {
                let way_out = format!("write {{{missing}}} where the key stands in the path");
                problems.add(
                    &path,
                    "the contract puts the key into the path, and the path has no place for it",
                    way_out,
                );
            }
            Some(template)
        }
        Err(error) => {
            problems.add(&path, error.to_string(), PLACEHOLDERS);
            None
        }
    }
}

fn query(problems: &mut Problems<'_>, path: &[&str], text: &BTreeMap<String, String>) -> BTreeMap<String, Template> {
    let mut query = BTreeMap::new();
    for (name, value) in text {
        match Template::parse(value, &[]) {
            Ok(template) => {
                query.insert(name.clone(), template);
            }
            Err(error) => problems.add(&[path, &["query", name]].concat(), error.to_string(), PLACEHOLDERS),
        }
    }
    query
}

fn headers(
    problems: &mut Problems<'_>,
    path: &[&str],
    text: &BTreeMap<String, String>,
    plan: &CarrierPlan,
    auth: Option<&Auth>,
) -> Vec<(HeaderName, Template)> {
    let mut headers = Vec::new();
    for (name, value) in text {
        let path = [path, &["headers", name]].concat();
        let Ok(parsed) = name.parse::<HeaderName>() else {
            problems.add(&path, "this is no header name", "use letters, digits and '-'");
            continue;
        };
        let taken = OURS.contains(&parsed.as_str())
            || plan.header_names().any(|name| *name == parsed)
            || auth.is_some_and(|auth| *auth.name() == parsed);
        if taken {
            problems.add(&path, "this header is written by the client, the contract or auth", "leave it out");
            continue;
        }
        if parsed == http::header::AUTHORIZATION || parsed == http::header::COOKIE {
            problems.add(
                &path,
                "a credential does not stand in the configuration",
                "write auth = { bearer = \"env:NAME\" }",
            );
            continue;
        }
        match Template::parse(value, &[]) {
            Ok(template) => headers.push((parsed, template)),
            Err(error) => problems.add(&path, error.to_string(), PLACEHOLDERS),
        }
    }
    headers
}

fn body(problems: &mut Problems<'_>, path: &[&str], text: Option<Value>) -> BodyMapping {
    match text {
        None => BodyMapping::None,
        Some(Value::String(word)) if word == "arguments" => BodyMapping::Arguments,
        Some(template) => match JsonTemplate::parse(&template, &[]) {
            Ok(template) => BodyMapping::Template(template),
            Err((place, error)) => {
                let place: Vec<&str> = place.iter().map(String::as_str).collect();
                problems.add(&[path, &["body"], &place[..]].concat(), error.to_string(), PLACEHOLDERS);
                BodyMapping::None
            }
        },
    }
}

/// Whether the request has the places where the contract wants to put something.
fn check_room(problems: &mut Problems<'_>, path: &[&str], body: &BodyMapping, encoding: Encoding, plan: &CarrierPlan) {
    let has_body = match body {
        BodyMapping::None => false,
        BodyMapping::Arguments | BodyMapping::Template(_) => true,
    };
    if plan.needs_body() && !has_body {
        problems.add(path, "the contract puts the key into the body, and there is none", "write body = \"arguments\"");
    }
    if plan.needs_form() && encoding != Encoding::Form {
        problems.add(path, "the contract puts the key into a form", "write encoding = \"form\"");
    }
}

/// The contract that holds for a request without a body: a marker that cannot be put anywhere is never found.
pub(super) fn without_marker(contract: Contract, mapping: &Mapping) -> Contract {
    match &mapping.body {
        BodyMapping::None => without_a_marker(contract),
        BodyMapping::Arguments | BodyMapping::Template(_) => contract,
    }
}

/// The contract that holds for requests into which nobody puts a marker: finding none would otherwise look like proof.
pub(super) fn without_a_marker(mut contract: Contract) -> Contract {
    let Some(marker) = contract.marker.take() else { return contract };
    // Only what is recognised by the marker goes with it; a lookup by the key stands.
    if let Some(lookup) = &mut contract.lookup {
        lookup.recognise.retain(|recognise| recognise.at != marker.at);
        if lookup.recognise.is_empty() && lookup.kind != onceward_core::contract::LookupKind::ByKey {
            contract.lookup = None;
        }
    }
    contract
}
