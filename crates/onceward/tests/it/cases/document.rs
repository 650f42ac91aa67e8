//! The document that maps each case to what holds it is complete, and names only tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many public cases were collected.
const CASES: usize = 66;

/// What a case says where the part of the product that will hold it is not built.
const LATER: &str = "later: ";

/// One row of the document.
struct Row {
    id: String,
    goes_wrong: String,
    holds: String,
    tests: Vec<String>,
    later: bool,
}

/// The mistakes of the document, in words; none when it is whole.
fn mistakes(rows: &[Row], tests: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    if rows.len() < CASES {
        found.push(format!("{} rows, and {CASES} cases", rows.len()));
    }
    for row in rows {
        let id = &row.id;
        if !seen.insert(id) {
            found.push(format!("{id} has two rows"));
        }
        if row.goes_wrong.is_empty() || row.holds.is_empty() {
            found.push(format!("{id} has an empty cell"));
        }
        if row.tests.is_empty() && !row.later {
            found.push(format!("{id} names neither a test nor the later part that will hold it"));
        }
        for test in &row.tests {
            let function = test.rsplit("::").next().unwrap_or(test);
            if !tests.contains(function) {
                found.push(format!("{id}: there is no test function {function}"));
            }
        }
        let carries = |test: &String| test.rsplit("::").next().is_some_and(|name| name.starts_with(&prefix(id)));
        if !row.later && !row.tests.iter().any(carries) {
            found.push(format!("{id}: no test carries its id"));
        }
    }
    for test in tests {
        let Some(id) = carried_id(test) else { continue };
        let named = rows.iter().any(|row| row.id == id && row.tests.iter().any(|name| name.ends_with(test.as_str())));
        if !named {
            found.push(format!("{test} carries the id of a case whose row does not name it"));
        }
    }
    found
}

fn prefix(id: &str) -> String {
    format!("{}_", id.to_lowercase())
}

/// The case that a test's name begins with: `r049_…` carries R049.
fn carried_id(test: &str) -> Option<String> {
    let (head, _) = test.split_once('_')?;
    let digits = head.strip_prefix('r')?;
    (digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| head.to_uppercase())
}

fn rows(text: &str) -> Vec<Row> {
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> =
                line.trim().strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim).collect();
            let [id, goes_wrong, holds, tests] = cells.as_slice() else { return None };
            carried_id(&prefix(id))?;
            Some(Row {
                id: (*id).to_owned(),
                goes_wrong: (*goes_wrong).to_owned(),
                holds: (*holds).to_owned(),
                tests: tests.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
                later: tests.contains(LATER),
            })
        })
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The names of all test functions of the tree, in Rust and Python.
fn test_functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                test_functions(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.extend(rust_tests(&std::fs::read_to_string(&path).unwrap()));
        } else if name.ends_with(".py") {
            let text = std::fs::read_to_string(&path).unwrap();
            let named = text.lines().filter_map(|line| line.trim().trim_start_matches("async ").strip_prefix("def "));
            found.extend(named.filter_map(|line| line.split('(').next()).map(str::to_owned));
        }
    }
}

fn rust_tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            let path = line.trim_start_matches("#[").split(['(', ']']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            if is_test {
                found.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
            is_test = false;
        }
    }
    found
}

#[test]
fn every_case_has_one_row_and_every_test_that_it_names_exists() {
    let text = std::fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let mut tests = BTreeSet::new();
    test_functions(&root(), &mut tests);
    let found = mistakes(&rows(&text), &tests);
    assert!(found.is_empty(), "docs/cases.md:\n{}", found.join("\n"));
}

#[test]
fn a_missing_row_a_doubled_one_and_a_test_that_is_gone_are_found() {
    let row = |id: &str, tests: &str| format!("| {id} | it runs again | ledger | {tests} |\n");
    let known = BTreeSet::from(["r001_one_effect".to_owned(), "another".to_owned()]);
    let whole: BTreeMap<usize, String> = (2..=CASES).map(|n| (n, row(&format!("R{n:03}"), "later: proxy"))).collect();
    let rest: String = whole.values().cloned().collect();
    let found =
        |first: &str| mistakes(&rows(&format!("| Case | a | b | c |\n|---|---|---|---|\n{first}{rest}")), &known);
    assert_eq!(found(&row("R001", "`it::r001_one_effect`")), [""; 0]);
    assert!(found("")[0].contains("65 rows"));
    assert!(found(&row("R002", "later: proxy")).iter().any(|one| one.contains("two rows")));
    assert!(found(&row("R001", "`r001_gone`")).iter().any(|one| one.contains("no test function r001_gone")));
    assert!(found(&row("R001", "`another`")).iter().any(|one| one.contains("no test carries its id")));
    assert!(found(&row("R001", "soon")).iter().any(|one| one.contains("neither a test nor")));
    assert!(found(&row("R001", "`another`, later: proxy")).iter().any(|one| one.contains("does not name it")));
}
