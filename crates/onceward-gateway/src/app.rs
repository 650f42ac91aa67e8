//! What all surfaces share, and the one way from any of them to the ledger.

use std::sync::Arc;
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::code::Code;
use onceward_core::fingerprint::Comparison;
use onceward_core::key::{OperationId, OperationKey, ToolName, ToolVersion};
use onceward_core::operation::Operation;
use onceward_core::outcome::Envelope;
use onceward_core::receipt::Answer;
use onceward_core::retry::RetryPolicy;
use onceward_destinations::catalog::Catalog;
use onceward_destinations::limits::TITLE_BYTES_MAX;
use onceward_destinations::tool::{Approval as ToolApproval, Effect, InvalidArguments, Mode, Tool, WithoutIdentity};
use onceward_ledger::application::{ClaimAnswer, ClaimTerms};
use onceward_ledger::authorize::{Authorized, Execute, Grant, Read, Scope};
use onceward_ledger::call::{Approval, Call, Identity};
use onceward_ledger::observe::{KeyInConflict, Watch};
use onceward_ledger::{Ledger, LedgerError};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::auth;
use crate::identity::{self, Claimed, Settled};
use crate::limits::Limits;
use crate::mcp::Elicitation;
use crate::metrics::Access;
use crate::problem::Problem;

/// The state behind every surface. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
    metrics: Access,
    elicitation: Elicitation,
}

struct Inner {
    ledger: Ledger,
    catalog: Catalog,
    limits: Limits,
    tasks: TaskTracker,
    places: Arc<Semaphore>,
}

/// A call of a tool, from whichever surface.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool, as the caller names it.
    pub tool: String,
    /// Who the call says it is.
    pub identity: Claimed,
    /// Its arguments; checked to be an object.
    pub arguments: Canonical,
    /// How long to wait for the result; the work itself is not bound to it.
    pub wait: Option<Duration>,
}

/// The version of a tool that no configuration defines.
const OWN_TOOL_VERSION: &str = "1";

/// A claim that an application asks for.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// The tool, as the caller names it.
    pub tool: String,
    /// Who the call says it is.
    pub identity: Claimed,
    /// Its arguments; checked to be an object.
    pub arguments: Canonical,
    /// One line for people, for a tool that the configuration does not define.
    pub title: Option<String>,
    /// On what terms.
    pub terms: ClaimTerms,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum Called {
    /// A write: how it stands, with its receipt where there is one.
    Operation(Box<Envelope>),
    /// A read passes through and leaves no record: the destination's answer, whatever its status.
    Read(Answer),
}

