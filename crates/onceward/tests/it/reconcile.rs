//! The way out of `unknown` in the background: what is sent again, what is asked, what is left to a person.

mod fair;
mod own_functions;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::authorize::Scope;
use onceward::clock::{Clock, SystemClock};
use onceward::core::canonical::Canonical;
use onceward::core::classify::{Body, NoAnswer, Observed};
use onceward::core::contract::Contract;
use onceward::core::key::ToolName;
use onceward::core::operation::Operation;
use onceward::core::outcome::{NextAction, Outcome};
use onceward::core::receipt::Answer;
use onceward::core::retry::RetryPolicy;
use onceward::core::state::State;
use onceward::core::time::Timestamp;
use onceward::destination::{Asked, Destination, Dispatch, Question};
use onceward::directory::{Directory, Known};
use onceward::lookup::Said;
use onceward::sqlite::{Options, SqliteStore};
use onceward::store::BoxFuture;
use onceward::{Intervals, Ledger, Settings};
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, allowed, call, grant, until, version};

/// A destination that recognises a key for a day.
const KEYED: &str = r#"
id = "keyed"
version = 1
[key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
[same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "stored" }
[in_flight]
behaviour = "rejects"
[horizon]
kind = "at_least"
min = "24h"
margin = "1h"
[provenance]
confidence = "official_doc"
"#;

/// A destination without keys, in whose list our marker shows after a minute; it works on a request for at most 30 s.
const LISTED: &str = r#"
id = "listed"
version = 1
[in_flight]
bound = "30s"
[effect]
id = { body = "/id" }
[lookup]
path = "/tickets"
items = "/items"
recognise = [{ at = "/marker" }]
compare = [{ argument = "/title", effect = "/title" }]
effect_id = "/id"
consistency = "eventual"
visibility_delay = "60s"
absence_is_proof = "after_bound"
absences_required = 2
whole_if = { body_equals = { at = "/last", value = true } }
[provenance]
confidence = "operated"
"#;

/// What becomes of a request.
#[derive(Clone, Copy)]
enum Act {
    Done,
    DoneReplyLost,
    NothingDoneReplyLost,
}

/// A destination with a list of what it has done, which shows itself as a lookup would find it.
struct Helpdesk {
    contract: Contract,
    scope: String,
    digest: String,
    acts: Mutex<VecDeque<Act>>,
    tickets: Mutex<Vec<Value>>,
    by_key: Mutex<std::collections::HashMap<String, Value>>,
    requests: AtomicU32,
    asked: AtomicU32,
}

impl Helpdesk {
    fn new(contract: &str, acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            contract: Contract::parse(contract).unwrap_or_else(|error| panic!("{error}")),
            scope: "account one".to_owned(),
            digest: "as first sent".to_owned(),
            acts: Mutex::new(acts.into_iter().collect()),
            tickets: Mutex::default(),
            by_key: Mutex::default(),
            requests: AtomicU32::new(0),
            asked: AtomicU32::new(0),
        }
    }

    fn effects(&self) -> usize {
        self.tickets.lock().unwrap().len()
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn serve(&self, dispatch: &Dispatch) -> Observed {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let key = dispatch.outbound_key().map(ToString::to_string).unwrap_or_default();
        let known = self.by_key.lock().unwrap().get(&key).cloned();
        if let (Some(ticket), true) = (known, self.contract.key.is_some()) {
            return answered(&ticket);
        }
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Done);
        let ticket = || {
            let mut tickets = self.tickets.lock().unwrap();
            let id = format!("T-{}", tickets.len() + 1);
            let ticket = json!({ "id": id, "title": dispatch.arguments().value()["title"], "marker": key });
            tickets.push(ticket.clone());
            self.by_key.lock().unwrap().insert(key.clone(), ticket.clone());
            ticket
        };
        match act {
            Act::Done => answered(&ticket()),
            Act::DoneReplyLost => {
                ticket();
                Observed::NoAnswer(NoAnswer::Eof)
            }
            Act::NothingDoneReplyLost => Observed::NoAnswer(NoAnswer::Eof),
        }
    }
}

