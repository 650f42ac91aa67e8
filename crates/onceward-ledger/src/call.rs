//! What a caller wants done, and the operation that it becomes.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::fingerprint::{Comparison, Fingerprint, FingerprintKeys, UnknownKey};
use onceward_core::journal::Head;
use onceward_core::key::{Lane, OperationId, OperationKey, ToolVersion};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Pin, Terms};
use onceward_core::outbound::LedgerSecret;
use onceward_core::pointer::Pointer;
use onceward_core::receipt::Kept;
use onceward_core::retry::RetryPolicy;
use onceward_core::sighting::Sighting;
use onceward_core::state::{Proposal, ProposalReason, Ready, State};
use onceward_core::suspicion::{Manner, Probe, Suspicion};
use onceward_core::time::Timestamp;

use crate::authorize::Authorized;
use crate::destination::Destination;
use crate::directory::Known;
use crate::limits::SECOND_WITHIN;

/// A call of a tool: the tool itself is named by the permission that comes with it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who it is, among its tenant's operations.
    pub identity: Identity,
    /// The version of the tool's definition.
    pub tool_version: ToolVersion,
    /// Which fields do not take part in the comparison.
    pub comparison: Comparison,
    /// The arguments; exactly these are dispatched.
    pub arguments: Arc<Canonical>,
    /// One line for people.
    pub title: Option<String>,
    /// Whether a person must allow it first.
    pub approval: Approval,
    /// After this long nothing is sent any more.
    pub deadline: Option<Duration>,
    /// How long to wait for the destination's whole answer.
    pub answer_within: Duration,
    /// How attempts follow each other, where the rules permit another one.
    pub retry: RetryPolicy,
    /// The rejected operation that this one corrects.
    pub corrects: Option<OperationId>,
    /// Where operations of one kind go one after the other.
    pub lane: Option<Lane>,
    /// What was seen of it in observe mode; `None` where the rules bind it.
    pub sighting: Option<Sighting>,
}

/// Who a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The caller names the operation.
    Given(OperationId),
    /// The host sends no identity: an operation is minted, and held back if it looks like a repetition (R16).
    Held {
        /// The id it gets if it is not held back; random, chosen by the edge.
        minted: OperationId,
        /// Argument fields that tell two meant calls of one tool apart.
        business_key: Vec<Pointer>,
    },
    /// The host sends no identity, and somebody says that a second one is meant. It is opened only while nothing like it is
    /// unresolved, and the host's next equal call goes on with it.
    Second {
        /// The id of the second one.
        id: OperationId,
        /// The settled one that it is done again beside.
        of: OperationId,
        /// As for [`Identity::Held`].
        business_key: Vec<Pointer>,
    },
}

impl Identity {
    /// The id of its operation, or the one that it gets if it is not held back.
    #[must_use]
    pub const fn id(&self) -> &OperationId {
        match self {
            Self::Given(id) | Self::Held { minted: id, .. } | Self::Second { id, .. } => id,
        }
    }
}

/// Whether a person must allow a call first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// No.
    NotNeeded,
    /// Yes.
    Required,
}

impl Call {
    /// The durable key of the operation that this call is about.
    #[must_use]
    pub fn key<A>(&self, allowed: &Authorized<A>) -> OperationKey {
        OperationKey { tenant: allowed.tenant().clone(), id: self.identity.id().clone() }
    }

    /// Whether it is made in observe mode beside the operation that it met.
    pub(crate) fn is_beside_another(&self) -> bool {
        self.sighting.as_ref().is_some_and(Sighting::is_beside_another)
    }

    /// Whether this call is bound by the rules and the operation is free to be sent only because its own was not: enforced, it would
    /// have waited for a person, or been refused.
    pub(crate) fn is_let_through_by_observing(&self, operation: &Operation) -> bool {
        let observed = operation
            .terms
            .sighting
            .as_ref()
            .is_some_and(|sighting| sighting.would.is_blocked() || sighting.is_beside_another());
        self.sighting.is_none() && observed
    }

    /// The tool as this call brings it along.
    pub(crate) fn known(&self, destination: &Arc<dyn Destination>) -> Known {
        Known {
            version: self.tool_version.clone(),
            destination: Arc::clone(destination),
            retry: self.retry,
            answer_within: self.answer_within,
        }
    }

