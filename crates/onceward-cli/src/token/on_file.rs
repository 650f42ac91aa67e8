//! Credentials on the ledger's own file, under the instance lock: only while no gateway runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use onceward_core::key::{Principal, TenantId};
use onceward_gateway::auth::{self, Role};
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::ToolPattern;
use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::credential::Credential;
use onceward_ledger::store::Store as _;
use onceward_sqlite::{InstanceLock, Locked, Options, SqliteStore};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// The tenant of a ledger's first token, when nobody names one.
const FIRST_TENANT: &str = "default";

/// A ledger that nobody else may use meanwhile.
struct Held {
    store: SqliteStore,
    clock: Arc<dyn Clock>,
    _lock: InstanceLock,
}

fn open(path: &Path) -> Result<Held, Failure> {
    let lock = InstanceLock::acquire(path).map_err(|error| match &error {
        Locked::Held { .. } => Failure::new(Exit::Refused, error.to_string())
            .not("Nothing was changed.")
            .next("Ask the gateway that runs instead: leave --ledger out, and give --url and an operator's token."),
        Locked::File { .. } => Failure::new(Exit::Failed, error.to_string()).not("Nothing was changed."),
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = SqliteStore::open(path, Options::new(Arc::clone(&clock)))
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    Ok(Held { store, clock, _lock: lock })
}

impl Held {
    /// The tenant that is named; else the one that the ledger knows, so that a newcomer's token is for the tenant that
    /// `serve` made the first ones for.
    async fn tenant(&self, named: Option<&str>) -> Result<TenantId, Failure> {
        if let Some(named) = named {
            return TenantId::parse(named).map_err(|error| usage("--tenant", &error));
        }
        let known = self.store.credentials().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let tenants: BTreeSet<&TenantId> = known.iter().map(|credential| credential.grant.tenant()).collect();
        match tenants.iter().collect::<Vec<_>>().as_slice() {
            [] => TenantId::parse(FIRST_TENANT).map_err(|error| usage("--tenant", &error)),
            [only] => Ok(TenantId::clone(only)),
            several => {
                let names = several.iter().map(|tenant| tenant.as_str()).collect::<Vec<_>>().join(", ");
                Err(Failure::new(Exit::Usage, format!("this ledger has several tenants: {names}"))
                    .not("Nothing was changed.")
                    .next("Name one with --tenant."))
            }
        }
    }
}

/// A ledger that must be there: a look, or a revocation, at a misspelt path would otherwise make a new one.
fn open_existing(path: &Path) -> Result<Held, Failure> {
    if !path.exists() {
        return Err(Failure::new(Exit::Usage, format!("there is no ledger {}", path.display()))
            .not("Nothing was changed.")
            .next("Check the path; the quickstart's ledger is onceward.db in the folder it was started in."));
    }
    open(path)
}

pub(super) async fn create(
    path: &Path,
    tenant: Option<&str>,
    principal: &str,
    role: Role,
    tools: &[String],
) -> Result<Value, Failure> {
    let principal = Principal::parse(principal).map_err(|error| usage("--principal", &error))?;
    let patterns = tools
        .iter()
        .map(|text| ToolPattern::parse(text).map_err(|error| usage("--tools", &error)))
        .collect::<Result<Vec<_>, _>>()?;
    let held = open(path)?;
    let tenant = held.tenant(tenant).await?;
    let grant = auth::grant_of(role, tenant, principal, patterns).map_err(|error| usage("--role", &error))?;
    let issued = auth::issue(&held.store, &*held.clock, grant)
        .await
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()).not("No token was made."))?;
    let mut made = view(&issued.credential);
    made["token"] = issued.reveal().into();
    Ok(made)
}

pub(super) async fn list(path: &Path, tenant: Option<&str>) -> Result<Value, Failure> {
    let held = open_existing(path)?;
    let tenant = held.tenant(tenant).await?;
    let known = held.store.credentials().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let own: Vec<Value> = known.iter().filter(|credential| *credential.grant.tenant() == tenant).map(view).collect();
    Ok(json!({ "credentials": own }))
}

pub(super) async fn revoke(path: &Path, tenant: Option<&str>, id: &str) -> Result<(), Failure> {
    let held = open_existing(path)?;
    let tenant = held.tenant(tenant).await?;
    auth::revoke(&held.store, &tenant, id).await.map_err(|error| match error {
        LedgerError::NotFound => {
            Failure::new(Exit::Refused, format!("tenant {tenant} has no credential {id:?}")).next("`list` shows them.")
        }
        other => Failure::new(Exit::Failed, other.to_string()),
    })
}

/// The same fields as the gateway's answer.
fn view(credential: &Credential) -> Value {
    json!({
        "id": credential.id,
        "principal": credential.grant.principal(),
        "scopes": credential.grant.scopes(),
        "tools": credential.grant.tools(),
        "created_at": credential.created_at.to_string(),
        "revoked_at": credential.revoked_at.map(|at| at.to_string()),
    })
}

fn usage(flag: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{flag}: {error}"))
}
