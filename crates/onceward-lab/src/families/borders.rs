//! What a redrive and a lookup must not reach: another account or region, the time past the horizon, and the effect of another
//! operation that asks for the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::family::{Family, family_named};
use crate::http::Http;
use crate::lab::until;
use crate::world::{Caller, Configuration, GatewayProcess, Home, SandboxProcess};

/// One family on a stage of its own.
struct Stage {
    family: &'static Family,
    sandbox: SandboxProcess,
    folder: tempfile::TempDir,
    contract: PathBuf,
    token: PathBuf,
    http: Http,
    binary: PathBuf,
    ledger: Home,
}

impl Stage {
    async fn new(binary: &Path, ledger: Option<&Home>, family: &str) -> Result<Self> {
        let family = family_named(family).with_context(|| format!("no family {family}"))?;
        let (folder, http) = (tempfile::tempdir()?, Http::new()?);
        let (contract, token) = (folder.path().join("contract.toml"), folder.path().join("token"));
        std::fs::write(&contract, family.contract()?)?;
        std::fs::write(&token, "sk_test_acme\n")?;
        let sandbox = SandboxProcess::start_speaking(binary, folder.path(), &http, "sandbox", &contract).await?;
        let ledger = ledger.cloned().unwrap_or_else(|| Home::file(folder.path()));
        Ok(Self { family, sandbox, folder, contract, token, http, binary: binary.to_owned(), ledger })
    }

    /// The configuration, with this text in place of another.
    fn configuration(&self, replaced: &str, by: &str) -> Result<Configuration> {
        let tables = self.family.tables(self.sandbox.url(), &self.contract, &self.token)?;
        ensure!(tables.contains(replaced), "{replaced} does not stand in {tables}");
        Ok(Configuration::of_tables(tables.replace(replaced, by)))
    }

    async fn gateway(&self) -> Result<GatewayProcess> {
        let configuration = self.configuration("", "")?;
        let ledger = self.ledger.clone();
        GatewayProcess::start_on(&self.binary, self.folder.path(), ledger, &configuration, &self.http).await
    }

    /// A call whose gateway is killed when the effect is there. The gateway is left dead.
    async fn interrupted(
        &self,
        gateway: GatewayProcess,
        agent: &Caller,
        id: &str,
    ) -> Result<crate::world::StoppedGateway> {
        let (before, _) = self.sandbox.everything().await?;
        self.sandbox.break_writes(self.family.path(), "delay_after_commit;ms=600000", 1).await?;
        let (caller, tool, operation) = (agent.clone(), self.family.slug(), id.to_owned());
        let arguments = self.family.arguments(id, 5);
        let call = tokio::spawn(async move { caller.call(&tool, &operation, &arguments).await.is_ok() });
        until("the effect at the destination", || async {
            Ok((self.sandbox.everything().await?.0 > before).then_some(()))
        })
        .await?;
        let stopped = gateway.kill().await?;
        ensure!(!call.await?, "a caller of a killed gateway was answered");
        Ok(stopped)
    }

    /// The outcome of a repetition, and how many writes it has cost at the destination.
    async fn repeat(&self, agent: &Caller, id: &str) -> Result<(String, i64)> {
        let (_, before) = self.sandbox.everything().await?;
        let reply = agent.call(&self.family.slug(), id, &self.family.arguments(id, 5)).await?;
        let (_, after) = self.sandbox.everything().await?;
        Ok((reply.text("/outcome").to_owned(), after - before))
    }
}

/// What became of one operation whose gateway came back with other words about its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    /// In another account: the outcome of a repetition, and writes that it cost.
    pub other_account: (String, i64),
    /// In another region.
    pub other_region: (String, i64),
    /// With another token of the same account.
    pub rotated_token: (String, i64),
    /// Effects in the end.
    pub effects: i64,
    /// Writes in the end: the first one, and that with the rotated token.
    pub writes: i64,
}

/// An uncertain operation, repeated in another account, in another region, and in the same account with a rotated token.
///
/// # Errors
/// When something does not start or does not come.
pub async fn scopes(binary: &Path) -> Result<Scopes> {
    scopes_on(binary, None).await
}

/// The same with a ledger that lies there, if it is said where.
pub(crate) async fn scopes_on(binary: &Path, ledger: Option<&Home>) -> Result<Scopes> {
    let stage = Stage::new(binary, ledger, "acp.checkout + account and region").await?;
    let gateway = stage.gateway().await?;
    let agent = gateway.agent("acme", "agent").await?;
    let stopped = stage.interrupted(gateway, &agent, "order-1").await?;
    let elsewhere = [("account = \"acme\"", "account = \"globex\""), ("\"region\" = \"test\"", "\"region\" = \"eu\"")];
    let mut told = Vec::new();
    let mut stopped = stopped;
    for (replaced, by) in elsewhere {
        let gateway = stopped.configured(&stage.configuration(replaced, by)?)?.start().await?;
        told.push(stage.repeat(&gateway.again(&agent), "order-1").await?);
        stopped = gateway.kill().await?;
    }
    std::fs::write(&stage.token, "sk_test_acme.rotated\n")?;
    let gateway = stopped.configured(&stage.configuration("", "")?)?.start().await?;
    // Whoever is first, the reconciler or the repetition: the same key goes out once more.
    let (_, before) = stage.sandbox.everything().await?;
    let (outcome, _) = stage.repeat(&gateway.again(&agent), "order-1").await?;
    let (effects, after) = stage.sandbox.everything().await?;
    let mut told = told.into_iter();
    Ok(Scopes {
        other_account: told.next().unwrap_or_default(),
        other_region: told.next().unwrap_or_default(),
        rotated_token: (outcome, after - before),
        effects,
        writes: after,
    })
}

