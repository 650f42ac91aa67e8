//! A caller of the gateway's HTTP API: an agent, an application or an operator, as its token says.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::http::{Ask, Http, NoReply, Reply};

/// One caller and its token.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    http: Http,
    url: String,
    token: String,
}

/// What an operator decides, with its evidence.
#[derive(Clone, Debug)]
pub(crate) struct Decision(Value);

impl Decision {
    /// It was done: this ticket.
    #[must_use]
    pub(crate) fn confirmed_done(ticket: &str, evidence: &str) -> Self {
        let receipt = json!({ "status": 201, "body": { "id": ticket } });
        Self(json!({
            "choice": "confirmed_done", "reason": "seen_at_destination", "evidence": evidence,
            "effect_id": ticket, "receipt": receipt,
        }))
    }

    /// It was not done and may be sent again.
    #[must_use]
    pub(crate) fn dispatch_again(evidence: &str) -> Self {
        Self(json!({ "choice": "dispatch_again", "reason": "not_at_destination", "evidence": evidence }))
    }
}

/// What an application that asked for a claim was told.
#[derive(Clone, Debug)]
pub(crate) struct ClaimReply {
    operation_id: String,
    reply: Reply,
}

impl ClaimReply {
    /// Whether it may run.
    #[must_use]
    pub(crate) fn is_granted(&self) -> bool {
        self.reply.status == 201 && !self.reply.text("/secret").is_empty()
    }

    /// The outcome that it was told instead; empty for a granted claim.
    #[must_use]
    pub(crate) fn outcome(&self) -> &str {
        self.reply.text("/outcome")
    }

    fn holder(&self) -> Result<Value> {
        if !self.is_granted() {
            bail!("no claim was granted: {}", self.reply.body);
        }
        Ok(json!({ "attempt": self.reply.body["attempt"], "secret": self.reply.body["secret"] }))
    }
}

/// The ticket that a reply's receipt names.
#[must_use]
pub(crate) fn ticket_of(reply: &Reply) -> Option<String> {
    ticket_in(&reply.body)
}

/// The ticket that an envelope's receipt names.
#[must_use]
pub(crate) fn ticket_in(envelope: &Value) -> Option<String> {
    envelope.pointer("/receipt/body/id").and_then(Value::as_str).map(ToOwned::to_owned)
}

/// The value of an `Authorization` header.
pub(super) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

impl Caller {
    pub(super) fn new(http: Http, url: &str, token: String) -> Self {
        Self { http, url: url.to_owned(), token }
    }

    /// The same caller at another address.
    pub(super) fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Its token.
    #[must_use]
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Calls a tool under an operation id.
    ///
    /// # Errors
    /// [`NoReply`]: it may have been done.
    pub(crate) async fn call(&self, tool: &str, operation_id: &str, arguments: &Value) -> Result<Reply, NoReply> {
        self.call_raw(tool, operation_id, arguments.to_string().as_bytes()).await
    }

