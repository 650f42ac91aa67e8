//! The library in this process: an external effect whose destination answers at once, a replay, and a local effect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use onceward::authorize::{Authorized, Execute, Grant, Scope, ToolPattern};
use onceward::call::{Approval, Call, Identity};
use onceward::clock::{Clock, SystemClock};
use onceward::core::canonical::Canonical;
use onceward::core::classify::{Body, Observed};
use onceward::core::contract::{Contract, built_in};
use onceward::core::fingerprint::{Comparison, FingerprintKeys};
use onceward::core::key::{OperationId, Principal, TenantId, ToolName, ToolVersion};
use onceward::core::outbound::LedgerSecret;
use onceward::core::outcome::Outcome;
use onceward::core::receipt::{Answer, Receipt};
use onceward::core::retry::RetryPolicy;
use onceward::destination::{Destination, Dispatch};
use onceward::local::execute_local;
use onceward::runtime::TokioRuntime;
use onceward::sqlite::{Options, SqliteStore};
use onceward::store::{BoxFuture, OwnerKind, Store};
use onceward::{Intervals, Ledger, Settings};
use serde_json::json;

/// A destination that answers at once, so that what is measured is the ledger.
struct AtOnce {
    contract: Contract,
    // Kept, as an HTTP destination keeps it.
    contract_hash: String,
}

impl Destination for AtOnce {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn contract_hash(&self) -> String {
        self.contract_hash.clone()
    }

    fn scope(&self) -> &str {
        "bench"
    }

    fn send<'a>(&'a self, _dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async {
            Observed::Http {
                status: 201,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: Body::Whole(br#"{"id":"T-1001"}"#.to_vec()),
            }
        })
    }
}

/// An open ledger and what a call needs.
#[derive(Clone)]
pub(crate) struct Library {
    ledger: Ledger,
    allowed: Arc<Authorized<Execute>>,
    destination: Arc<dyn Destination>,
}

impl Library {
    /// Opens the ledger at `file`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) async fn open(file: &Path) -> Result<(Self, Arc<SqliteStore>)> {
        let store = Arc::new(SqliteStore::open(file, Options::new(Arc::new(SystemClock)))?);
        let secret = store.secret().clone();
        Ok((Self::on(store.clone(), secret).await?, store))
    }

    /// Opens the ledger in a store.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn on(store: Arc<dyn Store>, secret: LedgerSecret) -> Result<Self> {
        let ledger = Ledger::open(Settings {
            store,
            secret,
            keys: FingerprintKeys::unkeyed(),
            clock: Arc::new(SystemClock),
            runtime: Arc::new(TokioRuntime::current()),
            kind: OwnerKind::Library,
            intervals: Intervals::default(),
        })
        .await?;
        let grant = Grant::new(
            TenantId::parse("bench")?,
            Principal::parse("bench")?,
            vec![ToolPattern::parse("*")?],
            Scope::AGENT.to_vec(),
        )?;
        let allowed = Arc::new(grant.to_execute(&ToolName::parse("create_thing")?)?);
        let contract =
            built_in()?.into_iter().find(|one| one.id == "none").context("the contract `none` is built in")?;
        Ok(Self {
            ledger,
            allowed,
            destination: Arc::new(AtOnce {
                contract_hash: onceward::core::hex::encode(&contract.content_hash()),
                contract,
            }),
        })
    }

    /// A call that must be executed, or must be replayed.
    ///
    /// # Errors
    /// When its outcome is another one: a measurement of something else is none.
    pub(crate) async fn call(&self, id: &str, expected: Outcome) -> Result<()> {
        let call = call(id)?;
        let told = self.ledger.execute(&self.allowed, call, self.destination.clone(), Duration::from_secs(60)).await?;
        ensure!(told.outcome == expected, "{id}: {:?} instead of {expected:?}", told.outcome);
        Ok(())
    }

    /// A call whose effect is a row of the same file.
    ///
    /// # Errors
    /// When it was not executed.
    pub(crate) async fn local(&self, store: &SqliteStore, id: &str) -> Result<()> {
        let call = call(id)?;
        let received_at = SystemClock.now();
        let effect = Box::new(move |transaction: &onceward::sqlite::LocalTx<'_>| {
            transaction.prepare_cached("INSERT INTO thing (title) VALUES (?1)")?.execute(["bench"])?;
            let answer = Answer::json(&json!({"id": transaction.last_insert_rowid()}));
            Ok(Receipt { effect_id: None, answer, received_at })
        });
        let told = execute_local(&self.ledger, store, &self.allowed, &call, effect).await?;
        ensure!(told.outcome == Outcome::Executed, "{id}: {:?}", told.outcome);
        Ok(())
    }

    /// Fills the ledger with settled operations, many at a time.
    ///
    /// # Errors
    /// When a call fails.
    pub(crate) async fn fill(&self, count: u64) -> Result<()> {
        const CALLERS: u64 = 512;
        let tasks: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let library = self.clone();
                tokio::spawn(async move {
                    let mut number = caller;
                    while number < count {
                        library.call(&format!("filled-{}", uuid::Uuid::now_v7()), Outcome::Executed).await?;
                        number += CALLERS;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(|error| anyhow!("{error}"))??;
        }
        Ok(())
    }
}

fn call(id: &str) -> Result<Call> {
    Ok(Call {
        identity: Identity::Given(OperationId::parse(id)?),
        tool_version: ToolVersion::parse("1")?,
        comparison: Comparison::default(),
        arguments: Arc::new(Canonical::from_value(json!({
            "title": "the printer on floor three is broken",
            "customer": "c-4711",
            "priority": 2,
        }))?),
        title: Some("a thing".to_owned()),
        approval: Approval::NotNeeded,
        deadline: None,
        answer_within: Duration::from_secs(30),
        retry: RetryPolicy::default(),
        corrects: None,
        sighting: None,
        lane: None,
    })
}
