//! `cargo xtask docs [--check]`: the documents that are printed from code, so that they cannot say something else.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A document that a program of ours prints.
struct Generated {
    /// Where it lies, from the root.
    path: &'static str,
    /// The package whose example `print_docs` prints it.
    package: &'static str,
    /// What that example is asked for.
    name: &'static str,
}

/// Every generated document. A new one is a row here and an arm in the package's `examples/print_docs.rs`.
const GENERATED: &[Generated] = &[
    Generated { path: "docs/state-machine.md", package: "onceward-core", name: "state-machine.md" },
    Generated { path: "docs/outcomes.md", package: "onceward-core", name: "outcomes.md" },
];

/// What is done with a document that differs from what is printed now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is written anew.
    Write,
    /// It is an error.
    Check,
}

/// Prints every generated document and writes it, or compares it with the file.
///
/// # Errors
/// In `Check`, names every stale file; in both, a document that cannot be printed.
pub(crate) fn run(mode: Mode) -> Result<()> {
    let mut stale = Vec::new();
    for document in GENERATED {
        let printed = print(document)?;
        let path = shell::root().join(document.path);
        let present = fs::read_to_string(&path).ok();
        if present.as_deref() == Some(printed.as_str()) {
            println!("{}: fresh", document.path);
            continue;
        }
        match mode {
            Mode::Check => stale.push(match present {
                None => format!("{} is missing", document.path),
                Some(text) => format!("{} differs from line {}", document.path, first_difference(&text, &printed)),
            }),
            Mode::Write => {
                fs::create_dir_all(path.parent().context("a document has a folder")?)?;
                fs::write(&path, &printed).with_context(|| format!("cannot write {}", document.path))?;
                println!("{}: written", document.path);
            }
        }
    }
    if !stale.is_empty() {
        bail!("{}; run `cargo xtask docs` and commit what it writes", stale.join("; "));
    }
    Ok(())
}

fn print(document: &Generated) -> Result<String> {
    let printed = shell::output(&mut shell::cargo([
        "run",
        "-q",
        "-p",
        document.package,
        "--example",
        "print_docs",
        "--",
        document.name,
    ]))?;
    if printed.trim().is_empty() {
        bail!("print_docs of {} printed nothing for {}", document.package, document.name);
    }
    Ok(printed)
}

/// The number of the first line that is not the same in both.
fn first_difference(present: &str, printed: &str) -> usize {
    let same = present.lines().zip(printed.lines()).take_while(|(a, b)| a == b).count();
    same + 1
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn the_first_line_that_differs_is_named_also_when_one_text_ends_early() {
        assert_eq!(first_difference("a\nb\nc\n", "a\nx\nc\n"), 2);
        assert_eq!(first_difference("a\n", "a\nb\n"), 2);
    }
}
