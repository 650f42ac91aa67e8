//! What the documents promise is held by something: a promise by a test, a code by a page.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};

const GUARANTEES: &str = "docs/guarantees.md";
const CODES: &str = "crates/onceward-core/src/code.rs";
/// Outcomes are explained in a generated table; one that needs more words may have a page as well.
const OUTCOMES: &str = "crates/onceward-core/src/outcome.rs";
const PAGES: &str = "docs/errors/";

/// Files of that folder that are not the page of one code.
const NOT_PAGES: &[&str] = &["README", "index"];

/// Checks that every row of a table with a column `Test` (or `Tests`) in docs/guarantees.md names test functions, in
/// backticks, and that each of them exists and is run as a test.
pub(super) fn tests_exist(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(GUARANTEES) else {
        return vec![Finding::new(GUARANTEES, 0, "missing: each promise stands there beside the test that holds it")];
    };
    let known = test_functions(tree);
    let mut findings = Vec::new();
    let mut rows = 0;
    let mut column = None;
    let mut previous_is_row = false;
    for (number, line) in file.lines() {
        let cells = cells(line);
        let is_header = !previous_is_row;
        previous_is_row = !cells.is_empty();
        if cells.is_empty() {
            column = None;
        } else if is_header {
            column = cells.iter().position(|cell| ["test", "tests"].contains(&cell.to_lowercase().as_str()));
        } else if let Some(column) = column
            && !is_rule(&cells)
        {
            rows += 1;
            let named = cells.get(column).map(|cell| backticked(cell)).unwrap_or_default();
            if named.is_empty() {
                findings.push(Finding::new(GUARANTEES, number, "a promise without a test; name one in backticks"));
            }
            for name in named {
                let function = name.rsplit("::").next().unwrap_or(name).trim_end_matches("()");
                if !known.contains(function) {
                    let message = format!("no test function `{function}` in the tree; write it, or correct the name");
                    findings.push(Finding::new(GUARANTEES, number, message));
                }
            }
        }
    }
    if rows == 0 {
        let message = "no table with a column `Test`: each promise names the test that holds it";
        findings.push(Finding::new(GUARANTEES, 0, message));
    }
    findings
}

/// Checks that each code of the core has its page, and each page its code.
pub(super) fn codes_have_pages(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(CODES) else {
        return vec![Finding::new(CODES, 0, "missing: the list of codes is read from there")];
    };
    let codes = codes(file);
    let mut findings = Vec::new();
    if codes.is_empty() {
        findings.push(Finding::new(CODES, 0, "no code found: each stands there as a \"snake_case\" string"));
    }
    for (code, line) in &codes {
        let page = format!("{PAGES}{code}.md");
        if !tree.has(&page) {
            let message = format!("code `{code}` has no page; write {page}: what happened, what was sent, what to do");
            findings.push(Finding::new(CODES, *line, message));
        }
    }
    let outcomes = tree.file(OUTCOMES).map(self::codes).unwrap_or_default();
    for path in tree.paths_below(PAGES) {
        let Some(name) = path.strip_prefix(PAGES).and_then(|path| path.strip_suffix(".md")) else {
            continue;
        };
        let is_known = codes.iter().chain(&outcomes).any(|(code, _)| code == name);
        if !NOT_PAGES.contains(&name) && !is_known {
            let message = format!("no code `{name}` in {CODES}, no outcome of that name; codes are never removed");
            findings.push(Finding::new(path, 0, message));
        }
    }
    findings
}

/// Every string of the file, outside its tests and comments, that has the form of a code; each with its first line.
fn codes(file: &File) -> Vec<(String, usize)> {
    let tests_begin = file.tests_begin().unwrap_or(usize::MAX);
    let mut codes: Vec<(String, usize)> = Vec::new();
    for (number, line) in file.lines().take_while(|(number, _)| *number < tests_begin) {
        let line = line.trim_start();
        if line.starts_with("//") || line.starts_with('#') {
            continue;
        }
        for text in line.split('"').skip(1).step_by(2) {
            let is_code = text.starts_with(|c: char| c.is_ascii_lowercase())
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if is_code && !codes.iter().any(|(code, _)| code == text) {
                codes.push((text.to_owned(), number));
            }
        }
    }
    codes
}

