//! The contracts that are tried, and how the gateway is configured before each.

use std::path::Path;

use anyhow::{Context, Result};
use onceward_core::contract::{Contract, built_in};
use serde_json::{Value, json};

/// A contract, and where its writes go.
#[derive(Debug)]
pub(super) struct Family {
    /// Its name in the matrix: the contract's id, and what was completed in it.
    pub(super) name: &'static str,
    /// The contract of the catalog.
    base: &'static str,
    /// What whoever runs the destination adds to it, as JSON.
    completed: &'static str,
    path: &'static str,
    shape: Shape,
    /// Whether its lookup can prove that nothing happened.
    pub(super) absence: Absence,
}

/// How its writes look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The arguments as JSON.
    Flat,
    /// The arguments as a form.
    Form,
    /// This body, as a TOML table.
    Body(&'static str),
    /// The arguments as JSON, in two attempts that are over soon.
    Brief,
    /// A page that is overwritten if nobody has written it since.
    Page,
}

/// What finding nothing proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    Nothing,
    Proof,
}

const fn family(name: &'static str, completed: &'static str, path: &'static str, shape: Shape) -> Family {
    Family { name, base: name, completed, path, shape, absence: Absence::Nothing }
}

const fn variant(
    name: &'static str,
    base: &'static str,
    completed: &'static str,
    path: &'static str,
    shape: Shape,
) -> Family {
    Family { name, base, completed, path, shape, absence: Absence::Nothing }
}

/// Shows things after a second, so that nobody waits for a minute.
const SOON: &str = r#"{"lookup":{"visibility_delay":"1s"}}"#;
const GOCARDLESS: Shape = Shape::Body(r#"{ payments = { amount = "{/amount}", currency = "{/currency}" } }"#);
const ZENDESK: Shape = Shape::Body(r#"{ ticket = { subject = "{/subject}", comment = { body = "x" } } }"#);
const JIRA: Shape = Shape::Body(r#"{ fields = { summary = "{/summary}", labels = ["x"] } }"#);
const GITHUB: Shape = Shape::Body(r#"{ title = "{/title}", body = "It burns." }"#);

/// The two of Amazon's are missing: their requests are signed by the vendor's own client, and no gateway can make them.
pub(super) const FAMILIES: &[Family] = &[
    family("stripe.v1", SOON, "/v1/payment_intents", Shape::Form),
    family("stripe.v2", "{}", "/v2/core/accounts", Shape::Flat),
    variant(
        "stripe.v2 + in flight",
        "stripe.v2",
        r#"{"in_flight":{"behaviour":"rejects","statuses":[409]},"provenance":{"confidence":"operated","parts":{"in_flight":"operated"}}}"#,
        "/v2/core/accounts",
        Shape::Flat,
    ),
    family("paypal.orders.v2", "{}", "/v2/checkout/orders", Shape::Flat),
    family("square.payments", "{}", "/v2/payments", Shape::Flat),
    family("gocardless", "{}", "/payments", GOCARDLESS),
    variant(
        "gocardless + in flight",
        "gocardless",
        r#"{"in_flight":{"behaviour":"rejects","statuses":[409],"when":{"body_equals":{"at":"/error/code","value":"in_flight"}}},
            "execution":{"effect_atomic_with_key":true},
            "provenance":{"confidence":"operated","parts":{"in_flight":"operated","scope":"operated",
            "execution":"operated","horizon":"operated"}}}"#,
        "/payments",
        GOCARDLESS,
    ),
    family("increase", SOON, "/account_transfers", Shape::Flat),
    family("zendesk", SOON, "/api/v2/tickets", ZENDESK),
    family("resend", SOON, "/emails", Shape::Flat),
    family("github", SOON, "/repos/acme/shop/issues", GITHUB),
    family("jira", SOON, "/rest/api/3/issue", JIRA),
    family("svix", SOON, "/api/v1/app/acme/msg", Shape::Flat),
    family("acp.checkout", "{}", "/checkout_sessions", Shape::Flat),
    variant(
        "acp.checkout + atomic",
        "acp.checkout",
        r#"{"execution":{"effect_atomic_with_key":true},"provenance":{"confidence":"operated","parts":{"execution":"operated"}}}"#,
        "/checkout_sessions",
        Shape::Flat,
    ),
    family("oasis.repeatable", "{}", "/rooms", Shape::Flat),
    variant(
        "oasis.repeatable + atomic",
        "oasis.repeatable",
        r#"{"execution":{"effect_atomic_with_key":true},"provenance":{"confidence":"operated","parts":{"execution":"operated"}}}"#,
        "/rooms",
        Shape::Flat,
    ),
    family("ietf.idempotency_key", "{}", "/things", Shape::Flat),
    family("generic.success_only", "{}", "/things", Shape::Flat),
    family("generic.lookup_only", SOON, "/things", Shape::Flat),
    Family {
        absence: Absence::Proof,
        ..variant(
            "generic.lookup_only + bound",
            "generic.lookup_only",
            r#"{"in_flight":{"bound":"1s"},
                "lookup":{"visibility_delay":"1s","consistency":"eventual","absence_is_proof":"after_bound","list_may_be_cut":false},
                "provenance":{"confidence":"operated","parts":{"in_flight":"operated","lookup":"operated","marker":"operated"}}}"#,
            "/things",
            Shape::Flat,
        )
    },
    family("none", "{}", "/things", Shape::Flat),
    variant(
        "none + precondition",
        "none",
        r#"{"precondition":{"header":"If-Match"},"provenance":{"confidence":"operated","parts":{"precondition":"operated"}}}"#,
        "/pages/*",
        Shape::Page,
    ),
];

/// Variants that are no lines of the matrix: each is for one question.
const ASIDE: &[Family] = &[
    variant(
        "acp.checkout + account and region",
        "acp.checkout",
        r#"{"scope":{"dimensions":["account","region"]},"execution":{"effect_atomic_with_key":true},
            "provenance":{"confidence":"operated","parts":{"execution":"operated","scope":"operated"}}}"#,
        "/checkout_sessions",
        Shape::Flat,
    ),
    // Long enough that a gateway that is started again at once is in time, and that its attempts fit in.
    variant(
        "acp.checkout + short horizon",
        "acp.checkout",
        r#"{"horizon":{"kind":"fixed","min":"14s","margin":"4s"},"execution":{"effect_atomic_with_key":true},
            "provenance":{"confidence":"operated","parts":{"execution":"operated","horizon":"operated"}}}"#,
        "/checkout_sessions",
        Shape::Brief,
    ),
];

