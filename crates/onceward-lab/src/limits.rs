//! Every maximum of the lab and the demo, its unit, and why it is there.

use std::time::Duration;

/// How long a process may take until it listens. A debug build on a busy machine needs a few seconds to open its files.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(30);

/// How long one request of a caller may take: longer than the gateway waits for a result before it says how things stand.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(60);

/// How long a scenario waits for a state that must come: on a database a killed gateway is missed after 15 s of silence, and
/// a busy machine takes some more.
pub(crate) const SETTLE_WITHIN: Duration = Duration::from_secs(40);

/// Between two looks at a state that must come.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How long one scenario may take. A broken rule that makes it wait forever is a failure with a name.
pub(crate) const SCENARIO_WITHIN: Duration = Duration::from_secs(120);

/// Bytes of a process's log that a failure shows: its last lines, where the reason stands.
pub(crate) const LOG_BYTES_SHOWN: usize = 2_000;

const _: () = assert!(SETTLE_WITHIN.as_secs() < SCENARIO_WITHIN.as_secs());
const _: () = assert!(START_WITHIN.as_secs() < SCENARIO_WITHIN.as_secs());
