//! `onceward serve`: the quickstart, and one gateway for one file.

use serde_json::{Value, json};

use super::{Server, ask, configuration, http, run, tickets};

const QUICKSTART: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];
const LAST_LINE: &str = "`onceward check`";

#[tokio::test]
async fn the_quickstart_prints_tokens_once_and_the_call_that_it_shows_makes_one_ticket() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Server::start(folder.path(), &QUICKSTART, LAST_LINE);
    let (agent, operator) = (gateway.word("ow_agent_"), gateway.word("ow_operator_"));
    // The printed command, taken apart: its address, its header and its body as they stand there.
    let command = gateway.welcome.split_once("curl ").expect("a call to copy").1;
    let url = gateway.word(&format!("{}/v1/tools/create_ticket/calls", gateway.url));
    let body = command.split_once("-d '").and_then(|(_, rest)| rest.split_once('\'')).expect("its body").0;
    assert!(gateway.welcome.contains(&format!("Bearer {agent}")), "{}", gateway.welcome);
    let mut told = Vec::new();
    for _ in 0..2 {
        let request = http().post(&url).bearer_auth(&agent).header("Idempotency-Key", "ticket-1").body(body.to_owned());
        let answer: Value = request.send().await.expect("answered").json().await.expect("JSON");
        told.push((answer["outcome"].clone(), answer["receipt"]["body"]["id"].clone()));
    }
    assert_eq!(told, [(json!("executed"), json!("T-1001")), (json!("replayed"), json!("T-1001"))]);
    let sandbox = gateway
        .welcome
        .lines()
        .find_map(|line| line.strip_prefix("sandbox ")?.split_whitespace().next())
        .expect("where the sandbox is")
        .to_owned();
    assert_eq!(tickets(&sandbox).await, (1, 1));

    let listed = ask(folder.path(), &gateway, &operator, &["operations", "list", "--json"]);
    assert_eq!(listed.json()["operations"][0]["operation_id"], "ticket-1");
    assert_eq!(gateway.terminate(), 0, "SIGTERM is an orderly end");

    let again = Server::start(folder.path(), &QUICKSTART, LAST_LINE);
    let token = again.welcome.replace("ow_agent_…", "").contains("ow_agent_");
    assert!(!token, "tokens are shown once: {}", again.welcome);
    let shown = ask(folder.path(), &again, &agent, &["operations", "show", "ticket-1", "--json"]);
    assert_eq!(shown.json()["status"]["outcome"], "replayed", "the ledger is the same: {shown:?}");
}

#[test]
fn a_second_gateway_on_the_same_file_is_refused_and_told_which_process_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("onceward.toml"), configuration("http://127.0.0.1:9")).expect("written");
    let first = Server::gateway(folder);
    let second = run(folder, &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 4, "{second:?}");
    assert!(second.err.contains(&format!("process {}", first.child.id())), "{}", second.err);
    let token = run(folder, &["token", "list", "--ledger", "ledger.db"]);
    assert_eq!(token.code, 4, "the file is the gateway's: {token:?}");

    first.kill();
    let third = Server::gateway(folder);
    assert!(third.welcome.contains("listens on"), "a killed gateway leaves no lock behind");
}

#[test]
fn an_address_that_others_can_reach_is_no_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("single_instance"), "{}", said.err);
    assert!(!folder.path().join("onceward.db").exists(), "nothing was made");
}

#[test]
fn without_a_gateway_a_call_says_that_nothing_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(
        folder.path(),
        &["call", "create_ticket", "--operation-id", "a", "--url", "http://127.0.0.1:9", "--token", "ow_agent_x"],
    );
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("Nothing was sent"), "{}", said.err);
}

/// As after a quickstart in the same folder: its tenant has tokens, and the configuration's has none yet.
#[test]
fn each_tenant_that_a_configuration_names_gets_its_first_tokens_and_commands_are_about_that_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for tenant in ["one", "two"] {
        let text = format!("version = 1\nledger = \"sqlite:onceward.db\"\ntenant = \"{tenant}\"\n");
        std::fs::write(folder.join("onceward.toml"), text).expect("written");
        let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "onceward.toml"];
        let gateway = Server::start(folder, &serve, "  operator");
        assert!(gateway.welcome.contains("ow_agent_"), "{}", gateway.welcome);
        gateway.terminate();
        let listed = run(folder, &["token", "list", "--config", "onceward.toml", "--json"]);
        assert_eq!(listed.code, 0, "{listed:?}");
        assert_eq!(listed.out.matches("\"principal\"").count(), 2, "of {tenant} alone: {listed:?}");
    }
}
