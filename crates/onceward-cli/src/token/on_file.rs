//! Credentials in the ledger itself: on its file, under the instance lock and so only while no gateway runs, or in its database.

use std::collections::BTreeSet;
use std::path::Path;

use onceward_core::key::{Principal, TenantId};
use onceward_gateway::auth::{self, Role};
use onceward_gateway::config::Config;
use onceward_gateway::home::{Bare, Home};
use onceward_gateway::serve::StartError;
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::ToolPattern;
use onceward_ledger::credential::Credential;
use onceward_sqlite::Locked;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// The tenant of a ledger's first token, when nobody names one.
const FIRST_TENANT: &str = "default";

/// Where the ledger is that credentials are made in without a gateway's help.
pub(super) enum Where<'a> {
    /// A file, by its path.
    File(&'a Path),
    /// What a configuration names: a file, or a database that gateways may be using meanwhile.
    Configured(&'a Path),
}

impl Where<'_> {
    fn home(&self) -> Result<Home, Failure> {
        match self {
            Self::File(path) => Ok(Home::File(path.to_path_buf())),
            Self::Configured(path) => config(path).map(|config| config.ledger),
        }
    }

    /// The tenant that the configuration names.
    fn tenant(&self) -> Result<Option<TenantId>, Failure> {
        match self {
            Self::File(_) => Ok(None),
            Self::Configured(path) => config(path).map(|config| config.tenant),
        }
    }

    async fn open(&self) -> Result<Held, Failure> {
        open(&self.home()?).await
    }

    /// A ledger that must be there: a look, or a revocation, at a misspelt path would otherwise make a new one.
    async fn open_existing(&self) -> Result<Held, Failure> {
        let home = self.home()?;
        match &home {
            Home::File(path) if !path.exists() => {
                Err(Failure::new(Exit::Usage, format!("there is no ledger {}", path.display()))
                    .not("Nothing was changed.")
                    .next("Check the path; the quickstart's ledger is onceward.db in the folder it was started in."))
            }
            Home::File(_) | Home::Database(_) => open(&home).await,
        }
    }
}

fn config(path: &Path) -> Result<Config, Failure> {
    Config::read(path).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::new(Exit::Failed, format!("the configuration has mistakes\n{}", lines.join("\n")))
            .not("Nothing was changed.")
    })
}

/// A ledger in hand; if it is a file, nobody else may use it meanwhile.
struct Held(Bare);

async fn open(home: &Home) -> Result<Held, Failure> {
    home.open_bare().await.map(Held).map_err(|error| {
        let failed = |exit| Failure::new(exit, error.to_string()).not("Nothing was changed.");
        match &error {
            StartError::Locked(Locked::Held { .. }) => failed(Exit::Refused)
                .next("Ask the gateway that runs instead: leave --ledger out, and give --url and an operator's token."),
            _ => failed(Exit::Failed),
        }
    })
}

impl Held {
    /// The tenant that is named, by the command or else by the configuration; else the one that the ledger knows, so that a
    /// newcomer's token is for the tenant that `serve` made the first ones for.
    async fn tenant(&self, place: &Where<'_>, named: Option<&str>) -> Result<TenantId, Failure> {
        if let Some(named) = named {
            return TenantId::parse(named).map_err(|error| usage("--tenant", &error));
        }
        if let Some(configured) = place.tenant()? {
            return Ok(configured);
        }
        let known = self.0.store.credentials().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
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

pub(super) async fn create(
    place: &Where<'_>,
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
    let held = place.open().await?;
    let tenant = held.tenant(place, tenant).await?;
    let grant = auth::grant_of(role, tenant, principal, patterns).map_err(|error| usage("--role", &error))?;
    let issued = auth::issue(&*held.0.store, &*held.0.clock, grant)
        .await
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()).not("No token was made."))?;
    let mut made = view(&issued.credential);
    made["token"] = issued.reveal().into();
    Ok(made)
}

pub(super) async fn list(place: &Where<'_>, tenant: Option<&str>) -> Result<Value, Failure> {
    let held = place.open_existing().await?;
    let tenant = held.tenant(place, tenant).await?;
    let known = held.0.store.credentials().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let own: Vec<Value> = known.iter().filter(|credential| *credential.grant.tenant() == tenant).map(view).collect();
    Ok(json!({ "credentials": own }))
}

pub(super) async fn revoke(place: &Where<'_>, tenant: Option<&str>, id: &str) -> Result<(), Failure> {
    let held = place.open_existing().await?;
    let tenant = held.tenant(place, tenant).await?;
    auth::revoke(&*held.0.store, &tenant, id).await.map_err(|error| match error {
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
