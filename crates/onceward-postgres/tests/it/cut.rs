//! COMMITs that are cut: what is answered is what is there, in either direction.

use std::sync::Arc;

use onceward_cluster::Cluster;
use onceward_ledger::store::{Applied, Priority, Store};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_postgres::PostgresStore;

use crate::proxy::{Cut, Proxy};
use crate::suite::options;

#[tokio::test(flavor = "multi_thread")]
async fn r102_a_commit_that_is_cut_twenty_times_each_way_doubles_nothing_and_loses_no_receipt() {
    let cluster = Cluster::start("").unwrap();
    let proxy = Proxy::before(cluster.port()).await;
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&proxy.url(), options()).await.unwrap());
    let direct: Arc<dyn Store> = Arc::new(PostgresStore::open(&cluster.url(), options()).await.unwrap());
    for (name, cut) in [("before", Cut::Before), ("after", Cut::After)] {
        for round in 0..20 {
            let sample = Sample::new("acme", &format!("{name}-{round}"));
            let cuts = proxy.cuts();
            proxy.arm(cut);
            let opened = store.submit(sample.claimed("owner-1"), Priority::Claim).await;
            assert_eq!(proxy.cuts(), cuts + 1, "the claim's COMMIT was cut");
            let Ok(Applied::Opened(opened)) = opened else { panic!("{name} {round}: {opened:?}") };
            assert_eq!(direct.get(&sample.key).await.unwrap(), Some(opened), "what is answered is there");
            proxy.arm(cut);
            let settled = store
                .submit(step(&sample.key, vec![effect(1, "owner-1", &format!("T-{name}-{round}"))]), Priority::Settle)
                .await;
            assert_eq!(proxy.cuts(), cuts + 2, "the settle's COMMIT was cut");
            let Ok(Applied::Stepped(settled)) = settled else { panic!("{name} {round}: {settled:?}") };
            assert_eq!(direct.get(&sample.key).await.unwrap(), Some(settled.clone()));
            let entries = direct.journal(&sample.key, 0, 100).await.unwrap();
            assert_eq!(entries.len(), 3, "opened, claimed and settled, each one time");
            assert_eq!(onceward_core::journal::verify(&entries, settled.journal), Ok(()));
        }
    }
    let rows =
        cluster.sql("SELECT count(*), count(*) FILTER (WHERE state = 'succeeded') FROM onceward.operation").unwrap();
    assert_eq!(rows, "40|40");
}
