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
    typescript(environment)?;
    frameworks(environment)
}

/// Agent frameworks with the clients' adapters, their models scripts.
fn frameworks(environment: &[(String, PathBuf)]) -> Result<()> {
    let root = shell::root();
    // The second has another version of one library, for that library's tests alone.
    for (name, tests) in [("integrations", "tests/frameworks"), ("integrations2", "tests/frameworks/test_mcp.py")] {
        let requirements = root.join(format!("tests/python/{name}-requirements.txt"));
        let venv = setup::python(name, &requirements)?;
        let mut suite = Command::new(venv.join("bin/python"));
        suite.args(["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", tests]);
        suite.env("PYTHONPATH", root.join("clients/python/src"));
        shell::run(suite.envs(environment.iter().map(|(name, value)| (name, value))))?;
    }
    let mut suite = Command::new("sh");
    suite.args(["-c", "node --test tests/frameworks/node/*.test.mjs"]);
    shell::run(suite.envs(environment.iter().map(|(name, value)| (name, value))))
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
