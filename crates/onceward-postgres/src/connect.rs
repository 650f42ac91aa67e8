//! Connections: made in one way, on the primary only, each with an ear for what the server says beside its answers.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Fault, OpenError};
use crate::limits;

/// How connections of one store are made.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    runtime: Handle,
}

/// One connection. Dropping it ends it, whatever is under way on it.
pub(crate) struct Link {
    pub(crate) client: Client,
    doubt: Arc<AtomicBool>,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    /// Whether the server has said, since this was last asked, that a commit may not have reached its standby: then its answer
    /// to that commit is worth nothing.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::SeqCst)
    }
}

impl Address {
    /// From a URL or a list of `key=value`. With `tls` nothing goes over a connection without it, whatever the server offers.
    pub(crate) fn parse(text: &str, tls: Option<rustls::ClientConfig>, runtime: Handle) -> Result<Self, OpenError> {
        // Who says `verify-full` asks for what is done here in any case: the authority and the name are both checked.
        let text = text.replace("sslmode=verify-full", "sslmode=require");
        let mut config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            OpenError::Address(cause.unwrap_or_else(|| "it is no PostgreSQL address".to_owned()))
        })?;
        // Claims are read and written on the primary only: a standby that lags would show a key as free.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.connect_timeout(limits::CONNECT_WITHIN);
        if config.get_application_name().is_none() {
            config.application_name("onceward");
        }
        let wrong = |what: &str| Err(OpenError::Address(what.to_owned()));
        let tls = match (config.get_ssl_mode(), tls) {
            (SslMode::Disable | SslMode::Prefer, None) => None,
            (SslMode::Prefer | SslMode::Require, Some(tls)) => {
                // Who only prefers it lets a server, or whoever stands before it, talk it out of it.
                config.ssl_mode(SslMode::Require);
                Some(MakeRustlsConnect::new(tls))
            }
            (SslMode::Disable, Some(_)) => {
                return wrong(
                    "it says sslmode=disable, and certificate authorities are given (ledger_ca); leave one of them out",
                );
            }
            (_, _) => return wrong("it asks for TLS; say which certificate authorities are trusted (ledger_ca)"),
        };
        Ok(Self { config, tls, runtime })
    }

    /// A new connection.
    pub(crate) async fn link(&self) -> Result<Link, Fault> {
        let (config, tls, runtime) = (self.config.clone(), self.tls.clone(), self.runtime.clone());
        // In a task of the store's own runtime: its sockets outlive whoever asks.
        let linking = self.runtime.spawn(async move {
            match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    Ok(Link::over(client, connection, &runtime))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    Ok(Link::over(client, connection, &runtime))
                }
            }
        });
        let within = self.runtime.spawn(tokio::time::sleep(limits::CONNECT_WITHIN + Duration::from_secs(1)));
        match futures_util::future::select(linking, within).await {
            futures_util::future::Either::Left((Ok(link), _)) => link,
            futures_util::future::Either::Left((Err(_), _)) | futures_util::future::Either::Right(_) => {
                Err(Fault::Late("connecting"))
            }
        }
    }
}

impl Link {
    fn over<S, T>(client: Client, mut connection: tokio_postgres::Connection<S, T>, runtime: &Handle) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let doubt = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&doubt);
        let driver = runtime.spawn(async move {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notice(notice))) => {
                        // The server has given up waiting for its standby: the commit is on this machine, and a fail-over may
                        // lose it. It comes as a mere warning before an answer that looks like any other.
                        if notice.message().contains("synchronous replication") {
                            heard.store(true, Ordering::SeqCst);
                        }
                        tracing::debug!(message = notice.message(), "the database says");
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a connection to the database ended");
                        break;
                    }
                    None => break,
                }
            }
        });
        Self { client, doubt, driver }
    }
}
