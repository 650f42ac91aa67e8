//! The sandbox: a real HTTP destination that can be told how to misbehave.
//!
//! It holds helpdesk tickets, orders, payments, mail and report jobs in a SQLite file of its own. Its [`SandboxContract`]
//! says what a repeated key is worth; [`Faults`] and the header `Sandbox-Fault` say what goes wrong with which request; and
//! `/admin/effects` says, at once and truthfully, what has really happened. docs/sandbox.md shows it with curl.
//!
//! With [`SandboxContract::speaking`] it speaks the interface that a contract of the catalog describes, and keeps what that
//! says. The contract is the only thing it has from the core, as data: it is not part of the gateway's path and uses none of
//! its rules, because what is measured must not be written with the ruler.

mod admin;
mod clock;
mod contract;
mod create;
mod family;
mod fault;
mod http;
mod in_flight;
pub mod limits;
mod log;
mod problem;
mod queue;
mod resource;
mod server;
mod state;
mod store;
mod sync;
mod visit;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use contract::{
    Accounts, ContractError, InFlight, Interleaving, KeyConstraint, KeyHeader, OtherArguments, RepeatedKey,
    ReplayMarker, SandboxContract,
};
pub use fault::{Fault, FaultError, GatewayError};
pub use queue::{FaultMatch, FaultRule, Faults};
pub use resource::DECLINED_AMOUNT;

use queue::FaultQueue;
use state::Shared;
use store::Store;

/// What a sandbox is started with.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Where it listens: a loopback address. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Its file, created where there is none; what the file holds is served.
    pub database: PathBuf,
    /// How it treats keys, lists and accounts.
    pub contract: SandboxContract,
    /// What goes wrong from the start.
    pub faults: Faults,
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can be reached from elsewhere. Anybody who reaches a sandbox may reset it.
    #[error("the sandbox listens on loopback only, and {0} is not")]
    NotLoopback(SocketAddr),
    /// The address could not be taken.
    #[error("the sandbox cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file could not be opened, or is no sandbox's.
    #[error("the sandbox cannot use the file {path}: {reason}", path = path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// The contract has a number outside its limits.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The faults cannot be programmed: too many, or one that never fires.
    #[error("the faults cannot be programmed: {0}")]
    Faults(String),
    /// The process could not listen for its end.
    #[error("the sandbox cannot be told when to stop: {0}")]
    Signal(io::Error),
}

/// Starts sandboxes.
#[derive(Debug)]
pub struct Sandbox;

impl Sandbox {
    /// Opens the file, takes the address and serves in the background, on the runtime this is called in.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub async fn start(config: SandboxConfig) -> Result<Running, StartError> {
        if !config.listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(config.listen));
        }
        let contract = config.contract.checked()?;
        let queue = FaultQueue::default();
        queue.program(config.faults.rules.clone()).map_err(|error| StartError::Faults(error.to_string()))?;
        let store = Store::open(&config.database)
            .map_err(|error| StartError::Database { path: config.database.clone(), reason: error.to_string() })?;
        let refused = |source| StartError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let router = http::routes(Arc::new(Shared::new(store, contract, config.faults, queue)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(server::accept(listener, router, stop.clone(), tasks.clone()));
        tasks.close();
        Ok(Running { address, stop, tasks })
    }
}

/// A sandbox that serves. Dropping it stops it without waiting.
#[derive(Debug)]
#[must_use = "a sandbox that is dropped is stopped"]
pub struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and the address, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes every connection and returns when nothing is under way any more. Work that waits in a delay is dropped, as a
    /// kill would drop it; what is committed stays in the file.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Serves in the foreground until the process is interrupted (ctrl-c) or told to end. `announce` is called once, with the
/// address, when connections are accepted.
///
/// # Errors
/// See [`StartError`].
pub async fn serve(config: SandboxConfig, announce: impl FnOnce(SocketAddr)) -> Result<(), StartError> {
    let mut terminated =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(StartError::Signal)?;
    let running = Sandbox::start(config).await?;
    announce(running.address());
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(StartError::Signal)?,
        _ = terminated.recv() => {}
    }
    running.stop().await;
    Ok(())
}
