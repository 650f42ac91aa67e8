//! That what is asked often is asked of an index, with a million operations in the table.

use onceward_cluster::Database;
use onceward_ledger::store::Store;
use onceward_ledger::testkit::Sample;
use onceward_postgres::PostgresStore;

use crate::suite::options;

/// A million settled operations of a hundred tenants, and a few of each other kind.
const FILL: &str = "INSERT INTO onceward.operation (tenant, operation_id, ordinal, tool, fingerprint, fingerprint_key, state, cause, \
     dispatch, attempt, owner, effect_id, next_check_at, uncertain_since, created_at, updated_at, settled_at, journal_seq, \
     journal_hash, body, progress, answer) \
     SELECT 'tenant-' || n % 100, 'op-' || n, n, 'create_ticket', sha256(n::text::bytea), 0, k, \
     CASE k WHEN 'unknown' THEN 'reply_lost' END, 'caller', CASE k WHEN 'proposed' THEN 0 ELSE 1 END, \
     CASE k WHEN 'pending' THEN 'owner-' || n % 7 END, CASE k WHEN 'succeeded' THEN 'T-' || n END, \
     CASE k WHEN 'unknown' THEN n END, CASE k WHEN 'unknown' THEN n END, n, n, CASE k WHEN 'succeeded' THEN n END, 1, \
     sha256(n::text::bytea), '\\x01007b7d', '\\x01007b7d', CASE k WHEN 'succeeded' THEN '\\x01007b7d'::bytea END \
     FROM (SELECT n, CASE WHEN n % 10000 = 1 THEN 'unknown' WHEN n % 10000 = 2 THEN 'pending' WHEN n % 10000 = 3 THEN 'proposed' \
     ELSE 'succeeded' END AS k FROM generate_series(1, 1000000) AS n) AS made";

/// What is asked, and the index that must answer it.
const ASKED: &[(&str, &str)] = &[
    ("SELECT * FROM onceward.operation WHERE tenant = 'tenant-7' AND operation_id = 'op-7'", "operation_pkey"),
    (
        "SELECT * FROM onceward.operation JOIN unnest(ARRAY['tenant-7','tenant-8'], ARRAY['op-7','op-8']) AS wanted (t, i) \
         ON tenant = wanted.t AND operation_id = wanted.i ORDER BY tenant, operation_id FOR UPDATE OF operation",
        "operation_pkey",
    ),
    ("SELECT * FROM onceward.operation WHERE owner = 'owner-3' ORDER BY ordinal LIMIT 64", "operation_held"),
    ("SELECT * FROM onceward.operation WHERE settle_by_at <= 5 ORDER BY settle_by_at LIMIT 64", "operation_overdue"),
    ("SELECT * FROM onceward.operation WHERE next_check_at <= 500000 ORDER BY next_check_at LIMIT 64", "operation_due"),
    (
        "SELECT * FROM onceward.operation WHERE tenant = 'tenant-1' AND owner IS NULL AND settled_at IS NULL \
         AND state = ANY(ARRAY['unknown']) ORDER BY ordinal DESC LIMIT 100",
        "operation_open",
    ),
    (
        "SELECT * FROM onceward.operation WHERE tenant = 'tenant-1' ORDER BY ordinal DESC LIMIT 100",
        "operation_by_tenant",
    ),
    (
        "SELECT tool, cause, count(*), count(*) - count(next_check_at), min(uncertain_since) FROM onceward.operation \
         WHERE state = 'unknown' GROUP BY tool, cause",
        "operation_unknown",
    ),
    ("SELECT operation_id FROM onceward.operation WHERE tenant = 'tenant-7' AND effect_id = 'T-7'", "operation_effect"),
    (
        "SELECT operation_id, lane IS NOT NULL AND EXISTS (SELECT 1 FROM onceward.operation earlier \
         WHERE earlier.tenant = entry.tenant AND earlier.lane = entry.lane AND earlier.dispatch = 'auto' \
         AND earlier.settled_at IS NULL AND earlier.ordinal < entry.ordinal) FROM onceward.operation entry \
         WHERE dispatch = 'auto' AND state = 'approved' AND ordinal > 5 ORDER BY ordinal LIMIT 256",
        "operation_outbox",
    ),
    (
        "SELECT operation_id FROM onceward.operation WHERE tenant = 'tenant-7' AND lane = 'lane' AND dispatch = 'auto' \
         AND settled_at IS NULL ORDER BY ordinal LIMIT 1",
        "operation_lane",
    ),
    (
        "UPDATE onceward.operation o SET attempt = 1 FROM unnest(ARRAY['tenant-7'], ARRAY['op-7'], ARRAY['\\x00'::bytea]) \
         AS i (tenant, operation_id, before) WHERE o.tenant = i.tenant AND o.operation_id = i.operation_id \
         AND o.journal_hash = i.before",
        "operation_pkey",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn claims_settles_due_work_and_inboxes_are_asked_of_an_index_at_a_million_operations() {
    let database = Database::make().unwrap();
    let store = PostgresStore::open(database.url(), options()).await.unwrap();
    assert_eq!(store.get(&Sample::new("acme", "none").key).await.unwrap(), None);
    database.sql(FILL).unwrap();
    database.sql("ANALYZE onceward.operation").unwrap();
    for (asked, index) in ASKED {
        let plan = database.sql(&format!("EXPLAIN {asked}")).unwrap();
        assert!(plan.contains(index), "{asked}\nis not asked of {index}:\n{plan}");
        assert!(!plan.contains("Seq Scan on operation"), "{asked}\n{plan}");
    }
}
