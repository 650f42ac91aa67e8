//! What must not be in the dependency graph. cargo-deny says the same of all platforms where it is installed; this needs
//! nothing but cargo.

use anyhow::Result;

use super::Finding;
use crate::shell;

/// In no crate of ours, under default features.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "a second TLS provider beside ring; switch off the feature that brings it"),
    ("aws-lc-sys", "a second TLS provider beside ring; switch off the feature that brings it"),
    ("openssl-sys", "TLS is rustls with ring; switch off the feature that brings it"),
    ("native-tls", "TLS is rustls with ring; switch off the feature that brings it"),
    ("sqlx", "it cannot share a graph with rusqlite"),
    ("sqlx-core", "it cannot share a graph with rusqlite"),
];

/// Not below the rules, which run without I/O, clock, runtime and chance. jiff is there to write a time as text; its
/// clock is banned by clippy.toml.
const NOT_IN_CORE: &[&str] = &[
    "tokio",
    "mio",
    "hyper",
    "reqwest",
    "rusqlite",
    "rustix",
    "libc",
    "uuid",
    "getrandom",
    "rand",
    "time",
    "chrono",
    "tracing",
];

const LOCK: &str = "Cargo.lock";
const CORE: &str = "onceward-core";

/// Asks cargo for the graph.
///
/// # Errors
/// When cargo cannot resolve it from Cargo.lock as it is.
pub(super) fn check() -> Result<Vec<Finding>> {
    let arguments = ["tree", "--locked", "--prefix", "none", "--format", "{p}"];
    let whole = shell::output(shell::cargo(arguments).arg("--workspace"))?;
    let core = shell::output(shell::cargo(arguments).args(["-p", CORE, "-e", "normal,build"]))?;
    Ok(judge(&names(&whole), &names(&core)))
}

fn judge(whole: &[&str], core: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, way_out) in BANNED.iter().filter(|(name, _)| whole.contains(name)) {
        findings.push(Finding::new(LOCK, 0, format!("`{name}`: {way_out} (see `cargo tree -i {name}`)")));
    }
    for name in NOT_IN_CORE.iter().filter(|name| core.contains(name)) {
        let message = format!("`{name}` below {CORE}, whose rules are pure; see `cargo tree -p {CORE} -i {name}`");
        findings.push(Finding::new(LOCK, 0, message));
    }
    findings
}

/// The package names of `cargo tree`'s lines, each `name v1.2.3 …`.
fn names(tree: &str) -> Vec<&str> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_package_and_a_runtime_below_the_rules_are_found() {
        assert_eq!(judge(&names("tokio v1.2.3\nring v0.17.0\n"), &names("serde v1.0.0\n")), []);
        assert_eq!(judge(&names("native-tls v0.2.0 (*)\n"), &[]).len(), 1);
        assert_eq!(judge(&[], &names("onceward-core v0.1.0 (/x)\ntokio v1.2.3\n")).len(), 1);
    }
}
