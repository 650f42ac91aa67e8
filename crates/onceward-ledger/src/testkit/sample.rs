//! Operations and events to test with.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical;
use onceward_core::event::{About, Basis, Cause, Claim, DispatchMark, Event, Observation, Source, Verdict};
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys};
use onceward_core::journal::Head;
use onceward_core::key::{
    AttemptNumber, EffectId, Generation, OperationId, OperationKey, OutboundKey, OwnerId, Principal, TenantId,
    ToolName, ToolVersion,
};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Terms};
use onceward_core::receipt::{Answer, Kept, Receipt};
use onceward_core::state::{Proposal, ProposalReason, Ready, State};
use onceward_core::suspicion::{Manner, Probe, Suspicion};
use onceward_core::time::Timestamp;

use crate::clock::{Clock, SystemClock};
use crate::store::{Command, Expects, Opening, Step};

/// The machine's time.
#[must_use]
pub fn now() -> Timestamp {
    SystemClock.now()
}

/// A key.
///
/// # Panics
/// When a part is no name.
#[must_use]
pub fn key(tenant: &str, id: &str) -> OperationKey {
    OperationKey { tenant: TenantId::parse(tenant).unwrap(), id: OperationId::parse(id).unwrap() }
}

/// How an operation is opened in a test.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its key.
    pub key: OperationKey,
    /// Its tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: String,
    /// For a call without identity: texts that its mark and its group are made of.
    pub suspicion: Option<(String, String)>,
}

impl Sample {
    /// A ticket.
    #[must_use]
    pub fn new(tenant: &str, id: &str) -> Self {
        Self {
            key: key(tenant, id),
            tool: "create_ticket".to_owned(),
            arguments: format!(r#"{{"title":"Ticket {id}","body":"The printer on floor 3 is on fire.","priority":2}}"#),
            suspicion: None,
        }
    }

    /// The same call, suspected by these texts.
    #[must_use]
    pub fn without_identity(mut self, mark: &str, group: &str) -> Self {
        self.suspicion = Some((mark.to_owned(), group.to_owned()));
        self
    }

    /// The same call of another tool.
    #[must_use]
    pub fn of_tool(mut self, tool: &str) -> Self {
        self.tool = tool.to_owned();
        self
    }

    /// The operation in this state, as it is before its first event.
    ///
    /// # Panics
    /// When the arguments are no JSON.
    #[must_use]
    pub fn operation(&self, state: State) -> Operation {
        let arguments = canonical::parse(self.arguments.as_bytes()).unwrap();
        let tool = ToolName::parse(&self.tool).unwrap();
        let comparison = Comparison::default();
        let fingerprint = FingerprintKeys::unkeyed()
            .fingerprint(FingerprintKeyId::UNKEYED, tool.as_str(), "1", &arguments, &comparison)
            .unwrap();
        let at = now();
        Operation {
            key: self.key.clone(),
            binding: Binding {
                tool,
                tool_version: ToolVersion::parse("1").unwrap(),
                comparison,
                fingerprint,
                fingerprint_key: FingerprintKeyId::UNKEYED,
                arguments: Kept::Present(Arc::new(arguments)),
            },
            terms: Terms {
                principal: Principal::parse("agent-1").unwrap(),
                dispatch: Dispatcher::Caller,
                lane: None,
                deadline: None,
                corrects: None,
                second_of: None,
                sighting: None,
                title: Some(format!("Ticket {}", self.key.id)),
                suspicion: self.suspicion(),
                pin: None,
            },
            history: History::default(),
            state,
            journal: Head::START,
            created_at: at,
            updated_at: at,
            settled_at: None,
        }
    }

    fn suspicion(&self) -> Option<Suspicion> {
        let digest = |text: &str| {
            let bytes = FingerprintKeys::unkeyed().digest(FingerprintKeyId::UNKEYED, text.as_bytes()).unwrap();
            onceward_core::fingerprint::Fingerprint::from_bytes(bytes)
        };
        self.suspicion.as_ref().map(|(mark, group)| Suspicion {
            mark: digest(mark),
            group: digest(group),
            business: None,
        })
    }

    /// Opens it with these events.
    #[must_use]
    pub fn opening(&self, events: Vec<Event>) -> Opening {
        Opening {
            operation: self.operation(State::Approved(Ready::default())),
            events,
            actor: "agent-1".to_owned(),
            probe: self.suspicion().map(|suspicion| Probe { suspicion, other_marks: Vec::new(), manner: Manner::Sent }),
        }
    }

    /// Opens it with the claim of its first attempt by this owner.
    #[must_use]
    pub fn claimed(&self, owner: &str) -> Command {
        Command::Open(Box::new(self.opening(vec![claim(1, owner)])))
    }

    /// Opens it so that it may be dispatched.
    #[must_use]
    pub fn approved(&self) -> Command {
        Command::Open(Box::new(self.opening(Vec::new())))
    }

    /// Opens it so that it waits for approval.
    #[must_use]
    pub fn proposed(&self) -> Command {
        let state = State::Proposed(Proposal { reason: ProposalReason::ToolPolicy });
        Command::Open(Box::new(Opening { operation: self.operation(state), ..self.opening(Vec::new()) }))
    }
}

/// The claim of this attempt by this owner, with a minute to send.
///
/// # Panics
/// When the owner is no name.
#[must_use]
pub fn claim(attempt: u32, owner: &str) -> Event {
    Event::Claim(Claim {
        attempt: AttemptNumber(attempt),
        owner: OwnerId::parse(owner).unwrap(),
        basis: Basis::NoEffectSoFar,
        generation: Generation(1),
        outbound_key: Some(OutboundKey::parse("0b0e0c3a-8c3f-8000-9000-000000000001").unwrap()),
        send_before: now().plus(Duration::from_secs(60)),
        settle_by: None,
        dispatch: DispatchMark::WithClaim,
    })
}

/// A receipt with this effect id.
///
/// # Panics
/// When the id is no name.
#[must_use]
pub fn receipt(effect_id: &str) -> Receipt {
    Receipt {
        effect_id: Some(EffectId::parse(effect_id).unwrap()),
        answer: Answer::json(&serde_json::json!({ "id": effect_id, "status": "open", "queue": "facilities" })),
        received_at: now(),
    }
}

/// An observation of this attempt.
#[must_use]
pub fn observed(attempt: u32, verdict: Verdict, source: Source) -> Event {
    Event::Observe(Observation {
        about: About::Attempt(AttemptNumber(attempt)),
        verdict,
        source,
        next_check: None,
        note: None,
    })
}

/// Its owner learned that this attempt had this effect.
///
/// # Panics
/// When a text is no name.
#[must_use]
pub fn effect(attempt: u32, owner: &str, effect_id: &str) -> Event {
    observed(attempt, Verdict::Effect(receipt(effect_id)), Source::Owner(OwnerId::parse(owner).unwrap()))
}

/// Its owner got no answer to this attempt; the next check is due then.
///
/// # Panics
/// When the owner is no name.
#[must_use]
pub fn lost(attempt: u32, owner: &str, next_check: Option<Timestamp>) -> Event {
    Event::Observe(Observation {
        about: About::Attempt(AttemptNumber(attempt)),
        verdict: Verdict::Lost(Cause::ReplyLost),
        source: Source::Owner(OwnerId::parse(owner).unwrap()),
        next_check,
        note: None,
    })
}

/// A step with these events.
#[must_use]
pub fn step(key: &OperationKey, events: Vec<Event>) -> Command {
    Command::Step(Box::new(Step { key: key.clone(), events, actor: "engine".to_owned(), expects: Expects::Anything }))
}
