//! `onceward check`: whether a configuration is whole, and what a lost reply becomes for each tool.

use std::fmt;
use std::path::Path;

use onceward_destinations::error::ConfigError;
use onceward_destinations::explain::ToolLine;
use serde::Serialize;

use crate::config::Config;

/// What `onceward check` says.
#[derive(Debug)]
pub enum Report {
    /// It can be served: one line per tool.
    Whole(Vec<ToolLine>),
    /// It cannot: every mistake, in the order of the lines.
    Mistakes(Vec<ConfigError>),
}

impl Report {
    /// Whether it can be served.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Mistakes(_) => false,
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        #[derive(Serialize)]
        struct Mistake<'a> {
            file: &'a str,
            line: usize,
            column: usize,
            key: &'a str,
            problem: &'a str,
            way_out: &'a str,
        }
        let mistake = |error: &ConfigError| {
            let ConfigError { file, line, column, key, problem, way_out } = error;
            serde_json::json!(Mistake { file, line: *line, column: *column, key, problem, way_out })
        };
        match self {
            Self::Whole(tools) => serde_json::json!({ "whole": true, "tools": tools }),
            Self::Mistakes(errors) => {
                let errors: Vec<_> = errors.iter().map(mistake).collect();
                serde_json::json!({ "whole": false, "mistakes": errors })
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(tools) if tools.is_empty() => writeln!(f, "no tools: write [destination.NAME.tool.NAME]"),
            Self::Whole(tools) => tools.iter().try_for_each(|tool| writeln!(f, "{tool}")),
            Self::Mistakes(errors) => errors.iter().try_for_each(|error| writeln!(f, "{error}")),
        }
    }
}

/// Checks a configuration file. Secrets that it names are read; nothing is opened and nothing is sent.
#[must_use]
pub fn check(path: &Path) -> Report {
    match Config::read(path) {
        Ok(config) => Report::Whole(config.catalog.explain()),
        Err(errors) => Report::Mistakes(errors),
    }
}
