//! A stage for the engine: a real SQLite ledger in a temporary folder, and a destination that does what its script says and
//! counts what happened.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::authorize::{Authorized, Execute, Grant, Scope, ToolPattern};
use onceward::call::{Approval, Call, Identity};
use onceward::clock::{Clock, SystemClock};
use onceward::core::canonical::Canonical;
use onceward::core::classify::{Body, NoAnswer, Observed};
use onceward::core::contract::Contract;
use onceward::core::event::NotSent;
use onceward::core::fingerprint::{Comparison, FingerprintKeys};
use onceward::core::key::{OperationId, Principal, TenantId, ToolName, ToolVersion};
use onceward::core::operation::Operation;
use onceward::core::retry::RetryPolicy;
use onceward::core::time::Timestamp;
use onceward::decisions::{Choice, Decision, Evidence, Reason};
use onceward::destination::{Destination, Dispatch};
use onceward::runtime::TokioRuntime;
use onceward::sqlite::{Options, SqliteStore};
use onceward::store::{BoxFuture, Expects, OwnerKind};
use onceward::{Intervals, Ledger, LedgerError, Settings};
use serde_json::json;
use tokio::sync::Notify;

/// What the destination does with the next request.
#[derive(Clone)]
pub(crate) enum Act {
    /// Has the effect, and the reply is lost.
    DoneReplyLost,
    /// Nobody listens.
    NoConnection,
    /// Refuses before any effect.
    Refuse,
    /// Has the effect with this id, and answers only when it is released.
    DoneWhenReleased(&'static str, Arc<Notify>),
    /// Has the effect, and the task that waits for it dies.
    DonePanics,
    /// Has the effect, and says nothing for as long as anybody waits.
    DoneSilent,
    /// Answers in these words.
    Says(Says),
}

/// An answer in a destination's own words, and whether the effect is there.
#[derive(Clone)]
pub(crate) struct Says {
    pub(crate) world: World,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Body,
}

/// Whether the destination had the effect before it answered.
#[derive(Clone, Copy)]
pub(crate) enum World {
    Changed,
    Unchanged,
}

impl Act {
    /// Answers with a status and JSON.
    pub(crate) fn says(world: World, status: u16, body: &serde_json::Value) -> Self {
        let headers = vec![("content-type", "application/json")];
        Self::Says(Says { world, status, headers, body: Body::Whole(body.to_string().into_bytes()) })
    }
}

/// A destination that follows its script; past the end of it, it has the effect and answers `T-<n>`.
pub(crate) struct Scripted {
    contract: Contract,
    script: Mutex<VecDeque<Act>>,
    effects: AtomicU32,
    requests: AtomicU32,
    keys: Mutex<Vec<String>>,
}

impl Scripted {
    pub(crate) fn new(contract: &str, script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        let contract = onceward::core::contract::built_in()
            .unwrap()
            .into_iter()
            .find(|one| one.id == contract)
            .unwrap_or_else(|| panic!("no built-in contract {contract}"));
        Self::with(contract, script)
    }

    /// Promises nothing, and names its effects.
    pub(crate) fn naming_effects(script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        let text = include_str!("../../../../contracts/none.toml");
        let named = format!("{text}\n[effect]\nid = {{ body = \"/id\" }}\n");
        Self::with(Contract::parse(&named).unwrap(), script)
    }

    /// Promises what `none` does and these lines.
    pub(crate) fn promising(lines: &str, script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        let text = format!("id = \"of.this.test\"\nversion = 1\n{lines}\n");
        Self::with(Contract::parse(&text).unwrap_or_else(|error| panic!("{error}")), script)
    }

    fn with(contract: Contract, script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self {
            contract,
            script: Mutex::new(script.into_iter().collect()),
            effects: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            keys: Mutex::default(),
        })
    }

    pub(crate) fn effects(&self) -> u32 {
        self.effects.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    fn effect(&self) -> u32 {
        self.effects.fetch_add(1, Ordering::SeqCst) + 1
    }

    async fn act(&self, dispatch: Dispatch) -> Observed {
        let act = self.script.lock().unwrap().pop_front();
        if matches!(act, Some(Act::NoConnection)) {
            return Observed::NotSent(NotSent::NoConnection);
        }
        if dispatch.time_to_send().is_none() {
            return Observed::NotSent(NotSent::TooLate);
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.keys.lock().unwrap().push(dispatch.outbound_key().map(ToString::to_string).unwrap_or_default());
        match act {
            None => answered(201, &json!({"id": format!("T-{}", self.effect())})),
            Some(Act::DoneReplyLost) => {
                self.effect();
                Observed::NoAnswer(NoAnswer::Eof)
            }
            Some(Act::Refuse) => answered(400, &json!({"error": "no such customer"})),
            Some(Act::DoneWhenReleased(id, released)) => {
                self.effect();
                released.notified().await;
                answered(201, &json!({"id": id}))
            }
            Some(Act::DonePanics) => {
                self.effect();
                panic!("the destination's client died")
            }
            Some(Act::DoneSilent) => {
                self.effect();
                // sleeps: that somebody waits for nothing is what is tested
                tokio::time::sleep(dispatch.answer_within()).await;
                Observed::NoAnswer(NoAnswer::TimedOut)
            }
            Some(Act::Says(Says { world, status, headers, body })) => {
                match world {
                    World::Changed => {
                        self.effect();
                    }
                    World::Unchanged => {}
                }
                let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
                Observed::Http { status, headers, body }
            }
            Some(Act::NoConnection) => Observed::NotSent(NotSent::NoConnection),
        }
    }
}

impl Destination for Scripted {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "account"
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(self.act(dispatch))
    }
}

fn answered(status: u16, body: &serde_json::Value) -> Observed {
    Observed::Http {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Body::Whole(body.to_string().into_bytes()),
    }
}

/// A ledger file that several engines may be opened on.
pub(crate) struct Stage {
    folder: PathBuf,
    // Goes with the stage, where the stage made it.
    _own: Option<tempfile::TempDir>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        Self { folder: own.path().to_owned(), _own: Some(own) }
    }

