//! What all requests of one sandbox share.

use std::sync::Mutex;

use super::clock::Clock;
use super::contract::SandboxContract;
use super::in_flight::{Crossing, InFlightKeys};
use super::queue::{FaultQueue, Faults};
use super::store::{Store, StoreError};
use super::sync::locked;

/// One sandbox.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) in_flight: InFlightKeys,
    pub(crate) crossing: Crossing,
    pub(crate) faults: FaultQueue,
    contract: Mutex<SandboxContract>,
    /// What a reset returns to.
    configured: (SandboxContract, Faults),
}

impl Shared {
    /// `faults` must have been accepted by a queue before: see [`super::Sandbox::start`].
    pub(crate) fn new(store: Store, contract: SandboxContract, faults: Faults, queue: FaultQueue) -> Self {
        Self {
            store,
            clock: Clock::default(),
            in_flight: InFlightKeys::default(),
            crossing: Crossing::default(),
            faults: queue,
            contract: Mutex::new(contract.clone()),
            configured: (contract, faults),
        }
    }

    /// The contract in force now.
    pub(crate) fn contract(&self) -> SandboxContract {
        locked(&self.contract).clone()
    }

    pub(crate) fn set_contract(&self, contract: SandboxContract) {
        *locked(&self.contract) = contract;
    }

    /// As the sandbox was when it started with an empty file. What is still under way writes nothing afterwards.
    pub(crate) fn reset(&self) -> Result<(), StoreError> {
        self.store.reset()?;
        self.clock.reset();
        self.set_contract(self.configured.0.clone());
        self.faults.clear();
        // The same rules were accepted at the start, into a queue as empty as this one.
        let _ = self.faults.program(self.configured.1.rules.clone());
        Ok(())
    }
}
