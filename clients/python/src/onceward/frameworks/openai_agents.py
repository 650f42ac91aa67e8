"""OpenAI Agents SDK: the gateway's tools over MCP, and own functions as function tools.

    MCPServerStreamableHttp(params=…, tool_meta_resolver=operation_meta(lambda context: context.ids))
    Agent(…, tools=[operation_tool(create_report, lambda context: context.ids)])
    await Runner.run(agent, …, context=Run(ids=KeptIds("agent.db", run="conversation-7")))

`ids` is found in the run's context, so that one agent serves many runs. It is kept by the application: the SDK's
sessions have the messages of turns that ended, which is too late for a call that is under way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from ..aio import AsyncOwnFunction
from ..errors import OncewardError
from ..fingerprint import InvalidJson
from . import META, Ids, is_worth_repeating


def operation_meta(ids: Callable[[Any], Ids]) -> Callable[[Any], dict[str, str]]:
    """A `tool_meta_resolver` for the gateway: puts the operation id on each call, and on the SDK's own retries."""

    def resolve(call: Any) -> dict[str, str]:
        return {META: ids(call.run_context.context).of(call.tool_name, call.arguments or {})}

    return resolve


def operation_tool(function: AsyncOwnFunction[..., Any], ids: Callable[[Any], Ids]) -> FunctionTool:
    """An own function (`@client.operation` of an `AsyncOnceward`) as a function tool, described from its type hints
    and docstring.

    What is no receipt is the tool's result, as one sentence: the model hears of it once and the run goes on. What is
    worth repeating under the same id (no connection to the gateway, say) is raised and ends the run; run it again with
    the same ids.
    """
    definition = function.definition

    async def invoke(context: ToolContext[Any], sent: str) -> Any:
        try:
            arguments = function.read(json.loads(sent or "{}"))
            operation = ids(context.context).of(function.tool, arguments)
            return json.dumps(await function.under(operation)(**arguments))
        except (OncewardError, InvalidJson, TypeError) as error:
            if is_worth_repeating(error):
                raise
            return str(error)

    return FunctionTool(
        name=definition["name"],
        description=definition["description"],
        params_json_schema=definition["input_schema"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