/// The names of all functions that a test runner runs, in Rust and Python.
fn test_functions(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in tree.with_extension("rs") {
        let mut attributes = Vec::new();
        for (_, line) in file.lines() {
            let line = line.trim();
            if line.starts_with("#[") {
                attributes.push(line);
            } else if let Some(name) = function_name(line, "fn ") {
                if attributes.iter().any(|attribute| is_test_attribute(attribute)) {
                    names.insert(name);
                }
                attributes.clear();
            } else if line.is_empty() || line.ends_with('}') {
                attributes.clear();
            }
        }
    }
    for file in tree.with_extension("py") {
        names.extend(file.lines().filter_map(|(_, line)| function_name(line.trim(), "def ")));
    }
    names
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(flavor = "…")]`; not `#[cfg(test)]`.
fn is_test_attribute(attribute: &str) -> bool {
    let path = attribute.trim_start_matches("#[").split(['(', ']', ' ']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

fn function_name<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let visible = line.strip_prefix("pub ").unwrap_or(line);
    let plain = visible.strip_prefix("async ").unwrap_or(visible);
    plain.strip_prefix(keyword)?.split(['(', '<']).next()
}

/// The cells of a table's row; nothing when the line is none.
fn cells(line: &str) -> Vec<&str> {
    match line.trim().strip_prefix('|') {
        Some(row) => row.trim_end_matches('|').split('|').map(str::trim).collect(),
        None => Vec::new(),
    }
}

/// The line between a table's header and its rows.
fn is_rule(cells: &[&str]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':'))
}

fn backticked(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: (&str, &str) = (
        "crates/a/tests/it/main.rs",
        "#[tokio::test(flavor = \"multi_thread\")]\n#[cfg(unix)]\nasync fn one_effect() {}\n\nfn helper() {}\n",
    );

    fn tests_found(guarantees: &str) -> Vec<usize> {
        let tree = Tree::of(&[(GUARANTEES, guarantees), TESTS]);
        tests_exist(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_promise_that_names_an_existing_test_is_not_found() {
        assert_eq!(tests_found("| Promise | Test |\n|---|---|\n| One | `a::it::one_effect` |\n"), [0_usize; 0]);
    }

    #[test]
    fn a_promise_without_a_test_or_with_one_that_does_not_exist_is_found() {
        assert_eq!(tests_found("| Promise | Test |\n|---|---|\n| One | later |\n"), [3]);
        assert_eq!(tests_found("| Promise | Test |\n|---|---|\n| One | `two_effects` |\n"), [3]);
        assert_eq!(tests_found("| Promise | Test |\n|---|---|\n| One | `helper` |\n"), [3], "not run as a test");
        assert_eq!(tests_found("Only words.\n"), [0]);
        assert_eq!(tests_exist(&Tree::of(&[TESTS])).len(), 1);
    }

    #[test]
    fn a_table_without_the_column_promises_nothing() {
        let text =
            "| Case | Condition |\n|---|---|\n| a | b |\n\n| Promise | Tests |\n|---|---|\n| x | `one_effect` |\n";
        assert_eq!(tests_found(text), [0_usize; 0]);
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        let code = (CODES, "// \"not_this\"\nSelf::Conflict => \"conflict\",\nSelf::InProgress => \"in_progress\",\n");
        let both = [code, ("docs/errors/conflict.md", ""), ("docs/errors/in_progress.md", "")];
        assert_eq!(codes_have_pages(&Tree::of(&both)), []);
        let found = codes_have_pages(&Tree::of(&[code, ("docs/errors/conflict.md", "")]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        let extra = [both[0], both[1], both[2], ("docs/errors/gone.md", ""), ("docs/errors/README.md", "")];
        assert_eq!(codes_have_pages(&Tree::of(&extra)).len(), 1);
        let outcome = (OUTCOMES, "Self::Gone => \"gone\",\n");
        assert_eq!(codes_have_pages(&Tree::of(&[&extra[..], &[outcome]].concat())), []);
        assert_eq!(codes_have_pages(&Tree::of(&[])).len(), 1);
    }
}
