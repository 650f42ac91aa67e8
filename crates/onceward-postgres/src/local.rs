//! A local effect: the caller's own rows and the receipt, in one transaction of the store's own connection (R15).
//!
//! Either the operation, its rows and its receipt are committed together, or none is: a crash at any moment leaves no operation
//! that is half done, and so none that is unknown.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use onceward_core::operation::Operation;
use onceward_core::receipt::Receipt;
use onceward_core::time::Timestamp;
use onceward_ledger::local::{Begin, LocalOutcome};
use onceward_ledger::store::{BoxFuture, Opening, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_postgres::Transaction;

use crate::batch::{self, Landmark};
use crate::caller::{BeginError, begin_on};
use crate::connect::{Address, Link};
use crate::error::{Fault, Trouble};
use crate::store::PostgresStore;
use crate::{limits, writer};

/// The caller's part of a local effect: its own statements, in this transaction. It neither commits nor rolls back; what it writes
/// after having ended the transaction by hand is not part of it, and is refused.
pub type Effect = Box<dyn for<'t> FnOnce(&'t Transaction<'t>) -> BoxFuture<'t, Result<Receipt, LocalError>> + Send>;

/// Why a local effect on PostgreSQL did not happen.
pub type LocalError = onceward_ledger::local::LocalError<tokio_postgres::Error>;

/// Why a local effect on PostgreSQL has no outcome.
pub type LocalFailure = onceward_ledger::local::LocalFailure<tokio_postgres::Error>;

/// Connections for local effects: made as they are needed, kept for the next.
pub(crate) struct Locals {
    address: Address,
    runtime: Handle,
    room: Semaphore,
    idle: Mutex<Vec<Link>>,
}

impl Locals {
    pub(crate) fn new(address: Address, runtime: Handle) -> Self {
        Self { address, runtime, room: Semaphore::new(limits::LOCALS), idle: Mutex::new(Vec::new()) }
    }

    /// Runs `effect`, unless its key exists.
    pub(crate) async fn run(
        &self,
        opening: Opening,
        effect: Effect,
        now: impl Fn() -> Timestamp,
    ) -> Result<LocalOutcome, LocalFailure> {
        let _permit = self.room().await?;
        let mut link = self.take().await.map_err(StoreError::from)?;
        match self.perform(&mut link, opening, effect, now).await {
            Ran::Clean(result) => {
                self.put_back(link);
                result
            }
            Ran::Broken(result) => result,
            Ran::Unknown { done, landmark, fault } => {
                // The connection is worth nothing any more; its transaction ends with it.
                drop(link);
                tracing::warn!(why = fault.words(), "it is not known whether a local effect was committed; asking");
                match self.resolve(&landmark).await {
                    Ok(true) => Ok(LocalOutcome::Done(done)),
                    Ok(false) => Err(StoreError::Busy.into()),
                    Err(fault) => Err(StoreError::CommitUnknown(fault.words()).into()),
                }
            }
        }
    }

    async fn perform(&self, link: &mut Link, opening: Opening, effect: Effect, now: impl Fn() -> Timestamp) -> Ran {
        link.is_in_doubt();
        let transaction = match link.client.transaction().await {
            Ok(transaction) => transaction,
            Err(error) => return Ran::Broken(Err(store(error.into()))),
        };
        // The server ends what runs on after nobody waits for it any more, so that its locks go.
        let bounds = format!(
            "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
            limits::WAIT.as_millis(),
            (limits::LOCAL_EFFECT + limits::LOCAL_GRACE).as_millis()
        );
        if let Err(error) = transaction.batch_execute(&bounds).await {
            return Ran::Broken(Err(store(error.into())));
        }
        let begun = match begin_on(&transaction, opening, now()).await {
            Ok(begun) => begun,
            Err(error) => return rolled_back(transaction, refused(error)).await,
        };
        let begun = match begun {
            Begin::Begun(begun) => begun,
            Begin::Existing(operation) => return ended(transaction, LocalOutcome::Existing(operation)).await,
            Begin::Suspected(operation) => return ended(transaction, LocalOutcome::Suspected(operation)).await,
            Begin::Refused { refusal, operation } => {
                return ended(transaction, LocalOutcome::Refused { refusal, operation }).await;
            }
            Begin::Opened(operation) => {
                // Nothing runs for it, but that it waits for approval is to stay.
                return match transaction.commit().await {
                    Ok(()) if !link.is_in_doubt() => Ran::Clean(Ok(LocalOutcome::Opened(operation))),
                    Ok(()) => Ran::Broken(Err(StoreError::CommitUnknown("the standby".to_owned()).into())),
                    Err(error) => Ran::Broken(Err(StoreError::CommitUnknown(Fault::from(error).words()).into())),
                };
            }
        };
        let receipt = match self.timed(effect, &transaction).await {
            Ok(receipt) => receipt,
            Err(failure @ LocalFailure::TookTooLong(_)) => return Ran::Broken(Err(failure)),
            Err(failure) => {
                drop(begun);
                return rolled_back(transaction, failure).await;
            }
        };
        let finished = match begun.finish(receipt, now()).await {
            Ok(finished) => finished,
            Err(error) => return rolled_back(transaction, error.into()).await,
        };
        let (done, landmark) = (finished.operation, finished.landmark);
        let late = self.after(limits::BATCH_WITHIN);
        let committed = match select(pin!(transaction.commit()), late).await {
            Either::Left((committed, _)) => committed,
            Either::Right(_) => return Ran::Unknown { done, landmark, fault: Fault::Late("the commit") },
        };
        let error = match committed {
            Ok(()) if !link.is_in_doubt() => return Ran::Clean(Ok(LocalOutcome::Done(done))),
            Ok(()) => return Ran::Unknown { done, landmark, fault: Fault::Late("the standby") },
            Err(error) => error,
        };
        let answered = error.as_db_error().is_some();
        let fault = Fault::from(error);
        match (fault.trouble(), fault) {
            (Trouble::Gone, fault) => Ran::Unknown { done, landmark, fault },
            // The server itself has refused it, so the transaction could only be rolled back: a constraint of the application's
            // that is looked at last, or somebody else was in the way.
            (Trouble::Command, Fault::Sql(error)) if answered => {
                Ran::Clean(Err(LocalFailure::Effect(LocalError::Sql(error))))
            }
            (Trouble::Contended | Trouble::Command, fault) => Ran::Broken(Err(store(fault))),
        }
    }

    async fn timed(&self, effect: Effect, transaction: &Transaction<'_>) -> Result<Receipt, LocalFailure> {
        // The call itself is inside: it may panic before there is anything to wait for.
        let running = AssertUnwindSafe(async { effect(transaction).await }).catch_unwind();
        let late = self.after(limits::LOCAL_EFFECT);
        match select(pin!(running), late).await {
            Either::Left((Ok(Ok(receipt)), _)) => Ok(receipt),
            Either::Left((Ok(Err(error)), _)) => Err(LocalFailure::Effect(error)),
            Either::Left((Err(panic), _)) => Err(LocalFailure::panicked(&*panic)),
            Either::Right(_) => Err(LocalFailure::TookTooLong(limits::LOCAL_EFFECT)),
        }
    }

    /// Whether what a landmark stands for was committed, as far as it must reach.
    pub(crate) async fn has_landed(&self, landmark: &Landmark) -> Result<bool, Fault> {
        let link = self.take().await?;
        let asked = async {
            writer::reach(&link).await?;
            batch::landed(&link, std::slice::from_ref(landmark)).await
        };
        let late = self.after(limits::BATCH_WITHIN);
        let landed = match select(pin!(asked), late).await {
            Either::Left((landed, _)) => landed?,
            Either::Right(_) => return Err(Fault::Late("the standby")),
        };
        self.put_back(link);
        Ok(landed.contains(&landmark.key))
    }

    /// Asks until it is known, or until nobody waits that long.
    async fn resolve(&self, landmark: &Landmark) -> Result<bool, Fault> {
        let asking = async {
            loop {
                match self.has_landed(landmark).await {
                    Ok(landed) => return landed,
                    Err(fault) => {
                        tracing::warn!(
                            why = fault.words(),
                            "it is still not known whether a local effect was committed"
                        );
                        self.after(limits::PAUSE.0).await;
                    }
                }
            }
        };
        let late = self.after(limits::RESOLVE_WITHIN);
        match select(pin!(asking), late).await {
            Either::Left((landed, _)) => Ok(landed),
            Either::Right(_) => Err(Fault::Late("the answer to COMMIT")),
        }
    }

    /// Ends when this time has passed. In a task of the store's own, so that its caller may be on any runtime.
    fn after(&self, time: Duration) -> Late {
        Late(self.runtime.spawn(tokio::time::sleep(time)))
    }

    async fn room(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let late = self.after(limits::WAIT);
        match select(pin!(self.room.acquire()), late).await {
            Either::Left((Ok(permit), _)) => Ok(permit),
            Either::Left((Err(_), _)) => Err(StoreError::Unavailable("the ledger is closed".to_owned())),
            Either::Right(_) => Err(StoreError::Busy),
        }
    }

    async fn take(&self) -> Result<Link, Fault> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept.filter(|link| !link.client.is_closed()) {
            Some(link) => Ok(link),
            None => self.address.link().await,
        }
    }

    fn put_back(&self, link: Link) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < limits::LOCALS {
            idle.push(link);
        }
    }
}

