"""Calls of the gateway's tools: every outcome, and lost replies."""

from __future__ import annotations

import pickle

import pytest
from gateway import Bench

from onceward import (
    ApprovalRequired,
    GatewayUnreachable,
    InvalidJson,
    NotDispatched,
    Onceward,
    OperationClosed,
    OperationConflict,
    OperationExpired,
    OperationInProgress,
    OperationRejected,
    OperationUnknown,
    PossibleDuplicate,
    Refused,
    new_operation_id,
)
from onceward.testing import lose_reply

TICKET = {"title": "Printer", "body": "It burns."}


def test_a_call_is_executed_and_its_repetition_gets_the_same_receipt(bench: Bench, client: Onceward) -> None:
    operation, before = new_operation_id(), bench.effects("tickets")
    first = client.call("create_ticket", TICKET, operation=operation)
    second = client.call("create_ticket", TICKET, operation=operation)
    assert (first.outcome, second.outcome) == ("executed", "replayed")
    assert (first.replayed, second.replayed) == (False, True)
    assert first.receipt == second.receipt
    assert first.receipt.status == 201 and first.body["id"].startswith("T-")
    assert (second.operation_id, second.state, second.attempts, second.observed) == (operation, "succeeded", 1, None)
    assert bench.effects("tickets") == before + 1


def test_an_uncertain_attempt_that_turns_out_to_have_been_done_is_recovered(bench: Bench, client: Onceward) -> None:
    before = bench.effects("payments")
    bench.fault("/payments", "lose_reply_after_commit")
    answer = client.call("pay", {"amount": 100, "currency": "EUR"}, operation=new_operation_id())
    assert (answer.outcome, answer.attempts) == ("recovered", 2)
    assert bench.effects("payments") == before + 1


def test_other_arguments_under_one_id_are_a_conflict_that_names_the_field(bench: Bench, client: Onceward) -> None:
    operation = new_operation_id()
    client.call("create_ticket", TICKET, operation=operation)
    before = bench.effects("tickets")
    with pytest.raises(OperationConflict) as raised:
        client.call("create_ticket", {**TICKET, "title": "Scanner"}, operation=operation)
    assert [one["at"] for one in raised.value.differences] == ["/title"]
    assert "/title (changed)" in str(raised.value)
    assert raised.value.dispatched == "no"
    assert bench.effects("tickets") == before


def test_a_lost_reply_of_the_destination_is_unknown_and_stays_so(bench: Bench, client: Onceward) -> None:
    operation, before = new_operation_id(), bench.effects("tickets")
    bench.fault("/tickets", "lose_reply_after_commit")
    for _ in range(2):
        with pytest.raises(OperationUnknown) as raised:
            client.call("create_ticket", TICKET, operation=operation)
        error = raised.value
        assert (error.outcome, error.operation_id, error.dispatched, error.settles_by) == (
            "unknown",
            operation,
            "maybe",
            "person",
        )
        assert error.next_action == "ask_operator" and error.check_after is None and error.receipt is None
        assert "Tell nobody" in str(error) and error.message in str(error)
    assert bench.effects("tickets") == before + 1


def test_a_call_that_runs_longer_than_its_wait_is_in_progress_and_found_later(bench: Bench, client: Onceward) -> None:
    operation = new_operation_id()
    bench.fault("/tickets", "delay_before_commit;ms=1500")
    with pytest.raises(OperationInProgress):
        client.call("create_ticket", TICKET, operation=operation, wait_ms=0)
    status = client.status(operation, wait_ms=10_000)
    assert (status.state, status.outcome) == ("succeeded", "replayed")
    assert status.receipt is not None and status.receipt.body["id"].startswith("T-")
    assert client.call("create_ticket", TICKET, operation=operation).outcome == "replayed"


def test_a_refusal_is_final_and_carries_what_the_destination_said(client: Onceward) -> None:
    operation = new_operation_id()
    for _ in range(2):
        with pytest.raises(OperationRejected) as raised:
            client.call("create_payment", {"amount": 4002, "currency": "EUR"}, operation=operation)
        assert raised.value.receipt is not None and raised.value.receipt.status == 402


def test_what_a_person_must_approve_is_told_so_and_what_is_withdrawn_is_closed(bench: Bench, client: Onceward) -> None:
    operation, before = new_operation_id(), bench.effects("orders")
    order = {"item": "printer", "quantity": 1}
    with pytest.raises(ApprovalRequired) as raised:
        client.call("create_order", order, operation=operation)
    assert raised.value.next_action == "request_approval"
    bench.ask("POST", f"/v1/operations/{operation}/withdrawal", {}, token=bench.application)
    with pytest.raises(OperationClosed):
        client.call("create_order", order, operation=operation)
    assert bench.effects("orders") == before


def test_an_equal_call_without_identity_is_held_and_sees_the_first_receipt(bench: Bench, client: Onceward) -> None:
    ticket = {**TICKET, "title": "Plotter"}
    first = client.call("create_ticket", ticket)
    before = bench.effects("tickets")
    with pytest.raises(PossibleDuplicate) as raised:
        client.call("create_ticket", ticket)
    assert raised.value.receipt == first.receipt
    assert bench.effects("tickets") == before


def test_equal_calls_of_one_run_are_one_operation(bench: Bench, client: Onceward) -> None:
    mail = {"to": "ops@example.com", "subject": "Report", "body": "Here."}
    before = bench.effects("mail")
    assert client.call("send_mail", mail, scope="run-7").outcome == "executed"
    assert client.call("send_mail", mail, scope="run-7").outcome == "replayed"
    assert client.call("send_mail", mail, scope="run-8").outcome == "executed"
    assert bench.effects("mail") == before + 2


