//! Links between the documents lead somewhere: to a file that exists and, in a document, to a heading that exists.
//! Links to other places are not followed; a check that needs the network fails for reasons that are not ours.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};

/// Checks every relative link of every document.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (line, target) in links(file) {
            if let Some(problem) = problem(tree, file, &target) {
                findings.push(Finding::new(&file.path, line, format!("link to `{target}`: {problem}")));
            }
        }
    }
    findings
}

fn problem(tree: &Tree, file: &File, target: &str) -> Option<String> {
    let is_elsewhere = ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
    if is_elsewhere {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => file.path.clone(),
        _ => match resolve(&file.path, path) {
            Some(path) => path,
            None => return Some("it leads out of the project; write it relative to this file".into()),
        },
    };
    if !path.is_empty() && !tree.has(&path) {
        return Some(format!("there is no {path}; correct it or remove the link"));
    }
    let target = tree.file(&path).filter(|target| target.has_extension("md"))?;
    if !anchor.is_empty() && !anchors(target).contains(anchor) {
        return Some(format!("{path} has no heading `{anchor}`; correct it"));
    }
    None
}

/// The path from the root of a path relative to a file; none when it leads above the root.
fn resolve(from: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links, images and reference definitions, outside code.
fn links(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(file) {
        // Text between backticks is code.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let end = rest.find(')').unwrap_or(rest.len());
            // A title may follow the target.
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
            && !label.starts_with("[^")
        {
            found.push((number, target.split_whitespace().next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The lines outside fenced code.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// What a document can be linked to: its headings as forges name them, and named anchors.
fn anchors(file: &File) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(file) {
        for opening in ["<a id=\"", "<a name=\""] {
            for (at, _) in line.match_indices(opening) {
                anchors.extend(line[at + opening.len()..].split('"').next().map(str::to_owned));
            }
        }
        if !line.starts_with('#') {
            continue;
        }
        let slug = slug(line.trim_start_matches('#').trim());
        let mut name = slug.clone();
        let mut repetition = 0;
        while !anchors.insert(name) {
            repetition += 1;
            name = format!("{slug}-{repetition}");
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let other = ("docs/other.md", "# When it can run, twice\n\n## `code` words\n\n## `code` words\n");
        check(&Tree::of(&[("docs/design/a.md", text), other, ("Cargo.toml", "")])).len()
    }

    #[test]
    fn a_link_that_leads_somewhere_is_not_found() {
        for target in [
            "../other.md",
            "../other.md#when-it-can-run-twice",
            "../other.md#code-words-1",
            "../../Cargo.toml",
            "..",
            "https://example.com/nowhere",
        ] {
            assert_eq!(found(&format!("See [it]({target}).\n")), 0, "{target}");
        }
        assert_eq!(found("`[x](nowhere.md)`\n\n```\n[x](nowhere.md)\n```\n"), 0, "code");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for target in ["other.md", "../other.md#when", "#here", "/docs/other.md", "../../../x.md"] {
            assert_eq!(found(&format!("See [it]({target}).\n")), 1, "{target}");
        }
        assert_eq!(found("See [it].\n\n[it]: nowhere.md\n"), 1);
    }
}
