//! What a call would come to, without making it: the operation that it would meet, what decides that, the key that would go
//! out, and what it would be told. Nothing is written and nothing is sent.

use std::sync::Arc;

use onceward_core::decide::{Decision, Request, decide};
use onceward_core::fingerprint::{Fingerprint, FingerprintKeyId};
use onceward_core::key::{Generation, OutboundKey};
use onceward_core::operation::Operation;
use onceward_core::outcome::{Envelope, Role, Visibility, possible_duplicate, report};
use onceward_core::suspicion::suspect;

use crate::authorize::{Authorized, Grant, Read};
use crate::call::{Approval, Call, Identity};
use crate::destination::Destination;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::limits;
use crate::store::{DisagreementOnly, Filter};

/// What a call would come to.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The text that is compared with a repetition's.
    pub compared: String,
    /// The fingerprint that a new operation would get.
    pub fingerprint: Fingerprint,
    /// The key it is made with.
    pub fingerprint_key: FingerprintKeyId,
    /// The operation that it would meet, where there is one.
    pub meets: Option<Operation>,
    /// What it would do.
    pub would: Would,
    /// What it would be told at once, where nothing would be sent.
    pub told: Option<Envelope>,
}

/// What a call would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Would {
    /// It would open an operation and be sent, under this key where the destination takes one.
    Send(WouldSend),
    /// It would send the next attempt of the operation that it meets: nothing has happened so far.
    SendAgain(WouldSend),
    /// It would send the same key again: an attempt is uncertain, and the destination's contract recognises the key.
    Redrive(WouldSend),
    /// It would open an operation that waits for approval.
    Propose,
    /// It would wait for the attempt that runs.
    Join,
    /// It would be told what is recorded; nothing would be sent.
    Replay,
    /// It would be held back, because it looks like the repetition of the operation that it meets.
    Hold,
}

/// The key that would go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldSend {
    /// Its generation.
    pub generation: Generation,
    /// Its text; `None` where the destination takes none, or the id of the operation is not known before the call is made.
    pub key: Option<OutboundKey>,
}

impl Would {
    /// The word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Send(_) => "send",
            Self::SendAgain(_) => "send_again",
            Self::Redrive(_) => "redrive",
            Self::Propose => "propose",
            Self::Join => "join",
            Self::Replay => "replay",
            Self::Hold => "hold",
        }
    }

    /// The key that would go out.
    #[must_use]
    pub const fn key(&self) -> Option<&WouldSend> {
        match self {
            Self::Send(key) | Self::SendAgain(key) | Self::Redrive(key) => Some(key),
            Self::Propose | Self::Join | Self::Replay | Self::Hold => None,
        }
    }
}

impl Ledger {
    /// Says what a call would come to. It may be otherwise a moment later: whoever makes the call is decided on then.
    ///
    /// # Errors
    /// [`LedgerError`]: the ledger could not be read.
    pub async fn explain(
        &self,
        grant: &Grant,
        allowed: &Authorized<Read>,
        call: &Call,
        destination: &Arc<dyn Destination>,
    ) -> Result<Explanation, LedgerError> {
        let keys = &self.inner.keys;
        let (tool, version) = (allowed.tool().as_str(), call.tool_version.as_str());
        let fingerprint = keys.fingerprint(keys.current(), tool, version, &call.arguments, &call.comparison)?;
        let whole = |meets, would, told| Explanation {
            compared: call.comparison.compared_text(&call.arguments),
            fingerprint,
            fingerprint_key: keys.current(),
            meets,
            would,
            told,
        };
        if let Some(operation) = self.inner.look(&call.key(allowed)).await? {
            return Ok(self.meeting(allowed, call, destination, &operation).await?.into_explanation(operation, whole));
        }
        if let Some(earlier) = self.looks_like(grant, allowed, call).await? {
            let request = Request { tool: allowed.tool(), arguments: &call.arguments };
            let own = earlier.terms.principal == *allowed.principal();
            if own && decide(&earlier, request, keys)? == Decision::Ready {
                return Ok(self.meeting(allowed, call, destination, &earlier).await?.into_explanation(earlier, whole));
            }
            let told = possible_duplicate(&earlier, Visibility::Shown);
            return Ok(whole(Some(earlier), Would::Hold, Some(told)));
        }
        let would = match (call.approval, &call.identity) {
            (Approval::Required, _) => Would::Propose,
            (Approval::NotNeeded, Identity::Given(_)) => {
                let first = Generation(1);
                let key = self.inner.secret.outbound_key(&call.key(allowed), first);
                Would::Send(sends(destination, first, Some(key)))
            }
            // Its id is made when the call is made.
            (Approval::NotNeeded, Identity::Held { .. } | Identity::Second { .. }) => {
                Would::Send(sends(destination, Generation(1), None))
            }
        };
        Ok(whole(None, would, None))
    }

