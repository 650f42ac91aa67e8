//! `onceward contracts`: what is known about destinations, and what a contract of one's own would permit.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use onceward_core::contract::words::word;
use onceward_core::contract::{Becomes, Contract, Recognised, Span, Which, built_in};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::limits::CONTRACT_BYTES_MAX;
use onceward_lab::table::Table;

/// What is known about destinations: how they treat a repeated key, and for how long
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Every contract that is built in, and what a lost answer becomes under it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One contract in words: what it says, where that is known from, and what becomes of each answer
    Show {
        /// Its name
        name: String,
        /// Print the contract itself, as TOML to copy from
        #[arg(long, conflicts_with = "json")]
        toml: bool,
        /// Print the contract itself, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Whether a file with a contract of your own is sound, and what it would permit
    Check {
        /// The file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List { json } => {
            let contracts = catalog()?;
            match json {
                true => {
                    let lines: Vec<Value> = contracts.iter().map(summary).collect();
                    say!("{}", serde_json::to_string_pretty(&lines).context("the contracts cannot be written")?);
                }
                false => say!("{}", list(&contracts)),
            }
        }
        Command::Show { name, toml, json } => {
            let contracts = catalog()?;
            let Some(contract) = contracts.iter().find(|contract| contract.id == *name) else {
                let known = contracts.iter().map(|contract| contract.id.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Failure::new(Exit::Refused, format!("there is no contract {name:?}")).next(format!(
                    "There are: {known}. Your own are .toml files that the configuration names; `onceward contracts check \
                     FILE` reads one."
                )));
            };
            match (toml, json) {
                (true, _) => {
                    say!("{}", toml::to_string_pretty(contract).context("it cannot be written as TOML")?.trim_end());
                }
                (false, true) => {
                    say!("{}", serde_json::to_string_pretty(contract).context("it cannot be written")?);
                }
                (false, false) => say!("{}", in_words(contract)),
            }
        }
        Command::Check { file, json } => {
            let contract = read(file)?;
            match json {
                true => {
                    let mut found = summary(&contract);
                    found["doubted"] = json!(doubted(&contract));
                    say!("{}", serde_json::to_string_pretty(&found).context("the result cannot be written")?);
                }
                false => say!("{} is sound.\n\n{}", file.display(), in_words(&contract)),
            }
        }
    }
    Ok(Exit::Done)
}

fn catalog() -> Result<Vec<Contract>, Failure> {
    built_in().map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn read(file: &Path) -> Result<Contract, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    let bytes = opened
        .and_then(|opened| opened.take(CONTRACT_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| Failure::new(Exit::Failed, format!("{} cannot be read: {error}", file.display())))?;
    if bytes as u64 > CONTRACT_BYTES_MAX {
        let what = format!("{} has more than {CONTRACT_BYTES_MAX} bytes", file.display());
        return Err(Failure::new(Exit::Failed, what).next("A contract is a page of text; name that file."));
    }
    Contract::parse(&text).map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: {error}", file.display())).next(
            "docs/contracts/README.md has every field; `onceward contracts show NAME --toml` prints a sound contract to \
             start from.",
        )
    })
}

fn summary(contract: &Contract) -> Value {
    let lost = contract.lost_reply_becomes();
    json!({
        "id": contract.id,
        "version": contract.version,
        "kind": contract.kind().to_string(),
        "recognised": recognised(contract),
        "lost_reply_becomes": lost.to_string(),
        "why_not_the_same_key": lost.why_not_repeated(),
        "server_error_becomes": contract.status_becomes(Which::First, 500).to_string(),
        "confidence": word(&contract.provenance.confidence),
        "read": contract.provenance.read,
    })
}

fn list(contracts: &[Contract]) -> String {
    let mut table = Table::new(&["contract", "kind", "recognised", "a lost answer becomes", "known from", "read on"]);
    for contract in contracts {
        table.row(&[
            &contract.id,
            &contract.kind().to_string(),
            &recognised(contract),
            &contract.lost_reply_becomes().to_string(),
            &word(&contract.provenance.confidence),
            contract.provenance.read.as_deref().unwrap_or("–"),
        ]);
    }
    table.to_string()
}

