//! A real gateway before a real sandbox, asked over real HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onceward_cluster::Database;
use onceward_core::key::{Principal, TenantId};
use onceward_core::outbound::LedgerSecret;
use onceward_destinations::catalog::{Catalog, Environment, Surroundings};
use onceward_destinations::client::{ClientSettings, client};
use onceward_destinations::secrets::MachineSecrets;
use onceward_gateway::auth::{self, Role};
use onceward_gateway::home::{DatabaseHome, Home};
use onceward_gateway::limits::Limits;
use onceward_gateway::mark::LossyFailover;
use onceward_gateway::mcp::Reach;
use onceward_gateway::quickstart;
use onceward_gateway::serve::{Gateway, Running};
use onceward_lab::sandbox::{self, Faults, Sandbox, SandboxConfig, SandboxContract};
use onceward_ledger::Intervals;
use onceward_ledger::authorize::{Scope, ToolPattern};
use onceward_ledger::clock::SystemClock;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for what must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks at something that must happen.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The variable that moves the ledgers of these tests: `postgres` gives each a database of its own. The test command runs
/// them once with it and once without.
const LEDGER_VARIABLE: &str = "ONCEWARD_TEST_LEDGER";

/// Tools beside those of the quickstart, with policies of their own.
const MORE_TOOLS: &str = r#"
[destination.strict]
url = "SANDBOX"
contract = "none"

[destination.strict.tool.named_ticket]
without_identity = "refuse"
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.short_ticket]
schema = { type = "object", properties = { title = { type = "string", maxLength = 5 } } }
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.held_ticket]
without_identity = "hold"
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.each_ticket]
without_identity = "approve"
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.run_ticket]
without_identity = "scope"
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.approved_ticket]
approval = "required"
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"

[destination.strict.tool.found_ticket]
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"
marker = { at = "/reference" }

[destination.strict.tool.found_ticket.lookup]
path = "/tickets"
query = { marker = "{marker}" }
items = "/tickets"
recognise = [{ at = "/reference" }]
compare = [{ argument = "/title", effect = "/title" }]
effect_id = "/id"
consistency = "strong"

[destination.keyed]
url = "SANDBOX"

[destination.keyed.contract]
version = 1
key = { carriers = [{ in = "header", name = "Idempotency-Key" }] }
same_input = { behaviour = "replays_stored", saved = { 2xx = "stored", 500 = "stored" } }
in_flight = { behaviour = "rejects", statuses = [409] }
horizon = { kind = "at_least", min = "24h", clock = "first_request" }
execution = { refused_before_effect = [400, 401, 403, 404, 422], effect_atomic_with_key = true }
provenance = { confidence = "official_doc", read = "2026-11-29" }

[destination.keyed.tool.keyed_ticket]
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"
"#;

/// A gateway, the sandbox behind it, a folder for both, and two tokens of one tenant.
pub(crate) struct Bench {
    pub(crate) gateway: Running,
    pub(crate) sandbox: sandbox::Running,
    pub(crate) agent: Client,
    pub(crate) operator: Client,
    pub(crate) folder: TempDir,
    pub(crate) ground: Ground,
}

/// Where a test's ledger lies.
pub(crate) struct Ground {
    pub(crate) home: Home,
    /// Goes with the ledger.
    database: Option<Database>,
}

impl Ground {
    /// A file in this folder, or a database, as the test command says.
    pub(crate) fn of_run(folder: &Path) -> Self {
        match std::env::var(LEDGER_VARIABLE).as_deref() {
            Ok("postgres") => Self::database(),
            Ok(other) => panic!("{LEDGER_VARIABLE} is {other:?}"),
            Err(_) => Self { home: folder.join("onceward.db").into(), database: None },
        }
    }

    /// An empty database.
    pub(crate) fn database() -> Self {
        let database = Database::make().unwrap();
        let secret = LedgerSecret::from_hex(&"5e".repeat(32)).unwrap();
        let home = Home::Database(Box::new(DatabaseHome {
            address: database.url().to_owned(),
            secret,
            tls: None,
            mark: None,
            failover: LossyFailover::default(),
        }));
        Self { home, database: Some(database) }
    }

    /// How many operations the ledger has.
    pub(crate) fn operations(&self) -> i64 {
        match &self.home {
            Home::File(path) => {
                let connection = onceward_sqlite::rusqlite::Connection::open(path).unwrap();
                connection.query_row("SELECT count(*) FROM onceward_operation", (), |row| row.get(0)).unwrap()
            }
            Home::Database(_) => self.sql("SELECT count(*) FROM onceward.operation").parse().unwrap(),
        }
    }

    /// What SQL says of a ledger in a database.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.database.as_ref().expect("a database").sql(text).unwrap()
    }
}

/// Who asks: a token, or none.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// An answer, read whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Asserts status and code, or outcome, at once.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, word: &str) -> Value {
        let body = self.json();
        let found = body["code"].as_str().or(body["outcome"].as_str()).unwrap_or_default();
        assert_eq!((self.status, found), (status, word), "{}", self.text);
        body
    }
}