impl App {
    /// Over an open ledger and a checked catalog.
    #[must_use]
    pub fn new(ledger: Ledger, catalog: Catalog, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.requests_max));
        let inner = Inner { ledger, catalog, limits, tasks: TaskTracker::new(), places };
        let app = Self { inner: Arc::new(inner), metrics: Access::default(), elicitation: Elicitation::Off };
        app.name_tools();
        app
    }

    /// The same with this access to the metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Access) -> Self {
        Self { metrics, ..self }
    }

    /// The same where the person at an MCP host may be asked, or may not.
    #[must_use]
    pub fn with_elicitation(self, elicitation: Elicitation) -> Self {
        Self { elicitation, ..self }
    }

    /// Whether the person at an MCP host may be asked whether a second one is meant.
    pub(crate) const fn elicitation(&self) -> Elicitation {
        self.elicitation
    }

    /// Who may read the metrics.
    pub(crate) const fn metrics_access(&self) -> Access {
        self.metrics
    }

    /// Tells the engine which tools there are, so that metrics name them.
    pub(crate) fn name_tools(&self) {
        let tools = self.inner.catalog.tools();
        self.inner.ledger.metrics().know_tools(tools.iter().map(|tool| tool.name().clone()));
    }

    /// The engine.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// All tools.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// The limits that the configuration set.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Places for requests under way.
    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.inner.places
    }

    /// Work that outlives its request.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.inner.tasks
    }

    /// The grant that an `Authorization` header stands for, asked of the ledger anew on every call.
    ///
    /// # Errors
    /// `unauthenticated`.
    pub async fn authenticate(&self, authorization: Option<&str>) -> Result<Grant, Problem> {
        auth::authenticate(&**self.inner.ledger.store(), authorization).await
    }

    /// The tools that a grant reaches, by name.
    pub fn tools_of(&self, grant: &Grant) -> Vec<Arc<Tool>> {
        let mut tools = self.inner.catalog.tools();
        tools.retain(|tool| grant.tools().iter().any(|pattern| pattern.matches(tool.name())));
        tools
    }

    /// A tool and the permission to call it. One that is unknown and one that is not permitted are refused alike.
    ///
    /// # Errors
    /// `unknown_tool`.
    pub fn tool(&self, grant: &Grant, name: &str) -> Result<(Arc<Tool>, Authorized<Execute>), Problem> {
        let unknown = || Problem::plain(Code::UnknownTool);
        // Whoever calls nothing at all learns nothing of a tool by being told so.
        if !grant.has(Scope::Execute) {
            return Err(Problem::lacks(Scope::Execute));
        }
        let name = ToolName::parse(name).map_err(|_| unknown())?;
        let allowed = grant.to_execute(&name).map_err(|_| unknown())?;
        let tool = self.inner.catalog.tool(&name).ok_or_else(|| self.no_such_tool(&name))?;
        Ok((tool, allowed))
    }

    /// Why there is no tool of that name: there is none, or it may be one of an MCP server that could not be asked yet. Only a
    /// name that the caller may call comes here.
    fn no_such_tool(&self, name: &ToolName) -> Problem {
        match self.inner.catalog.unasked_server_of(name) {
            None => Problem::plain(Code::UnknownTool),
            Some(server) => Problem::new(
                Code::ToolsNotKnown,
                format!(
                    "the tools of the MCP server {server:?} are not known yet, and {name} may be one of them; nothing was sent. Call \
                     again with the same identity, in a while"
                ),
            ),
        }
    }

    /// Calls a tool: the one path from every surface to [`Ledger::execute`].
    ///
    /// It runs to its end whatever becomes of the future that waits for it: a caller that hangs up changes nothing (R13).
    ///
    /// # Errors
    /// [`Problem`]: this call dispatched nothing.
    pub async fn call(&self, grant: &Grant, call: ToolCall) -> Result<Called, Problem> {
        self.call_known(grant, call, |_| ()).await
    }

    /// The same, and `known` is told which operation it is before anything of it is looked up or sent.
    ///
    /// # Errors
    /// As for [`App::call`].
    pub async fn call_known(
        &self,
        grant: &Grant,
        call: ToolCall,
        known: impl FnOnce(OperationKey) + Send + 'static,
    ) -> Result<Called, Problem> {
        let (app, grant) = (self.clone(), grant.clone());
        self.detached(async move { app.call_here(&grant, call, known).await }).await?
    }

    async fn call_here(
        &self,
        grant: &Grant,
        call: ToolCall,
        known: impl FnOnce(OperationKey) + Send,
    ) -> Result<Called, Problem> {
        let ToolCall { tool, identity, arguments, wait } = call;
        let (tool, allowed) = self.tool(grant, &tool)?;
        let arguments = arguments.require_object()?;
        if tool.effect() == Effect::Read {
            tool.check(&arguments)?;
            return Ok(Called::Read(tool.read(&arguments).await?));
        }
        let wait = self.inner.limits.wait(wait);
        if tool.mode() == Mode::Observe {
            // Which operation it becomes is not known before it is sent, so that nobody hears of it on the way: the id may be another's.
            drop(known);
            let Watched { call, watch } = self.watched(&tool, &allowed, grant, arguments, identity).await?;
            let envelope = self.inner.ledger.observe(&allowed, call, watch, tool.destination(), wait).await?;
            return Ok(Called::Operation(Box::new(envelope)));
        }
        let Settled { identity, approval } = self.identify(&tool, grant, &arguments, identity).await?;
        self.check(&tool, &allowed, &identity, &arguments).await?;
        known(OperationKey { tenant: allowed.tenant().clone(), id: identity.id().clone() });
        let call = call_of(&tool, identity, approval, arguments);
        let envelope = self.inner.ledger.execute(&allowed, call, tool.destination(), wait).await?;
        Ok(Called::Operation(Box::new(envelope)))
    }

    /// Claims the next attempt of a call that the application runs itself. The policy of a tool that the configuration
    /// defines binds this entrance, too (R18); a tool that it does not define is the application's own.
    ///
    /// # Errors
    /// [`Problem`]: nothing was granted and nothing may be run.
    pub async fn claim(&self, grant: &Grant, claim: NewClaim) -> Result<ClaimAnswer, Problem> {
        let (app, grant) = (self.clone(), grant.clone());
        self.detached(async move { app.claim_here(&grant, claim).await }).await?
    }

    async fn claim_here(&self, grant: &Grant, claim: NewClaim) -> Result<ClaimAnswer, Problem> {
        let NewClaim { tool, identity, arguments, title, terms } = claim;
        let unknown = || Problem::plain(Code::UnknownTool);
        if !grant.has(Scope::Execute) {
            return Err(Problem::lacks(Scope::Execute));
        }
        let name = ToolName::parse(&tool).map_err(|_| unknown())?;
        let allowed = grant.to_execute(&name).map_err(|_| unknown())?;
        let arguments = arguments.require_object()?;
        let call = match self.inner.catalog.tool(&name) {
            Some(tool) if tool.effect() == Effect::Read => {
                return Err(Problem::invalid_request("this tool reads; a read leaves no record and needs no claim"));
            }
            Some(tool) if tool.mode() == Mode::Observe => {
                let Watched { call, watch } = self.watched(&tool, &allowed, grant, arguments, identity).await?;
                return Ok(self.inner.ledger.observe_claim(&allowed, call, terms, watch).await?);
            }
            Some(tool) => {
                let Settled { identity, approval } = self.identify(&tool, grant, &arguments, identity).await?;
                self.check(&tool, &allowed, &identity, &arguments).await?;
                call_of(&tool, identity, approval, arguments)
            }
            None if self.inner.catalog.proxy_of_tool(&name).is_some() => {
                return Err(Problem::invalid_request(
                    "the writes of this tool come through its proxy; it takes no claims",
                ));
            }
            // A policy binds this entrance, too, also while its server is down.
            None if self.inner.catalog.unasked_policy_of(&name).is_some() => return Err(self.no_such_tool(&name)),
            None if self.inner.catalog.mode() == Mode::Observe => {
                let spare = identity::mint(self.inner.ledger.clock().now())?;
                let Spared { identity, refused } = Spared::of(own_identity(identity), &spare);
                let watch = Watch { spare, in_conflict: KeyInConflict::New, refused };
                let call = own_call(identity, title, arguments)?;
                return Ok(self.inner.ledger.observe_claim(&allowed, call, terms, watch).await?);
            }
            None => own_call(own_identity(identity)?, title, arguments)?,
        };
        Ok(self.inner.ledger.claim(&allowed, call, terms).await?)
    }

    /// Settles who a call is, by what it carries and by the tool's policy.
    pub(crate) async fn identify(
        &self,
        tool: &Tool,
        grant: &Grant,
        arguments: &Canonical,
        claimed: Claimed,
    ) -> Result<Settled, Problem> {
        let policy = policy(tool);
        let given = |id| Settled { identity: Identity::Given(id), approval: policy };
        let run = match claimed {
            Claimed::Operation(id) => return Ok(given(id)),
            Claimed::Handle(id) => match self.points_at(tool, grant, &id).await? {
                PointsAt::OwnOperation => return Ok(given(id)),
                // Whoever names it means a repetition: another agent that takes over, or one that mixed up its tools. Run
                // anew, under an id of its own, it would be the second effect.
                PointsAt::AnotherOperation => return Err(anothers_handle()),
                PointsAt::Nothing => None,
            },
            Claimed::Run(run) => Some(run),
            Claimed::Nothing => None,
            Claimed::Second { id, of } => return Ok(second(tool, id, of, policy)),
            Claimed::Unusable(problem) => return Err(*problem),
        };
        let now = self.inner.ledger.clock().now();
        let settled = identity::without_identity(tool, grant, arguments, run.as_ref(), now)?;
        Ok(match policy {
            Approval::Required => Settled { approval: policy, ..settled },
            Approval::NotNeeded => settled,
        })
    }

    /// A model's handle counts only where it points at an operation of the same principal and tool (R17). One that the
    /// caller could not see is told apart from a missing one by nothing.
    async fn points_at(&self, tool: &Tool, grant: &Grant, id: &OperationId) -> Result<PointsAt, Problem> {
        let Some(operation) = self.look(grant, id).await? else { return Ok(PointsAt::Nothing) };
        let own = operation.terms.principal == *grant.principal() && operation.binding.tool == *tool.name();
        let seen = grant.to_read(&operation).is_ok() || grant.to_withdraw(&operation).is_ok();
        Ok(match (own, seen) {
            (true, _) => PointsAt::OwnOperation,
            (false, true) => PointsAt::AnotherOperation,
            (false, false) => PointsAt::Nothing,
        })
    }

    /// Checks arguments before anything is claimed. An operation that exists is compared under the definition that it was
    /// made with, so that a stricter schema does not turn a repetition into a refusal.
    pub(crate) async fn check(
        &self,
        tool: &Tool,
        allowed: &Authorized<Execute>,
        identity: &Identity,
        arguments: &Canonical,
    ) -> Result<(), Problem> {
        let Err(invalid) = tool.check(arguments) else { return Ok(()) };
        if let Identity::Given(id) = identity {
            let key = OperationKey { tenant: allowed.tenant().clone(), id: id.clone() };
            let known = self.inner.ledger.store().get(&key).await.map_err(LedgerError::Store)?;
            if known.is_some() {
                return Ok(());
            }
        }
        Err(invalid.into())
    }

    /// A call of a tool that is only observed: what would refuse it is noted, and keeps nothing from being sent. What makes no
    /// request cannot be sent, observed or not.
    async fn watched(
        &self,
        tool: &Tool,
        allowed: &Authorized<Execute>,
        grant: &Grant,
        arguments: Canonical,
        claimed: Claimed,
    ) -> Result<Watched, Problem> {
        tool.can_be_sent(&arguments).map_err(InvalidArguments::from)?;
        let spare = identity::mint(self.inner.ledger.clock().now())?;
        let settled = self.identify(tool, grant, &arguments, claimed).await;
        let approval = settled.as_ref().map_or(Approval::NotNeeded, |settled| settled.approval);
        let Spared { identity, mut refused } = Spared::of(settled.map(|settled| settled.identity), &spare);
        if let Err(problem) = self.check(tool, allowed, &identity, &arguments).await {
            refused = refused.or(Some(problem.code));
        }
        let watch = Watch { spare, in_conflict: KeyInConflict::New, refused };
        Ok(Watched { call: call_of(tool, identity, approval, arguments), watch })
    }

    /// An operation of the grant's tenant, for a check of what the caller may do with it.
    async fn look(&self, grant: &Grant, id: &OperationId) -> Result<Option<Operation>, Problem> {
        let key = OperationKey { tenant: grant.tenant().clone(), id: id.clone() };
        Ok(self.inner.ledger.store().get(&key).await.map_err(LedgerError::Store)?)
    }

    /// Permission to go on with a claim of this operation, which is part of calling its tool.
    ///
    /// # Errors
    /// `not_found` also for one that the caller may not see.
    pub async fn claimed_operation(&self, grant: &Grant, id: &OperationId) -> Result<Authorized<Execute>, Problem> {
        let missing = || Problem::plain(Code::NotFound);
        let operation = self.look(grant, id).await?.ok_or_else(missing)?;
        grant.to_withdraw(&operation).map_err(|_| missing())
    }

    /// An operation that the caller may see.
    ///
    /// # Errors
    /// `not_found` also for one that it may not see, and for a text that is no operation id.
    pub async fn find(&self, grant: &Grant, id: &str) -> Result<(Operation, Authorized<Read>), Problem> {
        let id = OperationId::parse(id).map_err(|_| Problem::plain(Code::NotFound))?;
        Ok(self.inner.ledger.find(grant, &id).await?)
    }

    /// The status of an operation, after waiting at most `wait` for one that is pending. Never writes.
    ///
    /// # Errors
    /// `not_found` also for one that the caller may not see.
    pub async fn status(&self, grant: &Grant, id: &str, wait: Duration) -> Result<Envelope, Problem> {
        let (operation, allowed) = self.find(grant, id).await?;
        Ok(self.inner.ledger.wait_for(&allowed, operation, wait.min(self.inner.limits.wait_max)).await?)
    }

    /// Runs work to its end, also when nobody waits for it any more.
    ///
    /// # Errors
    /// `internal` when it panicked; the panic is in the log.
    pub async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.inner.tasks.spawn(work.in_current_span()).await.map_err(|error| {
            tracing::error!(%error, "a task of a request ended without a result");
            Problem::plain(Code::Internal)
        })
    }
}

