//! One page for each contract of the catalog, and a table of them all.

use std::fmt::Write as _;

use onceward_core::contract::words::word;
use onceward_core::contract::{Becomes, Contract, Recognised, Span, Which, built_in};

use crate::header;

/// The page or table of that name below docs/contracts, if there is one.
pub(crate) fn print(name: &str) -> Option<String> {
    let contracts = built_in().unwrap_or_else(|error| panic!("the catalog: {error}"));
    if name == "catalog.md" {
        return Some(catalog(&contracts));
    }
    let id = name.strip_suffix(".md")?;
    contracts.iter().find(|contract| contract.id == id).map(page)
}

fn catalog(contracts: &[Contract]) -> String {
    let mut text = header("The contracts that come with Onceward", "contracts");
    text.push_str(
        "What becomes of a write whose answer is lost, and of one that is answered with a 500, by the contract of its destination. \
         A time is counted from the first claim, the margin taken off. Kinds are explained in [README.md](README.md), and \
         every word of a contract on its page.\n\n\
         | contract | kind | key recognised | a lost answer becomes | a 500 becomes | why not the same key | known from |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for contract in contracts {
        let lost = contract.lost_reply_becomes();
        let _ = writeln!(
            text,
            "| [`{id}`]({id}.md) | {} | {} | {lost} | {} | {} | {} |",
            contract.kind(),
            recognised(contract),
            contract.status_becomes(Which::First, 500),
            lost.why_not_repeated().unwrap_or("-"),
            word(&contract.provenance.confidence),
            id = contract.id,
        );
    }
    text
}

fn recognised(contract: &Contract) -> String {
    match contract.horizon.recognised() {
        Recognised::For(time) => Span::from(time).to_string(),
        Recognised::Always => "without end".to_owned(),
        Recognised::Never => "nothing said".to_owned(),
    }
}

fn page(contract: &Contract) -> String {
    let about = &contract.about;
    let mut text = header(&format!("`{}`", contract.id), "contracts");
    let title: Vec<&str> =
        [about.vendor.as_str(), about.api.as_str()].into_iter().filter(|part| !part.is_empty()).collect();
    let _ = writeln!(text, "{}. Kind {}, version {}.", title.join(", "), contract.kind(), contract.version);
    let _ = writeln!(
        text,
        "The file is [contracts/{id}.toml](../../contracts/{id}.toml); [README.md](README.md) explains its words, and \
         [catalog.md](catalog.md) has all contracts in one table.\n",
        id = contract.id
    );
    if !about.endpoints.is_empty() {
        let endpoints: Vec<String> = about.endpoints.iter().map(|endpoint| format!("`{endpoint}`")).collect();
        let _ = writeln!(text, "For {}.\n", endpoints.join(", "));
    }
    for note in &about.notes {
        let _ = writeln!(text, "- {}", cell(note));
    }
    text.push_str("\n## In one line\n\n");
    let lost = contract.lost_reply_becomes();
    let why = lost.why_not_repeated().map(|why| format!(", because {why}")).unwrap_or_default();
    let _ = writeln!(text, "A write whose answer is lost becomes: {lost}{why}.\n");

    text.push_str("## What it says\n\n| part | | known from |\n|---|---|---|\n");
    for fact in contract.facts() {
        let _ = writeln!(text, "| `{}` | {} | {} |", fact.part, cell(&fact.says), word(&fact.known));
    }
    let doubted: Vec<String> = contract
        .facts()
        .iter()
        .filter(|fact| !fact.known.permits_a_second_dispatch())
        .map(|fact| format!("`{}`", fact.part))
        .collect();
    if !doubted.is_empty() {
        let _ = writeln!(text, "\nNot known well enough to rest a repetition on: {}.", doubted.join(", "));
    }

    text.push_str(
        "\n## What becomes of an attempt\n\n\
         A status stands for an answer in which the contract finds nothing that it knows more about.\n\n\
         | seen | of the first attempt | of a repetition, while the first is uncertain |\n|---|---|---|\n",
    );
    for case in contract.cases() {
        let _ = writeln!(text, "| {} | {} | {} |", cell(&case.seen), reason(&case.first), reason(&case.repetition));
    }

    text.push_str("\n## Sources\n\n");
    let provenance = &contract.provenance;
    let read = provenance.read.as_deref().unwrap_or("an unknown day");
    match &provenance.verified {
        Some(day) => {
            let _ = writeln!(text, "Read on {read}, tried at the destination on {day}.\n");
        }
        None => {
            let _ = writeln!(text, "Read on {read}. Nobody has tried it at the destination.\n");
        }
    }
    for source in &provenance.sources {
        let note = source.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        let _ = writeln!(text, "- {} ({}){note}", source.at, word(&source.kind));
    }
    text
}

fn reason(becomes: &Becomes) -> String {
    match becomes.why_not_repeated() {
        Some(why) => format!("{becomes} ({why})"),
        None => becomes.to_string(),
    }
}

/// A text as it may stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