/// What became of two operations whose gateway was away, one for a moment and one past the horizon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Horizons {
    /// Within the horizon less its margin: the outcome of a repetition in the end.
    pub within: String,
    /// Past it: the outcome of a repetition, and writes that it cost.
    pub past: (String, i64),
    /// Effects in the end, one for each operation; a write past the horizon would have been one more.
    pub effects: i64,
}

/// How long the contract of [`horizons`] recognises a key, the margin taken off, and a second more.
const JUST_PAST: Duration = Duration::from_secs(11);

/// Two uncertain operations: one is looked at again in time, the other one second after the horizon less its margin.
///
/// # Errors
/// When something does not start or does not come.
pub async fn horizons(binary: &Path) -> Result<Horizons> {
    let stage = Stage::new(binary, None, "acp.checkout + short horizon").await?;
    let gateway = stage.gateway().await?;
    let agent = gateway.agent("acme", "agent").await?;
    let gateway = stage.interrupted(gateway, &agent, "order-1").await?.start().await?;
    let again = gateway.again(&agent);
    let (within, _) = stage.repeat(&again, "order-1").await?;
    let began = stage.sandbox.now().await?;
    let stopped = stage.interrupted(gateway, &again, "order-2").await?;
    until("the end of the horizon", || async {
        let passed = stage.sandbox.now().await?.duration_since(began);
        Ok((passed > jiff::SignedDuration::try_from(JUST_PAST)?).then_some(()))
    })
    .await?;
    // The destination itself has forgotten the key now: to send it would be a second order.
    stage.sandbox.advance_clock(Duration::from_secs(3600)).await?;
    let gateway = stopped.start().await?;
    let past = stage.repeat(&gateway.again(&agent), "order-2").await?;
    Ok(Horizons { within, past, effects: stage.sandbox.everything().await?.0 })
}

/// What became of two operations with equal arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equals {
    /// The second one, whose request was lost: its state after two lookups that saw the effect of the first.
    pub request_lost: String,
    /// Effects until then.
    pub effects_of_both: i64,
    /// The third one, whose reply was lost: its state in the end.
    pub reply_lost: String,
    /// Whether it was settled with its own effect, and not with that of the first.
    pub own_effect: bool,
    /// Effects in the end.
    pub effects: i64,
}

/// Three operations with equal arguments at a destination that knows no keys: the first is done, the request of the second is
/// lost, the reply of the third is lost. What the lookup finds of the first settles neither.
///
/// # Errors
/// When something does not start or does not come.
pub async fn equal_arguments(binary: &Path) -> Result<Equals> {
    equal_arguments_on(binary, None).await
}

/// The same with a ledger that lies there, if it is said where.
pub(crate) async fn equal_arguments_on(binary: &Path, ledger: Option<&Home>) -> Result<Equals> {
    let stage = Stage::new(binary, ledger, "generic.lookup_only").await?;
    let gateway = stage.gateway().await?;
    let (agent, operator) = super::situation::callers(&gateway).await?;
    let (tool, path) = (stage.family.slug(), stage.family.path());
    let arguments = stage.family.arguments("the same", 5);
    let first = agent.call(&tool, "order-1", &arguments).await?.succeeded("the first order")?;
    stage.sandbox.break_writes(path, "cut_before_commit", 1).await?;
    agent.call(&tool, "order-2", &arguments).await?;
    until("two lookups", || async { Ok((operator.lookups_of("order-2").await? >= 2).then_some(())) }).await?;
    let request_lost = operator.operation_as_it_is("order-2").await?["state"].clone();
    let (effects_of_both, _) = stage.sandbox.everything().await?;
    stage.sandbox.break_writes(path, "lose_reply_after_commit", 1).await?;
    agent.call(&tool, "order-3", &arguments).await?;
    let settled = until("a lookup that finds it", || async {
        let operation = operator.operation_as_it_is("order-3").await?;
        Ok((operation["state"] != "unknown").then_some(operation))
    })
    .await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_first = first.body.pointer("/receipt/body/id").cloned().unwrap_or(json!(null));
    Ok(Equals {
        request_lost: text(&request_lost),
        effects_of_both,
        reply_lost: text(&settled["state"]),
        own_effect: settled["effect_id"].is_string() && settled["effect_id"] != of_first && !of_first.is_null(),
        effects: stage.sandbox.everything().await?.0,
    })
}