/// A call that is only observed.
struct Watched {
    call: Call,
    watch: Watch,
}

/// Who an observed call is: whoever it says, or, where that would be refused, the spare id.
pub(crate) struct Spared {
    pub(crate) identity: Identity,
    pub(crate) refused: Option<Code>,
}

impl Spared {
    pub(crate) fn of(identity: Result<Identity, Problem>, spare: &OperationId) -> Self {
        match identity {
            Ok(identity) => Self { identity, refused: None },
            Err(problem) => Self { identity: Identity::Given(spare.clone()), refused: Some(problem.code) },
        }
    }
}

enum PointsAt {
    OwnOperation,
    AnotherOperation,
    Nothing,
}

fn anothers_handle() -> Problem {
    Problem::new(
        Code::IdentityConflict,
        "the argument operation_id names an operation of another caller or another tool; nothing was sent. To learn what became \
         of that operation, ask for its status; for a new intention, leave the argument out",
    )
}

/// A function that only its application knows has no policy that could say what a call without identity is.
fn own_identity(claimed: Claimed) -> Result<Identity, Problem> {
    match claimed {
        Claimed::Operation(id) => Ok(Identity::Given(id)),
        Claimed::Unusable(problem) => Err(*problem),
        Claimed::Handle(_) | Claimed::Nothing | Claimed::Run(_) | Claimed::Second { .. } => Err(Problem::new(
            Code::IdentityRequired,
            "a claim of a function that the configuration does not define needs the identity of its operation: send the header \
             Idempotency-Key, or operation_id",
        )),
    }
}

