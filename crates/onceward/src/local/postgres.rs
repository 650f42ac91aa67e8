//! Local effects in the ledger's own PostgreSQL database. Services in other languages have them by the SQL contract (docs/sql.md).

use onceward_core::outcome::Envelope;
use onceward_ledger::authorize::{Authorized, Execute};
use onceward_ledger::call::Call;
use onceward_ledger::local::LocalCall;
use onceward_ledger::{Ledger, LedgerError};
use onceward_postgres::{Effect, LocalFailure, LocalOutcome, PostgresStore};

/// Why a local effect has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteLocalError {
    /// The ledger could not; nothing was run.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The effect was not done; of it nothing is left, unless the failure says that the commit is unknown.
    #[error(transparent)]
    Effect(#[from] LocalFailure),
}

/// Runs `effect` in a transaction of the store's, once, however often and by however many processes this is called with the same
/// identity.
///
/// After an answer that says `executed`, the effect's rows and its receipt are durable together. A repetition gets the receipt;
/// one that comes while the effect runs waits for it. The effect holds a connection of the store's: it must be short.
///
/// # Errors
/// [`ExecuteLocalError`]: no row of the effect is left, and the same call may be made again with the same identity. Where the
/// commit is unknown, that call finds out.
pub async fn execute_local(
    ledger: &Ledger,
    store: &PostgresStore,
    allowed: &Authorized<Execute>,
    call: &Call,
    effect: Effect,
) -> Result<Envelope, ExecuteLocalError> {
    let opening = match ledger.prepare_local(allowed, call).await? {
        LocalCall::Answered(envelope) => return Ok(*envelope),
        LocalCall::Open(opening) => opening,
    };
    Ok(match store.run_local(*opening, effect).await? {
        LocalOutcome::Done(operation) => ledger.executed(allowed, &operation),
        LocalOutcome::Existing(operation) | LocalOutcome::Opened(operation) => {
            ledger.decided(allowed, call, &operation)?
        }
        LocalOutcome::Suspected(earlier) => ledger.suspected(allowed, &earlier),
        LocalOutcome::Refused { refusal, .. } => return Err(LedgerError::Illegal(refusal).into()),
    })
}
