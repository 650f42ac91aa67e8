//! Cases that need processes of their own: they share one ledger file, are killed, and are stopped and woken.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use onceward::core::classify::{Body, Observed};
use onceward::core::contract::Contract;
use onceward::core::key::OperationKey;
use onceward::core::outcome::Outcome;
use onceward::core::receipt::{Answer, Receipt};
use onceward::core::state::State;
use onceward::decisions::{Choice, Reason};
use onceward::destination::{Destination, Dispatch};
use onceward::local::execute_local;
use onceward::sqlite::{Effect, LocalError};
use onceward::store::BoxFuture;
use onceward::{Intervals, Ledger};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::stage::{PATIENCE, Stage, allowed, call, decide, operator, until};

const PART: &str = "ONCEWARD_CASE_PART";
const FOLDER: &str = "ONCEWARD_CASE_FOLDER";
const NAME: &str = "ONCEWARD_CASE_NAME";

/// Starts this test binary again, to play one part.
fn start(part: &str, folder: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cases::process::a_process_of_a_case", "--nocapture"])
        .envs([(PART, part), (NAME, name)])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a process of a case does; started by [`start`], and nothing by itself.
#[test]
fn a_process_of_a_case() {
    let Ok(part) = std::env::var(PART) else { return };
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let name = std::env::var(NAME).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::at(&folder);
        match part.as_str() {
            "writes" => writes(&stage, &folder, &name).await,
            "stops" => {
                let ledger = stage.silent_ledger().await;
                external(&ledger, &folder, "op-1", End::WhenTold).await;
            }
            "external" => {
                let ledger = stage.silent_ledger().await;
                external(&ledger, &folder, &name, End::of(&name)).await;
            }
            "local" => {
                let ledger = stage.silent_ledger().await;
                local(&ledger, &stage, &name, End::of(&name)).await;
            }
            other => panic!("no such part: {other}"),
        }
    });
}

/// How an effect ends; whether before or after it was had is in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    CrashBefore,
    CrashAfter,
    ThrowBefore,
    ThrowAfter,
    ErrorBefore,
    ErrorAfter,
    WhenTold,
}

impl End {
    const BAD: [Self; 6] =
        [Self::CrashBefore, Self::CrashAfter, Self::ThrowBefore, Self::ThrowAfter, Self::ErrorBefore, Self::ErrorAfter];

    fn of(name: &str) -> Self {
        let name = name.trim_start_matches("local-");
        Self::BAD.into_iter().find(|end| format!("{end:?}") == name).unwrap_or(Self::Well)
    }

    fn crash(self, here: Self) {
        if self == here {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
    }
}

/// Writes each effect as a line of a file, and ends as it is told.
struct Lines {
    contract: Contract,
    folder: PathBuf,
    end: End,
}

impl Lines {
    fn new(folder: &Path, end: End) -> Arc<Self> {
        let contracts = onceward::core::contract::built_in().unwrap();
        let contract = contracts.into_iter().find(|one| one.id == "none").unwrap();
        Arc::new(Self { contract, folder: folder.to_owned(), end })
    }

    fn write(&self, operation: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.folder.join("effects")).unwrap();
        file.write_all(format!("{operation}\n").as_bytes()).unwrap();
    }
}

fn lines(folder: &Path, operation: &str) -> usize {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().filter(|line| *line == operation).count()
}

impl Destination for Lines {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "file"
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async move {
            self.end.crash(End::CrashBefore);
            assert!(self.end != End::ThrowBefore, "the client panics before it has sent");
            let operation = dispatch.key().id.as_str();
            if self.end == End::ErrorBefore {
                return error();
            }
            self.write(operation);
            self.end.crash(End::CrashAfter);
            assert!(self.end != End::ThrowAfter, "the client panics after it has sent");
            match self.end {
                End::ErrorAfter => error(),
                End::WhenTold => {
                    wait_for(|| self.folder.join("go").exists()).await;
                    answer(&format!("late {operation}"))
                }
                _ => answer(operation),
            }
        })
    }
}

fn error() -> Observed {
    Observed::Http { status: 503, headers: Vec::new(), body: Body::Whole(Vec::new()) }
}

fn answer(name: &str) -> Observed {
    Observed::Http {
        status: 201,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Body::Whole(json!({"id": name}).to_string().into_bytes()),
    }
}

