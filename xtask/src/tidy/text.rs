//! How a file looks: its width, its length, its whitespace, and words of code that must not be committed.

use super::Finding;
use super::tree::{File, Tree};

/// In characters. rustfmt breaks code at 120; this catches the comments and strings that it leaves alone.
const LINE_WIDTH_MAX: usize = 140;

/// In lines. Beyond it a newcomer no longer sees what a file is about.
const FILE_LINES_MAX: usize = 600;

/// Rust files that are longer, and why they are not split.
const LONG_FILES: &[(&str, &str)] = &[];

/// How far above a pause the loop and its deadline may stand, in lines.
const POLL_LINES: usize = 14;

/// A pause that is not part of a poll carries a comment that begins like this and gives the reason.
const SLEEP_MARK: &str = "// sleeps:";

/// Never committed, with the way out.
const FORBIDDEN: &[(&str, &str)] = &[
    ("todo!", "write it, or leave the function out until it is written"),
    ("unimplemented!", "write it, or leave the function out until it is written"),
    ("dbg!", "remove it, or use tracing"),
    ("#[ignore", "a test that is not run does not count: make it fit, or move it to the bench"),
];

/// Checks every text file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        findings.extend(whitespace(file));
    }
    for file in tree.with_extension("rs") {
        findings.extend(width(file));
        // The tables and tests of tidy would find themselves.
        if !file.path.starts_with("xtask/src/tidy/") {
            findings.extend(forbidden(file));
            findings.extend(sleeps(file));
        }
    }
    findings.extend(length(tree));
    findings
}

fn whitespace(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(&file.path, number, "trailing whitespace; remove it"));
        }
        if line.contains('\t') && file.has_extension("rs") {
            findings.push(Finding::new(&file.path, number, "a tab; indent with spaces, write \\t in a string"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(&file.path, 0, "no newline at its end; add one"));
    }
    findings
}

fn width(file: &File) -> Vec<Finding> {
    let too_wide = |line: &str| line.chars().count() > LINE_WIDTH_MAX;
    file.lines()
        .filter(|(_, line)| too_wide(line))
        .map(|(number, _)| {
            Finding::new(&file.path, number, format!("wider than {LINE_WIDTH_MAX} characters; break the line"))
        })
        .collect()
}

fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
            let message = format!(
                "{lines} lines, more than {FILE_LINES_MAX}; split it by idea, or give the reason in LONG_FILES of \
                 xtask/src/tidy/text.rs"
            );
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    for (path, _) in LONG_FILES {
        let needed = tree.file(path).is_some_and(|file| file.text.lines().count() > FILE_LINES_MAX);
        if !needed {
            findings.push(Finding::new(path, 0, "no longer long; remove its row from LONG_FILES"));
        }
    }
    findings
}

fn forbidden(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for (word, way_out) in FORBIDDEN {
            if line.contains(word) {
                findings.push(Finding::new(&file.path, number, format!("`{word}`: {way_out}")));
            }
        }
    }
    findings
}

/// A test waits for a condition until a deadline; one that sleeps and hopes is slow on a good day and wrong on a bad one.
fn sleeps(file: &File) -> Vec<Finding> {
    let Some(begin) = file.tests_begin() else {
        return Vec::new();
    };
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate().skip(begin - 1) {
        if !calls_sleep(line) {
            continue;
        }
        let above = &lines[index.saturating_sub(POLL_LINES)..=index];
        let polls = above.iter().any(|line| line.contains("loop") || line.contains("while"))
            && above.iter().any(|line| line.to_lowercase().contains("deadline"));
        let explained = lines[index.saturating_sub(3)..=index].iter().any(|line| line.contains(SLEEP_MARK));
        if !polls && !explained {
            let message = format!(
                "a sleep in a test; loop over the condition until a `deadline`, or say why time itself is what is \
                 tested in a comment `{SLEEP_MARK} …` above"
            );
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

/// A call of a function named `sleep`, by its path or imported; not a method or a definition of that name.
fn calls_sleep(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("sleep(").any(|(at, _)| {
        let before = &code[..at];
        let joined = before.ends_with(|c: char| c.is_alphanumeric() || "._\"`".contains(c));
        !joined && !before.trim_end().ends_with("fn")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_clean_file_has_no_finding() {
        assert_eq!(found("crates/a/src/lib.rs", "fn main() {}\n"), 0);
    }

    #[test]
    fn whitespace_width_and_length_are_found() {
        assert_eq!(found("a.md", "text \n"), 1);
        assert_eq!(found("a.md", "text"), 1);
        assert_eq!(found("a.rs", "\tx\n"), 1);
        assert_eq!(found("a.rs", &format!("// {}\n", "x".repeat(LINE_WIDTH_MAX - 3))), 0);
        assert_eq!(found("a.rs", &format!("// {}\n", "x".repeat(LINE_WIDTH_MAX - 2))), 1);
        assert_eq!(found("a.rs", &"//\n".repeat(FILE_LINES_MAX)), 0);
        assert_eq!(found("a.rs", &"//\n".repeat(FILE_LINES_MAX + 1)), 1);
    }

    #[test]
    fn code_that_must_not_be_committed_is_found() {
        for text in ["todo!()", "unimplemented!()", "dbg!(x)", "#[ignore = \"slow\"]"] {
            assert_eq!(found("a.rs", &format!("{text}\n")), 1, "{text}");
        }
    }

    #[test]
    fn a_sleep_in_a_test_is_found_and_a_poll_with_a_deadline_is_not() {
        let tests = "crates/a/tests/it/main.rs";
        assert_eq!(found(tests, "std::thread::sleep(second);\n"), 1);
        assert_eq!(found(tests, "sleep(second).await;\n"), 1);
        assert_eq!(found("crates/a/src/b.rs", "#[cfg(test)]\nmod tests {\n    thread::sleep(second);\n}\n"), 1);
        assert_eq!(found("crates/a/src/b.rs", "thread::sleep(second);\n"), 0);
        assert_eq!(found(tests, "while now() < deadline {\n    thread::sleep(tick);\n}\n"), 0);
        assert_eq!(found(tests, "// sleeps: the horizon is what is tested\nthread::sleep(second);\n"), 0);
        assert_eq!(found(tests, "runtime.sleep(second);\n"), 0);
    }
}
