//! Answers of destinations: which may be repeated, which are kept, and as what.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::call::Call;
use onceward::core::classify::Body;
use onceward::core::outcome::{Dispatched, Envelope, Outcome};
use onceward::core::retry::RetryPolicy;
use onceward::runtime::{Runtime, TokioRuntime};
use onceward::store::BoxFuture;
use onceward::{Intervals, Ledger, Settings};
use serde_json::json;

use crate::stage::{Act, PATIENCE, Says, Scripted, Stage, World, allowed, call, until};

async fn done(ledger: &Ledger, operation: &str, destination: &Arc<Scripted>) -> Envelope {
    ledger.execute(&allowed(), call(operation, "printer"), destination.clone(), PATIENCE).await.unwrap()
}

fn throttled(after: &'static str) -> Act {
    Act::Says(Says {
        world: World::Unchanged,
        status: 429,
        headers: vec![("retry-after", after)],
        body: Body::Whole(Vec::new()),
    })
}

/// The stored answer of a destination that recognises a repetition, marked as such.
fn recognised(id: &str) -> Act {
    Act::Says(Says {
        world: World::Unchanged,
        status: 200,
        headers: vec![("content-type", "application/json"), ("idempotent-replayed", "true")],
        body: Body::Whole(json!({"id": id}).to_string().into_bytes()),
    })
}

/// An adapter that never sends the provider's key.
#[tokio::test(flavor = "multi_thread")]
async fn r014_every_attempt_carries_the_key_that_was_durable_before_the_first() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let mail = Scripted::new("stripe.v1", [Act::DoneReplyLost, recognised("M-1")]);
    assert_eq!(done(&ledger, "op-1", &mail).await.outcome, Outcome::Recovered);
    let operation = until(&ledger, "op-1", |operation| operation.state.name() == "succeeded").await;
    let first = ledger.store().journal(&operation.key, 0, 10).await.unwrap().into_iter();
    let first = first.filter(|entry| entry.event == "claim").find_map(|entry| entry.detail).unwrap();
    let keys = mail.keys();
    assert_eq!(keys.len(), 2);
    assert!(keys.iter().all(|key| !key.is_empty() && first.contains(key.as_str())), "{keys:?} and {first}");
}

/// A body that cannot be stored is replayed empty.
#[tokio::test(flavor = "multi_thread")]
async fn r055_a_replayed_body_is_the_first_to_the_byte_and_a_cut_one_is_no_success() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let binary: Vec<u8> = (0..=255).cycle().take(1024 * 1024).collect();
    for (n, body) in
        [Vec::new(), vec![0xff], b"data: {\"id\": 1}\n\ndata: end\n\n".to_vec(), binary].into_iter().enumerate()
    {
        let says = Says {
            world: World::Changed,
            status: 200,
            headers: vec![("content-type", "application/octet-stream")],
            body: Body::Whole(body.clone()),
        };
        let tool = Scripted::new("none", [Act::Says(says)]);
        let operation = format!("whole-{n}");
        let first = done(&ledger, &operation, &tool).await;
        // Read back by an engine that has not seen it.
        let again = done(&stage.ledger().await, &operation, &tool).await;
        assert_eq!((first.outcome, again.outcome), (Outcome::Executed, Outcome::Replayed));
        assert_eq!(again.answer.as_ref().unwrap().body, body);
        assert_eq!((first.answer, tool.requests()), (again.answer, 1));
    }
    let cut =
        Says { world: World::Changed, status: 200, headers: Vec::new(), body: Body::Cut(b"the beginning".to_vec()) };
    let tool = Scripted::new("none", [Act::Says(cut)]);
    for ledger in [ledger, stage.ledger().await] {
        let told = done(&ledger, "cut", &tool).await;
        assert_eq!((told.outcome, told.answer), (Outcome::Unknown, None));
    }
    assert_eq!(tool.requests(), 1);
}

/// A short outage becomes the stored answer of a day.
#[tokio::test(flavor = "multi_thread")]
async fn r070_a_server_error_means_what_the_destinations_contract_says() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    // "Not executed": it is tried again, and succeeds.
    let sheds = Scripted::promising(
        "[execution]\nshed_before_work = true",
        [Act::says(World::Unchanged, 503, &json!({"error": "overloaded"}))],
    );
    let told = done(&ledger, "sheds", &sheds).await;
    assert_eq!((told.outcome, told.attempts, sheds.effects()), (Outcome::Executed, 2, 1));
    // Stored under its key for ever: asking again gives the same, so nothing asks again by itself, and it is no receipt.
    let failed = || Act::says(World::Changed, 500, &json!({"error": {"type": "api_error"}}));
    let stores = Scripted::new("stripe.v1", [failed()]);
    let told = done(&ledger, "stores", &stores).await;
    assert_eq!((told.outcome, told.dispatched, stores.requests()), (Outcome::Unknown, Dispatched::Maybe, 1));
    // Nothing said: it may have been done, and nobody asks again at all.
    let silent = Scripted::new("none", [failed()]);
    for ledger in [ledger, stage.ledger().await, stage.ledger().await] {
        let told = done(&ledger, "silent", &silent).await;
        assert_eq!((told.outcome, told.answer), (Outcome::Unknown, None));
    }
    assert_eq!(silent.requests(), 1);
}

