//! A destination as a vendor's own client sees it through us: requests are taken as they come, kept byte for byte, and sent
//! with our key and the real credential.
//!
//! What makes two requests one intention is not their bytes: a client writes a new boundary into each repetition of an upload.
//! So the arguments of such an operation have two halves. What is compared is a reading of the request (method, target, scope
//! headers, decoded content); under `/sent` lies what leaves, and that half is volatile.

mod as_they_came;
mod content;
mod form;
mod key_spot;
mod multipart;
mod patterns;
mod take;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method};
use onceward_core::canonical::{Canonical, InvalidJson};
use onceward_core::contract::Contract;
use onceward_core::fingerprint::Comparison;
use onceward_core::key::{OperationId, TenantId, ToolName, ToolVersion};
use onceward_core::pointer::Pointer;
use onceward_core::receipt::Answer;
use onceward_core::retry::RetryPolicy;
use onceward_ledger::destination::Destination;
use sha2::{Digest as _, Sha256};

pub(crate) use self::as_they_came::{AsTheyCame, WhoseKey};
pub(crate) use self::key_spot::KeySpot;
pub(crate) use self::patterns::{Glob, ReadRule};
use crate::amount::AmountPlace;
use crate::http::{HttpDestination, ReadError};
use crate::tool::{Approval, Mode, Unmappable, WithoutIdentity, one_line};

/// The half of an operation's arguments that is sent and not compared.
pub(crate) const SENT: &str = "sent";

/// A destination with a proxy before it.
#[derive(Debug)]
pub struct Proxy {
    pub(crate) tool: ToolName,
    pub(crate) version: ToolVersion,
    pub(crate) destination: Arc<HttpDestination>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) reads: Vec<ReadRule>,
    pub(crate) identity: Vec<Glob>,
    pub(crate) without_identity: WithoutIdentity,
    pub(crate) approval: Approval,
    pub(crate) mode: Mode,
    pub(crate) amount: Option<AmountPlace>,
    pub(crate) tenant: Option<TenantId>,
    pub(crate) comparison: Comparison,
    pub(crate) business_key: Vec<Pointer>,
    pub(crate) spot: KeySpot,
    pub(crate) scope_headers: Vec<HeaderName>,
    pub(crate) pinned_headers: Vec<HeaderName>,
    pub(crate) answer_within: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) warnings: Vec<String>,
}

/// A request of a vendor's client, read whole. The target is its path and query below the destination's own address.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The method.
    pub method: Method,
    /// Path and query, as they were written.
    pub target: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A write as an operation holds it.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The arguments: what is compared, and what is sent.
    pub arguments: Canonical,
    /// The key that the client sent, if any.
    pub key: Option<String>,
}

