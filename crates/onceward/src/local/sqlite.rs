//! Local effects in the ledger's own SQLite file.

use onceward_core::outcome::Envelope;
use onceward_ledger::Ledger;
use onceward_ledger::authorize::{Authorized, Execute};
use onceward_ledger::call::Call;
use onceward_ledger::local::LocalCall;
use onceward_sqlite::{Effect, SqliteStore};

/// Why a local effect has no answer.
pub type ExecuteLocalError = onceward_ledger::local::ExecuteLocalError<onceward_sqlite::rusqlite::Error>;

/// Runs `effect` in the ledger's own transaction, once, however often this is called with the same identity.
///
/// After an answer that says `executed`, the effect's rows and its receipt are durable together. A repetition is a pure read
/// and gets the receipt. The effect runs on the writer: it must be fast, and it cannot commit, attach or change pragmas.
///
/// # Errors
/// [`ExecuteLocalError`]: no row of the effect is left, and the same call may be made again with the same identity.
pub async fn execute_local(
    ledger: &Ledger,
    store: &SqliteStore,
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
