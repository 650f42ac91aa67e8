from __future__ import annotations

import json
import time
import uuid

from onceward import OperationIds, new_operation_id


def test_an_id_begins_with_its_time_and_no_two_are_equal() -> None:
    before = time.time_ns() // 1_000_000
    ids = [uuid.UUID(new_operation_id()) for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    assert {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}
    assert all(before <= one.int >> 80 <= after for one in ids)
    assert len(set(ids)) == 1000


def test_the_same_call_has_the_same_id_also_after_a_restart() -> None:
    ids = OperationIds()
    first = ids.of("create_report", {"name": "Q3", "rows": 5})
    restarted = OperationIds(json.loads(json.dumps(ids.state)))
    assert restarted.of("create_report", {"rows": 5.0, "name": "Q3"}) == first
    assert restarted.of("create_report", {"name": "Q4", "rows": 5}) != first
    assert restarted.of("create_order", {"name": "Q3", "rows": 5}) != first


def test_a_deliberate_second_one_becomes_the_current_one() -> None:
    ids = OperationIds()
    first = ids.of("create_report", {"name": "Q3"})
    second = ids.second("create_report", {"name": "Q3"})
    assert first != second == ids.of("create_report", {"name": "Q3"})


def test_the_state_is_the_dict_that_was_given_and_has_no_arguments_in_it() -> None:
    state: dict[str, str] = {}
    OperationIds(state).of("create_report", {"name": "secret"})
    assert len(state) == 1 and "secret" not in json.dumps(state)


def test_what_is_known_is_said_and_nothing_is_made() -> None:
    ids = OperationIds()
    assert ids.known("pay", {"amount": 1}) is None and ids.state == {}
    made = ids.of("pay", {"amount": 1})
    assert ids.known("pay", {"amount": 1}) == made and ids.known("pay", {"amount": 2}) is None
