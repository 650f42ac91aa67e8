//! Reads at a spoken interface: one thing, a list of them, and the questions that the contract's lookup asks.

use axum::http::StatusCode;
use onceward_core::contract::{Consistency, Lookup, LookupRequest, Match};
use onceward_core::pointer::Pointer;
use serde_json::{Value, json};

use super::answers;
use super::draft::{Draft, put};
use super::requests::{Asked, decoded, pairs};
use super::things::{Vendor, in_thing};
use super::versions::{Held, Holdings};
use crate::sandbox::clock::span_us;
use crate::sandbox::limits::{LIST_ROWS_DEFAULT, LIST_ROWS_MAX};
use crate::sandbox::problem::Answer;
use crate::sandbox::state::Shared;
use crate::sandbox::store::{Effect, StoreError};
use crate::sandbox::visit::Visit;

/// Rows of a Stripe list when the caller names no limit, and at most.
const STRIPE_ROWS: (usize, usize) = (10, 100);

/// Answers a read.
pub(super) fn read(shared: &Shared, visit: &Visit, asked: &Asked<'_>) -> Result<Answer, StoreError> {
    let (caller, parameters) = match (&asked.caller, &asked.body) {
        (Err(refusal), _) | (_, Err(refusal)) => return Ok((**refusal).clone()),
        (Ok(caller), Ok(parameters)) => (caller, parameters),
    };
    let held = Holdings::of(shared, &caller.world())?;
    let reading = Reading { asked, parameters, held: &held, now_us: shared.clock.now_us(), visit };
    Ok(reading.answer())
}

struct Reading<'a> {
    asked: &'a Asked<'a>,
    parameters: &'a Value,
    held: &'a Holdings,
    now_us: i64,
    visit: &'a Visit,
}

/// How soon a list shows what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// At once, unless the sandbox's own setting delays lists.
    AtOnce,
    /// After the delay that the contract's lookup has.
    Late,
}

