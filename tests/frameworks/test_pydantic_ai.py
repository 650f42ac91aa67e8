from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw
from pydantic_ai import Agent

from onceward import AsyncOnceward
from onceward.frameworks.pydantic_ai import operation_tool

agent = example("pydantic-ai")
REORDERED = dict(reversed(agent.TICKET.items()))


async def test_a_lost_reply_is_told_once_and_nothing_is_sent_again(bench: Bench, tmp_path: Path) -> None:
    bench.break_next_ticket()
    (text,) = saw(
        "pydantic-ai", "lost reply", await agent.run(agent.build(bench.url, bench.agent, agent.script(agent.TICKET)), tmp_path)
    )
    assert text.startswith("unknown") and "T-1001" not in text and "try again" not in text
    assert bench.tickets() == (1, 1)
    bench.settle_unknown({"id": "T-1001"})


async def test_a_run_repeated_after_a_lost_reply_gets_the_receipt(bench: Bench, wire: Wire, tmp_path: Path) -> None:
    wire.lose(1)
    first = agent.run(agent.build(wire.url, bench.agent, agent.script(agent.TICKET)), tmp_path)
    (ended,) = await asyncio.gather(first, return_exceptions=True)
    assert isinstance(ended, BaseException), "a broken connection ends the run; the model is not asked to try again"
    again = await agent.run(agent.build(bench.url, bench.agent, agent.script(agent.TICKET)), tmp_path)
    (text,) = saw("pydantic-ai", "the run again after a broken connection", again)
    assert wire.lost == 1 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(bench: Bench, wire: Wire, tmp_path: Path) -> None:
    said = killed_between_effect_and_checkpoint("pydantic-ai", bench, wire, tmp_path)
    saw("pydantic-ai", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_under_another_tool_call_id_makes_one_ticket(bench: Bench, tmp_path: Path) -> None:
    model = agent.script(agent.TICKET, REORDERED)
    first, second = saw("pydantic-ai", "regenerated", await agent.run(agent.build(bench.url, bench.agent, model), tmp_path))
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


async def test_an_own_functions_lost_reply_is_told_and_it_is_not_run_again(bench: Bench, tmp_path: Path) -> None:
    bench.break_next_ticket()
    async with AsyncOnceward(bench.url, bench.agent) as client:

        @client.operation("open_ticket")
        async def open_ticket(title: str, body: str) -> dict[str, str]:
            """Opens a ticket at the helpdesk."""
            async with httpx.AsyncClient(trust_env=False) as http:
                made = await http.post(f"{bench.sandbox.url}/tickets", json={"title": title, "body": body})
                return dict(made.raise_for_status().json())

        model = agent.script(agent.TICKET, REORDERED, tool="open_ticket")
        texts = await agent.run(Agent(model, tools=[operation_tool(open_ticket, lambda ids: ids)]), tmp_path)
    first, second = saw("pydantic-ai own function", "lost reply, and the call regenerated", texts)
    assert first.startswith("unknown") and second.startswith("unknown")
    assert bench.tickets() == (1, 1)
    bench.settle_unknown({"id": "T-1001"})
