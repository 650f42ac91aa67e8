//! Attempts that this process is running, and the callers that wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_core::key::OperationKey;
use onceward_core::operation::Operation;
use tokio::sync::watch;

/// The running set. Callers of one key join the attempt that is under way instead of making one (R13).
#[derive(Default)]
pub(crate) struct Running {
    by_key: Arc<Mutex<HashMap<OperationKey, watch::Receiver<Option<Operation>>>>>,
}

/// A place in the running set; leaving it wakes everybody who waits.
pub(crate) struct Seat {
    key: OperationKey,
    result: watch::Sender<Option<Operation>>,
    by_key: Arc<Mutex<HashMap<OperationKey, watch::Receiver<Option<Operation>>>>>,
}

/// What a caller finds in the running set.
pub(crate) enum Entered {
    /// Nobody here runs it: the caller may, and sits in the set from before its claim until after its settlement.
    Seated(Seat),
    /// It is being run here.
    Joined(watch::Receiver<Option<Operation>>),
}

impl Running {
    pub(crate) fn enter(&self, key: &OperationKey) -> Entered {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        match by_key.get(key) {
            Some(running) => Entered::Joined(running.clone()),
            None => {
                let (result, waiting) = watch::channel(None);
                by_key.insert(key.clone(), waiting);
                Entered::Seated(Seat { key: key.clone(), result, by_key: Arc::clone(&self.by_key) })
            }
        }
    }

    pub(crate) fn joined(&self, key: &OperationKey) -> Option<watch::Receiver<Option<Operation>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn contains(&self, key: &OperationKey) -> bool {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }
}

impl Seat {
    /// Leaves the set with what became of the operation.
    pub(crate) fn leave(self, operation: Operation) {
        // One step: whoever is woken by the value finds the seat empty, and whoever finds it empty finds the row settled.
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        self.result.send_replace(Some(operation));
        by_key.remove(&self.key);
    }

    /// Waits for what this seat's run comes to.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Operation>> {
        self.result.subscribe()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        // After `leave` the place may be another's already.
        if by_key.get(&self.key).is_some_and(|seated| seated.same_channel(&self.result.subscribe())) {
            by_key.remove(&self.key);
        }
    }
}
