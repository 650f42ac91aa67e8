"""Claude Agent SDK: tools of an in-process server that run under an operation id, and the hook that mints it.

    ids = KeptIds("agent.db", run="conversation-7")
    server = create_sdk_mcp_server("helpdesk", tools=[operation_tool("create_ticket", …, ids, create_ticket)])
    ClaudeAgentOptions(
        mcp_servers={"helpdesk": server},
        hooks={"PreToolUse": [HookMatcher("mcp__helpdesk__.*", hooks=[mint("helpdesk", ids)], on_failure="block")]},
    )

The hook runs when the model has decided on a call, before anybody is asked for permission: an id that is minted there
outlives a process that ends while it waits. The `tool_use_id` is no identity: a call that is made anew has another one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from claude_agent_sdk import SdkMcpTool

from ..errors import OncewardError
from ..fingerprint import InvalidJson
from . import Ids


def mint(server: str, ids: Ids) -> Callable[[Any, str | None, Any], Awaitable[Any]]:
    """A `PreToolUse` hook: the id of a call of this server is stored before the call is permitted."""
    prefix = f"mcp__{server}__"

    async def before(call: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        if call["tool_name"].startswith(prefix):
            ids.of(call["tool_name"].removeprefix(prefix), call["tool_input"])
        return {}  # no opinion: permission is asked for as ever

    return before


def operation_tool(
    name: str,
    description: str,
    input_schema: dict[str, Any],
    ids: Ids,
    call: Callable[[dict[str, Any], str], Awaitable[Any]],
) -> SdkMcpTool[Any]:
    """A tool for `create_sdk_mcp_server`. `call` gets the arguments and their operation id, and gives what is JSON:
    with an `AsyncOnceward`, `(await client.call(…, operation=operation)).body`, or an own function,
    `await create_report.under(operation)(**arguments)`.

    What is no receipt is an error result with one sentence. Claude may repeat the call: it has the same id.
    """

    async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            value = await call(arguments, ids.of(name, arguments))
        except (OncewardError, InvalidJson) as error:
            return {"content": [{"type": "text", "text": str(error)}], "is_error": True}
        return {"content": [{"type": "text", "text": json.dumps(value)}]}

    return SdkMcpTool(name, description, input_schema, handle)