impl Reading<'_> {
    fn answer(&self) -> Answer {
        if let Some(wanted) = self.asked.family.lookup.as_ref().and_then(|lookup| self.wanted(lookup)) {
            return self.looked_up(&wanted);
        }
        let path = self.asked.collection.as_str();
        if let Some(collection) = path.strip_suffix("/search") {
            return self.searched(collection);
        }
        let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(effect) = self.held.newest(last) {
            return answers::success(self.asked.family, StatusCode::OK, effect);
        }
        if is_a_name(last) || !self.held.made_at(before).is_empty() {
            return Answer::not_found(last);
        }
        let found = self.held.made_at(path).into_iter().filter(|held| self.is_asked_for(held)).collect();
        self.list(found, Shown::AtOnce, "list")
    }

    /// What the contract's lookup asks for, if this is that question.
    fn wanted(&self, lookup: &Lookup) -> Option<Vec<(String, String)>> {
        let LookupRequest::Http { method, path, query, body } = &lookup.request else { return None };
        if method != self.asked.parts.method.as_str() {
            return None;
        }
        let mut wanted = captures(path, self.asked.parts.uri.path())?;
        for (name, template) in query {
            // A parameter whose placeholder has no value is left out by whoever asks.
            let said = self.asked.query.iter().find(|(known, _)| known == name);
            if let Some((_, said)) = said {
                wanted.extend(captures(template, said)?);
            }
        }
        if let Some(body) = body {
            captures_in(body, self.parameters, &mut wanted)?;
        }
        let names = |placeholder: &str| matches!(placeholder, "marker" | "key" | "handle");
        // A list without any of these is an ordinary list, and is read as one.
        wanted.iter().any(|(placeholder, _)| names(placeholder)).then_some(wanted)
    }

    fn looked_up(&self, wanted: &[(String, String)]) -> Answer {
        let fits = |held: &Held<'_>| {
            wanted.iter().all(|(placeholder, text)| match placeholder.as_str() {
                "marker" | "key" => self.carries(held.made, text),
                "handle" => text.rsplit('/').next() == Some(held.made.id().as_str()),
                _ => true,
            })
        };
        let found: Vec<Held<'_>> = self.held.everything().into_iter().filter(fits).collect();
        match self.asked.family.lookup.as_ref() {
            Some(lookup) if lookup.items.is_none() => {
                let visible = found.iter().find(|held| self.is_visible(held.made, Shown::Late));
                match visible {
                    Some(held) => answers::success(self.asked.family, StatusCode::OK, held.now),
                    None => absent(lookup),
                }
            }
            Some(_) | None => self.list(found, Shown::Late, "list"),
        }
    }

    /// Whether the effect is recognised by this key or marker.
    fn carries(&self, effect: &Effect, text: &str) -> bool {
        let recognised = self.asked.family.lookup.iter().flat_map(|lookup| &lookup.recognise).any(|recognise| {
            in_thing(self.asked.family, &recognise.at).get(effect.thing()).is_some_and(|value| {
                match (recognise.how, value) {
                    (Match::Equals, Value::String(known)) => known == text,
                    (Match::Contains, Value::String(known)) => known.contains(text),
                    (Match::Contains | Match::Element, Value::Array(elements)) => {
                        elements.iter().any(|element| element == text)
                    }
                    (Match::Equals | Match::Contains | Match::Element, _) => false,
                }
            })
        });
        recognised
            || effect.idempotency_key.as_deref() == Some(text)
            || effect.marker.as_deref().is_some_and(|marker| marker.contains(text))
    }

    /// Stripe's search by metadata: `metadata['order']:'6735'`. It shows things late, unlike its lists.
    fn searched(&self, collection: &str) -> Answer {
        let query = self.asked.query.iter().find(|(name, _)| name == "query").map(|(_, value)| value.as_str());
        let clause = query.and_then(|query| {
            let (field, value) = query.split_once(':')?;
            let field = field.trim().strip_prefix("metadata[")?.strip_suffix(']')?;
            let bare = |text: &str| text.trim().trim_matches(|quote| quote == '\'' || quote == '"').to_owned();
            Some((bare(field), bare(value)))
        });
        let Some((field, value)) = clause else {
            let detail = "A query is metadata['name']:'value'.";
            return Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail);
        };
        let fits = |held: &Held<'_>| held.now.thing()["metadata"][&field] == value.as_str();
        self.list(self.held.made_at(collection).into_iter().filter(fits).collect(), Shown::Late, "search_result")
    }

    fn is_visible(&self, effect: &Effect, shown: Shown) -> bool {
        let delay_us = match (shown, self.asked.family.lookup.as_ref()) {
            (Shown::Late, Some(lookup)) => match (lookup.consistency, lookup.visibility_delay) {
                (Consistency::Strong, _) | (_, None) => 0,
                (
                    Consistency::StrongPresumed | Consistency::Mixed | Consistency::Eventual | Consistency::Unknown,
                    Some(delay),
                ) => i64::try_from(delay.duration().as_micros()).unwrap_or(i64::MAX),
            },
            (Shown::Late, None) | (Shown::AtOnce, _) => 0,
        };
        let delay_us = delay_us.max(span_us(self.visit.contract.list_visibility_ms));
        effect.created_at_us <= self.now_us.saturating_sub(delay_us)
    }

    /// Whether a thing is what the query asks for: Stripe's filters of time, and any parameter that is a field of the thing.
    fn is_asked_for(&self, held: &Held<'_>) -> bool {
        self.asked.query.iter().all(|(name, value)| {
            let created = held.made.created_at_us / 1_000_000;
            match (name.as_str(), seconds(value)) {
                ("created[gte]" | "since", Some(at)) => created >= at,
                ("created[gt]", Some(at)) => created > at,
                ("created[lte]", Some(at)) => created <= at,
                ("created[lt]", Some(at)) => created < at,
                _ => match held.now.thing().get(name) {
                    Some(Value::String(text)) => text == value,
                    Some(Value::Number(number)) => number.to_string() == *value,
                    Some(_) | None => true,
                },
            }
        })
    }

    fn list(&self, found: Vec<Held<'_>>, shown: Shown, object: &str) -> Answer {
        let said =
            |name: &str| self.asked.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let vendor = Vendor::of(self.asked.family);
        let (usual, max) = match vendor {
            Vendor::StripeForms => STRIPE_ROWS,
            Vendor::Any => (LIST_ROWS_DEFAULT, LIST_ROWS_MAX),
        };
        let limit =
            said("limit").or_else(|| said("page_size")).and_then(|limit| limit.parse().ok()).unwrap_or(usual).min(max);
        let visible: Vec<&Value> =
            found.iter().filter(|held| self.is_visible(held.made, shown)).map(|held| held.now.thing()).collect();
        let after = said("starting_after").or_else(|| said("cursor"));
        let start =
            after.and_then(|after| found.iter().position(|held| held.made.id() == after)).map_or(0, |at| at + 1);
        let page: Vec<Value> = visible.iter().skip(start).take(limit).map(|thing| (*thing).clone()).collect();
        let has_more = visible.len() > start + page.len();
        let mut draft = Draft { status: StatusCode::OK.as_u16(), headers: Vec::new(), body: json!({}) };
        let lookup = self.asked.family.lookup.as_ref();
        let items =
            lookup.and_then(|lookup| lookup.items.clone()).or_else(|| Pointer::parse("/data").ok()).unwrap_or_default();
        if vendor == Vendor::StripeForms {
            draft.body = json!({ "object": object, "url": self.asked.collection, "data": [] });
        }
        if !items.is_root() {
            put(&mut draft.body, &Pointer::parse("/has_more").unwrap_or_default(), has_more.into());
        }
        put(&mut draft.body, &items, Value::Array(page));
        match lookup.and_then(|lookup| lookup.whole_if.as_ref()) {
            Some(whole) if has_more => draft.contradict(whole),
            Some(whole) => draft.satisfy(whole, &Pointer::root()),
            None => {}
        }
        answers::answer(draft)
    }
}

