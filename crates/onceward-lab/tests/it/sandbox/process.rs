//! A sandbox in a process of its own, killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use onceward_lab::sandbox::{Faults, SandboxConfig, SandboxContract, serve};
use serde_json::json;

use super::Ask;

/// Set for the process that is to be killed: the file it serves.
const CHILD_DATABASE: &str = "ONCEWARD_TEST_SANDBOX_DATABASE";
const NAME: &str = "sandbox::process::a_killed_sandbox_has_kept_what_it_committed";
const ANNOUNCED: &str = "sandbox listens on ";

/// This test binary again, as a sandbox.
struct Process {
    child: Child,
    address: std::net::SocketAddr,
}

impl Process {
    fn start(database: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args([NAME, "--exact", "--nocapture"])
            .env(CHILD_DATABASE, database)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(ANNOUNCED)?.1.to_owned()))
            .expect("it announces itself");
        Self { child, address: address.parse().expect("an address") }
    }

    /// SIGKILL: no handler runs, nothing is flushed by the process.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

#[tokio::test]
async fn a_killed_sandbox_has_kept_what_it_committed() {
    if let Some(database) = std::env::var_os(CHILD_DATABASE) {
        let config = SandboxConfig {
            listen: "127.0.0.1:0".parse().expect("an address"),
            database: database.into(),
            contract: SandboxContract::default(),
            faults: Faults::none(),
        };
        serve(config, |address| println!("\n{ANNOUNCED}{address}")).await.expect("serves until it is killed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("sandbox.db");
    let process = Process::start(&database);
    let ticket = Ask::ticket("Printer").key("k");
    let lost = ticket.clone().fault("lose_reply_after_commit").send(process.address).await;
    assert_eq!(lost.bytes, b"");
    let unfinished = Ask::ticket("Late").fault("delay_before_commit;ms=600000").begin(process.address).await;
    loop {
        let log = Ask::get("/admin/requests").send(process.address).await.json();
        if log["count"] == 2 {
            break;
        }
    }
    process.kill();
    drop(unfinished);

    let process = Process::start(&database);
    let report = Ask::get("/admin/effects").send(process.address).await.json();
    assert_eq!((&report["count"], &report["requests"]), (&json!(1), &json!(2)));
    let again = ticket.send(process.address).await;
    assert_eq!((again.id().as_str(), again.is_replay()), ("T-1001", true));
    let log = Ask::get("/admin/requests").send(process.address).await.json();
    assert_eq!(log["requests"][1]["status"], json!(null), "the log shows what was under way when the process ended");
    process.kill();
}
