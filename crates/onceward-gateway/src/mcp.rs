//! The MCP front: one server for every client, old or new, over HTTP or a pipe.
//!
//! Read docs/mcp.md for what a client sees. In here: [`gate`] lets HTTP requests in and reads bodies strictly, [`pipe`] does the
//! same for stdio; [`service`] has the protocol's methods; [`identity`] finds the operation that a call names; [`answer`] is the
//! only place that knows how an envelope becomes a tool result.
//!
//! Deliberately absent: sessions (a call carries all it is), a tool by which a model could settle, decide, approve or erase,
//! and types of the protocol library anywhere outside this module.

mod answer;
mod elicit;
mod exchange;
mod gate;
mod identity;
mod levels;
mod limits;
mod listen;
mod listing;
mod pipe;
mod questions;
mod raw;
mod service;
mod stream;
mod strict;
mod through;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use onceward_ledger::authorize::Grant;
use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::elicit::Elicitation;
use self::gate::Gate;
use self::pipe::{Peer, Pipe};
use self::service::{Caller, Front};
use crate::app::App;

/// Under which names the front answers over HTTP. A browser on this machine can be made to send requests to it under a
/// foreign name, so nothing is answered that is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Hosts, with or without a port, that `Host` may name.
    pub hosts: Vec<String>,
    /// Origins that a browser may send from; a request without `Origin` comes from no browser and passes.
    pub origins: Vec<String>,
}

impl Default for Reach {
    /// This machine only.
    fn default() -> Self {
        Self {
            hosts: ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec(),
            origins: ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).to_vec(),
        }
    }
}

/// The front over HTTP, at `/mcp`: Streamable HTTP, every request with a bearer credential.
pub fn router(app: App, reach: Reach) -> Router {
    Router::new().route("/mcp", any(gate::handle)).with_state(Gate::new(app, reach))
}

/// The front over this process's standard input and output, for one caller, until the input ends.
///
/// # Errors
/// When the client breaks the protocol before it is let in, or the pipe breaks.
pub async fn stdio(app: App, grant: Grant) -> anyhow::Result<()> {
    let (input, output) = rmcp::transport::stdio();
    serve_pipe(app, grant, input, output).await
}

/// The front over any two ends of a pipe.
///
/// # Errors
/// As for [`stdio`].
pub async fn serve_pipe(
    app: App,
    grant: Grant,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<()> {
    let grant = Arc::new(grant);
    let front = Front::new(app, Caller::Fixed(Arc::clone(&grant)));
    let peer = Peer::new(grant, front.clone());
    let running = front.serve(Pipe::open(input, output, peer)).await?;
    running.waiting().await?;
    Ok(())
}
