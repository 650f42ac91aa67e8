//! Every crate takes what all crates share from the workspace, so that a version or a lint is changed in one place.

use super::Finding;
use super::tree::{File, Tree};

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "authors", "publish"];

/// Checks the manifest of each crate of the workspace.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .iter()
        .filter_map(|file| Some((folder(&file.path)?, file)))
        .flat_map(|(folder, file)| in_manifest(folder, file))
        .collect()
}

/// The name of a crate's folder, when the path is its manifest.
fn folder(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    (!name.contains('/')).then_some(name)
}

fn in_manifest(folder: &str, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, message: String| findings.push(Finding::new(&file.path, line, message));
    let mut section = "";
    let mut missing: Vec<String> = INHERITED.iter().map(|field| format!("{field}.workspace = true")).collect();
    let mut inherits_lints = false;
    for (number, line) in file.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
            continue;
        }
        match section {
            "package" => {
                missing.retain(|field| field != line);
                if let Some(name) = line.strip_prefix("name = ").map(|name| name.trim_matches('"'))
                    && name != folder
                {
                    find(number, format!("package `{name}` in the folder `{folder}`; give both one name"));
                }
            }
            "lints" => inherits_lints |= line == "workspace = true",
            _ if section.ends_with("dependencies") && !is_inherited(line) => find(
                number,
                "a dependency with a version of its own; put it into the root's [workspace.dependencies] and write \
                 `.workspace = true`"
                    .into(),
            ),
            _ => {}
        }
    }
    for field in missing {
        find(0, format!("[package] does not say `{field}`; add it"));
    }
    if !inherits_lints {
        find(0, "no `[lints]` with `workspace = true`; add it".into());
    }
    findings
}

/// Whether a line of a section of dependencies names none, or one whose version the workspace gives.
fn is_inherited(line: &str) -> bool {
    line.is_empty() || line.replace(' ', "").contains("workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\nauthors.workspace = true\n\
        publish.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\nserde.workspace = true\n\
        rusqlite = { workspace = true, features = [\"bundled\"] }\n";

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_crate_that_inherits_is_not_found() {
        assert_eq!(found("crates/a/Cargo.toml", GOOD), 0);
    }

    #[test]
    fn each_field_that_is_not_inherited_is_found() {
        for field in INHERITED {
            let text = GOOD.replace(&format!("\n{field}.workspace = true"), "");
            assert_eq!(found("crates/a/Cargo.toml", &text), 1, "{field}");
        }
        assert_eq!(found("crates/a/Cargo.toml", &GOOD.replace("[lints]\nworkspace = true\n", "")), 1);
    }

    #[test]
    fn a_version_of_its_own_or_another_name_is_found() {
        assert_eq!(found("crates/a/Cargo.toml", &GOOD.replace("serde.workspace = true", "serde = \"1\"")), 1);
        assert_eq!(found("crates/b/Cargo.toml", GOOD), 1);
    }
}
