//! How fast external operations can be: claims and settles through the store, beside a bare writer with group commit that
//! knows no rules. Both commit twice for an operation, on the same disk, in the same run.
//!
//! `cargo run --release -p onceward-sqlite --example floor [folder] [seconds] [rounds] [callers]`

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use onceward_ledger::clock::{Clock, SystemClock};
use onceward_ledger::store::{Applied, Priority, Store};
use onceward_ledger::testkit::{Sample, effect, step};
use onceward_sqlite::rusqlite::{Connection, params};
use onceward_sqlite::{Options, SqliteStore};
use tokio::sync::oneshot;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| ".".to_owned());
    let seconds: f64 = arguments.next().map_or(2.0, |text| text.parse().expect("seconds"));
    let rounds: usize = arguments.next().map_or(3, |text| text.parse().expect("rounds"));
    let span = Duration::from_secs_f64(seconds);
    println!("{:>8} {:>14} {:>14} {:>7}   p99 ms (store, bare)", "callers", "store op/s", "bare op/s", "ratio");
    let all = [1, 16, 64];
    let callers = arguments.next().map_or(all.to_vec(), |text| vec![text.parse().expect("callers")]);
    for callers in callers {
        let mut store = Vec::new();
        let mut bare = Vec::new();
        for _ in 0..rounds {
            let scratch = tempfile::tempdir_in(&folder).expect("a folder");
            store.push(with_store(scratch.path(), callers, span));
            let scratch = tempfile::tempdir_in(&folder).expect("a folder");
            bare.push(with_bare(scratch.path(), callers, span));
        }
        let (store, bare) = (median(store), median(bare));
        println!(
            "{callers:>8} {:>14.0} {:>14.0} {:>7.2}   {:.1}, {:.1}",
            store.rate,
            bare.rate,
            store.rate / bare.rate,
            store.p99_ms,
            bare.p99_ms
        );
    }
}

struct Measured {
    rate: f64,
    p99_ms: f64,
}

fn median(mut measured: Vec<Measured>) -> Measured {
    measured.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let middle = measured.len() / 2;
    measured.swap_remove(middle)
}

/// Calls `operation` with ids that look random, from `callers` threads, for as long as `span`.
fn measure(callers: usize, span: Duration, operation: impl Fn(&str) + Send + Sync) -> Measured {
    let stop = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let begun = SystemClock.uptime();
    let mut waits: Vec<Duration> = thread::scope(|scope| {
        let calls: Vec<_> = (0..callers)
            .map(|_| {
                scope.spawn(|| {
                    let mut waits = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        // Scattered like a random UUID, and never the same twice.
                        let id = format!("{:016x}-{n:08x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                        let from = SystemClock.uptime();
                        operation(&id);
                        waits.push(SystemClock.uptime() - from);
                    }
                    waits
                })
            })
            .collect();
        thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
        calls.into_iter().flat_map(|call| call.join().expect("no panic")).collect()
    });
    let took = SystemClock.uptime() - begun;
    waits.sort_unstable();
    let p99 = waits[waits.len().saturating_mul(99) / 100];
    Measured { rate: waits.len() as f64 / took.as_secs_f64(), p99_ms: p99.as_secs_f64() * 1000.0 }
}

fn with_store(folder: &Path, callers: usize, span: Duration) -> Measured {
    let store = SqliteStore::open(folder.join("ledger.db"), Options::new(Arc::new(SystemClock))).expect("opens");
    measure(callers, span, |id| {
        let sample = Sample::new("acme", id);
        let claimed = store.submit(sample.claimed("owner-1"), Priority::Claim).wait().expect("written");
        assert!(matches!(claimed, Applied::Opened(_)));
        let settle = step(&sample.key, vec![effect(1, "owner-1", &format!("T-{id}"))]);
        let settled = store.submit(settle, Priority::Settle).wait().expect("written");
        assert!(matches!(settled, Applied::Stepped(_)));
    })
}

enum Bare {
    Claim { id: String, arguments: String },
    Settle { id: String, receipt: String },
}

/// What one would write by hand: one table, one unique key, one thread that commits whatever waits.
fn with_bare(folder: &Path, callers: usize, span: Duration) -> Measured {
    let path = folder.join("bare.db");
    let (sender, receiver) = mpsc::channel::<(Bare, oneshot::Sender<()>)>();
    let writer = thread::spawn(move || {
        let connection = Connection::open(path).expect("opens");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE bare (tenant TEXT NOT NULL, operation_id TEXT NOT NULL, state TEXT NOT NULL, \
                 arguments TEXT NOT NULL, receipt TEXT, UNIQUE (tenant, operation_id));",
            )
            .expect("a schema");
        while let Ok(first) = receiver.recv() {
            let mut waiting = vec![first];
            waiting.extend(receiver.try_iter().take(511));
            connection.execute_batch("BEGIN IMMEDIATE").expect("begins");
            for (command, _) in &waiting {
                match command {
                    Bare::Claim { id, arguments } => connection
                        .prepare_cached("INSERT INTO bare VALUES (?1, ?2, 'pending', ?3, NULL)")
                        .and_then(|mut insert| insert.execute(params!["acme", id, arguments])),
                    Bare::Settle { id, receipt } => connection
                        .prepare_cached(
                            "UPDATE bare SET state = 'succeeded', receipt = ?3 \
                             WHERE tenant = ?1 AND operation_id = ?2 AND state = 'pending'",
                        )
                        .and_then(|mut update| update.execute(params!["acme", id, receipt])),
                }
                .expect("written");
            }
            connection.execute_batch("COMMIT").expect("commits");
            for (_, reply) in waiting {
                let _ = reply.send(());
            }
        }
    });
    let send = |command| {
        let (reply, done) = oneshot::channel();
        sender.send((command, reply)).expect("the writer lives");
        done.blocking_recv().expect("written");
    };
    let measured = measure(callers, span, |id| {
        send(Bare::Claim { id: id.to_owned(), arguments: Sample::new("acme", id).arguments });
        let receipt = onceward_ledger::testkit::receipt(&format!("T-{id}"));
        send(Bare::Settle { id: id.to_owned(), receipt: String::from_utf8(receipt.answer.body).expect("text") });
    });
    drop(sender);
    writer.join().expect("no panic");
    measured
}
