//! Prints the documents that follow from the rules: `cargo run -p onceward-core --example print_docs -- state-machine.md`.

mod contracts;
mod machine;
mod outcomes;
#[allow(dead_code, reason = "the tests of the machine use the rest")]
mod samples;

use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let text = match name.as_str() {
        "state-machine.md" => machine::print(),
        "outcomes.md" => outcomes::print(),
        other => match other.strip_prefix("contracts/").and_then(contracts::print) {
            Some(text) => text,
            None => {
                eprintln!(
                    "give the document's name: state-machine.md, outcomes.md, contracts/catalog.md or contracts/ID.md"
                );
                return ExitCode::from(2);
            }
        },
    };
    print!("{text}");
    ExitCode::SUCCESS
}

/// The first lines of every printed document.
fn header(title: &str, name: &str) -> String {
    format!(
        "# {title}\n\n<!-- Printed by `cargo xtask docs` from crates/onceward-core/examples/print_docs ({name}). \
         Change the rules, not this file. -->\n\n"
    )
}