fn absent(lookup: &Lookup) -> Answer {
    let status = lookup.absent_statuses.first().and_then(|status| StatusCode::from_u16(*status).ok());
    Answer::problem(status.unwrap_or(StatusCode::NOT_FOUND), "not_found", "There is no such thing.")
}

/// A time of a filter: Unix seconds, or RFC 3339.
fn seconds(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_second()))
}

/// Whether a path's last part looks like a name that the sandbox gives: letters, an underscore, a number.
fn is_a_name(text: &str) -> bool {
    text.rsplit_once('_').is_some_and(|(_, number)| number.parse::<u64>().is_ok())
}

/// What stands in the places of a template's placeholders, if the text has its form.
pub(super) fn captures(template: &str, text: &str) -> Option<Vec<(String, String)>> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let (template, wanted) = template.split_once('?').unwrap_or((template, ""));
    let mut found = captures_of(template, path)?;
    for (name, template) in pairs(wanted) {
        let said = pairs(query).into_iter().find(|(known, _)| *known == name)?.1;
        found.extend(captures_of(&template, &said)?);
    }
    Some(found)
}

fn captures_of(template: &str, text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let (mut template, mut text) = (template, text);
    while let Some((before, rest)) = template.split_once('{') {
        let (name, after) = rest.split_once('}')?;
        text = text.strip_prefix(before)?;
        let next = after.split('{').next().unwrap_or_default();
        let end = match (next, name) {
            ("", _) if after.is_empty() => text.len(),
            ("", _) => return None,
            // The path of a write has as many parts as it has; every other placeholder has one.
            (next, "path") => text.rfind(next)?,
            (next, _) => text.find(next)?,
        };
        if end == 0 {
            return None;
        }
        found.push((name.to_owned(), decoded(&text[..end])));
        (template, text) = (after, &text[end..]);
    }
    (template == text).then_some(found)
}

/// The same in a body whose texts are templates.
fn captures_in(template: &Value, said: &Value, found: &mut Vec<(String, String)>) -> Option<()> {
    match (template, said) {
        (Value::String(template), Value::String(said)) => found.extend(captures_of(template, said)?),
        (Value::Object(members), Value::Object(_)) => {
            for (name, value) in members {
                captures_in(value, said.get(name)?, found)?;
            }
        }
        (Value::Array(elements), Value::Array(said)) => {
            for (template, said) in elements.iter().zip(said) {
                captures_in(template, said, found)?;
            }
        }
        (other, said) if other == said => {}
        (_, _) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_finds_what_stands_in_its_places() {
        let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(captures("/orders/{handle}", "/orders/ord_1"), Some(one("handle", "ord_1")));
        assert_eq!(captures("labels = {marker} and x", "labels = m-1 and x"), Some(one("marker", "m-1")));
        assert_eq!(captures("/orders/{handle}", "/orders"), None);
        assert_eq!(captures("/orders", "/orders"), Some(Vec::new()));
        let below = vec![("path".to_owned(), "/app/a/msg".to_owned()), ("marker".to_owned(), "m-1".to_owned())];
        assert_eq!(captures("{path}/{marker}", "/app/a/msg/m-1"), Some(below));
        assert_eq!(captures("/q?ref={key}", "/q?ref=a%20b"), Some(one("key", "a b")));
    }
}
