//! R6, R7, R9: whether the same key may be sent again.

use serde::{Deserialize, Serialize};

use super::finished_at;
use crate::contract::{Contract, Kind, Recognised};
use crate::event::Cause;
use crate::key::{AttemptNumber, Generation};
use crate::state::{Disproved, Finding, Uncertain};
use crate::time::Timestamp;

/// Whether a repetition reaches the place where the first attempt went: the same account, mode, region, and whatever else
/// the contract names as scope. A rotated credential of the same account is the same scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeEquality {
    /// Every dimension is the same.
    Same,
    /// One is not.
    Different,
    /// One cannot be compared.
    Unprovable,
}

/// Everything that [`may_redrive`] looks at.
#[derive(Clone, Copy, Debug)]
pub struct RedriveCase<'a> {
    /// The contract that the operation was made with.
    pub pinned: &'a Contract,
    /// The contract that holds now.
    pub current: &'a Contract,
    /// Whether a repetition would reach the same place.
    pub scope: ScopeEquality,
    /// The attempts that may have had their effect.
    pub uncertain: &'a [Uncertain],
    /// The attempts that are proved to have had none: one that was sent may have started the key's horizon.
    pub disproved: &'a [Disproved],
    /// The operation's latest attempt, whatever became of it.
    pub last_attempt: AttemptNumber,
    /// The time.
    pub now: Timestamp,
}

/// The permission to send a key again. Only [`may_redrive`] makes one; a claim carries it into the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedrivePermit {
    last_attempt: AttemptNumber,
    generation: Generation,
    granted_at: Timestamp,
    valid_until: Timestamp,
    contract: String,
    contract_version: u32,
}

impl RedrivePermit {
    /// Whether it permits the attempt after `last_attempt` with that generation's key at `now`.
    ///
    /// It does not when another attempt has been made since it was granted, when the time has passed, or when the clock has
    /// gone back behind its grant.
    #[must_use]
    pub fn covers(&self, last_attempt: AttemptNumber, generation: Generation, now: Timestamp) -> bool {
        self.last_attempt == last_attempt
            && self.generation == generation
            && self.granted_at <= now
            && now < self.valid_until
    }

    /// The attempt that it follows.
    #[must_use]
    pub const fn last_attempt(&self) -> AttemptNumber {
        self.last_attempt
    }

    /// Whose key may be sent.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// When it was granted.
    #[must_use]
    pub const fn granted_at(&self) -> Timestamp {
        self.granted_at
    }

    /// When it ends. No byte may leave at or after this: a claim's `send_before` is not later.
    #[must_use]
    pub const fn valid_until(&self) -> Timestamp {
        self.valid_until
    }

    /// The contract by whose word it was granted, and that contract's version.
    #[must_use]
    pub fn contract(&self) -> (&str, u32) {
        (&self.contract, self.contract_version)
    }
}

/// Why the same key may not be sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRedrive {
    /// No attempt is uncertain; there is nothing to repeat.
    NothingUncertain,
    /// An attempt went out without a key.
    KeyNotPlaced,
    /// The contract does not say that a repetition is recognised.
    NotRecognised,
    /// Only successes are stored, and the effect is not atomic with the key: an attempt that failed may have done it (R7).
    OnlySuccessesStored,
    /// The contract says nothing about how long a key is recognised.
    HorizonUnsaid,
    /// The key may be forgotten already.
    HorizonPassed {
        /// Since when, the margin taken off.
        since: Timestamp,
    },
    /// The clock shows a time before the first attempt, so that nobody knows how much of the horizon has passed.
    ClockWentBack {
        /// When the first attempt was claimed.
        first_claimed_at: Timestamp,
    },
    /// What happens to a key that is being executed is not said, and neither is how long an execution lasts.
    InFlightUnsaid,
    /// The same, but the execution is surely over then.
    InFlight {
        /// The earliest time.
        until: Timestamp,
    },
    /// It would reach another account, mode or region.
    OtherScope,
    /// Whether it would reach the same account, mode and region cannot be proved.
    ScopeUnprovable,
    /// The uncertain attempts used different keys: no single one covers them all.
    GenerationsMixed,
    /// The contract is not known well enough: from memory, contradictory, or from nobody.
    Hearsay,
    /// The destination holds other arguments under the key.
    KeyMismatch,
    /// The destination accepted it and will do it later; a repetition would say the same.
    Accepted,
    /// The destination says that the thing exists; a repetition would say the same.
    AlreadyExists,
}

/// Whether the key of the uncertain attempts may be sent once more.
///
/// Contracts are taken together, the less favourable one in each point. Whether the operation has a disagreement, a budget, a
/// deadline or a destination whose redrives are stopped is not asked here.
///
/// # Errors
/// [`NoRedrive`] says why not. A time in it is when to ask again; every other reason is for a lookup or a person.
pub fn may_redrive(case: &RedriveCase<'_>) -> Result<RedrivePermit, NoRedrive> {
    let contract = case.pinned.narrower(case.current);
    let first = case.uncertain.first().ok_or(NoRedrive::NothingUncertain)?;
    let kind = contract.kind();
    recognised_by_word(&contract, kind, case.uncertain)?;
    match case.scope {
        ScopeEquality::Same => {}
        ScopeEquality::Different => return Err(NoRedrive::OtherScope),
        ScopeEquality::Unprovable => return Err(NoRedrive::ScopeUnprovable),
    }
    if case.uncertain.iter().any(|attempt| attempt.generation != first.generation) {
        return Err(NoRedrive::GenerationsMixed);
    }
    let valid_until = within_horizon(&contract, kind, case, first.generation)?;
    not_in_flight(&contract, kind, case)?;
    Ok(RedrivePermit {
        last_attempt: case.last_attempt,
        generation: first.generation,
        granted_at: case.now,
        valid_until,
        contract: case.current.id.clone(),
        contract_version: case.current.version,
    })
}

