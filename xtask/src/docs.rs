//! `cargo xtask docs [--check]`: the documents that are printed from code, so that they cannot say something else.

use std::borrow::Cow;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A document that a program of ours prints.
#[derive(Clone)]
struct Generated {
    /// Where it lies, from the root.
    path: Cow<'static, str>,
    /// The package whose example `print_docs` prints it.
    package: &'static str,
    /// What that example is asked for.
    name: Cow<'static, str>,
}

impl Generated {
    const fn of_core(path: &'static str, name: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), package: "onceward-core", name: Cow::Borrowed(name) }
    }
}

/// Every generated document but the pages of contracts. A new one is a row here and an arm in the package's
/// `examples/print_docs`.
const GENERATED: &[Generated] = &[
    Generated::of_core("docs/state-machine.md", "state-machine.md"),
    Generated::of_core("docs/outcomes.md", "outcomes.md"),
    Generated::of_core("docs/contracts/catalog.md", "contracts/catalog.md"),
];

/// Where contracts lie, and where their pages do.
const CONTRACTS: &str = "contracts";
const CONTRACT_PAGES: &str = "docs/contracts";

/// What lies among the pages of contracts and is none.
const NO_CONTRACT_PAGES: [&str; 3] = ["README.md", "catalog.md", "classification.md"];

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
    let contracts = names(CONTRACTS, ".toml")?;
    let mut stale = pages_without_contract(&contracts, &names(CONTRACT_PAGES, "")?);
    let pages = contracts.iter().map(|id| Generated {
        path: Cow::Owned(format!("{CONTRACT_PAGES}/{id}.md")),
        package: "onceward-core",
        name: Cow::Owned(format!("contracts/{id}.md")),
    });
    for document in GENERATED.iter().map(Cow::Borrowed).chain(pages.map(Cow::Owned)) {
        let printed = print(&document)?;
        let path = shell::root().join(&*document.path);
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

/// The names of the files in a folder that end like that, without the ending, in order.
fn names(folder: &str, ending: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(shell::root().join(folder)).with_context(|| format!("cannot read {folder}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(ending).map(ToOwned::to_owned));
    }
    names.sort();
    Ok(names)
}

/// What is said of pages whose contract is gone.
fn pages_without_contract(contracts: &[String], pages: &[String]) -> Vec<String> {
    let known = |page: &str| {
        NO_CONTRACT_PAGES.contains(&page) || contracts.iter().any(|id| page.strip_suffix(".md") == Some(id.as_str()))
    };
    let lost = pages.iter().filter(|page| !known(page));
    lost.map(|page| format!("{CONTRACT_PAGES}/{page} is the page of no contract")).collect()
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
        &document.name,
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
    use super::{first_difference, pages_without_contract};

    #[test]
    fn a_page_whose_contract_is_gone_is_named() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let pages = list(&["README.md", "catalog.md", "acme.v1.md", "acme.v2.md"]);
        let found = pages_without_contract(&list(&["acme.v2"]), &pages);
        assert_eq!(found, ["docs/contracts/acme.v1.md is the page of no contract"]);
        assert!(pages_without_contract(&list(&["acme.v1", "acme.v2"]), &pages).is_empty());
    }

    #[test]
    fn the_first_line_that_differs_is_named_also_when_one_text_ends_early() {
        assert_eq!(first_difference("a\nb\nc\n", "a\nx\nc\n"), 2);
        assert_eq!(first_difference("a\n", "a\nb\n"), 2);
    }
}
