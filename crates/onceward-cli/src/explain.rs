//! `onceward explain`: what a call would come to, without making it. Sends nothing to any destination.

use clap::Args;
use onceward_core::canonical::Canonical;
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys, fingerprint_bytes};
use onceward_core::pointer::Pointer;
use serde_json::{Value, json};

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::json_input;

/// Say what a call would come to: what it would meet, which key would go out, what it would be told. Sends nothing
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The tool
    tool: String,
    /// The arguments: JSON, @FILE, or - for standard input
    #[arg(long, alias = "args", value_name = "JSON")]
    arguments: String,
    /// The operation id that the call would carry
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
    /// Ask no gateway: show the canonical form and the fingerprint only
    #[arg(long)]
    local: bool,
    /// With --local: the tool's version, as the configuration gives it
    #[arg(long, default_value = "1", requires = "local")]
    version: String,
    /// With --local: a field that is not compared, as a JSON Pointer; may be given more than once
    #[arg(long, value_name = "POINTER", requires = "local")]
    free_text: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let canonical = json_input::read(&arguments.arguments)?;
    match arguments.local {
        true => local(&arguments, &canonical),
        false => asked(&arguments, &canonical).await,
    }
}

async fn asked(arguments: &Arguments, canonical: &Canonical) -> Result<Exit, Failure> {
    let path = format!("/v1/tools/{}/explanations", segment(&arguments.tool));
    let body = json!({ "arguments": canonical.value() });
    let gateway = arguments.connection.open()?;
    let reply = match &arguments.operation_id {
        Some(id) => gateway.post_as(&path, &body, id).await?,
        None => gateway.post(&path, &body).await?,
    };
    let explained = reply.succeeded()?;
    match arguments.json {
        true => say!("{explained:#}"),
        false => say!("{}", shown(&explained)),
    }
    Ok(Exit::Done)
}

/// An explanation in lines.
fn shown(explained: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![format!("would        {}: {}", text(&explained["would"]), text(&explained["words"]))];
    let mut add = |name: &str, words: String| {
        if !words.is_empty() {
            lines.push(format!("{name:<13}{words}"));
        }
    };
    let identity = &explained["identity"];
    if identity.is_object() {
        let id = identity["operation_id"].as_str().unwrap_or("(made when the call is made)");
        add("identity", format!("{id}, from {}", text(&identity["from"])));
    }
    let meets = &explained["meets"];
    if meets.is_object() {
        add(
            "meets",
            format!(
                "{}, {} since {}, version {}",
                text(&meets["operation_id"]),
                text(&meets["state"]),
                text(&meets["updated_at"]),
                meets["version"]
            ),
        );
    }
    let key = &explained["outbound_key"];
    if key.is_object() {
        let words = key["key"].as_str().unwrap_or("none goes out, or it is made with the operation's id");
        add("key", format!("{words} (generation {})", key["generation"]));
    }
    add("compared", text(&explained["compared"]));
    add("fingerprint", text(&explained["fingerprint"]));
    add("approval", text(&explained["approval"]));
    add("told", text(&explained["told"]["outcome"]));
    add("", text(&explained["told"]["message"]));
    lines.join("\n")
}

fn local(arguments: &Arguments, canonical: &Canonical) -> Result<Exit, Failure> {
    let free_text = arguments
        .free_text
        .iter()
        .map(|text| Pointer::parse(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(Exit::Usage, format!("--free-text: {error}")))?;
    let comparison = Comparison::new(free_text, Vec::new())
        .map_err(|error| Failure::new(Exit::Usage, format!("--free-text: {error}")))?;
    let fingerprint = FingerprintKeys::unkeyed()
        .fingerprint(FingerprintKeyId::UNKEYED, &arguments.tool, &arguments.version, canonical, &comparison)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?
        .to_string();
    if arguments.json {
        say!(
            "{:#}",
            json!({
                "canonical": canonical.text(),
                "compared": comparison.compared_text(canonical),
                "fingerprint": fingerprint,
                "hashed_bytes": fingerprint_bytes(&arguments.tool, &arguments.version, canonical, &comparison).len(),
            })
        );
        return Ok(Exit::Done);
    }
    say!("canonical    {}", canonical.text());
    if !arguments.free_text.is_empty() {
        say!("compared     {}", comparison.compared_text(canonical));
    }
    say!("fingerprint  {fingerprint}");
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_leads_with_what_would_happen_and_names_what_it_would_meet() {
        let explained = json!({
            "would": "replay", "words": "Nothing would be sent.",
            "identity": { "operation_id": "t-1", "from": "caller" },
            "meets": { "operation_id": "t-1", "state": "succeeded", "updated_at": "T", "version": 4 },
            "outbound_key": null, "fingerprint": "f", "told": { "outcome": "replayed", "message": "It had been done." },
        });
        let text = shown(&explained);
        assert!(text.starts_with("would        replay: Nothing would be sent."), "{text}");
        for words in ["t-1, from caller", "succeeded since T, version 4", "told         replayed", "It had been done."]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("key "), "{text}");
    }
}