    /// What a call would do that meets this operation.
    async fn meeting(
        &self,
        allowed: &Authorized<Read>,
        call: &Call,
        destination: &Arc<dyn Destination>,
        operation: &Operation,
    ) -> Result<Meeting, LedgerError> {
        let request = Request { tool: allowed.tool(), arguments: &call.arguments };
        let decision = decide(operation, request, &self.inner.keys)?;
        let under = |generation| {
            let key = self.inner.secret.outbound_key(&operation.key, generation);
            sends(destination, generation, Some(key))
        };
        let would = match &decision {
            Decision::Ready => Would::SendAgain(under(onceward_core::evidence::next_generation(
                &operation.history,
                destination.contract(),
            ))),
            Decision::Unknown if operation.history.attempts < call.retry.attempts_max => {
                match self.inner.redrive_permit(operation, destination).await? {
                    Some(permit) => Would::Redrive(under(permit.generation())),
                    None => Would::Replay,
                }
            }
            Decision::InProgress => Would::Join,
            Decision::Unknown
            | Decision::Conflict(_)
            | Decision::ApprovalRequired
            | Decision::Replay
            | Decision::Rejected
            | Decision::Closed
            | Decision::Expired => Would::Replay,
        };
        let told = match would {
            Would::Join | Would::Replay => Some(report(operation, &decision, Role::Repeater)),
            Would::Send(_) | Would::SendAgain(_) | Would::Redrive(_) | Would::Propose | Would::Hold => None,
        };
        Ok(Meeting { would, told })
    }

    /// The earlier operation that would hold a call without identity, as far as can be seen without the store's own look: of
    /// everything unresolved of that tool, and of the newest that are settled.
    async fn looks_like(
        &self,
        grant: &Grant,
        allowed: &Authorized<Read>,
        call: &Call,
    ) -> Result<Option<Operation>, LedgerError> {
        let Some(probe) = call.probe(allowed, &self.inner.secret) else { return Ok(None) };
        let of = |states: &[&str]| Filter {
            tenant: grant.tenant().clone(),
            states: states.iter().map(|state| (*state).to_owned()).collect(),
            tool: Some(allowed.tool().clone()),
            disagreement_only: DisagreementOnly::No,
            after: None,
            limit: limits::INBOX_PAGE,
        };
        let (mut candidates, _) = self.scan(grant, of(&["proposed", "approved", "pending", "unknown"])).await?;
        candidates.extend(self.list(grant, of(&["succeeded", "rejected", "closed"])).await?.operations);
        Ok(suspect(&probe, &candidates, self.inner.clock.now()).cloned())
    }
}

/// What a call does with the operation that it meets.
struct Meeting {
    would: Would,
    told: Option<Envelope>,
}

impl Meeting {
    fn into_explanation(
        self,
        operation: Operation,
        whole: impl FnOnce(Option<Operation>, Would, Option<Envelope>) -> Explanation,
    ) -> Explanation {
        whole(Some(operation), self.would, self.told)
    }
}

fn sends(destination: &Arc<dyn Destination>, generation: Generation, key: Option<OutboundKey>) -> WouldSend {
    // As a key, or as the marker in the effect.
    let carried = destination.contract().key.is_some() || destination.contract().marker.is_some();
    WouldSend { generation, key: key.filter(|_| carried) }
}