def test_a_destination_that_cannot_be_reached_is_told_and_not_tried_again_by_the_client(client: Onceward) -> None:
    with pytest.raises(NotDispatched) as raised:
        client.call("write_nowhere", {}, operation=new_operation_id())
    assert (raised.value.dispatched, raised.value.next_action) == ("no", "wait")
    assert raised.value.envelope.attempts == 1


def test_what_was_purged_is_expired_and_its_id_stays_taken(bench: Bench, client: Onceward) -> None:
    operation = new_operation_id()
    client.call("create_ticket", TICKET, operation=operation)
    bench.ask("POST", f"/v1/operations/{operation}/purge", {"scope": "everything"})
    with pytest.raises(OperationExpired):
        client.call("create_ticket", TICKET, operation=operation)


def test_a_read_has_no_operation_and_the_destinations_own_answer(client: Onceward) -> None:
    made = client.call("create_ticket", TICKET, operation=new_operation_id())
    read = client.call("get_ticket", {"id": made.body["id"]})
    assert (read.outcome, read.operation_id, read.state) == ("read", None, None)
    assert read.body["title"] == "Printer"
    missing = client.call("get_ticket", {"id": "T-0"})
    assert (missing.outcome, missing.receipt.status) == ("read", 404)


def test_a_code_is_refused_and_says_whether_it_is_worth_repeating(bench: Bench, client: Onceward) -> None:
    with pytest.raises(Refused) as raised:
        client.call("no_such_tool", {}, operation=new_operation_id())
    assert (raised.value.code, raised.value.status, raised.value.repeat) == ("unknown_tool", 404, "never")
    with Onceward(bench.url, "ow_agent_wrong") as stranger, pytest.raises(Refused) as raised:
        stranger.call("create_ticket", TICKET, operation=new_operation_id())
    assert (raised.value.code, raised.value.repeat) == ("unauthenticated", "never")
    with pytest.raises(Refused) as raised:
        client.status(new_operation_id())
    assert raised.value.code == "not_found"


@pytest.mark.parametrize("operation", ["a/b?c#d", "..", ".", '"quoted"', "%2F", "x" * 255])
def test_any_visible_text_is_an_operation_id_in_every_place(client: Onceward, operation: str) -> None:
    answer = client.call("create_ticket", TICKET, operation=operation)
    assert answer.operation_id == operation
    assert client.status(operation).state == "succeeded"


def test_what_no_gateway_would_take_is_refused_before_anything_is_sent(client: Onceward) -> None:
    for operation in ("", "with space", "é", "x" * 256):
        with pytest.raises(ValueError, match="visible ASCII"):
            client.call("create_ticket", TICKET, operation=operation)
    with pytest.raises(InvalidJson, match="list"):
        client.call("create_ticket", {"title": ("a",)}, operation="x")
    with pytest.raises(ValueError):
        client.call("create_ticket", TICKET, operation="x", wait_ms=-1)
    with pytest.raises(Refused):
        client.status("x")


def test_a_lost_reply_of_the_gateway_is_fetched_by_the_same_bytes(bench: Bench, client: Onceward) -> None:
    operation, before = new_operation_id(), bench.effects("tickets")
    with lose_reply(client, to="call", times=2) as lost:
        answer = client.call("create_ticket", TICKET, operation=operation)
    assert (lost.count, answer.outcome) == (2, "replayed")
    assert bench.effects("tickets") == before + 1


def test_given_up_it_says_that_the_same_id_finds_out(bench: Bench, client: Onceward) -> None:
    operation, before = new_operation_id(), bench.effects("tickets")
    with lose_reply(client, to="call", times=9) as lost, pytest.raises(GatewayUnreachable) as raised:
        client.call("create_ticket", TICKET, operation=operation)
    assert lost.count == 3
    assert raised.value.may_have_been_sent and operation in str(raised.value)
    assert client.call("create_ticket", TICKET, operation=operation).outcome == "replayed"
    assert bench.effects("tickets") == before + 1


def test_a_call_without_identity_is_not_sent_again_after_a_lost_reply(bench: Bench, client: Onceward) -> None:
    before = bench.effects("tickets")
    with lose_reply(client, to="call", times=9) as lost, pytest.raises(GatewayUnreachable) as raised:
        client.call("create_ticket", {**TICKET, "title": "Projector"})
    assert lost.count == 1
    assert raised.value.may_have_been_sent and "without an operation id" in str(raised.value)
    assert bench.effects("tickets") == before + 1


def test_a_gateway_that_is_not_there_surely_got_nothing() -> None:
    with Onceward("http://127.0.0.1:9", "t") as nobody, pytest.raises(GatewayUnreachable) as raised:
        nobody.call("create_ticket", TICKET)
    assert not raised.value.may_have_been_sent
    assert "Surely nothing was sent" in str(raised.value)


def test_a_handshake_says_which_gateway_it_is(bench: Bench, client: Onceward) -> None:
    gateway = client.handshake()
    assert gateway.ready and gateway.ledger_id
    assert gateway.version == "0.1.0"


def test_an_error_survives_being_passed_on_by_a_worker(bench: Bench, client: Onceward) -> None:
    operation = new_operation_id()
    client.call("create_ticket", TICKET, operation=operation)
    with pytest.raises(OperationConflict) as raised:
        client.call("create_ticket", {}, operation=operation)
    passed_on = pickle.loads(pickle.dumps(raised.value))
    assert type(passed_on) is OperationConflict
    assert (str(passed_on), passed_on.envelope) == (str(raised.value), raised.value.envelope)


def test_nothing_shows_the_token(bench: Bench, client: Onceward) -> None:
    assert bench.application not in repr(client)
