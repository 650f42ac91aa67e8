//! Gateways that start at once.

use onceward_cluster::Database;

use super::super::Server;
use super::{Agent, audit, configure, token};

/// As a deployment starts its instances, on a database that nobody has prepared.
#[tokio::test]
async fn processes_that_start_at_once_on_an_empty_database_serve_one_ledger() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (sandbox, database) = (Server::sandbox(folder), Database::make().expect("a database"));
    configure(folder, database.url(), &sandbox.url);
    let gateways: Vec<Server> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(|| Server::gateway(folder))).collect();
        starting.into_iter().map(|one| one.join().expect("it started")).collect()
    });
    // Made while they run: a database is nobody's alone.
    let token = token(folder, "agent", "agent");
    for (place, gateway) in gateways.iter().enumerate() {
        let told = Agent::at(gateway, &token).call("create_ticket", "printer-1").await.expect("answered");
        let outcome = if place == 0 { "executed" } else { "replayed" };
        assert_eq!(told["outcome"], outcome, "{told}");
        assert_eq!(told["receipt"]["body"]["id"], "T-1001");
    }
    assert_eq!(audit(&sandbox).await, (1, 1));
    assert_eq!(database.sql("SELECT count(*) FROM onceward.ledger").expect("counted"), "1");
}
