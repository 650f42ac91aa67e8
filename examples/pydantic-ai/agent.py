"""A Pydantic AI agent with the gateway's tools over MCP, that opens one ticket however often it is killed or repeats
itself.

    pip install onceward 'pydantic-ai-slim[mcp]'
    onceward serve                                    # in another terminal; prints a token
    ONCEWARD_TOKEN=ow_agent_… python agent.py

Its message history lies in ./pydantic-ai.json and its operation ids in ./pydantic-ai.db, both written before each call.
Kill it wherever you like and run it again: it goes on where it was.
"""

import asyncio
import os
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from onceward.frameworks.kept import KeptIds
from onceward.frameworks.pydantic_ai import with_operation_ids

TICKET = {"title": "Printer", "body": "It burns."}


def script(*turns, tool="create_ticket"):
    """A model without a key: it makes these calls, one message for each, and then is done. Each call has a new id."""

    def answer(messages, info):
        made = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=[ToolCallPart(tool, turns[made]) if made < len(turns) else TextPart("done")])

    return FunctionModel(answer)


def build(url, token, model):
    headers = {"Authorization": f"Bearer {token}"}
    gateway = MCPToolset(f"{url}/mcp", headers=headers, process_tool_call=with_operation_ids(lambda ids: ids))
    return Agent(model, deps_type=KeptIds, toolsets=[gateway])


async def run(agent, folder):
    """Begins the run, or goes on where it was. What the model saw of its tools."""
    history = folder / "pydantic-ai.json"
    begun = ModelMessagesTypeAdapter.validate_json(history.read_bytes()) if history.exists() else None
    prompt = None if begun else "Open a ticket: the printer burns."
    ids = KeptIds(folder / "pydantic-ai.db", run="run-7")
    async with agent.iter(prompt, message_history=begun, deps=ids) as steps:
        async for _ in steps:  # each step is about to be taken: the model's calls are on disk before a tool runs
            save(history, steps.all_messages())
    parts = [part for message in steps.all_messages() for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


def save(file, messages):
    written = file.with_suffix(".new")
    written.write_bytes(ModelMessagesTypeAdapter.dump_json(messages))
    written.replace(file)


async def main():
    url = os.environ.get("ONCEWARD_URL", "http://127.0.0.1:7070")
    model = script(TICKET)  # YOUR MODEL HERE: "anthropic:…"
    for text in await run(build(url, os.environ["ONCEWARD_TOKEN"], model), Path()):
        print("model saw:", text)


if __name__ == "__main__":
    asyncio.run(main())
