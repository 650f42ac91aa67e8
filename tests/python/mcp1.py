"""Runs a plan of tool calls with the official Python client 1.x and prints what its caller sees.

The plan is JSON on standard input: a list of {"tool", "arguments", "operation_id"?, "patience"? (seconds)}. The gateway is reached
over HTTP where GATEWAY names it; else COMMAND is started, as a host does, and spoken to over its pipe.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def one(session, call):
    meta = {"dev.onceward/operation-id": call["operation_id"]} if "operation_id" in call else None
    patience = timedelta(seconds=call.get("patience", 30))
    try:
        result = await session.call_tool(call["tool"], call["arguments"], read_timeout_seconds=patience, meta=meta)
    except McpError as error:
        return {"gave_up": str(error)}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


def gateway():
    if "GATEWAY" in os.environ:
        headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
        return streamablehttp_client(os.environ["GATEWAY"] + "/mcp", headers=headers)
    command, *args = json.loads(os.environ["COMMAND"])
    env = {"ONCEWARD_TOKEN": os.environ["TOKEN"]}
    return stdio_client(StdioServerParameters(command=command, args=args, env=env))


async def main():
    async with gateway() as (read, write, *_):
        async with ClientSession(read, write) as session:
            hello = await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            seen = [await one(session, call) for call in json.load(sys.stdin)]
    print(json.dumps({"version": hello.protocolVersion, "tools": tools, "seen": seen}))


asyncio.run(main())
