//! What of the ledger needs a person now, tenant by tenant.

use std::collections::BTreeSet;
use std::time::Duration;

use onceward_core::hex;
use onceward_core::key::TenantId;
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use onceward_destinations::notice::Notice;
use onceward_ledger::store::{DisagreementOnly, Filter, StoreError};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Event;
use crate::app::App;
use crate::limits::{NOTICES_MAX, PAGE_MAX};

/// Something that needs a person.
pub(super) struct Found {
    /// The same whenever it is found, also by the next gateway.
    pub(super) id: String,
    body: Value,
}

impl Found {
    pub(super) fn notice(&self) -> Notice {
        Notice { id: self.id.clone(), body: self.body.to_string().into_bytes() }
    }
}

/// Everything that needs a person, up to [`NOTICES_MAX`] of each kind and tenant, newest first.
pub(super) async fn look(app: &App, events: &[Event], settling: Duration) -> Result<Vec<Found>, StoreError> {
    let store = app.ledger().store();
    let now = app.ledger().clock().now();
    // A tenant without a credential has nobody who could have called or could decide.
    let tenants: BTreeSet<TenantId> =
        store.credentials().await?.into_iter().map(|credential| credential.grant.tenant().clone()).collect();
    let ledger = &store.id().0;
    let mut found = Vec::new();
    for tenant in tenants {
        for event in events {
            let mut after = None;
            let mut looked_at = 0;
            loop {
                let page = store.list(filter(&tenant, *event, after)).await?;
                looked_at += page.operations.len();
                found.extend(
                    page.operations.iter().filter_map(|operation| of(ledger, *event, operation, now.minus(settling))),
                );
                match page.next {
                    Some(next) if looked_at < NOTICES_MAX => after = Some(next),
                    Some(_) | None => break,
                }
            }
        }
    }
    Ok(found)
}

fn filter(tenant: &TenantId, event: Event, after: Option<u64>) -> Filter {
    let (states, disagreement_only) = match event {
        Event::ApprovalRequested => (vec!["proposed".to_owned()], DisagreementOnly::No),
        Event::OperationUnknown => (vec!["unknown".to_owned()], DisagreementOnly::No),
        Event::OperationDisagreement => (Vec::new(), DisagreementOnly::Yes),
    };
    Filter { tenant: tenant.clone(), states, tool: None, disagreement_only, after, limit: PAGE_MAX }
}

/// The notice of this kind that the operation calls for, if it does.
fn of(ledger: &str, event: Event, operation: &Operation, settled_by: Timestamp) -> Option<Found> {
    // Which of several events of this kind in the life of one operation.
    let (occurrence, reason) = match (event, &operation.state) {
        (Event::ApprovalRequested, State::Proposed(proposal)) => (0, json!(proposal.reason)),
        (Event::OperationUnknown, State::Unknown(unknown)) => {
            let waits = unknown.next_check().is_none() && operation.updated_at <= settled_by;
            waits.then(|| (operation.history.attempts, json!(unknown.latest().cause.name())))?
        }
        (Event::OperationDisagreement, _) => {
            let known = operation.history.disagreement.as_ref().filter(|_| operation.history.in_disagreement())?;
            (known.count, json!(known.kind.name()))
        }
        (
            Event::ApprovalRequested | Event::OperationUnknown,
            State::Proposed(_)
            | State::Approved(_)
            | State::Pending(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Closed(_),
        ) => return None,
    };
    let id = id(ledger, event, operation, occurrence);
    let body = json!({
        "type": event.name(),
        "timestamp": operation.updated_at.to_string(),
        "data": {
            "tenant": operation.key.tenant,
            "operation_id": operation.key.id,
            "tool": operation.binding.tool,
            "title": operation.terms.title,
            "principal": operation.terms.principal,
            "state": operation.state.name(),
            "version": operation.journal.seq,
            "reason": reason,
            "second_of": operation.terms.second_of,
        },
    });
    Some(Found { id, body })
}

fn id(ledger: &str, event: Event, operation: &Operation, occurrence: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(b"onceward notice v1\0");
    for part in [ledger, event.name(), operation.key.tenant.as_str(), operation.key.id.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(occurrence.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    format!("notice_{}", hex::encode(&digest[..16]))
}
