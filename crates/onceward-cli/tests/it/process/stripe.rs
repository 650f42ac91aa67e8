//! Stripe's own clients, unchanged, against real processes: the gateway before the sandbox, which speaks Stripe's interface.
//! `cargo xtask test` installs them. Their retries are on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{DEADLINE, Server, get, http, token_on_file};

const INTENTS: &str = "/v1/payment_intents";

/// One of Stripe's client libraries, and how it names what it raises.
struct Sdk {
    name: &'static str,
    conflict: &'static str,
    unknown: &'static str,
    declined: &'static str,
    stranger: &'static str,
}

const SDKS: [Sdk; 2] = [
    Sdk {
        name: "python",
        conflict: "IdempotencyError",
        unknown: "APIError",
        declined: "CardError",
        stranger: "AuthenticationError",
    },
    Sdk {
        name: "node",
        conflict: "StripeIdempotencyError",
        unknown: "StripeAPIError",
        declined: "StripeCardError",
        stranger: "StripeAuthenticationError",
    },
];

/// A shop's surroundings: Stripe, the gateway before it, and a token for the application.
struct World {
    folder: tempfile::TempDir,
    sandbox: Server,
    gateway: Server,
    token: String,
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let arguments = ["sandbox", "--listen", "127.0.0.1:0", "--db", "sandbox.db", "--contract", "stripe.v1"];
        let sandbox = Server::start(path, &arguments, "The sandbox listens on");
        std::fs::write(path.join("stripe.key"), "sk_test_acme").expect("written");
        std::fs::write(path.join("onceward.toml"), configuration(&sandbox.url)).expect("written");
        let token = token_on_file(path, "shop", "agent");
        let gateway = Self::gateway(path);
        Self { folder, sandbox, gateway, token }
    }

    fn gateway(folder: &Path) -> Server {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", "onceward.toml"];
        Server::start(folder, &arguments, "The proxy for stripe is at")
    }

    fn base(&self) -> &str {
        let (_, address) = self.gateway.welcome.split_once("The proxy for stripe is at ").expect("announced");
        address.trim()
    }

    /// An application that has begun to carry out its plan.
    fn application(&self, sdk: &Sdk, plan: &Value) -> Child {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let made = |kind: &str, folder: &str| {
            std::env::var_os(format!("ONCEWARD_{kind}_STRIPE"))
                .map_or_else(|| root.join("target").join(folder).join("stripe"), PathBuf::from)
        };
        let mut command = match sdk.name {
            "python" => {
                let python = made("VENV", "venv").join("bin/python");
                assert!(python.exists(), "no {}: `cargo xtask test` makes it", python.display());
                let mut command = Command::new(python);
                command.arg(root.join("tests/python/stripe_sdk.py"));
                command
            }
            _ => {
                let packages = made("NODE", "node");
                assert!(packages.exists(), "no {}: `cargo xtask test` makes it", packages.display());
                let mut command = Command::new("node");
                command.arg(root.join("tests/node/stripe/stripe_sdk.cjs")).env("PACKAGES", packages);
                command
            }
        };
        let mut child = command
            .current_dir(self.folder.path())
            .env("BASE", self.base())
            .env("TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut to = child.stdin.take().expect("its input");
        to.write_all(plan.to_string().as_bytes()).expect("written");
        child
    }

    /// What an application sees that runs to its end.
    fn runs(&self, sdk: &Sdk, plan: &Value) -> Vec<Value> {
        let mut child = self.application(sdk, plan);
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let seen: Vec<Value> =
            lines.map(|line| serde_json::from_str(&line.expect("text")).expect("a line of JSON")).collect();
        assert!(child.wait().expect("it ends").success(), "{}: {seen:?}", sdk.name);
        assert_eq!(seen.len(), plan["calls"].as_array().expect("calls").len(), "{}: {seen:?}", sdk.name);
        seen
    }

    async fn breaks(&self, fault: &str, times: u32) {
        let rules = json!([{ "match": { "path": INTENTS, "times": times }, "fault": fault }]);
        let answer = http().post(format!("{}/admin/faults", self.sandbox.url)).json(&rules).send().await;
        assert!(answer.expect("answered").status().is_success());
    }

    /// How many payments there are, and how many requests tried to make one.
    async fn payments(&self) -> (i64, i64) {
        let audit = get(format!("{}/admin/effects?resource={INTENTS}", self.sandbox.url)).await;
        (audit["count"].as_i64().expect("a count"), audit["requests"].as_i64().expect("a count"))
    }
}

