//! `onceward lab` with its ledgers on PostgreSQL.

use onceward_cluster::Database;

use super::super::run;

#[test]
fn the_lab_passes_on_postgresql_and_leaves_no_database_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::make().expect("a database");
    let said = run(folder.path(), &["lab", "--store", database.url()]);
    println!("{}", said.out);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    assert!(said.out.lines().last().is_some_and(|line| line.starts_with("PASS: ")), "{}", said.out);
    let left = database.sql("SELECT count(*) FROM pg_database WHERE datname LIKE 'onceward_lab_%'");
    assert_eq!(left.expect("counted"), "0");
}
