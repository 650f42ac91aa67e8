//! The engine of Onceward: claims, execution, settlement, recovery. The only maker of claims.
//!
//! It decides nothing about duplicates itself: [`onceward_core::decide`] and [`onceward_core::step`] do, inside the
//! transaction of the [`store`].

pub mod application;
pub mod approvals;
pub mod authorize;
mod beside;
pub mod call;
mod claim;
pub mod clock;
pub mod credential;
pub mod decisions;
pub mod destination;
pub mod directory;
mod drive;
pub mod error;
pub mod evidence;
mod execute;
pub mod explain;
mod governor;
pub mod inbox;
mod late;
pub mod ledger;
pub mod limits;
pub mod local;
pub mod lookup;
pub mod mark;
pub mod metrics;
pub mod observe;
pub mod operations;
pub mod outbox;
mod pins;
mod places;
mod prospect;
pub mod reconcile;
pub mod record;
pub mod recover;
pub mod restore;
mod running;
pub mod runtime;
mod settle;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod transact;
pub mod waiting;

pub use error::LedgerError;
pub use ledger::{Intervals, Ledger, Settings};
