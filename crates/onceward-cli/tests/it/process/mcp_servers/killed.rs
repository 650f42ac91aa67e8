//! The server dies while it works. Its write is unknown, until evidence or a person settles it.

use std::time::Duration;

use super::super::{DEADLINE, Server};
use super::*;

/// A memory server that can be killed from within, and the gateway before it.
struct World {
    before: Before,
    memory: std::path::PathBuf,
    crash: std::path::PathBuf,
}

/// The marker goes into what is made, so that it is found again whatever else is like it.
const LOOKUP: &str = r#"
[mcp.memory.tool.create_entities]
marker = { at = "/entities/0/observations", how = "contains" }

[mcp.memory.tool.create_entities.contract]
version = 1
in_flight = { bound = "100ms" }
provenance = { confidence = "operated" }

[mcp.memory.tool.create_entities.lookup]
tool = "open_nodes"
args = { names = ["{/entities/0/name}"] }
items = "/entities"
recognise = [{ at = "/observations", how = "contains" }]
compare = [{ argument = "/entities/0/entityType", effect = "/entityType" }]
effect_id = "/name"
consistency = "strong"
absence_is_proof = "after_bound"
absences_required = 1
list_may_be_cut = false
"#;

impl World {
    fn start(tool: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (memory, crash) = (folder.path().join("memory.jsonl"), folder.path().join("crash"));
        let mut command = server("server-memory", &[]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/node/mcp/crash.cjs");
        command.splice(1..1, ["--require".to_owned(), script.canonicalize().expect("a path").display().to_string()]);
        let section = format!(
            "[mcp.memory]\ncommand = {}\nenv = {{ MEMORY_FILE_PATH = {:?}, CRASH = {:?} }}\nreads = {READS}\n{tool}",
            toml_list(&command),
            memory.display().to_string(),
            crash.display().to_string(),
        );
        Self { before: Before::start(folder, &section), memory, crash }
    }

    /// The next file that the server puts in place is its last.
    fn crash(&self, moment: &str) {
        std::fs::write(&self.crash, moment).expect("written");
    }

    async fn create(&self) -> Value {
        let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["writes programs"] });
        self.before.call("create_entities", &json!({ "entities": [entity] }), "ada-1").await
    }

    /// How many entities there are.
    fn entities(&self) -> usize {
        std::fs::read_to_string(&self.memory).unwrap_or_default().lines().count()
    }

    /// Repeats the call until it is told this; until then it is unknown, and nothing else.
    async fn until(&self, outcomes: &[&str]) -> Value {
        let repeating = async {
            loop {
                let told = self.create().await;
                match told["_meta"][OURS]["outcome"].as_str() {
                    Some(outcome) if outcomes.contains(&outcome) => return told,
                    Some(_) | None => assert_eq!(told["structuredContent"]["outcome"], "unknown", "{told}"),
                }
                // sleeps: the gateway looks in its own time.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(DEADLINE, repeating).await.expect("settled")
    }
}

/// What a lookup shows as the receipt does not fit what the tool says it answers: the words are the ledger's.
fn found(told: &Value) {
    assert_eq!((&told["isError"], &told["structuredContent"]["state"]), (&json!(true), &json!("succeeded")), "{told}");
    assert!(told["structuredContent"]["receipt"].to_string().contains("writes programs"), "{told}");
}

fn unknown(result: &Value) {
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["outcome"]),
        (&json!(true), &json!("unknown")),
        "{result}"
    );
}

/// What tells that it was done, whichever call hears of it first.
const DONE: [&str; 2] = ["recovered", "replayed"];

#[tokio::test]
async fn a_server_killed_after_it_wrote_leaves_an_unknown_that_a_lookup_settles() {
    let world = World::start(LOOKUP);
    world.crash("after");
    found(&world.until(&DONE).await);
    found(&world.until(&DONE).await);
    assert_eq!(world.entities(), 1);
}

#[tokio::test]
async fn a_server_killed_before_it_wrote_is_asked_finds_nothing_and_a_repetition_makes_the_one_effect() {
    let world = World::start(LOOKUP);
    world.crash("before");
    let told = world.until(&["executed"]).await;
    assert_eq!(told["_meta"][OURS]["attempts"], 2, "{told}");
    assert_eq!(world.entities(), 1);
    assert_eq!(world.until(&["replayed"]).await["structuredContent"], told["structuredContent"]);
}

#[tokio::test]
async fn a_server_killed_without_a_way_to_ask_leaves_an_unknown_that_a_person_decides() {
    let world = World::start("");
    world.crash("after");
    let first = world.create().await;
    unknown(&first);
    let again = world.create().await;
    unknown(&again);
    assert_eq!(world.entities(), 1, "a repetition is not sent to the server that is back");

    let receipt = r#"{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]}]}"#;
    let found = [
        "--effect-id",
        "Ada",
        "--receipt",
        receipt,
        "--evidence",
        "Ada is in the graph",
        "--reason",
        "seen_at_destination",
        "--yes",
    ];
    decide(&world.before, &[&["decide", "ada-1", "--choice", "confirmed_done"][..], &found].concat());
    let settled = world.create().await;
    assert_eq!(settled["isError"], false, "{settled}");
    assert_eq!(settled["structuredContent"], serde_json::from_str::<Value>(receipt).expect("JSON"));
    assert_eq!(world.entities(), 1);
}

#[tokio::test]
async fn a_gateway_killed_with_its_server_settles_the_write_when_it_is_back() {
    let world = World::start(LOOKUP);
    world.crash("after");
    let told = world.create().await;
    assert_ne!(told["_meta"][OURS]["outcome"], "executed", "{told}");
    let World { before: Before { folder, gateway, agent, operator, limited }, memory, crash } = world;
    gateway.kill();
    let gateway = Server::gateway(folder.path());
    let world = World { before: Before { folder, gateway, agent, operator, limited }, memory, crash };
    found(&world.until(&DONE).await);
    assert_eq!(world.entities(), 1);
}
