from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolReturnPart

from onceward import AsyncOnceward
from onceward.frameworks.pydantic_ai import operation_tool

agent = example("pydantic-ai")
REORDERED = dict(reversed(agent.TICKET.items()))


def outcomes(folder: Path) -> list[str]:
    """What the framework made of each result of a tool."""
    messages = ModelMessagesTypeAdapter.validate_json((folder / "pydantic-ai.json").read_bytes())
    return [part.outcome for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_a_lost_reply_is_told_once_and_nothing_is_sent_again(bench: Bench, tmp_path: Path) -> None:
    bench.break_next_ticket()
    (text,) = saw(
        "pydantic-ai",
        "lost reply",
        await agent.run(agent.build(bench.url, bench.agent, agent.script(agent.TICKET)), tmp_path),
    )
    assert text.startswith("unknown") and "T-1001" not in text and outcomes(tmp_path) == ["success"], "it is no retry"
    assert bench.tickets() == (1, 1)


async def test_a_run_repeated_after_a_lost_reply_gets_the_receipt(bench: Bench, wire: Wire, tmp_path: Path) -> None:
    wire.lose(1)
    first = agent.run(agent.build(wire.url, bench.agent, agent.script(agent.TICKET)), tmp_path)
    ended = await asyncio.gather(first, return_exceptions=True)
    assert isinstance(ended[0], BaseException), "a broken connection ends the run; the model is not asked to try again"
    again = await agent.run(agent.build(bench.url, bench.agent, agent.script(agent.TICKET)), tmp_path)
    (text,) = saw("pydantic-ai", "the run again after a broken connection", again)
    assert wire.lost == 1 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("pydantic-ai", bench, wire, tmp_path)
    saw("pydantic-ai", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


async def test_a_regenerated_call_under_another_tool_call_id_makes_one_ticket(bench: Bench, tmp_path: Path) -> None:
    model = agent.script(agent.TICKET, REORDERED)
    first, second = saw(
        "pydantic-ai", "regenerated", await agent.run(agent.build(bench.url, bench.agent, model), tmp_path)
    )
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


async def test_without_the_hook_a_regenerated_call_is_held_as_a_retry(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "with_operation_ids", lambda ids: None)
    ticket = {"title": "Without", "body": "a hook"}
    texts = await agent.run(agent.build(bench.url, bench.agent, agent.script(ticket, ticket)), tmp_path)
    first, second = saw("pydantic-ai", "without an id", texts)
    assert "T-1001" in first and "possible_duplicate" in second
    assert outcomes(tmp_path) == ["success", "retried"], "and the framework asks its model to try again"
    assert bench.tickets() == (1, 1)


async def test_arguments_that_do_not_fit_are_the_models_to_correct(bench: Bench, tmp_path: Path) -> None:
    model = agent.script({"title": "Printer", "body": "It burns.", "colour": "red"}, agent.TICKET)
    texts = await agent.run(agent.build(bench.url, bench.agent, model), tmp_path)
    assert "invalid_arguments" in texts[0] and "T-1001" in texts[1]
    assert outcomes(tmp_path) == ["retried", "success"]
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
