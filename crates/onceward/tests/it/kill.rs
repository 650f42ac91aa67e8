//! A process killed at every durable step, at the first, second and third time it comes there; and what the next one finds.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onceward::Intervals;
use onceward::core::classify::{Body, Observed};
use onceward::core::contract::Contract;
use onceward::core::key::{OperationKey, TenantId};
use onceward::core::outcome::Outcome;
use onceward::core::state::State;
use onceward::destination::{Destination, Dispatch};
use onceward::store::BoxFuture;
use serde_json::json;

use crate::stage::{PATIENCE, Stage, allowed, call, id};

/// Every named place on the way of an operation. The list is checked against the sources below.
const PLACES: [&str; 10] = [
    "execute::before_claim",
    "execute::after_claim",
    "drive::before_send",
    "drive::after_send",
    "settle::before",
    "settle::after",
    "recover::before",
    "sqlite::before_begin",
    "sqlite::after_write_before_commit",
    "sqlite::after_commit_before_reply",
];

const OPERATIONS: [&str; 3] = ["op-1", "op-2", "op-3"];

/// Writes each effect as a line of a file: what is there was done, whoever is killed.
pub(crate) struct FileOfEffects {
    contract: Contract,
    file: PathBuf,
}

impl FileOfEffects {
    pub(crate) fn new(file: PathBuf) -> Self {
        let contracts = onceward::core::contract::built_in().unwrap();
        Self { contract: contracts.into_iter().find(|one| one.id == "none").unwrap(), file }
    }

    pub(crate) fn count(&self, operation: &str) -> usize {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter(|line| *line == operation).count()
    }
}

impl Destination for FileOfEffects {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn scope(&self) -> &str {
        "file"
    }

    fn send<'a>(&'a self, dispatch: Dispatch) -> BoxFuture<'a, Observed> {
        Box::pin(async move {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.file).unwrap();
            file.write_all(format!("{}\n", dispatch.key().id).as_bytes()).unwrap();
            Observed::Http {
                status: 201,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: Body::Whole(json!({"id": dispatch.key().id.as_str()}).to_string().into_bytes()),
            }
        })
    }
}

/// What the killed process does; run by [`killed`] in a process of its own, and nothing by itself.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var("ONCEWARD_KILL_FOLDER") else { return };
    let place = std::env::var("ONCEWARD_KILL_PLACE").unwrap();
    let hit: u32 = std::env::var("ONCEWARD_KILL_HIT").unwrap().parse().unwrap();
    let seen = AtomicU32::new(0);
    let scenario = fail::FailScenario::setup();
    fail::cfg_callback(place, move || {
        if seen.fetch_add(1, Ordering::SeqCst) + 1 == hit {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::at(Path::new(&folder));
        let ledger = stage.undertaker().await;
        let effects = Arc::new(FileOfEffects::new(Path::new(&folder).join("effects")));
        for operation in OPERATIONS {
            drop(ledger.execute(&allowed(), call(operation, "printer"), effects.clone(), PATIENCE).await);
        }
    });
    scenario.teardown();
}

/// Runs that process until it is killed at the place, or ends because it does not come there so often.
pub(crate) fn killed(folder: &Path, place: &str, hit: u32) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_process_that_is_killed", "--nocapture"])
        .env("ONCEWARD_KILL_FOLDER", folder)
        .env("ONCEWARD_KILL_PLACE", place)
        .env("ONCEWARD_KILL_HIT", hit.to_string())
        .output()
        .unwrap()
        .status;
    assert!(status.success() || status.signal() == Some(9), "{place} hit {hit}: {status}");
    !status.success()
}

/// What the next process finds, and what a repetition of every call then comes to.
async fn check(folder: &Path, place: &str, hit: u32) {
    let stage = Stage::at(folder);
    let effects = Arc::new(FileOfEffects::new(folder.join("effects")));
    let ledger = stage
        .ledger_with(Intervals {
            beat: Duration::from_millis(20),
            silence: Duration::from_millis(60),
            sweep: Duration::from_millis(10),
        })
        .await;
    for operation in OPERATIONS {
        let name = format!("{operation} after {place} hit {hit}");
        let key = OperationKey { tenant: TenantId::parse("acme").unwrap(), id: id(operation) };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let found = loop {
            match ledger.store().get(&key).await.unwrap() {
                Some(found) if matches!(found.state, State::Pending(_)) => {
                    assert!(tokio::time::Instant::now() < deadline, "{name}: stuck");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                found => break found,
            }
        };
        let done = effects.count(operation);
        let state = found.as_ref().map_or("absent", |found| found.state.name());
        match state {
            "absent" | "approved" => assert_eq!(done, 0, "{name}: {state}"),
            "unknown" => assert!(done <= 1, "{name}: {state}"),
            "succeeded" => assert_eq!(done, 1, "{name}: {state}"),
            _ => panic!("{name}: {state} is not allowed"),
        }
        if let Some(found) = &found {
            let journal = ledger.store().journal(&found.key, 0, 1000).await.unwrap();
            onceward::core::journal::verify(&journal, found.journal).unwrap();
        }
        let told = ledger.execute(&allowed(), call(operation, "printer"), effects.clone(), PATIENCE).await.unwrap();
        match state {
            "unknown" => {
                assert_eq!(told.outcome, Outcome::Unknown, "{name}");
                assert_eq!(effects.count(operation), done, "{name}: sent again");
            }
            _ => {
                assert!(told.outcome.is_success(), "{name}: {:?}", told.outcome);
                assert_eq!(effects.count(operation), 1, "{name}");
                assert_eq!(told.answer.unwrap().body_json().unwrap(), json!({"id": operation}), "{name}");
            }
        }
    }
}

#[test]
fn a_process_killed_at_every_durable_step_leaves_only_allowed_states() {
    for place in PLACES {
        for hit in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            // There is something to recover only after a first process was killed in its dispatch.
            let (before, hit_there) = match place {
                "recover::before" => (killed(folder.path(), "drive::after_send", hit), 1),
                _ => (true, hit),
            };
            assert!(before && killed(folder.path(), place, hit_there), "{place} was not reached {hit} times");
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(check(folder.path(), place, hit));
        }
    }
}

#[test]
fn every_failpoint_of_the_sources_is_in_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["onceward-ledger/src", "onceward-sqlite/src"] {
        for file in std::fs::read_dir(crates.join(name)).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
            for rest in text.split("fail_point!(\"").skip(1) {
                let (place, after) = rest.split_once('"').unwrap();
                // A point that only makes a call fail is not one to be killed at.
                if !after.starts_with(')') {
                    continue;
                }
                assert!(PLACES.contains(&place), "{place} is not killed at");
            }
        }
    }
}
