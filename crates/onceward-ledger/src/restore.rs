//! After a restore (R22): the ledger has forgotten what was sent since its backup, and may not take that for never sent.
//!
//! Two things guard against it. The high-water mark is kept in the ledger and, a moment later, outside it: a ledger that is behind
//! the mark outside has gone back, and no gateway starts on it. And a restore opens an epoch: while it is open, an identity that
//! is not provably younger than the restore opens as `unknown` and not as free to run.

use std::time::Duration;

use onceward_core::event::{About, Cause, Event, Observation, Source, Verdict};
use onceward_core::key::OperationId;
use onceward_core::limits::ID_CLOCK_SKEW_MAX;
use onceward_core::operation::Operation;
use onceward_core::retention::IdTime;
use onceward_core::state::State;
use onceward_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::LedgerError;
use crate::limits;
use crate::store::{Applied, Command, Expects, Priority, Step, Store, StoreError};

/// How far a ledger has come. It only rises, with every beat of a gateway and with every restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighWater {
    /// How many restores it has been through.
    pub restores: u64,
    /// How many beats its gateways have made. A clock that was set back does not move it.
    pub beats: u64,
    /// The latest time at which a gateway was alive.
    pub at: Timestamp,
}

impl HighWater {
    /// Whether what this mark was read from has lost something that `kept` had seen. A restore is accounted for, so one more of
    /// them outweighs what it took back.
    #[must_use]
    pub fn is_behind(&self, kept: &Self) -> bool {
        match self.restores.cmp(&kept.restores) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => self.beats < kept.beats || self.at < kept.at,
        }
    }
}

/// A restore that has not been closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Of which time the restored state is, by the word of whoever restored it.
    pub as_of: Timestamp,
    /// When the ledger was restored: until then, anything may have been sent that it does not know of.
    pub restored_at: Timestamp,
}

impl Epoch {
    /// Whether an identity is provably younger than the restore, so that nothing can have been sent for it before: a UUID of
    /// version 7, later than the restore even by the slowest of clocks. A time further ahead than clocks differ proves nothing.
    #[must_use]
    pub fn is_survived_by(&self, id: &OperationId, now: Timestamp) -> bool {
        IdTime::UuidV7.read(id).is_some_and(|minted| {
            minted > self.restored_at.plus(ID_CLOCK_SKEW_MAX) && minted.since(now) <= ID_CLOCK_SKEW_MAX
        })
    }
}

/// Where a ledger stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// How far it has come.
    pub high_water: HighWater,
    /// The latest restore that is open.
    pub epoch: Option<Epoch>,
    /// Which server holds it, where a server does and says so.
    pub server: Option<Server>,
}

/// A database server, by what changes when another one takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The cluster's own identifier: the same for a primary and its standbys.
    pub system: String,
    /// Rises with each promotion, and with each restore to a point in time.
    pub timeline: u32,
    /// Whether commits wait for a standby.
    pub replication: Replication,
}

/// Whether commits wait for a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replication {
    /// They do: a fail-over loses nothing that was answered.
    Synchronous,
    /// They do not, or there is no standby.
    Asynchronous,
}

/// What [`Command::Restore`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restoring {
    /// Of which time the restored state is.
    pub as_of: Timestamp,
    /// How far the ledger had come before, where that is known: the ledger is raised to it.
    pub reached: Option<HighWater>,
}

/// What a restore did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How many operations may have had an effect of which the ledger knows nothing, and are `unknown` now.
    pub unknown: usize,
    /// How far the ledger has come now.
    pub position: HighWater,
}

/// Why nothing was restored, or not all of it. The same may be done again.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Of a time that has not come yet nothing can be restored.
    #[error("{0} has not come yet")]
    Future(Timestamp),
    /// A gateway is at work.
    #[error("a gateway is at work on this ledger; stop every one of them first")]
    InUse,
    /// No restore is open.
    #[error("no restore is open")]
    NoneOpen,
    /// The ledger could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operation does not take it.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Makes every unsettled operation `unknown`, and opens an epoch. Nobody may be working on the ledger.
///
/// Once this has answered, gateways start again; until then they refuse to, also when it was interrupted.
///
/// # Errors
/// [`RestoreError`]; it may be done again.
pub async fn restore(store: &dyn Store, clock: &dyn Clock, restoring: Restoring) -> Result<Restored, RestoreError> {
    let now = clock.now();
    if restoring.as_of > now {
        return Err(RestoreError::Future(restoring.as_of));
    }
    let mut unknown = 0;
    let mut after = None;
    loop {
        let page = store.unsettled(after.as_ref(), limits::RECOVERY_BATCH).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for operation in page {
            let step = Step {
                key: operation.key.clone(),
                events: forgetting(&operation, restoring.as_of, now),
                actor: "restore".to_owned(),
                expects: Expects::Anything,
            };
            match store.submit(Command::Step(Box::new(step)), Priority::Settle).await? {
                Applied::Stepped(_) => unknown += 1,
                Applied::Refused { refusal, .. } => return Err(LedgerError::Illegal(refusal).into()),
                Applied::Opened(_)
                | Applied::Existing(_)
                | Applied::Suspected(_)
                | Applied::NoSuchOperation
                | Applied::Done => return Err(LedgerError::Contended.into()),
            }
        }
    }
    store.submit(Command::Restore(restoring), Priority::Settle).await?;
    let position = store.position().await?.high_water;
    Ok(Restored { unknown, position })
}

