//! `cargo xtask tidy`: the project's own checks, for what neither compiler nor clippy can see.
//!
//! Each check is a function from the tree's text to findings, so that its test breaks the rule on a few lines and sees
//! it found. A finding says what is wrong and the way out. A check that needs an exception has a table of them, each
//! with its reason, in its own file; an exception that nothing needs any more is itself a finding.

mod allowances;
mod graph;
mod links;
mod manifests;
mod places;
mod promises;
mod text;
mod tree;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use self::tree::Tree;
use crate::shell;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 when the whole file is meant.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// The checks that read nothing but the tree.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    text::check,
    allowances::check,
    words::check,
    places::check,
    manifests::check,
    promises::tests_exist,
    promises::codes_have_pages,
    links::check,
];

/// Runs every check and prints every finding.
///
/// # Errors
/// When there is at least one finding, or the tree cannot be read.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(shell::root())?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.extend(graph::check()?);
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings in {} files read", findings.len(), tree.files().len());
    }
    println!("tidy: {} files read, nothing found", tree.files().len());
    Ok(())
}
