//! The row and the journal of the one operation, and the marks of what must never happen to them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::event::{Basis, Event, Source, Verdict};
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys};
use onceward_core::journal::Head;
use onceward_core::key::{OperationId, OperationKey, Principal, TenantId, ToolName, ToolVersion};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Terms};
use onceward_core::receipt::Kept;
use onceward_core::state::{Ready, State};
use onceward_core::step::Refusal;
use onceward_core::time::Timestamp;

use crate::destination;

/// The tool that is called.
pub const TOOL: &str = "create_thing";

/// What the ledger holds, and what is remembered about it so that its past can be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The row.
    pub operation: Operation,
    /// Effects whose receipt is in the row or the journal.
    pub kept: BTreeSet<u8>,
    /// Effects whose receipt an owner was given by the destination while it lived.
    pub arrived: BTreeSet<u8>,
    /// How it was settled when it first was.
    pub settled: Option<Settled>,
    /// A claim was made while an attempt might have had its effect, and nothing permitted it.
    pub blind_claim: bool,
    /// An attempt that might have had its effect is neither uncertain nor disproved any more.
    pub forgotten: bool,
}

/// How an operation was settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settled {
    /// The final state's name.
    pub state: &'static str,
    /// The effect that its receipt names.
    pub effect: Option<u8>,
}

impl Ledger {
    /// An operation that may be dispatched and never was.
    #[must_use]
    pub fn of(operation: Operation) -> Self {
        Self {
            operation,
            kept: BTreeSet::new(),
            arrived: BTreeSet::new(),
            settled: None,
            blind_claim: false,
            forgotten: false,
        }
    }

    /// Applies an event, or says why it is refused.
    ///
    /// # Errors
    /// The refusal of [`Operation::step`]; nothing changed.
    pub fn apply(&mut self, event: &Event, now: u8) -> Result<(), Refusal> {
        let before = self.operation.clone();
        let mut after = before.clone().step(event, destination::tick(now))?;
        // Times that no rule reads would only make equal worlds look different.
        after.updated_at = Timestamp::EPOCH;
        after.settled_at = after.settled_at.map(|_| Timestamp::EPOCH);
        self.operation = after;
        self.judge(&before, event);
        if let Event::Observe(seen) = event
            && let Verdict::Effect(receipt) = &seen.verdict
        {
            self.kept.extend(destination::effect_of(receipt.effect_id.as_ref()));
        }
        Ok(())
    }

    /// Marks what the move from `before` to the present row must not have done.
    pub fn judge(&mut self, before: &Operation, event: &Event) {
        let after = &self.operation;
        self.blind_claim |= match event {
            Event::Claim(claim) => match claim.basis {
                Basis::NoEffectSoFar => may_have_happened(before).next().is_some(),
                Basis::Redrive(_) => false,
            },
            Event::Approve { .. }
            | Event::Begin { .. }
            | Event::Extend { .. }
            | Event::Observe(_)
            | Event::Close(_)
            | Event::Supersede { .. }
            | Event::Wait { .. }
            | Event::Acknowledge { .. }
            | Event::Purge(_) => false,
        };
        let decided = matches!(event, Event::Observe(seen) if matches!(seen.source, Source::Operator { .. }));
        let done = matches!(after.state, State::Succeeded(_));
        if !decided && !done {
            let known = |attempt: u32| {
                may_have_happened(after).any(|one| one == attempt)
                    || after.history.disproved.iter().any(|one| one.attempt.0 == attempt)
            };
            self.forgotten |= !may_have_happened(before).all(known);
        }
        if self.settled.is_none() && after.is_settled() {
            self.settled = settled(after);
        }
    }
}

/// How an operation is settled, if it is.
#[must_use]
pub fn settled(operation: &Operation) -> Option<Settled> {
    let effect = match &operation.state {
        State::Succeeded(success) => destination::effect_of(success.effect_id.as_ref()),
        State::Rejected(_) | State::Closed(_) => None,
        State::Proposed(_) | State::Approved(_) | State::Pending(_) | State::Unknown(_) => return None,
    };
    Some(Settled { state: operation.state.name(), effect })
}

/// The attempts that may have had their effect, a running one that has begun among them.
fn may_have_happened(operation: &Operation) -> impl Iterator<Item = u32> + '_ {
    let running = match &operation.state {
        State::Pending(pending) => pending.attempt.begun_at.map(|_| pending.attempt.number.0),
        State::Proposed(_)
        | State::Approved(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    };
    operation.state.uncertain().iter().map(|one| one.attempt.0).chain(running)
}

/// Two ledgers are the same world when everything that a rule reads is the same.
impl Hash for Ledger {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut text = Text(hasher);
        let rules_read = (&self.operation.history, &self.operation.state, &self.operation.binding.arguments);
        // Writing into a hasher cannot fail.
        let _ = write!(text, "{rules_read:?}");
        (&self.kept, &self.arrived, &self.settled, self.blind_claim, self.forgotten).hash(hasher);
    }
}

struct Text<'a, H>(&'a mut H);

impl<H: Hasher> std::fmt::Write for Text<'_, H> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The operation as it is created, with what identifies it.
///
/// # Panics
/// A name in this file is none: a fault of this model.
#[must_use]
pub fn created(arguments: &Canonical) -> Operation {
    fn name<T, E: std::fmt::Debug>(parsed: Result<T, E>) -> T {
        parsed.expect("the names of the model are names")
    }
    let tool = name(ToolName::parse(TOOL));
    let version = name(ToolVersion::parse("1"));
    let comparison = Comparison::default();
    let fingerprint = name(FingerprintKeys::unkeyed().fingerprint(
        FingerprintKeyId::UNKEYED,
        tool.as_str(),
        version.as_str(),
        arguments,
        &comparison,
    ));
    Operation {
        key: OperationKey { tenant: name(TenantId::parse("tenant")), id: name(OperationId::parse("operation")) },
        binding: Binding {
            tool,
            tool_version: version,
            comparison,
            fingerprint,
            fingerprint_key: FingerprintKeyId::UNKEYED,
            arguments: Kept::Present(Arc::new(arguments.clone())),
        },
        terms: Terms {
            principal: name(Principal::parse("agent")),
            dispatch: Dispatcher::Caller,
            lane: None,
            deadline: None,
            corrects: None,
            second_of: None,
            sighting: None,
            title: None,
            suspicion: None,
            pin: None,
        },
        history: History::default(),
        state: State::Approved(Ready::default()),
        journal: Head::START,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        settled_at: None,
    }
}
