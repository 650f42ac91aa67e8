//! One tool at one HTTP destination: sends an attempt once and says what was seen.
//!
//! The line that matters is between "not one byte left" and everything else. Only a connection that was never made is on
//! the safe side of it; whatever the client cannot tell counts as sent.

mod answer;
mod timed;

#[cfg(test)]
mod fault_server;
#[cfg(test)]
mod tests;

/// What everything shares that sends over HTTP.
pub(crate) mod sending {
    pub(crate) use super::answer::{chain, unanswered};
    pub(crate) use super::timed::ask_again;
}

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::{Body, Observed, kept_headers};
use onceward_core::contract::Contract;
use onceward_core::event::NotSent;
use onceward_core::key::{OutboundKey, ToolName};
use onceward_core::receipt::Answer;
use onceward_core::time::Timestamp;
use onceward_ledger::destination::{Asked, Destination, Dispatch, Question};
use onceward_ledger::store::BoxFuture;
use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use self::timed::MayBeSent;
use crate::auth::Auth;
use crate::carrier::{Carried, CarrierPlan};
use crate::limits::{READ_ATTEMPTS_MAX, READ_PAUSE};
use crate::mapping::{Rendered, Unmappable};
use crate::question::HttpQuestion;
use crate::requests::Requests;

/// What the tools of one destination share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// Without a trailing slash.
    pub(crate) base: Url,
    pub(crate) auth: Option<Auth>,
    pub(crate) client: reqwest::Client,
    pub(crate) connect_timeout: Duration,
    pub(crate) in_flight: Semaphore,
    pub(crate) scope: String,
}

/// One tool at one HTTP destination.
#[derive(Debug)]
pub struct HttpDestination {
    host: Arc<Host>,
    tool: ToolName,
    contract: Contract,
    contract_hash: String,
    plan: CarrierPlan,
    requests: Requests,
}

/// What one attempt brings along; a [`Dispatch`] taken apart.
struct Outgoing<'a> {
    arguments: &'a Canonical,
    key: Option<&'a OutboundKey>,
    first_claimed_at: Timestamp,
    time_to_send: &'a (dyn Fn() -> Option<Duration> + Send + Sync),
    may_still_be_sent: MayBeSent,
    answer_within: Duration,
}

impl HttpDestination {
    pub(crate) fn new(
        host: Arc<Host>,
        tool: ToolName,
        contract: Contract,
        plan: CarrierPlan,
        requests: Requests,
    ) -> Self {
        let contract_hash = onceward_core::hex::encode(&contract.content_hash());
        Self { host, tool, contract, contract_hash, plan, requests }
    }

