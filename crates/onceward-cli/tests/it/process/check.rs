//! `onceward check`.

use super::{configuration, run};

#[test]
fn a_mistake_is_named_with_its_line_and_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = configuration("http://127.0.0.1:7080").replace("contract = \"none\"", "contract = \"stripe.v9\"");
    let line = 1 + text.lines().position(|line| line.starts_with("contract")).expect("there is such a line");
    std::fs::write(folder.path().join("onceward.toml"), text).expect("written");
    let said = run(folder.path(), &["check"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("onceward.toml:{line}:")), "{}", said.err);
    assert!(said.err.contains("stripe.v1"), "the way out names the contracts there are: {}", said.err);

    let started = run(folder.path(), &["serve"]);
    assert_eq!(started.code, 1, "{started:?}");
    assert!(started.err.contains(&format!("onceward.toml:{line}:")), "serve says the same: {}", started.err);
}

#[test]
fn a_whole_configuration_is_told_tool_by_tool() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("onceward.toml"), configuration("http://127.0.0.1:7080")).expect("written");
    let said = run(folder.path(), &["check"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("create_ticket ") && said.out.contains("a lost reply"), "{}", said.out);
    let said = run(folder.path(), &["check", "--json"]);
    assert_eq!(said.json()["tools"][0]["tool"], "create_ticket");
}

#[test]
fn a_missing_file_says_how_to_start_without_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &["check", "--config", "nowhere.toml"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("nowhere.toml"), "{}", said.err);
}