fn in_words(contract: &Contract) -> String {
    let about = &contract.about;
    let names: Vec<&str> =
        [about.vendor.as_str(), about.api.as_str()].into_iter().filter(|name| !name.is_empty()).collect();
    let mut text = format!("{} version {}, kind {}", contract.id, contract.version, contract.kind());
    if !names.is_empty() {
        text.push_str(&format!(": {}", names.join(", ")));
    }
    text.push_str(&format!("\n\nA write whose answer is lost becomes: {}.\n", reason(&contract.lost_reply_becomes())));
    let doubted = doubted(contract);
    if !doubted.is_empty() {
        text.push_str(&format!(
            "No repetition rests on these, which are not known well enough: {}. `[provenance]` says how a part is known.\n",
            doubted.join(", ")
        ));
    }
    let mut facts = Table::new(&["part", "known from", "what it says"]);
    for fact in contract.facts() {
        facts.row(&[fact.part, &word(&fact.known), &fact.says.replace('`', "")]);
    }
    if !facts.is_empty() {
        text.push_str(&format!("\n{facts}\n"));
    }
    let mut cases = Table::new(&["seen of the first attempt", "becomes"]);
    for case in contract.cases() {
        cases.row(&[&case.seen.replace('`', ""), &reason(&case.first)]);
    }
    text.push_str(&format!("\n{cases}"));
    for note in &about.notes {
        text.push_str(&format!("\n\n{note}"));
    }
    let sources: Vec<String> = contract.provenance.sources.iter().map(|source| format!("\n  {}", source.at)).collect();
    if !sources.is_empty() {
        let read = contract.provenance.read.as_deref().unwrap_or("an unknown day");
        text.push_str(&format!("\n\nSources, read on {read}:{}", sources.concat()));
    }
    text
}

/// The parts of it that are not known well enough to rest a repetition on.
fn doubted(contract: &Contract) -> Vec<&'static str> {
    let facts = contract.facts();
    facts.iter().filter(|fact| !fact.known.permits_a_second_dispatch()).map(|fact| fact.part).collect()
}

fn reason(becomes: &Becomes) -> String {
    match becomes.why_not_repeated() {
        Some(why) => format!("{becomes} ({why})"),
        None => becomes.to_string(),
    }
}

/// For how long a repetition is surely recognised.
fn recognised(contract: &Contract) -> String {
    match contract.horizon.recognised() {
        Recognised::For(duration) => format!("for {}", Span::from(duration)),
        Recognised::Always => "without end".to_owned(),
        Recognised::Never => "nothing said".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("acme.toml");
        std::fs::write(&file, text).expect("a file");
        (folder, file)
    }

    const ACME: &str = r#"
id = "acme.v1"
version = 1
[key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
[same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "stored" }
[in_flight]
behaviour = "rejects"
[horizon]
kind = "fixed"
min = "24h"
[provenance]
confidence = "operated"
"#;

    #[test]
    fn a_contract_of_ones_own_is_told_what_it_would_permit() {
        let (_folder, file) = written(ACME);
        let contract = read(&file).expect("it is sound");
        assert_eq!(summary(&contract)["lost_reply_becomes"], "the same key again, for 23h");
        let remembered = ACME.replace("operated\"", "operated\"\n[provenance.parts]\nhorizon = \"memory\"");
        let (_folder, file) = written(&remembered);
        let contract = read(&file).expect("it is sound");
        assert_eq!(summary(&contract)["lost_reply_becomes"], "a person");
        assert_eq!(doubted(&contract), ["horizon"]);
        assert!(in_words(&contract).contains("not known well enough: horizon"), "{}", in_words(&contract));
    }

    #[test]
    fn a_contract_with_a_mistake_is_refused_with_its_place_and_a_way_out() {
        for (good, bad, place) in [
            ("kind = \"fixed\"", "kind = \"fixd\"", "line 12"),
            ("min = \"24h\"", "min = 24", "line 13"),
            ("min = \"24h\"", "min = \"24h\"\nmargin = \"24h\"", "horizon.margin"),
            ("confidence = \"operated\"", "retention = 3", "line 15"),
        ] {
            let (_folder, file) = written(&ACME.replace(good, bad));
            let failure = read(&file).expect_err(bad);
            assert_eq!(failure.exit, Exit::Failed);
            assert!(failure.what.contains(place) && failure.what.contains("acme.toml"), "{bad}: {}", failure.what);
            assert!(failure.next.is_some_and(|next| next.contains("contracts show")), "{bad}");
        }
        assert_eq!(read(Path::new("/nowhere/x.toml")).expect_err("no file").exit, Exit::Failed);
    }

    #[test]
    fn every_contract_is_listed_with_what_a_lost_answer_becomes() {
        let contracts = catalog().expect("the catalog");
        let list = list(&contracts);
        for contract in &contracts {
            let line = list.lines().find(|line| line.starts_with(&format!("{} ", contract.id)));
            let line = line.unwrap_or_else(|| panic!("{} is not listed", contract.id));
            assert!(line.contains(&contract.lost_reply_becomes().to_string()), "{line}");
            assert!(in_words(contract).contains("becomes"), "{}", contract.id);
        }
    }
}
