//! The credential of a destination, as one header.

use base64::Engine as _;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::secrets::Secret;

/// A header whose value is secret.
#[derive(Clone)]
pub(crate) struct Auth {
    name: HeaderName,
    value: HeaderValue,
}

/// The secret has a character that a header cannot carry.
#[derive(Debug)]
pub(crate) struct NotAHeader;

impl Auth {
    /// `Authorization: Bearer …`
    pub(crate) fn bearer(secret: &Secret) -> Result<Self, NotAHeader> {
        Self::sensitive(AUTHORIZATION, &format!("Bearer {}", secret.expose()))
    }

    /// `Authorization: Basic …`
    pub(crate) fn basic(user: &str, password: &Secret) -> Result<Self, NotAHeader> {
        let pair = format!("{user}:{}", password.expose());
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        Self::sensitive(AUTHORIZATION, &format!("Basic {encoded}"))
    }

    /// A header of the destination's own.
    pub(crate) fn header(name: HeaderName, secret: &Secret) -> Result<Self, NotAHeader> {
        Self::sensitive(name, secret.expose())
    }

    fn sensitive(name: HeaderName, text: &str) -> Result<Self, NotAHeader> {
        let mut value = HeaderValue::from_str(text).map_err(|_| NotAHeader)?;
        // Clients and loggers that respect the mark print "Sensitive" instead, and HTTP/2 keeps it out of its table.
        value.set_sensitive(true);
        Ok(Self { name, value })
    }

    pub(crate) const fn name(&self) -> &HeaderName {
        &self.name
    }

    pub(crate) fn value(&self) -> HeaderValue {
        self.value.clone()
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auth({}: …)", self.name)
    }
}