    /// The name of the destination in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.host.name
    }

    #[cfg(test)]
    pub(crate) fn render(&self, arguments: &Canonical, carried: &Carried<'_>) -> Result<Rendered, Unmappable> {
        self.requests.render(arguments, carried)
    }

    #[cfg(test)]
    pub(crate) fn asked_key(&self, arguments: &Canonical) -> Option<String> {
        match &self.requests {
            Requests::Mapped(_) => None,
            Requests::AsTheyCame(requests) => requests.callers_key(arguments).map(ToOwned::to_owned),
        }
    }

    /// The header in which the destination takes its credential.
    pub(crate) fn credential_header(&self) -> Option<&http::HeaderName> {
        self.host.auth.as_ref().map(Auth::name)
    }

    /// The dimensions of its scope that the configuration names, without its address.
    pub(crate) fn named_scope(&self) -> &str {
        let address = self.host.base.as_str().trim_end_matches('/');
        self.host.scope.strip_prefix(address).unwrap_or(&self.host.scope).trim_start()
    }

    pub(crate) const fn plan(&self) -> &CarrierPlan {
        &self.plan
    }

    #[cfg(test)]
    pub(crate) fn mapping(&self) -> &crate::mapping::Mapping {
        match &self.requests {
            Requests::Mapped(mapping) => mapping,
            Requests::AsTheyCame(_) => panic!("the requests of this destination are not mapped"),
        }
    }

    /// Whether these arguments make a request, with that key. Nothing is sent.
    pub(crate) fn rehearse(&self, arguments: &Canonical, key: Option<&OutboundKey>) -> Result<(), Unmappable> {
        self.request(arguments, key, Timestamp::EPOCH).map(|_| ())
    }

    async fn attempt(&self, outgoing: Outgoing<'_>) -> Observed {
        let mut request = match self.request(outgoing.arguments, outgoing.key, outgoing.first_claimed_at) {
            Ok(request) => request,
            Err(why) => {
                tracing::warn!(tool = %self.tool, destination = self.host.name, %why, "nothing was sent");
                return Observed::HeldBack;
            }
        };
        // A connection must fit into the time to send: once the client has the request nobody asks the clock again.
        let time_left = || (outgoing.time_to_send)().and_then(|left| left.checked_sub(self.host.connect_timeout));
        let Some(patience) = time_left() else { return Observed::NotSent(NotSent::TooLate) };
        let Ok(Ok(_place)) = tokio::time::timeout(patience, self.host.in_flight.acquire()).await else {
            return Observed::NotSent(NotSent::NoConnection);
        };
        match time_left() {
            Some(_) => {
                timed::ask_again(&mut request, outgoing.may_still_be_sent);
                self.exchange(request, outgoing.answer_within).await
            }
            None => Observed::NotSent(NotSent::TooLate),
        }
    }

    /// Hands the request over, once. From here on it may have been sent.
    async fn exchange(&self, mut request: reqwest::Request, answer_within: Duration) -> Observed {
        // The client's own limit on connecting ends first, so that running out of this one means that it was sent.
        *request.timeout_mut() = Some(self.host.connect_timeout.saturating_add(answer_within));
        match self.host.client.execute(request).await {
            Ok(response) => answer::read(response).await,
            Err(error) => {
                let observed = answer::unanswered(&error);
                tracing::warn!(
                    tool = %self.tool,
                    destination = self.host.name,
                    ?observed,
                    error = answer::chain(&error.without_url()),
                    "no answer"
                );
                observed
            }
        }
    }

    fn request(
        &self,
        arguments: &Canonical,
        key: Option<&OutboundKey>,
        first_claimed_at: Timestamp,
    ) -> Result<reqwest::Request, Unmappable> {
        let carried = Carried::new(&self.plan, &self.contract, key, first_claimed_at)
            .map_err(|why| Unmappable::Place { message: why.to_string() })?;
        self.addressed(self.requests.render(arguments, &carried)?)
    }

    fn addressed(&self, rendered: Rendered) -> Result<reqwest::Request, Unmappable> {
        let expected = format!("{}{}", self.host.base.path().trim_end_matches('/'), rendered.target);
        let mut url = self.host.base.clone();
        let (path, query) = match expected.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (expected.as_str(), None),
        };
        url.set_path(path);
        url.set_query(query);
        // An address that the parser reads differently from how it was written leads somewhere that nobody configured.
        if url.path() != path || url.query() != query {
            return Err(Unmappable::Path);
        }
        let mut request = reqwest::Request::new(rendered.method, url);
        *request.headers_mut() = rendered.headers;
        if let Some(auth) = &self.host.auth {
            request.headers_mut().insert(auth.name().clone(), auth.value());
        }
        if let Some(body) = rendered.body {
            *request.body_mut() = Some(body.into());
        }
        Ok(request)
    }

    /// Sends a read and returns what was answered, whatever the status. Reading changes nothing, so a read that failed is
    /// sent again, a few times.
    pub(crate) async fn read(&self, arguments: &Canonical, answer_within: Duration) -> Result<Answer, ReadError> {
        let mut pause = READ_PAUSE;
        let mut sent = 1;
        loop {
            let rendered = self.requests.render(arguments, &Carried::nothing())?;
            let repeatable = matches!(rendered.method, http::Method::GET | http::Method::HEAD);
            let request = self.addressed(rendered)?;
            let observed = {
                let Ok(Ok(_place)) = tokio::time::timeout(answer_within, self.host.in_flight.acquire()).await else {
                    return Err(ReadError::Busy);
                };
                self.exchange(request, answer_within).await
            };
            let answered = matches!(&observed, Observed::Http { status, .. } if !matches!(status, 502..=504));
            if answered || !repeatable || sent >= READ_ATTEMPTS_MAX {
                return self.read_answer(observed);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            sent += 1;
        }
    }

    /// Sends a request that changes nothing once, and returns its answer with all its headers.
    pub(crate) async fn pass(&self, rendered: Rendered, answer_within: Duration) -> Result<Answer, ReadError> {
        let request = self.addressed(rendered)?;
        let Ok(Ok(_place)) = tokio::time::timeout(answer_within, self.host.in_flight.acquire()).await else {
            return Err(ReadError::Busy);
        };
        match self.exchange(request, answer_within).await {
            Observed::Http { status, headers, body: Body::Whole(body) } => Ok(Answer { status, headers, body }),
            other => self.read_answer(other),
        }
    }

    /// Carries a lookup out, once: whoever asks decides when to ask again.
    async fn question(&self, question: &Question) -> Asked {
        let asked = match HttpQuestion::parse(&question.lookup.request) {
            Ok(Some(asked)) => asked,
            Ok(None) => return Asked::NoWay,
            Err(why) => return Asked::NoAnswer(why.to_string()),
        };
        let write = || self.requests.render(&question.arguments, &Carried::nothing()).map(|rendered| rendered.target);
        let request = match asked.render(question, write).and_then(|rendered| self.addressed(rendered)) {
            Ok(request) => request,
            Err(why) => return Asked::NoAnswer(why.to_string()),
        };
        let Ok(Ok(_place)) = tokio::time::timeout(question.answer_within, self.host.in_flight.acquire()).await else {
            return Asked::NoAnswer("the destination is busy with other requests".to_owned());
        };
        match self.exchange(request, question.answer_within).await {
            Observed::Http { status, headers, body: Body::Whole(body) } => {
                Asked::Answered(Answer { status, headers, body })
            }
            Observed::Http { body: Body::Cut(_), .. } => {
                Asked::NoAnswer("the answer ended early or was too large".to_owned())
            }
            Observed::NotSent(_) | Observed::HeldBack => {
                Asked::NoAnswer("the destination could not be reached".to_owned())
            }
            Observed::RefusedStream
            | Observed::WriteFailed
            | Observed::NoAnswer(_)
            | Observed::OwnerLost
            | Observed::McpError { .. }
            | Observed::McpResult { .. }
            | Observed::McpStreamLost
            | Observed::Function(_) => Asked::NoAnswer("the destination did not answer".to_owned()),
        }
    }

    fn read_answer(&self, observed: Observed) -> Result<Answer, ReadError> {
        match observed {
            Observed::Http { status, headers, body: Body::Whole(body) } => {
                Ok(Answer { status, headers: kept_headers(&self.contract, &headers), body })
            }
            Observed::Http { body: Body::Cut(_), .. } => Err(ReadError::Unreadable),
            Observed::NotSent(_) | Observed::HeldBack => Err(ReadError::NoConnection),
            Observed::RefusedStream
            | Observed::WriteFailed
            | Observed::NoAnswer(_)
            | Observed::OwnerLost
            | Observed::McpError { .. }
            | Observed::McpResult { .. }
            | Observed::McpStreamLost
            | Observed::Function(_) => Err(ReadError::NoAnswer),
        }
    }
}