/// Until when the destination surely recognises the key of the uncertain attempts, whether or not it may be sent again right
/// now: the moment after which that way out is closed for good. `None` where there is no such moment, or it has passed.
#[must_use]
pub fn recognised_until(case: &RedriveCase<'_>) -> Option<Timestamp> {
    let contract = case.pinned.narrower(case.current);
    let (first, kind) = (case.uncertain.first()?, contract.kind());
    recognised_by_word(&contract, kind, case.uncertain).ok()?;
    let until = within_horizon(&contract, kind, case, first.generation).ok()?;
    (until != Timestamp::from_micros(i64::MAX)).then_some(until)
}

/// Whether the contract says that a repetition of these attempts is recognised at all.
fn recognised_by_word(contract: &Contract, kind: Kind, uncertain: &[Uncertain]) -> Result<(), NoRedrive> {
    match kind {
        Kind::L | Kind::N => return Err(NoRedrive::NotRecognised),
        // What repeats harmlessly does so without a key.
        Kind::I => {}
        Kind::K1 | Kind::K2 | Kind::K3 => {
            if uncertain.iter().any(|attempt| attempt.outbound_key.is_none()) {
                return Err(NoRedrive::KeyNotPlaced);
            }
        }
    }
    for attempt in uncertain {
        match attempt.cause {
            Cause::KeyMismatch => return Err(NoRedrive::KeyMismatch),
            Cause::Accepted { .. } => return Err(NoRedrive::Accepted),
            Cause::AlreadyExists { .. } => return Err(NoRedrive::AlreadyExists),
            // An answer that began as a success was stored as one, whatever else is stored.
            Cause::ReplyUnreadable => {}
            Cause::ReplyLost
            | Cause::ServerError
            | Cause::InFlightElsewhere
            | Cause::OwnerLost
            | Cause::SettleOverdue
            | Cause::FunctionFailed
            | Cause::AbsentOnce
            | Cause::Restored => {
                if kind == Kind::K2 {
                    if !contract.execution.effect_atomic_with_key {
                        return Err(NoRedrive::OnlySuccessesStored);
                    }
                    relied_on(contract, &["execution"])?;
                }
            }
        }
    }
    match kind {
        Kind::K1 | Kind::K2 | Kind::K3 => relied_on(contract, &["same_input", "key", "scope", "horizon", "in_flight"]),
        Kind::I => relied_on(contract, &["precondition"]),
        Kind::L | Kind::N => Ok(()),
    }
}

/// Whether what the contract says in these parts is known well enough to act on it. One that is remembered, guessed or
/// contradicted permits nothing by itself, however well the others are known.
fn relied_on(contract: &Contract, parts: &[&str]) -> Result<(), NoRedrive> {
    let known = parts.iter().all(|part| contract.confidence_in(part).permits_a_second_dispatch());
    if known { Ok(()) } else { Err(NoRedrive::Hearsay) }
}

/// When the key's horizon, less its margin, ends; counted from the first claim that used the key, because every clock that
/// the destination may use began at or after it.
fn within_horizon(
    contract: &Contract,
    kind: Kind,
    case: &RedriveCase<'_>,
    generation: Generation,
) -> Result<Timestamp, NoRedrive> {
    let earlier = case.disproved.iter().filter(|attempt| attempt.generation == generation && left(attempt.finding));
    let claims =
        case.uncertain.iter().map(|attempt| attempt.claimed_at).chain(earlier.map(|attempt| attempt.claimed_at));
    let first_claimed_at = claims.min().ok_or(NoRedrive::NothingUncertain)?;
    if case.now < first_claimed_at {
        return Err(NoRedrive::ClockWentBack { first_claimed_at });
    }
    let recognised = match kind {
        Kind::I => Recognised::Always,
        Kind::K1 | Kind::K2 | Kind::K3 | Kind::L | Kind::N => contract.horizon.recognised(),
    };
    match recognised {
        Recognised::Never => Err(NoRedrive::HorizonUnsaid),
        Recognised::Always => Ok(Timestamp::from_micros(i64::MAX)),
        Recognised::For(time) => {
            let end = first_claimed_at.plus(time);
            if case.now < end { Ok(end) } else { Err(NoRedrive::HorizonPassed { since: end }) }
        }
    }
}

/// Whether a disproved attempt may have shown the destination its key.
const fn left(finding: Finding) -> bool {
    match finding {
        Finding::NotSent(_) => false,
        Finding::NoEffect(_) | Finding::Refused => true,
    }
}

/// Whether the destination excludes that an earlier attempt and this one run side by side.
fn not_in_flight(contract: &Contract, kind: Kind, case: &RedriveCase<'_>) -> Result<(), NoRedrive> {
    // A precondition is checked when the effect happens, so that only one of two can pass it.
    if kind == Kind::I || contract.in_flight.behaviour.excludes_a_second_effect() {
        return Ok(());
    }
    let bound = contract.in_flight.bound.ok_or(NoRedrive::InFlightUnsaid)?;
    let until = case.uncertain.iter().map(|attempt| finished_at(attempt, bound.duration())).max();
    match until {
        Some(until) if case.now < until => Err(NoRedrive::InFlight { until }),
        Some(_) | None => Ok(()),
    }
}
