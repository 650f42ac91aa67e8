//! One `[destination.NAME.tool.NAME]`.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::contract::{
    Contract, Locator, Lookup, LookupRequest, MarkerField, Meaning, Predicate, Recognised, ResponseRule,
};
use onceward_core::fingerprint::Comparison;
use onceward_core::key::{ToolName, ToolVersion};
use onceward_core::limits::ATTEMPTS_MAX;
use onceward_core::retry::RetryPolicy;
use toml::Spanned;
use toml::de::DeValue;

use super::build_destination::{Shared, contract_mistake, patience, read_file};
use super::{Surroundings, build_request};
use crate::amount::{AmountPlace, AmountText};
use crate::carrier::CarrierPlan;
use crate::config::{EffectPlace, Problems, RequestText, RetryText, TextTable, ToolText, table_of, take};
use crate::explain;
use crate::http::HttpDestination;
use crate::limits::ANSWER_WITHIN_MAX;
use crate::question::HttpQuestion;
use crate::schema::Schema;
use crate::template::Template;
use crate::tool::{Annotations, Effect, Mode, Target, Tool, sample_key};

/// A tool, and the key of its table.
pub(super) struct Built {
    pub(super) key: String,
    pub(super) tool: Tool,
}

/// Builds the tools of one destination. Without `shared` they are only checked.
pub(super) fn build_all(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    destination: &str,
    shared: Option<&Shared>,
    tools: Option<TextTable<'_>>,
) -> Vec<Built> {
    let mut built = Vec::new();
    for (key, value) in tools.into_iter().flatten() {
        let key = key.get_ref().to_string();
        let path = ["destination", destination, "tool", key.as_str()];
        match table_of(value) {
            Ok((table, _)) => {
                built.extend(build(problems, surroundings, &path, shared, table).map(|tool| Built { key, tool }));
            }
            Err(_) => problems.add(&path, "a tool is a table", "write [destination.NAME.tool.NAME] above its fields"),
        }
    }
    built
}

fn build(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    shared: Option<&Shared>,
    mut table: TextTable<'_>,
) -> Option<Tool> {
    let before = problems.count();
    let request_text = take(&mut table, "request");
    if request_text.is_none() {
        problems.add(path, "nothing says what is sent", "write request = { method = \"POST\", path = \"/…\" }");
    }
    let request_path = [path, &["request"]].concat();
    let request: Option<RequestText> = request_text.and_then(|text| problems.read(&request_path, text));
    let text: ToolText = problems.read(path, Spanned::new(0..0, DeValue::Table(table)))?;
    let parts = Parts::read(problems, surroundings, path, &text);
    let effect = if text.read { Effect::Read } else { Effect::Write };
    let shared = shared?;
    let additions = Additions {
        effect_id: text.effect_id.as_ref(),
        refused_if: text.refused_if.as_ref(),
        success_if: text.success_if.as_ref(),
        marker: text.marker.as_ref(),
        lookup: text.lookup.as_ref(),
    };
    let contract = contract(problems, path, &shared.contract, &additions, effect)?;
    let plan = match CarrierPlan::new(&contract) {
        Ok(plan) => plan,
        Err(error) => {
            let way_out =
                "use a contract whose first carrier is a header, a body field, a form field or a query parameter";
            problems.add(&[&path[..2], &["contract"]].concat(), error.to_string(), way_out);
            return None;
        }
    };
    let mapping = build_request::mapping(problems, &request_path, request?, effect, &plan, shared.host.auth.as_ref())?;
    let contract = build_request::without_marker(contract, &mapping);
    let answer_within =
        patience(problems, &[path, &["timeout"]].concat(), text.timeout, shared.answer_within, ANSWER_WITHIN_MAX);
    check_lookup(problems, path, &contract);
    let deadline = text.deadline.map(|deadline| deadline.duration());
    check_deadline(problems, path, &contract, deadline);
    check_retries(problems, path, &contract, deadline, &parts.retry, answer_within);
    check_key(problems, path, &contract, effect);
    let (name, version, schema, comparison) = (parts.name?, parts.version?, parts.schema?, parts.comparison?);
    let mut warnings = shared.warnings.clone();
    let description = text.description.unwrap_or_default();
    warnings.extend(explain::warnings(effect, &description, &schema, &mapping));
    let http = HttpDestination::new(Arc::clone(&shared.host), name.clone(), contract, plan, mapping.into());
    let tool = Tool {
        name,
        version,
        title: parts.title,
        description,
        schema,
        effect,
        comparison,
        business_key: text.business_key,
        without_identity: text.without_identity.unwrap_or_default(),
        approval: text.approval,
        mode: Mode::of(text.observe, shared.mode),
        amount: parts.amount,
        answer_within,
        deadline,
        retry: parts.retry,
        annotations: Annotations {
            title: text.annotations.title,
            destructive: text.annotations.destructive,
            open_world: text.annotations.open_world,
        },
        target: Target::Http(Arc::new(http)),
        warnings,
    };
    (problems.count() == before).then_some(tool)
}

