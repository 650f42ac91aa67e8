"""Runs a plan of tool calls with the official Python client 2.x and prints what its caller sees.

The plan is JSON on standard input: a list of {"tool", "arguments", "operation_id"?, "patience"? (seconds)}. The gateway is reached
over HTTP where GATEWAY names it; else COMMAND is started, as a host does, and spoken to over its pipe.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


async def one(client, call):
    meta = {"dev.onceward/operation-id": call["operation_id"]} if "operation_id" in call else None
    try:
        result = await client.call_tool(
            call["tool"], call["arguments"], read_timeout_seconds=call.get("patience", 30), meta=meta
        )
    except MCPError as error:
        return {"gave_up": str(error)}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


def gateway(http):
    if "GATEWAY" in os.environ:
        return streamable_http_client(os.environ["GATEWAY"] + "/mcp", http_client=http)
    command, *args = json.loads(os.environ["COMMAND"])
    return StdioServerParameters(command=command, args=args, env={"ONCEWARD_TOKEN": os.environ["TOKEN"]})


async def main():
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(gateway(http)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            seen = [await one(client, call) for call in json.load(sys.stdin)]
            version = client.protocol_version
    print(json.dumps({"version": version, "tools": tools, "seen": seen}))


asyncio.run(main())
