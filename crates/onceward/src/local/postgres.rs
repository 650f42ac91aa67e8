//! Local effects in the ledger's own PostgreSQL database. Services in other languages have them by the SQL contract (docs/sql.md).

use onceward_core::outcome::Envelope;
use onceward_ledger::Ledger;
use onceward_ledger::authorize::{Authorized, Execute};
use onceward_ledger::call::Call;
use onceward_ledger::local::LocalCall;
use onceward_postgres::{Effect, PostgresStore};

/// Why a local effect has no answer.
pub type ExecuteLocalError = onceward_ledger::local::ExecuteLocalError<onceward_postgres::tokio_postgres::Error>;

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
    let outcome = store.run_local(*opening, effect).await?;
    Ok(ledger.told_of(allowed, call, outcome)?)
}
