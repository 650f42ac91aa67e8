//! Every lint that is switched off says why.
//!
//! Clippy asks the same of the code it compiles; this also reads what stands behind a feature or for another platform.

use super::Finding;
use super::tree::{File, Tree};

const OPENINGS: &[&str] = &["#[allow(", "#![allow(", "#[expect(", "#![expect("];

/// Finds each `allow` and `expect` without a reason.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // The openings above would find themselves.
    tree.with_extension("rs").filter(|file| !file.path.starts_with("xtask/src/tidy/")).flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for opening in OPENINGS {
        for (at, _) in file.text.match_indices(opening) {
            let attribute = file.text[at..].split(")]").next().unwrap_or_default();
            if !attribute.contains("reason") {
                let line = file.text[..at].matches('\n').count() + 1;
                let message = format!("`{opening}…)]` without a reason; add `, reason = \"…\"`, or mend what it hides");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allow_without_a_reason_is_found_also_over_several_lines() {
        let text = "#[allow(dead_code)]\nfn a() {}\n#![expect(\n    dead_code,\n)]\n";
        let findings = check(&Tree::of(&[("a.rs", text)]));
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn an_allow_with_a_reason_is_not_found() {
        let text = "#[allow(\n    dead_code,\n    reason = \"a field of the wire format\"\n)]\nfn a() {}\n";
        assert_eq!(check(&Tree::of(&[("a.rs", text)])), []);
    }
}
