//! Calls that are kept now and sent later: entries of the outbox, by way of the gateway.

use onceward_core::canonical::Canonical;
use onceward_core::key::Lane;
use onceward_core::outcome::Envelope;
use onceward_destinations::tool::Effect;
use onceward_ledger::authorize::Grant;
use onceward_ledger::outbox::OutboxError;

use crate::app::{App, call_of};
use crate::identity::{Claimed, Settled};
use crate::problem::Problem;

/// A call that its caller does not wait for.
#[derive(Clone, Debug)]
pub(crate) struct LaterCall {
    /// The tool, as the caller names it.
    pub(crate) tool: String,
    /// Who the call says it is; an operation id is needed.
    pub(crate) identity: Claimed,
    /// Its arguments; checked to be an object.
    pub(crate) arguments: Canonical,
    /// Which calls it goes behind.
    pub(crate) lane: Option<Lane>,
}

impl App {
    /// Keeps a call durably, to be sent by the dispatcher. The tool's policy binds this entrance, too (R18).
    ///
    /// # Errors
    /// [`Problem`]: nothing was kept, unless its code says that this is not known.
    pub(crate) async fn enqueue(&self, grant: &Grant, call: LaterCall) -> Result<Envelope, Problem> {
        let LaterCall { tool, identity, arguments, lane } = call;
        let (tool, allowed) = self.tool(grant, &tool)?;
        if tool.effect() == Effect::Read {
            return Err(Problem::invalid_request("this tool reads; a read is not kept for later"));
        }
        let Settled { identity, approval } = self.identify(&tool, grant, &arguments, identity).await?;
        self.check(&tool, &allowed, &identity, &arguments).await?;
        let mut call = call_of(&tool, identity, approval, arguments);
        call.lane = lane;
        match self.ledger().enqueue(&allowed, &call, &tool.destination()).await {
            Ok(envelope) => Ok(envelope),
            Err(OutboxError::Ledger(error)) => Err(error.into()),
            Err(error @ (OutboxError::IdentityRequired | OutboxError::NotAnEntry)) => {
                Err(Problem::invalid_request(error.to_string()))
            }
        }
    }
}