fn configuration(sandbox: &str) -> String {
    format!(
        r#"version = 1
ledger = "sqlite:ledger.db"

[destination.stripe]
url = "{sandbox}"
contract = "stripe.v1"
auth = {{ bearer = "file:stripe.key" }}
account = "acme"
scope = {{ mode = "test" }}
listen = "127.0.0.1:0"

[destination.stripe.proxy]
identity = ["order-*"]
"#
    )
}

/// An unknown, or what else a client must not repeat, in Stripe's own shape.
#[track_caller]
fn stopped(sdk: &Sdk, seen: &Value, code: &str) {
    assert_eq!(
        (&seen["error"], &seen["status"], &seen["code"], &seen["retry"], &seen["requests"]),
        (&json!(sdk.unknown), &json!(409), &json!(code), &json!("false"), &json!(1)),
        "{}: {seen}",
        sdk.name
    );
}

#[tokio::test]
async fn a_payment_is_made_once_and_a_repetition_in_another_process_gets_its_receipt() {
    for sdk in SDKS {
        let world = World::start();
        let plan = json!({ "calls": [{ "amount": 5000, "key": "order-17" }] });
        let first = world.runs(&sdk, &plan);
        assert_eq!((&first[0]["amount"], &first[0]["replayed"]), (&json!(5000), &json!("false")), "{first:?}");
        let again = world.runs(&sdk, &plan);
        assert_eq!((&again[0]["id"], &again[0]["replayed"]), (&first[0]["id"], &json!("true")), "{again:?}");
        assert_eq!(world.payments().await, (1, 1), "{}", sdk.name);
    }
}

#[tokio::test]
async fn a_lost_reply_is_fetched_and_the_application_sees_a_payment() {
    for sdk in SDKS {
        let world = World::start();
        world.breaks("lose_reply_after_commit", 1).await;
        let seen = world.runs(&sdk, &json!({ "calls": [{ "amount": 5000, "key": "order-17" }] }));
        assert!(seen[0]["id"].is_string(), "{}: {seen:?}", sdk.name);
        // The second request is the gateway's own, with the same key; the client made one.
        assert_eq!((world.payments().await, &seen[0]["requests"]), ((1, 2), &json!(1)), "{}", sdk.name);
    }
}

#[tokio::test]
async fn replies_that_are_lost_again_and_again_are_an_unknown_that_the_client_stops_at() {
    for sdk in SDKS {
        let world = World::start();
        world.breaks("lose_reply_after_commit", 100).await;
        let seen = world.runs(&sdk, &json!({ "calls": [{ "amount": 5000, "key": "order-17" }], "retries": 3 }));
        stopped(&sdk, &seen[0], "onceward_unknown");
        assert_eq!(world.payments().await.0, 1, "{}", sdk.name);
    }
}

#[tokio::test]
async fn a_stored_500_is_an_unknown_and_a_call_under_a_new_invented_key_makes_no_second_payment() {
    for sdk in SDKS {
        let world = World::start();
        world.breaks("error_500_after_commit", 1).await;
        // Without a key of its own the client makes one up for each call.
        let seen = world.runs(&sdk, &json!({ "calls": [{ "amount": 5000 }, { "amount": 5000 }], "retries": 3 }));
        stopped(&sdk, &seen[0], "onceward_unknown");
        stopped(&sdk, &seen[1], "onceward_possible_duplicate");
        assert_eq!(world.payments().await, (1, 1), "{}", sdk.name);
    }
}

