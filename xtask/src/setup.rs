//! What the tests need beside Rust: Python environments and Node packages of the foreign clients that they drive.
//!
//! `tests/python/<name>-requirements.txt` becomes the environment `target/venv/<name>`, handed to the tests as
//! `ONCEWARD_VENV_<NAME>`; `tests/node/<name>/package.json` becomes `target/node/<name>` and `ONCEWARD_NODE_<NAME>`.
//! Each is made once and again only when its list changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

const REQUIREMENTS_SUFFIX: &str = "-requirements.txt";

/// Beside what was installed lies the list it was installed from, written last: a folder without it is half made.
const STAMP: &str = "installed-from";

/// Makes every environment that is missing or stale, and returns the variables by which the tests find them.
///
/// # Errors
/// The command that failed to make an environment.
pub(crate) fn foreign_clients() -> Result<Vec<(String, PathBuf)>> {
    let mut variables = Vec::new();
    for file in entries(&shell::root().join("tests/python"))? {
        if let Some(name) = file_name(&file).strip_suffix(REQUIREMENTS_SUFFIX) {
            variables.push((variable("VENV", name), python(name, &file)?));
        }
    }
    for dir in entries(&shell::root().join("tests/node"))? {
        if dir.join("package.json").is_file() {
            let name = file_name(&dir);
            variables.push((variable("NODE", &name), node(&name, &dir)?));
        }
    }
    Ok(variables)
}

pub(crate) fn python(name: &str, requirements: &Path) -> Result<PathBuf> {
    let venv = shell::target_dir().join("venv").join(name);
    let list = read(requirements)?;
    if is_fresh(&venv, &list) {
        return Ok(venv);
    }
    remove(&venv)?;
    shell::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))
        .context("a Python environment needs python3 with its venv module (Debian: apt-get install python3-venv)")?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    shell::run(Command::new(venv.join("bin/python")).args(install).arg(requirements))?;
    fs::write(venv.join(STAMP), list)?;
    Ok(venv)
}

fn node(name: &str, source: &Path) -> Result<PathBuf> {
    let dir = shell::target_dir().join("node").join(name);
    let manifest = read(&source.join("package.json"))?;
    let lock_path = source.join("package-lock.json");
    let lock = if lock_path.is_file() { read(&lock_path)? } else { String::new() };
    let list = format!("{manifest}{lock}");
    if is_fresh(&dir, &list) {
        return Ok(dir);
    }
    remove(&dir)?;
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("package.json"), manifest)?;
    let command = if lock.is_empty() { "install" } else { "ci" };
    if !lock.is_empty() {
        fs::write(dir.join("package-lock.json"), lock)?;
    }
    shell::run(Command::new("npm").args([command, "--no-audit", "--no-fund", "--prefix"]).arg(&dir))
        .context("the Node clients need npm (Node 20 or later)")?;
    fs::write(dir.join(STAMP), list)?;
    Ok(dir)
}

/// The smallest Debian, unpacked once, in which tests try what is installed by hand into a machine or an image. None where
/// nobody here may change the root of a process; the tests say so then.
///
/// # Errors
/// debootstrap is not there, or failed.
pub(crate) fn debian_root() -> Result<Option<PathBuf>> {
    const SUITE: &str = "bookworm";
    if !shell::succeeds(Command::new("chroot").args(["/", "true"])) {
        println!("not root: packages are not tried in a Debian of their own");
        return Ok(None);
    }
    let dir = shell::target_dir().join("debian-root");
    if is_fresh(&dir, SUITE) {
        return Ok(Some(dir));
    }
    remove(&dir)?;
    shell::run(Command::new("debootstrap").args(["--variant=minbase", SUITE]).arg(&dir))
        .context("a Debian to try packages in needs debootstrap (Debian: apt-get install debootstrap)")?;
    fs::write(dir.join(STAMP), SUITE)?;
    Ok(Some(dir))
}

/// The whole list is the stamp: it is short, and a text cannot collide as a hash can.
fn is_fresh(dir: &Path, list: &str) -> bool {
    fs::read_to_string(dir.join(STAMP)).is_ok_and(|stamp| stamp == list)
}

/// `mcp-1` of kind `VENV` is `ONCEWARD_VENV_MCP_1`.
fn variable(kind: &str, name: &str) -> String {
    format!("ONCEWARD_{kind}_{}", name.to_uppercase().replace(['-', '.'], "_"))
}

/// What lies in a folder, in the order of names; nothing when there is no such folder.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn a_test_finds_its_environment_by_an_upper_case_name() {
        assert_eq!(variable("VENV", "openai-agents"), "ONCEWARD_VENV_OPENAI_AGENTS");
        assert_eq!(variable("NODE", "mcp-1.x"), "ONCEWARD_NODE_MCP_1_X");
    }
}
