//! The project's own commands, run as `cargo xtask <command>`.
//!
//! One file per command; `shell` starts and prints every program that they run, `setup` prepares what the tests need
//! beside Rust.

mod ci;
mod clients;
mod dist;
mod docs;
mod setup;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask test [--fast]      build, run every test; --fast leaves out foreign clients, process tests and doc tests
cargo xtask ci                 fmt, clippy, tidy, generated documents, deny, then test: what CI runs
cargo xtask tidy               the project's own checks of text, manifests, promises and links
cargo xtask docs [--check]     write the generated documents; --check only compares
cargo xtask dist [--binary PATH] [--output PATH]   wheel, npm packages, .deb and the context of a container image
cargo xtask bench [ARGUMENTS]  the benchmark, built for release";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::run(test::Extent::Whole),
        ["test", "--fast"] => test::run(test::Extent::Fast),
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(docs::Mode::Write),
        ["docs", "--check"] => docs::run(docs::Mode::Check),
        ["dist", rest @ ..] => dist::run(&dist::Options::parse(rest)?).map(drop),
        ["bench", rest @ ..] => bench(rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => bail!("no command given\n{USAGE}"),
        unknown => bail!("unknown command `{}`\n{USAGE}", unknown.join(" ")),
    }
}

fn bench(arguments: &[&str]) -> Result<()> {
    shell::run(shell::cargo(["run", "--release", "-p", "onceward-bench", "--"]).args(arguments))
}
