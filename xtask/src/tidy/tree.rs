//! The tree as the checks see it: every text file's path and content.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "__pycache__", "dist", ".pytest_cache", ".mypy_cache"];

/// What is read as text; everything else only counts as a link's target.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "sql", "py", "ts", "js", "html", "css", "sh", "yml"];

/// One text file.
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// The lines with their numbers from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The number of the first line that is test code: 1 for a file of tests, the line of `#[cfg(test)]` for a module
    /// at the end of a file, none where there is no test.
    pub(super) fn tests_begin(&self) -> Option<usize> {
        if self.path.contains("/tests/") || self.path.ends_with("/tests.rs") {
            return Some(1);
        }
        let is_module = |line: &str| line.starts_with("mod ") && line.ends_with('{');
        let mut lines = self.lines().peekable();
        while let Some((number, line)) = lines.next() {
            if line.starts_with("#[cfg(test)]") && lines.peek().is_some_and(|(_, next)| is_module(next)) {
                return Some(number);
            }
        }
        None
    }
}

/// Every file below the root.
pub(super) struct Tree {
    files: Vec<File>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads what lies below `root`, without build output and installed packages.
    ///
    /// # Errors
    /// A folder or text file that cannot be read, or text that is not UTF-8.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { files: Vec::new(), paths: BTreeSet::new() };
        tree.descend(root, "")?;
        Ok(tree)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        let mut paths = BTreeSet::new();
        for file in &files {
            let mut path = file.path.as_str();
            paths.insert(path.to_owned());
            while let Some((parent, _)) = path.rsplit_once('/') {
                paths.insert(parent.to_owned());
                path = parent;
            }
        }
        Self { files, paths }
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.has_extension(extension))
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or folder lies there.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    pub(super) fn paths_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.paths.iter().map(String::as_str).filter(move |path| path.starts_with(folder))
    }

    fn descend(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        let mut entries =
            fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>().with_context(|| format!("cannot list {prefix}"))?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) && !name.starts_with(".venv") {
                    self.paths.insert(path.clone());
                    self.descend(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            self.paths.insert(path.clone());
            let is_text = name.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
            if is_text {
                let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }
}
