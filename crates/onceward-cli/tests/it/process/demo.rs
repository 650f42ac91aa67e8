//! `onceward demo`, and the bare name.

use super::run;

#[test]
fn the_demo_ends_with_two_tickets_naive_and_one_through_onceward() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &["demo"]);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    let cells = |row: &str| {
        let line =
            said.out.lines().rfind(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no {row}: {}", said.out));
        line.split_whitespace().next_back().expect("a number").to_owned()
    };
    assert_eq!((cells("naive"), cells("through Onceward")), ("2".to_owned(), "1".to_owned()));
    for word in ["recovered", "replayed", "conflict", "unknown", "onceward serve"] {
        assert!(said.out.contains(word), "the story never says {word}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("readable").collect();
    assert!(left.is_empty(), "the demo leaves something behind: {left:?}");
}

#[test]
fn the_bare_name_prints_help_that_says_where_to_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &[]);
    assert_eq!(said.code, 0);
    assert!(said.out.contains("onceward demo") && said.out.contains("onceward serve"), "{}", said.out);
}
