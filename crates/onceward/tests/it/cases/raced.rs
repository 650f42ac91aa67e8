//! Callers and recoverers that meet on one key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::application::ClaimAnswer;
use onceward::core::event::{About, Cause, Event, Observation, Source, Verdict};
use onceward::core::key::AttemptNumber;
use onceward::core::outcome::Outcome;
use onceward::core::receipt::{Answer, Receipt};
use onceward::core::state::State;
use onceward::core::step::Refusal;
use onceward::local::execute_local;
use onceward::recover::InstanceLocked;
use onceward::sqlite::Effect;
use onceward::store::{Applied, Command, Expects, OwnerKind, Priority, Step, Store as _};
use onceward::{Intervals, Ledger, Settings};
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use crate::stage::{Act, PATIENCE, Scripted, Stage, allowed, call, until};

/// Runs one call of `operation` from each of `callers`, all let go at one moment; counts the answers.
async fn at_once(
    ledgers: &[Ledger],
    callers: usize,
    operation: &str,
    title: impl Fn(usize) -> String,
    destination: &Arc<Scripted>,
) -> BTreeMap<&'static str, u32> {
    let barrier = Arc::new(Barrier::new(callers));
    let calls: Vec<_> = (0..callers)
        .map(|n| {
            let (ledger, destination) = (ledgers[n % ledgers.len()].clone(), destination.clone());
            let (barrier, call) = (barrier.clone(), call(operation, &title(n)));
            tokio::spawn(async move {
                barrier.wait().await;
                ledger.execute(&allowed(), call, destination, PATIENCE).await.unwrap()
            })
        })
        .collect();
    let mut counted = BTreeMap::new();
    for call in calls {
        *counted.entry(call.await.unwrap().outcome.name()).or_default() += 1;
    }
    counted
}

/// One visible call arrives twice, milliseconds apart, on two connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r017_twin_calls_on_two_connections_make_one_ticket() {
    let stage = Stage::new();
    let ledgers = [stage.ledger().await, stage.ledger().await];
    for round in 0..50 {
        let tracker = Scripted::new("none", []);
        let told = at_once(&ledgers, 2, &format!("op-{round}"), |_| "printer".to_owned(), &tracker).await;
        assert_eq!(told, BTreeMap::from([("executed", 1), ("replayed", 1)]));
        assert_eq!(tracker.requests(), 1);
    }
}

/// Looking and creating are one step: however many come at one moment, on however many processes' engines.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn r113_callers_behind_a_barrier_make_one_effect_per_key() {
    let stage = Stage::new();
    let ledgers = [stage.ledger().await, stage.ledger().await, stage.ledger().await, stage.ledger().await];
    for callers in [2, 3, 8, 16, 64] {
        for round in 0..4 {
            let shop = Scripted::new("none", []);
            let operation = format!("op-{callers}-{round}");
            let told = at_once(&ledgers, callers, &operation, |_| "order".to_owned(), &shop).await;
            let others = u32::try_from(callers).unwrap() - 1;
            assert_eq!(told, BTreeMap::from([("executed", 1), ("replayed", others)]));
            assert_eq!((shop.requests(), shop.effects()), (1, 1));
        }
    }
}

/// Two callers with one key and two bodies.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r082_whoever_is_refused_in_a_race_of_two_bodies_has_had_no_effect() {
    let stage = Stage::new();
    let ledgers = [stage.ledger().await, stage.ledger().await];
    for round in 0..50 {
        let bank = Scripted::new("none", []);
        let told = at_once(&ledgers, 2, &format!("op-{round}"), |n| format!("pay {n}"), &bank).await;
        assert_eq!(told, BTreeMap::from([("conflict", 1), ("executed", 1)]));
        assert_eq!(bank.requests(), 1);
    }
}