/// Why a request is not taken. Nothing was claimed and nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It makes no request that could be sent.
    #[error(transparent)]
    Request(#[from] Unmappable),
    /// It is too large, or nested too deep.
    #[error(transparent)]
    Arguments(#[from] InvalidJson),
    /// It asks to be read as another method than it has.
    #[error("the header {0} makes another request of this one; send that request itself")]
    Override(&'static str),
    /// A header that matters is given twice, or is no text.
    #[error("the header {0} is given more than once, or has a character that is not visible ASCII")]
    Header(HeaderName),
}

impl Proxy {
    /// The destination's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        self.destination.name()
    }

    /// Under which name its writes are tools: grants, lists and metrics name it so.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// The version of its definition.
    #[must_use]
    pub const fn version(&self) -> &ToolVersion {
        &self.version
    }

    /// The port of its own, for clients that take no path before their own.
    #[must_use]
    pub const fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// What the destination promises.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        self.destination.contract()
    }

    /// Where writes are sent.
    #[must_use]
    pub fn destination(&self) -> Arc<dyn Destination> {
        Arc::clone(&self.destination) as Arc<dyn Destination>
    }

    /// What makes no other intention: everything that only travels along.
    #[must_use]
    pub const fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// The fields that tell two businesses apart where neither request has an identity: where they go.
    #[must_use]
    pub fn business_key(&self) -> &[Pointer] {
        &self.business_key
    }

    /// What happens to a request without identity.
    #[must_use]
    pub const fn without_identity(&self) -> WithoutIdentity {
        self.without_identity
    }

    /// Whether a person must allow each operation.
    #[must_use]
    pub const fn approval(&self) -> Approval {
        self.approval
    }

    /// Whether the rules bind its writes.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Where the amount stands that a write is about, for people.
    #[must_use]
    pub const fn amount(&self) -> Option<&AmountPlace> {
        self.amount.as_ref()
    }

    /// The one tenant that may use it, where the caller's own key goes out: two tenants could choose the same.
    #[must_use]
    pub const fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// How long a whole answer may take.
    #[must_use]
    pub const fn answer_within(&self) -> Duration {
        self.answer_within
    }

    /// How long after its creation an operation may still be sent.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// How often and how fast it is sent again, where that is permitted.
    #[must_use]
    pub const fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// The header in which the destination takes its credential, and so the client sends its token.
    #[must_use]
    pub fn credential_header(&self) -> Option<&HeaderName> {
        self.destination.credential_header()
    }

    /// Whether a request only reads: it passes through and leaves no record.
    #[must_use]
    pub fn reads(&self, method: &Method, target: &str) -> bool {
        let path = target.split('?').next().unwrap_or_default();
        self.reads.iter().any(|rule| rule.matches(method, path))
    }

    /// Whether a client's key names an intention: it looks like those that the application chooses, or the vendor's clients
    /// make up none.
    #[must_use]
    pub fn names_an_intention(&self, key: &str) -> bool {
        let invented = self.contract().key.as_ref().is_none_or(|rules| rules.sdk_may_invent_key);
        !invented || self.identity.iter().any(|glob| glob.matches(key))
    }

    /// The operation that a client's key means: the same key in another scope, or at another destination, is another one.
    ///
    /// A change of the destination's address changes nothing: a repetition after it must find the first attempt.
    ///
    /// # Errors
    /// None in practice: a hash in hex is an operation id.
    pub fn operation_id(&self, taken: &Taken, key: &str) -> Result<OperationId, onceward_core::key::InvalidName> {
        let mut hash = Sha256::new();
        hash.update(b"onceward proxy v1\0");
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        part(self.name());
        part(self.destination.named_scope());
        let headers = taken.arguments.value().get("headers").map(ToString::to_string);
        part(headers.as_deref().unwrap_or_default());
        part(key);
        let digest: [u8; 32] = hash.finalize().into();
        OperationId::parse(&format!("proxy-{}", onceward_core::hex::encode(&digest)))
    }

    /// One line for people: what the request would do.
    #[must_use]
    pub fn title(&self, taken: &Taken) -> String {
        let word = |name: &str| taken.arguments.value().get(name).and_then(|value| value.as_str()).unwrap_or_default();
        let path = word("target").split('?').next().unwrap_or_default();
        match &taken.key {
            Some(key) => one_line(&format!("{} {path} ({key})", word("method"))),
            None => one_line(&format!("{} {path}", word("method"))),
        }
    }

    /// Reads a write into arguments.
    ///
    /// # Errors
    /// [`NotTaken`]. Nothing was sent.
    pub fn take(&self, incoming: &Incoming) -> Result<Taken, NotTaken> {
        take::taken(self, incoming)
    }

    /// Whether what was taken makes a request. Nothing is sent.
    ///
    /// # Errors
    /// [`Unmappable`] says what is in the way.
    pub fn check(&self, arguments: &Canonical) -> Result<(), Unmappable> {
        self.destination.rehearse(arguments, crate::tool::sample_key().as_ref())
    }

    /// Sends a read once and returns its answer, whatever the status; the client repeats it by itself.
    ///
    /// # Errors
    /// [`NotRead`]. Nothing was written anywhere.
    pub async fn read(&self, incoming: &Incoming) -> Result<Answer, NotRead> {
        let rendered = take::passed(self, incoming)?;
        let answer = self.destination.pass(rendered, self.answer_within).await?;
        Ok(Answer { headers: passed_headers(answer.headers), ..answer })
    }
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    /// It makes no request.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The destination did not answer.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The headers of a read's answer that go on to the client: all but those of the connection and of credentials.
fn passed_headers(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    const STAY_BEHIND: [&str; 14] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "set-cookie",
        "set-cookie2",
        "authorization",
        "www-authenticate",
    ];
    headers.into_iter().filter(|(name, _)| !STAY_BEHIND.contains(&name.to_ascii_lowercase().as_str())).collect()
}
