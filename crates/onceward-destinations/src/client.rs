//! The one constructor of HTTP clients.
//!
//! A client with the library's defaults sends a POST again when it is answered 307, and again when an HTTP/2 peer refuses
//! the stream; it takes its proxy from the environment. Each of these is a second write that nobody decided on, so no
//! other place builds a client, and clippy.toml bans trying.

use std::sync::Once;
use std::time::Duration;

use crate::limits::IDLE_CONNECTION;

/// What differs between clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// How long connecting may take: name, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Idle connections kept per host.
    pub idle_connections: usize,
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
