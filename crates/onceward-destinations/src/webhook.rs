//! Events that a destination delivers: whose they are ([`signature`]), and what they say ([`rules`]). All of it is data of the
//! configuration; nothing here decides what becomes of an operation.

mod rules;
mod signature;

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::HeaderMap;
use onceward_core::time::Timestamp;
use onceward_ledger::evidence::{Authentic, Heard};

pub use self::rules::NotHeard;
pub(crate) use self::rules::Rules;
pub(crate) use self::signature::WebhookSecret;
pub use self::signature::{Kind, Unauthentic};

/// The webhook of one destination.
#[derive(Debug)]
pub struct Webhook {
    pub(crate) destination: String,
    pub(crate) kind: Kind,
    pub(crate) secrets: Vec<WebhookSecret>,
    pub(crate) tolerance: Duration,
    pub(crate) rules: Rules,
}

impl Webhook {
    /// The destination's name in the configuration.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// How its events are signed.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Proves that the destination itself has sent this body, and not long ago.
    ///
    /// # Errors
    /// [`Unauthentic`]: nothing in the body may be believed.
    pub fn authenticate(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Signed, Unauthentic> {
        let delivery = signature::verify(self.kind, &self.secrets, self.tolerance, headers, body, now)?;
        Ok(Signed { proof: Authentic::verified(&self.destination), delivery })
    }

    /// What an authentic event says of an effect.
    ///
    /// # Errors
    /// [`NotHeard`]: it says nothing that could be recorded.
    pub fn read(&self, signed: &Signed, body: &[u8], now: Timestamp) -> Result<Heard, NotHeard> {
        self.rules.read(self.kind, signed.delivery.as_deref(), body, now)
    }
}

/// An event that is proved to be the destination's.
#[derive(Clone, Debug)]
pub struct Signed {
    /// For the ledger.
    pub proof: Authentic,
    /// The delivery's id, where it stands outside the body.
    delivery: Option<String>,
}