/// Ends every open epoch: from now on an identity that the ledger does not know is free to run, however old it is.
///
/// # Errors
/// [`RestoreError::NoneOpen`]; or the ledger cannot be written.
pub async fn close(store: &dyn Store, reason: &str) -> Result<(), RestoreError> {
    match store.submit(Command::CloseRestores { reason: reason.to_owned() }, Priority::Settle).await? {
        Applied::NoSuchOperation => Err(RestoreError::NoneOpen),
        Applied::Done
        | Applied::Opened(_)
        | Applied::Existing(_)
        | Applied::Suspected(_)
        | Applied::Stepped(_)
        | Applied::Refused { .. } => Ok(()),
    }
}

/// Whether an owner shows a sign of life within `within`, on our own clock (R12). For a store that gives no lock on the whole.
///
/// # Errors
/// [`StoreError`] when it cannot be found out.
pub async fn is_in_use(
    store: &dyn Store,
    pause: impl AsyncFn(Duration),
    clock: &dyn Clock,
    within: Duration,
) -> Result<bool, StoreError> {
    let before = store.owners().await?;
    let until = clock.uptime() + within;
    while clock.uptime() < until {
        pause(limits::POLL_MAX).await;
        let now = store.owners().await?;
        if now.iter().any(|owner| !before.contains(owner)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The events that say of an operation: something may have been sent for it that the ledger does not know of.
fn forgetting(operation: &Operation, as_of: Timestamp, now: Timestamp) -> Vec<Event> {
    let seen = |about| {
        Event::Observe(Observation {
            about,
            verdict: Verdict::Lost(Cause::Restored),
            source: Source::Restore,
            // Whatever can be found out by itself is: the first gateway that starts looks which way there is.
            next_check: Some(now),
            note: Some(format!("the ledger was restored to {as_of}")),
        })
    };
    match &operation.state {
        State::Pending(pending) => vec![seen(About::Attempt(pending.attempt.number)), seen(About::EveryUncertain)],
        State::Proposed(_)
        | State::Approved(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => vec![seen(About::EveryUncertain)],
    }
}

/// What an opening does instead of what it was to do, where a restore is open and its identity may be older: a call without an
/// identity of its caller's may repeat one that is forgotten, however young the id is that we made for it.
pub(crate) fn instead(epoch: Option<&Epoch>, operation: &Operation, at: Timestamp) -> Option<Vec<Event>> {
    let epoch = epoch?;
    if operation.terms.suspicion.is_none() && epoch.is_survived_by(&operation.key.id, at) {
        return None;
    }
    Some(forgetting(operation, epoch.as_of, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn minted(at: Timestamp) -> OperationId {
        let milliseconds = at.as_micros() / 1_000;
        let (high, low) = (milliseconds >> 16, milliseconds & 0xffff);
        OperationId::parse(&format!("{high:08x}-{low:04x}-7cc3-98c4-dc0c0c07398f")).unwrap()
    }

    #[test]
    fn a_ledger_that_lost_a_beat_is_behind_and_one_more_restore_is_not() {
        let kept = HighWater { restores: 1, beats: 10, at: at(100) };
        assert!(!kept.is_behind(&kept));
        assert!(HighWater { beats: 9, ..kept }.is_behind(&kept));
        assert!(
            HighWater { beats: 9, at: at(900), ..kept }.is_behind(&kept),
            "others have beaten it since, at later times"
        );
        assert!(HighWater { at: at(99), ..kept }.is_behind(&kept));
        assert!(HighWater { restores: 0, beats: 900, at: at(900) }.is_behind(&kept));
        assert!(!HighWater { restores: 2, beats: 1, at: at(1) }.is_behind(&kept));
    }

    #[test]
    fn only_an_id_that_is_younger_than_the_restore_by_every_clock_survives_it() {
        let epoch = Epoch { as_of: at(1_000), restored_at: at(5_000) };
        let now = at(6_000);
        assert!(epoch.is_survived_by(&minted(at(5_301)), now));
        assert!(!epoch.is_survived_by(&minted(at(5_299)), now), "a fast clock may have minted it before");
        assert!(
            !epoch.is_survived_by(&minted(at(2_000)), now),
            "it was minted after the backup, and sent before the restore"
        );
        assert!(!epoch.is_survived_by(&minted(at(6_301)), now), "from a future that no clock is in");
        assert!(!epoch.is_survived_by(&OperationId::parse("order-17").unwrap(), now));
    }
}