impl PostgresStore {
    /// Runs a local effect: `effect` changes the application's own tables in the transaction that records the operation and
    /// its receipt. Either all of it is durable when this answers, or none of it is there. A key that exists runs nothing; one
    /// that somebody is running at this moment is waited for.
    ///
    /// # Errors
    /// [`LocalFailure`]: nothing of it is left, unless it says that the commit is unknown.
    pub async fn run_local(&self, opening: Opening, effect: Effect) -> Result<LocalOutcome, LocalFailure> {
        self.locals.run(opening, effect, || self.clock.now()).await
    }

    pub(crate) async fn has_landed(&self, landmark: &Landmark) -> Result<bool, StoreError> {
        Ok(self.locals.has_landed(landmark).await?)
    }
}

/// A limit on time; it goes with whoever waits.
struct Late(JoinHandle<()>);

impl Future for Late {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A task that is gone is a runtime that is closing; the time is over all the same.
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What became of a transaction, and whether its connection can be used again.
enum Ran {
    Clean(Result<LocalOutcome, LocalFailure>),
    Broken(Result<LocalOutcome, LocalFailure>),
    Unknown { done: Operation, landmark: Landmark, fault: Fault },
}

fn store(fault: Fault) -> LocalFailure {
    LocalFailure::Store(fault.into())
}

fn refused(error: BeginError) -> LocalFailure {
    match error {
        BeginError::Store(error) => LocalFailure::Store(error),
        error @ (BeginError::NotDurable | BeginError::NoLedger) => {
            LocalFailure::Store(StoreError::Unavailable(error.to_string()))
        }
    }
}

async fn rolled_back(transaction: Transaction<'_>, failure: LocalFailure) -> Ran {
    match transaction.rollback().await {
        Ok(()) => Ran::Clean(Err(failure)),
        Err(_) => Ran::Broken(Err(failure)),
    }
}

async fn ended(transaction: Transaction<'_>, outcome: LocalOutcome) -> Ran {
    match transaction.rollback().await {
        Ok(()) => Ran::Clean(Ok(outcome)),
        Err(_) => Ran::Broken(Ok(outcome)),
    }
}
