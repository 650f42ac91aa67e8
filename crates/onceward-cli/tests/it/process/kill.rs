//! A gateway that is killed while the destination has committed and has not answered.

use std::process::Stdio;
use std::time::Instant;

use super::{DEADLINE, Server, TICKET, ask, break_next_ticket, call, configuration, onceward, tickets, token_on_file};

#[tokio::test]
async fn a_killed_gateway_leaves_an_unknown_that_nobody_sends_again_until_a_person_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sandbox = Server::sandbox(folder);
    std::fs::write(folder.join("onceward.toml"), configuration(&sandbox.url)).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let operator = token_on_file(folder, "ines", "operator");
    let gateway = Server::gateway(folder);

    break_next_ticket(&sandbox.url, "delay_after_commit;ms=600000").await;
    let mut waiting = onceward(folder)
        .args(["call", "create_ticket", "--operation-id", "printer-1", "--arguments", TICKET])
        .env("ONCEWARD_URL", &gateway.url)
        .env("ONCEWARD_TOKEN", &agent)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    #[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
    let deadline = Instant::now() + DEADLINE;
    #[allow(clippy::disallowed_methods, reason = "a test polls until a deadline")]
    while tickets(&sandbox.url).await.0 == 0 {
        assert!(Instant::now() < deadline, "the destination never commits");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    gateway.kill();
    assert_eq!(waiting.wait().expect("it ends").code(), Some(3), "a caller without an answer: it may have happened");

    let gateway = Server::gateway(folder);
    assert!(gateway.welcome.contains("The gateway listens on"), "{}", gateway.welcome);
    let shown = ask(folder, &gateway, &agent, &["operations", "show", "printer-1", "--json"]);
    assert_eq!((shown.code, shown.json()["status"]["state"].as_str()), (3, Some("unknown")), "{shown:?}");
    let repeated = call(folder, &gateway, &agent, "printer-1");
    assert_eq!((repeated.code, repeated.json()["outcome"].as_str()), (3, Some("unknown")), "{repeated:?}");
    assert_eq!(tickets(&sandbox.url).await, (1, 1), "a repetition of an unknown was sent");

    let decide = |token: &str, evidence: &str| {
        ask(
            folder,
            &gateway,
            token,
            &[
                "decide",
                "printer-1",
                "--choice",
                "confirmed_done",
                "--effect-id",
                "T-1001",
                "--receipt",
                r#"{"id":"T-1001"}"#,
                "--reason",
                "seen_at_destination",
                "--yes",
                "--evidence",
                evidence,
            ],
        )
    };
    assert_eq!(decide(&agent, "I am sure").code, 4, "an agent settles its own call");
    assert_eq!(decide(&operator, " ").code, 4, "a decision without evidence");
    let decided = decide(&operator, "found T-1001 in the helpdesk, opened at that time");
    assert_eq!(decided.code, 0, "{decided:?}");

    let after = call(folder, &gateway, &agent, "printer-1");
    assert_eq!((after.code, after.json()["outcome"].as_str()), (0, Some("replayed")), "{after:?}");
    assert_eq!(after.json()["receipt"]["body"]["id"], "T-1001");
    assert_eq!(tickets(&sandbox.url).await, (1, 1), "the whole story has one ticket and one request");
}
