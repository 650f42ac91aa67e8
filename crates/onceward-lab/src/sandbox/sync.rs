//! Locking without a second failure.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere: what these locks guard is whole between any two statements, and an auditor that
/// cannot look after a failure is of no use.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