/// Every way to an existing record compares the arguments.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r044_every_path_to_an_existing_record_compares_the_arguments() {
    let stage = Stage::new();
    let (ledger, other_process) = (stage.ledger().await, stage.ledger().await);
    let store = stage.store();
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let running = {
        let (ledger, helpdesk) = (ledger.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "a"), helpdesk, PATIENCE).await.unwrap() })
    };
    until(&ledger, "op-1", |operation| operation.state.name() == "pending").await;
    // While it runs: in the process that runs it, and in another; then settled, and read by an engine that never saw it.
    for state in ["pending", "succeeded"] {
        let fresh = stage.ledger().await;
        for (path, ledger) in [("its own process", &ledger), ("another", &other_process), ("a new one", &fresh)] {
            let told = ledger.execute(&allowed(), call("op-1", "b"), helpdesk.clone(), Duration::ZERO).await.unwrap();
            assert_eq!(told.outcome, Outcome::Conflict, "a call, {path}, {state}");
            match ledger.claim(&allowed(), call("op-1", "b"), PATIENCE).await.unwrap() {
                ClaimAnswer::Answered(told) => assert_eq!(told.outcome, Outcome::Conflict, "a claim, {path}, {state}"),
                ClaimAnswer::Granted(granted) => panic!("granted: {granted:?}"),
            }
            let told = execute_local(ledger, &store, &allowed(), &call("op-1", "b"), never_run()).await.unwrap();
            assert_eq!(told.outcome, Outcome::Conflict, "a local effect, {path}, {state}");
        }
        // The store's own answer to an insert that meets the row, without a look before.
        let opening = ledger.local_opening(&allowed(), &call("op-1", "b")).unwrap();
        let Applied::Existing(found) = store.submit(Command::Open(Box::new(opening)), Priority::Claim).await.unwrap()
        else {
            panic!("inserted twice")
        };
        let told = ledger.decided(&allowed(), &call("op-1", "b"), &found).unwrap();
        assert_eq!(told.outcome, Outcome::Conflict, "the loser of an insert, {state}");
        released.notify_one();
        until(&ledger, "op-1", |operation| operation.state.name() == "succeeded").await;
    }
    assert_eq!(running.await.unwrap().outcome, Outcome::Executed);
    assert_eq!(helpdesk.requests(), 1);
}

fn never_run() -> Effect {
    Box::new(|_| panic!("a conflict runs nothing"))
}

