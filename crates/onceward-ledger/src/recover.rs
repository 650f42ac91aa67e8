//! Signs of life, and what becomes of attempts whose owner shows none (R12).
//!
//! Recovery never frees an operation to run: what may have been sent becomes `unknown`. It can observe, and has no way to a
//! claim.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use onceward_core::event::{About, Cause, NotSent, Observation, Source, Verdict};
use onceward_core::key::{AttemptNumber, OperationKey, OwnerId};
use onceward_core::operation::Operation;
use onceward_core::state::State;

use crate::authorize::Background;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::limits;
use crate::settle::Recorded;
use crate::store::{Command, OwnerKind, OwnerRow, Priority};

/// What a recoverer remembers of other owners: which counter it saw, and since when on its own clock.
#[derive(Default)]
struct Watchlist {
    seen: HashMap<OwnerId, (u64, Duration)>,
}

impl Watchlist {
    /// Owners whose counter has stood still for `silence`. Ones that are gone from the table are forgotten.
    fn silent(&mut self, owners: &[OwnerRow], now: Duration, silence: Duration) -> Vec<OwnerId> {
        self.seen.retain(|owner, _| owners.iter().any(|row| row.owner == *owner));
        owners
            .iter()
            .filter(|row| {
                let seen = self.seen.entry(row.owner.clone()).or_insert((row.beat, now));
                if seen.0 != row.beat {
                    *seen = (row.beat, now);
                }
                now.saturating_sub(seen.1) >= silence
            })
            .map(|row| row.owner.clone())
            .collect()
    }

    /// Starts the count again: while this process could not write, it could not have seen others write either.
    fn restart(&mut self) {
        self.seen.clear();
    }
}

impl Ledger {
    pub(crate) fn start_background(&self) {
        self.inner.runtime.spawn(Box::pin(beat(Arc::clone(&self.inner))));
        self.inner.runtime.spawn(Box::pin(sweep(Arc::clone(&self.inner))));
    }

    /// Recovers every attempt of every earlier gateway. Whoever holds the instance lock of the file knows that they are
    /// gone, and calls this before it serves anyone (R23).
    ///
    /// Gives how many operations became `unknown` or free to run again.
    ///
    /// # Errors
    /// [`LedgerError::Store`]; what was not recovered is found by the sweeps.
    pub async fn recover_earlier_gateways(&self, _lock: &InstanceLocked) -> Result<usize, LedgerError> {
        let proof = Background::of_engine();
        let mut recovered = 0;
        for row in self.inner.store.owners().await? {
            if row.kind == OwnerKind::Gateway && row.owner != self.inner.owner {
                recovered += self.inner.recover_owner(&proof, &row.owner).await?;
            }
        }
        Ok(recovered)
    }
}

/// What became of an attempt that was to be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Moved,
    Stays,
}

/// Proof that this process holds the instance lock of the ledger. A store makes it.
#[derive(Debug)]
pub struct InstanceLocked(());

impl InstanceLocked {
    /// To be called by the holder of the lock, and by nobody else.
    #[must_use]
    pub const fn held() -> Self {
        Self(())
    }
}

async fn beat(inner: Arc<Inner>) {
    let mut beat = 1;
    while !inner.is_stopping() || inner.dispatches.available_permits() < limits::DISPATCHES_MAX {
        inner.runtime.sleep(inner.intervals.beat).await;
        beat += 1;
        let command = Command::Beat { owner: inner.owner.clone(), kind: inner.kind, beat };
        if let Err(error) = inner.store.submit(command, Priority::Beat).await {
            tracing::warn!(%error, "a heartbeat could not be written");
        }
    }
}

async fn sweep(inner: Arc<Inner>) {
    let proof = Background::of_engine();
    let mut watchlist = Watchlist::default();
    let mut unattended = HashMap::new();
    while !inner.is_stopping() {
        inner.runtime.sleep(inner.intervals.sweep).await;
        if let Err(error) = inner.sweep_once(&proof, &mut watchlist, &mut unattended).await {
            tracing::warn!(%error, "a sweep failed");
            watchlist.restart();
        }
    }
}

impl Inner {
    async fn sweep_once(
        &self,
        proof: &Background,
        watchlist: &mut Watchlist,
        unattended: &mut HashMap<OperationKey, AttemptNumber>,
    ) -> Result<(), LedgerError> {
        if !self.store.is_healthy() {
            watchlist.restart();
            return Ok(());
        }
        for operation in self.store.overdue(self.clock.now(), limits::RECOVERY_BATCH).await? {
            self.recover_attempt(proof, &operation, Cause::SettleOverdue).await?;
        }
        self.sweep_own(proof, unattended).await?;
        let others: Vec<_> = self.store.owners().await?.into_iter().filter(|row| row.owner != self.owner).collect();
        for owner in watchlist.silent(&others, self.clock.uptime(), self.intervals.silence) {
            let recovered = self.recover_owner(proof, &owner).await?;
            tracing::warn!(%owner, recovered, "an owner is gone; its attempts are recovered");
        }
        Ok(())
    }

