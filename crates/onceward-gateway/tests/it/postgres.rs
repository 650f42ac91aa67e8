//! Several gateways on one database. That one gateway on a database does what one on a file does is shown by all the other tests:
//! the test command runs them a second time with `ONCEWARD_TEST_LEDGER=postgres`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures_util::future::join_all;
use onceward_gateway::limits::Limits;
use onceward_gateway::serve::{Running, StartError};
use onceward_lab::sandbox::{self, Faults, Sandbox, SandboxConfig, SandboxContract};
use serde_json::json;
use tempfile::TempDir;

use crate::bench::{Bench, Client, Ground, gateway_of, ticket, until};

/// A sandbox, an empty database, and no gateway yet.
struct Site {
    ground: Ground,
    sandbox: sandbox::Running,
    _folder: TempDir,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = SandboxConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: folder.path().join("sandbox.db"),
            contract: SandboxContract::without_keys(),
            faults: Faults::none(),
        };
        Self { ground: Ground::database(), sandbox: Sandbox::start(config).await.unwrap(), _folder: folder }
    }

    async fn try_gateway(&self) -> Result<Running, StartError> {
        gateway_of(self.ground.home.clone(), Bench::tools("", &self.sandbox), Limits::default()).start().await
    }

    async fn gateway(&self) -> Running {
        self.try_gateway().await.unwrap()
    }

    /// Gateways, and the token of an agent of all of them.
    async fn gateways(&self, count: usize) -> (Vec<Running>, String) {
        let first = self.gateway().await;
        let token = first.first_tokens.as_ref().expect("a new ledger gets tokens").agent.reveal().to_owned();
        let mut all = vec![first];
        for _ in 1..count {
            all.push(self.gateway().await);
        }
        assert!(all.iter().skip(1).all(|gateway| gateway.first_tokens.is_none()), "tokens are made once");
        (all, token)
    }

    fn auditor(&self) -> Client {
        Client::to(self.sandbox.address(), None)
    }

    async fn audit(&self) -> (i64, i64) {
        let audit = self.auditor().get("/admin/effects?resource=tickets").await.json();
        (audit["count"].as_i64().unwrap(), audit["requests"].as_i64().unwrap())
    }

    async fn fault(&self, fault: &str) {
        let rule = json!([{ "match": { "path": "/tickets" }, "fault": fault }]);
        assert_eq!(self.auditor().post("/admin/faults", rule).await.status, 200);
    }
}

#[tokio::test]
async fn callers_at_any_gateway_join_the_attempt_that_runs_at_another() {
    let site = Site::new().await;
    let (gateways, token) = site.gateways(3).await;
    let callers: Vec<Client> = gateways.iter().map(|gateway| Client::to(gateway.address, Some(&token))).collect();
    site.fault("delay_after_commit;ms=1500").await;
    let first = tokio::spawn({
        let caller = callers[0].clone();
        async move { caller.call("create_ticket", "t-1", ticket("Printer")).await }
    });
    until("the attempt", async || (site.audit().await == (1, 1)).then_some(())).await;
    // One who does not want to wait is told at once that it runs, by a gateway that has never heard of it before.
    let request = callers[1].call_request("create_ticket", "t-1", ticket("Printer")).header("prefer", "wait=0");
    callers[1].send(request).await.is(409, "in_progress");
    // The others wait for the attempt of the first and get its receipt.
    let joined =
        join_all(callers[1..].iter().map(|caller| caller.call("create_ticket", "t-1", ticket("Printer")))).await;
    let first = first.await.unwrap().is(200, "executed");
    for told in joined {
        assert_eq!(told.is(200, "replayed")["receipt"], first["receipt"]);
    }
    for caller in &callers {
        caller.call("create_ticket", "t-1", ticket("Scanner")).await.is(422, "conflict");
    }
    assert_eq!(site.audit().await, (1, 1));
}

#[tokio::test]
async fn a_crowd_at_four_gateways_has_one_effect_and_one_receipt_for_each_key() {
    const KEYS: usize = 10;
    let site = Site::new().await;
    let (gateways, token) = site.gateways(4).await;
    let crowd = gateways.iter().flat_map(|gateway| {
        let caller = Client::to(gateway.address, Some(&token));
        (0..8).map(move |_| caller.clone())
    });
    let told = join_all(crowd.enumerate().map(|(place, caller)| async move {
        let mut receipts = Vec::new();
        for step in 0..KEYS {
            let key = (place + step) % KEYS;
            let told = caller.call("create_ticket", &format!("t-{key}"), ticket("Printer")).await;
            assert_eq!(told.status, 200, "{}", told.text);
            receipts.push((key, told.json()["receipt"]["body"]["id"].as_str().unwrap().to_owned()));
        }
        receipts
    }))
    .await;
    let pairs: BTreeSet<(usize, String)> = told.into_iter().flatten().collect();
    assert_eq!(pairs.len(), KEYS, "a key with two receipts: {pairs:?}");
    assert_eq!(site.audit().await, (10, 10));
}

/// As a deployment starts them: all at once, on a database that nobody has prepared.
#[tokio::test]
async fn gateways_that_start_together_on_an_empty_database_make_one_ledger() {
    let site = Site::new().await;
    let gateways = join_all((0..4).map(|_| site.gateway())).await;
    let mut ledgers = BTreeSet::new();
    for gateway in &gateways {
        ledgers.insert(Client::to(gateway.address, None).get("/readyz").await.json()["ledger"]["id"].to_string());
    }
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    assert_eq!(site.ground.sql("SELECT count(*) FROM onceward.schema WHERE version = 1"), "1");
    let tokens = gateways.iter().find_map(|gateway| gateway.first_tokens.as_ref()).expect("somebody made tokens");
    for gateway in &gateways {
        let agent = Client::to(gateway.address, Some(tokens.agent.reveal()));
        assert_eq!(agent.call("create_ticket", "t-1", ticket("Printer")).await.status, 200);
    }
    assert_eq!(site.audit().await, (1, 1));
}

/// In the middle of a rolling upgrade: the first gateway of the next version has brought the schema further.
#[tokio::test]
async fn a_gateway_goes_on_when_the_schema_moves_past_it_and_one_of_its_version_does_not_start_any_more() {
    let site = Site::new().await;
    let (gateways, token) = site.gateways(1).await;
    let newer =
        "INSERT INTO onceward.schema SELECT max(version) + 1, decode(repeat('00', 32), 'hex'), 0 FROM onceward.schema";
    site.ground.sql(newer);
    let agent = Client::to(gateways[0].address, Some(&token));
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "executed");
    let refused = site.try_gateway().await.unwrap_err();
    assert!(matches!(refused, StartError::Database(onceward_postgres::OpenError::NewerSchema { .. })), "{refused}");
    agent.call("create_ticket", "t-1", ticket("Printer")).await.is(200, "replayed");
}
