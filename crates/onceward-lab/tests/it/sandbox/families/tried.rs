//! A contract under test, and requests as its callers make them.

use onceward_core::contract::{
    Carrier, CompanionValue, Contract, Encoding, Locator, Match, Place, Predicate, SameInput, Seen, built_in,
};
use onceward_core::pointer::Pointer;
use onceward_lab::sandbox::SandboxContract;
use serde_json::{Value, json};

use super::super::{Ask, Reply, TestSandbox};

pub(super) const KEY: &str = "01234567-89ab-4def-8123-456789abcdef";
pub(super) const OTHER_KEY: &str = "11234567-89ab-4def-8123-456789abcdef";
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Where a contract's write goes, and which object around its parameters it wants.
pub(super) fn endpoint(id: &str) -> (&'static str, Option<&'static str>) {
    match id {
        "stripe.v1" => ("/v1/payment_intents", None),
        "stripe.v2" => ("/v2/core/accounts", None),
        "paypal.orders.v2" => ("/v2/checkout/orders", None),
        "square.payments" => ("/v2/payments", None),
        "gocardless" => ("/payments", Some("payments")),
        "increase" => ("/account_transfers", None),
        "zendesk" => ("/api/v2/tickets", Some("ticket")),
        "resend" => ("/emails", None),
        "github" => ("/repos/acme/shop/issues", None),
        "jira" => ("/rest/api/3/issue", Some("fields")),
        "svix" => ("/api/v1/app/acme/msg", None),
        "acp.checkout" => ("/checkout_sessions", None),
        _ => ("/things", None),
    }
}

/// A contract under test: a sandbox that speaks it, and a caller that knows where its key and marker go.
pub(super) struct Tried {
    pub(super) contract: Contract,
    pub(super) sandbox: TestSandbox,
    pub(super) path: &'static str,
    first_sent: String,
}

pub(super) fn catalog() -> Vec<Contract> {
    built_in().expect("the catalog")
}

impl Tried {
    pub(super) async fn start(contract: &Contract) -> Self {
        let sandbox = TestSandbox::start(SandboxContract::speaking(contract.clone())).await;
        let (path, _) = endpoint(&contract.id);
        let now: jiff::Timestamp =
            sandbox.get("/admin/clock").await["now"].as_str().expect("a time").parse().expect("a time");
        let first_sent = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).expect("a date");
        Self { contract: contract.clone(), sandbox, path, first_sent }
    }

    /// A write of this amount, with the key and whatever travels with it.
    pub(super) fn write(&self, key: Option<&str>, amount: u32) -> Ask {
        self.write_marked(key, key, amount)
    }

    pub(super) fn write_marked(&self, key: Option<&str>, marker: Option<&str>, amount: u32) -> Ask {
        let mut body = json!({ "amount": amount, "currency": "EUR", "title": "A thing" });
        if let (_, Some(around)) = endpoint(&self.contract.id) {
            body = json!({ around: body });
        }
        if let (Some(field), Some(marker)) = (&self.contract.marker, marker) {
            let value = match field.how {
                Match::Equals => json!(marker),
                Match::Contains | Match::Element if field.at.to_string().ends_with("labels") => json!(["x", marker]),
                Match::Contains | Match::Element => json!(format!("A text.\n{marker}")),
            };
            put(&mut body, &field.at, value);
        }
        let mut ask = Ask::new("POST", self.path).header("Authorization", "Bearer sandbox-acme");
        let carrier = self.contract.key.as_ref().and_then(|rules| rules.carrier());
        if let (Some(carrier), Some(key)) = (carrier, key) {
            ask = self.carry(ask, carrier, key, &mut body);
        }
        match self.contract.id.as_str() {
            "stripe.v1" => ask.body("application/x-www-form-urlencoded", form(&body).into_bytes()),
            _ => ask.json(&body),
        }
    }

    fn carry(&self, mut ask: Ask, carrier: &Carrier, key: &str, body: &mut Value) -> Ask {
        let rules = self.contract.key.as_ref().expect("rules");
        let written = match rules.encoding {
            Encoding::Raw => key.to_owned(),
            Encoding::SfString => format!("\"{key}\""),
        };
        ask = match carrier.place {
            Place::Header => ask.header(&carrier.name, &written),
            Place::Body => {
                put(body, &carrier.name.parse().expect("a pointer"), written.into());
                ask
            }
            Place::Param => {
                body[carrier.name.as_str()] = written.into();
                ask
            }
            other => panic!("no contract of the catalog has its first place in {other:?}"),
        };
        for companion in &rules.companions {
            let text = match &companion.value {
                CompanionValue::FirstSentHttpDate => self.first_sent.clone(),
                CompanionValue::Text(text) | CompanionValue::Made(text) => text.clone(),
            };
            ask = ask.header(&companion.name, &text);
        }
        ask
    }

    pub(super) async fn send(&self, ask: Ask) -> Reply {
        self.sandbox.send(ask).await
    }

    pub(super) async fn effects(&self) -> i64 {
        self.sandbox.effects(self.path).await
    }

    pub(super) fn knows_keys(&self) -> bool {
        self.contract.key.is_some() && self.contract.same_input.behaviour != SameInput::Undocumented
    }

    /// What the answer names as its effect.
    pub(super) fn effect_id(&self, reply: &Reply) -> Option<String> {
        let at = self.contract.effect.id.clone().unwrap_or(Locator::Body("/id".parse().expect("a pointer")));
        text_at(&at, reply)
    }

    /// Whether the answer carries the mark of a repetition.
    pub(super) fn is_marked(&self, reply: &Reply) -> bool {
        self.contract.replay_marker.as_ref().is_some_and(|marker| {
            text_at(&marker.at, reply).is_some_and(|text| marker.values.is_empty() || marker.values.contains(&text))
        })
    }
}

pub(super) fn put(document: &mut Value, at: &Pointer, value: Value) {
    let mut here = document;
    for token in at.tokens() {
        here = &mut here[token.as_str()];
    }
    *here = value;
}

pub(super) fn form(body: &Value) -> String {
    let Value::Object(members) = body else { panic!("no object") };
    let pairs = members.iter().flat_map(|(name, value)| match value {
        Value::Object(inner) => inner
            .iter()
            .map(|(field, value)| format!("{name}[{field}]={}", value.as_str().unwrap_or_default()))
            .collect(),
        Value::String(text) => vec![format!("{name}={}", text.replace(' ', "+"))],
        other => vec![format!("{name}={other}")],
    });
    pairs.collect::<Vec<_>>().join("&")
}

pub(super) fn text_at(at: &Locator, reply: &Reply) -> Option<String> {
    match at {
        Locator::Header(name) => reply.header(name),
        Locator::Body(at) => match at.get(&reply.json())? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
    }
}

pub(super) fn holds(condition: &Predicate, reply: &Reply) -> bool {
    let text = reply.text();
    let head = text.split_once("\r\n\r\n").expect("a head").0;
    let headers: Vec<(String, String)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let body = reply.body();
    let json = serde_json::from_str(&body).ok();
    condition.holds(&Seen { status: Some(reply.status()), headers: &headers, body: json.as_ref(), text: &body })
}

pub(super) fn is_success(reply: &Reply) -> bool {
    (200..300).contains(&reply.status())
}
