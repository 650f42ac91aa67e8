//! The forward proxy: what a vendor's own client finds in the place of its vendor.
//!
//! A read passes through. A write becomes an operation and goes the same way to the ledger as every other call; its answer is
//! the stored one, byte for byte, or one of ours in the vendor's own shape ([`answer`]). The client's token travels where the
//! vendor's credential would, and never leaves.

pub mod answer;

mod credential;
mod identity;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use onceward_core::code::Code;
use onceward_core::outcome::Envelope;
use onceward_destinations::proxy::{Incoming, NotRead, Proxy};
use onceward_destinations::tool::{Approval as ToolApproval, Mode};
use onceward_ledger::authorize::{Authorized, Execute, Grant};
use onceward_ledger::call::{Approval, Call};
use onceward_ledger::observe::{KeyInConflict, Watch};

use self::answer::Shape;
use self::identity::Identified;
use crate::app::{App, Spared};
use crate::http::read_body;
use crate::identity::mint;
use crate::limits;
use crate::problem::Problem;

/// What the path of every proxy begins with on the gateway's own port.
const PREFIX: &str = "/proxy/";

/// The proxies under the gateway's own port, each below the name of its destination.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/proxy/{destination}", any(below_a_name))
        .route("/proxy/{destination}/", any(below_a_name))
        .route("/proxy/{destination}/{*target}", any(below_a_name))
}

/// A port of its own: every path on it is one of the destination's.
pub(crate) fn listener(app: App, proxy: Arc<Proxy>) -> Router {
    Router::new()
        .fallback(move |State(app): State<App>, request: Request| {
            let proxy = Arc::clone(&proxy);
            async move {
                let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
                answered(&app, &proxy, target, request).await
            }
        })
        .with_state(app)
}

/// The target is cut from the address as it was written: decoded and encoded again it could be another.
async fn below_a_name(State(app): State<App>, request: Request) -> Response {
    let whole = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let rest = whole.strip_prefix(PREFIX).unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (name, target) = rest.split_at(end);
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    match app.catalog().proxy(name).map(Arc::clone) {
        Some(proxy) => answered(&app, &proxy, target, request).await,
        None => {
            // Whoever is unknown learns no names of destinations.
            let problem = match app.authenticate(credential::bearer(request.headers(), None).as_deref()).await {
                Ok(_) => Problem::plain(Code::NotFound),
                Err(problem) => problem,
            };
            axum::response::IntoResponse::into_response(problem)
        }
    }
}

async fn answered(app: &App, proxy: &Arc<Proxy>, target: String, request: Request) -> Response {
    let shape = Shape::of(proxy.contract());
    match exchange(app, proxy, target, request).await {
        Ok(Exchanged::Read(answer)) => answer::passed(answer),
        Ok(Exchanged::Write(envelope)) if envelope.observed.is_some() => answer::forwarded(&envelope),
        Ok(Exchanged::Write(envelope)) => shape.told(&envelope),
        Err(problem) => shape.refused(&problem),
    }
}

/// What became of a request.
enum Exchanged {
    Read(onceward_core::receipt::Answer),
    Write(Box<Envelope>),
}

async fn exchange(app: &App, proxy: &Arc<Proxy>, target: String, request: Request) -> Result<Exchanged, Problem> {
    let token = credential::bearer(request.headers(), proxy.credential_header());
    let grant = app.authenticate(token.as_deref()).await?;
    let allowed = permission(proxy, &grant)?;
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let body = read_body(request, app.limits().body_bytes_max).await?;
    let incoming = Incoming { method, target, headers, body };
    if proxy.reads(&incoming.method, &incoming.target) {
        return proxy.read(&incoming).await.map(Exchanged::Read).map_err(|not_read| match not_read {
            NotRead::NotTaken(refused) => refused.into(),
            NotRead::Read(error) => error.into(),
        });
    }
    let envelope = app.call_through(grant, allowed, Arc::clone(proxy), incoming).await?;
    Ok(Exchanged::Write(Box::new(envelope)))
}

/// Whether this caller may use the proxy. A destination that serves one tenant does not exist for another.
fn permission(proxy: &Proxy, grant: &Grant) -> Result<Authorized<Execute>, Problem> {
    let foreign = proxy.tenant().is_some_and(|tenant| tenant != grant.tenant());
    match grant.to_execute(proxy.tool()) {
        Ok(allowed) if !foreign => Ok(allowed),
        Ok(_) | Err(_) => Err(Problem::plain(Code::UnknownTool)),
    }
}

impl App {
    /// Carries out a write of a vendor's client: the sibling of [`App::call`] for requests that are kept as they came. It runs to
    /// its end whatever becomes of the client (R13).
    ///
    /// # Errors
    /// [`Problem`]: this call dispatched nothing.
    pub(crate) async fn call_through(
        &self,
        grant: Grant,
        allowed: Authorized<Execute>,
        proxy: Arc<Proxy>,
        incoming: Incoming,
    ) -> Result<Envelope, Problem> {
        let app = self.clone();
        self.detached(async move { app.call_through_here(&grant, &allowed, &proxy, &incoming).await }).await?
    }

    async fn call_through_here(
        &self,
        grant: &Grant,
        allowed: &Authorized<Execute>,
        proxy: &Proxy,
        incoming: &Incoming,
    ) -> Result<Envelope, Problem> {
        let taken = proxy.take(incoming)?;
        proxy.check(&taken.arguments).map_err(|why| Problem::invalid_request(why.to_string()))?;
        let now = self.ledger().clock().now();
        let identified = identity::of(proxy, grant, &incoming.headers, &taken, now);
        let approval = match (proxy.approval(), &identified) {
            (ToolApproval::Required, _) => Approval::Required,
            (ToolApproval::None, Ok(identified)) => identified.approval,
            (ToolApproval::None, Err(_)) => Approval::NotNeeded,
        };
        let identity = identified.map(|Identified { identity, .. }| identity);
        let (identity, watch) = match proxy.mode() {
            Mode::Enforce => (identity?, None),
            Mode::Observe => {
                let spare = mint(now)?;
                let Spared { identity, refused } = Spared::of(identity, &spare);
                (identity, Some(Watch { spare, in_conflict: KeyInConflict::Same, refused }))
            }
        };
        let call = Call {
            identity,
            tool_version: proxy.version().clone(),
            comparison: proxy.comparison().clone(),
            title: Some(proxy.title(&taken)),
            arguments: Arc::new(taken.arguments),
            approval,
            deadline: proxy.deadline(),
            answer_within: proxy.answer_within(),
            retry: *proxy.retry(),
            corrects: None,
            sighting: None,
            lane: None,
        };
        Ok(match watch {
            None => self.ledger().execute(allowed, call, proxy.destination(), self.limits().wait(None)).await?,
            // As long as the destination may take: without us its client would wait for it, too.
            Some(watch) => {
                let wait = proxy.answer_within() + limits::FORWARD_GRACE;
                self.ledger().observe(allowed, call, watch, proxy.destination(), wait).await?
            }
        })
    }
}
