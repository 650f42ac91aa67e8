//! The words of docs/glossary.md: what must not be said, and what to say instead.

use super::Finding;
use super::tree::{File, Tree};

/// A phrase that is not ours.
struct Banned {
    /// In lower case.
    phrase: &'static str,
    say: &'static str,
    /// Where it is looked for; empty is everywhere. A protocol may have a field of that name, so code may need it.
    only_in: &'static [&'static str],
}

const BANNED: &[Banned] = &[
    Banned {
        phrase: "dedup",
        say: "say `recognise a repetition`, or name the rule: replay, conflict, unknown",
        only_in: &[],
    },
    Banned { phrase: "de-dup", say: "say `recognise a repetition`", only_in: &[] },
    Banned { phrase: "exactly once", say: EXACTLY_ONCE, only_in: &[] },
    Banned { phrase: "exactly-once", say: EXACTLY_ONCE, only_in: &[] },
    Banned { phrase: "exactly_once", say: EXACTLY_ONCE, only_in: &[] },
    Banned { phrase: "request id", say: "an operation has an `operation id`", only_in: &["md", "sql", "html"] },
    Banned { phrase: "ledger cache", say: LEDGER, only_in: &[] },
    Banned { phrase: "receipt cache", say: LEDGER, only_in: &[] },
    Banned { phrase: "cached receipt", say: LEDGER, only_in: &[] },
    Banned { phrase: "cached operation", say: LEDGER, only_in: &[] },
    Banned { phrase: "cached answer", say: LEDGER, only_in: &[] },
    Banned { phrase: "cached response", say: LEDGER, only_in: &[] },
];

const EXACTLY_ONCE: &str = "it is not promised: say `one effect`, `at most one dispatch`, or of a plain count `once`; a \
                            sentence that denies it goes into ALLOWED of xtask/src/tidy/words.rs";
const LEDGER: &str = "the ledger is the record, nothing in it may be dropped to save space: say `stored receipt`";

/// A sentence that may use a banned phrase.
struct Allowed {
    path: &'static str,
    /// Part of the sentence around the phrase, in lower case and on one line; empty is the whole file.
    around: &'static str,
    /// Read by people only: why the phrase stands there.
    #[allow(dead_code, reason = "the reason is for the reader of this table")]
    reason: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed { path: "docs/glossary.md", around: "", reason: "the page that says which words are not used" },
    Allowed { path: "README.md", around: "never promised", reason: "it denies the promise" },
    Allowed { path: "crates/onceward/src/lib.rs", around: "never", reason: "it denies the promise" },
    Allowed { path: "contracts/aws.sqs.fifo.toml", around: "messagededuplicationid", reason: "the vendor's own name" },
    Allowed {
        path: "docs/contracts/aws.sqs.fifo.md",
        around: "messagededuplicationid",
        reason: "the vendor's own name",
    },
    Allowed { path: "contracts/aws.sqs.fifo.toml", around: "fifo-queues-", reason: "the address of the vendor's page" },
    Allowed {
        path: "docs/contracts/aws.sqs.fifo.md",
        around: "fifo-queues-",
        reason: "the address of the vendor's page",
    },
];

/// How much text around a phrase counts as its sentence, in bytes to each side.
const AROUND_BYTES: usize = 200;

/// Finds each banned phrase, also where a line break parts it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[Allowed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; allowed.len()];
    // The tables above would find themselves.
    for file in tree.files().iter().filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        let flat = Flat::of(file);
        for banned in BANNED {
            if !banned.only_in.is_empty() && !banned.only_in.iter().any(|extension| file.has_extension(extension)) {
                continue;
            }
            for at in flat.occurrences(banned.phrase) {
                let sentence = flat.around(at);
                let exception = allowed.iter().position(|row| row.path == file.path && sentence.contains(row.around));
                match exception {
                    Some(row) => needed[row] = true,
                    None => {
                        let message = format!("`{}` is not our word; {}", banned.phrase, banned.say);
                        findings.push(Finding::new(&file.path, flat.line(at), message));
                    }
                }
            }
        }
    }
    for (row, _) in allowed.iter().zip(needed).filter(|(_, needed)| !needed) {
        let message = format!("nothing needs the exception `{}` any more; remove it from ALLOWED", row.around);
        findings.push(Finding::new(row.path, 0, message));
    }
    findings
}

/// A file's text in lower case with each line break, and the comment marks after it, turned into one space.
struct Flat {
    text: String,
    /// Where each line begins in `text`.
    line_starts: Vec<usize>,
}

impl Flat {
    fn of(file: &File) -> Self {
        let mut text = String::with_capacity(file.text.len());
        let mut line_starts = Vec::new();
        for line in file.text.lines() {
            if !text.is_empty() {
                text.push(' ');
            }
            line_starts.push(text.len());
            let marks = |c: char| c.is_whitespace() || "/!>*#-".contains(c);
            text.push_str(&line.trim_start_matches(marks).trim_end().to_lowercase());
        }
        Self { text, line_starts }
    }

    /// Where the phrase stands, except as the name of a method of the standard library (`list.dedup()`).
    fn occurrences<'a>(&'a self, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.text.match_indices(phrase).map(|(at, _)| at).filter(|at| !self.text[..*at].ends_with('.'))
    }

    fn around(&self, at: usize) -> &str {
        let begin = self.text.floor_char_boundary(at.saturating_sub(AROUND_BYTES));
        let end = self.text.ceil_char_boundary(at + AROUND_BYTES);
        &self.text[begin..end]
    }

    fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check_with(&Tree::of(&[(path, text)]), &[]).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_banned_phrase_is_found_in_docs_and_code_also_across_a_line_break() {
        assert_eq!(lines("a.md", "one\nIt runs Exactly once.\n"), [2]);
        assert_eq!(lines("a.rs", "// This runs exactly\n    // once, surely.\n"), [1]);
        assert_eq!(lines("a.rs", "fn deduplicate() {}\n"), [1]);
        assert_eq!(lines("a.sql", "-- the request id\n"), [1]);
    }

    #[test]
    fn a_method_of_the_standard_library_and_a_protocol_field_are_not_found() {
        assert_eq!(lines("a.rs", "list.dedup();\n// the JSON-RPC request id\n"), [0_usize; 0]);
    }

    #[test]
    fn an_exception_covers_its_sentence_only_and_must_be_needed() {
        let row = |around| Allowed { path: "a.md", around, reason: "denied" };
        let far = "x ".repeat(AROUND_BYTES);
        let text = format!("We do not promise exactly once. {far}\n{far}\nYet it runs exactly once.\n");
        let findings = check_with(&Tree::of(&[("a.md", &text)]), &[row("do not promise exactly once")]);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        let stale = check_with(&Tree::of(&[("a.md", "Plain.\n")]), &[row("do not promise exactly once")]);
        assert_eq!(stale.len(), 1);
    }
}
