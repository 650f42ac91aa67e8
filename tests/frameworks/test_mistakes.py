"""The mistakes that docs/identity.md names, each made on purpose: what comes of it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from bench import Bench

from onceward import Onceward, OperationIds, OperationUnknown, new_operation_id
from onceward.frameworks.kept import KeptIds

TICKET = {"title": "Printer", "body": "It burns."}


@pytest.fixture
def client(bench: Bench) -> Onceward:
    return Onceward(bench.url, bench.agent)


def test_an_id_that_is_minted_on_a_repetition_makes_a_second_ticket(bench: Bench, client: Onceward) -> None:
    bench.break_next_ticket()
    with pytest.raises(OperationUnknown):
        client.call("create_ticket", TICKET, operation=new_operation_id())
    client.call("create_ticket", TICKET, operation=new_operation_id())
    assert bench.tickets() == (2, 2)


def test_a_tool_call_id_as_identity_makes_a_second_ticket(bench: Bench, client: Onceward) -> None:
    for tool_call_id in ("call_a1", "call_b2"):  # one call, which the model made again
        client.call("create_ticket", TICKET, operation=tool_call_id)
    assert bench.tickets() == (2, 2)


def test_one_static_header_is_a_conflict_for_the_second_call(bench: Bench) -> None:
    headers = {
        "Authorization": f"Bearer {bench.agent}",
        "Idempotency-Key": new_operation_id(),
        "Accept": "application/json, text/event-stream",
    }
    outcomes = []
    for title in ("Printer", "Scanner"):
        params = {"name": "create_ticket", "arguments": {"title": title, "body": "It burns."}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = httpx.post(f"{bench.url}/mcp", json=message, headers=headers, trust_env=False).json()
        outcomes.append(answer["result"]["_meta"]["dev.onceward/operation"]["outcome"])
    assert outcomes == ["executed", "conflict"]
    assert bench.tickets() == (1, 1)


def test_a_static_header_that_names_the_run_makes_equal_calls_one(bench: Bench) -> None:
    """For a host that can set headers and nothing for each call, under `without_identity = "scope"`."""
    for run, subject in [("run-7", "Printer"), ("run-7", "Printer"), ("run-7", "Scanner"), ("run-8", "Printer")]:
        headers = {
            "Authorization": f"Bearer {bench.agent}",
            "Onceward-Scope": run,
            "Accept": "application/json, text/event-stream",
        }
        mail = {"to": "helpdesk@example.com", "subject": subject, "body": "It burns."}
        params = {"name": "send_mail", "arguments": mail}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        httpx.post(f"{bench.url}/mcp", json=message, headers=headers, trust_env=False).raise_for_status()
    assert bench.effects("mail") == (3, 3)


@pytest.mark.parametrize("kept", [False, True], ids=["OperationIds", "KeptIds"])
def test_a_deliberate_second_one_is_another_id_and_another_ticket(
    kept: bool, bench: Bench, client: Onceward, tmp_path: Path
) -> None:
    ids = KeptIds(tmp_path / "ids.db", "run-7") if kept else OperationIds()
    client.call("create_ticket", TICKET, operation=ids.of("create_ticket", TICKET))
    client.call("create_ticket", TICKET, operation=ids.second("create_ticket", TICKET))
    client.call("create_ticket", TICKET, operation=ids.of("create_ticket", TICKET))
    assert bench.tickets() == (2, 2)


def test_kept_ids_of_a_run_outlive_the_process_and_belong_to_that_run(tmp_path: Path) -> None:
    first = KeptIds(tmp_path / "ids.db", "run-7").of("create_ticket", TICKET)
    assert KeptIds(tmp_path / "ids.db", "run-7").of("create_ticket", dict(reversed(TICKET.items()))) == first
    assert KeptIds(tmp_path / "ids.db", "run-8").of("create_ticket", TICKET) != first
    assert KeptIds(tmp_path / "ids.db", "run-7").of("create_order", TICKET) != first
