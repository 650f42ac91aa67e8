//! A ledger that several processes open, a business that writes to it in transactions of its own, and a destination.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward_core::canonical::Canonical;
use onceward_core::classify::{Body, NoAnswer, Observed};
use onceward_core::contract::{self, Contract};
use onceward_core::event::NotSent;
use onceward_core::fingerprint::{Comparison, FingerprintKeys};
use onceward_core::key::{Lane, OperationId, OperationKey, Principal, TenantId, ToolName, ToolVersion};
use onceward_core::operation::Operation;
use onceward_core::outbound::LedgerSecret;
use onceward_core::outcome::Envelope;
use onceward_core::retry::RetryPolicy;

use crate::authorize::{Authorized, Execute, Grant, Scope, ToolPattern};
use crate::call::{Approval, Call, Identity};
use crate::clock::{Clock, SystemClock};
use crate::destination::{Destination, Dispatch};
use crate::directory::{Directory, Known};
use crate::ledger::{Intervals, Ledger, Settings};
use crate::outbox::Entry;
use crate::runtime::TokioRuntime;
use crate::store::{BoxFuture, Opening, OwnerKind, Store};
use crate::testkit::key;

/// How a transaction of the business ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is committed.
    Committed,
    /// It is rolled back.
    RolledBack,
}

/// A ledger, and the database of a business around it.
pub trait Stage: Send + Sync {
    /// The ledger's secret.
    fn secret(&self) -> LedgerSecret;

    /// The ledger, opened once more, as another process does.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// One transaction of the business, which adds these entries in order.
    fn business(&self, openings: Vec<Opening>, end: End) -> BoxFuture<'_, Vec<Entry>>;
}

/// What the destination does with a request; without a script it has the effect and says so.
#[derive(Clone, Copy)]
pub(super) enum Act {
    NoConnection,
    ReplyLost,
}

/// Remembers every request, and promises nothing.
struct Recorder {
    contract: Contract,
    acts: Mutex<HashMap<String, VecDeque<Act>>>,
    requests: Mutex<Vec<String>>,
}

impl Destination for Recorder {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "account"
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        let id = dispatch.key().id.to_string();
        let act = self.acts.lock().unwrap().get_mut(&id).and_then(VecDeque::pop_front);
        let seen = match act {
            Some(Act::NoConnection) => Observed::NotSent(NotSent::NoConnection),
            Some(Act::ReplyLost) => {
                self.requests.lock().unwrap().push(id);
                Observed::NoAnswer(NoAnswer::Eof)
            }
            None => {
                let body = serde_json::json!({ "id": id }).to_string().into_bytes();
                self.requests.lock().unwrap().push(id);
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                Observed::Http { status: 201, headers, body: Body::Whole(body) }
            }
        };
        Box::pin(std::future::ready(seen))
    }
}

/// Every tool is at the one destination, in the version that is configured.
struct Only(Arc<Recorder>, ToolVersion);

impl Directory for Only {
    fn known(&self, _tool: &ToolName) -> Option<Known> {
        let retry = RetryPolicy { attempts_max: 3, ..RetryPolicy::default() };
        Some(Known {
            version: self.1.clone(),
            destination: Arc::clone(&self.0) as _,
            retry,
            answer_within: Duration::from_secs(30),
        })
    }
}

/// One play on a stage.
pub(super) struct Play {
    stage: Box<dyn Stage>,
    recorder: Arc<Recorder>,
    pub(super) ledger: Ledger,
}

impl Play {
    pub(super) async fn new(stage: Box<dyn Stage>) -> Self {
        let contract = contract::built_in().unwrap().into_iter().find(|one| one.id == "none").unwrap();
        let recorder = Recorder { contract, acts: Mutex::default(), requests: Mutex::default() };
        let ledger = ledger(&*stage).await;
        Self { stage, recorder: Arc::new(recorder), ledger }
    }

    /// Another process's engine.
    pub(super) async fn another(&self) -> Ledger {
        ledger(&*self.stage).await
    }

    pub(super) fn directory(&self) -> Arc<dyn Directory> {
        self.directory_at("1")
    }

    /// The tools as they are after their definition was changed.
    pub(super) fn directory_at(&self, version: &str) -> Arc<dyn Directory> {
        Arc::new(Only(Arc::clone(&self.recorder), ToolVersion::parse(version).unwrap()))
    }

