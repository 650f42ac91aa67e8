//! The suites of the clients, each in its own language, against the gateway that was just built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{setup, shell};

/// Runs them.
///
/// # Errors
/// The first suite, or check of types and style, that failed.
pub(crate) fn run(environment: &[(String, PathBuf)]) -> Result<()> {
    python(environment)?;
    typescript(environment)
}

fn python(environment: &[(String, PathBuf)]) -> Result<()> {
    let venv = setup::python("client", &shell::root().join("clients/python/tests/requirements.txt"))?;
    let tool = |words: &[&str]| {
        let mut command = Command::new(venv.join("bin/python"));
        command.arg("-m").args(words).envs(environment.iter().map(|(name, value)| (name, value)));
        command
    };
    shell::run(&mut tool(&["ruff", "check", "--no-cache", "clients/python"]))?;
    shell::run(&mut tool(&["ruff", "format", "--check", "--no-cache", "clients/python"]))?;
    let config = "clients/python/pyproject.toml";
    let places = ["clients/python/src/onceward", "clients/python/tests"];
    let cache = shell::target_dir().join("mypy").display().to_string();
    shell::run(tool(&["mypy", "--config-file", config, "--cache-dir", &cache]).args(places))?;
    shell::run(&mut tool(&["pytest", "-q", "-p", "no:cacheprovider", "clients/python"]))
}

fn typescript(environment: &[(String, PathBuf)]) -> Result<()> {
    let client = shell::root().join("clients/typescript");
    install(&client)?;
    let mut suite = Command::new("npm");
    suite.args(["test", "--prefix"]).arg(client).envs(environment.iter().map(|(name, value)| (name, value)));
    shell::run(&mut suite)
}

/// The TypeScript client as other programs import it. Tests that are not its own need it as well.
///
/// # Errors
/// npm, or a type that does not fit.
pub(crate) fn build_typescript() -> Result<()> {
    let client = shell::root().join("clients/typescript");
    install(&client)?;
    shell::run(Command::new("npm").args(["run", "build", "--prefix"]).arg(client))
}

fn install(client: &Path) -> Result<()> {
    shell::run(
        Command::new("npm").args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"]).arg(client),
    )
}
