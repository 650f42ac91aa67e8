//! The smallest world in which a receipt is asked for again: one settled operation, one caller, and a grant that may be taken
//! away between two calls. Authorization is no rule of the machine, so it has a model of its own.

use onceward_core::decide::{Decision, standing};
use onceward_core::operation::Operation;
use onceward_core::outcome::{Role, report};
use stateright::{Model, Property};

use crate::mutant::Mutant;

/// A caller and an operation that is done.
#[derive(Clone, Debug)]
pub struct Replays {
    /// The operation, settled, with its receipt.
    pub done: Operation,
    /// The mistake that is planted, if one is.
    pub mutant: Option<Mutant>,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Whether the caller may use the tool now.
    pub grant: Grant,
    /// What became of its latest call.
    pub latest: Option<Told>,
}

/// Whether a caller may use the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grant {
    /// It may.
    Given,
    /// It may not, or no longer.
    Revoked,
}

/// What a caller was told, and under which grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// The grant at that moment.
    pub under: Grant,
    /// What it was told.
    pub what: What,
}

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The receipt.
    Receipt,
    /// That it may not.
    Refusal,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The caller repeats its call.
    Call,
    /// The grant is taken away.
    Revoke,
    /// The grant is given again.
    Restore,
}

/// A receipt is shown only under a grant that holds at that moment.
pub const NO_RECEIPT_WITHOUT_GRANT: &str = "no receipt is shown without a grant";

impl Model for Replays {
    type State = Caller;
    type Action = Action;

    fn init_states(&self) -> Vec<Caller> {
        vec![Caller { grant: Grant::Given, latest: None }]
    }

    fn actions(&self, caller: &Caller, actions: &mut Vec<Action>) {
        actions.push(Action::Call);
        actions.push(match caller.grant {
            Grant::Given => Action::Revoke,
            Grant::Revoked => Action::Restore,
        });
    }

    fn next_state(&self, caller: &Caller, action: Action) -> Option<Caller> {
        let mut caller = caller.clone();
        match action {
            Action::Call => caller.latest = Some(Told { under: caller.grant, what: self.answer(caller.grant) }),
            Action::Revoke => caller.grant = Grant::Revoked,
            Action::Restore => caller.grant = Grant::Given,
        }
        Some(caller)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_RECEIPT_WITHOUT_GRANT, |_, caller: &Caller| {
                caller.latest.is_none_or(|told| told.under == Grant::Given || told.what == What::Refusal)
            }),
            Property::sometimes("a receipt is shown", |_, caller: &Caller| {
                caller.latest.is_some_and(|told| told.what == What::Receipt)
            }),
            Property::sometimes("a caller without a grant asks", |_, caller: &Caller| {
                caller.latest.is_some_and(|told| told.under == Grant::Revoked)
            }),
        ]
    }
}

impl Replays {
    /// The grant comes first, for a replay as for everything else (promise 6).
    fn answer(&self, grant: Grant) -> What {
        match grant {
            Grant::Revoked if self.mutant != Some(Mutant::ReplayWithoutAuthorization) => return What::Refusal,
            Grant::Given | Grant::Revoked => {}
        }
        let decision: Decision = standing(&self.done);
        match report(&self.done, &decision, Role::Repeater).answer {
            Some(_) => What::Receipt,
            None => What::Refusal,
        }
    }
}
