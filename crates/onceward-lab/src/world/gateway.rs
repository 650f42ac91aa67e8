//! A gateway in a process of its own, asked by callers and by operators.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::caller::{Caller, bearer};
use super::configuration::Configuration;
use super::home::Home;
use crate::http::{Ask, Http};
use crate::process::{self, Server};

/// A running `onceward serve`.
#[derive(Debug)]
pub(crate) struct GatewayProcess {
    server: Server,
    files: Files,
    http: Http,
}

/// A gateway that was ended; its files are still there.
#[derive(Debug)]
pub(crate) struct StoppedGateway {
    files: Files,
    http: Http,
}

/// Where a gateway keeps what it has, and who may make credentials there.
#[derive(Clone, Debug)]
struct Files {
    binary: PathBuf,
    configuration: PathBuf,
    ledger: Home,
    log: PathBuf,
    /// A tenant and the token of its first operator.
    roots: Vec<(&'static str, String)>,
}

/// The tenants that scenarios have.
const TENANTS: [&str; 2] = ["acme", "globex"];

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Calls tools.
    Agent,
    /// Looks, decides, approves, purges.
    Operator,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }
}

impl GatewayProcess {
    /// Writes the configuration into the folder and starts a gateway with it on a free port.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start(
        binary: &Path,
        folder: &Path,
        configuration: &Configuration,
        http: &Http,
    ) -> Result<Self> {
        Self::start_on(binary, folder, Home::file(folder), configuration, http).await
    }

    /// The same with a ledger that lies there.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start_on(
        binary: &Path,
        folder: &Path,
        ledger: Home,
        configuration: &Configuration,
        http: &Http,
    ) -> Result<Self> {
        let file = folder.join("onceward.toml");
        std::fs::write(&file, configuration.to_toml(&ledger))?;
        let mut roots = Vec::new();
        for tenant in TENANTS {
            roots.push((tenant, first_operator(binary, &file, tenant).await?));
        }
        let log = folder.join("gateway.log");
        let files = Files { binary: binary.to_owned(), configuration: file, ledger, log, roots };
        StoppedGateway { files, http: http.clone() }.start().await
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Where its ledger lies.
    #[must_use]
    pub(crate) const fn ledger(&self) -> &Home {
        &self.files.ledger
    }

    /// A new agent's caller.
    ///
    /// # Errors
    /// When no token can be made.
    pub(crate) async fn agent(&self, tenant: &str, principal: &str) -> Result<Caller> {
        self.caller(tenant, principal, Role::Agent).await
    }

    /// A new operator's caller.
    ///
    /// # Errors
    /// When no token can be made.
    pub(crate) async fn operator(&self, tenant: &str, principal: &str) -> Result<Caller> {
        self.caller(tenant, principal, Role::Operator).await
    }

    /// The same caller, at this gateway: after a restart it listens elsewhere.
    #[must_use]
    pub(crate) fn again(&self, caller: &Caller) -> Caller {
        caller.at(self.url())
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) async fn kill(self) -> Result<StoppedGateway> {
        self.server.kill().await?;
        Ok(StoppedGateway { files: self.files, http: self.http })
    }

    async fn caller(&self, tenant: &str, principal: &str, role: Role) -> Result<Caller> {
        let root = self.files.roots.iter().find(|(name, _)| *name == tenant).context("no such tenant")?;
        let body = json!({ "principal": principal, "role": role.name(), "tools": ["*"] });
        let ask = Ask::post(format!("{}/v1/credentials", self.url()), &body).header("Authorization", &bearer(&root.1));
        let made = self.http.send(ask).await?.succeeded("making a credential")?;
        let token = made.text("/token").to_owned();
        Ok(Caller::new(self.http.clone(), self.url(), token))
    }
}

/// Makes the first operator of a tenant, in the ledger of a gateway that does not run yet.
async fn first_operator(binary: &Path, configuration: &Path, tenant: &str) -> Result<String> {
    let fixed =
        ["token", "create", "--tenant", tenant, "--principal", "root", "--role", "operator", "--json", "--config"];
    let arguments: Vec<&std::ffi::OsStr> =
        fixed.iter().map(std::ffi::OsStr::new).chain([configuration.as_os_str()]).collect();
    let printed = process::run(binary, &arguments).await.context("the first token could not be made")?;
    let made: Value = serde_json::from_str(&printed).context("`token create --json` printed no JSON")?;
    Ok(made["token"].as_str().context("no token in what was printed")?.to_owned())
}

impl StoppedGateway {
    /// Writes another configuration for its next start.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn configured(self, configuration: &Configuration) -> Result<Self> {
        std::fs::write(&self.files.configuration, configuration.to_toml(&self.files.ledger))?;
        Ok(self)
    }

    /// Starts it again on its files, on another free port.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start(self) -> Result<GatewayProcess> {
        let arguments = ["serve".as_ref(), "--config".as_ref(), self.files.configuration.as_os_str()];
        let server = Server::start(&self.files.binary, &arguments, &self.files.log).await?;
        Ok(GatewayProcess { server, files: self.files, http: self.http })
    }
}
