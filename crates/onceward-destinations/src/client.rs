//! The one constructor of HTTP clients.
//!
//! A client with the library's defaults sends a POST again when it is answered 307, and again when an HTTP/2 peer refuses
//! the stream; it takes its proxy from the environment. Each of these is a second write that nobody decided on, so no
//! other place builds a client, and clippy.toml bans trying.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use onceward_ledger::clock::Clock;
use tower::{BoxError, Layer, Service};

use crate::limits::IDLE_CONNECTION;

/// What differs between clients.
#[derive(Clone)]
pub struct ClientSettings {
    /// How long connecting may take: name, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Idle connections kept per host.
    pub idle_connections: usize,
    /// A clock that runs on while the machine is suspended.
    pub clock: Arc<dyn Clock>,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client could be made: {0}; the system's list of certificate authorities may be missing or broken")]
pub struct ClientError(#[from] reqwest::Error);

/// A client that sends what it is given once: it follows no redirect, repeats nothing that was begun and uses no proxy.
///
/// One repetition is left, inside the connection pool, and is none: a request that was queued for a kept connection
/// which then turned out closed, and of which no byte was written, is handed to another connection.
///
/// # Errors
/// [`ClientError`]: the TLS settings of this machine do not load. Nothing was sent.
#[allow(clippy::disallowed_methods, reason = "this is the one place that the ban points to")]
pub fn client(settings: ClientSettings) -> Result<reqwest::Client, ClientError> {
    install_tls_provider();
    Ok(reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(settings.connect_timeout)
        .connector_layer(Awake { limit: settings.connect_timeout, clock: settings.clock })
        .pool_max_idle_per_host(settings.idle_connections)
        .pool_idle_timeout(IDLE_CONNECTION)
        .tcp_nodelay(true)
        .user_agent(concat!("onceward/", env!("CARGO_PKG_VERSION")))
        .build()?)
}

/// Makes ring the provider of cryptography in this process. Safe to call again, and when a program has chosen already.
pub fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that the program has installed its own, which stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Refuses a connection that took longer than it may by a clock that runs through suspend (R5).
///
/// The client's own timer stands still while the machine sleeps: without this a laptop that is closed while connecting
/// would send the request when it is opened again, hours after everybody has been told that it cannot be sent any more.
#[derive(Clone)]
struct Awake {
    limit: Duration,
    clock: Arc<dyn Clock>,
}

impl<S> Layer<S> for Awake {
    type Service = AwakeService<S>;

    fn layer(&self, inner: S) -> AwakeService<S> {
        AwakeService { inner, awake: self.clone() }
    }
}

#[derive(Clone)]
struct AwakeService<S> {
    inner: S,
    awake: Awake,
}

/// The machine slept while a connection was being made.
#[derive(Debug, thiserror::Error)]
#[error("connecting took {took:?} by the clock that runs through suspend, more than {limit:?}")]
struct Slept {
    took: Duration,
    limit: Duration,
}

impl<S, R> Service<R> for AwakeService<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Awake { limit, clock } = self.awake.clone();
        let began = clock.uptime();
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            let took = clock.uptime().saturating_sub(began);
            match took > limit {
                true => Err(Slept { took, limit }.into()),
                false => Ok(connection),
            }
        })
    }
}
