from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from onceward import AsyncOnceward
from onceward.frameworks.langchain_mcp import OperationIdsInState
from onceward.frameworks.langgraph import TELL_THE_MODEL, OperationId

agent = example("langchain-mcp")


async def resume(graph: Any, answer: str) -> Any:
    return await graph.ainvoke(Command(resume=answer), agent.RUN, durability="sync")


async def test_a_lost_reply_pauses_the_run_and_a_person_resumes_it(bench: Bench) -> None:
    graph = await agent.build(bench.url, bench.agent, InMemorySaver())
    bench.break_next_ticket()
    paused = await agent.run(graph)
    (waiting,) = paused["__interrupt__"]
    assert waiting.value["outcome"] == "unknown" and agent.seen(paused) == []
    assert agent.seen(await resume(graph, "look again")) == [], "it is still unknown, so it still waits"
    bench.settle_unknown({"id": "T-1001"})
    (text,) = saw("langchain-mcp", "lost reply, settled", agent.seen(await resume(graph, "it is settled")))
    assert "T-1001" in text
    assert bench.tickets() == (1, 1)


async def test_a_lost_reply_is_told_once_if_the_person_says_so(bench: Bench) -> None:
    graph = await agent.build(bench.url, bench.agent, InMemorySaver())
    bench.break_next_ticket()
    await agent.run(graph)
    (text,) = saw("langchain-mcp", "lost reply, told", agent.seen(await resume(graph, TELL_THE_MODEL)))
    assert text.startswith("unknown") and "T-1001" not in text
    assert bench.tickets() == (1, 1)


async def test_a_retry_by_the_framework_gets_the_receipt(bench: Bench, wire: Wire) -> None:
    graph = await agent.build(wire.url, bench.agent, InMemorySaver())
    wire.lose(1)
    (text,) = saw("langchain-mcp", "framework retry", agent.seen(await agent.run(graph)))
    assert wire.lost == 1 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("langchain-mcp", bench, wire, tmp_path)
    saw("langchain-mcp", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_under_another_tool_call_id_makes_one_ticket(bench: Bench) -> None:
    reordered = dict(reversed(agent.TICKET.items()))
    graph = await agent.build(bench.url, bench.agent, InMemorySaver(), agent.Script(turns=[agent.TICKET, reordered]))
    first, second = saw("langchain-mcp", "regenerated", agent.seen(await agent.run(graph)))
    assert "T-1001" in first and "T-1001" in second and "possible_duplicate" not in second
    assert bench.tickets() == (1, 1)


async def test_an_own_tool_of_the_agent_gets_its_id_from_the_middleware(bench: Bench) -> None:
    client = AsyncOnceward(bench.url, bench.agent)

    @tool
    async def create_ticket(title: str, body: str, operation: OperationId) -> str:
        """Opens a ticket at the helpdesk."""
        return str((await client.call("create_ticket", {"title": title, "body": body}, operation=operation)).body)

    model = agent.Script(turns=[agent.TICKET, dict(reversed(agent.TICKET.items()))])
    graph = create_agent(model, [create_ticket], middleware=[OperationIdsInState()], checkpointer=InMemorySaver())
    first, second = saw("langchain", "own tool, regenerated", agent.seen(await agent.run(graph)))
    await client.aclose()
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


class Nothing(AgentMiddleware[Any, Any]):
    """A middleware that does nothing."""


async def test_without_the_middleware_nothing_is_called(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "OperationIdsInState", Nothing)
    graph = await agent.build(bench.url, bench.agent, InMemorySaver())
    with pytest.raises(Exception, match="OperationIdsInState"):
        await agent.run(graph)
    assert bench.tickets() == (0, 0)