    /// In a folder that outlives it.
    pub(crate) fn at(folder: &std::path::Path) -> Self {
        Self { folder: folder.to_owned(), _own: None }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("ledger.db")
    }

    pub(crate) fn store(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(self.file(), Options::new(Arc::new(SystemClock))).unwrap())
    }

    /// An engine with short intervals.
    pub(crate) async fn ledger(&self) -> Ledger {
        self.ledger_with(Intervals {
            beat: Duration::from_millis(20),
            silence: Duration::from_secs(600),
            sweep: Duration::from_millis(20),
        })
        .await
    }

    /// An engine that beats once and then seems dead to [`Self::undertaker`].
    pub(crate) async fn silent_ledger(&self) -> Ledger {
        let never = Duration::from_secs(3_600);
        self.ledger_with(Intervals { beat: never, silence: never, sweep: never }).await
    }

    /// An engine that takes an owner for dead after a tenth of a second.
    pub(crate) async fn undertaker(&self) -> Ledger {
        self.ledger_with(Intervals {
            beat: Duration::from_millis(20),
            silence: Duration::from_millis(100),
            sweep: Duration::from_millis(20),
        })
        .await
    }

    pub(crate) async fn ledger_with(&self, intervals: Intervals) -> Ledger {
        Ledger::open(Self::settings(self.store(), intervals)).await.unwrap()
    }

    /// An engine that lives at another time.
    pub(crate) async fn ledger_at(&self, clock: Shifted) -> Ledger {
        let store = Arc::new(SqliteStore::open(self.file(), Options::new(Arc::new(clock))).unwrap());
        let intervals = Intervals {
            beat: Duration::from_millis(20),
            silence: Duration::from_millis(200),
            sweep: Duration::from_millis(20),
        };
        let settings = Self::settings(store, intervals);
        Ledger::open(Settings { clock: Arc::new(clock), ..settings }).await.unwrap()
    }

    /// What a library process opens an engine with.
    pub(crate) fn settings(store: Arc<SqliteStore>, intervals: Intervals) -> Settings {
        let secret = store.secret().clone();
        Settings {
            store,
            secret,
            keys: FingerprintKeys::unkeyed(),
            clock: Arc::new(SystemClock),
            runtime: Arc::new(TokioRuntime::current()),
            kind: OwnerKind::Library,
            intervals,
        }
    }
}

/// The machine's clock with its wall moved; what runs through suspend stays as it is.
#[derive(Clone, Copy)]
pub(crate) enum Shifted {
    Ahead(Duration),
    Behind(Duration),
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        match self {
            Self::Ahead(by) => now.plus(*by),
            Self::Behind(by) => now.minus(*by),
        }
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}

pub(crate) fn agent() -> Grant {
    grant("acme", "agent", &Scope::AGENT)
}

pub(crate) fn operator() -> Grant {
    grant("acme", "olga", &Scope::OPERATOR)
}

pub(crate) fn grant(tenant: &str, principal: &str, scopes: &[Scope]) -> Grant {
    Grant::new(
        TenantId::parse(tenant).unwrap(),
        Principal::parse(principal).unwrap(),
        vec![ToolPattern::parse("*").unwrap()],
        scopes.to_vec(),
    )
    .unwrap()
}

pub(crate) fn allowed() -> Authorized<Execute> {
    agent().to_execute(&tool()).unwrap()
}

pub(crate) fn tool() -> ToolName {
    ToolName::parse("create_ticket").unwrap()
}

/// A person's decision on the operation as it stands.
pub(crate) async fn decide(
    ledger: &Ledger,
    by: &Grant,
    operation: &str,
    choice: Choice,
    reason: Reason,
) -> Result<Operation, LedgerError> {
    let evidence = Evidence::new(reason, Some("looked it up in the helpdesk"), None).unwrap();
    let decision = Decision::new(&id(operation), choice, evidence, ledger.clock().now()).unwrap();
    ledger.decide(by, &id(operation), decision, Expects::Anything).await
}

pub(crate) fn id(text: &str) -> OperationId {
    OperationId::parse(text).unwrap()
}

/// The one version of every tool.
pub(crate) fn version() -> ToolVersion {
    ToolVersion::parse("1").unwrap()
}

/// A call with that operation id, for a ticket with that title.
pub(crate) fn call(operation: &str, title: &str) -> Call {
    Call {
        identity: Identity::Given(id(operation)),
        tool_version: version(),
        comparison: Comparison::default(),
        arguments: Arc::new(Canonical::from_value(json!({"title": title})).unwrap()),
        title: None,
        approval: Approval::NotNeeded,
        deadline: None,
        answer_within: Duration::from_secs(30),
        retry: RetryPolicy { attempts_max: 3, ..RetryPolicy::default() },
        corrects: None,
        sighting: None,
        lane: None,
    }
}

/// Long enough for any machine; nothing waits for it in a test that passes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at the row until it is as wanted.
pub(crate) async fn until(ledger: &Ledger, operation: &str, wanted: impl Fn(&Operation) -> bool) -> Operation {
    let key = onceward::core::key::OperationKey { tenant: TenantId::parse("acme").unwrap(), id: id(operation) };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ledger.store().get(&key).await.unwrap()
            && wanted(&found)
        {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "the operation did not come to what was wanted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
