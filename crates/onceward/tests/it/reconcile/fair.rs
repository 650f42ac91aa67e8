//! One destination that is stuck, and another that must not wait for it.

use super::*;

/// A destination whose answers to questions do not come until it is told.
struct Stuck {
    contract: Contract,
    waiting: AtomicU32,
    most: AtomicU32,
    released: tokio::sync::Notify,
}

impl Destination for Stuck {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "stuck"
    }

    fn send<'a>(&'a self, _dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(std::future::ready(Observed::NoAnswer(NoAnswer::Eof)))
    }

    fn ask<'a>(&'a self, _question: Question) -> BoxFuture<'a, Asked> {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        Box::pin(async move {
            self.released.notified().await;
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            Asked::NoAnswer("it was stuck".to_owned())
        })
    }
}

struct StuckAndQuick(Arc<Stuck>, Arc<Helpdesk>);

impl Directory for StuckAndQuick {
    fn known(&self, tool: &ToolName) -> Option<Known> {
        let destination: Arc<dyn Destination> = if tool.as_str() == "stuck" { self.0.clone() } else { self.1.clone() };
        Some(Known {
            version: version(),
            destination,
            retry: RetryPolicy::default(),
            answer_within: Duration::from_secs(5),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_is_stuck_takes_four_places_and_holds_nobody_else_up() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let stuck = Arc::new(Stuck {
        contract: Contract::parse(LISTED).unwrap(),
        waiting: AtomicU32::new(0),
        most: AtomicU32::new(0),
        released: tokio::sync::Notify::new(),
    });
    let quick = Arc::new(Helpdesk::new(LISTED, [Act::DoneReplyLost]));
    ledger.reconcile(Arc::new(StuckAndQuick(stuck.clone(), quick.clone())));
    let stuck_tool = crate::stage::agent().to_execute(&ToolName::parse("stuck").unwrap()).unwrap();
    for number in 0..20 {
        let call = once(&format!("stuck-{number}"), "printer");
        drop(ledger.execute(&stuck_tool, call, stuck.clone(), PATIENCE).await.unwrap());
    }
    drop(ledger.execute(&allowed(), once("quick", "printer"), quick.clone(), PATIENCE).await.unwrap());
    clock.forward(Duration::from_secs(300));
    until(&ledger, "quick", succeeded).await;
    until(&ledger, "stuck-0", |_| stuck.waiting.load(Ordering::SeqCst) == 4).await;
    assert_eq!(stuck.most.load(Ordering::SeqCst), 4);
}
