"""A host of your own with the official MCP client (1.x or 2.x), that opens one ticket however often it is killed or its
model repeats itself.

    pip install onceward mcp
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

The operation ids lie in ./mcp.db, written before each call. Kill it wherever you like and run it again.
"""

import asyncio
import contextlib
import os

from onceward import OncewardError
from onceward.frameworks.kept import KeptIds
from onceward.frameworks.mcp import call_tool

TICKET = {"title": "Printer", "body": "It burns."}


@contextlib.asynccontextmanager
async def connected(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    try:
        import httpx2  # mcp 2.x
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError:  # mcp 1.x
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(f"{url}/mcp", headers=headers) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield session
        return
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            yield client


def script(*turns):
    """A model without a key: it makes these calls, one after the other, and then is done."""

    def model(results):
        return turns[len(results)] if len(results) < len(turns) else None

    return model


async def run(session, ids, model):
    """What the model saw of its tools."""
    results = []
    while (arguments := model(results)) is not None:
        operation = ids.of("create_ticket", arguments)  # on disk before the call
        try:
            results.append((await call_tool(session, "create_ticket", arguments, operation=operation)).content[0].text)
        except OncewardError as error:  # no receipt: one sentence, for the model or for a person
            results.append(str(error))
    return results


async def main():
    url = os.environ.get("ONCEWARD_URL", "http://127.0.0.1:7070")
    model = script(TICKET)  # YOUR MODEL HERE: a function of the results so far that gives the next call, or None
    async with connected(url, os.environ["ONCEWARD_TOKEN"]) as session:
        for text in await run(session, KeptIds("mcp.db", run="run-7"), model):
            print("model saw:", text)


if __name__ == "__main__":
    asyncio.run(main())
