//! Services in other languages, by the SQL contract. Each is a shop whose orders are rows of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use onceward_core::state::State;
use serde_json::{Value, json};

use crate::contract::{Contract, shop};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn environment(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} names what is installed; `cargo xtask test` does that"))
        .into()
}

/// Runs it as the role of a shop, and gives what it saw.
fn run(command: &mut Command, address: &str) -> Value {
    let done = command.env("DATABASE", address).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// What every service must see, and what the ledger has of it. Its operations begin with `prefix`.
async fn holds(prefix: &str, seen: &Value, contract: &Contract) {
    let lost = seen["lost_reply"].as_array().unwrap();
    assert_eq!(lost.len(), 20);
    assert!(lost.contains(&json!("replay")), "some of the commits must have arrived: {lost:?}");
    assert_eq!(seen["known_reply"], json!(["run", "replay", true, 1]));
    assert_eq!(seen["rollback"], json!(["run", 0, "run", 1]));
    assert_eq!(seen["conflict"], json!(["conflict", 1]));
    assert_eq!(seen["version"], json!(["compare", "1", "replay"]));
    assert_eq!(seen["keyed"], json!(["run", "replay", "compare", 7]));
    assert_eq!(seen["wrong"], json!("the fingerprint is not the one of these arguments"));
    assert_eq!(seen["concurrency"], json!([1, 15, 1, 1]));
    let unfinished = format!("operation acme/{prefix}-unfinished is begun and not finished");
    assert_eq!(seen["unfinished"], json!(["run", unfinished, "run", 1]));

    let ids = contract.database.sql("SELECT operation_id FROM onceward.operation").unwrap();
    assert_eq!(ids.lines().count(), 27, "twenty, and one of each other kind");
    for id in ids.lines() {
        let (operation, entries) = contract.verified(id).await;
        let State::Succeeded(done) = &operation.state else { panic!("{id}: {:?}", operation.state) };
        assert_eq!(entries.len(), 3, "{id}");
        let answer = done.answer.present().unwrap().body_json().unwrap();
        let row = contract.database.sql(&format!("SELECT id FROM orders WHERE operation = '{id}'")).unwrap();
        assert_eq!(answer, json!({ "order": row }), "{id}: one order, and its receipt names it");
    }
    assert_eq!(contract.database.sql("SELECT count(*) FROM onceward.begun").unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_in_python_has_its_rows_and_their_receipts_in_one_commit() {
    let contract = Contract::open().await;
    let address = shop(&contract.database);
    let python = environment("ONCEWARD_VENV_PG").join("bin/python");
    let seen = run(Command::new(python).arg(root().join("tests/python/pg_local.py")), &address);
    holds("py", &seen, &contract).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_in_node_has_its_rows_and_their_receipts_in_one_commit() {
    let contract = Contract::open().await;
    let address = shop(&contract.database);
    let script = root().join("tests/node/pg/pg_local.cjs");
    let packages = environment("ONCEWARD_NODE_PG");
    let seen = run(Command::new("node").arg(script).env("PACKAGES", packages), &address);
    holds("js", &seen, &contract).await;
}
