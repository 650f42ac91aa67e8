//! Where the clock may be read, and where an HTTP client may be built.
//!
//! clippy.toml bans the calls; a place that may make one switches the ban off with a reason. This table is the list of
//! such places, so that a new one is seen in review as a row here and not as an attribute among a thousand lines.

use super::Finding;
use super::tree::{File, Tree};

/// Calls of one kind and where they belong.
struct Kind {
    calls: &'static [&'static str],
    home: &'static str,
    /// Files, or folders with a `/` at the end, beside the home.
    also: &'static [(&'static str, &'static str)],
}

const MEASURES: &str = "it starts and times real processes; nothing is decided by this time";

const KINDS: &[Kind] = &[
    Kind {
        calls: &["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now", "Uuid::now_v7"],
        home: "crates/onceward-ledger/src/clock.rs",
        also: &[
            ("crates/onceward-lab/", MEASURES),
            ("crates/onceward-bench/", MEASURES),
            ("xtask/", MEASURES),
            ("crates/onceward-cluster/", MEASURES),
        ],
    },
    Kind {
        calls: &["reqwest::Client::new", "reqwest::Client::builder", "ClientBuilder::new", "reqwest::get"],
        home: "crates/onceward-destinations/src/client.rs",
        also: &[
            ("crates/onceward-lab/", "it plays the agent, which is no part of the product"),
            ("crates/onceward-bench/", "it plays the agent, which is no part of the product"),
            ("crates/onceward-cli/src/client.rs", "it talks to our own gateway, which answers without redirects"),
        ],
    },
];

/// What switches the ban off.
const SWITCH: &str = "clippy::disallowed_methods";

/// Finds banned calls, and bans switched off, outside their places. Tests may do both: they poll until a deadline, and
/// play the caller.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // The tables above would find themselves.
    tree.with_extension("rs").filter(|file| !file.path.starts_with("xtask/src/tidy/")).flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let tests_begin = file.tests_begin().unwrap_or(usize::MAX);
    let mut findings = Vec::new();
    for (number, line) in file.lines().take_while(|(number, _)| *number < tests_begin) {
        let code = line.split("//").next().unwrap_or_default();
        for kind in KINDS.iter().filter(|kind| !is_place(kind, &file.path)) {
            if let Some(call) = kind.calls.iter().find(|call| code.contains(*call)) {
                let message = format!(
                    "`{call}` belongs in {}; take its result as an argument, or add this file with a reason to \
                     xtask/src/tidy/places.rs",
                    kind.home
                );
                findings.push(Finding::new(&file.path, number, message));
            }
        }
        if code.contains(SWITCH) && !KINDS.iter().any(|kind| is_place(kind, &file.path)) {
            let message = format!("`{SWITCH}` is switched off in a file that xtask/src/tidy/places.rs does not list");
            findings.push(Finding::new(&file.path, number, message));
        }
    }
    findings
}

fn is_place(kind: &Kind, path: &str) -> bool {
    path == kind.home
        || kind.also.iter().any(|(place, _)| path == *place || place.ends_with('/') && path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_clock_reading_or_a_client_outside_its_place_is_found() {
        assert_eq!(found("crates/onceward-gateway/src/auth.rs", "let now = SystemTime::now();\n"), 1);
        assert_eq!(found("crates/onceward-gateway/src/auth.rs", "let c = reqwest::Client::new();\n"), 1);
        // Having one privilege is not having the other.
        assert_eq!(found("crates/onceward-destinations/src/client.rs", "let now = Instant::now();\n"), 1);
    }

    #[test]
    fn a_ban_switched_off_elsewhere_is_found_whatever_the_call_is_named() {
        let text = "#[allow(clippy::disallowed_methods, reason = \"quick\")]\nfn now() -> I { I::now() }\n";
        assert_eq!(found("crates/onceward-gateway/src/auth.rs", text), 1);
    }

    #[test]
    fn the_home_the_lab_and_tests_are_not_found() {
        assert_eq!(found("crates/onceward-ledger/src/clock.rs", "let now = SystemTime::now();\n"), 0);
        assert_eq!(found("crates/onceward-lab/src/run.rs", "let now = Instant::now();\n"), 0);
        assert_eq!(found("crates/onceward-gateway/tests/it/main.rs", "let now = Instant::now();\n"), 0);
        assert_eq!(found("crates/a/src/b.rs", "#[cfg(test)]\nmod tests {\n    use X; Instant::now();\n}\n"), 0);
    }
}