async fn external(ledger: &Ledger, folder: &Path, operation: &str, end: End) -> Outcome {
    let told = ledger.execute(&allowed(), call(operation, "printer"), Lines::new(folder, end), PATIENCE).await;
    told.unwrap().outcome
}

async fn local(ledger: &Ledger, stage: &Stage, operation: &str, end: End) -> Option<Outcome> {
    let name = operation.to_owned();
    let received_at = ledger.clock().now();
    let effect: Effect = Box::new(move |transaction| {
        end.crash(End::CrashBefore);
        assert!(end != End::ThrowBefore, "a bug of the application");
        if end == End::ErrorBefore {
            return Err(LocalError::because("503"));
        }
        transaction.execute("INSERT INTO effect (operation) VALUES (?1)", [&name])?;
        end.crash(End::CrashAfter);
        assert!(end != End::ThrowAfter, "a bug of the application");
        if end == End::ErrorAfter {
            return Err(LocalError::because("503"));
        }
        Ok(Receipt { effect_id: None, answer: Answer::json(&json!({"id": name})), received_at })
    });
    let store = stage.store();
    execute_local(ledger, &store, &allowed(), &call(operation, "printer"), effect).await.ok().map(|told| told.outcome)
}

fn key(operation: &str) -> OperationKey {
    call(operation, "").key(&allowed())
}

/// One time for lock and record, a claim that is deleted when its handler throws, and errors that are kept for a day: a table
/// of what each end leaves, and that none of them frees an identity whose effect may exist.
#[tokio::test(flavor = "multi_thread")]
async fn r054_no_crash_throw_or_error_frees_an_identity_after_a_possible_effect() {
    let own = tempfile::tempdir().unwrap();
    let folder = own.path();
    let stage = Stage::at(folder);
    let undertaker = stage.undertaker().await;
    let rows = rusqlite::Connection::open(stage.file()).unwrap();
    rows.execute_batch("CREATE TABLE effect (operation TEXT NOT NULL)").unwrap();
    let count = |operation: &str| -> i64 {
        rows.query_row("SELECT count(*) FROM effect WHERE operation = ?1", [operation], |row| row.get(0)).unwrap()
    };
    for end in End::BAD {
        let operation = format!("{end:?}");
        // External: whatever may have been sent is unknown, and is not sent again.
        ended(start("external", folder, &operation), end);
        until(&undertaker, &operation, |operation| operation.state.name() == "unknown").await;
        let before = lines(folder, &operation);
        for _ in 0..2 {
            assert_eq!(external(&undertaker, folder, &operation, End::Well).await, Outcome::Unknown, "{operation}");
        }
        assert_eq!(lines(folder, &operation), before, "{operation}: sent again");
        // Local: nothing is left, neither effect nor claim, and the retry does it.
        let operation = format!("local-{operation}");
        ended(start("local", folder, &operation), end);
        assert_eq!((count(&operation), undertaker.store().get(&key(&operation)).await.unwrap()), (0, None));
        assert_eq!(local(&undertaker, &stage, &operation, End::Well).await, Some(Outcome::Executed), "{operation}");
        assert_eq!(local(&undertaker, &stage, &operation, End::Well).await, Some(Outcome::Replayed), "{operation}");
        assert_eq!(count(&operation), 1, "{operation}");
    }
}