fn answered(ticket: &Value) -> Observed {
    Observed::Http { status: 201, headers: Vec::new(), body: Body::Whole(ticket.to_string().into_bytes()) }
}

impl Destination for Helpdesk {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        &self.scope
    }

    fn request_digest(&self, _arguments: &Canonical) -> Option<String> {
        Some(self.digest.clone())
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async move { self.serve(&dispatch) })
    }

    fn ask<'a>(&'a self, _question: Question) -> BoxFuture<'a, Asked> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let items = self.tickets.lock().unwrap().clone();
        let answer = Answer::json(&json!({ "items": items, "last": true }));
        Box::pin(std::future::ready(Asked::Answered(answer)))
    }
}

struct Only(Arc<Helpdesk>);

impl Directory for Only {
    fn known(&self, _tool: &ToolName) -> Option<Known> {
        let destination: Arc<dyn Destination> = self.0.clone();
        let retry = RetryPolicy { attempts_max: 6, ..RetryPolicy::default() };
        Some(Known { version: version(), destination, retry, answer_within: Duration::from_secs(5) })
    }
}

/// The machine's clock, with a wall that a test moves.
#[derive(Clone, Default)]
struct Movable(Arc<AtomicI64>);

impl Movable {
    fn forward(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Movable {
    fn now(&self) -> Timestamp {
        let offset = u64::try_from(self.0.load(Ordering::SeqCst)).unwrap();
        SystemClock.now().plus(Duration::from_micros(offset))
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}

async fn ledger(stage: &Stage, clock: &Movable) -> Ledger {
    let store = Arc::new(SqliteStore::open(stage.file(), Options::new(Arc::new(clock.clone()))).unwrap());
    let intervals = Intervals {
        beat: Duration::from_millis(20),
        silence: Duration::from_secs(600),
        sweep: Duration::from_millis(10),
    };
    let settings = Stage::settings(store, intervals);
    Ledger::open(Settings { clock: Arc::new(clock.clone()), ..settings }).await.unwrap()
}

/// One call whose policy allows a single attempt by itself: what follows is the reconciler's.
fn once(operation: &str, title: &str) -> onceward::call::Call {
    let mut call = call(operation, title);
    call.retry = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    call
}

fn succeeded(operation: &Operation) -> bool {
    matches!(operation.state, State::Succeeded(_))
}

fn next_check(operation: &Operation) -> Option<Timestamp> {
    match &operation.state {
        State::Unknown(unknown) => unknown.next_check(),
        state => panic!("the operation is {}", state.name()),
    }
}

/// Moves the clock to each check as it is due, until the operation is as wanted.
async fn through_checks(
    ledger: &Ledger,
    clock: &Movable,
    operation: &str,
    wanted: impl Fn(&Operation) -> bool,
) -> Operation {
    loop {
        let seen = until(ledger, operation, |one| {
            wanted(one)
                || matches!(&one.state, State::Unknown(unknown) if unknown.next_check().is_none_or(|at| at > clock.now()))
        })
        .await;
        if wanted(&seen) {
            return seen;
        }
        let at = next_check(&seen).expect("nothing is scheduled any more");
        clock.forward(at.since(clock.now()) + Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_redriven_in_the_background_and_the_caller_finds_the_receipt() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(KEYED, [Act::DoneReplyLost]));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    let told = ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, told.next_action), (Outcome::Unknown, NextAction::CheckOperationStatus));
    assert!(told.check_after.is_some(), "a check is promised because one is scheduled");
    through_checks(&ledger, &clock, "op-1", succeeded).await;
    let again = ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(again.outcome, Outcome::Replayed);
    assert_eq!((helpdesk.effects(), helpdesk.requests()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_finds_the_effect_of_a_lost_reply_by_its_marker_and_nothing_is_sent_again() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(LISTED, [Act::DoneReplyLost]));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    drop(ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let settled = through_checks(&ledger, &clock, "op-1", succeeded).await;
    let State::Succeeded(success) = &settled.state else { panic!() };
    assert_eq!(success.effect_id.as_ref().unwrap().as_str(), "T-1");
    assert!(success.recovered);
    assert_eq!((helpdesk.effects(), helpdesk.requests()), (1, 1));
    assert!(helpdesk.asked() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operations_with_equal_arguments_and_one_lost_reply_are_not_settled_by_each_others_effect() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(LISTED, [Act::NothingDoneReplyLost, Act::Done]));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    drop(ledger.execute(&allowed(), once("lost", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let other = ledger.execute(&allowed(), once("done", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!(other.outcome, Outcome::Executed);
    // The list shows the other one's ticket, equal in everything but the marker: it is no proof of absence either.
    let key = onceward::core::key::OperationKey {
        tenant: onceward::core::key::TenantId::parse("acme").unwrap(),
        id: crate::stage::id("lost"),
    };
    for _ in 0..4 {
        let due = until(&ledger, "lost", |one| next_check(one).is_some_and(|at| at > clock.now())).await;
        let asked = helpdesk.asked();
        clock.forward(next_check(&due).unwrap().since(clock.now()) + Duration::from_millis(1));
        until(&ledger, "lost", |_| helpdesk.asked() > asked).await;
        let now = ledger.store().get(&key).await.unwrap().unwrap();
        assert!(matches!(now.state, State::Unknown(_)), "{}", now.state.name());
    }
    assert_eq!((helpdesk.effects(), helpdesk.requests()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn absence_counts_after_the_bound_and_the_delay_as_often_as_asked_and_then_the_call_may_be_made_again() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(LISTED, [Act::NothingDoneReplyLost]));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    let began = clock.now();
    drop(ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let free = through_checks(&ledger, &clock, "op-1", |one| matches!(one.state, State::Approved(_))).await;
    // 10 s to send, 30 s of work, 60 s until it shows, and 60 s more to the second answer.
    assert!(clock.now().since(began) >= Duration::from_secs(155), "{:?}", clock.now().since(began));
    assert!(helpdesk.asked() >= 2);
    assert_eq!((free.history.attempts, helpdesk.effects()), (1, 0));
    let again = ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((again.outcome, helpdesk.effects()), (Outcome::Executed, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_that_would_differ_goes_to_a_person_and_nothing_is_sent() {
    let other_account = |mut helpdesk: Helpdesk| {
        helpdesk.scope = "account two".to_owned();
        helpdesk
    };
    let other_request = |mut helpdesk: Helpdesk| {
        helpdesk.digest = "mapped in another way".to_owned();
        helpdesk
    };
    let in_flight_unsaid = |mut helpdesk: Helpdesk| {
        helpdesk.contract = Contract::parse(&KEYED.replace("behaviour = \"rejects\"\n[horizon]", "[horizon]")).unwrap();
        helpdesk
    };
    let from_memory = |mut helpdesk: Helpdesk| {
        helpdesk.contract = Contract::parse(&KEYED.replace("official_doc", "memory")).unwrap();
        helpdesk
    };
    let changes: [(&str, &dyn Fn(Helpdesk) -> Helpdesk); 4] = [
        ("another account", &other_account),
        ("another request", &other_request),
        ("in flight unsaid", &in_flight_unsaid),
        ("from memory", &from_memory),
    ];
    for (what, change) in changes {
        let (stage, clock) = (Stage::new(), Movable::default());
        let ledger = ledger(&stage, &clock).await;
        let first = Arc::new(Helpdesk::new(KEYED, [Act::DoneReplyLost]));
        let now = Arc::new(change(Helpdesk::new(KEYED, [])));
        ledger.reconcile(Arc::new(Only(now.clone())));
        drop(ledger.execute(&allowed(), once("op-1", "printer"), first.clone(), PATIENCE).await.unwrap());
        let waits = until(&ledger, "op-1", |one| next_check(one).is_none()).await;
        clock.forward(Duration::from_secs(3600));
        assert!(matches!(waits.state, State::Unknown(_)), "{what}");
        assert_eq!((first.requests(), now.requests()), (1, 0), "{what}");
        let told = ledger.execute(&allowed(), once("op-1", "printer"), now.clone(), PATIENCE).await.unwrap();
        assert_eq!((told.outcome, told.next_action), (Outcome::Unknown, NextAction::AskOperator), "{what}");
        assert_eq!(now.requests(), 0, "{what}: a caller's repetition is no way round it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_second_before_the_horizon_less_its_margin_the_key_goes_out_and_one_second_after_it_does_not() {
    for (past_end, sent) in [(-1_i64, 2_u32), (1, 1)] {
        let (stage, clock) = (Stage::new(), Movable::default());
        let ledger = ledger(&stage, &clock).await;
        let helpdesk = Arc::new(Helpdesk::new(KEYED, [Act::DoneReplyLost]));
        // Nobody reconciles yet: the process was down for a day.
        drop(ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
        let lost = until(&ledger, "op-1", |one| matches!(one.state, State::Unknown(_))).await;
        let end = lost.state.uncertain()[0].claimed_at.plus(Duration::from_secs(23 * 3600));
        let target = if past_end < 0 { end.minus(Duration::from_secs(1)) } else { end.plus(Duration::from_secs(1)) };
        clock.forward(target.since(clock.now()));
        let call = call("op-1", "printer");
        let told = ledger.execute(&allowed(), call, helpdesk.clone(), PATIENCE).await.unwrap();
        assert_eq!(helpdesk.requests(), sent, "{past_end}");
        let wanted = if past_end < 0 { Outcome::Recovered } else { Outcome::Unknown };
        assert_eq!(told.outcome, wanted, "{past_end}");
        assert_eq!(helpdesk.effects(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_principal_is_asked_for_but_not_sent_for() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(KEYED, [Act::DoneReplyLost]));
    let credential = onceward::credential::Credential {
        id: "c-1".to_owned(),
        hash: onceward::credential::CredentialHash([7; 32]),
        grant: crate::stage::agent(),
        created_at: clock.now(),
        revoked_at: Some(clock.now()),
    };
    let command = onceward::store::Command::PutCredential(Box::new(credential));
    ledger.store().submit(command, onceward::store::Priority::Claim).await.unwrap();
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    drop(ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let scheduled = until(&ledger, "op-1", |one| next_check(one).is_some()).await;
    clock.forward(next_check(&scheduled).unwrap().since(clock.now()) + Duration::from_millis(1));
    until(&ledger, "op-1", |one| next_check(one) != next_check(&scheduled)).await;
    assert_eq!(helpdesk.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_may_ask_at_once_and_only_with_the_scope_for_it() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(LISTED, [Act::DoneReplyLost]));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    drop(ledger.execute(&allowed(), once("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap());
    let lost = until(&ledger, "op-1", |one| matches!(one.state, State::Unknown(_))).await;
    assert!(crate::stage::agent().to_lookup(&lost).is_err());
    assert!(grant("other", "olga", &Scope::OPERATOR).to_lookup(&lost).is_err());
    let may = crate::stage::operator().to_lookup(&lost).unwrap();
    let asked = ledger.look_up(&may, &lost).await.unwrap();
    assert_eq!((asked.said, asked.operation.state.name()), (Said::Found, "succeeded"));
    assert!(ledger.look_up(&may, &asked.operation).await.is_err(), "there is nothing left to ask about");
}

/// A destination that takes work on, and can be asked about it by the name it gave.
const ACCEPTING: &str = r#"
id = "accepting"
version = 1
[effect]
id = { body = "/id" }
handle = { body = "/job" }
[lookup]
kind = "async_handle"
path = "/jobs/{handle}"
compare = [{ argument = "/title", effect = "/title" }]
effect_id = "/id"
consistency = "strong"
[[responses]]
when = { body_equals = { at = "/status", value = "running" } }
is = "accepted"
[[responses]]
when = { body_equals = { at = "/status", value = "failed" } }
is = "refused"
[provenance]
confidence = "operated"
"#;

/// Takes every request on, and says of its work what the script says.
struct Jobs {
    contract: Contract,
    says: Mutex<VecDeque<Value>>,
    asked_for: Mutex<Vec<Option<String>>>,
}

impl Jobs {
    fn new(says: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let contract = Contract::parse(ACCEPTING).unwrap_or_else(|error| panic!("{error}"));
        Arc::new(Self { contract, says: Mutex::new(says.into_iter().collect()), asked_for: Mutex::default() })
    }
}

impl Destination for Jobs {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "jobs"
    }

    fn send<'a>(&'a self, _dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        let body = json!({ "job": "J-1", "status": "running" }).to_string().into_bytes();
        let accepted = Observed::Http { status: 202, headers: Vec::new(), body: Body::Whole(body) };
        Box::pin(std::future::ready(accepted))
    }

    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Asked> {
        self.asked_for.lock().unwrap().push(question.handle);
        let mut says = self.says.lock().unwrap();
        let said = if says.len() > 1 { says.pop_front() } else { says.front().cloned() };
        let answer = Answer::json(&said.unwrap_or_else(|| json!({ "status": "running" })));
        Box::pin(std::future::ready(Asked::Answered(answer)))
    }
}

struct AllJobs(Arc<Jobs>);

impl Directory for AllJobs {
    fn known(&self, _tool: &ToolName) -> Option<Known> {
        let destination: Arc<dyn Destination> = self.0.clone();
        Some(Known {
            version: version(),
            destination,
            retry: RetryPolicy::default(),
            answer_within: Duration::from_secs(5),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_work_is_asked_for_by_its_handle_until_it_is_done_or_refused() {
    let running = || json!({ "status": "running" });
    let done = json!({ "status": "done", "id": "R-1", "title": "printer" });
    let failed = json!({ "status": "failed" });
    for (end, state) in [(done, "succeeded"), (failed, "rejected")] {
        let (stage, clock) = (Stage::new(), Movable::default());
        let ledger = ledger(&stage, &clock).await;
        let jobs = Jobs::new([running(), running(), end]);
        ledger.reconcile(Arc::new(AllJobs(jobs.clone())));
        let told = ledger.execute(&allowed(), once("op-1", "printer"), jobs.clone(), PATIENCE).await.unwrap();
        assert_eq!(told.outcome, Outcome::Unknown, "accepting is not the effect");
        let settled = through_checks(&ledger, &clock, "op-1", |one| one.is_settled()).await;
        assert_eq!(settled.state.name(), state);
        let asked_for = jobs.asked_for.lock().unwrap();
        assert_eq!(asked_for.len(), 3);
        assert!(asked_for.iter().all(|handle| handle.as_deref() == Some("J-1")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_account_does_not_have_proves_nothing() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let first = Arc::new(Helpdesk::new(LISTED, [Act::DoneReplyLost]));
    let mut elsewhere = Helpdesk::new(LISTED, []);
    elsewhere.scope = "account two".to_owned();
    let elsewhere = Arc::new(elsewhere);
    ledger.reconcile(Arc::new(Only(elsewhere.clone())));
    drop(ledger.execute(&allowed(), once("op-1", "printer"), first.clone(), PATIENCE).await.unwrap());
    let lost = until(&ledger, "op-1", |one| matches!(one.state, State::Unknown(_))).await;
    clock.forward(Duration::from_secs(3600));
    let may = crate::stage::operator().to_lookup(&lost).unwrap();
    for _ in 0..4 {
        let key = lost.key.clone();
        let now = ledger.store().get(&key).await.unwrap().unwrap();
        let asked = ledger.look_up(&may, &now).await.unwrap();
        assert_eq!((asked.said, asked.operation.state.name()), (Said::SaysNothing, "unknown"));
        clock.forward(Duration::from_secs(600));
    }
    assert_eq!((first.effects(), elsewhere.effects()), (1, 0));
}
