//! The clients that hosts are made of, unchanged, against real processes. `cargo xtask test` installs them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Server, TICKET, ask, break_next_ticket, tickets, token_on_file};

/// Where the gateway puts its own words into a result.
const OURS: &str = "dev.onceward/operation";

/// A sandbox, tokens, and a gateway before it, unless a host starts its own.
pub(super) struct World {
    pub(super) folder: tempfile::TempDir,
    pub(super) sandbox: Server,
    gateway: Option<Server>,
    pub(super) token: String,
    pub(super) operator: String,
}

impl World {
    pub(super) fn start() -> Self {
        let ground = Self::without_a_gateway();
        let gateway = Some(Server::gateway(ground.folder.path()));
        Self { gateway, ..ground }
    }

    fn without_a_gateway() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let sandbox = Server::sandbox(folder.path());
        std::fs::write(folder.path().join("onceward.toml"), configuration(&sandbox.url)).expect("written");
        let token = token_on_file(folder.path(), "agent", "agent");
        let operator = token_on_file(folder.path(), "ines", "operator");
        Self { folder, sandbox, gateway: None, token, operator }
    }

    pub(super) fn gateway(&self) -> &Server {
        self.gateway.as_ref().expect("this world has one")
    }

    /// How a client reaches the gateway.
    fn way_in(&self) -> (&'static str, String) {
        match &self.gateway {
            Some(gateway) => ("GATEWAY", gateway.url.clone()),
            None => {
                let command = [env!("CARGO_BIN_EXE_onceward"), "serve", "--stdio", "--listen", "127.0.0.1:0"];
                ("COMMAND", json!(command).to_string())
            }
        }
    }

    /// An operator has found the ticket in the helpdesk, and says so.
    fn confirm(&self, operation: &str) {
        let receipt = r#"{"id":"T-1001"}"#;
        let found = ["--effect-id", "T-1001", "--receipt", receipt, "--evidence", "found T-1001 in the helpdesk"];
        let why = ["--reason", "seen_at_destination", "--yes"];
        let arguments = [&["decide", operation, "--choice", "confirmed_done"][..], &found, &why].concat();
        let decided = ask(self.folder.path(), self.gateway(), &self.operator, &arguments);
        assert_eq!(decided.code, 0, "{decided:?}");
    }

    /// Runs a script with what it reads, and gives what it prints.
    pub(super) fn python(&self, environment: &str, script: &str, input: &Value) -> Value {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let venv = std::env::var_os(format!("ONCEWARD_VENV_{}", environment.to_uppercase()))
            .map_or_else(|| root.join("target/venv").join(environment), PathBuf::from);
        let python = venv.join("bin/python");
        assert!(python.exists(), "no {}: `cargo xtask test` makes it", python.display());
        let mut child = Command::new(python)
            .arg(root.join("tests/python").join(script))
            .current_dir(self.folder.path())
            .envs([self.way_in()])
            .env("TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut to = child.stdin.take().expect("its input");
        to.write_all(input.to_string().as_bytes()).expect("written");
        drop(to);
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned).unwrap_or_default();
        serde_json::from_str(&last).unwrap_or_else(|error| panic!("{script}: {error}: {last:?}\n{errors}"))
    }

    /// Lets an official client make these calls.
    fn client(&self, client: &Client, calls: &Value) -> Vec<Value> {
        let told = self.python(client.environment, client.script, calls);
        assert_eq!(told["version"], client.version);
        assert!(told["tools"].as_array().expect("tools").contains(&json!("check_operation_status")));
        told["seen"].as_array().expect("one for each call").clone()
    }
}

/// Two destinations at one sandbox: one of which nothing is promised, and one that recognises keys.
fn configuration(sandbox: &str) -> String {
    let tool = |destination: &str, name: &str| {
        format!(
            "[destination.{destination}.tool.{name}]\ndescription = \"Opens a helpdesk ticket.\"\nwithout_identity = \"hold\"\n\
             request = {{ method = \"POST\", path = \"/tickets\", body = \"arguments\" }}\neffect_id = \"/id\"\n\
             schema = {{ type = \"object\", required = [\"title\", \"body\"] }}\n\n"
        )
    };
    format!(
        "version = 1\nledger = \"sqlite:ledger.db\"\n\n\
         [destination.plain]\nurl = \"{sandbox}\"\ncontract = \"none\"\n\n{}\
         [destination.keyed]\nurl = \"{sandbox}\"\n\n{}\
         [destination.keyed.contract]\nversion = 1\n\
         key = {{ carriers = [{{ in = \"header\", name = \"Idempotency-Key\" }}], sdk_may_invent_key = false }}\n\
         same_input = {{ behaviour = \"replays_stored\", saved = {{ 2xx = \"stored\", 500 = \"stored\" }} }}\n\
         in_flight = {{ behaviour = \"rejects\", statuses = [409] }}\n\
         horizon = {{ kind = \"indefinite\" }}\n\
         execution = {{ refused_before_effect = [400, 404, 413, 415], effect_atomic_with_key = true }}\n\
         provenance = {{ confidence = \"operated\" }}\n",
        tool("plain", "create_ticket"),
        tool("keyed", "create_keyed_ticket"),
    )
}

/// An official client, and the protocol revision that it comes to.
struct Client {
    environment: &'static str,
    script: &'static str,
    version: &'static str,
}

const CLIENTS: [Client; 2] = [
    Client { environment: "mcp1", script: "mcp1.py", version: "2025-11-25" },
    Client { environment: "mcp2", script: "mcp2.py", version: "2026-07-28" },
];

fn arguments() -> Value {
    serde_json::from_str(TICKET).expect("JSON")
}

