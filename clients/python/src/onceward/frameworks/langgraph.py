"""LangGraph: operation ids in the checkpoint, and a pause where nobody knows.

    class State(OperationState): ...                 # messages, operation_ids, and what is yours

    @tool
    def create_ticket(title: str, body: str, operation: OperationId) -> dict:
        return client.call("create_ticket", {"title": title, "body": body}, operation=operation).body

    graph.add_node("mint", mint)                     # the checkpoint after it has the ids, before any tool runs
    graph.add_node("tools", tool_node([create_ticket]))
    graph.add_conditional_edges("mint", each_call, ["tools"])
    graph.compile(checkpointer=…).invoke(…, durability="sync")

`durability="sync"` is needed: otherwise a step begins while the checkpoint before it is still being written.
"""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langgraph.graph import MessagesState
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, Send, interrupt

from ..errors import ApprovalRequired, OncewardError, OperationError, OperationUnknown
from ..fingerprint import InvalidJson
from ..ids import OperationIds
from . import is_worth_repeating

OperationId = Annotated[str, InjectedState("operation_id")]
"""The parameter of a tool that takes its operation id. The model neither sees nor sets it."""

TELL_THE_MODEL = "tell the model"
"""What a person resumes with so that the model hears of an unknown one. With anything else it is asked for again."""


class OperationState(MessagesState):
    """The state of a graph: messages, and the ids of their calls."""

    operation_ids: Annotated[dict[str, str], operator.or_]


def mint(state: Any) -> dict[str, dict[str, str]]:
    """The node before the tools: gives each call of the last message the id of its intention. An equal call of the
    same thread, whatever its tool-call id, gets the id that is there.
    """
    ids = OperationIds(dict(state.get("operation_ids", {})))
    for call in state["messages"][-1].tool_calls:
        try:
            ids.of(call["name"], call["args"])
        except InvalidJson:
            continue  # `_prepared` tells the model
    return {"operation_ids": ids.state}


def each_call(state: Any) -> list[Send]:
    """The edge from `mint` to the tools: each call is a task of its own, so that one that waits holds up no other."""
    return [Send("tools", [call]) for call in state["messages"][-1].tool_calls]


def tool_node(tools: list[Any]) -> ToolNode:
    """The node `tools`. Outcomes that need a person pause the run; what is worth repeating under the same id is raised,
    for a `RetryPolicy` or a resumption; of everything else the model is told the sentence.
    """
    return ToolNode(tools, wrap_tool_call=with_operation_id, awrap_tool_call=awith_operation_id)


def with_operation_id(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]
) -> ToolMessage | Command[Any]:
    """Runs a tool under the id in the state, also as `wrap_tool_call` of a `ToolNode` or a middleware of your own."""
    while True:
        try:
            result: ToolMessage | Command[Any] = execute(_prepared(request))
            return result
        except (OncewardError, InvalidJson) as error:
            if told := _told(request, error):
                return told


async def awith_operation_id(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
) -> ToolMessage | Command[Any]:
    """As `with_operation_id`."""
    while True:
        try:
            result: ToolMessage | Command[Any] = await execute(_prepared(request))
            return result
        except (OncewardError, InvalidJson) as error:
            if told := _told(request, error):
                return told


def _prepared(request: ToolCallRequest) -> ToolCallRequest:
    call = request.tool_call
    operation = OperationIds(request.state.get("operation_ids", {})).known(call["name"], call["args"])
    if operation is None:
        raise RuntimeError("this call has no operation id in the state: the node `mint` comes before the tools")
    return request.override(state={**request.state, "operation_id": operation})


def _told(request: ToolCallRequest, error: OncewardError | InvalidJson) -> ToolMessage | None:
    """What the model is told; `None` once a person has said that it should be asked for again."""
    if is_worth_repeating(error):
        raise error
    if (
        isinstance(error, (OperationUnknown, ApprovalRequired))
        and interrupt(_question(request, error)) != TELL_THE_MODEL
    ):
        return None
    call = request.tool_call
    return ToolMessage(str(error), name=call["name"], tool_call_id=call["id"], status="error")


def _question(request: ToolCallRequest, error: OperationError) -> dict[str, Any]:
    """What the person sees in the interrupt."""
    call = request.tool_call
    envelope = {"operation_id": error.operation_id, "outcome": error.outcome, "message": error.message}
    return {"tool": call["name"], "arguments": call["args"], **envelope}
