//! From a configuration to sockets, and back to a quiet end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::middleware::from_fn_with_state;
use onceward_core::hex;
use onceward_core::key::{InvalidName, Principal, TenantId};
use onceward_destinations::catalog::{Catalog, NameClash};
use onceward_destinations::limits::MCP_START_WITHIN;
use onceward_ledger::authorize::{GrantError, InvalidPattern, ToolPattern};
use onceward_ledger::store::{Command, Priority, Store, StoreError};
use onceward_ledger::{Intervals, Ledger, LedgerError};
use onceward_sqlite::{InstanceLock, Locked, OpenError};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::accept;
use crate::app::App;
use crate::auth::{self, IssueError, Issued, Role};
use crate::config::Config;
use crate::home::{Home, Opened};
use crate::http;
use crate::keeper::Keeper;
use crate::limits::Limits;
use crate::mark::WentBack;
use crate::mcp::{self, Elicitation, Reach};
use crate::metrics;
use crate::notify::{self, Notify};
use crate::problem::Problem;
use crate::proxy;
use crate::telemetry;

/// What a gateway is started with.
#[derive(Debug)]
pub struct Gateway {
    /// Where the ledger lies.
    pub ledger: Home,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// For whom an agent's and an operator's token are made when the ledger has none of its credentials yet.
    pub tenant: Option<TenantId>,
    /// The tools.
    pub catalog: Catalog,
    /// Limits of the surfaces.
    pub limits: Limits,
    /// Under which names the MCP front answers.
    pub reach: Reach,
    /// How often the engine's background work runs.
    pub intervals: Intervals,
    /// Who may read the metrics.
    pub metrics: metrics::Access,
    /// Where people are told that they are needed, if anywhere.
    pub notify: Option<Notify>,
    /// Whether the person at an MCP host may be asked whether a second one is meant.
    pub elicitation: Elicitation,
}

impl From<Config> for Gateway {
    fn from(config: Config) -> Self {
        let Config {
            ledger,
            listen,
            tenant,
            limits,
            hosts,
            origins,
            catalog,
            metrics,
            notify,
            elicitation,
            environment: _,
        } = config;
        let mut reach = Reach::default();
        reach.hosts.extend(hosts);
        reach.origins.extend(origins);
        let intervals = Intervals::default();
        Self { ledger, listen, tenant, catalog, limits, reach, intervals, metrics, notify, elicitation }
    }
}

/// Why a gateway did not start. Nothing is left running then, and nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another gateway uses the ledger.
    #[error(transparent)]
    Locked(#[from] Locked),
    /// The ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database of the ledger cannot be opened.
    #[error(transparent)]
    Database(#[from] onceward_postgres::OpenError),
    /// The ledger does not answer as it must.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The ledger has gone back.
    #[error(transparent)]
    WentBack(#[from] WentBack),
    /// What was written did not come back.
    #[error("a record written to the ledger did not read back the same; it is not safe to dispatch anything")]
    SelfTest,
    /// The address cannot be taken.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The first tokens could not be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The first tokens' grant is none.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A name of the first tokens is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A pattern of the first tokens is none.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    /// Tools of MCP servers have names that are taken.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NameClash(Vec<NameClash>),
    /// The process cannot be told when to stop.
    #[error("the signal to stop cannot be listened for: {0}")]
    Signal(std::io::Error),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Ledger(error.into())
    }
}

/// The first credentials of a ledger. Their tokens are shown nowhere else.
#[derive(Debug)]
pub struct FirstTokens {
    /// For agents.
    pub agent: Issued,
    /// For the operator.
    pub operator: Issued,
}

/// A gateway that serves. To end it in order, call [`Running::stop`]; dropping it ends the process's part at once, and what
/// was under way is recovered as unknown by the next start.
#[must_use = "a gateway that is dropped stops accepting"]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Tokens, where this start made them.
    pub first_tokens: Option<FirstTokens>,
    /// How many operations of earlier gateways this start recovered.
    pub recovered: usize,
    /// The proxies with a port of their own: the destination's name, and where it listens.
    pub proxies: Vec<(String, SocketAddr)>,
    app: App,
    stop: CancellationToken,
    connections: TaskTracker,
    gone_back: Arc<Mutex<Option<WentBack>>>,
    _lock: Option<InstanceLock>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Takes the ledger, recovers what earlier gateways left, and serves in the background on the current runtime.
    ///
    /// # Errors
    /// [`StartError`] names what is in the way.
    pub async fn start(self) -> Result<Running, StartError> {
        let Self { ledger: home, listen, tenant, catalog, limits, reach, intervals, metrics, notify, elicitation } =
            self;
        let opened = home.open(intervals).await?;
        let alone = opened.alone();
        let Opened { ledger, lock, mark } = opened;
        self_test(&**ledger.store()).await?;
        // Before recovery, so that what it finds is scheduled to be checked.
        ledger.reconcile(Arc::new(catalog.clone()));
        ledger.dispatch_outbox(Arc::new(catalog.clone()));
        let recovered = match alone {
            Some(alone) => ledger.recover_earlier_gateways(&alone).await?,
            // Other gateways may be at work: who is gone is found out by its silence (R12).
            None => 0,
        };
        catalog.connect(MCP_START_WITHIN).await.map_err(StartError::NameClash)?;
        let (listener, address) = bind(listen).await?;
        let mut ports = Vec::new();
        for proxy in catalog.proxies() {
            if let Some(listen) = proxy.listen() {
                ports.push((Arc::clone(proxy), bind(listen).await?));
            }
        }
        // Last of what can fail: a start that is refused shows no tokens, and would leave a ledger that makes none any more.
        let first_tokens = match tenant {
            Some(tenant) => first_tokens(&ledger, &tenant).await?,
            None => None,
        };
        let app = App::new(ledger, catalog, limits).with_metrics(metrics).with_elicitation(elicitation);
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let mut proxies = Vec::new();
        for (proxy, (listener, address)) in ports {
            proxies.push((proxy.name().to_owned(), address));
            let router = limited(proxy::listener(app.clone(), proxy), app.clone());
            tokio::spawn(accept::accept(listener, router, stop.clone(), connections.clone()));
        }
        tokio::spawn(accept::accept(listener, router(app.clone(), reach), stop.clone(), connections.clone()));
        let gone_back = Arc::default();
        if let Some(mark) = mark {
            let keeper = Keeper {
                mark,
                failover: home.failover(),
                ledger: app.ledger().clone(),
                every: intervals.beat,
                stop: stop.clone(),
                gone_back: Arc::clone(&gone_back),
            };
            tokio::spawn(keeper.run());
        }
        if let Some(notify) = notify {
            tokio::spawn(notify::run(app.clone(), notify, stop.clone()));
        }
        tracing::info!(%address, ledger = %home, recovered, "the gateway serves");
        Ok(Running { address, first_tokens, recovered, proxies, app, stop, connections, gone_back, _lock: lock })
    }
}

