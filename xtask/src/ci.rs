//! `cargo xtask ci`: everything that must hold before a change is accepted.

use anyhow::{Result, bail};

use crate::{docs, shell, test, tidy};

/// One named check.
struct Step {
    name: &'static str,
    check: fn() -> Result<()>,
}

/// In the order of their price. All of them run even when an early one fails: one round trip to CI then shows
/// everything there is to mend.
const STEPS: &[Step] = &[
    Step { name: "fmt", check: fmt },
    Step { name: "tidy", check: tidy::run },
    Step { name: "deny", check: deny },
    Step { name: "clippy", check: clippy },
    Step { name: "docs", check: || docs::run(docs::Mode::Check) },
    Step { name: "test", check: || test::run(test::Extent::Whole) },
];

/// Runs every step.
///
/// # Errors
/// Names the steps that failed; what was wrong has been printed by each.
pub(crate) fn run() -> Result<()> {
    let mut failed = Vec::new();
    for step in STEPS {
        println!("\n== {}", step.name);
        if let Err(error) = (step.check)() {
            eprintln!("{}: {error:#}", step.name);
            failed.push(step.name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    println!("\nci: all of {} steps passed", STEPS.len());
    Ok(())
}

fn fmt() -> Result<()> {
    shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    shell::run(&mut shell::cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Licences and sources come from cargo-deny where it is at hand. It is not installed for this: building it takes
/// longer than what it adds, and the bans that matter are in `tidy` as well.
fn deny() -> Result<()> {
    if !shell::succeeds(&mut shell::cargo(["deny", "--version"])) {
        println!("skipped: cargo-deny is not installed (cargo install cargo-deny --locked); tidy checks the bans");
        return Ok(());
    }
    shell::run(&mut shell::cargo(["deny", "check", "bans", "licenses", "sources"]))
}
