//! Mistakes in a configuration: where, what, and the way out.

use std::fmt;

/// One mistake. All of them are collected, so that a person mends a file in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's name as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The field, as a dotted path.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub way_out: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.problem)?;
        match self.way_out.is_empty() {
            true => Ok(()),
            false => write!(f, "; {}", self.way_out),
        }
    }
}

impl std::error::Error for ConfigError {}