async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |source| StartError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// All surfaces with their limits and their log.
pub fn router(app: App, reach: Reach) -> Router {
    let surfaces = http::routes()
        .merge(proxy::routes())
        .fallback(http::nothing_here)
        .with_state(app.clone())
        .merge(mcp::router(app.clone(), reach));
    limited(surfaces, app)
}

fn limited(surfaces: Router, app: App) -> Router {
    surfaces
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), telemetry::limit))
        .layer(from_fn_with_state(app, telemetry::observe))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    tracing::error!("a handler panicked");
    axum::response::IntoResponse::into_response(Problem::plain(onceward_core::code::Code::Internal))
}

/// Writes a record and reads it back through the very store that will hold receipts, before anybody relies on it.
async fn self_test(store: &dyn Store) -> Result<(), StartError> {
    const BODY: &str = "onceward self-test v1";
    let hash = hex::encode(&Sha256::digest(BODY.as_bytes()));
    store.submit(Command::Pin { hash: hash.clone(), body: BODY.to_owned() }, Priority::Claim).await?;
    match store.pinned(&hash).await? {
        Some(body) if body == BODY => Ok(()),
        Some(_) | None => Err(StartError::SelfTest),
    }
}

/// Makes the first two credentials of a ledger that has none.
async fn first_tokens(ledger: &Ledger, tenant: &TenantId) -> Result<Option<FirstTokens>, StartError> {
    if ledger.store().credentials().await?.iter().any(|credential| credential.grant.tenant() == tenant) {
        return Ok(None);
    }
    let all = || ToolPattern::parse("*");
    let agent = auth::grant_of(Role::Agent, tenant.clone(), Principal::parse("agent")?, vec![all()?])?;
    let operator = auth::grant_of(Role::Operator, tenant.clone(), Principal::parse("operator")?, vec![all()?])?;
    let (store, clock) = (&**ledger.store(), &**ledger.clock());
    Ok(Some(FirstTokens {
        agent: auth::issue(store, clock, agent).await?,
        operator: auth::issue(store, clock, operator).await?,
    }))
}

impl Running {
    /// What the surfaces share, for use in this process.
    #[must_use]
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// One line per listener, for whoever started it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let address = self.address;
        let mut lines = vec![format!("HTTP API  http://{address}/v1"), format!("MCP       http://{address}/mcp")];
        for proxy in self.app.catalog().proxies() {
            let name = proxy.name();
            let own = self.proxies.iter().find(|(listening, _)| listening == name);
            lines.push(match own {
                Some((_, own)) => format!("Proxy     http://{own} and http://{address}/proxy/{name} for {name}"),
                None => format!("Proxy     http://{address}/proxy/{name} for {name}"),
            });
        }
        lines
    }

    /// Takes no new work, lets what is under way be answered and settled within the drain time, and ends.
    pub async fn stop(self) {
        let drain = self.app.limits().drain;
        self.stop.cancel();
        self.connections.close();
        self.app.tasks().close();
        let answered = async {
            self.connections.wait().await;
            self.app.tasks().wait().await;
        };
        if tokio::time::timeout(drain, answered).await.is_err() {
            tracing::warn!("requests were still under way when the drain time ended");
        }
        self.app.ledger().shut_down(drain).await;
        self.app.catalog().disconnect();
        tracing::info!("the gateway has stopped");
    }

    /// Serves until SIGTERM or Ctrl-C, then stops in order. A second signal ends the process as it would any other.
    ///
    /// # Errors
    /// [`StartError::Signal`], or [`StartError::WentBack`] when the ledger went back meanwhile; the gateway is stopped.
    pub async fn until_signal(self) -> Result<(), StartError> {
        use tokio::signal::unix::{SignalKind, signal};
        let waited = async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = self.stop.cancelled() => {}
            }
            Ok(())
        }
        .await;
        let gone_back = Arc::clone(&self.gone_back);
        self.stop().await;
        let gone_back = gone_back.lock().unwrap_or_else(PoisonError::into_inner).take();
        match gone_back {
            Some(why) => Err(why.into()),
            None => waited.map_err(StartError::Signal),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
