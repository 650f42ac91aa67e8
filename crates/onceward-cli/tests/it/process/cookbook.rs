//! The pages of the cookbook, run to the letter: every block of shell, in order, in one shell, in an empty folder.
//!
//! They name the gateway's usual ports, so one of them runs at a time, and nothing else may listen there.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use onceward_cluster::Database;
use onceward_ledger::clock::{Clock as _, SystemClock};

use super::packages::packages;

/// Longer than a newcomer waits.
const WITHIN: Duration = Duration::from_secs(120);

/// What stands in the blocks of shell of a page.
fn script(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cookbook").join(page);
    let text = std::fs::read_to_string(path).expect("the page");
    let mut script = String::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => {
                script.push_str(line);
                script.push('\n');
            }
            (false, _) => {}
        }
    }
    assert!(script.lines().count() > 10, "{page} has no script");
    script
}

/// Runs a page. `pip install onceward` finds the wheel that was just built.
fn follow(page: &str, variables: &[(&str, &str)]) {
    for port in [7070, 7071, 7080] {
        let free = TcpListener::bind(("127.0.0.1", port));
        assert!(free.is_ok(), "port {port} is taken: {page} names it, as a reader finds it; end what listens there");
    }
    let folder = tempfile::tempdir().expect("an empty folder");
    let began = SystemClock.uptime();
    let mut shell = Command::new("timeout");
    // With the shell everything that it started ends, also where a block fails in the middle.
    shell.args(["--kill-after=5", &WITHIN.as_secs().to_string(), "bash", "-euc", &script(page)]);
    for name in ["ONCEWARD_URL", "ONCEWARD_TOKEN", "ONCEWARD_TOKEN_FILE", "VIRTUAL_ENV"] {
        shell.env_remove(name);
    }
    let output = shell
        .current_dir(folder.path())
        .envs(variables.iter().copied())
        .env("PIP_FIND_LINKS", packages())
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("ONCEWARD_LOG", "warn")
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    let took = SystemClock.uptime().saturating_sub(began);
    let log = std::fs::read_to_string(folder.path().join("gateway.log")).unwrap_or_default();
    let said = format!("{}{}{log}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    stop_what_is_left(folder.path());
    assert!(output.status.success(), "{page} ended with {}: {said}", output.status);
    println!("{said}\n{page}: {:.1} s", took.as_secs_f64());
    assert!(took < WITHIN);
}

/// A page that failed has not stopped its gateway. It is the one whose working folder this is.
fn stop_what_is_left(folder: &Path) {
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        if std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)) {
            let _ = Command::new("kill").arg(entry.file_name()).stderr(Stdio::null()).status();
        }
    }
}

#[test]
fn before_mcp_servers_one_note_is_made() {
    follow("mcp-servers.md", &[]);
}

#[test]
fn behind_a_vendors_own_client_one_payment_is_made() {
    follow("vendor-sdk.md", &[]);
}

#[test]
fn an_own_function_makes_one_report() {
    follow("own-function.md", &[]);
}

#[test]
fn an_own_table_has_one_row() {
    let database = Database::make().expect("a database");
    follow("own-table.md", &[("DATABASE_URL", database.url())]);
}