/// What needs nothing of the destination.
struct Parts {
    name: Option<ToolName>,
    version: Option<ToolVersion>,
    title: Option<Template>,
    schema: Option<Schema>,
    comparison: Option<Comparison>,
    retry: RetryPolicy,
    amount: Option<AmountPlace>,
}

impl Parts {
    fn read(problems: &mut Problems<'_>, surroundings: &Surroundings<'_>, path: &[&str], text: &ToolText) -> Self {
        let key = path.last().copied().unwrap_or_default();
        let name = ToolName::parse(text.name.as_deref().unwrap_or(key));
        let name = recorded(problems, &[path, &["name"]].concat(), name, "use letters, digits, '-', '_' and '.'");
        let version = ToolVersion::parse(text.version.as_deref().unwrap_or("1"));
        let version = recorded(problems, &[path, &["version"]].concat(), version, "write version = \"1\"");
        let title = text.title.as_deref().and_then(|title| {
            let way_out = "a placeholder is written {/field}, and a brace {{ or }}";
            recorded(problems, &[path, &["title"]].concat(), Template::parse(title, &[]), way_out)
        });
        let comparison = Comparison::new(text.free_text.clone(), text.volatile.clone());
        let comparison = recorded(problems, &[path, &["free_text"]].concat(), comparison, "");
        let schema = schema(problems, surroundings, path, text);
        let retry = retry(problems, path, &text.retry);
        let amount = amount(problems, path, text.amount.as_ref());
        Self { name, version, title, schema, comparison, retry, amount }
    }
}

pub(super) fn recorded<T, E: std::fmt::Display>(
    problems: &mut Problems<'_>,
    path: &[&str],
    result: Result<T, E>,
    way_out: &str,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            problems.add(path, error.to_string(), way_out);
            None
        }
    }
}

fn schema(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    text: &ToolText,
) -> Option<Schema> {
    let (place, document) = match (&text.schema, &text.schema_file) {
        (Some(_), Some(_)) => {
            problems.add(&[path, &["schema_file"]].concat(), "the schema is given twice", "keep schema or schema_file");
            return None;
        }
        (Some(schema), None) => ("schema", schema.clone()),
        (None, Some(file)) => {
            let path = [path, &["schema_file"]].concat();
            let content = read_file(problems, surroundings, &path, file)?;
            match serde_json::from_str(&content) {
                Ok(document) => ("schema_file", document),
                Err(error) => {
                    problems.add(&path, format!("{file} is no JSON: {error}"), "");
                    return None;
                }
            }
        }
        (None, None) => return recorded(problems, path, Schema::any_object(), ""),
    };
    recorded(problems, &[path, &[place]].concat(), Schema::compile(document), "")
}

/// Where the amount of a call stands, if that is said.
pub(super) fn amount(problems: &mut Problems<'_>, path: &[&str], text: Option<&AmountText>) -> Option<AmountPlace> {
    let way_out = "write amount = { value = \"/amount\", currency = \"/currency\" }";
    recorded(problems, &[path, &["amount"]].concat(), text?.read(), way_out)
}

pub(super) fn retry(problems: &mut Problems<'_>, path: &[&str], text: &RetryText) -> RetryPolicy {
    let usual = RetryPolicy::default();
    let policy = RetryPolicy {
        attempts_max: text.attempts_max.unwrap_or(usual.attempts_max),
        transport_base: text.transport_base.unwrap_or(usual.transport_base),
        throttle_base: text.throttle_base.unwrap_or(usual.throttle_base),
        cap: text.cap.unwrap_or(usual.cap),
    };
    if !(1..=ATTEMPTS_MAX).contains(&policy.attempts_max) {
        let way_out = format!("write a number from 1 to {ATTEMPTS_MAX}");
        problems.add(&[path, &["retry", "attempts_max"]].concat(), "that many attempts cannot be made", way_out);
    }
    policy
}

/// What a tool says of its own request.
#[derive(Default)]
pub(super) struct Additions<'a> {
    pub(super) effect_id: Option<&'a EffectPlace>,
    pub(super) refused_if: Option<&'a Predicate>,
    pub(super) success_if: Option<&'a Predicate>,
    pub(super) marker: Option<&'a MarkerField>,
    pub(super) lookup: Option<&'a Lookup>,
}