/// The family of that name.
pub(super) fn family_named(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().chain(ASIDE).find(|family| family.name == name)
}

impl Family {
    /// Its name as a name of destinations, tools and files.
    pub(super) fn slug(&self) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        self.name.replace(" + ", "_with_").chars().map(word).collect()
    }

    /// Where faults meet its writes.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// The contract as a file of TOML.
    pub(super) fn contract(&self) -> Result<String> {
        let base = built_in()?.into_iter().find(|contract| contract.id == self.base);
        let mut contract = serde_json::to_value(base.with_context(|| format!("no contract {}", self.base))?)?;
        merge(&mut contract, &serde_json::from_str(self.completed)?);
        let contract: Contract = serde_json::from_value(contract)?;
        Ok(toml::to_string(&contract)?)
    }

    /// The tables of the gateway's configuration.
    pub(super) fn tables(&self, url: &str, contract: &Path, token: &Path) -> Result<String> {
        let parsed = Contract::parse(&std::fs::read_to_string(contract)?)?;
        let dimensions: Vec<String> = parsed
            .scope
            .dimensions
            .iter()
            .filter(|dimension| !matches!(dimension.as_str(), "account" | "endpoint"))
            .map(|dimension| format!("{dimension:?} = \"test\""))
            .collect();
        let slug = self.slug();
        let request = match self.shape {
            Shape::Flat | Shape::Brief => {
                format!("{{ method = \"POST\", path = {:?}, body = \"arguments\" }}", self.path)
            }
            Shape::Form => {
                format!("{{ method = \"POST\", path = {:?}, body = \"arguments\", encoding = \"form\" }}", self.path)
            }
            Shape::Body(body) => format!("{{ method = \"POST\", path = {:?}, body = {body} }}", self.path),
            Shape::Page => "{ method = \"PUT\", path = \"/pages/{/title}\", body = \"arguments\", \
                            headers = { If-Match = \"{/version}\" } }"
                .to_owned(),
        };
        let retry = match self.shape {
            Shape::Brief => "retry = { attempts_max = 2, cap = \"100ms\" }\n",
            Shape::Flat | Shape::Form | Shape::Body(_) | Shape::Page => "",
        };
        Ok(format!(
            "\n[destination.{slug}]\nurl = {url:?}\ncontract = {contract:?}\naccount = \"acme\"\nscope = {{ {} }}\n\
             auth = {{ bearer = {token:?} }}\nconnect_timeout = \"2s\"\ntimeout = \"4s\"\n\n[destination.{slug}.tool.{slug}]\n\
             description = \"Writes to {slug}.\"\nschema = {{ type = \"object\" }}\nrequest = {request}\n{retry}",
            dimensions.join(", "),
            token = format!("file:{}", token.display()),
        ))
    }

    /// The arguments of a call. Each operation has others, so that no effect can be taken for another's.
    pub(super) fn arguments(&self, operation: &str, amount: u32) -> Value {
        let mut arguments = json!({
            "amount": amount, "currency": "eur", "title": operation, "summary": operation, "subject": operation,
            "to": "ines@example.com", "eventType": "thing.made",
        });
        if self.shape == Shape::Page {
            arguments["version"] = "\"0\"".into();
        }
        arguments
    }
}

/// RFC 7396, without removals.
fn merge(document: &mut Value, changes: &Value) {
    match changes {
        Value::Object(members) => {
            if !document.is_object() {
                *document = json!({});
            }
            for (name, value) in members {
                merge(&mut document[name], value);
            }
        }
        other => *document = other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_a_contract_that_can_be_written_and_read() {
        for family in FAMILIES.iter().chain(ASIDE) {
            let text = family.contract().expect(family.name);
            let read = Contract::parse(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", family.name));
            assert_eq!(read.id, family.base);
        }
    }

    #[test]
    fn every_contract_of_the_catalog_that_a_gateway_can_send_is_tried() {
        for contract in built_in().expect("the catalog") {
            let signed = contract.id.starts_with("aws.");
            assert_eq!(FAMILIES.iter().any(|family| family.name == contract.id), !signed, "{}", contract.id);
        }
    }
}