#[tokio::test]
async fn other_content_under_the_same_key_is_the_clients_own_idempotency_error() {
    for sdk in SDKS {
        let world = World::start();
        let calls = json!([{ "amount": 5000, "key": "order-17" }, { "amount": 6000, "key": "order-17" }]);
        let seen = world.runs(&sdk, &json!({ "calls": calls }));
        assert!(seen[0]["id"].is_string(), "{seen:?}");
        assert_eq!(
            (&seen[1]["error"], &seen[1]["status"], &seen[1]["requests"]),
            (&json!(sdk.conflict), &json!(400), &json!(1)),
            "{}: {seen:?}",
            sdk.name
        );
        assert_eq!(world.payments().await, (1, 1), "{}", sdk.name);
    }
}

#[tokio::test]
async fn a_decline_is_a_decline_each_time_and_an_unknown_token_is_a_wrong_key() {
    for sdk in SDKS {
        let world = World::start();
        let calls = json!([
            { "amount": 4002, "key": "order-17" },
            { "amount": 4002, "key": "order-17" },
            { "amount": 5000, "key": "order-18", "token": "sk_test_acme" },
        ]);
        let seen = world.runs(&sdk, &json!({ "calls": calls }));
        for declined in &seen[..2] {
            assert_eq!((&declined["error"], &declined["status"]), (&json!(sdk.declined), &json!(402)), "{declined}");
        }
        assert_eq!((&seen[2]["error"], &seen[2]["requests"]), (&json!(sdk.stranger), &json!(1)), "{seen:?}");
        assert_eq!(world.payments().await, (0, 1), "{}", sdk.name);
    }
}

#[tokio::test]
async fn a_client_that_gives_up_waiting_retries_with_its_invented_key_and_joins_the_first() {
    for sdk in SDKS {
        let world = World::start();
        world.breaks("delay_before_commit;ms=4000", 1).await;
        let seen = world.runs(&sdk, &json!({ "calls": [{ "amount": 5000 }], "patience": 2, "retries": 5 }));
        assert!(seen[0]["id"].is_string(), "{}: {seen:?}", sdk.name);
        assert!(seen[0]["requests"].as_u64().expect("a count") > 1, "the client did give up: {seen:?}");
        assert_eq!(world.payments().await, (1, 1), "{}", sdk.name);
    }
}

#[tokio::test]
async fn an_application_that_is_killed_in_between_and_starts_again_with_the_same_key_makes_one_payment() {
    for sdk in SDKS {
        for fault in ["delay_before_commit;ms=3000", "delay_after_commit;ms=3000"] {
            let world = World::start();
            world.breaks(fault, 1).await;
            let plan = json!({ "calls": [{ "amount": 5000, "key": "order-17" }] });
            let mut first = world.application(&sdk, &plan);
            sent(&world).await;
            first.kill().expect("killed");
            first.wait().expect("gone");
            let seen = world.runs(&sdk, &plan);
            assert!(seen[0]["id"].is_string(), "{}: {seen:?}", sdk.name);
            assert_eq!(world.payments().await, (1, 1), "{} {fault}", sdk.name);
        }
    }
}

/// A gateway that is killed as well leaves an attempt that may have had its effect: Stripe recognises its key, so it is fetched.
#[tokio::test]
async fn an_application_and_its_gateway_that_are_killed_together_make_one_payment() {
    for sdk in SDKS {
        let mut world = World::start();
        world.breaks("delay_after_commit;ms=600000", 1).await;
        let plan = json!({ "calls": [{ "amount": 5000, "key": "order-17" }] });
        let mut first = world.application(&sdk, &plan);
        sent(&world).await;
        first.kill().expect("killed");
        first.wait().expect("gone");
        let started_again = {
            let World { gateway, folder, .. } = &mut world;
            gateway.child.kill().expect("killed");
            gateway.child.wait().expect("gone");
            World::gateway(folder.path())
        };
        world.gateway = started_again;
        let seen = world.runs(&sdk, &plan);
        assert!(seen[0]["id"].is_string(), "{}: {seen:?}", sdk.name);
        assert_eq!(world.payments().await.0, 1, "{}", sdk.name);
    }
}

/// Waits until a request to make a payment has reached Stripe.
async fn sent(world: &World) {
    #[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
    let deadline = std::time::Instant::now() + DEADLINE;
    #[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
    while world.payments().await.1 == 0 {
        assert!(std::time::Instant::now() < deadline, "nothing is ever sent");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
