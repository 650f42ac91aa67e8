//! `onceward decide` and what leads to it: the inbox, a lookup, what a call would come to, what is known.

use super::{Server, ask, break_next_ticket, call, configuration, tickets, token_on_file};

#[tokio::test]
async fn a_person_finds_an_unknown_in_the_inbox_sees_what_follows_and_decides_with_evidence() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sandbox = Server::sandbox(folder);
    std::fs::write(folder.join("onceward.toml"), configuration(&sandbox.url)).expect("written");
    let agent = token_on_file(folder, "agent", "agent");
    let operator = token_on_file(folder, "ines", "operator");
    let gateway = Server::gateway(folder);
    break_next_ticket(&sandbox.url, "lose_reply_after_commit").await;
    assert_eq!(call(folder, &gateway, &agent, "printer-1").code, 3);
    let as_operator = |arguments: &[&str]| ask(folder, &gateway, &operator, arguments);

    let inbox = as_operator(&["operations", "list", "--unresolved"]);
    assert!(inbox.out.contains("printer-1") && inbox.out.contains("1 need a person"), "{inbox:?}");
    let looked = as_operator(&["lookup", "printer-1"]);
    assert!(looked.code == 3 && looked.out.contains("no_way"), "{looked:?}");
    let arguments = ["--arguments", super::TICKET, "--operation-id", "printer-1"];
    let explained = ask(folder, &gateway, &agent, &[&["explain", "create_ticket"][..], &arguments].concat());
    assert!(explained.code == 0 && explained.out.contains("told         unknown"), "{explained:?}");

    let choices = as_operator(&["decide", "printer-1"]);
    for words in ["--choice dispatch_again", "this makes a second one", "reasons: ", "acknowledge: not now"] {
        assert!(choices.out.contains(words), "{words}: {choices:?}");
    }
    let decide = |more: &[&str]| as_operator(&[&["decide", "printer-1", "--choice", "confirmed_done"], more].concat());
    let reason = ["--reason", "seen_at_destination"];
    let without_evidence = decide(&[&reason[..], &["--yes"]].concat());
    assert!(without_evidence.code == 2 && without_evidence.err.contains("--evidence"), "{without_evidence:?}");
    let without_reason = decide(&["--evidence", "it is there", "--yes"]);
    assert!(without_reason.code == 2 && without_reason.err.contains("--reason"), "{without_reason:?}");
    let unasked = decide(&[&reason[..], &["--evidence", "it is there"]].concat());
    assert!(unasked.code == 2 && unasked.err.contains("Nothing was decided"), "nobody was asked: {unasked:?}");
    let not_legal = as_operator(&[
        "decide",
        "printer-1",
        "--choice",
        "acknowledge",
        "--reason",
        "undone",
        "--evidence",
        "x",
        "--yes",
    ]);
    assert!(not_legal.code == 4 && not_legal.err.contains("not legal"), "{not_legal:?}");
    let refused = ask(folder, &gateway, &agent, &["decide", "printer-1"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert_eq!(as_operator(&["operations", "show", "printer-1"]).code, 3, "nothing was decided so far");

    std::fs::write(folder.join("screen.txt"), "T-1001 in the list").expect("written");
    let evidence = ["--evidence", "T-1001 is there", "--evidence-file", "screen.txt", "--effect-id", "T-1001", "--yes"];
    let decided = decide(&[&reason[..], &evidence].concat());
    assert!(decided.code == 0 && decided.out.contains("succeeded"), "{decided:?}");
    let shown = as_operator(&["operations", "show", "printer-1"]);
    for words in
        ["attempt 1", "lost (reply_lost)", "confirmed_done (seen_at_destination): T-1001 is there; file sha256:"]
    {
        assert!(shown.out.contains(words), "{words}: {shown:?}");
    }
    let watched = as_operator(&["operations", "watch", "printer-1"]);
    assert!(watched.code == 0 && watched.out.contains("succeeded, attempts 1"), "{watched:?}");
    assert!(as_operator(&["operations", "list", "--unresolved"]).out.contains("There are none."));
    assert_eq!(call(folder, &gateway, &agent, "printer-1").json()["outcome"], "replayed");
    assert_eq!(tickets(&sandbox.url).await, (1, 1));
}
