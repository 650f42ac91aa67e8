//! As much of Stripe's objects and errors as its own client libraries look at.
//!
//! Read on 2026-11-29: <https://docs.stripe.com/api/payment_intents>, <https://docs.stripe.com/api/errors> and the sources of
//! stripe-python and stripe-node.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::versions::Holdings;
use crate::sandbox::problem::Answer;
use crate::sandbox::resource::DECLINED_AMOUNT;

/// An interface whose paths begin with `/v1/` and whose bodies are forms.
const COLLECTIONS: [(&str, &str, &str); 12] = [
    ("payment_intents", "payment_intent", "pi_"),
    ("customers", "customer", "cus_"),
    ("refunds", "refund", "re_"),
    ("charges", "charge", "ch_"),
    ("invoices", "invoice", "in_"),
    ("setup_intents", "setup_intent", "seti_"),
    ("products", "product", "prod_"),
    ("prices", "price", "price_"),
    ("subscriptions", "subscription", "sub_"),
    ("payment_methods", "payment_method", "pm_"),
    ("transfers", "transfer", "tr_"),
    ("payouts", "payout", "po_"),
];

/// The name of a collection's objects, and what their ids begin with.
pub(super) fn named(collection: &str) -> (String, String) {
    let last = collection.rsplit('/').next().unwrap_or_default();
    match COLLECTIONS.into_iter().find(|(path, _, _)| *path == last) {
        Some((_, object, prefix)) => (object.to_owned(), prefix.to_owned()),
        None => (last.trim_end_matches('s').to_owned(), format!("{}_", last.trim_end_matches('s'))),
    }
}

/// A new object.
///
/// # Errors
/// 400 or 404 for parameters with which nothing is done.
pub(super) fn object(
    collection: &str,
    parameters: &Value,
    held: &Holdings,
    at_us: i64,
    live: bool,
) -> Result<Map<String, Value>, Answer> {
    let (object, _) = named(collection);
    let mut made = Map::new();
    made.insert("id".to_owned(), Value::Null);
    made.insert("object".to_owned(), object.clone().into());
    made.insert("created".to_owned(), (at_us / 1_000_000).into());
    made.insert("livemode".to_owned(), live.into());
    made.insert("metadata".to_owned(), json!({}));
    let said = typed(parameters);
    if let Value::Object(said) = &said {
        made.extend(said.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    match object.as_str() {
        "payment_intent" => {
            needs(&said, "amount")?;
            needs(&said, "currency")?;
            let status = if said["confirm"] == true {
                "succeeded"
            } else if said["payment_method"].is_string() {
                "requires_confirmation"
            } else {
                "requires_payment_method"
            };
            let received = if status == "succeeded" { said["amount"].clone() } else { 0.into() };
            made.insert("status".to_owned(), status.into());
            made.insert("amount_received".to_owned(), received);
            made.insert("capture_method".to_owned(), "automatic".into());
            made.entry("customer").or_insert(Value::Null);
            made.entry("description").or_insert(Value::Null);
        }
        "refund" => {
            let of = said["payment_intent"].as_str().or_else(|| said["charge"].as_str());
            let Some(of) = of else { return Err(missing("payment_intent")) };
            let Some(paid) = held.newest(of) else {
                return Err(Answer::problem(
                    StatusCode::NOT_FOUND,
                    "not_found",
                    format!("No such payment_intent: '{of}'"),
                )
                .saying("param", "payment_intent"));
            };
            made.insert("status".to_owned(), "succeeded".into());
            made.entry("amount").or_insert_with(|| paid.thing()["amount"].clone());
            made.insert("currency".to_owned(), paid.thing()["currency"].clone());
        }
        "customer" => {
            for name in ["email", "name", "description", "phone"] {
                made.entry(name).or_insert(Value::Null);
            }
            made.entry("balance").or_insert(0.into());
        }
        _ => {}
    }
    Ok(made)
}

/// What a POST to an object, or to an action on it, makes of it.
pub(super) fn changed(thing: &Value, parameters: &Value, action: Option<&str>) -> Value {
    let mut thing = thing.clone();
    let status = match action {
        Some("cancel") => Some("canceled"),
        Some("confirm" | "capture") => Some("succeeded"),
        Some(_) | None => None,
    };
    if let (Value::Object(members), Value::Object(said)) = (&mut thing, typed(parameters)) {
        for (name, value) in said {
            match (members.get_mut(&name), value) {
                // Keys of metadata are added to those that are there.
                (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, value) => {
                    members.insert(name, value);
                }
            }
        }
        if let Some(status) = status {
            members.insert("status".to_owned(), status.into());
        }
    }
    thing
}

/// Whether the bank declines it.
pub(super) fn is_declined(thing: &Map<String, Value>) -> bool {
    thing.get("amount").and_then(Value::as_u64) == Some(DECLINED_AMOUNT)
}

/// The type and code of an error, by the code of the sandbox's own problem.
pub(super) fn error_names(code: &str, status: u16) -> (&'static str, Option<&'static str>) {
    match code {
        "key_mismatch" => ("idempotency_error", None),
        "key_in_flight" => ("invalid_request_error", Some("idempotency_key_in_use")),
        "card_declined" => ("card_error", Some("card_declined")),
        "parameter_missing" => ("invalid_request_error", Some("parameter_missing")),
        "not_found" => ("invalid_request_error", Some("resource_missing")),
        "throttled" => ("invalid_request_error", Some("rate_limit")),
        _ if status >= 500 => ("api_error", None),
        _ => ("invalid_request_error", None),
    }
}

fn needs(said: &Value, name: &str) -> Result<(), Answer> {
    match &said[name] {
        Value::Null => Err(missing(name)),
        _ => Ok(()),
    }
}

fn missing(name: &str) -> Answer {
    Answer::problem(StatusCode::BAD_REQUEST, "parameter_missing", format!("Missing required param: {name}."))
        .saying("param", name)
}

/// Texts of a form as the types they stand for. Metadata stays text.
fn typed(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match value {
                Value::Object(_) if name == "metadata" => (name.clone(), value.clone()),
                Value::String(text) => (name.clone(), typed_text(name, text)),
                other => (name.clone(), typed(other)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(elements) => elements.iter().map(typed).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn typed_text(name: &str, text: &str) -> Value {
    let counts = name == "amount" || name == "quantity" || name.ends_with("_amount") || name == "balance";
    match (text, text.parse::<i64>()) {
        (_, Ok(number)) if counts => number.into(),
        ("true", _) => true.into(),
        ("false", _) => false.into(),
        _ => text.into(),
    }
}
