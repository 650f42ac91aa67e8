//! From which level on a caller of the session era wants to hear of a server's log.
//!
//! In that era the level is set once and holds from then on. Nothing is kept of a session here, so it holds for the principal,
//! in this process; it changes what is told, and nothing that is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_ledger::authorize::Grant;

use super::limits::LEVELS_KEPT_MAX;

/// What a caller hears that never said anything: everything, as with most servers.
const UNSAID: &str = "debug";

/// The levels that callers set.
#[derive(Clone, Default)]
pub(crate) struct Levels(Arc<Mutex<HashMap<(String, String), String>>>);

impl Levels {
    /// The level from which on this caller hears.
    pub(crate) fn of(&self, grant: &Grant) -> String {
        let levels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        levels.get(&who(grant)).cloned().unwrap_or_else(|| UNSAID.to_owned())
    }

    /// Sets it. Past the bound nobody's is kept any more, and all hear everything again.
    pub(crate) fn set(&self, grant: &Grant, level: &str) {
        let mut levels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= LEVELS_KEPT_MAX {
            levels.clear();
        }
        levels.insert(who(grant), level.to_owned());
    }
}

fn who(grant: &Grant) -> (String, String) {
    (grant.tenant().to_string(), grant.principal().to_string())
}
