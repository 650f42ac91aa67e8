//! Four gateways on one database, and sixty-four callers at each, on the same thousand keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::future::join_all;
use onceward_cluster::Database;

use super::super::Server;
use super::{Agent, WITHIN, audit, configure, token};

const GATEWAYS: usize = 4;
const CALLERS: usize = 64;
const KEYS: usize = 1_000;

/// How many of the keys each caller calls. `ONCEWARD_CROWD=1000` has everyone call every key: 256,000 calls.
const KEYS_EACH: usize = 40;

/// What one caller was told.
struct Told {
    receipts: Vec<(usize, String)>,
    /// Calls that were told to come again: nothing of them was sent.
    again: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_at_four_processes_has_one_effect_and_one_receipt_for_each_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (sandbox, database) = (Server::sandbox(folder), Database::make().expect("a database"));
    configure(folder, database.url(), &sandbox.url);
    let token = token(folder, "agent", "agent");
    let gateways: Vec<Server> = (0..GATEWAYS).map(|_| Server::gateway(folder)).collect();
    let each = std::env::var("ONCEWARD_CROWD").map_or(KEYS_EACH, |text| text.parse().expect("a number of keys"));

    #[allow(clippy::disallowed_methods, reason = "how long the crowd took is printed")]
    let began = Instant::now();
    let crowd = gateways.iter().flat_map(|gateway| {
        let agent = Agent::at(gateway, &token);
        (0..CALLERS).map(move |place| (place, agent.clone()))
    });
    // Four callers, one at each gateway, begin with the same key at the same time, and meet the others' keys later.
    let calling = crowd.map(|(place, agent)| tokio::spawn(calls(agent, place * KEYS / CALLERS, each)));
    let told: Vec<Told> = join_all(calling).await.into_iter().map(|told| told.expect("a caller")).collect();
    let took = began.elapsed();

    let mut receipts: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let (mut calls, mut again) = (0, 0);
    for one in told {
        (calls, again) = (calls + one.receipts.len(), again + one.again);
        one.receipts.into_iter().for_each(|(key, ticket)| {
            receipts.entry(key).or_default().insert(ticket);
        });
    }
    let (effects, requests) = audit(&sandbox).await;
    println!(
        "{GATEWAYS} gateways, {CALLERS} callers each, {KEYS} keys: {calls} calls answered with a receipt in {took:.1?} \
         ({again} came again); {effects} effects and {requests} requests at the sandbox"
    );
    assert_eq!((calls, receipts.len()), (GATEWAYS * CALLERS * each, KEYS));
    let differing: Vec<_> = receipts.iter().filter(|(_, tickets)| tickets.len() != 1).collect();
    assert!(differing.is_empty(), "keys with several receipts: {differing:?}");
    assert_eq!(receipts.values().flatten().collect::<BTreeSet<_>>().len(), KEYS, "two keys with one receipt");
    assert_eq!((effects, requests), (1_000, 1_000));
}

async fn calls(agent: Agent, first: usize, count: usize) -> Told {
    let mut told = Told { receipts: Vec::with_capacity(count), again: 0 };
    for step in 0..count {
        let key = (first + step) % KEYS;
        let calling = async {
            loop {
                let answer = agent.call("create_ticket", &format!("order-{key}")).await.expect("answered");
                if let Some(ticket) = answer["receipt"]["body"]["id"].as_str() {
                    return ticket.to_owned();
                }
                let outcome = answer["outcome"].as_str().unwrap_or_default();
                assert!(matches!(outcome, "not_dispatched" | "in_progress"), "{answer}");
                told.again += 1;
            }
        };
        let ticket = tokio::time::timeout(WITHIN, calling).await.expect("a receipt in time");
        told.receipts.push((key, ticket));
    }
    told
}