/// A store that overwrites what is in flight says nothing; this one gives it back.
#[test]
fn r062_a_second_insert_of_a_key_gives_back_the_first() {
    const THREADS: usize = 64;
    const KEYS: usize = 20;
    let stage = Stage::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ledger = runtime.block_on(stage.ledger());
    let stores = [stage.store(), stage.store()];
    let inserted = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (ledger, store, inserted) = (&ledger, &stores[thread % 2], &inserted);
            scope.spawn(move || {
                for key in 0..KEYS {
                    let call = call(&format!("op-{key}"), &format!("by {thread}"));
                    let opening = ledger.local_opening(&allowed(), &call).unwrap();
                    match store.submit(Command::Open(Box::new(opening)), Priority::Claim).wait().unwrap() {
                        Applied::Opened(_) => {
                            let earlier = inserted.lock().unwrap().insert(call.key(&allowed()), call.arguments);
                            assert!(earlier.is_none(), "op-{key} was inserted twice");
                        }
                        Applied::Existing(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let inserted = inserted.into_inner().unwrap();
    assert_eq!(inserted.len(), KEYS);
    for (key, arguments) in inserted {
        let found = stores[0].read(&key).unwrap().unwrap();
        assert_eq!(found.binding.arguments.present(), Some(&arguments), "{key}: the first one stands");
    }
}

/// Recovery at start meets what the same process has just begun, within the same millisecond.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r098_recovery_at_start_takes_what_earlier_starts_left_and_nothing_of_its_own() {
    let stage = Stage::new();
    let mut ended = Vec::new();
    for start in 0..20 {
        let (left, mine) = (format!("left-{start}"), format!("mine-{start}"));
        let (gone, released) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let script = [Act::DoneWhenReleased("T-1", gone.clone()), Act::DoneWhenReleased("T-2", released.clone())];
        let helpdesk = Scripted::new("none", script);
        let earlier = gateway(&stage).await;
        ended.push(run(&earlier, &left, &helpdesk));
        until(&earlier, &left, |operation| operation.state.name() == "pending").await;
        // What was begun before this line is an earlier start's: by its owner's name, and not by any time.
        let now = gateway(&stage).await;
        ended.push(run(&now, &mine, &helpdesk));
        until(&now, &mine, |operation| operation.state.name() == "pending").await;
        assert_eq!(now.recover_earlier_gateways(&InstanceLocked::held()).await.unwrap(), 1, "start {start}");
        until(&now, &left, |operation| operation.state.name() == "unknown").await;
        until(&now, &mine, |operation| operation.state.name() == "pending").await;
        gone.notify_one();
        released.notify_one();
        until(&now, &mine, |operation| operation.state.name() == "succeeded").await;
        assert_eq!(helpdesk.requests(), 2, "one dispatch each");
    }
    for call in ended {
        call.await.unwrap();
    }
}

/// A gateway whose background work never runs.
async fn gateway(stage: &Stage) -> Ledger {
    let never = Duration::from_secs(3_600);
    let settings = Stage::settings(stage.store(), Intervals { beat: never, silence: never, sweep: never });
    Ledger::open(Settings { kind: OwnerKind::Gateway, ..settings }).await.unwrap()
}

fn run(ledger: &Ledger, operation: &str, destination: &Arc<Scripted>) -> tokio::task::JoinHandle<()> {
    let (ledger, destination, call) = (ledger.clone(), destination.clone(), call(operation, "printer"));
    tokio::spawn(async move {
        ledger.execute(&allowed(), call, destination, PATIENCE).await.unwrap();
    })
}

/// Two recoverers hold the same list of what was left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r099_of_two_recoverers_with_one_list_the_second_changes_nothing() {
    let stage = Stage::new();
    let stopped = stage.silent_ledger().await;
    let released = Arc::new(Notify::new());
    let helpdesk = Scripted::new("none", [Act::DoneWhenReleased("T-1", released.clone())]);
    let caller = {
        let (ledger, helpdesk) = (stopped.clone(), helpdesk.clone());
        tokio::spawn(async move { ledger.execute(&allowed(), call("op-1", "printer"), helpdesk, PATIENCE).await })
    };
    let listed = until(&stopped, "op-1", |operation| operation.state.name() == "pending").await;
    let State::Pending(pending) = &listed.state else { unreachable!("it was looked at") };
    let owner = pending.attempt.owner.clone();
    let recovery = |by: &str| {
        let seen = Observation {
            about: About::Attempt(AttemptNumber(1)),
            verdict: Verdict::Lost(Cause::OwnerLost),
            source: Source::Recovery { owner: owner.clone() },
            next_check: None,
            note: None,
        };
        let step = Step {
            key: listed.key.clone(),
            events: vec![Event::Observe(seen)],
            actor: format!("recovery:{by}"),
            expects: Expects::Anything,
        };
        Command::Step(Box::new(step))
    };
    let stores = [stage.store(), stage.store()];
    let (one, two) = tokio::join!(
        stores[0].submit(recovery("a"), Priority::Settle),
        stores[1].submit(recovery("b"), Priority::Settle)
    );
    let answers = [one.unwrap(), two.unwrap()];
    let stepped = answers.iter().filter(|answer| matches!(answer, Applied::Stepped(_))).count();
    let refused =
        answers.iter().filter(|answer| matches!(answer, Applied::Refused { refusal: Refusal::ClaimLost, .. }));
    assert_eq!((stepped, refused.count()), (1, 1), "{answers:?}");
    let journal = stores[0].journal(&listed.key, 0, 100).await.unwrap();
    assert_eq!(journal.iter().filter(|entry| entry.actor.starts_with("recovery:")).count(), 1);
    // Whoever it was, neither sent anything; nor does a call.
    let told = stage.ledger().await.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await;
    assert_eq!((told.unwrap().outcome, helpdesk.requests()), (Outcome::Unknown, 1));
    released.notify_one();
    drop(caller.await.unwrap().unwrap());
}

/// An event that is marked as handled before its handler ran is lost when the handler fails.
#[tokio::test(flavor = "multi_thread")]
async fn r106_a_local_effect_that_fails_takes_its_mark_with_it() {
    let stage = Stage::new();
    let ledger = stage.ledger().await;
    let store = stage.store();
    let rows = rusqlite::Connection::open(stage.file()).unwrap();
    rows.execute_batch("CREATE TABLE handled (event TEXT NOT NULL)").unwrap();
    let count = || rows.query_row("SELECT count(*) FROM handled", (), |row| row.get::<_, i64>(0)).unwrap();
    let fails: Effect = Box::new(|transaction| {
        transaction.execute("INSERT INTO handled VALUES ('invoice.paid')", ())?;
        Err(onceward::sqlite::LocalError::because("the customer is unknown"))
    });
    let event = call("event-7", "invoice.paid");
    assert!(execute_local(&ledger, &store, &allowed(), &event, fails).await.is_err());
    assert_eq!((count(), store.read(&event.key(&allowed())).unwrap()), (0, None), "neither effect nor mark");
    let received_at = ledger.clock().now();
    let works: Effect = Box::new(move |transaction| {
        transaction.execute("INSERT INTO handled VALUES ('invoice.paid')", ())?;
        Ok(Receipt { effect_id: None, answer: Answer::json(&json!({"handled": true})), received_at })
    });
    let told = execute_local(&ledger, &store, &allowed(), &event, works).await.unwrap();
    assert_eq!((told.outcome, count()), (Outcome::Executed, 1), "so its redelivery is handled");
}
