//! The proxy over real sockets: a client that knows only its vendor's interface, the gateway, and the sandbox as the vendor.

mod answers;
mod bodies;
mod identity;
mod passing;

use std::net::SocketAddr;

use onceward_core::contract::{Contract, built_in};
use onceward_gateway::limits::Limits;
use onceward_lab::sandbox::{Faults, Sandbox, SandboxConfig, SandboxContract};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::bench::{Answer, Bench, Client, Ground, catalog, gateway_of};

/// What Stripe's clients make things at.
const INTENTS: &str = "/v1/payment_intents";

const INTENT: &str = "amount=5000&currency=eur";

/// A gateway before a sandbox that speaks a vendor's interface, and a client that takes the one for the other.
pub(crate) struct Shop {
    pub(crate) bench: Bench,
    client: Client,
}

fn contract(id: &str) -> Contract {
    built_in().unwrap().into_iter().find(|contract| contract.id == id).expect(id)
}

impl Shop {
    /// Stripe, with keys of the application that begin with `order-`.
    async fn stripe() -> Self {
        Self::with(SandboxContract::speaking(contract("stripe.v1")), &stripe("identity = [\"order-*\"]")).await
    }

    /// Stripe, only observed.
    pub(crate) async fn observing(sandbox: SandboxContract) -> Self {
        Self::with(sandbox, &format!("observe = true\n{}", stripe(""))).await
    }

    async fn with(sandbox: SandboxContract, destinations: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(SandboxConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: folder.path().join("sandbox.db"),
            contract: sandbox,
            faults: Faults::none(),
        })
        .await
        .unwrap();
        let text = destinations.replace("SANDBOX", &format!("http://{}", sandbox.address()));
        let ground = Ground::of_run(folder.path());
        let gateway = gateway_of(ground.home.clone(), catalog(&text), Limits::default()).start().await.unwrap();
        let tokens = gateway.first_tokens.as_ref().expect("a new ledger gets tokens");
        let agent = Client::to(gateway.address, Some(tokens.agent.reveal()));
        let operator = Client::to(gateway.address, Some(tokens.operator.reveal()));
        let own = gateway.proxies.first().expect("a port of its own").1;
        let client = Client::to(own, Some(tokens.agent.reveal()));
        Self { bench: Bench { gateway, sandbox, agent, operator, folder, ground }, client }
    }

    fn token(&self) -> String {
        self.bench.gateway.first_tokens.as_ref().expect("tokens").agent.reveal().to_owned()
    }

    /// A write as Stripe's clients make it.
    fn form(&self, path: &str, key: Option<&str>, body: &str) -> RequestBuilder {
        let request = self
            .client
            .request(Method::POST, path)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("stripe-version", "2026-09-30")
            .body(body.to_owned());
        match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        }
    }

    pub(crate) async fn intent(&self, key: &str, body: &str) -> Answer {
        self.client.send(self.form(INTENTS, Some(key), body)).await
    }

    /// How many things there really are at a path of the vendor's.
    pub(crate) async fn effects(&self, path: &str) -> i64 {
        let report = self.bench.auditor().get(&format!("/admin/effects?resource={path}")).await.json();
        report["count"].as_i64().unwrap_or_else(|| panic!("{report}"))
    }

    /// The key of every write that the vendor was sent, in order.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let log = self.bench.auditor().get("/admin/requests").await.json();
        let writes = log["requests"].as_array().unwrap().iter().filter(|request| request["method"] == "POST");
        writes.map(|request| request["idempotency_key"].as_str().expect("a key").to_owned()).collect()
    }

    async fn fault(&self, path: &str, fault: &str) {
        self.bench.fault(json!({ "match": { "path": path }, "fault": fault })).await;
    }

    async fn fault_often(&self, path: &str, fault: &str) {
        self.bench.fault(json!({ "match": { "path": path, "times": 100 }, "fault": fault })).await;
    }
}

/// A configuration with Stripe at the sandbox.
fn stripe(proxy: &str) -> String {
    format!(
        "[destination.stripe]\nurl = \"SANDBOX\"\ncontract = \"stripe.v1\"\naccount = \"acct_1\"\nscope = {{ mode = \"test\" }}\n\
         listen = \"127.0.0.1:0\"\n[destination.stripe.proxy]\n{proxy}\n"
    )
}

/// What a vendor's client decides by.
#[track_caller]
fn is_stripes(answer: &Answer, status: u16, kind: &str, code: &str, retry: &str) {
    let body = answer.json();
    assert_eq!(
        (answer.status, body["error"]["type"].as_str(), body["error"]["code"].as_str()),
        (status, Some(kind), Some(code)),
        "{}",
        answer.text
    );
    assert_eq!(answer.header("stripe-should-retry"), Some(retry), "{:?}", answer.headers);
}
