//! `[destination.NAME.webhook]`: how its events are signed, and what they say.

use onceward_core::contract::{Compare, Predicate, Recognise, Span};
use onceward_core::pointer::Pointer;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::Surroundings;
use super::build_destination::patience;
use crate::config::Problems;
use crate::limits::{WEBHOOK_SECRETS_MAX, WEBHOOK_TOLERANCE, WEBHOOK_TOLERANCE_MAX};
use crate::secrets::{self, SecretReference};
use crate::webhook::{Kind, Rules, Webhook, WebhookSecret};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookText {
    kind: Kind,
    secrets: Vec<String>,
    tolerance: Option<Span>,
    effect_if: Option<Predicate>,
    refused_if: Option<Predicate>,
    #[serde(default)]
    recognise: Vec<Recognise>,
    handle: Option<Pointer>,
    #[serde(default)]
    compare: Vec<Compare>,
    effect_id: Option<Pointer>,
    answer: Option<Pointer>,
}

/// Builds a destination's webhook. Each mistake is recorded.
pub(super) fn build(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    destination: &str,
    written: Spanned<DeValue<'_>>,
) -> Option<Webhook> {
    let path = ["destination", destination, "webhook"];
    let text: WebhookText = problems.read(&path, written)?;
    let at = |field: &'static str| [&path[..], &[field]].concat();
    let tolerance = patience(problems, &at("tolerance"), text.tolerance, WEBHOOK_TOLERANCE, WEBHOOK_TOLERANCE_MAX);
    let secrets = read_secrets(problems, surroundings, &at("secrets"), text.kind, &text.secrets);
    if text.effect_if.is_none() && text.refused_if.is_none() {
        let way_out =
            "write effect_if = { body_equals = { at = \"/type\", value = \"order.created\" } }, or refused_if";
        problems.add(&path, "nothing says which events speak of an effect", way_out);
    }
    for (field, rule) in [("effect_if", &text.effect_if), ("refused_if", &text.refused_if)] {
        if rule.as_ref().is_some_and(Predicate::is_vacuous) {
            problems.add(&at(field), "this holds for every event or for none", "name a value that tells events apart");
        }
    }
    if text.recognise.is_empty() && text.handle.is_none() {
        let way_out = "write recognise = [{ at = \"/data/reference\" }], or handle = \"/data/job\" for accepted work";
        problems.add(&path, "nothing says by what an event names an operation", way_out);
    }
    let rules = Rules {
        effect_if: text.effect_if,
        refused_if: text.refused_if,
        recognise: text.recognise,
        handle: text.handle,
        compare: text.compare,
        effect_id: text.effect_id,
        answer: text.answer,
    };
    Some(Webhook { destination: destination.to_owned(), kind: text.kind, secrets, tolerance, rules })
}

fn read_secrets(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    kind: Kind,
    references: &[String],
) -> Vec<WebhookSecret> {
    if !(1..=WEBHOOK_SECRETS_MAX).contains(&references.len()) {
        let way_out = format!("name 1 to {WEBHOOK_SECRETS_MAX}, the old one beside the new one while it is exchanged");
        problems.add(path, "an event is verified with at least one secret", way_out);
    }
    let mut secrets = Vec::new();
    for reference in references.iter().take(WEBHOOK_SECRETS_MAX) {
        // What is wrong with it must not repeat it: it may be the secret itself.
        let read = reference
            .parse::<SecretReference>()
            .map_err(|error| error.to_string())
            .and_then(|reference| {
                let secret = secrets::read(&reference, surroundings.base_dir, surroundings.secrets);
                secret.map_err(|error| error.to_string())
            })
            .and_then(|secret| {
                let reference = secret.reference().clone();
                WebhookSecret::parse(kind, secret.expose()).map_err(|error| format!("{reference}: {error}"))
            });
        match read {
            Ok(secret) => secrets.push(secret),
            Err(problem) => problems.add(path, problem, ""),
        }
    }
    secrets
}
