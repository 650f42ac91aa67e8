"""The SDK's own client, hooks and in-process server; its CLI is a stand-in (`examples/claude-agent/script.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw

from onceward import AsyncOnceward
from onceward.frameworks.kept import KeptIds

agent = example("claude-agent")
REORDERED = dict(reversed(agent.TICKET.items()))


def script(*turns: Any) -> Any:
    return agent.ScriptedCli("mcp__helpdesk__create_ticket", *turns)


@pytest.fixture
def ids(tmp_path: Path) -> KeptIds:
    return KeptIds(tmp_path / "ids.db", run="run-7")


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[AsyncOnceward]:
    async with AsyncOnceward(bench.url, bench.agent) as client:
        yield client


async def test_a_lost_reply_is_told_once_and_nothing_is_sent_again(
    bench: Bench, client: AsyncOnceward, ids: KeptIds
) -> None:
    bench.break_next_ticket()
    cli = script(agent.TICKET)
    await agent.run(client, ids, cli)
    (text,) = saw("claude-agent", "lost reply", cli.saw)
    assert text.startswith("unknown") and "T-1001" not in text
    assert bench.tickets() == (1, 1)


async def test_a_call_repeated_after_the_gateways_reply_was_lost_gets_the_receipt(
    bench: Bench, wire: Wire, ids: KeptIds
) -> None:
    wire.lose(3)  # every one that the client asks for
    async with AsyncOnceward(wire.url, bench.agent) as client:
        cli = script(agent.TICKET, agent.TICKET)
        await agent.run(client, ids, cli)
    first, second = saw("claude-agent", "framework retry", cli.saw)
    assert wire.lost == 3 and "same operation id" in first and "T-1001" in second
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("claude-agent", bench, wire, tmp_path)
    saw("claude-agent", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_under_another_tool_use_id_makes_one_ticket(
    bench: Bench, client: AsyncOnceward, ids: KeptIds
) -> None:
    cli = script(agent.TICKET, REORDERED)
    await agent.run(client, ids, cli)
    first, second = saw("claude-agent", "regenerated", cli.saw)
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


async def test_the_hook_has_stored_the_id_before_the_tool_runs(bench: Bench, client: AsyncOnceward) -> None:
    class Full:
        """A disk on which nothing can be stored."""

        def of(self, tool: str, arguments: dict[str, Any]) -> str:
            raise OSError("no space left on device")

    cli = script(agent.TICKET)
    await agent.run(client, Full(), cli)
    (text,) = saw("claude-agent", "the id cannot be stored", cli.saw)
    assert text.startswith("blocked by a hook")
    assert bench.tickets() == (0, 0)
