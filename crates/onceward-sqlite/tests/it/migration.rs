//! Files of earlier schemas, opened by this version.

use std::sync::Arc;

use onceward_core::event::{Cause, Source, Verdict};
use onceward_core::key::{OutboundKey, OwnerId};
use onceward_core::state::State;
use onceward_ledger::mark::Mark;
use onceward_ledger::store::Store;
use onceward_ledger::testkit::{Sample, effect, lost, observed, step};

use crate::scratch::{Scratch, at_once, opened, stepped, stored};

/// Takes away what the later schemas have made, so that the file is as the first one left it.
const BACK_TO_THE_FIRST: &str = "
    DROP TRIGGER onceward_marks_forgotten;
    DROP TABLE onceward_mark;
    DROP INDEX onceward_operation_unknown;
    ALTER TABLE onceward_operation DROP COLUMN uncertain_since;
    DROP INDEX onceward_operation_outbox;
    DROP INDEX onceward_operation_lane;
    ALTER TABLE onceward_ledger DROP COLUMN beats;
    ALTER TABLE onceward_ledger DROP COLUMN high_water_at;
    DROP TABLE onceward_restore;
    DELETE FROM onceward_schema WHERE version >= 2;
";

#[test]
fn a_file_of_the_first_schema_gets_marks_and_ages_of_what_is_unknown_and_keeps_every_row() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let samples: Vec<_> = ["unknown", "accepted", "done", "running"].map(|id| Sample::new("acme", id)).into();
    for sample in &samples {
        opened(&store, sample.claimed("owner-1"));
    }
    let accepted = Verdict::Lost(Cause::Accepted { handle: Some("job-1".to_owned()) });
    let by_owner = Source::Owner(OwnerId::parse("owner-1").unwrap());
    let before = [
        stepped(&store, step(&samples[0].key, vec![lost(1, "owner-1", None)])),
        stepped(&store, step(&samples[1].key, vec![observed(1, accepted, by_owner)])),
        stepped(&store, step(&samples[2].key, vec![effect(1, "owner-1", "T-1")])),
        stored(&store, &samples[3].key).unwrap(),
    ];
    drop(store);
    scratch.connection().execute_batch(BACK_TO_THE_FIRST).unwrap();

    let store = scratch.open();
    for operation in &before {
        assert_eq!(stored(&store, &operation.key).as_ref(), Some(operation));
    }
    let State::Unknown(unknown) = &before[0].state else { panic!("not unknown: {:?}", before[0]) };
    let marked = |mark: &Mark| at_once(store.marked(mark, 10)).unwrap();
    let key: OutboundKey = unknown.latest().outbound_key.clone().unwrap();
    assert_eq!(marked(&Mark::Key(key)), [samples[0].key.clone(), samples[1].key.clone()]);
    assert_eq!(marked(&Mark::Handle("job-1".to_owned())), [samples[1].key.clone()]);
    let counted = at_once(store.unresolved()).unwrap();
    let reply_lost = counted.unknown.iter().find(|row| row.cause == "reply_lost").unwrap();
    assert_eq!((reply_lost.count, reply_lost.oldest), (1, unknown.latest().claimed_at));

    // And it is a file of this version from now on.
    stepped(&store, step(&samples[3].key, vec![effect(1, "owner-1", "T-2")]));
    drop(Arc::new(store));
    drop(scratch.open());
}

#[test]
fn a_row_that_cannot_be_read_keeps_no_file_from_being_migrated() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (broken, sound) = (Sample::new("acme", "broken"), Sample::new("acme", "sound"));
    for sample in [&broken, &sound] {
        opened(&store, sample.claimed("owner-1"));
        stepped(&store, step(&sample.key, vec![lost(1, "owner-1", None)]));
    }
    drop(store);
    let connection = scratch.connection();
    connection.execute_batch(BACK_TO_THE_FIRST).unwrap();
    connection.execute("UPDATE onceward_operation SET progress = x'01007b' WHERE operation_id = 'broken'", []).unwrap();
    drop(connection);
    let store = scratch.open();
    let counted = at_once(store.unresolved()).unwrap();
    assert_eq!(counted.unknown.iter().map(|row| row.count).sum::<u64>(), 2, "it is still counted");
    assert!(store.read(&broken.key).is_err() && store.read(&sound.key).is_ok());
}

#[test]
fn one_delete_by_hand_takes_the_marks_with_it() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sample = Sample::new("acme", "order-17");
    opened(&store, sample.claimed("owner-1"));
    stepped(&store, step(&sample.key, vec![lost(1, "owner-1", None)]));
    let marks = || -> i64 {
        scratch.connection().query_row("SELECT count(*) FROM onceward_mark", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(marks(), 1);
    scratch.connection().execute("DELETE FROM onceward_operation WHERE operation_id = 'order-17'", []).unwrap();
    assert_eq!(marks(), 0);
}
