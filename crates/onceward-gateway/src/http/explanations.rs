//! `/v1/tools/{tool}/explanations`: what a call would come to, without making it. Nothing is written and nothing is sent.

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use onceward_core::code::Code;
use onceward_core::key::ToolName;
use onceward_destinations::tool::Effect;
use onceward_ledger::authorize::Scope;
use onceward_ledger::call::{Approval, Identity};
use onceward_ledger::explain::{Explanation, Would};
use serde_json::{Value, json};

use super::answer::json as answer_json;
use super::calls::{CallBody, arguments};
use super::request::{Body, Caller};
use super::views;
use crate::app::{App, call_of};
use crate::identity::{self, Claimed, Settled};
use crate::problem::Problem;

pub(super) async fn explain(
    State(app): State<App>,
    Caller(grant): Caller,
    Path(tool): Path<String>,
    headers: HeaderMap,
    Body(body): Body<CallBody>,
) -> Result<Response, Problem> {
    let unknown = || Problem::plain(Code::UnknownTool);
    if !grant.has(Scope::Read) {
        return Err(Problem::lacks(Scope::Read));
    }
    let name = ToolName::parse(&tool).map_err(|_| unknown())?;
    let allowed = grant.to_explain(&name).map_err(|_| unknown())?;
    let tool = app.catalog().tool(&name).ok_or_else(unknown)?;
    let (named, given) = body.into_parts();
    let claimed = identity::of_http(&headers, named.as_deref())?;
    let arguments = arguments(given)?;
    if tool.effect() == Effect::Read {
        let words = "The tool reads: a call passes through and leaves no record.";
        return Ok(answer_json(StatusCode::OK, &json!({ "tool": name, "would": "read", "words": words })));
    }
    let how = how(&claimed);
    let invalid = tool.check(&arguments).err().map(Problem::from);
    let canonical = arguments.text().to_owned();
    let Settled { identity, approval } = app.identify(&tool, &grant, &arguments, claimed).await?;
    let operation_id = match &identity {
        Identity::Given(id) | Identity::Second { id, .. } => Some(id.clone()),
        // Made anew with each call.
        Identity::Held { .. } => None,
    };
    let call = call_of(&tool, identity, approval, arguments);
    let explanation = app.ledger().explain(&grant, &allowed, &call, &tool.destination()).await?;
    // An operation that exists is compared under the definition that it was made with, whatever the schema says now.
    if let (Some(invalid), None) = (invalid, &explanation.meets) {
        return Err(invalid);
    }
    let body = json!({
        "tool": name,
        "tool_version": tool.version(),
        "identity": { "operation_id": operation_id, "from": how },
        "canonical": canonical,
        "compared": explanation.compared,
        "fingerprint": explanation.fingerprint.to_string(),
        "fingerprint_key": explanation.fingerprint_key,
        "approval": match approval {
            Approval::NotNeeded => "none",
            Approval::Required => "required",
        },
        "destination": tool.destination_name(),
        "outbound_key": explanation.would.key().map(|key| json!({ "generation": key.generation, "key": key.key })),
        "meets": explanation.meets.as_ref().map(views::summary),
        "would": explanation.would.name(),
        "words": words(&explanation),
        "told": explanation.told,
    });
    Ok(answer_json(StatusCode::OK, &body))
}

/// Where the identity of the call is from.
const fn how(claimed: &Claimed) -> &'static str {
    match claimed {
        Claimed::Operation(_) => "caller",
        Claimed::Handle(_) => "handle",
        Claimed::Run(_) => "run",
        Claimed::Unusable(_) => "unusable",
        Claimed::Nothing => "nothing",
        Claimed::Second { .. } => "second",
    }
}

fn words(explanation: &Explanation) -> Value {
    let words = match (&explanation.would, &explanation.meets) {
        (Would::Send(_), _) => "It is a new operation: it would be written down and sent.",
        (Would::SendAgain(_), _) => {
            "It is the repetition of an operation of which surely nothing has happened: it would be sent as its next attempt."
        }
        (Would::Redrive(_), _) => {
            "It is the repetition of an operation that may have been done: the same key would be sent again, which the destination's \
             contract recognises now."
        }
        (Would::Propose, _) => "It is a new operation that would wait for approval; nothing would be sent.",
        (Would::Join, _) => "An attempt of it is running: it would wait for its end; nothing more would be sent.",
        (Would::Replay, _) => "Nothing would be sent: it would be told what is recorded.",
        (Would::Hold, _) => {
            "Nothing would be sent: it looks like the repetition of an earlier call, and nothing says who it is."
        }
    };
    words.into()
}
