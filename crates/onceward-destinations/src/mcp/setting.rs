//! A text of the configuration that may stand there itself, or be named as a secret.

use std::path::Path;

use crate::secrets::{self, Secret, SecretError, SecretReference, SecretSource};

/// A variable's or a header's value.
pub(crate) enum Setting {
    /// As it is written.
    Plain(String),
    /// `env:NAME` or `file:PATH`, read at the start.
    Secret(Secret),
}

impl Setting {
    /// Reads what is written.
    ///
    /// # Errors
    /// The secret that it names is not there.
    pub(crate) fn read(text: &str, base_dir: &Path, source: &dyn SecretSource) -> Result<Self, SecretError> {
        match text.parse::<SecretReference>() {
            Ok(reference) => secrets::read(&reference, base_dir, source).map(Self::Secret),
            Err(_) => Ok(Self::Plain(text.to_owned())),
        }
    }

    /// The text, for the place that it is meant for.
    pub(crate) fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(text) => write!(f, "{text:?}"),
            Self::Secret(secret) => write!(f, "{}", secret.reference()),
        }
    }
}