fn ended(child: Child, end: End) {
    let output = child.wait_with_output().unwrap();
    let killed = matches!(end, End::CrashBefore | End::CrashAfter);
    assert_eq!(output.status.success(), !killed, "{end:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The owner is stopped in the middle of its dispatch, another settles the operation, and the owner goes on.
#[tokio::test(flavor = "multi_thread")]
async fn r049_a_process_that_was_stopped_and_goes_on_overwrites_nothing() {
    let own = tempfile::tempdir().unwrap();
    let folder = own.path();
    let stage = Stage::at(folder);
    let undertaker = stage.undertaker().await;
    let stopped = start("stops", folder, "A");
    let pid = Pid::from_child(&stopped);
    wait_for(|| lines(folder, "op-1") == 1).await;
    kill_process(pid, Signal::STOP).unwrap();
    until(&undertaker, "op-1", |operation| operation.state.name() == "unknown").await;
    let choice = Choice::ConfirmedDone { effect_id: None, answer: Answer::json(&json!({"id": "B"})) };
    decide(&undertaker, &operator(), "op-1", choice, Reason::SeenAtDestination).await.unwrap();
    std::fs::write(folder.join("go"), "").unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    let output = stopped.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let operation = until(&undertaker, "op-1", |operation| operation.history.disagreement.is_some()).await;
    let State::Succeeded(success) = &operation.state else { panic!("{operation:?}") };
    assert_eq!(success.answer.present().unwrap().body_json().unwrap(), json!({"id": "B"}), "the receipt stays");
    let journal = undertaker.store().journal(&operation.key, 0, 100).await.unwrap();
    let kept = journal.iter().filter_map(|entry| entry.detail.as_ref()).any(|detail| detail.contains("late op-1"));
    assert!(kept, "and the late answer is evidence");
    assert_eq!(external(&undertaker, folder, "op-1", End::Well).await, Outcome::Replayed);
    assert_eq!(lines(folder, "op-1"), 1);
}

const PROCESSES: usize = 8;
const ROUNDS: usize = 10;
const AT_ONCE: usize = 8;

async fn writes(stage: &Stage, folder: &Path, name: &str) {
    let calm = Duration::from_secs(60);
    let ledger = stage.ledger_with(Intervals { beat: calm, silence: calm, sweep: calm }).await;
    for round in 0..ROUNDS {
        let calls: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let (ledger, folder) = (ledger.clone(), folder.to_owned());
                let operation = format!("{name}-{round}-{n}");
                tokio::spawn(async move { external(&ledger, &folder, &operation, End::Well).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), Outcome::Executed);
        }
    }
}

/// Eight writers of one file, of whom the busy database drops some.
#[tokio::test(flavor = "multi_thread")]
async fn r104_eight_processes_on_one_new_file_lose_no_record_and_none_is_told_busy() {
    let own = tempfile::tempdir().unwrap();
    let folder = own.path();
    let children: Vec<_> = (0..PROCESSES).map(|n| start("writes", folder, &n.to_string())).collect();
    for child in children {
        ended(child, End::Well);
    }
    let ledger = Stage::at(folder).ledger().await;
    for process in 0..PROCESSES {
        for (round, n) in (0..ROUNDS).flat_map(|round| (0..AT_ONCE).map(move |n| (round, n))) {
            let operation = format!("{process}-{round}-{n}");
            let found = ledger.store().get(&key(&operation)).await.unwrap();
            assert_eq!(found.map(|found| found.state.name()), Some("succeeded"), "{operation}");
            assert_eq!(lines(folder, &operation), 1, "{operation}");
        }
    }
}

/// A run is started in the gap between its acceptance and its first record.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn r022_a_kill_between_acceptance_and_claim_leaves_one_run_for_the_retry() {
    use crate::kill::{FileOfEffects, killed};
    let gap = ["execute::before_claim", "sqlite::before_begin", "sqlite::after_write_before_commit"];
    for place in gap {
        for hit in 1..=3 {
            let own = tempfile::tempdir().unwrap();
            assert!(killed(own.path(), place, hit), "{place} was not reached");
            let stage = Stage::at(own.path());
            let effects = Arc::new(FileOfEffects::new(own.path().join("effects")));
            let ledger = stage.undertaker().await;
            for operation in ["op-1", "op-2", "op-3"] {
                let found = ledger.store().get(&key(operation)).await.unwrap();
                let (done, claimed) = (effects.count(operation), found.is_some());
                assert!(claimed || done == 0, "{place} {hit}: {operation} ran without a record");
                if claimed {
                    continue;
                }
                for outcome in [Outcome::Executed, Outcome::Replayed] {
                    let told = ledger.execute(&allowed(), call(operation, "printer"), effects.clone(), PATIENCE).await;
                    assert_eq!(told.unwrap().outcome, outcome, "{place} {hit}: {operation}");
                }
                assert_eq!(effects.count(operation), 1, "{place} {hit}: {operation}");
            }
        }
    }
}

async fn wait_for(wanted: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !wanted() {
        assert!(tokio::time::Instant::now() < deadline, "it did not come to what was wanted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