impl Client {
    pub(crate) fn to(address: SocketAddr, token: Option<&str>) -> Self {
        let settings = ClientSettings {
            connect_timeout: Duration::from_secs(5),
            idle_connections: 64,
            clock: Arc::new(SystemClock),
        };
        Self { http: client(settings).unwrap(), base: format!("http://{address}"), token: token.map(str::to_owned) }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// Calls a tool under an operation id.
    pub(crate) async fn call(&self, tool: &str, id: &str, arguments: Value) -> Answer {
        self.send(self.call_request(tool, id, arguments)).await
    }

    pub(crate) fn call_request(&self, tool: &str, id: &str, arguments: Value) -> RequestBuilder {
        self.request(Method::POST, &format!("/v1/tools/{tool}/calls"))
            .header("idempotency-key", id)
            .json(&json!({ "arguments": arguments }))
    }

    /// Decides on an operation as it stands; `expected` is filled in with the version that is there.
    pub(crate) async fn decide(&self, id: &str, mut decision: Value) -> Answer {
        let shown = self.get(&format!("/v1/operations/{id}")).await.json();
        decision["expected"] = shown["operation"]["version"].clone();
        self.post(&format!("/v1/operations/{id}/decisions"), decision).await
    }

    /// Looks at an operation until its state is as wanted.
    pub(crate) async fn until_state(&self, id: &str, wanted: &str) -> Value {
        until(&format!("operation {id} {wanted}"), async || {
            let shown = self.get(&format!("/v1/operations/{id}")).await;
            let body = shown.json();
            (body["operation"]["state"] == wanted).then_some(body)
        })
        .await
    }
}

/// Looks again and again until there is what is looked for.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = DEADLINE;
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(deadline, looking).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

pub(crate) fn ticket(title: &str) -> Value {
    json!({ "title": title, "body": "It burns." })
}

pub(crate) fn catalog(text: &str) -> Catalog {
    let surroundings = Surroundings {
        file: "test.toml",
        base_dir: Path::new("."),
        environment: Environment::Dev,
        secrets: &MachineSecrets,
    };
    Catalog::from_toml(text, &surroundings).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

pub(crate) fn gateway_of(ledger: impl Into<Home>, catalog: Catalog, limits: Limits) -> Gateway {
    Gateway {
        ledger: ledger.into(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        tenant: Some(TenantId::parse("acme").unwrap()),
        catalog,
        limits,
        reach: Reach::default(),
        intervals: Intervals {
            beat: Duration::from_millis(50),
            silence: Duration::from_secs(1),
            sweep: Duration::from_millis(20),
        },
        metrics: onceward_gateway::metrics::Access::default(),
        notify: None,
        elicitation: onceward_gateway::mcp::Elicitation::Off,
    }
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::with_gateway(limits, |gateway| gateway).await
    }

    /// With a gateway that is set up otherwise.
    pub(crate) async fn with_gateway(limits: Limits, set_up: impl FnOnce(Gateway) -> Gateway) -> Self {
        Self::with_text("", limits, set_up).await
    }

    /// With these lines on top of the configuration of its tools.
    pub(crate) async fn with_text(head: &str, limits: Limits, set_up: impl FnOnce(Gateway) -> Gateway) -> Self {
        Self::of(head, SandboxContract::without_keys(), limits, set_up).await
    }

    /// Before a sandbox that keeps this contract.
    pub(crate) async fn with_contract(head: &str, contract: SandboxContract) -> Self {
        Self::of(head, contract, Limits::default(), |gateway| gateway).await
    }

    async fn of(
        head: &str,
        contract: SandboxContract,
        limits: Limits,
        set_up: impl FnOnce(Gateway) -> Gateway,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(SandboxConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: folder.path().join("sandbox.db"),
            contract,
            faults: Faults::none(),
        })
        .await
        .unwrap();
        let tools = Self::tools(head, &sandbox);
        let ground = Ground::of_run(folder.path());
        let gateway = set_up(gateway_of(ground.home.clone(), tools, limits)).start().await.unwrap();
        let tokens = gateway.first_tokens.as_ref().expect("a new ledger gets tokens");
        let agent = Client::to(gateway.address, Some(tokens.agent.reveal()));
        let operator = Client::to(gateway.address, Some(tokens.operator.reveal()));
        Self { gateway, sandbox, agent, operator, folder, ground }
    }

    pub(crate) fn tools(head: &str, sandbox: &sandbox::Running) -> Catalog {
        let address = format!("http://{}", sandbox.address());
        catalog(&format!("{head}\n{}{MORE_TOOLS}", quickstart::TOOLS).replace("SANDBOX", &address))
    }

    pub(crate) fn ledger(&self) -> Home {
        self.ground.home.clone()
    }

    pub(crate) fn nobody(&self) -> Client {
        Client::to(self.gateway.address, None)
    }

    /// A credential of any tenant, made as the command line makes it: with the ledger itself in hand.
    pub(crate) async fn credential(&self, tenant: &str, name: &str, role: Role, tools: &str) -> (String, Client) {
        let grant = auth::grant_of(
            role,
            TenantId::parse(tenant).unwrap(),
            Principal::parse(name).unwrap(),
            vec![ToolPattern::parse(tools).unwrap()],
        )
        .unwrap();
        assert!(!(grant.has(Scope::Execute) && grant.has(Scope::Decide)));
        let ledger = self.gateway.app().ledger();
        let issued = auth::issue(&**ledger.store(), &**ledger.clock(), grant).await.unwrap();
        (issued.credential.id.clone(), Client::to(self.gateway.address, Some(issued.reveal())))
    }

    /// The auditor of the sandbox.
    pub(crate) fn auditor(&self) -> Client {
        Client::to(self.sandbox.address(), None)
    }

    pub(crate) async fn fault(&self, rule: Value) {
        let answer = self.auditor().post("/admin/faults", json!([rule])).await;
        assert_eq!(answer.status, StatusCode::OK.as_u16(), "{}", answer.text);
    }

    /// How many tickets there really are.
    pub(crate) async fn tickets(&self) -> i64 {
        self.auditor().get("/admin/effects?resource=tickets").await.json()["count"].as_i64().unwrap()
    }

    /// How many writes reached the sandbox.
    pub(crate) async fn writes(&self) -> usize {
        let log = self.auditor().get("/admin/requests").await.json();
        log["requests"].as_array().unwrap().iter().filter(|request| request["method"] == "POST").count()
    }
}
