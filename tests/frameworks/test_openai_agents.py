from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agents.exceptions import UserError
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw

from onceward import AsyncOnceward, NotDispatched
from onceward.frameworks.kept import KeptIds

agent = example("openai-agents")
own = example("openai-agents", "own_function.py")
REORDERED = dict(reversed(agent.TICKET.items()))


@pytest.fixture
def ids(tmp_path: Path) -> KeptIds:
    return KeptIds(tmp_path / "ids.db", run="run-7")


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[AsyncOnceward]:
    async with AsyncOnceward(bench.url, bench.agent) as client:
        yield client


async def test_a_lost_reply_is_told_once_and_nothing_is_sent_again(bench: Bench, ids: KeptIds) -> None:
    bench.break_next_ticket()
    model = agent.Script()
    await agent.run(bench.url, bench.agent, ids, model)
    (text,) = saw("openai-agents", "lost reply", model.saw)
    assert '"outcome":"unknown"' in text.replace("\\", "") and "T-1001" not in text
    assert bench.tickets() == (1, 1)


async def test_a_retry_by_the_framework_gets_the_receipt(bench: Bench, wire: Wire, ids: KeptIds) -> None:
    wire.hold()  # this SDK tries again after a timeout of its own
    model = agent.Script()
    await agent.run(wire.url, bench.agent, ids, model, patience_s=1)
    (text,) = saw("openai-agents", "framework retry", model.saw)
    assert wire.held.is_set() and "T-1001" in text
    assert bench.tickets() == (1, 1)


async def test_a_broken_connection_ends_the_run_and_the_next_gets_the_receipt(
    bench: Bench, wire: Wire, ids: KeptIds
) -> None:
    wire.lose(1)
    ended = await asyncio.gather(agent.run(wire.url, bench.agent, ids, agent.Script()), return_exceptions=True)
    assert isinstance(ended[0], BaseException), "the MCP client takes its whole connection down"
    model = agent.Script()
    await agent.run(bench.url, bench.agent, ids, model)
    (text,) = saw("openai-agents", "broken connection, then the run again", model.saw)
    assert wire.lost == 1 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("openai-agents", bench, wire, tmp_path)
    saw("openai-agents", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_under_another_tool_call_id_makes_one_ticket(bench: Bench, ids: KeptIds) -> None:
    model = agent.Script([agent.TICKET, REORDERED])
    await agent.run(bench.url, bench.agent, ids, model)
    first, second = saw("openai-agents", "regenerated", model.saw)
    assert "T-1001" in first and "T-1001" in second and "possible_duplicate" not in second
    assert bench.tickets() == (1, 1)


async def test_another_run_with_the_same_arguments_is_another_ticket(bench: Bench, tmp_path: Path) -> None:
    for run in ("run-7", "run-8"):
        await agent.run(bench.url, bench.agent, KeptIds(tmp_path / "ids.db", run), agent.Script())
    assert bench.tickets() == (2, 2)


async def test_without_the_resolver_a_regenerated_call_is_held(
    bench: Bench, ids: KeptIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "operation_meta", lambda ids: None)
    ticket = {"title": "Without", "body": "a resolver"}
    model = agent.Script([ticket, ticket])
    await agent.run(bench.url, bench.agent, ids, model)
    first, second = saw("openai-agents", "without an id", model.saw)
    assert "T-1001" in first and "possible_duplicate" in second
    assert bench.tickets() == (1, 1)


async def test_an_own_functions_lost_reply_is_told_once_and_it_is_not_run_again(
    bench: Bench, client: AsyncOnceward, ids: KeptIds
) -> None:
    bench.break_next_ticket()
    model = own.Script([own.TICKET, REORDERED], tool="open_ticket")
    await own.run(client, bench.sandbox.url, ids, model)
    first, second = saw("openai-agents own function", "lost reply, and the call regenerated", model.saw)
    assert first.startswith("unknown") and second.startswith("unknown")
    assert bench.tickets() == (1, 1)


async def test_an_own_function_whose_settlement_got_no_reply_is_run_once(
    bench: Bench, wire: Wire, ids: KeptIds
) -> None:
    wire.lose(1)
    async with AsyncOnceward(wire.url, bench.agent) as client:
        model = own.Script([own.TICKET, REORDERED], tool="open_ticket")
        await own.run(client, bench.sandbox.url, ids, model)
    first, second = saw("openai-agents own function", "reply to the settlement lost", model.saw)
    assert wire.lost == 1 and first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


async def test_an_own_function_that_sent_nothing_ends_the_run_and_is_run_by_the_next(
    bench: Bench, client: AsyncOnceward, ids: KeptIds
) -> None:
    with pytest.raises(UserError) as ended:
        await own.run(client, "http://127.0.0.1:9", ids, own.Script([own.TICKET], tool="open_ticket"))
    assert isinstance(ended.value.__cause__, NotDispatched)
    async with AsyncOnceward(bench.url, bench.agent) as later:
        model = own.Script([own.TICKET], tool="open_ticket")
        await own.run(later, bench.sandbox.url, ids, model)
    (text,) = saw("openai-agents own function", "nothing was sent, then the run again", model.saw)
    assert "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_an_own_function_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("openai-agents", bench, wire, tmp_path, "own_function.py")
    saw("openai-agents own function", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)
