//! The SQL contract: what `begin_operation` and `finish_operation` write is what the ledger writes.

#![allow(clippy::disallowed_methods, reason = "tests poll with a deadline")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use onceward_cluster::Database;
use onceward_core::event::{Event, Observation, Verdict};
use onceward_core::journal::{self, Entry};
use onceward_core::operation::Operation;
use onceward_core::state::State;
use onceward_ledger::store::{Applied, Priority, Store};
use onceward_ledger::testkit::{Sample, claim, key, lost, now, receipt, step};
use onceward_postgres::tokio_postgres::{Client, NoTls};
use onceward_postgres::{Begin, LocalOutcome, PostgresStore, begin_on};
use serde_json::Value;

use crate::suite::options;

const VECTORS: &str = include_str!("../../../onceward-core/vectors/fingerprint.json");

pub(crate) struct Contract {
    pub(crate) database: Database,
    pub(crate) store: Arc<PostgresStore>,
}

impl Contract {
    pub(crate) async fn open() -> Self {
        let database = Database::make().unwrap();
        let store = Arc::new(PostgresStore::open(database.url(), options()).await.unwrap());
        Self { database, store }
    }

    async fn client(&self) -> Client {
        connect(self.database.url()).await
    }

    /// An operation as the store reads it, with its journal, which must verify.
    pub(crate) async fn verified(&self, id: &str) -> (Operation, Vec<Entry>) {
        let operation = self.store.get(&key("acme", id)).await.unwrap().unwrap();
        let entries = self.store.journal(&operation.key, 0, 100).await.unwrap();
        assert_eq!(journal::verify(&entries, operation.journal), Ok(()));
        (operation, entries)
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = onceward_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Calls `begin_operation` for a sample, without a fingerprint: it is made there.
async fn begin(client: &Client, sample: &Sample) -> (String, Option<String>) {
    let sql = "SELECT verdict, cause FROM onceward.begin_operation('acme', $1, 'agent-1', $2, '1', $3)";
    let id = sample.key.id.to_string();
    let row = client.query_one(sql, &[&id, &sample.tool, &sample.arguments]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn finish(client: &Client, sample: &Sample, effect: &str) {
    let answer = format!(r#"{{"id": "{effect}"}}"#);
    let sql = "SELECT onceward.finish_operation('acme', $1, $2, $3)";
    client.execute(sql, &[&sample.key.id.to_string(), &effect, &answer]).await.unwrap();
}

async fn verdict(client: &Client, sample: &Sample) -> String {
    begin(client, sample).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_functions_write_is_read_by_the_ledger_as_its_own() {
    let contract = Contract::open().await;
    let mut client = contract.client().await;
    let (in_sql, in_rust) = (Sample::new("acme", "in-sql"), Sample::new("acme", "in-rust"));
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verdict(&client, &in_sql).await, "run");
    finish(&client, &in_sql, "T-1").await;
    client.batch_execute("COMMIT").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let opening = in_rust.opening(vec![claim(1, "owner-1")]);
    let Begin::Begun(begun) = begin_on(&transaction, opening, now()).await.unwrap() else { panic!("not begun") };
    let _ = begun.finish(receipt("T-2"), now()).await.unwrap();
    transaction.commit().await.unwrap();

    let (sql, entries) = contract.verified("in-sql").await;
    let (rust, others) = contract.verified("in-rust").await;
    let State::Succeeded(done) = &sql.state else { panic!("{:?}", sql.state) };
    assert_eq!(done.effect_id.as_ref().map(ToString::to_string).as_deref(), Some("T-1"));
    assert_eq!(done.answer.present().unwrap().body, br#"{"id": "T-1"}"#);
    assert_eq!(done.answer.present().unwrap().headers.len(), 1);
    let expected = in_sql.operation(sql.state.clone()).binding;
    assert_eq!(sql.binding, expected, "tool, version, arguments and fingerprint");
    assert_eq!(sql.history, rust.history);
    assert_eq!(sql.terms, onceward_core::operation::Terms { title: None, ..rust.terms.clone() });
    let names = |entries: &[Entry]| entries.iter().map(|entry| entry.event.clone()).collect::<Vec<_>>();
    assert_eq!(names(&entries), names(&others));
    let detail = |at: usize| entries[at].detail.clone().unwrap();
    let opened: Value = serde_json::from_str(&detail(0)).unwrap();
    assert_eq!(opened["fingerprint"], serde_json::to_value(expected.fingerprint).unwrap());
    assert!(matches!(serde_json::from_str(&detail(1)).unwrap(), Event::Claim(_)));
    let seen: Observation = serde_json::from_str(&detail(2)).unwrap();
    let Verdict::Effect(kept) = seen.verdict else { panic!("{:?}", seen.verdict) };
    assert!(kept.answer.body.starts_with(b"sha256:"), "the answer itself is in the row");

    let repeated = contract.store.run_local(in_sql.opening(vec![claim(1, "owner-1")]), Box::new(|_| panic!("it ran")));
    assert!(matches!(repeated.await.unwrap(), LocalOutcome::Existing(known) if known == sql));
    assert_eq!(verdict(&client, &in_rust).await, "replay", "and the other way round");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_ledger_has_under_the_key_is_told_and_nothing_is_run() {
    let contract = Contract::open().await;
    let client = contract.client().await;
    let sample = Sample::new("acme", "ticket-1");
    let opened = contract.store.submit(sample.claimed("owner-1"), Priority::Claim).await.unwrap();
    assert!(matches!(opened, Applied::Opened(_)));
    assert_eq!(begin(&client, &sample).await, ("in_progress".to_owned(), None));
    let left =
        contract.store.submit(step(&sample.key, vec![lost(1, "owner-1", None)]), Priority::Settle).await.unwrap();
    assert!(matches!(left, Applied::Stepped(_)));
    assert_eq!(begin(&client, &sample).await, ("unknown".to_owned(), Some("reply_lost".to_owned())));
    assert_eq!(verdict(&client, &sample.clone().of_tool("close_ticket")).await, "conflict");
    let other = Sample { arguments: r#"{"title":"another"}"#.to_owned(), ..sample };
    assert_eq!(verdict(&client, &other).await, "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operations_with_one_effect_are_a_disagreement() {
    let contract = Contract::open().await;
    let client = contract.client().await;
    for id in ["one", "two"] {
        let sample = Sample::new("acme", id);
        client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(verdict(&client, &sample).await, "run");
        finish(&client, &sample, "T-1").await;
        client.batch_execute("COMMIT").await.unwrap();
    }
    let (one, _) = contract.verified("one").await;
    let (two, entries) = contract.verified("two").await;
    assert_eq!((one.history.in_disagreement(), two.history.in_disagreement()), (false, true));
    assert!(matches!(two.state, State::Succeeded(_)), "its receipt is stored all the same");
    let last: Observation = serde_json::from_str(entries[3].detail.as_deref().unwrap()).unwrap();
    assert_eq!(last.note.as_deref(), Some("operation one has the same effect id"));
}

/// Waits until a session of this database waits for a lock.
async fn waits(client: &Client) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < deadline, "nobody waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_caller_waits_and_replays_after_a_commit_or_runs_after_a_rollback() {
    let contract = Contract::open().await;
    let watch = contract.client().await;
    for (end, told) in [("COMMIT", "replay"), ("ROLLBACK", "run")] {
        let sample = Sample::new("acme", end);
        let first = contract.client().await;
        first.batch_execute("BEGIN").await.unwrap();
        assert_eq!(verdict(&first, &sample).await, "run");
        finish(&first, &sample, end).await;
        let second = contract.client().await;
        let asked = sample.clone();
        let waiting = tokio::spawn(async move {
            second.batch_execute("BEGIN").await.unwrap();
            let told = verdict(&second, &asked).await;
            second.batch_execute("ROLLBACK").await.unwrap();
            told
        });
        waits(&watch).await;
        first.batch_execute(end).await.unwrap();
        assert_eq!(waiting.await.unwrap(), told, "after {end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_begun_in_this_transaction_cannot_be_finished_and_nothing_is_finished_twice() {
    let contract = Contract::open().await;
    let client = contract.client().await;
    let sql = "SELECT onceward.finish_operation('acme', 'ticket-1', NULL, '{}')";
    let refused = |error: onceward_postgres::tokio_postgres::Error| {
        assert!(error.as_db_error().unwrap().message().contains("is not begun in this transaction"), "{error:?}");
    };
    refused(client.batch_execute(sql).await.unwrap_err());
    let sample = Sample::new("acme", "ticket-1");
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verdict(&client, &sample).await, "run");
    assert_eq!(verdict(&client, &sample).await, "begun", "by this very transaction");
    client.batch_execute(sql).await.unwrap();
    client.batch_execute("SAVEPOINT again").await.unwrap();
    refused(client.batch_execute(sql).await.unwrap_err());
    client.batch_execute("ROLLBACK TO again; COMMIT").await.unwrap();
    refused(client.batch_execute(sql).await.unwrap_err());
    // What is finished in a savepoint that is rolled back is not finished.
    let sample = Sample::new("acme", "ticket-2");
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verdict(&client, &sample).await, "run");
    client.batch_execute("SAVEPOINT again").await.unwrap();
    finish(&client, &sample, "T-2").await;
    client.batch_execute("ROLLBACK TO again").await.unwrap();
    assert!(client.batch_execute("COMMIT").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_make_the_published_canonical_forms_and_fingerprints() {
    let contract = Contract::open().await;
    let client = contract.client().await;
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut held, mut refused) = (0, 0);
    for vector in vectors["vectors"].as_array().unwrap() {
        let (name, given) = (text(&vector["name"]), text(&vector["arguments"]));
        let is_object = serde_json::from_str::<Value>(&given).is_ok_and(|value| value.is_object());
        // PostgreSQL's text cannot hold U+0000; such arguments are refused, as docs/sql.md says.
        if !is_object || given.contains("\\u0000") {
            assert!(client.query_one("SELECT onceward.canonical($1)", &[&given]).await.is_err(), "{name}");
            continue;
        }
        let row = client.query_one("SELECT onceward.canonical($1)", &[&given]).await.unwrap();
        let made: String = row.get(0);
        assert_eq!(made, text(&vector["canonical"]), "{name}");
        let compares_all = vector["free_text"] == serde_json::json!([]) && vector["volatile"] == serde_json::json!([]);
        if vector["key"].is_null() && compares_all {
            let sql = "SELECT encode(onceward.fingerprint($1, $2, $3), 'hex')";
            let params = [text(&vector["tool"]), text(&vector["tool_version"]), made];
            let row = client.query_one(sql, &[&params[0], &params[1], &params[2]]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), text(&vector["fingerprint"]), "{name}");
            held += 1;
        }
    }
    for refusal in vectors["refusals"].as_array().unwrap() {
        let Some(given) = refusal["text"].as_str() else { continue };
        assert!(client.query_one("SELECT onceward.canonical($1)", &[&given]).await.is_err(), "{}", refusal["name"]);
        refused += 1;
    }
    for pair in vectors["pairs"].as_array().unwrap() {
        let sql = "SELECT onceward.canonical('{\"x\":' || $1 || '}') = onceward.canonical('{\"x\":' || $2 || '}')";
        let row = client.query_one(sql, &[&text(&pair["left"]), &text(&pair["right"])]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), pair["same"].as_bool().unwrap(), "{}", pair["name"]);
    }
    assert!(held > 30 && refused > 30, "{held} held, {refused} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_restore_is_open_only_an_identity_that_is_younger_runs() {
    let contract = Contract::open().await;
    let client = contract.client().await;
    let restored = now().as_micros() - 3_600_000_000;
    let sql = "INSERT INTO onceward.restore (number, as_of, restored_at) VALUES (1, $1, $1)";
    client.execute(sql, &[&restored]).await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    let minted = |at: i64| {
        let milliseconds = at / 1_000;
        format!("{:08x}-{:04x}-7cc3-98c4-dc0c0c07398f", milliseconds >> 16, milliseconds & 0xffff)
    };
    for id in ["order-17".to_owned(), minted(restored), minted(now().as_micros() + 3_600_000_000)] {
        let told = begin(&client, &Sample::new("acme", &id)).await;
        assert_eq!(told, ("unknown".to_owned(), Some("restored".to_owned())), "{id}");
    }
    assert_eq!(verdict(&client, &Sample::new("acme", &minted(now().as_micros()))).await, "run");
    client.batch_execute("ROLLBACK; UPDATE onceward.restore SET closed_at = 1, reason = 'seen'").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verdict(&client, &Sample::new("acme", "order-17")).await, "run");
}

/// A role that has the two grants of docs/sql.md and a table of its own, and its address. Roles are the server's, and tests share it.
pub(crate) fn shop(database: &Database) -> String {
    database
        .sql(
            "DO $$ BEGIN CREATE ROLE onceward_test_shop LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; \
             END $$; \
             GRANT USAGE ON SCHEMA onceward TO onceward_test_shop; \
             GRANT EXECUTE ON FUNCTION onceward.begin_operation, onceward.finish_operation TO onceward_test_shop; \
             CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, operation text NOT NULL, item text NOT NULL); \
             GRANT SELECT, INSERT ON orders TO onceward_test_shop",
        )
        .unwrap();
    database.url().replace("postgres@", "onceward_test_shop@")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_the_two_grants_has_effects_and_can_neither_read_nor_change_the_ledger() {
    let contract = Contract::open().await;
    let client = connect(&shop(&contract.database)).await;
    let sample = Sample::new("acme", "ticket-1");
    client.batch_execute("BEGIN; INSERT INTO orders (operation, item) VALUES ('ticket-1', 'printer')").await.unwrap();
    assert_eq!(verdict(&client, &sample).await, "run");
    finish(&client, &sample, "T-1").await;
    client.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(contract.verified("ticket-1").await.0.state, State::Succeeded(_)));
    let tables = contract.database.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'onceward'").unwrap();
    for table in tables.lines() {
        for sql in [format!("SELECT 1 FROM onceward.{table}"), format!("DELETE FROM onceward.{table}")] {
            denied(&client, &sql).await;
        }
    }
    denied(&client, "SELECT onceward.journal_append('acme', 'ticket-1', 4, '', 1, 'a', 'close', '{}')").await;
    denied(&client, "SELECT onceward.canonical('{}')").await;
    // What it may call runs as the owner of the ledger, and finds nothing that its caller put in the way.
    client.batch_execute("CREATE TEMP TABLE operation (tenant text); SET search_path = pg_temp, public").await.unwrap();
    assert_eq!(verdict(&client, &sample).await, "replay");
}

async fn denied(client: &Client, sql: &str) {
    let error = client.batch_execute(sql).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().starts_with("permission denied"), "{sql}: {error:?}");
}
