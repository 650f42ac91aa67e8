"""Pydantic AI: the gateway's tools over MCP, and own functions as tools.

    MCPToolset(url, headers=…, process_tool_call=with_operation_ids(lambda deps: deps.ids))
    Agent(…, tools=[operation_tool(create_report, lambda deps: deps.ids)])
    await agent.run(…, deps=Deps(ids=KeptIds("agent.db", run="conversation-7")))

What is no receipt becomes the tool's result, as one sentence. It is no `ModelRetry`: that tells the model to correct
the call and to try again, and a call in other words is another write. Nor is it a `ToolFailed`: nobody may be told that
it failed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ModelRetry, ToolFailed

from ..aio import AsyncOwnFunction
from ..errors import OncewardError, OperationRejected, Refused
from ..fingerprint import InvalidJson
from . import META, Ids, is_worth_repeating
from .mcp import error_in


def with_operation_ids(ids: Callable[[Any], Ids]) -> Callable[..., Awaitable[Any]]:
    """A `process_tool_call` for the gateway: puts the operation id on each call.

    A call of which no answer came is raised as the MCP client's own error and ends the run: run it again from its
    message history, with the same ids.
    """

    async def process(
        context: RunContext[Any], call: Callable[..., Awaitable[Any]], tool: str, arguments: dict[str, Any]
    ) -> Any:
        try:
            return await call(tool, arguments, metadata={META: ids(context.deps).of(tool, arguments)})
        except InvalidJson as error:  # nothing was sent
            raise ModelRetry(str(error)) from error
        except (ModelRetry, ToolFailed) as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
            said = _envelope(error.message)
            if said is None or isinstance(said, (Refused, OperationRejected)):
                raise  # nothing was done: the model may correct it
            return str(said)

    return process


def operation_tool(function: AsyncOwnFunction[..., Any], ids: Callable[[Any], Ids]) -> Tool[Any]:
    """An own function (`@client.operation` of an `AsyncOnceward`) as a tool, described from its type hints and
    docstring. What is worth repeating under the same id (no connection to the gateway, say) is raised and ends the run.
    """
    definition = function.definition

    async def invoke(context: RunContext[Any], **arguments: Any) -> Any:
        try:
            read = function.read(arguments)
            return await function.under(ids(context.deps).of(function.tool, read))(**read)
        except (OncewardError, InvalidJson) as error:
            if is_worth_repeating(error):
                raise
            return str(error)
        except TypeError as error:  # before the claim: the model left something out
            raise ModelRetry(str(error)) from error

    return Tool.from_schema(
        invoke, definition["name"], definition["description"], definition["input_schema"], takes_ctx=True
    )


def _envelope(text: str) -> OncewardError | None:
    try:
        sent = json.loads(text)
    except ValueError:
        return None
    return error_in(sent) if isinstance(sent, dict) else None
