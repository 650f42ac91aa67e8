"""An agent of the Claude Agent SDK that opens one ticket, however often it is killed or repeats itself.

    pip install onceward claude-agent-sdk
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

The operation ids lie in ./claude-agent.db, written before each call. Kill it wherever you like and run it again.
"""

import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server
from script import ScriptedCli

from onceward import AsyncOnceward
from onceward.frameworks.claude_agent import mint, operation_tool
from onceward.frameworks.kept import KeptIds

TICKET = {"title": "Printer", "body": "It burns."}
SCHEMA = {
    "type": "object",
    "required": ["title", "body"],
    "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
}


def options(client, ids):
    async def create_ticket(arguments, operation):
        return (await client.call("create_ticket", arguments, operation=operation)).body

    tool = operation_tool("create_ticket", "Opens a ticket at the helpdesk.", SCHEMA, ids, create_ticket)
    before = HookMatcher("mcp__helpdesk__.*", hooks=[mint("helpdesk", ids)], on_failure="block")
    return ClaudeAgentOptions(
        mcp_servers={"helpdesk": create_sdk_mcp_server("helpdesk", tools=[tool])},
        allowed_tools=["mcp__helpdesk__create_ticket"],
        hooks={"PreToolUse": [before]},
    )


async def run(client, ids, cli):
    async with ClaudeSDKClient(options(client, ids), transport=cli) as claude:
        await claude.query("Open a ticket: the printer burns.")
        async for _ in claude.receive_response():
            pass


async def main():
    cli = ScriptedCli("mcp__helpdesk__create_ticket", TICKET)  # YOUR MODEL HERE: None, and the SDK starts its CLI
    async with AsyncOnceward() as client:  # ONCEWARD_URL, ONCEWARD_TOKEN
        await run(client, KeptIds("claude-agent.db", run="run-7"), cli)
    for text in cli.saw if cli else ():
        print("model saw:", text)


if __name__ == "__main__":
    asyncio.run(main())
