//! A contract's lookup, made into a request or into a tool's arguments: data with placeholders, filled in for one question.

use http::{HeaderMap, HeaderValue, Method};
use onceward_core::contract::LookupRequest;
use onceward_ledger::destination::Question;
use serde_json::{Map, Value};

use crate::limits::{LOOKUP_SLACK, TARGET_BYTES_MAX};
use crate::mapping::{Rendered, Unmappable};
use crate::template::{JsonTemplate, NoText, Template, percent_encode};

/// What a lookup may name beside the fields of the arguments. The times are given as RFC 3339 and as whole seconds since the
/// epoch, because destinations take one or the other.
pub(crate) const NAMES: [&str; 7] =
    ["key", "marker", "handle", "sent_from", "sent_until", "sent_from_unix", "sent_until_unix"];

/// A lookup over HTTP, parsed.
#[derive(Clone, Debug)]
pub(crate) struct HttpQuestion {
    method: Method,
    begins: Begins,
    path: Template,
    query: Vec<(String, Template)>,
    body: Option<JsonTemplate>,
}

/// Where the path of a lookup begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// At the destination's own beginning.
    AtRoot,
    /// Below the path of the write: many destinations list and show a thing where it is made.
    AtTheWrite,
}

/// What a path begins with that begins at the write.
const PATH_OF_THE_WRITE: &str = "{path}";

/// Why a lookup cannot be asked as it is written: where in it, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct InvalidQuestion {
    /// The field of the lookup.
    pub(crate) field: &'static str,
    pub(crate) problem: String,
}

impl HttpQuestion {
    /// Parses the request of a lookup; `None` for one that is not made over HTTP.
    pub(crate) fn parse(request: &LookupRequest) -> Result<Option<Self>, InvalidQuestion> {
        let LookupRequest::Http { method, path, query, body } = request else { return Ok(None) };
        let wrong = |field: &'static str, problem: String| InvalidQuestion { field, problem };
        let method = method.parse().map_err(|_| wrong("method", format!("{method:?} is no method")))?;
        let (begins, rest) = match path.strip_prefix(PATH_OF_THE_WRITE) {
            Some(rest) => (Begins::AtTheWrite, rest),
            None => (Begins::AtRoot, path.as_str()),
        };
        let separate = rest.starts_with('/') || (begins == Begins::AtTheWrite && rest.is_empty());
        if !separate || rest.contains(['?', '#']) {
            let problem =
                "a path begins with '/', or with {path} for that of the write; parameters go into query = { … }";
            return Err(wrong("path", problem.to_owned()));
        }
        let path = Template::parse(rest, &NAMES).map_err(|error| wrong("path", error.to_string()))?;
        let query = query
            .iter()
            .map(|(name, text)| Ok((name.clone(), Template::parse(text, &NAMES)?)))
            .collect::<Result<_, _>>()
            .map_err(|error: crate::template::InvalidTemplate| wrong("query", error.to_string()))?;
        let body = body
            .as_ref()
            .map(|body| JsonTemplate::parse(body, &NAMES))
            .transpose()
            .map_err(|(_, error)| wrong("body", error.to_string()))?;
        Ok(Some(Self { method, begins, path, query, body }))
    }

    /// The request for this question, without host and credential. `write` gives the target of the write that is looked for.
    ///
    /// A placeholder that has nothing to stand for makes no request: with an empty text in its place the destination would be
    /// asked about everything, or about something else.
    pub(crate) fn render(
        &self,
        question: &Question,
        write: impl FnOnce() -> Result<String, Unmappable>,
    ) -> Result<Rendered, Unmappable> {
        let arguments = question.arguments.value();
        for name in NAMES {
            let asked = self.path.names(name)
                || self.query.iter().any(|(_, template)| template.names(name))
                || self.body.as_ref().is_some_and(|body| body.names(name));
            if asked && value_of(question, name).is_none() {
                return Err(Unmappable::Place { message: format!("the lookup names {{{name}}}, and there is none") });
            }
        }
        let named = |name: &str| value_of(question, name);
        let mut target = match self.begins {
            Begins::AtRoot => String::new(),
            Begins::AtTheWrite => write()?.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned(),
        };
        target.push_str(&self.path.render(arguments, &named, &percent_encode)?);
        if target.split('/').skip(1).any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(Unmappable::Path);
        }
        let mut pairs = Vec::new();
        for (name, template) in &self.query {
            match template.render(arguments, &named, &str::to_owned) {
                Ok(text) => pairs.push(format!("{}={}", percent_encode(name), percent_encode(&text))),
                // What was not asked for does not narrow the question.
                Err(NoText::Absent(_)) => {}
                Err(error @ NoText::NotText(_)) => return Err(error.into()),
            }
        }
        if !pairs.is_empty() {
            target.push('?');
            target.push_str(&pairs.join("&"));
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Unmappable::TargetTooLong { bytes: target.len() });
        }
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        let body = match &self.body {
            None => None,
            Some(template) => {
                headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let value = template.render(arguments, &named)?.unwrap_or_else(|| Value::Object(Map::new()));
                Some(value.to_string().into_bytes())
            }
        };
        Ok(Rendered { method: self.method.clone(), target, headers, body })
    }
}

