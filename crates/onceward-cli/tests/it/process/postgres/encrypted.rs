//! A gateway and its database with a network between them.

use std::path::Path;

use onceward_cluster::Cluster;

use super::super::{Server, run};
use super::{Agent, configure, token};

/// Adds a line before the first table of the configuration.
fn add(folder: &Path, line: &str) {
    let path = folder.join("onceward.toml");
    let text = std::fs::read_to_string(&path).expect("written before");
    std::fs::write(path, text.replacen("\n\n", &format!("\n{line}\n\n"), 1)).expect("written");
}

/// What a start says that must fail.
fn refused(folder: &Path, database: &str, line: &str) -> String {
    configure(folder, database, "http://127.0.0.1:9");
    add(folder, line);
    let served = run(folder, &["serve"]);
    assert_ne!(served.code, 0, "{served:?}");
    format!("{}{}", served.out, served.err)
}

#[tokio::test]
async fn with_authorities_named_every_connection_to_the_database_is_encrypted_and_its_name_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let cluster = Cluster::start("").expect("a cluster");
    let url = cluster.url();
    std::fs::write(folder.join("ca.pem"), cluster.offer_tls(&["127.0.0.1"]).expect("offered")).expect("written");
    let sandbox = Server::sandbox(folder);
    // Nothing in the address asks for it: that authorities are named does.
    configure(folder, &url, &sandbox.url);
    add(folder, "ledger_ca = \"ca.pem\"");
    let token = token(folder, "agent", "agent");
    let gateway = Server::gateway(folder);
    let told = Agent::at(&gateway, &token).call("create_ticket", "t-1").await.expect("answered");
    assert_eq!(told["outcome"], "executed", "{told}");
    let connections = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'onceward'";
    let of = |ssl: bool| cluster.sql(&format!("SELECT count(*) {connections} AND ssl = {ssl}")).expect("counted");
    assert_eq!(of(false), "0");
    assert_ne!(of(true), "0");
    drop(gateway);

    let said = refused(folder, &format!("{url}?sslmode=require"), "");
    assert!(said.contains("ledger_ca"), "{said}");
    let said = refused(folder, &format!("{url}?sslmode=disable"), "ledger_ca = \"ca.pem\"");
    assert!(said.contains("sslmode=disable") && said.contains("ledger_ca"), "{said}");
    // Another certificate than the one that is trusted, and then one for another name.
    let other = cluster.offer_tls(&["127.0.0.1"]).expect("offered");
    let said = refused(folder, &format!("{url}?sslmode=verify-full"), "ledger_ca = \"ca.pem\"");
    assert!(said.contains("certificate"), "{said}");
    std::fs::write(folder.join("ca.pem"), other).expect("written");
    std::fs::write(folder.join("named.pem"), cluster.offer_tls(&["db.example"]).expect("offered")).expect("written");
    let said = refused(folder, &url, "ledger_ca = \"named.pem\"");
    assert!(said.contains("certificate") && said.contains("db.example"), "{said}");
}

#[tokio::test]
async fn a_database_that_offers_no_encryption_is_refused_where_authorities_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (with, without) = (Cluster::start("").expect("a cluster"), Cluster::start("").expect("a cluster"));
    std::fs::write(folder.path().join("ca.pem"), with.offer_tls(&["127.0.0.1"]).expect("offered")).expect("written");
    let said = refused(folder.path(), &without.url(), "ledger_ca = \"ca.pem\"");
    assert!(said.contains("TLS"), "{said}");
    let tables = without.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'onceward'").expect("counted");
    assert_eq!(tables, "0", "nothing was sent to it");
}
