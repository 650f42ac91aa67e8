//! Callers of one key that are under way at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard};

use super::contract::Interleaving;
use super::sync::locked;

/// An account and a key: the same key of two accounts is two keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AccountKey {
    pub(crate) account: String,
    pub(crate) key: String,
}

/// Which keys are being executed.
#[derive(Debug, Default)]
pub(crate) struct InFlightKeys {
    keys: Mutex<HashMap<AccountKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// Held while a key is executed.
#[derive(Debug)]
pub(crate) struct Executing<'a> {
    keys: &'a InFlightKeys,
    key: AccountKey,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.held = None;
        self.keys.forget_if_free(&self.key);
    }
}

impl InFlightKeys {
    fn mutex(&self, key: &AccountKey) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(locked(&self.keys).entry(key.clone()).or_default())
    }

    /// Forgets a key that nobody holds and nobody waits for.
    fn forget_if_free(&self, key: &AccountKey) {
        let mut keys = locked(&self.keys);
        // One reference is the map's own. A waiter took its own under this lock, so nobody can be forgotten here.
        if keys.get(key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            keys.remove(key);
        }
    }

    /// Begins executing this key, unless somebody is.
    pub(crate) fn try_begin(&self, key: &AccountKey) -> Option<Executing<'_>> {
        match self.mutex(key).try_lock_owned() {
            Ok(held) => Some(Executing { keys: self, key: key.clone(), held: Some(held) }),
            Err(_) => {
                // The holder may have let go in between, and saw this caller's reference.
                self.forget_if_free(key);
                None
            }
        }
    }

    /// Begins executing this key once nobody else is.
    pub(crate) async fn begin(&self, key: &AccountKey) -> Executing<'_> {
        let held = self.mutex(key).lock_owned().await;
        Executing { keys: self, key: key.clone(), held: Some(held) }
    }
}

/// Where callers of one key meet between looking it up and acting on it.
#[derive(Debug, Default)]
pub(crate) struct Crossing {
    meetings: Mutex<HashMap<AccountKey, Meeting>>,
}

#[derive(Debug, Default)]
struct Meeting {
    arrived: usize,
    complete: Arc<Notify>,
}

impl Crossing {
    /// Returns when as many callers of this key have arrived as the interleaving wants, or its time is over.
    pub(crate) async fn meet(&self, key: &AccountKey, interleaving: Interleaving) {
        let (meeting, complete) = {
            let mut meetings = locked(&self.meetings);
            let meeting = meetings.entry(key.clone()).or_default();
            meeting.arrived += 1;
            if meeting.arrived >= interleaving.callers {
                meeting.complete.notify_waiters();
                meetings.remove(key);
                return;
            }
            // Made under the lock, so that the last caller's signal cannot fall before it.
            (Arc::clone(&meeting.complete), Arc::clone(&meeting.complete).notified_owned())
        };
        let wait = Duration::from_millis(interleaving.wait_ms_max);
        if tokio::time::timeout(wait, complete).await.is_err() {
            let mut meetings = locked(&self.meetings);
            // A meeting of the same key that began since is none of this caller's.
            if let Some(mine) = meetings.get_mut(key).filter(|mine| Arc::ptr_eq(&mine.complete, &meeting)) {
                mine.arrived -= 1;
                if mine.arrived == 0 {
                    meetings.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> AccountKey {
        AccountKey { account: "a".into(), key: "k".into() }
    }

    #[tokio::test]
    async fn a_key_is_free_again_and_forgotten_when_its_executor_is_gone() {
        let keys = InFlightKeys::default();
        let first = keys.try_begin(&key()).expect("free");
        assert!(keys.try_begin(&key()).is_none());
        drop(first);
        drop(keys.begin(&key()).await);
        assert!(locked(&keys.keys).is_empty());
    }

    #[tokio::test]
    async fn a_caller_alone_goes_on_and_two_meet() {
        let crossing = Crossing::default();
        crossing.meet(&key(), Interleaving { callers: 2, wait_ms_max: 1 }).await;
        assert!(locked(&crossing.meetings).is_empty());
        let both = Interleaving { callers: 2, wait_ms_max: 60_000 };
        let key = key();
        let meet = async { tokio::join!(crossing.meet(&key, both), crossing.meet(&key, both)) };
        tokio::time::timeout(Duration::from_secs(10), meet).await.expect("both went on");
    }
}
