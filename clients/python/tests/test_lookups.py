"""The effect of a run whose settlement was lost is looked for, and found or not found."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway import Bench, until

from onceward import (
    ABSENT,
    Absent,
    AsyncOnceward,
    Cut,
    Due,
    Found,
    Onceward,
    OperationUnknown,
    Refused,
    current_attempt,
    new_operation_id,
)
from onceward.aio import AsyncOwnFunction
from onceward.functions import OwnFunction
from onceward.lookups import Looked

Look = Callable[[Due], Looked]


@pytest.fixture
def find(client: Onceward) -> Callable[[Look], OwnFunction[..., Any]]:
    """A function that loses every effect, and `look` as its lookup."""

    def made(look: Look) -> OwnFunction[..., Any]:
        # An absence counts once `send_before` has passed, which lies this far ahead.
        @client.operation(f"import.{new_operation_id()}", settle_within_ms=500)
        def importing(file: str) -> dict[str, str]:
            raise ConnectionError(current_attempt().outbound_key)

        importing.lookup(visible_after_ms=0, works_for_ms=0, absences_required=2)(look)
        return importing

    return made


def lose(importing: OwnFunction[..., Any]) -> tuple[str, str]:
    operation = new_operation_id()
    with pytest.raises(OperationUnknown) as raised:
        importing("a.csv", operation=operation)
    return operation, str(raised.value.__cause__)


def test_what_is_found_by_the_key_settles_it_and_repetitions_get_it(bench: Bench, client: Onceward, find: Any) -> None:
    asked: list[Due] = []

    def look(due: Due) -> Found:
        asked.append(due)
        return Found(by="outbound_key", parameters="same", effect_id="I-9", body={"rows": 7})

    importing = find(look)
    operation, key = lose(importing)
    assert until("it is due", client.run_due_lookups) == 1
    assert bench.state(operation) == "succeeded"
    assert importing("a.csv", operation=operation) == {"rows": 7}
    (due,) = asked
    assert (due.operation_id, due.tool, due.arguments, due.outbound_keys) == (
        operation,
        importing.tool,
        {"file": "a.csv"},
        (key,),
    )
    assert due.sent_from and due.sent_until
    assert client.run_due_lookups() == 0


def test_two_that_are_found_are_a_disagreement_for_a_person(bench: Bench, client: Onceward, find: Any) -> None:
    one = Found(by="outbound_key", parameters="same", effect_id="I-1")
    importing = find(lambda due: [one, Found(by="outbound_key", parameters="same", effect_id="I-2")])
    operation, _ = lose(importing)
    assert until("it is due", client.run_due_lookups) == 1
    status = client.status(operation)
    assert (status.state, status.disagreement is not None) == ("unknown", True)


def test_a_resemblance_settles_nothing(client: Onceward, find: Any) -> None:
    importing = find(lambda due: Found(by="resemblance", parameters="same"))
    operation, _ = lose(importing)
    assert until("it is due", client.run_due_lookups) == 1
    assert client.status(operation).state == "unknown"


def test_a_lookup_that_raises_or_answers_nonsense_reports_nothing_and_is_asked_again(
    client: Onceward, find: Any
) -> None:
    answers: list[Any] = [OSError("the shop is closed"), "nonsense", Found(by="outbound_key", parameters="same")]

    def look(due: Due) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    operation, _ = lose(find(look))
    assert until("it was asked twice", lambda: client.run_due_lookups() == 0 and len(answers) == 1)
    assert client.status(operation).state == "unknown"
    assert until("it is due", client.run_due_lookups) == 1
    assert client.status(operation).state == "succeeded"


@pytest.mark.parametrize(("looked", "absences"), [(ABSENT, 1), ([], 1), (Cut(), 0), (Cut([]), 0)])
def test_an_absence_counts_and_one_in_what_was_cut_does_not(
    client: Onceward, find: Any, looked: Looked, absences: int
) -> None:
    operation, _ = lose(find(lambda due: looked))
    assert until("it is due", client.run_due_lookups) == 1
    status = client.status(operation)
    assert status.state == "unknown"
    assert [attempt["absences"] for attempt in status.operation["uncertain_attempts"]] == [absences]


def test_a_lookup_that_forgets_to_return_says_nothing_and_frees_nothing(client: Onceward, find: Any) -> None:
    operation, _ = lose(find(lambda due: None))
    stop = time.monotonic() + 2
    while time.monotonic() < stop:
        assert client.run_due_lookups() == 0
        time.sleep(0.1)
    status = client.status(operation)
    assert [attempt["absences"] for attempt in status.operation["uncertain_attempts"]] == [0]


def test_only_tools_of_this_client_are_served(bench: Bench, client: Onceward, find: Any) -> None:
    lose(find(lambda due: Found(by="outbound_key", parameters="same")))
    with Onceward(bench.url, bench.application) as other:
        other.operation("something_else")(lambda: None).lookup(visible_after_ms=0)(
            lambda due: pytest.fail("not its own")
        )
        until("it is due", lambda: bench.ask("GET", "/v1/lookups/due")["lookups"])
        assert other.run_due_lookups() == 0
    assert until("its own client finds it", client.run_due_lookups) == 1


def test_a_token_that_may_not_look_is_told_so_at_once(bench: Bench) -> None:
    with Onceward(bench.url, bench.agent) as agent, pytest.raises(Refused) as raised:
        agent.serve_lookups()
    assert raised.value.code == "denied"


@pytest.mark.parametrize("how", ["after_the_effect", "before_the_effect"])
def test_a_process_that_is_killed_while_it_runs_is_settled_by_what_is_found(
    bench: Bench, client: Onceward, tmp_path: Path, how: str
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    operation = new_operation_id()
    arguments = [str(Path(__file__).with_name("killed.py")), bench.url, bench.application, operation, str(effects), how]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    killed = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
    assert killed.stdout is not None and killed.stdout.readline() == "running\n"
    killed.kill()
    killed.communicate()
    bench.until_state(operation, "unknown")

    absences, ran = [], []

    @client.operation("import_file", settle_within_ms=1_000)
    def import_file(file: str) -> dict[str, str]:
        ran.append(current_attempt().attempt)
        return {"imported": file}

    @import_file.lookup(visible_after_ms=0, works_for_ms=1_000, absences_required=2)
    def find_import(due: Due) -> Found | Absent:
        if set(due.outbound_keys) & set(effects.read_text().split()):
            return Found(by="outbound_key", parameters="same", body={"imported": due.arguments["file"]})
        absences.append(due)
        return ABSENT

    with pytest.raises(OperationUnknown):
        import_file("a.csv", operation=operation)
    stop = threading.Event()
    serving = threading.Thread(target=client.serve_lookups, args=(stop, 100))
    serving.start()
    bench.until_state(operation, "succeeded" if how == "after_the_effect" else "approved")
    stop.set()
    serving.join(10)
    assert not serving.is_alive()
    assert import_file("a.csv", operation=operation) == {"imported": "a.csv"}
    if how == "after_the_effect":
        assert (ran, absences) == ([], [])
    else:
        assert ran == [2] and len(absences) >= 2


async def test_a_client_that_awaits_serves_lookups_until_it_is_stopped(bench: Bench, aclient: AsyncOnceward) -> None:
    tools: list[AsyncOwnFunction[..., Any]] = []
    for kind in ("awaited", "plain"):

        @aclient.operation(f"{kind}.{new_operation_id()}")
        async def losing(file: str) -> Any:
            raise ConnectionError

        tools.append(losing)

    @tools[0].lookup(visible_after_ms=0)
    async def awaited(due: Due) -> Found:
        await asyncio.sleep(0)
        return Found(by="marker", parameters="same", body="awaited")

    @tools[1].lookup(visible_after_ms=0)
    def plain(due: Due) -> Found:
        return Found(by="marker", parameters="same", body="plain")

    operations = [new_operation_id() for _ in tools]
    for operation, tool in zip(operations, tools, strict=True):
        with pytest.raises(OperationUnknown):
            await tool("a.csv", operation=operation)
    stop = asyncio.Event()
    serving = asyncio.ensure_future(aclient.serve_lookups(stop, every_ms=100))
    for operation in operations:
        await asyncio.to_thread(bench.until_state, operation, "succeeded")
    stop.set()
    await asyncio.wait_for(serving, 10)
    assert [await tool("a.csv", operation=operation) for operation, tool in zip(operations, tools, strict=True)] == [
        "awaited",
        "plain",
    ]
