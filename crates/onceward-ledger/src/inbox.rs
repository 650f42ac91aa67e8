//! What waits for somebody: every unresolved operation, those that need a person first, then those whose way out closes next.

use onceward_core::decision::irreversible_at;
use onceward_core::key::ToolName;
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::time::Timestamp;

use crate::authorize::Grant;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::limits;
use crate::store::{DisagreementOnly, Filter};

/// What an unresolved operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsFor {
    /// A person: nothing is scheduled, or evidence contradicts what is recorded.
    Person,
    /// An approver.
    Approver,
    /// An automatic check, due then.
    Check(Timestamp),
}

impl WaitsFor {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Approver => "approver",
            Self::Check(_) => "check",
        }
    }

    const fn needs_a_person(self) -> bool {
        match self {
            Self::Person | Self::Approver => true,
            Self::Check(_) => false,
        }
    }
}

/// One unresolved operation.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The operation.
    pub operation: Operation,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// The moment after which a way out is closed for good, where there is one.
    pub irreversible_at: Option<Timestamp>,
}

/// Everything unresolved, as far as it was looked at.
#[derive(Clone, Debug)]
pub struct Inbox {
    /// In the order in which they should be looked at.
    pub rows: Vec<Waiting>,
    /// How many of all need a person.
    pub need_a_person: usize,
    /// How many of all are to settle by themselves.
    pub by_themselves: usize,
    /// Whether there are more than were looked at, or than were asked for.
    pub more: More,
}

/// Whether an inbox is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// It is.
    No,
    /// There are more rows than were asked for; the counts are of all.
    NotAskedFor,
    /// There are more unresolved operations than one look takes: order and counts are of the newest of them only.
    NotLookedAt,
}

impl Ledger {
    /// Everything unresolved of the caller's tenant that it may see, the first `limit` of it: what needs a person first, then
    /// what has the nearest irreversible moment, then the oldest. Never writes.
    ///
    /// # Errors
    /// [`LedgerError::Store`].
    pub async fn inbox(&self, grant: &Grant, tool: Option<ToolName>, limit: u32) -> Result<Inbox, LedgerError> {
        let open = |states: &[&str], disagreement_only| Filter {
            tenant: grant.tenant().clone(),
            states: states.iter().map(|state| (*state).to_owned()).collect(),
            tool: tool.clone(),
            disagreement_only,
            after: None,
            limit: limits::INBOX_PAGE,
        };
        let (mut found, mut cut) = self.scan(grant, open(&["unknown", "proposed"], DisagreementOnly::No)).await?;
        let (contradicted, more) = self.scan(grant, open(&[], DisagreementOnly::Yes)).await?;
        cut |= more;
        found.extend(contradicted.into_iter().filter(|operation| match &operation.state {
            // They were found already.
            State::Unknown(_) | State::Proposed(_) => false,
            State::Approved(_) | State::Pending(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
                true
            }
        }));
        let mut rows = Vec::with_capacity(found.len());
        for operation in found {
            let prospect = self.inner.prospect_here(&operation).await?;
            let irreversible_at = self.inner.with_case(&operation, prospect.as_ref(), irreversible_at);
            rows.push(Waiting { waits_for: waits_for(&operation), irreversible_at, operation });
        }
        rows.sort_by_key(|row| {
            let nearest = row.irreversible_at;
            (!row.waits_for.needs_a_person(), nearest.is_none(), nearest, row.operation.created_at)
        });
        let need_a_person = rows.iter().filter(|row| row.waits_for.needs_a_person()).count();
        let by_themselves = rows.len() - need_a_person;
        let asked = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = match (cut, rows.len() > asked) {
            (true, _) => More::NotLookedAt,
            (false, true) => More::NotAskedFor,
            (false, false) => More::No,
        };
        rows.truncate(asked);
        Ok(Inbox { rows, need_a_person, by_themselves, more })
    }

    /// Pages of operations until there are no more, or too many. Says whether it was too many.
    pub(crate) async fn scan(&self, grant: &Grant, mut filter: Filter) -> Result<(Vec<Operation>, bool), LedgerError> {
        let mut found = Vec::new();
        loop {
            let page = self.list(grant, filter.clone()).await?;
            found.extend(page.operations);
            match page.next {
                None => return Ok((found, false)),
                Some(_) if found.len() >= limits::INBOX_MAX => return Ok((found, true)),
                Some(next) => filter.after = Some(next),
            }
        }
    }
}

/// What an unresolved operation waits for.
#[must_use]
pub fn waits_for(operation: &Operation) -> WaitsFor {
    match &operation.state {
        _ if operation.history.in_disagreement() => WaitsFor::Person,
        State::Proposed(_) => WaitsFor::Approver,
        State::Unknown(unknown) => unknown.next_check().map_or(WaitsFor::Person, WaitsFor::Check),
        State::Approved(_) | State::Pending(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => {
            WaitsFor::Person
        }
    }
}
