"""The client that awaits: what is different from the one that blocks, and one round of what is not."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from gateway import Bench

from onceward import (
    AsyncOnceward,
    NotDispatched,
    NotSent,
    OperationConflict,
    OperationRejected,
    OperationUnknown,
    ReceiptNotKept,
    Refused,
    Rejected,
    current_attempt,
    new_operation_id,
)
from onceward.testing import lose_reply, losing_reply

TICKET = {"title": "Printer", "body": "It burns."}


async def test_a_call_and_its_repetition_through_a_lost_reply(bench: Bench, aclient: AsyncOnceward) -> None:
    operation, before = new_operation_id(), bench.effects("tickets")
    with lose_reply(aclient, to="call") as lost:
        first = await aclient.call("create_ticket", TICKET, operation=operation)
    second = await aclient.call("create_ticket", TICKET, operation=operation)
    assert (lost.count, first.outcome, first.receipt) == (1, "replayed", second.receipt)
    assert bench.effects("tickets") == before + 1
    assert (await aclient.status(operation)).state == "succeeded"
    assert (await aclient.handshake()).ready
    with pytest.raises(OperationConflict):
        await aclient.call("create_ticket", {}, operation=operation)
    with pytest.raises(Refused):
        await aclient.status(new_operation_id())


@pytest.mark.parametrize("exchange", ["claim", "settlement"])
async def test_an_async_function_runs_once_through_lost_replies(aclient: AsyncOnceward, exchange: Any) -> None:
    ran = []

    @aclient.operation(f"async_{exchange}")
    async def report(name: str) -> dict[str, Any]:
        ran.append(current_attempt().operation_id)
        await asyncio.sleep(0)
        return {"name": name}

    operation = new_operation_id()
    with lose_reply(aclient, to=exchange, times=2) as lost:
        assert await report("Q3", operation=operation) == {"name": "Q3"}
    assert await report.under(operation)(name="Q3") == {"name": "Q3"}
    assert (lost.count, ran) == (2, [operation])


async def test_a_plain_function_runs_in_a_thread_and_knows_its_attempt(aclient: AsyncOnceward) -> None:
    here = threading.get_ident()

    @aclient.operation("in_a_thread")
    def in_a_thread() -> dict[str, Any]:
        return {"elsewhere": threading.get_ident() != here, "operation": current_attempt().operation_id}

    operation = new_operation_id()
    assert await in_a_thread(operation=operation) == {"elsewhere": True, "operation": operation}


async def test_however_many_tasks_call_at_once_it_runs_once(aclient: AsyncOnceward) -> None:
    ran = []

    @aclient.operation("together")
    async def together() -> str:
        ran.append(1)
        await asyncio.sleep(0.2)  # long enough for the others to find it running
        return "done"

    operation = new_operation_id()
    assert await asyncio.gather(*(together(operation=operation) for _ in range(8))) == ["done"] * 8
    assert ran == [1]


async def test_each_end_is_what_the_client_that_blocks_makes_of_it(aclient: AsyncOnceward) -> None:
    @aclient.operation("ends", not_sent=(ConnectionRefusedError,))
    async def ends(how: str) -> Any:
        match how:
            case "nothing":
                raise NotSent
            case "refused connection":
                raise ConnectionRefusedError
            case "refused":
                raise Rejected({"reason": "no"})
            case "failed":
                raise OSError("lost")
        return object()

    for how, error in (
        ("nothing", NotDispatched),
        ("refused connection", NotDispatched),
        ("refused", OperationRejected),
        ("failed", OperationUnknown),
        ("no json", ReceiptNotKept),
    ):
        with pytest.raises(error):
            await ends(how, operation=new_operation_id())


async def test_a_lost_effect_is_unknown(aclient: AsyncOnceward) -> None:
    made = []

    async def make() -> None:
        made.append(1)

    lost = aclient.operation("lost")(losing_reply(make))
    operation = new_operation_id()
    for _ in range(2):
        with pytest.raises(OperationUnknown):
            await lost(operation=operation)
    assert made == [1]


async def test_a_task_that_is_cancelled_while_its_function_runs_leaves_an_unknown(
    bench: Bench, aclient: AsyncOnceward
) -> None:
    running = asyncio.Event()

    @aclient.operation("cancelled")
    async def cancelled() -> None:
        running.set()
        await asyncio.Event().wait()

    operation = new_operation_id()
    task = asyncio.ensure_future(cancelled(operation=operation))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.state(operation) == "unknown"


async def test_a_task_that_is_cancelled_again_and_again_is_settled_all_the_same(
    bench: Bench, aclient: AsyncOnceward
) -> None:
    running = asyncio.Event()

    @aclient.operation("cancelled_often")
    async def cancelled_often() -> None:
        running.set()
        await asyncio.Event().wait()

    operation = new_operation_id()
    task = asyncio.ensure_future(cancelled_often(operation=operation))
    await running.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    await aclient.aclose()
    assert bench.state(operation) == "unknown"


async def test_a_task_that_is_cancelled_while_it_settles_loses_no_value(bench: Bench, aclient: AsyncOnceward) -> None:
    returned = asyncio.Event()

    def encode(value: str) -> str:
        returned.set()
        return value

    @aclient.operation("cancelled_late", encode=encode)
    async def cancelled_late() -> str:
        return "done"

    operation = new_operation_id()
    task = asyncio.ensure_future(cancelled_late(operation=operation))
    await returned.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await aclient.aclose()
    assert bench.state(operation) == "succeeded"


async def test_a_task_that_is_cancelled_while_it_claims_gives_the_claim_back(
    bench: Bench, aclient: AsyncOnceward
) -> None:
    ran = []

    @aclient.operation("cancelled_early")
    async def cancelled_early() -> None:
        ran.append(1)

    operation = new_operation_id()
    link = aclient._link
    send, sent = link.send, asyncio.Event()

    async def sending(request: Any) -> Any:
        delivered = await send(request)
        if not sent.is_set():
            sent.set()
            await asyncio.sleep(60)  # the reply is there and is never read: the task is cancelled in it
        return delivered

    link.send = sending  # type: ignore[method-assign]
    task = asyncio.ensure_future(cancelled_early(operation=operation))
    await sent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await aclient.aclose()
    assert (ran, bench.state(operation)) == ([], "approved")


async def test_a_task_that_is_cancelled_as_its_claim_is_granted_gives_it_back(
    bench: Bench, aclient: AsyncOnceward
) -> None:
    ran = []

    @aclient.operation("cancelled_as_it_is_granted")
    async def cancelled() -> None:
        ran.append(1)

    link = aclient._link
    carry_out = link.carry_out

    async def carrying_out(flow: Any) -> Any:
        result = await carry_out(flow)
        task.cancel()
        return result

    link.carry_out = carrying_out  # type: ignore[method-assign]
    operation = new_operation_id()
    task = asyncio.ensure_future(cancelled(operation=operation))
    with pytest.raises(asyncio.CancelledError):
        await task
    await aclient.aclose()
    assert (ran, bench.state(operation)) == ([], "approved")


async def test_a_thread_whose_caller_is_cancelled_is_settled_as_it_ends(bench: Bench, aclient: AsyncOnceward) -> None:
    running, go = threading.Event(), threading.Event()

    @aclient.operation("unstoppable")
    def unstoppable() -> str:
        running.set()
        go.wait(10)
        return "done"

    operation = new_operation_id()
    task = asyncio.ensure_future(unstoppable(operation=operation))
    await asyncio.to_thread(running.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await aclient.aclose()
    assert bench.state(operation) == "succeeded"


async def test_heartbeats_keep_an_async_function(bench: Bench, aclient: AsyncOnceward) -> None:
    @aclient.operation("long_async", settle_within_ms=900)
    async def long_async() -> str:
        deadline = asyncio.get_running_loop().time() + 20
        while asyncio.get_running_loop().time() < deadline:
            journal = await asyncio.to_thread(bench.ask, "GET", f"/v1/operations/{operation}/journal?limit=200")
            if len([entry for entry in journal["entries"] if "extend" in entry["event"].lower()]) >= 10:
                return "done"
        raise AssertionError("no heartbeats")

    operation = new_operation_id()
    assert await long_async(operation=operation) == "done"
    assert "late" not in str(bench.ask("GET", f"/v1/operations/{operation}/journal"))
