//! Agent frameworks as they are, without an identity of their own, before a tool that holds what looks like a repetition.

use std::sync::Arc;

use serde_json::{Value, json};

use super::python_clients::World;
use super::{ask, break_next_ticket, tickets};

const FRAMEWORKS: [&str; 3] = ["langchain", "openai", "pydantic"];

fn ticket(title: &str) -> Value {
    json!({ "title": title, "body": "It burns." })
}

/// The same arguments in another order.
fn reordered(title: &str) -> Value {
    let text = format!(r#"{{"body":"It burns.","title":"{title}"}}"#);
    serde_json::from_str(&text).expect("JSON")
}

/// Lets agents run at once, each a number of milliseconds after the first, and gives what each of their models saw.
fn run(world: &World, framework: &str, agents: &[(u32, Value)]) -> Vec<Vec<String>> {
    let agents: Vec<Value> = agents.iter().map(|(after, turns)| json!({ "after_ms": after, "turns": turns })).collect();
    let told = world.python("frameworks", "frameworks_host.py", &json!({ "framework": framework, "agents": agents }));
    serde_json::from_value(told["saw"].clone()).expect("texts")
}

/// One agent's turns.
fn alone(world: &World, framework: &str, turns: Value) -> Vec<String> {
    run(world, framework, &[(0, turns)]).remove(0)
}

/// Does the same with every framework, each before a gateway of its own, all at one time: starting Python is what takes long.
async fn with_each<F>(scenario: fn(Arc<World>, &'static str) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runs = FRAMEWORKS.map(|framework| tokio::spawn(scenario(Arc::new(World::start()), framework)));
    for (run, framework) in runs.into_iter().zip(FRAMEWORKS) {
        run.await.unwrap_or_else(|error| panic!("{framework}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_equal_call_that_a_framework_repeats_makes_one_ticket() {
    with_each(|world, framework| async move {
        let saw = alone(&world, framework, json!([[ticket("Printer")], [ticket("Printer")], [reordered("Printer")]]));
        assert_eq!(saw.len(), 3, "{framework}: {saw:#?}");
        assert!(saw[0].contains("T-1001") && !saw[0].contains("possible_duplicate"), "{framework}: {}", saw[0]);
        for repetition in &saw[1..] {
            assert!(
                repetition.contains("possible_duplicate") && repetition.contains("T-1001"),
                "{framework}: {repetition}"
            );
        }
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{framework}");
    })
    .await;
}

/// R020: a model makes one call twice in one message, with its fields in another order. The host names neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r020_one_message_with_the_same_call_twice_makes_one_ticket() {
    with_each(|world, framework| async move {
        break_next_ticket(&world.sandbox.url, "delay_before_commit;ms=500").await;
        let saw = alone(&world, framework, json!([[ticket("Printer"), reordered("Printer")]]));
        let held = saw.iter().filter(|saw| saw.contains("possible_duplicate")).count();
        assert_eq!((saw.len(), held), (2, 1), "{framework}: {saw:#?}");
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{framework}");
    })
    .await;
}

/// R017: what looks like one call arrives twice, milliseconds apart, on two connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r017_two_equal_calls_two_milliseconds_apart_make_one_ticket() {
    with_each(|world, framework| async move {
        break_next_ticket(&world.sandbox.url, "delay_before_commit;ms=500").await;
        let turns = json!([[ticket("Printer")]]);
        let saw = run(&world, framework, &[(0, turns.clone()), (2, turns)]).concat();
        let held = saw.iter().filter(|saw| saw.contains("possible_duplicate")).count();
        assert_eq!((saw.len(), held), (2, 1), "{framework}: {saw:#?}");
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{framework}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rephrased_call_is_held_while_the_first_is_unknown() {
    with_each(|world, framework| async move {
        break_next_ticket(&world.sandbox.url, "lose_reply_after_commit").await;
        let saw = alone(&world, framework, json!([[ticket("Printer")], [ticket("The printer is on fire")]]));
        assert!(saw[0].contains("may have happened"), "{framework}: {}", saw[0]);
        assert!(saw[1].contains("possible_duplicate"), "{framework}: {}", saw[1]);
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{framework}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deliberate_second_one_that_a_person_approved_makes_two() {
    with_each(|world, framework| async move {
        let saw = alone(&world, framework, json!([[ticket("Printer")], [ticket("Printer")]]));
        assert!(saw[1].contains("onceward approvals"), "{framework}: it is told how: {}", saw[1]);
        let (folder, gateway) = (world.folder.path(), world.gateway());
        let listed = ask(folder, gateway, &world.token, &["operations", "list", "--json"]).json();
        let first = listed["operations"][0]["operation_id"].as_str().expect("one").to_owned();

        let asked = ask(folder, gateway, &world.token, &["approvals", "request", &first, "--json"]);
        assert_eq!(asked.code, 0, "{framework}: {asked:?}");
        let second = asked.json()["operation"]["operation_id"].as_str().expect("an id").to_owned();
        let version = asked.json()["operation"]["version"].to_string();
        let waits = ask(folder, gateway, &world.operator, &["approvals", "list"]);
        assert!(waits.out.contains(&second) && waits.out.contains(&format!("a second one of {first}")), "{waits:?}");
        let own = ask(folder, gateway, &world.token, &["approvals", "approve", &second]);
        assert_eq!(own.code, 4, "{framework}: whoever calls does not approve: {own:?}");
        let approve = ["approvals", "approve", &second, "--expected", &version];
        let approved = ask(folder, gateway, &world.operator, &approve);
        assert_eq!(approved.code, 0, "{framework}: {approved:?}");
        assert_eq!(tickets(&world.sandbox.url).await, (1, 1), "{framework}: approving sends nothing");

        let saw = alone(&world, framework, json!([[ticket("Printer")], [ticket("Printer")]]));
        assert!(saw[0].contains("T-1002"), "{framework}: {}", saw[0]);
        assert!(saw[1].contains("possible_duplicate"), "{framework}: it was used: {}", saw[1]);
        assert_eq!(tickets(&world.sandbox.url).await, (2, 2), "{framework}");
    })
    .await;
}