    /// The same with arguments as bytes that need not be JSON.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn call_raw(&self, tool: &str, operation_id: &str, arguments: &[u8]) -> Result<Reply, NoReply> {
        let body = [b"{\"arguments\":", arguments, b"}"].concat();
        let ask = Ask::post(format!("{}/v1/tools/{tool}/calls", self.url), &Value::Null);
        self.send(ask.raw(body).header("Idempotency-Key", operation_id)).await
    }

    /// Calls a tool and is told at once how things stand.
    ///
    /// # Errors
    /// [`NoReply`]: it may have been done.
    pub(crate) async fn call_and_not_wait(
        &self,
        tool: &str,
        operation_id: &str,
        arguments: &Value,
    ) -> Result<Reply, NoReply> {
        let ask = Ask::post(format!("{}/v1/tools/{tool}/calls", self.url), &json!({ "arguments": arguments }));
        self.send(ask.header("Idempotency-Key", operation_id).header("Prefer", "wait=0")).await
    }

    /// An operation as a person sees it, with its disagreement and its next check.
    ///
    /// # Errors
    /// When it may not be seen.
    pub(crate) async fn operation_as_it_is(&self, operation_id: &str) -> Result<Value> {
        let reply = self.send(Ask::get(self.operation(operation_id, ""))).await?.succeeded("the operation")?;
        Ok(reply.body["operation"].clone())
    }

    /// The status of an operation, as a repetition of its call would be told it.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn status(&self, operation_id: &str) -> Result<Reply, NoReply> {
        let mut reply = self.send(Ask::get(self.operation(operation_id, ""))).await?;
        // The envelope stands inside; whoever asks here wants it, with its receipt where a call has it.
        if let Some(Value::Object(mut envelope)) = reply.body.get("status").cloned() {
            envelope.insert("receipt".to_owned(), reply.body["receipt"].take());
            reply.body = Value::Object(envelope);
        }
        Ok(reply)
    }

    /// The receipt of an operation.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn receipt(&self, operation_id: &str) -> Result<Reply, NoReply> {
        self.send(Ask::get(self.operation(operation_id, "/receipt"))).await
    }

    /// How many entries the journal of an operation has.
    ///
    /// # Errors
    /// When it may not be seen.
    pub(crate) async fn journal(&self, operation_id: &str) -> Result<usize> {
        let reply = self.send(Ask::get(self.operation(operation_id, "/journal"))).await?.succeeded("the journal")?;
        reply.body["entries"].as_array().map(Vec::len).context("a journal without entries")
    }

    /// How many lookups the journal of an operation tells of.
    ///
    /// # Errors
    /// When it may not be seen.
    pub(crate) async fn lookups_of(&self, operation_id: &str) -> Result<usize> {
        let reply = self.send(Ask::get(self.operation(operation_id, "/journal"))).await?.succeeded("the journal")?;
        let entries = reply.body["entries"].as_array().context("a journal without entries")?;
        Ok(entries.iter().filter(|entry| entry["detail"].to_string().contains("lookup")).count())
    }

    /// How many operations this caller may see.
    ///
    /// # Errors
    /// When it may see none at all.
    pub(crate) async fn operations(&self) -> Result<usize> {
        let reply = self.send(Ask::get(format!("{}/v1/operations", self.url))).await?.succeeded("the list")?;
        reply.body["operations"].as_array().map(Vec::len).context("a list without operations")
    }

    /// Has the destination asked now what became of an operation. One that is settled meanwhile is not asked about.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn look_up(&self, operation_id: &str) -> Result<Reply, NoReply> {
        self.send(Ask::post(self.operation(operation_id, "/lookups"), &json!({}))).await
    }

    /// Records a decision on the operation as it stands.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn decide(&self, operation_id: &str, decision: &Decision) -> Result<Reply, NoReply> {
        let looked_at = self.send(Ask::get(self.operation(operation_id, ""))).await?;
        let mut decision = decision.0.clone();
        decision["expected"] = looked_at.body["operation"]["version"].clone();
        self.send(Ask::post(self.operation(operation_id, "/decisions"), &decision)).await
    }

    /// Erases what an operation said, and keeps its identity.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn purge(&self, operation_id: &str) -> Result<Reply, NoReply> {
        self.send(Ask::post(self.operation(operation_id, "/purge"), &json!({ "scope": "everything" }))).await
    }

    /// Asks for a claim.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn claim(
        &self,
        tool: &str,
        operation_id: &str,
        arguments: &Value,
        settle_within: Duration,
    ) -> Result<ClaimReply, NoReply> {
        let ms = u64::try_from(settle_within.as_millis()).unwrap_or(u64::MAX);
        let body = json!({
            "tool": tool, "operation_id": operation_id, "arguments": arguments, "settle_within_ms": ms,
        });
        let reply = self.send(Ask::post(format!("{}/v1/claims", self.url), &body)).await?;
        Ok(ClaimReply { operation_id: operation_id.to_owned(), reply })
    }

    /// Marks that a granted claim is about to run.
    ///
    /// # Errors
    /// When it was not granted, or must not run any more.
    pub(crate) async fn begin(&self, claim: &ClaimReply) -> Result<()> {
        let url = self.claimed(claim, "dispatching");
        self.send(Ask::post(url, &claim.holder()?)).await?.succeeded("the mark")?;
        Ok(())
    }

    /// Settles a claim: it was done, and this is its ticket.
    ///
    /// # Errors
    /// When the settlement is refused.
    pub(crate) async fn settle_done(&self, claim: &ClaimReply, ticket: &str) -> Result<Reply> {
        let mut body = claim.holder()?;
        body["ended"] = "done".into();
        body["effect_id"] = ticket.into();
        body["receipt"] = json!({ "status": 201, "body": { "id": ticket } });
        self.send(Ask::post(self.claimed(claim, "settlement"), &body)).await?.succeeded("the settlement")
    }

    fn operation(&self, id: &str, rest: &str) -> String {
        format!("{}/v1/operations/{id}{rest}", self.url)
    }

    fn claimed(&self, claim: &ClaimReply, what: &str) -> String {
        format!("{}/v1/claims/{}/{what}", self.url, claim.operation_id)
    }

    async fn send(&self, ask: Ask) -> Result<Reply, NoReply> {
        self.http.send(ask.header("Authorization", &bearer(&self.token))).await
    }
}
