//! `onceward tools`: what servers offer, and a refusal that a person taught the gateway.

use std::path::Path;

use super::{Server, ask, run, token_on_file};

fn configuration(folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onceward-destinations/src/mcp/tests/server.py");
    let (script, folder) = (script.display().to_string(), folder.display().to_string());
    format!(
        "version = 1\nledger = \"sqlite:ledger.db\"\n\n[mcp.pipe]\ncommand = [\"python3\", {script:?}, {folder:?}]\n\
         reads = [\"get_*\"]\nprefix = \"pipe_\"\n"
    )
}

fn fail(folder: &Path, gateway: &Server, agent: &str, id: &str, text: &str) -> super::Said {
    let arguments = format!("{{\"text\":\"{text}\"}}");
    ask(folder, gateway, agent, &["call", "pipe_fail", "--operation-id", id, "--arguments", &arguments, "--json"])
}

#[test]
fn the_tools_of_servers_are_listed_with_what_a_lost_reply_becomes_and_none_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("onceward.toml"), configuration(folder.path())).expect("written");
    let listed = run(folder.path(), &["tools", "list"]);
    assert!(listed.code == 0, "{listed:?}");
    assert!(listed.out.contains("pipe_write (pipe, none)") && listed.out.contains("waits for a person"), "{listed:?}");
    assert!(listed.out.contains("pipe_get_notes (pipe): reads"), "{listed:?}");
    assert!(!folder.path().join("writes").exists());
    let checked = run(folder.path(), &["check"]);
    assert!(checked.code == 0 && checked.out.contains("pipe_* (pipe, none)"), "{checked:?}");
    let broken = configuration(folder.path()).replace("python3", "onceward-no-such-program");
    std::fs::write(folder.path().join("broken.toml"), broken).expect("written");
    let failed = run(folder.path(), &["tools", "list", "--config", "broken.toml"]);
    assert!(failed.code == 1 && failed.err.contains("cannot be started"), "{failed:?}");
}

#[test]
fn a_refusal_that_a_person_knows_settles_the_operation_and_is_known_from_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("onceward.toml"), configuration(folder)).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let operator = token_on_file(folder, "ines", "operator");
    let gateway = Server::gateway(folder);
    let unknown = fail(folder, &gateway, &agent, "op-1", "Quota of team blue is used up");
    assert_eq!((unknown.code, &unknown.json()["outcome"]), (3, &"unknown".into()), "{unknown:?}");

    let learn = |more: &[&str]| {
        let words = ["tools", "learn", "op-1", "--evidence", "the page of quotas says so"];
        ask(folder, &gateway, &operator, &[&words[..], more].concat())
    };
    let other = learn(&["--text", "of team blue", "--yes"]);
    assert!(other.code == 4 && other.err.contains("does not begin"), "the words must begin the answer: {other:?}");
    let unasked = learn(&[]);
    assert!(unasked.code == 2 && unasked.err.contains("Nothing was decided"), "{unasked:?}");
    let learned = learn(&["--text", "Quota of team", "--write", "--yes"]);
    assert!(learned.code == 0 && learned.out.contains("rejected"), "{learned:?}");
    let again = fail(folder, &gateway, &agent, "op-1", "Quota of team blue is used up");
    assert_eq!(again.json()["outcome"], "rejected", "{again:?}");
    assert_eq!(again.json()["receipt"]["body"]["isError"], true, "{again:?}");

    assert_eq!(gateway.terminate(), 0);
    let gateway = Server::gateway(folder);
    let known = fail(folder, &gateway, &agent, "op-2", "Quota of team red is used up");
    assert_eq!(known.json()["outcome"], "rejected", "{known:?}");
    let another = fail(folder, &gateway, &agent, "op-3", "The disk is full");
    assert_eq!(another.json()["outcome"], "unknown", "{another:?}");
}