/// A person's word at the host stands in for no approver: where the tool asks for approval, the second one waits for it.
fn second(tool: &Tool, id: OperationId, of: OperationId, policy: Approval) -> Settled {
    let approval = match tool.without_identity() {
        WithoutIdentity::Hold => policy,
        WithoutIdentity::Refuse | WithoutIdentity::Approve | WithoutIdentity::Scope => Approval::Required,
    };
    Settled { identity: Identity::Second { id, of, business_key: tool.business_key().to_vec() }, approval }
}

pub(crate) fn policy(tool: &Tool) -> Approval {
    match tool.approval() {
        ToolApproval::None => Approval::NotNeeded,
        ToolApproval::Required => Approval::Required,
    }
}

/// What the ledger is asked for, as the tool defines it.
pub(crate) fn call_of(tool: &Tool, identity: Identity, approval: Approval, arguments: Canonical) -> Call {
    Call {
        identity,
        tool_version: tool.version().clone(),
        comparison: tool.comparison().clone(),
        title: Some(tool.title(&arguments)),
        arguments: Arc::new(arguments),
        approval,
        deadline: tool.deadline(),
        answer_within: tool.answer_within(),
        retry: *tool.retry(),
        corrects: None,
        sighting: None,
        lane: None,
    }
}

/// What the ledger is asked for about a function that only its application knows.
fn own_call(identity: Identity, title: Option<String>, arguments: Canonical) -> Result<Call, Problem> {
    if title.as_ref().is_some_and(|title| title.len() > TITLE_BYTES_MAX) {
        return Err(Problem::invalid_request(format!("a title has at most {TITLE_BYTES_MAX} bytes")));
    }
    Ok(Call {
        identity,
        tool_version: ToolVersion::parse(OWN_TOOL_VERSION)?,
        comparison: Comparison::default(),
        title,
        arguments: Arc::new(arguments),
        approval: Approval::NotNeeded,
        deadline: None,
        answer_within: Duration::ZERO,
        retry: RetryPolicy::default(),
        corrects: None,
        sighting: None,
        lane: None,
    })
}