/// Why a read has no answer. Nothing was written anywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The arguments make no request.
    #[error(transparent)]
    Arguments(#[from] Unmappable),
    /// No connection was to be had.
    #[error("the destination could not be reached")]
    NoConnection,
    /// As many requests as may be were in flight all the time.
    #[error("the destination is busy with other requests")]
    Busy,
    /// No answer came in time.
    #[error("the destination did not answer")]
    NoAnswer,
    /// The answer ended early or was too large.
    #[error("the destination's answer ended early or was too large")]
    Unreadable,
    /// An MCP server answered with an error of the protocol.
    #[error("the destination answered: {0}")]
    Protocol(crate::mcp::RpcError),
    /// The tool writes.
    #[error("the tool writes; it is not called as a read")]
    NotARead,
}

impl Destination for HttpDestination {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn contract_hash(&self) -> String {
        self.contract_hash.clone()
    }

    fn scope(&self) -> &str {
        &self.host.scope
    }

    fn request_digest(&self, arguments: &Canonical) -> Option<String> {
        let rendered = self.requests.render(arguments, &Carried::nothing()).ok()?;
        let mut digest = Sha256::new();
        // Each part with its length, so that no two requests make one text.
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        part(rendered.method.as_str().as_bytes());
        part(self.host.base.as_str().as_bytes());
        part(rendered.target.as_bytes());
        for (name, value) in &rendered.headers {
            part(name.as_str().as_bytes());
            part(value.as_bytes());
        }
        part(rendered.body.as_deref().unwrap_or_default());
        Some(onceward_core::hex::encode(&digest.finalize()))
    }

    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        Box::pin(async move { self.question(&self.requests.as_carried(question)).await })
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async move {
            if *dispatch.tool() != self.tool {
                tracing::error!(tool = %self.tool, dispatched = %dispatch.tool(), "a dispatch came to another tool");
                return Observed::HeldBack;
            }
            self.attempt(Outgoing {
                arguments: dispatch.arguments(),
                key: dispatch.outbound_key(),
                first_claimed_at: dispatch.first_claimed_at(),
                time_to_send: &|| dispatch.time_to_send(),
                may_still_be_sent: Box::new(dispatch.may_still_be_sent()),
                answer_within: dispatch.answer_within(),
            })
            .await
        })
    }
}
