//! The ledger on PostgreSQL beside pgbench, on one server that was started for it, with every commit on disk.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use onceward::clock::SystemClock;
use onceward::core::outbound::LedgerSecret;
use onceward::core::outcome::Outcome;
use onceward_cluster::Cluster;
use onceward_postgres::{Options, PostgresStore};

use crate::library::Library;
use crate::load::{self, Measured};
use crate::pgbench::{Pgbench, Script};
use crate::report::{self, Report, Series};
use crate::rows::fresh;
use crate::{Measure, process};

const FLOOR_ONE: &str = "pgbench, claim + complete";
const FLOOR_MANY: &str = "pgbench, claim + complete, batched";
const LEDGER_ONE: &str = "pgbench, the ledger's rows";
const LEDGER_MANY: &str = "pgbench, the ledger's rows, batched";
const FIND: &str = "pgbench, one row by its key";
const EXTERNAL: &str = "library, external";
const TWO: &str = "library, external, two instances";
const REPLAY: &str = "library, replay";

/// Rows of one statement of the batched scripts: as many callers wait for each.
const BATCH: usize = 64;

/// The usual number of connections is too small for as many callers of pgbench as are measured, the usual log is too small for
/// a measurement without checkpoints.
const SETTINGS: &str = "max_connections = 400\nshared_buffers = '256MB'\nmax_wal_size = '4GB'\n";

/// What is filled in before anything is measured, so that no plan is made for an empty table.
const FILLED_LEAST: u64 = 20_000;

/// Measures everything that was asked for.
///
/// # Errors
/// When the server does not start, or a call fails.
pub(crate) async fn measure(measure: &Measure) -> Result<()> {
    let cluster = Cluster::start(SETTINGS)?;
    ensure!(cluster.sql("SHOW fsync")? == "on", "a floor without fsync is none");
    ensure!(cluster.sql("SHOW synchronous_commit")? == "on", "a commit must be on disk when it is answered");
    let libraries = [library(&cluster).await?, library(&cluster).await?];
    let mut report = Report::default();
    let filled = measure.filled.last().copied().unwrap_or_default().max(FILLED_LEAST);
    fill(&cluster, &libraries[0], filled, &mut report).await?;
    libraries[0].call("replayed", Outcome::Executed).await?;
    let pgbench = Pgbench::new(&cluster, "replayed")?;
    let database = Database::of(cluster)?;
    for callers in measure.callers() {
        let mut series = vec![
            Series::new(FLOOR_ONE, &[]),
            Series::new(FLOOR_MANY, &[]),
            Series::new(LEDGER_ONE, &[]),
            Series::new(LEDGER_MANY, &[]),
            Series::new(EXTERNAL, &[FLOOR_ONE, FLOOR_MANY, LEDGER_ONE, LEDGER_MANY]),
            Series::new(TWO, &[FLOOR_ONE]),
            Series::new(FIND, &[]),
            Series::new(REPLAY, &[FIND]),
        ];
        for _ in 0..measure.rounds {
            for one in series.iter_mut().filter(|one| measure.wants(one.what) && makes_sense(one.what, callers)) {
                let before = (database.processor_seconds()?, process::processor_seconds("self")?);
                let measured = match script(one.what, callers) {
                    Some((script, connections)) => pgbench.run(script, connections, measure.time())?,
                    None => run(&libraries, one.what, callers, measure.time()).await?,
                };
                let operations = measured.per_second * measure.time().as_secs_f64();
                let each = |before: f64, after: f64| Some((after - before) * 1e6 / operations);
                one.database_us = each(before.0, database.processor_seconds()?);
                one.processor_us = each(before.1, process::processor_seconds("self")?);
                one.rounds.push(measured);
            }
        }
        report.add(series, filled, callers);
    }
    report::finish(&report, measure.output.as_deref())
}

/// A batch of one is the single statement once more, and two instances have nothing to share with one caller.
fn makes_sense(what: &str, callers: usize) -> bool {
    callers > 1 || ![FLOOR_MANY, LEDGER_MANY, TWO].contains(&what)
}

/// What pgbench runs, and on how many connections: as many rows are under way at once as there are callers.
fn script(what: &str, callers: usize) -> Option<(Script, usize)> {
    let rows = callers.min(BATCH);
    match what {
        FLOOR_ONE => Some((Script::FloorOne, callers)),
        FLOOR_MANY => Some((Script::FloorMany { rows }, callers / rows)),
        LEDGER_ONE => Some((Script::Ledger { rows: 1 }, callers)),
        LEDGER_MANY => Some((Script::Ledger { rows }, callers / rows)),
        FIND => Some((Script::Find, callers)),
        _ => None,
    }
}

async fn run(libraries: &[Library; 2], what: &'static str, callers: usize, time: Duration) -> Result<Measured> {
    let libraries = libraries.clone();
    load::run(callers, time, move |caller, _| {
        let library = match what {
            TWO => libraries[caller % 2].clone(),
            _ => libraries[0].clone(),
        };
        async move {
            match what {
                REPLAY => library.call("replayed", Outcome::Replayed).await,
                _ => library.call(&fresh(), Outcome::Executed).await,
            }
        }
    })
    .await
}

async fn library(cluster: &Cluster) -> Result<Library> {
    let secret = LedgerSecret::new([7; 32]);
    let options = Options { clock: Arc::new(SystemClock), secret: secret.clone(), tls: None };
    let store = PostgresStore::open(&cluster.url(), options).await?;
    Library::on(Arc::new(store), secret).await
}

/// Fills the ledger, and notes what its operations take up.
async fn fill(cluster: &Cluster, library: &Library, filled: u64, report: &mut Report) -> Result<()> {
    let written = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')";
    let before: f64 = cluster.sql(written)?.parse()?;
    library.fill(filled).await?;
    let after: f64 = cluster.sql(written)?.parse()?;
    report.size("PostgreSQL, its log", filled, after - before);
    cluster.sql("VACUUM ANALYZE")?;
    for (what, size) in [
        ("PostgreSQL, operations", "pg_table_size('onceward.operation')"),
        ("PostgreSQL, their indexes", "pg_indexes_size('onceward.operation')"),
        ("PostgreSQL, the journal", "pg_table_size('onceward.journal')"),
        ("PostgreSQL, its index", "pg_indexes_size('onceward.journal')"),
        ("PostgreSQL, marks and their indexes", "pg_total_relation_size('onceward.mark')"),
    ] {
        report.size(what, filled, cluster.sql(&format!("SELECT {size}"))?.parse()?);
    }
    Ok(())
}

/// The server's processes.
struct Database {
    cluster: Cluster,
    first: String,
}

impl Database {
    fn of(cluster: Cluster) -> Result<Self> {
        let file = cluster.sql("SELECT pg_read_file('postmaster.pid')")?;
        let first = file.lines().next().context("the server has no first process")?.to_owned();
        Ok(Self { cluster, first })
    }

    /// What all of them have used so far, those that have ended as well.
    fn processor_seconds(&self) -> Result<f64> {
        let running = self.cluster.sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")?;
        let ended = process::processor_seconds_with_ended(&self.first)?;
        // One that has ended since it was named is in the other sum from then on.
        Ok(ended + running.lines().filter_map(|pid| process::processor_seconds(pid).ok()).sum::<f64>())
    }
}