    /// Attempts that this process owns and nobody here runs: a task that died. Seen in two sweeps in a row, so that a claim
    /// that was made between the read and the look is not taken for one.
    async fn sweep_own(
        &self,
        proof: &Background,
        unattended: &mut HashMap<OperationKey, AttemptNumber>,
    ) -> Result<(), LedgerError> {
        let mut still = HashMap::new();
        for operation in self.store.held_by(&self.owner, limits::RECOVERY_BATCH).await? {
            let State::Pending(pending) = &operation.state else { continue };
            if self.running.contains(&operation.key) {
                continue;
            }
            let number = pending.attempt.number;
            if unattended.get(&operation.key) == Some(&number) {
                self.recover_attempt(proof, &operation, Cause::OwnerLost).await?;
            } else {
                still.insert(operation.key.clone(), number);
            }
        }
        *unattended = still;
        Ok(())
    }

    async fn recover_owner(&self, proof: &Background, owner: &OwnerId) -> Result<usize, LedgerError> {
        let mut recovered = 0;
        loop {
            let held = self.store.held_by(owner, limits::RECOVERY_BATCH).await?;
            if held.is_empty() {
                break;
            }
            let mut moved = 0;
            for operation in &held {
                if self.recover_attempt(proof, operation, Cause::OwnerLost).await? == Recovery::Moved {
                    moved += 1;
                }
            }
            recovered += moved;
            // Whatever refuses to be recovered is looked at again in the next sweep, and holds up nobody until then.
            if moved == 0 {
                return Ok(recovered);
            }
        }
        self.store.submit(Command::ForgetOwner(owner.clone()), Priority::Beat).await?;
        Ok(recovered)
    }

    /// Reads an attempt without an owner as what it is: never begun, if its mark was never made; else possibly sent.
    async fn recover_attempt(
        &self,
        _proof: &Background,
        operation: &Operation,
        cause: Cause,
    ) -> Result<Recovery, LedgerError> {
        let State::Pending(pending) = &operation.state else { return Ok(Recovery::Stays) };
        let attempt = &pending.attempt;
        let verdict = match attempt.begun_at {
            None => Verdict::NotSent(NotSent::NeverBegun),
            Some(_) => Verdict::Lost(cause),
        };
        let mut seen = Observation {
            about: About::Attempt(attempt.number),
            verdict,
            source: Source::Recovery { owner: attempt.owner.clone() },
            next_check: None,
            note: None,
        };
        seen.next_check = self.check_after(operation, &seen, None).await?;
        fail::fail_point!("recover::before");
        match self.record(&operation.key, &format!("recovery:{}", self.owner), seen).await? {
            Recorded::Done(_) => Ok(Recovery::Moved),
            // Two recoverers saw the same: the second changes nothing and does nothing.
            Recorded::Refused(_, _) => Ok(Recovery::Stays),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: &str, beat: u64) -> OwnerRow {
        OwnerRow { owner: OwnerId::parse(owner).unwrap(), kind: OwnerKind::Library, beat }
    }

    const SILENCE: Duration = Duration::from_secs(15);

    #[test]
    fn an_owner_is_silent_only_when_its_counter_stood_still_on_our_own_clock() {
        let mut watchlist = Watchlist::default();
        let at = |seconds: u64| Duration::from_secs(1_000 + seconds);
        assert!(watchlist.silent(&[row("a", 7)], at(0), SILENCE).is_empty());
        assert!(watchlist.silent(&[row("a", 7)], at(14), SILENCE).is_empty());
        assert!(watchlist.silent(&[row("a", 8)], at(16), SILENCE).is_empty(), "it beat once more");
        assert!(watchlist.silent(&[row("a", 8)], at(30), SILENCE).is_empty());
        assert_eq!(watchlist.silent(&[row("a", 8)], at(31), SILENCE).len(), 1);
    }

    #[test]
    fn whoever_could_not_write_starts_counting_again() {
        let mut watchlist = Watchlist::default();
        let at = |seconds: u64| Duration::from_secs(1_000 + seconds);
        assert!(watchlist.silent(&[row("a", 7)], at(0), SILENCE).is_empty());
        watchlist.restart();
        assert!(watchlist.silent(&[row("a", 7)], at(60), SILENCE).is_empty());
    }
}
