//! What callers are told: outcomes as the rules report them, and the codes of answers that are none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use onceward_core::code::{Code, Repeat};
use onceward_core::decide::{Request, decide, standing};
use onceward_core::fingerprint::FingerprintKeys;
use onceward_core::key::ToolName;
use onceward_core::outcome::{Envelope, Outcome, Role, Visibility, possible_duplicate, report};

use crate::header;
use crate::samples::{arguments, operations};

/// Every answer that the samples give, to the executor and to a repeater, to a conflicting call and to a held one.
fn envelopes() -> Vec<Envelope> {
    let other = ToolName::parse("another_tool").expect("a name");
    let mut envelopes = Vec::new();
    for (_, operation) in operations() {
        let decision = standing(&operation);
        envelopes.extend([Role::Executor, Role::Repeater].map(|role| report(&operation, &decision, role)));
        let request = Request { tool: &other, arguments: &arguments() };
        let conflict = decide(&operation, request, &FingerprintKeys::unkeyed()).expect("no key is needed");
        envelopes.push(report(&operation, &conflict, Role::Repeater));
        envelopes.extend(
            [Visibility::Shown, Visibility::Hidden].map(|visibility| possible_duplicate(&operation, visibility)),
        );
    }
    envelopes
}

fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => format!("`{word}`"),
        Ok(_) | Err(_) => "-".to_owned(),
    }
}

fn join(words: BTreeSet<String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

const fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Executed => "It was done by this call.",
        Outcome::Replayed => "An earlier call had done it; here is its receipt.",
        Outcome::Recovered => "It was uncertain, and it is established now that it was done.",
        Outcome::InProgress => "An attempt is running.",
        Outcome::Unknown => "It may have been done. Nobody sends it again before evidence or a person settles it.",
        Outcome::Rejected => "The destination refused it, and nothing happened.",
        Outcome::Closed => "It will not be done.",
        Outcome::Conflict => "The operation id belongs to another intention. Nothing was sent.",
        Outcome::ApprovalRequired => "A person must allow it first. Nothing was sent.",
        Outcome::PossibleDuplicate => "It looks like a repetition, and its host sends no identity. Nothing was sent.",
        Outcome::NotDispatched => "Surely nothing happened. Call again with the same identity.",
        Outcome::Expired => "It was settled, and its answer has been erased. The identity stays taken.",
    }
}

/// The document.
pub(crate) fn print() -> String {
    let mut text = header("What callers are told", "outcomes.md");
    text.push_str(
        "## Outcomes\n\nThe answer about an operation: one envelope with the same facts on every surface, in headers, problem \
         bodies and structured content alike. The values are those that the rules give for operations in every state.\n\n| \
         outcome | meaning | dispatched | source | next_action | settles_by | receipt |\n|---|---|---|---|---|---|---|\n",
    );
    let mut by_outcome: BTreeMap<&str, Vec<Envelope>> = BTreeMap::new();
    for envelope in envelopes() {
        by_outcome.entry(envelope.outcome.name()).or_default().push(envelope);
    }
    for outcome in Outcome::ALL {
        let seen = by_outcome.remove(outcome.name()).unwrap_or_default();
        let words = |of: fn(&Envelope) -> String| join(seen.iter().map(of).collect());
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            outcome.name(),
            meaning(outcome),
            words(|envelope| word(&envelope.dispatched)),
            words(|envelope| word(&envelope.source)),
            words(|envelope| word(&envelope.next_action)),
            words(|envelope| word(&envelope.settles_by)),
            words(|envelope| if envelope.answer.is_some() { "yes" } else { "no" }.to_owned()),
        );
    }
    text.push_str(
        "\n`check_after` is given only when a check is scheduled, and then `settles_by` is `automatic`. `-` means that the \
         field is absent. `dispatched` is about the operation, whoever called; for a conflict it is about this call.\n\n\
         ## Codes\n\nWhere no operation answers, the answer is a refusal with a code (`urn:onceward:problem:<code>`).\n\n\
         | code | meaning | may it be repeated |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        let repeat = match code.repeat() {
            Repeat::SameIdentity => "yes, with the same identity: nothing was sent",
            Repeat::AfterCorrection => "not as it is: it will be refused again",
            Repeat::SameIdentityOnly => "with the same identity only, which finds what became of it",
        };
        let _ = writeln!(text, "| `{}` | {} | {repeat} |", code.name(), code.meaning());
    }
    text
}