/// What the caller was given as the thing itself.
fn given(seen: &Value) -> &Value {
    assert_eq!(seen["result"]["isError"], false, "{seen}");
    &seen["result"]["structuredContent"]
}

#[tokio::test]
async fn a_lost_reply_is_found_again_by_its_operation_id_where_the_destination_recognises_keys() {
    for client in CLIENTS {
        let world = World::start();
        break_next_ticket(&world.sandbox.url, "lose_reply_after_commit").await;
        let call = json!({ "tool": "create_keyed_ticket", "arguments": arguments(), "operation_id": "op-1" });
        let seen = world.client(&client, &json!([call, call]));
        assert_eq!(given(&seen[0])["id"], "T-1001");
        assert_eq!(given(&seen[1]), given(&seen[0]), "the repetition returns the receipt");
        assert_eq!(seen[1]["result"]["_meta"][OURS]["outcome"], "replayed");
        // The second request is the gateway's own, with the same key; the sandbox recognised it.
        assert_eq!(tickets(&world.sandbox.url).await, (1, 2), "{}", client.script);
    }
}

#[tokio::test]
async fn a_lost_reply_stays_unknown_where_nothing_is_promised_and_no_repetition_is_sent() {
    for client in CLIENTS {
        let world = World::start();
        break_next_ticket(&world.sandbox.url, "lose_reply_after_commit").await;
        let call = json!({ "tool": "create_ticket", "arguments": arguments(), "operation_id": "op-1" });
        let status = json!({ "tool": "check_operation_status", "arguments": { "operation_id": "op-1" } });
        let seen = world.client(&client, &json!([call, call, status]));
        for seen in &seen[..2] {
            assert_eq!(seen["result"]["isError"], true, "{seen}");
            assert_eq!(seen["result"]["structuredContent"]["outcome"], "unknown");
        }
        for part in ["content", "structuredContent"] {
            assert_eq!(seen[0]["result"][part], seen[1]["result"][part], "told the same");
        }
        assert_eq!(given(&seen[2])["outcome"], "unknown");
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{}", client.script);

        // A person settles it, and the client's next call gets the receipt.
        world.confirm("op-1");
        let after = world.client(&client, &json!([call]));
        assert_eq!(given(&after[0])["id"], "T-1001");
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{}", client.script);
    }
}

#[tokio::test]
async fn a_client_that_gives_up_on_a_slow_call_gets_its_receipt_by_calling_again() {
    for client in CLIENTS {
        let world = World::start();
        break_next_ticket(&world.sandbox.url, "delay_before_commit;ms=8000").await;
        let call = |patience: u32| {
            let arguments = arguments();
            json!({ "tool": "create_ticket", "arguments": arguments, "operation_id": "op-1", "patience": patience })
        };
        let seen = world.client(&client, &json!([call(2), call(30), call(30)]));
        assert!(seen[0]["gave_up"].is_string(), "{}", seen[0]);
        assert_eq!(given(&seen[1])["id"], "T-1001");
        assert_eq!(given(&seen[2]), given(&seen[1]));
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{}", client.script);
    }
}

#[tokio::test]
async fn a_client_that_starts_the_gateway_itself_finds_a_lost_reply_in_the_next_session() {
    for client in CLIENTS {
        let world = World::without_a_gateway();
        break_next_ticket(&world.sandbox.url, "lose_reply_after_commit").await;
        let call = json!({ "tool": "create_ticket", "arguments": arguments(), "operation_id": "op-1" });
        // Each is a host with a gateway process of its own, one after the other on one ledger.
        let first = world.client(&client, &json!([call]));
        let again = world.client(&client, &json!([call]));
        assert_eq!(first[0]["result"]["structuredContent"]["outcome"], "unknown", "{first:?}");
        assert_eq!(again[0]["result"]["structuredContent"], first[0]["result"]["structuredContent"]);
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{}", client.script);
    }
}

/// What the scripted model of an agent saw after each of its calls.
fn agent(world: &World, pauses: &[u32]) -> Vec<String> {
    let plan = json!({ "tool": "create_ticket", "arguments": arguments(), "pauses": pauses });
    let told = world.python("agents", "agents_host.py", &plan);
    let saw = told["saw"].as_array().expect("what it saw").iter();
    saw.map(|output| output.as_str().map_or_else(|| output.to_string(), str::to_owned)).collect()
}

#[tokio::test]
async fn an_agent_whose_framework_gives_up_after_five_seconds_makes_one_ticket_however_often_it_repeats() {
    let world = World::start();
    break_next_ticket(&world.sandbox.url, "delay_before_commit;ms=8000").await;
    // The first repetition comes while the call still runs, the second after it has settled.
    let saw = agent(&world, &[0, 0, 6]);
    assert_eq!(saw.len(), 3, "{saw:#?}");
    assert!(!saw[0].contains("T-1001"), "the framework gave up: {}", saw[0]);
    for repetition in &saw[1..] {
        assert!(repetition.contains("possible_duplicate"), "{repetition}");
    }
    assert!(saw[2].contains("T-1001") && saw[2].contains("receipt"), "{}", saw[2]);
    assert_eq!(tickets(&world.sandbox.url).await, (1, 1));
}

#[tokio::test]
async fn an_agent_without_identity_that_repeats_after_a_lost_reply_makes_one_ticket() {
    let world = World::start();
    break_next_ticket(&world.sandbox.url, "lose_reply_after_commit").await;
    let saw = agent(&world, &[0, 0]);
    assert!(saw[0].contains("may have happened"), "{}", saw[0]);
    assert!(saw[1].contains("possible_duplicate"), "{}", saw[1]);
    assert_eq!(tickets(&world.sandbox.url).await, (1, 1));
}
