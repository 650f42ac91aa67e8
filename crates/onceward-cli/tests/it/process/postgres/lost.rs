//! Gateways that are killed, or stopped, with an attempt in their hands.

use onceward_cluster::{Cluster, Database};

use super::super::{Server, break_next_ticket};
use super::{Agent, audit, configure, signal, token, until};

/// SIGKILL of one of two, when the destination has committed and has not answered.
#[tokio::test]
async fn what_a_killed_gateway_left_is_unknown_at_the_other_and_settled_there_by_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (sandbox, database) = (Server::sandbox(folder), Database::make().expect("a database"));
    configure(folder, database.url(), &sandbox.url);
    let token = token(folder, "agent", "agent");
    let (first, second) = (Server::gateway(folder), Server::gateway(folder));
    let (agent, other) = (Agent::at(&first, &token), Agent::at(&second, &token));

    break_next_ticket(&sandbox.url, "delay_after_commit;ms=600000").await;
    let caller = agent.clone();
    let keyed = tokio::spawn(async move { caller.call("keyed_ticket", "keyed").await });
    until("the first ticket", async || (audit(&sandbox).await == (1, 1)).then_some(())).await;
    break_next_ticket(&sandbox.url, "delay_after_commit;ms=600000").await;
    let plain = tokio::spawn(async move { agent.call("create_ticket", "plain").await });
    until("the second ticket", async || (audit(&sandbox).await == (2, 2)).then_some(())).await;
    first.kill();
    assert!(keyed.await.expect("ended").is_err() && plain.await.expect("ended").is_err(), "a killed gateway answered");
    // Nobody can know yet that it is gone: its silence has only begun.
    assert_eq!(other.state("keyed").await, "pending");

    // No promise of the destination says what became of this one, so nobody sends it again.
    until("the unknown", async || (other.state("plain").await == "unknown").then_some(())).await;
    let told = other.call("create_ticket", "plain").await.expect("answered");
    assert_eq!((&told["outcome"], &told["dispatched"]), (&"unknown".into(), &"maybe".into()), "{told}");
    // This one's destination recognises its key: the same key is sent, and answered with what the first attempt made.
    until("the receipt", async || (other.state("keyed").await == "succeeded").then_some(())).await;
    let told = other.call("keyed_ticket", "keyed").await.expect("answered");
    assert_eq!(told["receipt"]["body"]["id"], "T-1001", "{told}");
    let journal = other.get("keyed/journal").await.to_string();
    assert!(journal.contains("owner_lost"), "it was unknown before: {journal}");
    assert_eq!(audit(&sandbox).await.0, 2, "a third ticket");
}

/// SIGSTOP between the durable claim and the first byte. The commit waits for a standby that is not there; the owner is stopped
/// while it waits, and the database finishes without it.
#[tokio::test]
async fn a_stopped_owner_that_wakes_up_when_its_claim_is_lost_sends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (sandbox, cluster) = (Server::sandbox(folder), Cluster::start("").expect("a cluster"));
    configure(folder, &cluster.url(), &sandbox.url);
    let token = token(folder, "agent", "agent");
    let owner = Server::gateway(folder);
    let agent = Agent::at(&owner, &token);
    let sql = |text: &str| cluster.sql(text).expect("answered");

    // The first call of a tool stores its definition too; the commit that is waited for below is to be the claim's.
    let before = agent.call("create_ticket", "printer-0").await.expect("answered");
    assert_eq!(before["outcome"], "executed", "{before}");
    cluster.configure("synchronous_standby_names = 'nobody'").expect("configured");
    until("the setting", async || (sql("SHOW synchronous_standby_names") == "nobody").then_some(())).await;
    let waiting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("create_ticket", "printer-1").await }
    });
    // Only a claim or a settle locks the journal, a sign of life does not.
    let committing = "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) JOIN pg_class ON pg_class.oid = relation \
                      WHERE wait_event = 'SyncRep' AND relname = 'journal'";
    until("the claim's commit", async || (sql(committing) != "0").then_some(())).await;
    signal(&owner, "STOP");
    cluster.configure("synchronous_standby_names = ''").expect("configured");
    let state = "SELECT state FROM onceward.operation WHERE operation_id = 'printer-1'";
    until("the claim", async || (sql(state) == "pending").then_some(())).await;
    assert_eq!(audit(&sandbox).await, (1, 1), "it was stopped too late");

    let other = Server::gateway(folder);
    let elsewhere = Agent::at(&other, &token);
    until("the unknown", async || (elsewhere.state("printer-1").await == "unknown").then_some(())).await;
    let told = elsewhere.call("create_ticket", "printer-1").await.expect("answered");
    assert_eq!(told["outcome"], "unknown", "{told}");

    signal(&owner, "CONT");
    let told = waiting.await.expect("ended").expect("a gateway that lives answers");
    assert!(told["receipt"].is_null(), "{told}");
    assert_eq!(audit(&sandbox).await, (1, 1), "it sent on a lost claim");
    // It alone knows that it has sent nothing, and says so: late evidence of its attempt, after which the call is free again.
    until("the late evidence", async || (elsewhere.state("printer-1").await == "approved").then_some(())).await;
    let told = elsewhere.call("create_ticket", "printer-1").await.expect("answered");
    assert_eq!(told["receipt"]["body"]["id"], "T-1002", "{told}");
    assert_eq!(audit(&sandbox).await, (2, 2));
    let replayed = agent.call("create_ticket", "printer-1").await.expect("answered");
    assert_eq!((&replayed["outcome"], &replayed["receipt"]), (&"replayed".into(), &told["receipt"]), "{replayed}");
}
