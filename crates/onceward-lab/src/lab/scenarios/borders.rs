//! Where one tenant ends, and what is turned away at the door.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::Stage;
use crate::world::{Promise, ticket_of};

/// Two tenants behind one account of the destination, with one operation id.
pub(super) async fn tenant_scope(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::RecognisesKeys).await?;
    let acme = gateway.agent("acme", "agent").await?;
    let globex = gateway.agent("globex", "agent").await?;
    let first = acme.call("create_ticket", "printer-1", &ticket()).await?;
    let second = globex.call("create_ticket", "printer-1", &ticket()).await?;
    let (first, second) = (ticket_of(&first), ticket_of(&second));
    let audit = sandbox.audit("tickets").await?;
    let effects = audit["effects"].as_array().context("the auditor gave no effects")?;
    let keys: BTreeSet<&str> = effects.iter().filter_map(|effect| effect["idempotency_key"].as_str()).collect();
    acme.call("create_ticket", "only-acme", &ticket()).await?;
    let others = globex.status("only-acme").await?;
    Ok(Findings::new()
        .with("tickets", audit["count"].clone())
        .with("different_tickets", first.is_some() && second.is_some() && first != second)
        .with("outbound_keys", keys.len())
        .with("status_of_the_others", others.status))
}

/// What is malformed is refused before anything is claimed, and leaves no operation that a correct call would then meet.
pub(super) async fn invalid_input(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let inputs = malformed();
    let mut refused = 0;
    let mut passed = Vec::new();
    for (name, arguments) in &inputs {
        match agent.call_raw("create_ticket", &format!("bad-{name}"), arguments).await {
            Ok(reply) if matches!((reply.status, ticket_of(&reply)), (400 | 413 | 422, None)) => refused += 1,
            Ok(_) => passed.push(*name),
            // What is too large is refused by its length and not read to its end: who is still writing may see the connection end
            // before the answer. That nothing was kept or sent is looked at below.
            Err(_) if *name == TOO_LARGE => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let operations = agent.operations().await?;
    let audit = sandbox.audit("tickets").await?;
    Ok(Findings::new()
        .with("inputs", inputs.len())
        .with("refused", refused)
        .with("not_refused", passed.into_iter().map(Value::from).collect::<Vec<_>>())
        .with("tickets", audit["count"].clone())
        .with("requests_at_destination", audit["requests"].clone())
        .with("operations", operations))
}

const TOO_LARGE: &str = "too-large";

/// Arguments as bytes: half of them could not be written with a JSON library.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    vec![
        ("not-a-number", text(r#"{"title":"a","body":NaN}"#)),
        ("infinite", text(r#"{"title":"a","body":Infinity}"#)),
        ("number-too-large", text(r#"{"title":"a","body":"b","customer":9007199254740993}"#)),
        ("duplicate-names", text(r#"{"title":"a","title":"b","body":"c"}"#)),
        ("lone-surrogate", text(r#"{"title":"\ud800","body":"b"}"#)),
        ("not-utf8", [b"{\"title\":\"".as_slice(), &[0xff, 0xfe], b"\",\"body\":\"b\"}"].concat()),
        ("cut-off", text(r#"{"title":"a","body":"#)),
        ("too-deep", format!(r#"{{"title":"a","body":{deep}}}"#).into_bytes()),
        (TOO_LARGE, json!({ "title": "a", "body": "x".repeat(1_100_000) }).to_string().into_bytes()),
        ("a-list", text("[1,2,3]")),
        ("field-missing", text(r#"{"title":"a"}"#)),
        ("field-unknown", text(r#"{"title":"a","body":"b","priority":"high"}"#)),
        ("wrong-type", text(r#"{"title":7,"body":"b"}"#)),
    ]
}
