//! What the tests of this crate share.

use std::path::Path;
use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::key::ToolName;

use crate::catalog::{Catalog, Environment, Surroundings};
use crate::error::ConfigError;
use crate::secrets::SecretSource;
use crate::tool::Tool;

/// The secret that every variable and file of the tests has.
pub(crate) const SECRET: &str = "sk_live_s3cret_of_tests";

/// A machine on which `TOKEN` is set and nothing else.
pub(crate) struct OneSecret;

impl SecretSource for OneSecret {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "TOKEN").then(|| SECRET.to_owned())
    }
    fn file(&self, _: &Path) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

pub(crate) fn read_in(environment: Environment, text: &str) -> Result<Catalog, Vec<ConfigError>> {
    let base_dir = Path::new("/nonexistent");
    Catalog::from_toml(text, &Surroundings { file: "onceward.toml", base_dir, environment, secrets: &OneSecret })
}

pub(crate) fn catalog(text: &str) -> Catalog {
    read_in(Environment::Production, text).unwrap_or_else(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

pub(crate) fn errors(text: &str) -> Vec<String> {
    match read_in(Environment::Dev, text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

pub(crate) fn tool(catalog: &Catalog, name: &str) -> Arc<Tool> {
    catalog.tool(&ToolName::parse(name).unwrap()).unwrap()
}

pub(crate) fn arguments(value: serde_json::Value) -> Canonical {
    Canonical::from_value(value).unwrap()
}
