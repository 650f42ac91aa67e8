"""Run once with `mcp` 1.x and once with 2.x: the same adapter, the same example."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path

import pytest
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw

from onceward import OperationConflict, OperationUnknown, Refused, new_operation_id
from onceward.frameworks.kept import KeptIds
from onceward.frameworks.mcp import call_tool

agent = example("mcp")
MCP = f"mcp {version('mcp')}"
REORDERED = dict(reversed(agent.TICKET.items()))


@pytest.fixture
def ids(tmp_path: Path) -> KeptIds:
    return KeptIds(tmp_path / "ids.db", run="run-7")


async def test_a_lost_reply_is_told_once_and_nothing_is_sent_again(bench: Bench, ids: KeptIds) -> None:
    bench.break_next_ticket()
    async with agent.connected(bench.url, bench.agent) as session:
        (text,) = saw(MCP, "lost reply", await agent.run(session, ids, agent.script(agent.TICKET)))
        assert text.startswith("unknown") and "T-1001" not in text
        with pytest.raises(OperationUnknown) as again:
            operation = ids.of("create_ticket", agent.TICKET)
            await call_tool(session, "create_ticket", agent.TICKET, operation=operation)
    assert (again.value.operation_id, again.value.settles_by) == (operation, "person")
    assert bench.tickets() == (1, 1)


async def test_a_run_repeated_after_a_lost_reply_gets_the_receipt(bench: Bench, wire: Wire, ids: KeptIds) -> None:
    async def one(url: str) -> list[str]:
        async with agent.connected(url, bench.agent) as session:
            texts: list[str] = await asyncio.wait_for(agent.run(session, ids, agent.script(agent.TICKET)), 10)
            return texts

    wire.lose(1)
    ended = await asyncio.gather(one(wire.url), return_exceptions=True)
    assert isinstance(ended[0], BaseException)
    print(f"host saw [{MCP}/lost reply of the gateway]: {type(ended[0]).__name__}")
    (text,) = saw(MCP, "framework retry", await one(bench.url))
    assert wire.lost == 1 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("mcp", bench, wire, tmp_path)
    saw(MCP, "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_makes_one_ticket(bench: Bench, ids: KeptIds) -> None:
    async with agent.connected(bench.url, bench.agent) as session:
        texts = await agent.run(session, ids, agent.script(agent.TICKET, REORDERED))
    first, second = saw(MCP, "regenerated", texts)
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


async def test_what_is_no_receipt_is_the_exception_that_the_client_raises_for_it(bench: Bench) -> None:
    operation = new_operation_id()
    async with agent.connected(bench.url, bench.agent) as session:
        await call_tool(session, "create_ticket", agent.TICKET, operation=operation)
        with pytest.raises(OperationConflict) as conflict:
            await call_tool(session, "create_ticket", {**agent.TICKET, "title": "Scanner"}, operation=operation)
        with pytest.raises(Refused) as refused:
            await call_tool(session, "create_ticket", {"title": 5}, operation=new_operation_id())
    assert [one["at"] for one in conflict.value.differences] == ["/title"]
    assert (refused.value.code, refused.value.repeat) == ("invalid_arguments", "never")
    assert bench.tickets() == (1, 1)


async def test_without_an_identity_a_repetition_is_held(bench: Bench) -> None:
    ticket = {"title": "Held", "body": MCP}
    async with agent.connected(bench.url, bench.agent) as session:
        first = await session.call_tool("create_ticket", ticket)
        second = await session.call_tool("create_ticket", ticket)
    texts = saw(MCP, "without an identity", [first.content[0].text, second.content[0].text])
    assert "T-1001" in texts[0] and "possible_duplicate" in texts[1]
    assert bench.tickets() == (1, 1)