    /// The operation as it is inserted, before anything is claimed.
    ///
    /// # Errors
    /// [`UnknownKey`] when the current fingerprint key is not configured.
    pub(crate) fn operation<A>(
        &self,
        allowed: &Authorized<A>,
        keys: &FingerprintKeys,
        dispatch: Dispatcher,
        probe: Option<&Probe>,
        pin: Option<Pin>,
        now: Timestamp,
    ) -> Result<Operation, UnknownKey> {
        let tool = allowed.tool().clone();
        let fingerprint = keys.fingerprint(
            keys.current(),
            tool.as_str(),
            self.tool_version.as_str(),
            &self.arguments,
            &self.comparison,
        )?;
        Ok(Operation {
            key: self.key(allowed),
            binding: Binding {
                tool,
                tool_version: self.tool_version.clone(),
                comparison: self.comparison.clone(),
                fingerprint,
                fingerprint_key: keys.current(),
                arguments: Kept::Present(Arc::clone(&self.arguments)),
            },
            terms: Terms {
                principal: allowed.principal().clone(),
                dispatch,
                lane: self.lane.clone(),
                deadline: self.deadline_within().map(|within| now.plus(within)),
                corrects: self.corrects.clone(),
                second_of: match &self.identity {
                    Identity::Second { of, .. } => Some(of.clone()),
                    Identity::Given(_) | Identity::Held { .. } => None,
                },
                sighting: self.sighting.clone(),
                title: self.title.clone(),
                suspicion: probe.map(|probe| probe.suspicion.clone()),
                pin,
            },
            history: History::default(),
            state: match (self.approval, &self.identity) {
                (Approval::NotNeeded, _) => State::Approved(Ready::default()),
                (Approval::Required, Identity::Second { .. }) => {
                    State::Proposed(Proposal { reason: ProposalReason::PossibleDuplicate })
                }
                (Approval::Required, Identity::Given(_) | Identity::Held { .. }) => {
                    State::Proposed(Proposal { reason: ProposalReason::ToolPolicy })
                }
            },
            journal: Head::START,
            created_at: now,
            updated_at: now,
            settled_at: None,
        })
    }

    /// By what an earlier call is recognised as possibly the same, for a host without identity.
    pub(crate) fn probe<A>(&self, allowed: &Authorized<A>, secret: &LedgerSecret) -> Option<Probe> {
        let (business_key, manner) = match (&self.identity, self.approval) {
            (Identity::Given(_), _) => return None,
            (Identity::Held { business_key, .. }, Approval::NotNeeded) => (business_key, Manner::Sent),
            (Identity::Held { business_key, .. }, Approval::Required) => (business_key, Manner::Proposed),
            (Identity::Second { business_key, .. }, _) => (business_key, Manner::Second),
        };
        let tenant = allowed.tenant().as_str().as_bytes();
        let tool = allowed.tool().as_str().as_bytes();
        let hash =
            |domain: &[u8], last: &[u8]| Fingerprint::from_bytes(secret.keyed_hash(domain, &[tenant, tool, last]));
        let business = (!business_key.is_empty()).then(|| {
            let fields: Vec<_> = business_key.iter().map(|field| field.get(self.arguments.value())).collect();
            hash(b"onceward business key v1\0", serde_json::json!(fields).to_string().as_bytes())
        });
        Some(Probe {
            suspicion: Suspicion {
                mark: hash(b"onceward suspicion v1\0", self.comparison.compared_text(&self.arguments).as_bytes()),
                group: hash(b"onceward suspicion group v1\0", allowed.principal().as_str().as_bytes()),
                business,
            },
            other_marks: Vec::new(),
            manner,
        })
    }

    /// What somebody wanted a second time today is not what they want next month: until it is sent, the wish grows old.
    fn deadline_within(&self) -> Option<Duration> {
        match &self.identity {
            Identity::Second { .. } => Some(self.deadline.map_or(SECOND_WITHIN, |within| within.min(SECOND_WITHIN))),
            Identity::Given(_) | Identity::Held { .. } => self.deadline,
        }
    }
}