/// The arguments of a reading tool that is the lookup, filled in for one question.
///
/// # Errors
/// As for a request; nothing was called.
pub(crate) fn tool_arguments(args: &Map<String, Value>, question: &Question) -> Result<Map<String, Value>, Unmappable> {
    let template = JsonTemplate::parse(&Value::Object(args.clone()), &NAMES)
        .map_err(|(_, error)| Unmappable::Place { message: error.to_string() })?;
    for name in NAMES {
        if template.names(name) && value_of(question, name).is_none() {
            return Err(Unmappable::Place { message: format!("the lookup names {{{name}}}, and there is none") });
        }
    }
    match template.render(question.arguments.value(), &|name| value_of(question, name))? {
        Some(Value::Object(members)) => Ok(members),
        Some(_) | None => Ok(Map::new()),
    }
}

/// What a placeholder stands for in this question.
fn value_of(question: &Question, name: &str) -> Option<String> {
    // Clocks differ, and a window that begins a little early shows only more.
    let from = question.sent_from.minus(LOOKUP_SLACK);
    let until = question.sent_until.plus(question.answer_within).plus(LOOKUP_SLACK);
    let seconds = |at: onceward_core::time::Timestamp| (at.as_micros() / 1_000_000).to_string();
    match name {
        "key" | "marker" => question.key.as_ref().map(|key| key.as_str().to_owned()),
        "handle" => question.handle.clone(),
        "sent_from" => Some(from.to_string()),
        "sent_until" => Some(until.to_string()),
        "sent_from_unix" => Some(seconds(from)),
        "sent_until_unix" => Some(seconds(until)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use onceward_core::canonical::Canonical;
    use onceward_core::contract::{Contract, Lookup};
    use onceward_core::key::{OutboundKey, ToolName};
    use onceward_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn lookup(path: &str, query: &[(&str, &str)]) -> Lookup {
        let query: BTreeMap<String, String> =
            query.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let text = "id = \"x\"\nversion = 1\n[lookup]\nkind = \"by_injected_marker\"\npath = \"/x\"\n";
        let mut lookup = Contract::parse(text).unwrap().lookup.unwrap();
        lookup.request = LookupRequest::Http { method: "GET".to_owned(), path: path.to_owned(), query, body: None };
        lookup
    }

    fn question(lookup: Lookup, key: Option<&str>) -> Question {
        Question {
            tool: ToolName::parse("create_ticket").unwrap(),
            lookup,
            key: key.map(|key| OutboundKey::parse(key).unwrap()),
            handle: None,
            arguments: Arc::new(Canonical::from_value(json!({ "project": "a/b", "n": 7 })).unwrap()),
            sent_from: Timestamp::from_micros(1_700_000_000_000_000),
            sent_until: Timestamp::from_micros(1_700_000_010_000_000),
            answer_within: Duration::from_secs(5),
        }
    }

    fn target(lookup: Lookup, key: Option<&str>) -> Result<String, Unmappable> {
        let asked = HttpQuestion::parse(&lookup.request).unwrap().unwrap();
        let write = || Ok("/repos/a%2Fb/issues/?draft=1".to_owned());
        asked.render(&question(lookup, key), write).map(|rendered| rendered.target)
    }

    #[test]
    fn a_question_is_filled_in_and_stays_inside_its_segments() {
        let asked = lookup("/p/{/project}/issues", &[("label", "m-{marker}"), ("since", "{sent_from_unix}")]);
        assert_eq!(target(asked, Some("k-1")).unwrap(), "/p/a%2Fb/issues?label=m-k-1&since=1699999700");
    }

    #[test]
    fn a_question_can_be_asked_where_the_write_was_sent() {
        let list = lookup("{path}", &[("key", "{key}")]);
        assert_eq!(target(list, Some("k-1")).unwrap(), "/repos/a%2Fb/issues?key=k-1");
        assert_eq!(target(lookup("{path}/{key}", &[]), Some("k-1")).unwrap(), "/repos/a%2Fb/issues/k-1");
        let refused = |path: &str| HttpQuestion::parse(&lookup(path, &[]).request).unwrap_err().field;
        assert_eq!((refused("{path}s"), refused("/x{path}"), refused("{path}?a=1")), ("path", "path", "path"));
    }

    #[test]
    fn a_placeholder_without_a_value_asks_nothing_instead_of_everything() {
        assert!(target(lookup("/issues", &[("label", "{marker}")]), None).is_err());
        assert!(target(lookup("/jobs/{handle}", &[]), Some("k-1")).is_err());
        let absent = lookup("/issues", &[("team", "{/team}"), ("label", "{marker}")]);
        assert_eq!(target(absent, Some("k-1")).unwrap(), "/issues?label=k-1", "an argument that was not given");
    }

    #[test]
    fn a_lookup_that_names_something_unknown_is_refused_when_it_is_read() {
        let invalid = HttpQuestion::parse(&lookup("/issues/{id}", &[]).request).unwrap_err();
        assert_eq!(invalid.field, "path");
        assert!(HttpQuestion::parse(&lookup("issues", &[]).request).is_err());
    }

    #[test]
    fn a_tools_arguments_take_the_marker_and_the_arguments_as_they_are() {
        let args = json!({ "jql": "labels = {marker}", "n": "{/n}", "gone": "{/gone}" });
        let asked = question(lookup("/x", &[]), Some("k-1"));
        let made = tool_arguments(args.as_object().unwrap(), &asked).unwrap();
        assert_eq!(Value::Object(made), json!({ "jql": "labels = k-1", "n": 7 }));
    }
}
