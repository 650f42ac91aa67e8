//! PostgreSQL's own load generator, so that the floor is not of our making.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use onceward_cluster::Cluster;

use crate::load::{LONGEST_US, Measured};
use crate::rows::{ARGUMENTS, RECEIPT};

/// Scripts for one server, and a folder for what it prints.
pub(crate) struct Pgbench {
    program: PathBuf,
    server: String,
    folder: tempfile::TempDir,
    template: Template,
}

/// What it is asked to do, again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    /// A claim and a completion of one narrow row, each committed.
    FloorOne,
    /// The same of several rows in each statement.
    FloorMany { rows: usize },
    /// What the ledger writes for an operation: its row with all columns and indexes, and its journal.
    Ledger { rows: usize },
    /// One operation by its key.
    Find,
}

/// The text of one operation's rows, with which the ledger's own are imitated.
struct Template {
    columns: String,
    claimed: String,
    settled: String,
    before: String,
    first: String,
    last: String,
}

impl Script {
    const fn rows(self) -> usize {
        match self {
            Self::FloorOne | Self::Find => 1,
            Self::FloorMany { rows } | Self::Ledger { rows } => rows,
        }
    }
}

impl Pgbench {
    /// Makes the floor's table; the rows of the ledger are imitated after its operation `template`.
    ///
    /// # Errors
    /// PostgreSQL's programs are not installed, or a statement failed.
    pub(crate) fn new(cluster: &Cluster, template: &str) -> Result<Self> {
        cluster.sql(&filled(include_str!("../sql/floor.sql"), &[]))?;
        cluster.sql("VACUUM ANALYZE bench.operation")?;
        Ok(Self {
            program: onceward_cluster::program("pgbench")?,
            server: cluster.url(),
            folder: tempfile::tempdir()?,
            template: Template::of(cluster, template)?,
        })
    }

    /// Runs a script on so many connections for so many whole seconds; what is counted is rows.
    ///
    /// # Errors
    /// A transaction failed: a measurement with failures is none.
    pub(crate) fn run(&self, script: Script, connections: usize, time: Duration) -> Result<Measured> {
        let file = self.folder.path().join("script.sql");
        fs::write(&file, self.text(script))?;
        let logs = self.folder.path().join("log");
        let output = Command::new(&self.program)
            .args(["--no-vacuum", "--protocol=prepared", "--log", "--jobs=2"])
            .arg(format!("--client={connections}"))
            .arg(format!("--time={}", time.as_secs_f64().ceil()))
            .arg(format!("--log-prefix={}", logs.display()))
            .arg(format!("--file={}", file.display()))
            .arg(&self.server)
            .output()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let (told, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success() && !failed.contains("ERROR"), "pgbench: {told}{failed}");
        let per_second: f64 = told
            .lines()
            .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next())
            .with_context(|| format!("pgbench has not said how many: {told}"))?
            .parse()?;
        let latencies = self.latencies()?;
        Ok(Measured {
            per_second: per_second * script.rows() as f64,
            p50_ms: latencies.value_at_quantile(0.50) as f64 / 1000.0,
            p99_ms: latencies.value_at_quantile(0.99) as f64 / 1000.0,
        })
    }

    fn text(&self, script: Script) -> String {
        let rows = script.rows().to_string();
        match script {
            Script::FloorOne => filled(include_str!("../sql/floor_one.sql"), &[]),
            Script::FloorMany { .. } => filled(include_str!("../sql/floor_many.sql"), &[("rows", &rows)]),
            Script::Ledger { .. } => {
                let Template { columns, claimed, settled, before, first, last } = &self.template;
                let values: [(&str, &str); 7] = [
                    ("rows", &rows),
                    ("columns", columns),
                    ("claimed", claimed),
                    ("settled", settled),
                    ("before", before),
                    ("first", first),
                    ("last", last),
                ];
                filled(include_str!("../sql/ledger.sql"), &values)
            }
            Script::Find => include_str!("../sql/find.sql").to_owned(),
        }
    }

    /// What the logs of the last run say, which are removed.
    fn latencies(&self) -> Result<Histogram<u64>> {
        let mut all = Histogram::new_with_max(LONGEST_US, 3)?;
        for file in fs::read_dir(self.folder.path())? {
            let path = file?.path();
            if is_log(&path) {
                for line in fs::read_to_string(&path)?.lines() {
                    let us: u64 = line.split(' ').nth(2).context("no latency in the log")?.parse()?;
                    all.saturating_record(us);
                }
                fs::remove_file(&path)?;
            }
        }
        Ok(all)
    }
}

fn is_log(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
}

/// A script with its values. A colon before a letter would be a variable, wherever it stands.
fn filled(script: &str, values: &[(&str, &str)]) -> String {
    let json = |text: &str| text.replace(':', ": ");
    let mut text = script.replace("{arguments}", &json(ARGUMENTS)).replace("{receipt}", &json(RECEIPT));
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

impl Template {
    /// Literals of the columns and journal entries of a settled operation; a claim has what a row has before its answer.
    fn of(cluster: &Cluster, id: &str) -> Result<Self> {
        const EACH: &str =
            "FROM onceward.operation AS o, json_each_text(row_to_json(o)) WITH ORDINALITY AS c (name, value, n)";
        let value = "quote_nullable(translate(value, ':', '.'))";
        let one = |text: &str| cluster.sql(&format!("{text} WHERE o.operation_id = '{id}'"));
        let entries = |which: &str| {
            cluster.sql(&format!(
                "SELECT string_agg(format('(%s::int8, %s::int8, %L, %L, %L::bytea, %L::bytea, %L::bytea, %L::bytea)', \
                 seq, at, translate(actor, ':', '.'), event, detail, salt, commitment, hash), ', ') FROM onceward.journal \
                 WHERE operation_id = '{id}' AND seq {which} (SELECT max(seq) FROM onceward.journal WHERE operation_id = '{id}')"
            ))
        };
        Ok(Self {
            columns: one(&format!("SELECT string_agg(name, ', ' ORDER BY n) {EACH}"))?,
            claimed: one(&format!(
                "SELECT string_agg(CASE name WHEN 'tenant' THEN '''pgbench''' WHEN 'operation_id' THEN 'id' \
                 WHEN 'ordinal' THEN '(extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 4096' \
                 WHEN 'state' THEN '''pending''' WHEN 'owner' THEN '''bench''' WHEN 'effect_id' THEN 'NULL' \
                 WHEN 'settled_at' THEN 'NULL' WHEN 'answer' THEN 'NULL' ELSE {value} END, ', ' ORDER BY n) {EACH}"
            ))?,
            settled: one(&format!(
                "SELECT string_agg(name || ' = ' || {value}, ', ' ORDER BY n) FILTER (WHERE name IN ('state', 'cause', \
                 'attempt', 'owner', 'effect_id', 'next_check_at', 'settle_by_at', 'uncertain_since', 'disagreement', \
                 'superseded_by', 'updated_at', 'settled_at', 'purged_at', 'journal_seq', 'journal_hash', 'progress', \
                 'answer')) {EACH}"
            ))?,
            before: one("SELECT quote_nullable(journal_hash) FROM onceward.operation AS o")?,
            first: entries("<")?,
            last: entries("=")?,
        })
    }
}
