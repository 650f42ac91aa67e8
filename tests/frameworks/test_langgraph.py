from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench import Bench, Wire, example, killed_between_effect_and_checkpoint, saw
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from onceward import Onceward, PossibleDuplicate
from onceward.frameworks.langgraph import TELL_THE_MODEL

agent = example("langgraph")


@pytest.fixture
def client(bench: Bench) -> Onceward:
    return Onceward(bench.url, bench.agent)


def resume(graph: Any, answer: str) -> Any:
    return graph.invoke(Command(resume=answer), agent.RUN, durability="sync")


def test_a_lost_reply_pauses_the_run_and_a_person_resumes_it(bench: Bench, client: Onceward) -> None:
    graph = agent.build(client, InMemorySaver())
    bench.break_next_ticket()
    paused = agent.run(graph)
    (waiting,) = paused["__interrupt__"]
    print(f"person saw [langgraph/lost reply]: {waiting.value}")
    assert waiting.value["outcome"] == "unknown" and agent.seen(paused) == []
    assert agent.seen(resume(graph, "look again")) == [], "it is still unknown, so it still waits"
    bench.settle_unknown({"id": "T-1001"})
    (text,) = saw("langgraph", "lost reply, settled", agent.seen(resume(graph, "it is settled")))
    assert "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_lost_reply_is_told_once_if_the_person_says_so(bench: Bench, client: Onceward) -> None:
    graph = agent.build(client, InMemorySaver())
    bench.break_next_ticket()
    agent.run(graph)
    (text,) = saw("langgraph", "lost reply, told", agent.seen(resume(graph, TELL_THE_MODEL)))
    assert text.startswith("unknown") and "T-1001" not in text
    assert bench.tickets() == (1, 1)


def test_a_retry_by_the_framework_gets_the_receipt(bench: Bench, wire: Wire) -> None:
    with Onceward(wire.url, bench.agent) as client:
        wire.lose(3)  # every one that the client asks for, so that the node's RetryPolicy has to
        (text,) = saw("langgraph", "framework retry", agent.seen(agent.run(agent.build(client, InMemorySaver()))))
    assert wire.lost == 3 and "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_a_process_killed_between_effect_and_checkpoint_makes_one_ticket(
    bench: Bench, wire: Wire, tmp_path: Path
) -> None:
    said = killed_between_effect_and_checkpoint("langgraph", bench, wire, tmp_path)
    saw("langgraph", "killed", said.splitlines())
    assert "model saw:" in said and "T-1001" in said
    assert bench.tickets() == (1, 1)


def test_a_regenerated_call_under_another_tool_call_id_makes_one_ticket(bench: Bench, client: Onceward) -> None:
    reordered = dict(reversed(agent.TICKET.items()))
    graph = agent.build(client, InMemorySaver(), agent.Script(turns=[agent.TICKET, reordered]))
    first, second = saw("langgraph", "regenerated", agent.seen(agent.run(graph)))
    assert first == second and "T-1001" in first
    assert bench.tickets() == (1, 1)


def test_two_calls_of_one_message_that_differ_are_two_tickets(bench: Bench, client: Onceward) -> None:
    other = {"title": "Scanner", "body": "It burns."}
    graph = agent.build(client, InMemorySaver(), agent.Script(turns=[agent.TICKET, other]))
    agent.run(graph)
    assert bench.tickets() == (2, 2)


def test_one_call_that_waits_does_not_repeat_the_other_of_its_message(bench: Bench, client: Onceward) -> None:
    class Both(agent.Script):  # type: ignore[name-defined, misc]
        """Makes two calls in one message."""

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            result = super()._generate(messages, *args, **kwargs)
            message = result.generations[0].message
            for call in list(message.tool_calls):
                other = {"title": "Scanner", "body": "It burns, too."}
                message.tool_calls.append({**call, "id": call["id"] + "_b", "args": other})
            return result

    graph = agent.build(client, InMemorySaver(), Both())
    bench.break_next_ticket()
    paused = agent.run(graph)
    assert len(paused["__interrupt__"]) == 1
    assert bench.tickets() == (2, 2)
    bench.settle_unknown({"id": "T-settled"})
    texts = saw("langgraph", "one of two waits", agent.seen(resume(graph, "it is settled")))
    assert len(texts) == 2 and sum("T-settled" in text for text in texts) == 1
    assert bench.tickets() == (2, 2)


def test_a_run_forked_from_before_its_ids_is_another_intention(bench: Bench, client: Onceward) -> None:
    graph = agent.build(client, InMemorySaver())
    agent.run(graph)
    (before,) = (one for one in graph.get_state_history(agent.RUN) if one.next == ("mint",))
    graph.invoke(None, before.config, durability="sync")
    assert bench.tickets() == (2, 2)


def test_a_run_that_goes_on_from_before_its_tool_has_the_same_intention(bench: Bench, client: Onceward) -> None:
    graph = agent.build(client, InMemorySaver())
    agent.run(graph)
    (before,) = (one for one in graph.get_state_history(agent.RUN) if one.next == ("tools",))
    again = graph.invoke(None, before.config, durability="sync")
    (text,) = saw("langgraph", "from an earlier checkpoint", agent.seen(again))
    assert "T-1001" in text
    assert bench.tickets() == (1, 1)


def test_arguments_that_are_no_strict_json_are_told_and_nothing_is_sent(bench: Bench, client: Onceward) -> None:
    odd = {"title": "Printer", "body": "half a pair: \ud800"}
    graph = agent.build(client, InMemorySaver(), agent.Script(turns=[odd]))
    (text,) = agent.seen(agent.run(graph))
    assert "surrogate" in text
    assert bench.tickets() == (0, 0)


def test_without_an_operation_id_a_regenerated_call_is_held(bench: Bench, client: Onceward) -> None:
    @tool
    def create_ticket(title: str, body: str) -> str:
        """A tool without the adapter."""
        try:
            return str(client.call("create_ticket", {"title": title, "body": body}).body)
        except PossibleDuplicate as error:
            return str(error)

    ticket = {"title": "Without", "body": "an operation id"}
    texts = saw("langgraph", "without an id", [create_ticket.invoke(ticket), create_ticket.invoke(ticket)])
    assert "T-1001" in texts[0] and texts[1].startswith("possible_duplicate")
    assert bench.tickets() == (1, 1)


def test_without_the_node_that_mints_nothing_is_called(
    bench: Bench, client: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "mint", lambda state: {})
    with pytest.raises(RuntimeError, match="mint"):
        agent.run(agent.build(client, InMemorySaver()))
    assert bench.tickets() == (0, 0)