/// The destination's contract with what the tool says of its own request.
pub(super) fn contract(
    problems: &mut Problems<'_>,
    path: &[&str],
    contract: &Contract,
    text: &Additions<'_>,
    effect: Effect,
) -> Option<Contract> {
    let mut contract = match effect {
        Effect::Write => contract.clone(),
        // A read carries no key and leaves nothing to be found.
        Effect::Read => Contract::promising_nothing(&contract.id),
    };
    let changed = text.effect_id.is_some()
        || text.refused_if.is_some()
        || text.success_if.is_some()
        || text.marker.is_some()
        || text.lookup.is_some();
    match text.effect_id {
        Some(EffectPlace::Pointer(at)) => contract.effect.id = Some(Locator::Body(at.clone())),
        Some(EffectPlace::Locator(at)) => contract.effect.id = Some(at.clone()),
        None => {}
    }
    contract.refused_if = text.refused_if.cloned().or(contract.refused_if);
    contract.marker = text.marker.cloned().or(contract.marker);
    contract.lookup = text.lookup.cloned().or(contract.lookup);
    if let Some(when) = text.success_if {
        contract.responses.push(ResponseRule { when: when.clone(), is: Meaning::Confirmed });
    }
    match contract.validate() {
        Err(error) if changed => {
            contract_mistake(problems, path, &error, |place| match place {
                "responses" => "success_if",
                "effect.id" => "effect_id",
                other => other,
            });
            None
        }
        // What is wrong with the destination's own contract has been said there.
        Ok(()) | Err(_) => Some(contract),
    }
}

/// An operation that may still be sent when the destination has forgotten its key would be done twice.
pub(super) fn check_deadline(
    problems: &mut Problems<'_>,
    path: &[&str],
    contract: &Contract,
    deadline: Option<Duration>,
) {
    match (contract.horizon.recognised(), deadline) {
        (Recognised::For(recognised), Some(deadline)) if contract.key.is_some() && deadline >= recognised => {
            problems.add(
                &[path, &["deadline"]].concat(),
                format!("the destination surely recognises a key for {} s only", recognised.as_secs()),
                "write a shorter deadline",
            );
        }
        (Recognised::For(_) | Recognised::Always | Recognised::Never, Some(_) | None) => {}
    }
}

/// Without a deadline an operation is tried for as long as its retries last, and that must end before the destination forgets
/// the key as well.
pub(super) fn check_retries(
    problems: &mut Problems<'_>,
    path: &[&str],
    contract: &Contract,
    deadline: Option<Duration>,
    retry: &RetryPolicy,
    answer_within: Duration,
) {
    let longest = retry.longest(answer_within);
    match (contract.horizon.recognised(), deadline) {
        (Recognised::For(recognised), None) if contract.key.is_some() && longest >= recognised => {
            problems.add(
                &[path, &["retry"]].concat(),
                format!(
                    "its attempts can take {} s, and the destination surely recognises a key for {} s only",
                    longest.as_secs(),
                    recognised.as_secs()
                ),
                "write deadline = \"…\", fewer retry.attempts_max, a shorter retry.cap or a shorter timeout",
            );
        }
        (Recognised::For(_) | Recognised::Always | Recognised::Never, Some(_) | None) => {}
    }
}

/// A lookup that cannot be asked would leave every lost reply to a person, though `check` promised otherwise.
fn check_lookup(problems: &mut Problems<'_>, path: &[&str], contract: &Contract) {
    let Some(lookup) = &contract.lookup else { return };
    let path = [path, &["lookup"]].concat();
    if let LookupRequest::Tool { .. } = &lookup.request {
        problems.add(
            &path,
            "an HTTP destination is asked by a request, not by a tool",
            "write lookup = { path = \"/…\" }",
        );
    }
    if let Err(why) = HttpQuestion::parse(&lookup.request) {
        let way_out = format!(
            "a field of the arguments is written {{/field}}; beside these a lookup may name {}",
            crate::question::NAMES.map(|name| format!("{{{name}}}")).join(", ")
        );
        problems.add(&[&path[..], &[why.field]].concat(), why.to_string(), way_out);
    }
}

/// Whether the keys that the ledger makes fit the destination.
pub(super) fn check_key(problems: &mut Problems<'_>, path: &[&str], contract: &Contract, effect: Effect) {
    let (Some(rules), Some(key), Effect::Write) = (&contract.key, sample_key(), effect) else { return };
    let way_out = "use another carrier in the contract, or contract = \"none\"";
    recorded(problems, &[&path[..2], &["contract"]].concat(), rules.written(&key), way_out);
}
