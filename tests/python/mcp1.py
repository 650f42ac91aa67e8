"""Runs a plan with the official Python client 1.x and prints what its caller sees.

The plan is JSON on standard input: a list of calls {"tool", "arguments", "operation_id"?, "patience"? (seconds)} and of other
requests {"ask", ...}. The server is reached over HTTP where GATEWAY names one; else COMMAND is started, as a host does, and spoken
to over its pipe.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import PromptReference
from pydantic import AnyUrl


ASK = {
    "resources": lambda session, ask: session.list_resources(),
    "templates": lambda session, ask: session.list_resource_templates(),
    "resource": lambda session, ask: session.read_resource(AnyUrl(ask["uri"])),
    "prompts": lambda session, ask: session.list_prompts(),
    "prompt": lambda session, ask: session.get_prompt(ask["name"], ask.get("arguments")),
    "completion": lambda session, ask: session.complete(
        PromptReference(type="ref/prompt", name=ask["prompt"]), {"name": ask["name"], "value": ask["value"]}, ask.get("context")
    ),
    "tools": lambda session, ask: session.list_tools(),
    "level": lambda session, ask: session.set_logging_level(ask["level"]),
}


def shown(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def one(session, call):
    if "ask" in call:
        try:
            return {"result": shown(await ASK[call["ask"]](session, call))}
        except McpError as error:
            return {"error": error.error.model_dump(mode="json", exclude_none=True)}
    progress = []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    meta = {"dev.onceward/operation-id": call["operation_id"]} if "operation_id" in call else None
    patience = timedelta(seconds=call.get("patience", 30))
    try:
        result = await session.call_tool(
            call["tool"],
            call["arguments"],
            read_timeout_seconds=patience,
            progress_callback=on_progress if call.get("progress") else None,
            meta=meta,
        )
    except McpError as error:
        return {"gave_up": str(error)}
    return {"result": shown(result), "progress": progress}


def gateway():
    if "GATEWAY" in os.environ:
        headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
        return streamablehttp_client(os.environ["GATEWAY"] + "/mcp", headers=headers)
    command, *args = json.loads(os.environ["COMMAND"])
    env = {"ONCEWARD_TOKEN": os.environ["TOKEN"], **json.loads(os.environ.get("COMMAND_ENV", "{}"))}
    return stdio_client(StdioServerParameters(command=command, args=args, env=env))


logged = []


async def on_log(params):
    logged.append(params.model_dump(mode="json", exclude_none=True))


async def main():
    async with gateway() as (read, write, *_):
        async with ClientSession(read, write, logging_callback=on_log) as session:
            hello = await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            seen = [await one(session, call) for call in json.load(sys.stdin)]
    print(json.dumps({"version": hello.protocolVersion, "tools": tools, "seen": seen, "logged": logged}))


asyncio.run(main())
