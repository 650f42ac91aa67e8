"""Runs a plan with the official Python client 2.x and prints what its caller sees.

The plan is JSON on standard input: a list of calls {"tool", "arguments", "operation_id"?, "patience"? (seconds)} and of other
requests {"ask", ...}. The server is reached over HTTP where GATEWAY names one; else COMMAND is started, as a host does, and spoken
to over its pipe.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference


ASK = {
    "resources": lambda client, ask: client.list_resources(),
    "templates": lambda client, ask: client.list_resource_templates(),
    "resource": lambda client, ask: client.read_resource(ask["uri"]),
    "prompts": lambda client, ask: client.list_prompts(),
    "prompt": lambda client, ask: client.get_prompt(ask["name"], ask.get("arguments")),
    "completion": lambda client, ask: client.complete(
        PromptReference(name=ask["prompt"]), {"name": ask["name"], "value": ask["value"]}, ask.get("context")
    ),
    "tools": lambda client, ask: client.list_tools(),
    "level": lambda client, ask: client.set_logging_level(ask["level"]),
}


def shown(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def one(client, call):
    if "ask" in call:
        try:
            return {"result": shown(await ASK[call["ask"]](client, call))}
        except MCPError as error:
            return {"error": error.error.model_dump(mode="json", exclude_none=True)}
    progress = []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    meta = {"dev.onceward/operation-id": call["operation_id"]} if "operation_id" in call else None
    try:
        result = await client.call_tool(
            call["tool"],
            call["arguments"],
            read_timeout_seconds=call.get("patience", 30),
            progress_callback=on_progress if call.get("progress") else None,
            meta=meta,
        )
    except MCPError as error:
        return {"gave_up": str(error)}
    return {"result": shown(result), "progress": progress}


def gateway(http):
    if "GATEWAY" in os.environ:
        return streamable_http_client(os.environ["GATEWAY"] + "/mcp", http_client=http)
    command, *args = json.loads(os.environ["COMMAND"])
    env = {"ONCEWARD_TOKEN": os.environ["TOKEN"], **json.loads(os.environ.get("COMMAND_ENV", "{}"))}
    return StdioServerParameters(command=command, args=args, env=env)


logged = []


async def on_log(params):
    logged.append(params.model_dump(mode="json", exclude_none=True))


async def main():
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(gateway(http), logging_callback=on_log) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            seen = [await one(client, call) for call in json.load(sys.stdin)]
            version = client.protocol_version
    print(json.dumps({"version": version, "tools": tools, "seen": seen, "logged": logged}))


asyncio.run(main())
