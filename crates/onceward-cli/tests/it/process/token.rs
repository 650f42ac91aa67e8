//! `onceward token`.

use super::{Server, ask, call, configuration, run, token_on_file};

#[test]
fn a_revoked_token_gets_nothing_also_no_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sandbox = Server::sandbox(folder);
    std::fs::write(folder.join("onceward.toml"), configuration(&sandbox.url)).expect("written");
    let operator = token_on_file(folder, "ines", "operator");
    let gateway = Server::gateway(folder);
    let made =
        ask(folder, &gateway, &operator, &["token", "create", "--principal", "bot", "--role", "agent", "--json"]);
    let (token, id) = (made.json()["token"].as_str().expect("a token").to_owned(), made.json()["id"].clone());
    assert_eq!(call(folder, &gateway, &token, "printer-1").json()["outcome"], "executed");
    assert_eq!(call(folder, &gateway, &token, "printer-1").json()["outcome"], "replayed");

    let revoked = ask(folder, &gateway, &operator, &["token", "revoke", id.as_str().expect("an id")]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    let refused = call(folder, &gateway, &token, "printer-1");
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(!refused.out.contains("T-1001") && !refused.err.contains("T-1001"), "{refused:?}");
    let shown = ask(folder, &gateway, &token, &["operations", "show", "printer-1"]);
    assert_eq!(shown.code, 4, "{shown:?}");
}

#[test]
fn an_agent_makes_no_tokens_and_a_tenant_sees_only_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("onceward.toml"), configuration("http://127.0.0.1:9")).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let other = run(
        folder,
        &[
            "token",
            "create",
            "--ledger",
            "ledger.db",
            "--tenant",
            "globex",
            "--principal",
            "hank",
            "--role",
            "operator",
            "--json",
        ],
    );
    let listed = run(folder, &["token", "list", "--ledger", "ledger.db", "--json"]);
    assert_eq!(listed.code, 2, "which of the two tenants is meant? {listed:?}");
    assert!(listed.err.contains("default, globex"), "{}", listed.err);
    let listed = run(folder, &["token", "list", "--ledger", "ledger.db", "--tenant", "default", "--json"]);
    assert_eq!(listed.json()["credentials"].as_array().map(Vec::len), Some(1), "{listed:?}");
    assert!(!listed.out.contains("ow_agent_"), "a token is shown once: {listed:?}");

    let gateway = Server::gateway(folder);
    let refused = ask(folder, &gateway, &agent, &["token", "create", "--principal", "me", "--role", "operator"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    let hank = other.json()["token"].as_str().expect("a token").to_owned();
    let seen = ask(folder, &gateway, &hank, &["token", "list", "--json"]);
    assert_eq!(seen.json()["credentials"].as_array().map(Vec::len), Some(1), "{seen:?}");
    assert_eq!(seen.json()["credentials"][0]["principal"], "hank");
}

#[test]
fn a_look_at_a_misspelt_path_makes_no_ledger() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in
        [&["token", "list", "--ledger", "legder.db"][..], &["token", "revoke", "x", "--ledger", "legder.db"]]
    {
        let said = run(folder.path(), arguments);
        assert_eq!(said.code, 2, "{said:?}");
    }
    assert!(!folder.path().join("legder.db").exists());
}
