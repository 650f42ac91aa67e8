//! Who a write of a vendor's client is (R20).
//!
//! Vendors' clients make up a key for each call. Such a key joins the client's own transport retries into one row and says
//! nothing about a second call: only a key that the application chose does, or one that it registers in a header of ours.

use http::{HeaderMap, HeaderName};
use onceward_core::code::Code;
use onceward_core::hex;
use onceward_core::key::OperationId;
use onceward_core::time::Timestamp;
use onceward_destinations::proxy::{Proxy, Taken};
use onceward_destinations::tool::WithoutIdentity;
use onceward_ledger::authorize::Grant;
use onceward_ledger::call::{Approval, Identity};
use sha2::{Digest as _, Sha256};

use crate::identity::{mint, named, run};
use crate::problem::Problem;

/// The header in which an application registers the operation that a request of its vendor's client belongs to.
const REGISTERED: HeaderName = HeaderName::from_static("onceward-operation-id");

/// Who it is, and whether that alone makes it wait for a person.
pub(super) struct Identified {
    pub(super) identity: Identity,
    pub(super) approval: Approval,
}

/// The identity of a write.
///
/// # Errors
/// `identity_conflict` for two that differ, `identity_required` where the proxy takes none without.
pub(super) fn of(
    proxy: &Proxy,
    grant: &Grant,
    headers: &HeaderMap,
    taken: &Taken,
    now: Timestamp,
) -> Result<Identified, Problem> {
    let given = |id| Ok(Identified { identity: Identity::Given(id), approval: Approval::NotNeeded });
    let chosen = taken.key.as_deref().filter(|key| proxy.names_an_intention(key));
    match (named(headers, &REGISTERED)?, chosen) {
        (Some(id), Some(key)) if id.as_str() != key => Err(Problem::new(
            Code::IdentityConflict,
            "the header Onceward-Operation-Id and the vendor's key name two operations; send one of them, or both the same",
        )),
        (Some(id), _) => given(id),
        (None, Some(key)) => given(proxy.operation_id(taken, key)?),
        (None, None) => without(proxy, grant, headers, taken, now),
    }
}

/// Applies the proxy's policy to a write that nothing names.
fn without(
    proxy: &Proxy,
    grant: &Grant,
    headers: &HeaderMap,
    taken: &Taken,
    now: Timestamp,
) -> Result<Identified, Problem> {
    let held = |approval| -> Result<Identified, Problem> {
        let minted = match &taken.key {
            Some(key) => proxy.operation_id(taken, key)?,
            None => mint(now)?,
        };
        Ok(Identified { identity: Identity::Held { minted, business_key: proxy.business_key().to_vec() }, approval })
    };
    match (proxy.without_identity(), run(headers)?) {
        (WithoutIdentity::Hold, _) => held(Approval::NotNeeded),
        (WithoutIdentity::Approve, _) => held(Approval::Required),
        (WithoutIdentity::Scope, Some(run)) => Ok(Identified {
            identity: Identity::Given(of_run(proxy, grant, taken, &run)?),
            approval: Approval::NotNeeded,
        }),
        (WithoutIdentity::Scope, None) => Err(Problem::new(
            Code::IdentityRequired,
            "this destination takes a write without identity only within a run; send the header Onceward-Scope with a name of \
             the run, or a key of your own",
        )),
        (WithoutIdentity::Refuse, _) => Err(Problem::new(
            Code::IdentityRequired,
            "this destination takes no write without identity, and a key that the vendor's client makes up is none; send a key \
             of your own, the same one whenever the same intention is sent again",
        )),
    }
}

/// In one run of one principal, equal requests are one operation.
fn of_run(proxy: &Proxy, grant: &Grant, taken: &Taken, run: &OperationId) -> Result<OperationId, Problem> {
    let mut hash = Sha256::new();
    hash.update(b"onceward run v1\0");
    let compared = proxy.comparison().compared_text(&taken.arguments);
    for part in [grant.principal().as_str(), run.as_str(), proxy.tool().as_str(), compared.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest: [u8; 32] = hash.finalize().into();
    Ok(OperationId::parse(&format!("run-{}", hex::encode(&digest)))?)
}