/// A key in use and a key with other parameters look alike.
#[tokio::test(flavor = "multi_thread")]
async fn r093_a_key_in_use_is_waited_for_and_a_key_with_other_parameters_is_not() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let in_use = Act::says(World::Unchanged, 409, &json!({"error": {"code": "idempotency_key_in_use"}}));
    let payments = Scripted::new("stripe.v1", [in_use, recognised("P-1")]);
    let told = done(&ledger, "in-use", &payments).await;
    assert_eq!(told.outcome, Outcome::Recovered, "{told:?}");
    let keys = payments.keys();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "the same key again");
    let mismatch = Act::says(World::Unchanged, 400, &json!({"error": {"type": "idempotency_error"}}));
    let payments = Scripted::new("stripe.v1", [mismatch]);
    for ledger in [ledger, stage.ledger().await] {
        let told = done(&ledger, "mismatch", &payments).await;
        assert_eq!((told.outcome, told.disagreement.as_deref()), (Outcome::Unknown, Some("key_mismatch")));
    }
    assert_eq!(payments.requests(), 1, "a person looks first");
}

/// A proxy gives up after a minute, and one order becomes six.
#[tokio::test(flavor = "multi_thread")]
async fn r111_a_gateway_timeout_may_have_been_forwarded_unless_the_contract_knows_its_marker() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    for status in [502, 504] {
        let behind_proxy = Scripted::new("none", [Act::says(World::Changed, status, &json!({}))]);
        for ledger in [ledger.clone(), stage.ledger().await, stage.ledger().await] {
            assert_eq!(done(&ledger, &format!("forwarded-{status}"), &behind_proxy).await.outcome, Outcome::Unknown);
        }
        assert_eq!(behind_proxy.requests(), 1);
    }
    let rule = "responses = [{ when = { header_equals = { name = \"x-not-forwarded\", value = \"1\" } }, is = \"turned_away\" }]";
    let refused = Says {
        world: World::Unchanged,
        status: 502,
        headers: vec![("x-not-forwarded", "1")],
        body: Body::Whole(Vec::new()),
    };
    let says_so = Scripted::promising(rule, [Act::Says(refused)]);
    let told = done(&ledger, "not-forwarded", &says_so).await;
    assert_eq!((told.outcome, says_so.requests(), says_so.effects()), (Outcome::Executed, 2, 1));
}

/// Pauses as long as a destination asked for are noted and not waited for.
struct Impatient {
    tokio: TokioRuntime,
    asked: Duration,
    pauses: Arc<Mutex<Vec<Duration>>>,
}

impl Runtime for Impatient {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.tokio.spawn(task);
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration.abs_diff(self.asked) > Duration::from_secs(1) {
            return self.tokio.sleep(duration);
        }
        self.pauses.lock().unwrap().push(duration);
        Box::pin(std::future::ready(()))
    }
}

/// The client retries, and the application around it as well.
#[tokio::test(flavor = "multi_thread")]
async fn r112_a_budget_of_four_is_four_requests_each_as_late_as_the_destination_asked() {
    let stage = Stage::new();
    let asked = Duration::from_secs(3_600);
    let pauses = Arc::new(Mutex::default());
    let runtime = Impatient { tokio: TokioRuntime::current(), asked, pauses: Arc::clone(&pauses) };
    let never = asked * 24;
    let settings = Stage::settings(stage.store(), Intervals { beat: never, silence: never, sweep: never });
    let ledger = Ledger::open(Settings { runtime: Arc::new(runtime), ..settings }).await.unwrap();
    let throttles = Scripted::promising("[execution]\nlimiter_before_work = true", vec![throttled("3600"); 9]);
    let four = RetryPolicy { attempts_max: 4, ..RetryPolicy::default() };
    let call = Call { retry: four, ..call("op-1", "printer") };
    let told = ledger.execute(&allowed(), call, throttles.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.attempts, throttles.requests()), (Outcome::NotDispatched, 4, 4));
    let pauses = pauses.lock().unwrap().clone();
    assert_eq!(pauses.len(), 3, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause >= asked), "{pauses:?}");
    // The journal names who spent it.
    let operation = until(&ledger, "op-1", |_| true).await;
    let journal = ledger.store().journal(&operation.key, 0, 100).await.unwrap();
    let owner = format!("owner:{}", ledger.owner());
    let attempts: Vec<_> = journal.iter().filter(|entry| entry.event == "observe").map(|entry| &entry.actor).collect();
    assert!(attempts.len() == 4 && attempts.iter().all(|actor| **actor == owner), "{attempts:?}");
}