    pub(super) fn destination(&self) -> Arc<dyn Destination> {
        Arc::clone(&self.recorder) as _
    }

    pub(super) fn acts(&self, id: &str, acts: &[Act]) {
        self.recorder.acts.lock().unwrap().insert(id.to_owned(), acts.iter().copied().collect());
    }

    /// The operations that were sent, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        self.recorder.requests.lock().unwrap().clone()
    }

    pub(super) async fn opening(&self, call: &Call) -> Opening {
        self.ledger.outbox_opening(&allowed(), call, &self.destination()).await.unwrap()
    }

    pub(super) async fn opening_by(&self, principal: &str, call: &Call) -> Opening {
        let allowed = grant(principal, &Scope::AGENT).to_execute(&tool()).unwrap();
        self.ledger.outbox_opening(&allowed, call, &self.destination()).await.unwrap()
    }

    pub(super) async fn business(&self, openings: Vec<Opening>, end: End) -> Vec<Entry> {
        self.stage.business(openings, end).await
    }

    pub(super) async fn execute(&self, call: Call) -> Envelope {
        self.ledger.execute(&allowed(), call, self.destination(), Duration::ZERO).await.unwrap()
    }

    pub(super) fn key(&self, id: &str) -> OperationKey {
        key("acme", id)
    }

    pub(super) async fn find(&self, id: &str) -> Option<Operation> {
        self.ledger.store().get(&self.key(id)).await.unwrap()
    }

    /// Looks at the row until it is as wanted.
    pub(super) async fn until(&self, id: &str, wanted: impl Fn(&Operation) -> bool) -> Operation {
        let deadline = SystemClock.uptime() + Duration::from_secs(30);
        loop {
            let found = self.find(id).await;
            if let Some(found) = found.as_ref().filter(|found| wanted(found)) {
                return found.clone();
            }
            assert!(SystemClock.uptime() < deadline, "{id} did not come to what was wanted: {found:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn ledger(stage: &dyn Stage) -> Ledger {
    let intervals = Intervals {
        beat: Duration::from_millis(200),
        silence: Duration::from_secs(600),
        sweep: Duration::from_millis(20),
    };
    let settings = Settings {
        store: stage.open().await,
        secret: stage.secret(),
        keys: FingerprintKeys::unkeyed(),
        clock: Arc::new(SystemClock),
        runtime: Arc::new(TokioRuntime::current()),
        kind: OwnerKind::Library,
        intervals,
    };
    Ledger::open(settings).await.unwrap()
}

pub(super) fn tool() -> ToolName {
    ToolName::parse("create_order").unwrap()
}

pub(super) fn grant(principal: &str, scopes: &[Scope]) -> Grant {
    Grant::new(
        TenantId::parse("acme").unwrap(),
        Principal::parse(principal).unwrap(),
        vec![ToolPattern::parse("*").unwrap()],
        scopes.to_vec(),
    )
    .unwrap()
}

pub(super) fn allowed() -> Authorized<Execute> {
    grant("agent", &Scope::AGENT).to_execute(&tool()).unwrap()
}

pub(super) fn call(id: &str, lane: Option<&str>) -> Call {
    Call {
        identity: Identity::Given(OperationId::parse(id).unwrap()),
        tool_version: ToolVersion::parse("1").unwrap(),
        comparison: Comparison::default(),
        arguments: Arc::new(Canonical::from_value(serde_json::json!({ "item": "printer" })).unwrap()),
        title: None,
        approval: Approval::NotNeeded,
        deadline: None,
        answer_within: Duration::from_secs(30),
        retry: RetryPolicy { attempts_max: 3, ..RetryPolicy::default() },
        corrects: None,
        sighting: None,
        lane: lane.map(|lane| Lane::parse(lane).unwrap()),
    }
}

pub(super) fn with_approval(call: Call) -> Call {
    Call { approval: Approval::Required, ..call }
}

pub(super) fn about(call: &Call, item: &str) -> Call {
    let arguments = Canonical::from_value(serde_json::json!({ "item": item })).unwrap();
    Call { arguments: Arc::new(arguments), ..call.clone() }
}

pub(super) fn without_identity(call: Call) -> Call {
    let minted = call.identity.id().clone();
    Call { identity: Identity::Held { minted, business_key: Vec::new() }, ..call }
}

pub(super) fn until_then(call: Call, within: Duration) -> Call {
    Call { deadline: Some(within), ..call }
}
