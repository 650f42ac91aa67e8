//! A consumer of a queue that delivers every message at least once. The business's row and the order to tell the courier are one
//! commit; the message's id is the operation's, so that a redelivered message changes nothing and sends nothing.
//!
//! `cargo run -p onceward --example queue_consumer`

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::authorize::{Authorized, Execute, Grant, Scope, ToolPattern};
use onceward::call::{Approval, Call, Identity};
use onceward::clock::{Clock, SystemClock};
use onceward::core::canonical::Canonical;
use onceward::core::classify::{Body, Observed};
use onceward::core::contract::{self, Contract};
use onceward::core::fingerprint::{Comparison, FingerprintKeys};
use onceward::core::key::{Lane, OperationId, OperationKey, Principal, TenantId, ToolName, ToolVersion};
use onceward::core::outcome::Outcome;
use onceward::core::retry::RetryPolicy;
use onceward::destination::{Destination, Dispatch};
use onceward::directory::{Directory, Known};
use onceward::outbox::Entry;
use onceward::runtime::TokioRuntime;
use onceward::sqlite::rusqlite::{Connection, TransactionBehavior};
use onceward::sqlite::{Options, SqliteStore, approve_in};
use onceward::store::{BoxFuture, OwnerKind};
use onceward::{Intervals, Ledger, Settings};
use serde_json::json;

/// A message as the queue delivers it.
pub(crate) struct Message {
    /// The same at every delivery.
    pub(crate) id: &'static str,
    /// Whose order it is: one customer's are sent one after the other.
    pub(crate) customer: &'static str,
    /// What was ordered.
    pub(crate) item: &'static str,
}

/// Somebody who drives what was ordered to its customer, and counts how often.
pub(crate) struct Courier {
    contract: Contract,
    drives: AtomicU32,
    seen: Mutex<Vec<String>>,
}

impl Courier {
    /// One who promises nothing.
    pub(crate) fn new() -> Result<Arc<Self>, Box<dyn Error>> {
        let contract = contract::built_in()?.into_iter().find(|one| one.id == "none").ok_or("no such contract")?;
        Ok(Arc::new(Self { contract, drives: AtomicU32::new(0), seen: Mutex::default() }))
    }

    /// The orders that were driven, in order.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }
}

impl Destination for Courier {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "courier"
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        let drive = self.drives.fetch_add(1, Ordering::SeqCst) + 1;
        if let Ok(mut seen) = self.seen.lock() {
            seen.push(dispatch.key().id.to_string());
        }
        let body = json!({ "drive": drive }).to_string().into_bytes();
        Box::pin(std::future::ready(Observed::Http { status: 201, headers: Vec::new(), body: Body::Whole(body) }))
    }
}

/// The one tool of this service.
struct Tools(Arc<Courier>, ToolVersion);

impl Directory for Tools {
    fn known(&self, tool: &ToolName) -> Option<Known> {
        (tool.as_str() == "deliver").then(|| Known {
            version: self.1.clone(),
            destination: self.0.clone(),
            retry: RetryPolicy::default(),
            answer_within: Duration::from_secs(30),
        })
    }
}

/// The service: its database with the ledger in it, and the engine.
pub(crate) struct Service {
    ledger: Ledger,
    file: std::path::PathBuf,
    allowed: Authorized<Execute>,
    version: ToolVersion,
    courier: Arc<Courier>,
}

impl Service {
    /// Opens the database, and starts what works in the background.
    pub(crate) async fn open(folder: &Path, courier: Arc<Courier>) -> Result<Self, Box<dyn Error>> {
        let file = folder.join("shop.db");
        let store = Arc::new(SqliteStore::open(&file, Options::new(Arc::new(SystemClock)))?);
        Connection::open(&file)?
            .execute_batch("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT, item TEXT)")?;
        let ledger = Ledger::open(Settings {
            secret: store.secret().clone(),
            store,
            keys: FingerprintKeys::unkeyed(),
            clock: Arc::new(SystemClock),
            runtime: Arc::new(TokioRuntime::current()),
            kind: OwnerKind::Library,
            intervals: Intervals::default(),
        })
        .await?;
        let version = ToolVersion::parse("1")?;
        let tools: Arc<dyn Directory> = Arc::new(Tools(Arc::clone(&courier), version.clone()));
        ledger.reconcile(Arc::clone(&tools));
        ledger.dispatch_outbox(tools);
        let grant = Grant::new(
            TenantId::parse("acme")?,
            Principal::parse("shop")?,
            vec![ToolPattern::parse("deliver")?],
            Scope::AGENT.to_vec(),
        )?;
        let allowed = grant.to_execute(&ToolName::parse("deliver")?).map_err(|_| "not permitted")?;
        Ok(Self { ledger, file, allowed, version, courier })
    }

    /// Handles one delivery. When this returns `Ok`, the message may be acknowledged; else it will be delivered again.
    pub(crate) async fn handle(&self, message: &Message) -> Result<(), Box<dyn Error>> {
        let call = Call {
            // The message's own id, which every delivery of it has.
            identity: Identity::Given(OperationId::parse(message.id)?),
            tool_version: self.version.clone(),
            comparison: Comparison::default(),
            arguments: Arc::new(Canonical::from_value(json!({ "item": message.item, "to": message.customer }))?),
            title: Some(format!("Deliver {} to {}", message.item, message.customer)),
            approval: Approval::NotNeeded,
            deadline: None,
            answer_within: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            corrects: None,
            sighting: None,
            lane: Some(Lane::parse(message.customer)?),
        };
        let courier: Arc<dyn Destination> = self.courier.clone();
        let opening = self.ledger.outbox_opening(&self.allowed, &call, &courier).await?;

        let mut connection = Connection::open(&self.file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match approve_in(&transaction, opening, SystemClock.now())? {
            Entry::Added(_) => {
                let row = [message.id, message.customer, message.item];
                transaction.execute("INSERT INTO orders VALUES (?1, ?2, ?3)", row)?;
                transaction.commit()?;
                Ok(())
            }
            // Delivered again: everything of it is committed already.
            Entry::Existing(known) => match self.ledger.decided(&self.allowed, &call, &known)?.outcome {
                Outcome::Conflict => Err(format!("message {} came with another content", message.id).into()),
                _ => Ok(()),
            },
        }
    }

    /// Waits until what a message asked for is settled.
    pub(crate) async fn settled(&self, message: &Message) -> Result<(), Box<dyn Error>> {
        let key = OperationKey { tenant: TenantId::parse("acme")?, id: OperationId::parse(message.id)? };
        let deadline = SystemClock.uptime() + Duration::from_secs(30);
        while SystemClock.uptime() < deadline {
            if self.ledger.store().get(&key).await?.is_some_and(|operation| operation.is_settled()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("it took too long".into())
    }

    /// How many orders the business has.
    pub(crate) fn orders(&self) -> Result<u32, Box<dyn Error>> {
        Ok(Connection::open(&self.file)?.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?)
    }
}

#[allow(dead_code, reason = "the test of this example has it as a module, and calls the rest")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("onceward-queue-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let service = Service::open(&folder, Courier::new()?).await?;
    let message = Message { id: "message-1", customer: "ada", item: "printer" };
    for delivery in 1..=3 {
        service.handle(&message).await?;
        println!("delivery {delivery} of {}: {} order", message.id, service.orders()?);
    }
    service.settled(&message).await?;
    println!("driven: {:?}", service.courier.seen());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
